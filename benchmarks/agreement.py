"""Planted errors against the noise of half precision: which does the comparison with whole reading
notice?

Run: python -m benchmarks.agreement. It writes agreement.csv and the table of agreement.md.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import AutoModel, LlamaConfig

from benchmarks.scoring import machine, table, write_report
from lib.models import shared_prefix
from lib.models.conversations import Conversation, Inputs
from lib.models.heads import new_head
from lib.models.reward_models import RewardModel
from lib.scoring import agreement, stages, trees

PAGE = Path(__file__).with_suffix(".md")
SHAPES = {64: 4, 256: 4, 512: 4, 1024: 2, 2048: 1}  # width -> layers
IDS, PREFIX = 2000, 24  # ids of the vocabulary, and in the prompt
CLOSING = (7, 8)
states_after, outputs, attend = (
    shared_prefix.states_after,
    trees.outputs,
    shared_prefix.attend,
)


# --- random models --------------------------------------------------------------------------------


def random_model(
    width: int, layers: int, dtype: torch.dtype, seed: int = 0, gain: float = 2.0
) -> RewardModel:
    """Return a Llama of random weights with a linear head.

    gain: the standard deviation of weights times the square root of the width. With the 0.02 that
    configurations name, attention is nearly even, so that positions and masks hardly matter;
    trained models have sharper attention.
    """
    size = 16 if width < 512 else 64
    config = LlamaConfig(
        vocab_size=IDS,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // size,
        num_key_value_heads=width // size // 4,
        head_dim=size,
        initializer_range=gain / width**0.5,
    )
    torch.manual_seed(seed)
    backbone = AutoModel.from_config(
        config, dtype=dtype, attn_implementation="sdpa"
    ).eval()
    kind = str(dtype).removeprefix("torch.")
    return RewardModel(
        f"random-{width}",
        f"random-{width}",
        "random",
        "",
        "linear",
        kind,
        "sdpa",
        "cpu",
        None,
        backbone,
        new_head("linear", config),
    )


def random_inputs(seed: int = 0, replies: int = 40) -> Inputs:
    """Return inputs of one to three random tokens, as most replies of a vocabulary are."""
    rng = np.random.default_rng(seed)
    prefix = tuple(rng.integers(10, IDS, PREFIX).tolist())
    ids = [
        tuple(rng.integers(10, IDS, 1 + number % 3).tolist())
        for number in range(replies)
    ]
    conversation = Conversation("What?", "single", "", "", prefix, CLOSING)
    return Inputs(
        conversation,
        prefix,
        [each + CLOSING for each in ids],
        ids,
        np.arange(replies, dtype=np.int32),
    )


# --- planted errors -------------------------------------------------------------------------------


def later_positions(backbone, length: int, shared: list, read) -> Tensor:
    """Read replies as if the prefix had one more token."""
    return (outputs if isinstance(read, trees.Tree) else states_after)(
        backbone, length + 1, shared, read
    )


def without_last(backbone, length: int, shared: list, read) -> Tensor:
    """Read replies without their last token."""
    if isinstance(read, trees.Tree):
        return outputs(
            backbone,
            length,
            shared,
            read._replace(leaves=read.ancestors[read.leaves, -2]),
        )
    return states_after(backbone, length, shared, read[:, :-1])


def in_window(module, query, keys, values, unseen, *, shared: list, **given):
    """Attend to the last half of the prefix only."""
    half = {
        module.layer_idx: tuple(
            part[:, PREFIX // 2 :] for part in shared[module.layer_idx]
        )
    }
    return attend(module, query, keys, values, unseen, shared=half, **given)


def seeing_future(module, query, keys, values, unseen, **given):
    """Attend to later tokens of the reply as well."""
    return attend(module, query, keys, values, torch.zeros_like(unseen), **given)


def with_sink(module, query, keys, values, unseen, *, shared: list, **given):
    """Attend to one more key whose score is 0 and whose value is 0, as models with attention
    sinks do.
    """
    wider = {
        module.layer_idx: tuple(
            torch.nn.functional.pad(part, (0, 0, 1, 0))
            for part in shared[module.layer_idx]
        )
    }
    return attend(module, query, keys, values, unseen, shared=wider, **given)


READERS = ((shared_prefix, "states_after"), (trees, "outputs"))
BOTH = ((shared_prefix, "attend"), (trees, "attend"))
# name -> where it is planted, and what stands there
PLANTED: dict[str, tuple[tuple, Callable]] = {
    "positions off by one": (READERS, later_positions),
    "forgotten closing token": (READERS, without_last),
    "sliding window": (BOTH, in_window),
    # a tree has no later tokens that a mask could show
    "mask that sees the future": (BOTH[:1], seeing_future),
    "attention sink": (BOTH, with_sink),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant one of these errors while this lasts."""
    places, wrong = PLANTED[name]
    with ExitStack() as stack:
        for module, function in places:
            stack.enter_context(patch.object(module, function, wrong))
        yield


# --- the table ------------------------------------------------------------------------------------


@torch.no_grad()
def rows_of(model: RewardModel, inputs: Inputs) -> Iterator[dict]:
    """Yield a row for reading as it is and for each planted error: differences, noise, and
    whether it is refused.
    """
    agreement.AGREED.clear()
    scorer = stages.Scorer(model, inputs)
    longest = max(map(len, inputs.suffixes))
    half = model.dtype != "float32"
    replies = agreement.replies_to_compare(scorer, longest, several=half)
    noise = agreement.noise(scorer, replies)
    for name in ("none", *PLANTED):
        with planted(name) if name in PLANTED else ExitStack():
            differs = agreement.difference(scorer, replies)
        reason = agreement.disagreement(differs, noise if half else None)
        yield {
            "width": model.backbone.config.hidden_size,
            "layers": model.backbone.config.num_hidden_layers,
            "dtype": model.dtype,
            "planted error": name,
            "states": differs.states,
            "noise of states": noise.states,
            "rewards": differs.rewards,
            "noise of rewards": noise.rewards,
            "refused": "yes" if reason else "no",
        }


def measure(shapes: dict[int, int] = SHAPES) -> pd.DataFrame:
    """Return a row for each width, dtype and planted error."""
    rows: list[dict] = []
    for dtype in (torch.float32, torch.bfloat16):
        for width, layers in shapes.items():
            rows += rows_of(random_model(width, layers, dtype), random_inputs())
    return pd.DataFrame(rows)


def main() -> None:
    rows = measure()
    rows.to_csv(PAGE.with_suffix(".csv"), index=False, float_format="%.4g")
    write_report("planted errors", f"{machine('cpu')}\n\n{table(rows)}", PAGE)


if __name__ == "__main__":
    main()
