"""What a search maximises, and over which replies, each a tuple of token ids."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import torch
from numpy import ndarray

from .. import InputError
from ..models import conversations
from ..models.reward_models import RewardModel
from ..scoring import vocabulary
from .as_text import RoundTrip

# direction of a search -> sign of the reward
DIRECTIONS = {"optimal": 1, "pessimal": -1}
REPLY_MODES = ("text", "ids")
ALLOWED = ("all", "no specials", "printable")
# rounds of proposals in which conditions may turn some down
PATIENCE_WITH_CONDITIONS = 100
MOST_DRAWS = 10_000  # of random replies, until enough satisfy the conditions
# proposals looked at together for every reply wanted: about so many do not survive as text
PER_SURVIVOR = 4
Reply = tuple[int, ...]


def allowed_ids(model: RewardModel, which: str = "printable") -> ndarray:
    """Return the token ids that a reply may hold, (allowed,) ascending.

    "no specials" leaves out control and added tokens, and "printable" also other texts that do not
    show. InputError for another name than ALLOWED.
    """
    refuse_other("allowed tokens", which, ALLOWED)
    tokenizer = model.tokenizer
    tokens = conversations.vocabulary(tokenizer)
    if which != "all":
        special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        tokens = tokens[~tokens["token_id"].isin(special)]
    if which == "printable":
        # More than blanks, and all of it shows: no control characters, no broken UTF-8
        texts = tokens["text"]
        tokens = tokens[[_is_visible(text) for text in texts]]
    return tokens["token_id"].to_numpy()


def _is_visible(text: str) -> bool:
    return text.isprintable() and text.strip() != "" and "\ufffd" not in text


def refuse_other(what: str, value: str, known: Iterable[str]) -> None:
    """Raise InputError unless the value is one of the known ones."""
    if value not in known:
        raise InputError(f"{what} must be one of {', '.join(known)}, not {value!r}")


def _refuse_unknown(allowed: ndarray, model: RewardModel) -> None:
    """Raise InputError unless two ids or more are allowed, all of the model's vocabulary."""
    vocabulary = list(model.tokenizer.get_vocab().values())
    known = np.count_nonzero(np.isin(allowed, vocabulary))
    if known < max(2, len(allowed)):
        raise InputError(
            f"{model.name} has {known} of the {len(allowed)} allowed tokens; allow two or more, "
            "all of its vocabulary, as 'all'"
        )


