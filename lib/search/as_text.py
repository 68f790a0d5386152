"""Replies that survive as text: if the whole conversation is written out and read again, they have
the same ids.

Whether a token survives depends almost always on the token before it, so the tokenizer is asked
once for every pair.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy import ndarray

from ..models import conversations
from ..models.reward_models import RewardModel

FIRST = -1  # stands before the first token of a reply
TRIMMED = (" love", "love")  # are one where the template trims a reply
Pair = tuple[int, int]


def texts_of(
    model: RewardModel,
    replies: Iterable[Sequence[int]] | ndarray,
) -> list[str]:
    """Return the replies decoded, control tokens and blanks as they are."""
    ids = [[int(i) for i in reply] for reply in replies]
    tokenizer = model.tokenizer
    # past what transformers does around it, which takes twice as long again
    if tokenizer.is_fast:
        return [
            tokenizer.backend_tokenizer.decode(reply, skip_special_tokens=False)
            for reply in ids
        ]
    return tokenizer.batch_decode(ids, clean_up_tokenization_spaces=False)


class RoundTrip:
    """The condition that a reply to the prompt survives as text: template and tokenizer give
    back the same ids.
    """

    def __init__(self, model: RewardModel, prompt: str):
        self.model = model
        self.conversation = model.conversation(prompt)
        self.known = _known(
            model.hub_id,
            model.revision,
            str(model.tokenizer.chat_template),
        )
        self.between = conversations.between_control_tokens(
            model.tokenizer, self.conversation
        )
        self.trims = (
            self.between is not None
            and len(set(conversations.render(model.tokenizer, prompt, TRIMMED))) == 1
        )

    def __call__(self, replies: ndarray) -> ndarray:
        """Return whether each reply survives, (replies,) bool, every one put through template
        and tokenizer.
        """
        replies = np.asarray(replies)
        if not len(replies):
            return np.zeros(0, dtype=bool)
        texts = texts_of(self.model, replies)
        around = self.conversation
        if self.between is None:
            return _are(
                self.inputs_of(texts),
                around.prefix_ids,
                replies,
                around.closing_ids,
            )
        rendered = conversations.render(self.model.tokenizer, around.prompt, texts)
        around_reply = [self.between.of(text) for text in rendered]
        return self._come_back(around_reply, replies)

    def inputs_of(self, texts: list[str]) -> list[tuple[int, ...]]:
        """Return the whole model input of each text as a reply to the prompt."""
        encoded = self.model.encode(self.conversation, texts)
        return [tuple(ids) for ids in encoded]

    @property
    def learns(self) -> bool:
        """Return whether neighbours are asked about; without control tokens every reply is read
        whole.
        """
        return self.between is not None

    def neighbours(self, replies: ndarray) -> ndarray:
        """Return whether each reply's first token can stand first, and each other behind the one
        before, (replies,).

        It wrongly rejects few: 2 of 18,500 random replies of 2 to 5 tokens that survive, as parts
        of a longer word.
        """
        can = np.ones(len(replies), dtype=bool)
        if self.between is None:
            return can
        before = np.concatenate(
            [np.full((len(replies), 1), FIRST), replies[:, :-1]],
            axis=1,
        )
        # of the replies that are left, so that less is asked
        for place in range(replies.shape[1]):
            pairs = list(
                zip(
                    before[can, place].tolist(),
                    replies[can, place].tolist(),
                    strict=True,
                )
            )
            can[can] = self._can(pairs)
        return can

    def chain(
        self,
        n: int,
        allowed: ndarray,
        rng: np.random.Generator,
    ) -> tuple[int, ...]:
        """Return a random reply of n of these tokens that can stand behind each other; () if
        none can.
        """
        reply = [FIRST]
        for _ in range(n):
            tokens = rng.permutation(allowed).tolist()
            if (at := self._first_that_can(reply[-1], tokens)) is None:
                return ()
            reply.append(tokens[at])
        return tuple(reply[1:])

    def _first_that_can(self, before: int, tokens: list[int]) -> int | None:
        """Return the place of the first token that can stand behind this one; None if none can.
        Ask of few at first.
        """
        at = 0
        count = 8
        while at < len(tokens):
            pairs = [(before, token) for token in tokens[at : at + count]]
            can = self._can(pairs)
            if can.any():
                return at + int(can.argmax())
            at = at + count
            count = 4 * count
        return None

    def _can(self, pairs: list[Pair]) -> ndarray:
        """Return whether the second token of each pair can stand behind the first, (pairs,)
        bool.
        """
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.known]
        if first := [pair for pair in new if pair[0] == FIRST]:
            texts = texts_of(self.model, [pair[1:] for pair in first])
            trimmed = [self.trims and text[:1].isspace() for text in texts]
            cannot = itertools.compress(first, trimmed)
            self.known |= dict.fromkeys(cannot, False)
            asked = [pair for pair in first if pair not in self.known]
            self.known |= (
                dict(zip(asked, self(np.array(asked)[:, 1:]).tolist(), strict=True))
                if asked
                else {}
            )
        if (later := [pair for pair in new if pair[0] != FIRST]) and self.between:
            texts = [
                self.between.opening + text for text in texts_of(self.model, later)
            ]
            self.known |= dict(
                zip(
                    later,
                    self._come_back(texts, np.array(later)).tolist(),
                    strict=True,
                )
            )
        return np.array([self.known[pair] for pair in pairs], dtype=bool)

    def _come_back(self, texts: list[str], replies: ndarray) -> ndarray:
        """Return whether each text is read as what opens the reply and then the reply's own ids,
        (texts,) bool.
        """
        # past what transformers does around it: half the time
        encode = self.model.tokenizer.backend_tokenizer.encode
        ids = [encode(text, add_special_tokens=False).ids for text in texts]
        opening_ids = self.between.opening_ids if self.between else ()
        return _are(ids, opening_ids, replies)


@lru_cache(maxsize=16)
def _known(hub_id: str, revision: str, template: str) -> dict[Pair, bool]:
    """Return what is known of pairs, learned once for all prompts of a model."""
    return {}


def _are(
    inputs: Sequence[Sequence[int]],
    before: Sequence[int],
    replies: ndarray,
    after: Sequence[int] = (),
) -> ndarray:
    """Return whether each input consists of `before`, the reply and `after`, (replies,) bool."""
    opening = [*before]
    closing = [*after]
    rows = zip(inputs, replies.tolist(), strict=True)
    return np.array(
        [list(ids) == opening + reply + closing for ids, reply in rows],
        dtype=bool,
    )
