"""What a search maximises, and over which replies, each a tuple of token ids."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress

import numpy as np
import torch
from numpy import ndarray

from ..models import conversations
from ..models.reward_models import RewardModel
from ..scoring.reader import reader_of

# direction of a search -> sign of the reward
DIRECTIONS = {"optimal": 1, "pessimal": -1}
TRIES = 64  # of random tokens for the next place of a reply
Reply = tuple[int, ...]


def allowed_ids(model: RewardModel, which: str = "printable") -> ndarray:
    """Return the token ids that a reply may hold, (allowed,) ascending.

    "all", or "no specials", which leaves out control and added tokens, or "printable", which also
    leaves out other texts that do not show.
    """
    tokenizer = model.tokenizer
    tokens = conversations.vocabulary(tokenizer)
    if which != "all":
        special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        tokens = tokens[~tokens["token_id"].isin(special)]
    if which == "printable":
        # More than blanks, and all of it shows: no control characters, no broken UTF-8
        tokens = tokens[[_is_visible(text) for text in tokens["text"]]]
    return tokens["token_id"].to_numpy()


def _is_visible(text: str) -> bool:
    return text.isprintable() and text.strip() != "" and "\ufffd" not in text


class Objective:
    """What a search maximises: the reward of a reply to a prompt ("optimal"), or minus the reward
    ("pessimal").

    - allowed_ids: the ids that a swap may bring in, see the function of this name
    - reply_mode "text": only replies that survive as text
    - reply_mode "ids": everything that a program could feed to the model
    """

    def __init__(
        self,
        model: RewardModel,
        prompt: str,
        direction: str,
        allowed_ids: Sequence[int] | ndarray,
        reply_mode: str = "text",
    ):
        self.model = model
        self.prompt = prompt
        self.sign = DIRECTIONS[direction]
        self.reply_mode = reply_mode
        self.survived: dict[Reply, bool] = {}  # as text, the replies that were tried
        self.allowed = np.unique(np.asarray(allowed_ids, dtype=np.int64))
        some = [(int(i),) for i in self.allowed[:4]]
        inputs = model.inputs_for(prompt, some, reply_mode="ids")
        self.conversation = inputs.conversation
        self.reader = reader_of(model)(model, inputs)

    def values(self, replies: Sequence[Sequence[int]] | ndarray) -> ndarray:
        """Return sign * reward of each reply, (replies,) float32. Replies may differ in length."""
        if not len(replies):
            return np.zeros(0, dtype=np.float32)
        return self.sign * self.reader.rewards(self._suffixes(replies))

    def _suffixes(self, replies: Sequence[Sequence[int]] | ndarray) -> list[Reply]:
        """Return what the model reads after the prompt: the reply's ids and the closing ones."""
        closing = self.conversation.closing_ids
        return [(*map(int, reply), *closing) for reply in replies]

    def gains(
        self, replies: Sequence[Sequence[int]], centred: bool = True
    ) -> list[ndarray]:
        """Return the first-order change of the value for every swap of one token: (n, allowed) for
        each reply of n tokens, all from one backward pass.

        grad . (e_v - e_current), with the embeddings as the model's embedding module gives them.
        centred=False leaves e_current out, which shifts all swaps of a place alike.
        """
        gains = []
        gradients = self.reader.gradients(self._suffixes(replies))
        table = self.embeddings  # (allowed, d)
        for reply, gradient in zip(replies, gradients, strict=True):
            slope = self.sign * gradient[: len(reply)]  # (n, d)
            gain = (slope.to(table.dtype) @ table.T).float()  # (n, allowed)
            if centred:
                present = self.embed(reply).float()
                gain -= (slope * present).sum(1, keepdim=True)
            gains.append(gain.cpu().numpy())
        return gains

    def distances(self, reply: Sequence[int]) -> ndarray:
        """Return the Euclidean distance of every allowed token's embedding from those of the
        reply, (n, allowed).
        """
        present = self.embed(reply).float()
        return torch.cdist(present, self.embeddings.float()).cpu().numpy()

    @cached_property
    def embeddings(self) -> torch.Tensor:
        """Return the embeddings of the allowed tokens, (allowed, d), in the model's dtype."""
        return self.embed(self.allowed)

    def embed(self, ids: Sequence[int] | ndarray) -> torch.Tensor:
        """Return the embeddings of these ids, (ids, d)."""
        module = self.model.backbone.get_input_embeddings()
        with torch.no_grad():
            return module(torch.tensor([*map(int, ids)], device=self.model.device))

    def texts_of(self, replies: Iterable[Sequence[int]] | ndarray) -> list[str]:
        """Return the replies decoded, control tokens and blanks as they are."""
        ids = [[*map(int, reply)] for reply in replies]
        return self.model.tokenizer.batch_decode(
            ids, clean_up_tokenization_spaces=False
        )

    def survives(self, replies: Sequence[Sequence[int]] | ndarray) -> ndarray:
        """Return whether each reply has the same ids after it was written as text, in its
        conversation, and read again, (replies,) bool.
        """
        if not len(replies):
            return np.zeros(0, dtype=bool)
        prefix = self.conversation.prefix_ids
        texts = self.texts_of(replies)
        read = self.model.encode(self.conversation, texts)
        fed = [[*prefix, *suffix] for suffix in self._suffixes(replies)]
        return np.array([list(a) == b for a, b in zip(read, fed, strict=True)])

    def admits(self, replies: Sequence[Sequence[int]] | ndarray) -> ndarray:
        """Return whether each reply may be scored in this reply_mode, (replies,) bool."""
        if self.reply_mode == "ids":
            return np.ones(len(replies), dtype=bool)
        tried = [(*map(int, reply),) for reply in replies]
        # searches from several starts come to the same replies
        new = [reply for reply in dict.fromkeys(tried) if reply not in self.survived]
        self.survived |= zip(new, self.survives(new).tolist(), strict=True)
        return np.array([self.survived[reply] for reply in tried], dtype=bool)

    def draw(self, n: int, rng: np.random.Generator, count: int = 1) -> list[Reply]:
        """Return `count` random replies of n tokens, all grown by one token after another. One
        that finds no next token is left out.
        """
        replies: list[Reply] = [()] * count
        for _ in range(n):
            longer: dict[int, Reply] = {}  # by the reply's number
            for _ in range(TRIES):
                left = [i for i in range(len(replies)) if i not in longer]
                tokens = rng.choice(self.allowed, size=len(left)).tolist()
                tried = {
                    i: (*replies[i], token)
                    for i, token in zip(left, tokens, strict=True)
                }
                admitted = self.admits(list(tried.values()))
                longer |= dict(compress(tried.items(), admitted))
                if len(longer) == len(replies):
                    break
            replies = list(longer.values())
        return replies