class Objective:
    """What a search maximises: the reward of a reply to a prompt ("optimal"), or minus the reward
    ("pessimal").

    - allowed_ids: the ids that a swap may bring in, see the function of this name
    - reply_mode "text": only replies whose ids come back when the conversation is written out and
      read again
    - reply_mode "ids": everything that a program could feed to the model

    InputError for another direction or mode, and for ids that the model lacks.
    """

    def __init__(
        self,
        model: RewardModel,
        prompt: str,
        direction: str,
        allowed_ids: Sequence[int] | ndarray,
        reply_mode: str = "text",
    ):
        refuse_other("direction", direction, DIRECTIONS)
        refuse_other("reply_mode", reply_mode, REPLY_MODES)
        self.model = model
        self.prompt = prompt
        self.direction = direction
        self.sign = DIRECTIONS[direction]
        self.allowed = np.unique(np.asarray(allowed_ids, dtype=np.int64))
        _refuse_unknown(self.allowed, model)
        self.reply_mode = reply_mode
        self.conditions: list[Callable[[ndarray], ndarray]] = []
        if reply_mode == "text":
            self.conditions.append(self.round_trip)
        some = [(int(i),) for i in self.allowed[:4]]
        inputs = model.inputs_for(prompt, some, reply_mode="ids")
        self.closing = np.array(inputs.conversation.closing_ids, dtype=np.int64)
        self.scorer = vocabulary.reader_of(model)(model, inputs)
        self.gradients = 0  # how many were taken
        self.distance_to = lru_cache(maxsize=256)(self._distance_to)

    def values(self, replies: ndarray) -> ndarray:
        """Return sign * reward for replies of ids, (replies, n), as (replies,) float32."""
        rewards = self.scorer.rewards(self.with_closing(replies).tolist())
        return self.checked(replies, rewards)

    def with_closing(self, replies: ndarray) -> ndarray:
        """Return what the model reads after the prompt for replies of one length, (replies, n
        and closing) ids.
        """
        shape = (len(replies), len(self.closing))
        closing = np.broadcast_to(self.closing, shape)
        return np.concatenate([replies, closing], axis=1)

    def checked(self, replies: ndarray, rewards: ndarray) -> ndarray:
        """Return the values of these replies, (replies,) float32; InputError for a reward that
        is not finite.
        """
        values = self.sign * rewards
        if not np.isfinite(values).all():
            reply = replies[~np.isfinite(values)][0].tolist()
            raise InputError(
                f"the reward of the reply {reply} is not finite; load the model with "
                "dtype='float32'"
            )
        return values

    def gains(self, reply: Reply, centred: bool = True) -> ndarray:
        """Return the first-order change of the value for every swap of one token, (n, allowed);
        staying brings 0.

        grad . (e_v - e_current), with the embeddings as the model's embedding module gives them.
        centred=False leaves e_current out, which shifts all swaps of a position alike.
        """
        [gradient] = self.scorer.gradients([(*reply, *self.closing)])
        return self.gains_along(reply, gradient, centred)

    def gains_along(
        self,
        reply: Reply,
        gradient: torch.Tensor,
        centred: bool = True,
    ) -> ndarray:
        """Return the gains of a reply, (n, allowed), from the gradient of its reward, (n and
        closing, d).
        """
        self.gradients += 1
        table = self.embeddings  # (allowed, d)
        gradient = self.sign * gradient[: len(reply)]  # (n, d)
        gains = (gradient.to(table.dtype) @ table.T).float()
        if centred:
            present = self._embed(list(reply)).float()
            gains -= (gradient * present).sum(1, keepdim=True)
        return gains.cpu().numpy()

    def reversed(self) -> "Objective":
        """Return the objective of the other direction. The two share what the model read and
        what was looked up.
        """
        # looked up before the copy is made, and so only once
        _ = self.embeddings, self.round_trip
        other = copy.copy(self)
        (other.direction,) = DIRECTIONS.keys() - {self.direction}
        other.sign = -self.sign
        other.gradients = 0
        return other

    def distances(self, reply: Reply) -> ndarray:
        """Return the Euclidean distance of every allowed token's embedding from those of the
        reply, (n, allowed).
        """
        return np.stack([self.distance_to(token) for token in reply])

    def _distance_to(self, token: int) -> ndarray:
        # Without the matrix product, whose rounding would put a token at some distance from itself.
        distances = torch.cdist(
            self._embed([token]).float(),
            self.embeddings.float(),
            compute_mode="donot_use_mm_for_euclid_dist",
        )
        return distances[0].cpu().numpy()

    @cached_property
    def embeddings(self) -> torch.Tensor:
        """Return the embeddings of the allowed tokens, (allowed, d), in the model's dtype."""
        return self._embed(self.allowed.tolist())

    def _embed(self, ids: list[int]) -> torch.Tensor:
        embed = self.model.backbone.get_input_embeddings()
        with torch.no_grad():
            return embed(torch.tensor(ids, device=self.model.device))

    def satisfied(self, replies: ndarray) -> ndarray:
        """Return whether each reply satisfies every condition, (replies,) bool."""
        satisfied = np.ones(len(replies), dtype=bool)
        for condition in self.conditions:
            if satisfied.any():
                satisfied[satisfied] = condition(replies[satisfied])
        return satisfied

    def may_survive(self, replies: ndarray) -> ndarray:
        """Return whether each reply may survive as text by what is known of its neighbours,
        (replies,) bool.
        """
        return self.round_trip.neighbours(replies)

    def all_swaps(self, reply: Reply, position: int) -> ndarray:
        """Return the reply with every other allowed token at this position that satisfies
        conditions, (replies, n).
        """
        others = self.allowed[self.may_swap(reply)[position]]
        replies = np.tile(reply, (len(others), 1))
        replies[:, position] = others
        return replies[self.satisfied(replies)]

    def may_swap(self, reply: Reply) -> ndarray:
        """Return which swaps change a token, (n, allowed) bool."""
        return self.allowed != np.array(reply)[:, None]

    def draw(self, n: int, rng: np.random.Generator) -> Reply:
        """Return a random reply of n tokens that keeps the conditions; () if none was found."""
        if self.reply_mode == "text" and self.round_trip.learns:
            return self.round_trip.chain(n, self.allowed, rng)
        return as_reply(rng.choice(self.allowed, size=n))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[Reply]:
        """Yield random replies, a limited number, as few may be left to find."""
        for _ in range(MOST_DRAWS):
            if reply := self.draw(n, rng):
                yield reply

    def take(self, proposed: Iterator[Reply], seen: set[Reply], width: int) -> ndarray:
        """Return the first `width` proposed replies, unseen and satisfying the conditions, (up to
        width, n) ids.

        All that were turned down are seen from then on. There are fewer if hardly a proposal is
        left that satisfies.
        """
        taken: list[list[int]] = []
        at_once = PER_SURVIVOR if self.reply_mode == "text" else 1
        new = _unseen(proposed, seen)
        for _ in range(PATIENCE_WITH_CONDITIONS):
            wanted = width - len(taken)
            candidates = list(islice(new, at_once * wanted))
            if not candidates:
                break
            replies = np.array(candidates)
            if at_once > 1:
                replies = replies[self.may_survive(replies)]
                seen.difference_update(map(as_reply, replies[wanted:]))
                replies = replies[:wanted]
            taken += replies[self.satisfied(replies)].tolist()
        return np.array(taken, dtype=np.int64)

    @cached_property
    def round_trip(self) -> RoundTrip:
        """Return the condition that a reply to this prompt survives as text."""
        return RoundTrip(self.model, self.prompt)

    def reward_of_text(self, text: str) -> float:
        """Return the reward of a text as the reply, put through the chat template as a person's
        would be.
        """
        (ids,) = self.round_trip.inputs_of([text])
        prefix = self.scorer.inputs.prefix_ids
        rest = ids[len(prefix) :]
        if rest and ids[: len(prefix)] == prefix:
            return float(self.scorer.rewards([rest])[0])
        # it merges with the prompt's end
        [reward] = vocabulary.score_replies(self.model, self.prompt, [text])
        return float(reward)


