"""What a GPU says, in one command and one table. Run: python3 -m benchmarks.gpu --out table.md

It needs no more than scoring itself: torch, transformers, numpy, pandas, scipy and safetensors.
Models have the true shapes and random weights, made on the card. Without a card: --device cpu
--small, which shows that every section runs.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import islice, product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from benchmarks import scoring
from benchmarks.scoring import QUESTION, machine, matmul_rate
from lib.models import conversations
from lib.models.reward_models import RewardModel
from lib.scoring.reader import Reader
from lib.search import gcg, objective, searches

# name -> family, size of the vocabulary, and fields of the published configuration
SHAPES = {
    "Llama-3.1-8B": (
        "llama",
        128_256,
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "rope_theta": 500_000.0,
        },
    ),
    "Gemma-2-27B": (
        "gemma",
        256_000,
        {
            "hidden_size": 4608,
            "intermediate_size": 36864,
            "num_hidden_layers": 46,
            "num_attention_heads": 32,
            "num_key_value_heads": 16,
            "head_dim": 128,
            "query_pre_attn_scalar": 144,
        },
    ),
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
REPLIES = {"Llama-3.1-8B": 128_256, "Gemma-2-27B": 24_576}  # that are scored
Row = tuple[str, object]  # what was measured, and its value


@cache
def tokenizer_for(family: str, size: int) -> PreTrainedTokenizerBase:
    """Return a tokenizer of this size, of made words of two to four syllables."""
    syllables = ["".join(each) for each in product("bdfglmnprstvz", "aeiou")]
    words = ("".join(each) for n in (2, 3, 4) for each in product(syllables, repeat=n))
    return scoring.tokenizer_of(size, family, [*islice(words, size)])


def model_for(
    name: str, device: str, small: bool, dtype: torch.dtype = torch.bfloat16
) -> RewardModel:
    """Return a model of random weights in the true shape, or a small one."""
    family, size, shape = SHAPES[name]
    tokenizer = tokenizer_for(family, 4_000 if small else size)
    shape = shape | SMALL if small else shape
    return scoring.random_model(family, tokenizer, dtype, shape, device)


def both_devices(name: str, device: str, small: bool) -> Iterator[Row]:
    """Compare float32 rewards and gradients of a small model on the device with those on the
    CPU.
    """
    here, there = (model_for(name, "cpu", True, torch.float32) for _ in range(2))
    there.backbone.to(device)
    there.head.to(device)
    ids = [(int(i),) for i in np.random.default_rng(0).integers(300, 1900, 200)]
    rewards, gradients = [], []
    for model in (here, replace(there, device=device)):
        inputs = model.inputs_for(QUESTION, ids, reply_mode="ids")
        read = Reader(model, inputs)
        rewards.append(read.rewards(inputs.suffixes))
        gradients.append(read.gradients(inputs.suffixes[:1])[0].cpu())
    yield "largest difference from the CPU's rewards", np.ptp(rewards, axis=0).max()
    apart = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    yield "relative difference from the CPU's gradient", float(apart)


def operations(model: RewardModel, tokens: int, context: int) -> float:
    """Floating-point operations of the backbone for `tokens` new tokens that each attend to
    about `context` others.
    """
    config = model.backbone.config
    in_layers = sum(p.numel() for p in model.backbone.layers.parameters())
    attended = config.num_hidden_layers * config.num_attention_heads * config.head_dim
    return tokens * (2 * in_layers + 4 * attended * context)


def whole_vocabulary(name: str, device: str, small: bool) -> Iterator[Row]:
    """Score a vocabulary, or a sample of it: agreement, seconds, rate and memory."""
    model = model_for(name, device, small)
    texts = conversations.vocabulary(model.tokenizer)["text"]
    some = texts.sample(500 if small else REPLIES[name], random_state=0).tolist()
    prepared, inputs = scoring.seconds(partial(model.inputs_for, QUESTION, some))
    yield "distinct inputs", f"{len(inputs.suffixes):,}"
    yield "host prepares, s", prepared
    read, whole = Reader(model, inputs), Reader(model, inputs)
    whole.limit = 0
    few = inputs.suffixes[:64]
    rows, one = read.rewards(few), whole.rewards(few)  # also chooses kernels
    yield (
        "largest difference from whole conversations, sd",
        np.abs(rows - one).max() / one.std(),
    )
    read.rewards(inputs.suffixes[:8192])
    took, _ = scoring.seconds(partial(read.rewards, inputs.suffixes))
    nodes = len({each[: k + 1] for each in inputs.suffixes for k in range(len(each))})
    rate = operations(model, nodes, read.length + 2) / took
    best = matmul_rate(torch.bfloat16, device, 64 if small else None)
    yield "rows, s", took
    yield "rows, TFLOP/s", rate / 1e12
    yield "of the matrix product's rate", rate / best
    if device == "cuda":
        yield "peak memory, GiB", torch.cuda.max_memory_allocated() / 2**30


def searching(name: str, device: str, small: bool) -> Iterator[Row]:
    """Time what a search consists of, and a short search."""
    model = model_for(name, device, small)
    allowed = objective.allowed_ids(model, "printable")
    goal = objective.Objective(model, QUESTION, "optimal", allowed, "ids")
    rng = np.random.default_rng(0)
    for count in (1, 128, 512):
        replies = rng.choice(allowed, (count, 5))
        goal.values(replies)  # chooses kernels
        took, _ = scoring.seconds(partial(goal.values, replies))
        yield f"{count} replies of 5 tokens, ms", 1e3 * took
    starts = [tuple(rng.choice(allowed, 5).tolist()) for _ in range(4)]
    took, _ = scoring.seconds(partial(goal.gains, starts))
    yield "four gradients, ms", 1e3 * took
    budget = 128 if small else 1024
    settings = gcg.Settings(budget=budget)
    took, _ = scoring.seconds(partial(searches.search, goal, starts, settings))
    yield f"four searches of {budget} evaluations, s", took


SECTIONS: dict[str, Callable[[str, bool], Iterator[Row]]] = {
    "both devices, Llama": partial(both_devices, "Llama-3.1-8B"),
    "both devices, Gemma": partial(both_devices, "Gemma-2-27B"),
    "Llama-3.1-8B": partial(whole_vocabulary, "Llama-3.1-8B"),
    "search, Llama-3.1-8B": partial(searching, "Llama-3.1-8B"),
    "Gemma-2-27B": partial(whole_vocabulary, "Gemma-2-27B"),
}


def main(given: list[str] | None = None) -> None:
    """Run all sections, and write what they measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny models")
    parser.add_argument("--out", type=Path, help="file for the table")
    asked = parser.parse_args(given)
    rows: list[tuple[str, str, object]] = [("machine", "", machine(asked.device))]
    for section, measure in SECTIONS.items():
        for what, value in measure(asked.device, asked.small):
            shown = f"{value:.3g}" if isinstance(value, float) else value
            rows.append((section, what, shown))
            print(f"{section}: {what}: {shown}", flush=True)
    columns = ["section", "measured", "value"]
    if asked.out:
        found = pd.DataFrame(rows, columns=columns)
        asked.out.write_text(
            found.to_markdown(index=False, disable_numparse=True) + "\n"
        )


if __name__ == "__main__":
    sys.exit(main())
