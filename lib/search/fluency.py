"""Replies that a language model could have given: every token among the likeliest after what
precedes it.
"""

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from .. import InputError
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel

REPLIES_AT_ONCE = 64  # read in one pass of the language model, whose logits are large


class Fluency:
    """What a fluent search keeps: replies whose every token lies within the language model's top_p.

    In each place, all likelier tokens together must have less than top_p of the allowed tokens'
    probability (0 < top_p <= 1), so the likeliest token is always fluent. How a reply ends does not
    matter. The language model reads the prompt in its own frame. InputError if its tokens are not
    the reward model's, under the same ids.
    """

    def __init__(
        self,
        language_model: LanguageModel,
        model: RewardModel,
        prompt: str,
        allowed_ids: ndarray,
        top_p: float = 0.9,
    ):
        id_of = model.tokenizer.get_vocab()
        spoken = language_model.tokenizer.get_vocab()
        if any(id_of.get(token) != i for token, i in spoken.items()):
            raise InputError(
                f"{language_model.name} and {model.name} do not share a tokenizer; give the "
                f"language model that {model.name} was made from"
            )
        self.language_model = language_model
        self.top_p = top_p
        self.frame = language_model.encode(prompt)
        # not the outputs that no token has
        ids = np.intersect1d(allowed_ids, list(spoken.values()))
        self.allowed = torch.as_tensor(ids, device=language_model.device)  # (allowed,)

    def __call__(self, replies: ndarray) -> ndarray:
        """Return whether each reply is fluent, (replies,) bool. Replies are ids, (replies, n)."""
        if not len(replies):
            return np.zeros(0, dtype=bool)
        ids = torch.as_tensor(np.array(replies), device=self.allowed.device)
        last = len(self.allowed) - 1
        column = torch.searchsorted(self.allowed, ids).clamp(max=last)
        is_allowed = self.allowed[column] == ids
        # the others are refused, come what may
        tokens = torch.where(is_allowed, ids, self.allowed[0])
        readable = tokens.cpu().numpy()
        # the probability of all tokens likelier than the reply's own; faster than sorting them
        likelier = []
        for start in range(0, len(replies), REPLIES_AT_ONCE):
            part = slice(start, start + REPLIES_AT_ONCE)
            # (some, n, allowed)
            probabilities = self._probabilities(readable[part, :-1])
            own = probabilities.gather(2, column[part, :, None])
            # (some, n)
            likelier.append(probabilities.where(probabilities > own, 0).sum(-1))
        is_inside = self._is_inside(torch.cat(likelier))
        return (is_allowed & is_inside).all(1).cpu().numpy()

    def swaps(self, reply: Sequence[int], allowed_ids: ndarray) -> ndarray:
        """Return whether each token is fluent in each place of the reply, given what precedes
        it, (n, allowed).
        """
        inside = self._inside(reply[:-1]).cpu().numpy()
        ids = self.allowed.cpu().numpy()
        return np.stack([np.isin(allowed_ids, ids[fluent]) for fluent in inside])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[int, ...]:
        """Return a reply of n tokens, each drawn uniformly from the tokens that are fluent after
        the earlier ones.
        """
        reply: list[int] = []
        for _ in range(n):
            fluent = self.allowed[self._inside(reply)[-1]]
            place = int(rng.integers(len(fluent)))
            reply.append(int(fluent[place]))
        return tuple(reply)

    def _inside(self, reply: Sequence[int]) -> Tensor:
        """Return which tokens lie within top_p in each place of the reply, and after it, (n + 1,
        allowed) bool.
        """
        probabilities, order = self._probabilities(np.array([reply]))[0].sort(
            dim=-1,
            descending=True,
        )
        inside = self._is_inside(probabilities.cumsum(-1) - probabilities)
        return torch.zeros_like(inside).scatter_(-1, order, inside)

    def _is_inside(self, likelier: Tensor) -> Tensor:
        # rounding must not lose the tail of all
        return (likelier < self.top_p) | (self.top_p == 1)

    @torch.inference_mode()
    def _probabilities(self, replies: ndarray) -> Tensor:
        """Return the allowed tokens' probabilities in each place and after it, (replies, n + 1,
        allowed) float32.
        """
        ids = torch.as_tensor(replies.astype(np.int64), device=self.allowed.device)
        keys, first = self._prompt_read
        first = first.expand(len(ids), 1, -1)
        if not ids.shape[1]:
            logits = first
        elif keys is None:
            logits = self._logits_of_whole(ids)
        else:
            keys = copy.deepcopy(keys)  # since reading adds to them
            keys.batch_repeat_interleave(len(ids))
            after = self.language_model.model(ids, past_key_values=keys).logits
            logits = torch.cat([first, after], dim=1)
        return logits[..., self.allowed].float().softmax(-1)

    @cached_property
    @torch.inference_mode()
    def _prompt_read(self) -> tuple[DynamicCache | None, Tensor]:
        """Return the keys and values of the prompt, and the logits after it, (1, 1, outputs).

        None in place of keys where some layer keeps more than keys and values of tokens: then each
        reply is read with its prompt.
        """
        frame = torch.tensor([self.frame], device=self.language_model.device)
        read = self.language_model.model(frame, use_cache=True, logits_to_keep=1)
        keys = read.past_key_values
        layers = keys.layers if isinstance(keys, DynamicCache) else []
        are_keys = [isinstance(layer, DynamicLayer) for layer in layers]
        return keys if are_keys and all(are_keys) else None, read.logits

    def _logits_of_whole(self, ids: Tensor) -> Tensor:
        """Return the logits in each place of the replies and after it, as for _probabilities."""
        frame = torch.tensor(self.frame, device=ids.device)
        frame = frame.expand(len(ids), -1)
        whole = torch.cat([frame, ids], dim=1)
        places = ids.shape[1] + 1
        return self.language_model.model(whole, logits_to_keep=places).logits