def _unseen(proposed: Iterator[Reply], seen: set[Reply]) -> Iterator[Reply]:
    """Yield the replies that were not seen before; they are seen from then on."""
    for reply in proposed:
        if reply not in seen:
            seen.add(reply)
            yield reply


def as_reply(ids: ndarray) -> Reply:
    """Return the ids as a tuple of Python integers, which can be looked up."""
    return tuple(ids.tolist())


# --- several searches at once ---------------------------------------------------------------------


def values_together(
    objectives: Sequence[Objective],
    replies: Sequence[ndarray],
) -> list[ndarray]:
    """Return the values of each objective's replies, (replies,) float32 each, as from
    Objective.values.

    Replies of one length to a prompt that objectives share (Objective.reversed) go through the
    model together.
    """
    values = [np.empty(0, dtype=np.float32)] * len(objectives)
    lengths = [part.shape[1] for part in replies]
    for group in _read_alike(objectives, lengths):
        first = objectives[group[0]]
        if len(group) == 1:
            [i] = group
            values[i] = first.values(replies[i])
            continue
        of_group = [replies[i] for i in group]
        ids = first.with_closing(np.concatenate(of_group))
        rewards = first.scorer.rewards(ids.tolist())
        ends = np.cumsum(list(map(len, of_group)))
        parts = np.split(rewards, ends[:-1])
        for i, part in zip(group, parts, strict=True):
            values[i] = objectives[i].checked(replies[i], part)
    return values


def gains_together(
    objectives: Sequence[Objective],
    replies: Sequence[Reply],
    centred: Sequence[bool],
) -> list[ndarray]:
    """Return the gains of each objective's reply, (n, allowed) each, as from Objective.gains.

    Replies of one length to a prompt that objectives share go through the model together, forward
    and backward.
    """
    gains = [np.empty((0, 0), dtype=np.float32)] * len(objectives)
    lengths = list(map(len, replies))
    for group in _read_alike(objectives, lengths):
        first = objectives[group[0]]
        if len(group) == 1:
            [i] = group
            gains[i] = first.gains(replies[i], centred[i])
            continue
        # (group, n and closing)
        ids = first.with_closing(np.array([replies[i] for i in group]))
        gradients = first.scorer.gradients(ids.tolist())
        for i, gradient in zip(group, gradients, strict=True):
            gains[i] = objectives[i].gains_along(replies[i], gradient, centred[i])
    return gains


def _read_alike(
    objectives: Sequence[Objective],
    lengths: Sequence[int],
) -> list[list[int]]:
    """Return the numbers of the objectives in groups whose replies have one length and follow
    one read prompt.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    pairs = zip(objectives, lengths, strict=True)
    for number, (objective, length) in enumerate(pairs):
        read_alike = (id(objective.scorer), length)
        groups.setdefault(read_alike, []).append(number)
    return list(groups.values())
