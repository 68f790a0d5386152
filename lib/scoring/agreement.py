"""Does a shared prefix give the results of conversations that are read in full? Asked once of each
backbone.

In float32 the states must agree to 0.1%. In half precision no two ways of reading agree that well,
so the difference is compared with the noise: how far reading in full differs from itself when sums
are rounded in another way.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..io import is_of_memory
from ..models import checkpoints
from ..models.conversations import Ids, Inputs
from ..models.files import first_line
from ..models.reward_models import RewardModel
from . import trees

if TYPE_CHECKING:
    from .stages import Scorer

STRICT = 1e-3  # relative difference of float32 states
FACTOR = 2  # times the noise that a difference may be in half precision
LONGEST = 4  # replies that are compared in any dtype
SPACED = 4  # further ones, evenly spaced by length, in half precision
# lengths of drawn replies: the beginnings of one sequence, whose nodes a tree shares
DRAWN = (1, 2, 4, 8, 16)
# that are drawn, so that 15 replies and the closing tokens are compared at least
SEQUENCES = 3
# tokens; longer replies are read one by one, because a node of a tree copies the keys of its
# ancestors
DEEPEST = 64
# backbone -> longest input on which both agreed
AGREED: WeakKeyDictionary[PreTrainedModel, int] = WeakKeyDictionary()
# What architectures raise whose cache or attention is not transformers' usual one
CANNOT_SHARE = (
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    IndexError,
    AssertionError,
    RuntimeError,
)


class Reading(NamedTuple):
    """How replies were read: the states that the head sees, (n, d) float32, and their rewards,
    (n,) float32.
    """

    states: Tensor
    rewards: Tensor

    def differs(
        self, other: "Reading", of_all: "Reading | None" = None
    ) -> "Difference":
        """Return the difference of states relative to the other's, and of rewards in units of the
        spread of all rewards, by default of the other's.
        """
        of_all = of_all or other
        states = (self.states - other.states).norm()
        changes = self.rewards - other.rewards
        rewards = changes.square().mean().sqrt()
        return Difference(
            float(states / other.states.norm()),
            float(rewards / of_all.rewards.std(correction=0)),
        )


class Difference(NamedTuple):
    """A relative difference of states, and a root mean square difference of rewards in units of
    their spread.
    """

    states: float
    rewards: float


# --- noise ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def rounded_once_more(backbone: PreTrainedModel) -> Iterator[None]:
    """Let the input and the output of each attention be rounded once more, at random, while this
    lasts.

    On a CPU, reading replies together gives the same bits as reading them one by one, so that this
    does not show the noise. Another order of sums changes a number by up to one unit of rounding,
    and so does this.
    """
    unit = torch.finfo(backbone.dtype).eps / 2

    @cache
    def generator_on(device: torch.device) -> torch.Generator:
        # on the host, the numbers for a large model take seconds
        return torch.Generator(device).manual_seed(0)

    def rounded(exact: Tensor) -> Tensor:
        drawn = generator_on(exact.device)
        share = torch.rand(exact.shape, generator=drawn, device=exact.device)
        factor = 1 + unit * (2 * share - 1)  # from 1 - unit to 1 + unit
        return (exact.float() * factor).to(exact.dtype)

    def round_input(_: nn.Module, given: tuple, named: dict) -> tuple[tuple, dict]:
        if "hidden_states" in named:
            return given, named | {"hidden_states": rounded(named["hidden_states"])}
        return (rounded(given[0]), *given[1:]), named

    def round_output(
        _: nn.Module,
        given: tuple,
        output: Tensor | tuple,
    ) -> Tensor | tuple:
        if isinstance(output, Tensor):
            return rounded(output)
        return (rounded(output[0]), *output[1:])

    hooks = []
    for module in _attentions(backbone):
        hooks.append(module.register_forward_pre_hook(round_input, with_kwargs=True))
        hooks.append(module.register_forward_hook(round_output))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _attentions(backbone: PreTrainedModel) -> list[nn.Module]:
    """Return the innermost modules that are called an attention."""
    named = [
        module
        for module in backbone.modules()
        if type(module).__name__.endswith("Attention")
    ]
    around = {
        id(module)
        for module in named
        for part in module.modules()
        if part is not module and part in named
    }
    return [module for module in named if id(module) not in around]


# --- the comparison -------------------------------------------------------------------------------


def reason_to_read_whole(scorer: "Scorer") -> str:
    """Return why this scorer must read every conversation in full; "" if a shared prefix gives the
    same results.

    A backbone that agreed is compared again for longer inputs only, as this would be most of the
    work on few replies.
    """
    model = scorer.model
    prefix = scorer.length
    lengths = sorted({len(suffix) for suffix in scorer.inputs.suffixes})
    fitting = [length for length in lengths if can_share_prefix(model, prefix + length)]
    if not fitting:
        return why_too_long(model, prefix + lengths[0])
    longest = prefix + fitting[-1]
    if longest <= scorer.agreed.get(model.backbone, 0):
        return ""
    half = model.dtype != "float32"
    if half and not getattr(model.backbone, "_supports_attention_backend", False):
        return (
            f"{model.backbone.config.model_type} models have an attention of their own"
        )
    try:
        with torch.no_grad():
            replies = replies_to_compare(scorer, fitting[-1], several=half)
            reason = disagreement(
                difference(scorer, replies), noise(scorer, replies) if half else None
            )
    except CANNOT_SHARE as error:
        if is_of_memory(error):
            raise
        return of_architecture(model, error)
    if not reason:
        scorer.agreed[model.backbone] = longest
    return reason


def fits_window(model: RewardModel, length: int) -> bool:
    """Return whether inputs of this length fit into the sliding window, so that tokens attend to
    all earlier ones.
    """
    window = getattr(model.backbone.config, "sliding_window", None)
    return not window or length < window  # 0 means none: see checkpoints.config_of


def can_share_prefix(model: RewardModel, length: int) -> bool:
    """Return whether the states at the beginning of an input of this length do not depend on its
    length.
    """
    return not why_too_long(model, length)


def why_too_long(model: RewardModel, length: int) -> str:
    """Return why inputs of this length cannot share a prefix; "" if they can."""
    config = model.backbone.config
    if not fits_window(model, length):
        return (
            f"its sliding window of {config.sliding_window:,} tokens is shorter than a "
            f"conversation of {length:,}"
        )
    limit = checkpoints.length_limit(config)
    if limit is None or length <= limit:
        return ""
    return (
        f"beyond {limit:,} tokens its positions depend on the length, and a conversation has "
        f"{length:,}"
    )


def of_architecture(model: RewardModel, error: BaseException) -> str:
    """Return the reason for which a backbone that raised this error cannot share a prefix."""
    cause = error.__cause__ or error
    kind = model.backbone.config.model_type
    return (
        f"{kind} models have a cache or an attention of their own ({type(cause).__name__}: "
        f"{first_line(cause)})"
    )


def replies_to_compare(scorer: "Scorer", longest: int, several: bool) -> list[Ids]:
    """Return replies of this length, at most LONGEST, and with `several` 15 or more of other
    lengths as well.

    Of the further ones, some are taken from the inputs, evenly spaced by length. The others are
    drawn from the ids of the inputs, and end with the closing ids.
    """
    inputs: Inputs = scorer.inputs
    known = sorted(
        (suffix for suffix in inputs.suffixes if len(suffix) <= longest),
        key=len,
        reverse=True,
    )
    of_most_tokens = [suffix for suffix in known if len(suffix) == longest]
    replies = of_most_tokens[:LONGEST]
    if not several:
        return replies
    step = max(1, len(known) // SPACED)
    replies += known[::step][1 : SPACED + 1]
    pool = np.concatenate([inputs.prefix_ids, *replies]).astype(int)
    rng = np.random.default_rng(0)
    sequences = rng.choice(pool, (SEQUENCES, max(DRAWN)))
    closing = inputs.conversation.closing_ids
    drawn = [
        (*sequence[:length].tolist(), *closing)
        for sequence in sequences
        for length in DRAWN
    ]
    fit = [
        reply
        for reply in drawn
        if can_share_prefix(scorer.model, scorer.length + len(reply))
    ]
    return list(dict.fromkeys([*replies, *fit]))


def disagreement(differs: Difference, noise: Difference | None) -> str:
    """Return how reading after a shared prefix differs from reading in full; "" if both agree.

    noise: of reading in full in half precision; None for float32.
    """
    states, rewards = differs
    if noise is None:
        if states <= STRICT:
            return ""
        return (
            f"with a shared beginning its states differ by {states:.2g} of their size"
        )
    if states <= FACTOR * noise.states and rewards <= FACTOR * noise.rewards:
        return ""
    return (
        f"with a shared beginning its rewards differ by {rewards:.2g} of their spread and its "
        f"states by {states:.2g}, where rounding explains {noise.rewards:.2g} and "
        f"{noise.states:.2g}"
    )


def difference(scorer: "Scorer", replies: Sequence[Ids]) -> Difference:
    """Return how far reading after a shared prefix, by replies and as a tree, differs from
    reading in full at most.
    """
    pieces = pieces_of(replies)
    whole = _each(scorer.read_whole, pieces)
    differences = [_each(scorer.read_after_prefix, pieces).differs(whole)]
    # the first ones, as they are in order of length
    short = [piece for piece in pieces if piece.shape[1] <= DEEPEST]
    if scorer.length and short:
        count = sum(map(len, short))
        first = Reading(whole.states[:count], whole.rewards[:count])
        # rewards of short replies alone may have a smaller spread than those of the noise
        differences.append(_by_tree(scorer, short).differs(first, whole))
    return _largest(differences)


def noise(scorer: "Scorer", replies: Sequence[Ids]) -> Difference:
    """Return how far reading in full differs from itself at most: one by one, and rounded once
    more.
    """
    pieces = pieces_of(replies)
    whole = _each(scorer.read_whole, pieces)
    single = [row[None] for piece in pieces for row in piece]
    alone = _each(scorer.read_whole, single)
    with rounded_once_more(scorer.model.backbone):
        again = _each(scorer.read_whole, pieces)
    return _largest(way.differs(whole) for way in (alone, again))


def _largest(differences: Iterable[Difference]) -> Difference:
    states, rewards = np.max(list(differences), axis=0)  # NaN if one is
    return Difference(float(states), float(rewards))


def pieces_of(replies: Sequence[Ids]) -> list[Tensor]:
    """Return the ids of replies, (replies, length), in one piece per length."""
    by_length: dict[int, list[Ids]] = {}
    for reply in sorted(replies):
        by_length.setdefault(len(reply), []).append(reply)
    return [torch.tensor(by_length[length]) for length in sorted(by_length)]


def _each(read: Callable[[Tensor], Reading], pieces: Sequence[Tensor]) -> Reading:
    """Return what `read` returns for all pieces, joined."""
    readings = [read(piece) for piece in pieces]
    states, rewards = zip(*readings, strict=True)
    return Reading(torch.cat(states), torch.cat(rewards))


def _by_tree(scorer: "Scorer", pieces: list[Tensor]) -> Reading:
    """Return how the replies are read as trees, in the order of the pieces."""
    readings = []
    order = []
    for rows, of_rows in trees.rows_by_depth(pieces):
        readings.append(scorer.read_shared(rows))
        order.append(of_rows)
    states = torch.cat([reading.states for reading in readings])
    rewards = torch.cat([reading.rewards for reading in readings])
    numbers = np.concatenate(order)
    back = torch.from_numpy(np.argsort(numbers)).to(states.device)
    return Reading(states[back], rewards[back])
