"""What a GPU says, in one command and one table. Run: python3 -m benchmarks.gpu --out table.md

It needs no more than scoring itself: torch, transformers, numpy, pandas, scipy, safetensors, and
accelerate for two devices. Models have random weights, made on the card. A section that fails
leaves its error in the table, and the others go on. Without a card: --device cpu --small, which
shows that every section runs.
"""

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from transformers import DynamicCache, PreTrainedTokenizerBase

from benchmarks import agreement as planting
from benchmarks import scoring
from benchmarks.scoring import QUESTION, machine, matmul_rate, operations, ours, table
from benchmarks.shapes import TRUE_SHAPES
from lib import ROOT
from lib.models.conversations import Inputs
from lib.models.reward_models import RewardModel
from lib.scoring import agreement, packed, stages, vocabulary
from lib.search import gcg, objective, searches

# bfloat16 operations/s of the makers' data sheets, by part of the name
PEAK = {"H100": 989.4e12, "H200": 989.4e12}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
BASES = {"llama": "Llama 3.1", "gemma": "Gemma 2"}
# that are scored; a whole vocabulary for the first
REPLIES = {"Llama-3.1-8B": 128_256, "Gemma-2-27B": 24_576}
TESTS = (
    "tests/scoring/test_trees.py",
    "tests/scoring/test_packed.py",
    "tests/scoring/test_noise.py",
    "tests/scoring/test_implicit.py",
    "tests/search/test_gcg.py",
    "tests/models/test_cards.py",
)
Row = tuple[str, object]  # what was measured, and its value


def made_words(count: int) -> list[str]:
    """Return so many words of two to four syllables, in place of a list of English words."""
    syllables = ["".join(each) for each in product("bdfglmnprstvz", "aeiou")]
    words = map(
        "".join, (each for n in (2, 3, 4) for each in product(syllables, repeat=n))
    )
    return [word for word, _ in zip(words, range(count), strict=False)]


@cache
def tokenizer_for(
    family: str, size: int, folder: Path | None
) -> PreTrainedTokenizerBase:
    """Return the true tokenizer of the family from its folder, or a made one of this size."""
    if folder is None:
        return scoring.tokenizer_of(size, family, made_words(size))
    tokenizer = scoring.open_tokenizer(BASES[family], folder)[0]
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def model_for(
    name: str, asked: argparse.Namespace, dtype: torch.dtype = torch.bfloat16
) -> RewardModel:
    """Return a model of random weights in the true shape, or a tiny one with --small."""
    family, size, true = TRUE_SHAPES[name]
    shape = true | SMALL if asked.small else true
    tokenizer = tokenizer_for(family, 4_000 if asked.small else size, asked.tokenizers)
    return scoring.random_model(family, tokenizer, dtype, shape, asked.device)


@cache
def product_rate(device: str, small: bool) -> float:
    """Return the rate of large matrix products in bfloat16, FLOP/s. Some processors have no
    instructions for it.
    """
    return matmul_rate(torch.bfloat16, device, 64 if small else None)


def timed(work: Callable, device: str, repeats: int = 1) -> tuple[float, object]:
    """Return the median seconds of work(), once the device has finished it, and its result."""
    took, result = [], None
    for _ in range(repeats):
        seconds, result = scoring.seconds(work)
        took.append(seconds)
    return float(np.median(took)), result


def peak_memory(device: str) -> float:
    """Return the most gigabytes (2**30 bytes) that tensors took since the last call; 0 on the
    CPU.
    """
    if device != "cuda":
        return 0.0
    most = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return most


# --- sections -------------------------------------------------------------------------------------


def about_machine(asked: argparse.Namespace) -> Iterator[Row]:
    yield "machine", machine(asked.device)
    yield "numpy, pandas", f"{np.__version__}, {pd.__version__}"
    yield "bf16 matrix product, TFLOP/s", product_rate(asked.device, asked.small) / 1e12


def both_devices(asked: argparse.Namespace) -> Iterator[Row]:
    """Compare float32 rewards and gradients of a small model on the device with those on the
    CPU.
    """
    for family, name in (("llama", "Llama-3.1-8B"), ("gemma", "Gemma-2-2B")):
        small = SimpleNamespace(**vars(asked) | {"device": "cpu", "small": True})
        here = model_for(name, small, torch.float32)
        there = model_for(name, small, torch.float32)
        there.backbone.to(asked.device)
        there.head.to(asked.device)
        there = replace(there, device=asked.device)
        ids = [(int(i),) for i in np.random.default_rng(0).integers(300, 1900, 200)]
        first, second = (
            vocabulary.score_replies(model, QUESTION, ids, reply_mode="ids")
            for model in (here, there)
        )
        in_rows = replace(there, reader=packed.PackedScorer)
        third = vocabulary.score_replies(in_rows, QUESTION, ids, reply_mode="ids")
        yield (
            f"{family}: largest difference from the CPU's rewards, and packed in rows",
            f"{np.abs(first - second).max():.2g}, {np.abs(first - third).max():.2g}",
        )
        scorers = [
            stages.Scorer(each, each.inputs_for(QUESTION, ids[:1], reply_mode="ids"))
            for each in (here, there)
        ]
        of_here, of_there = (
            scorer.gradient((300, 301, 302)).cpu() for scorer in scorers
        )
        difference = (of_here - of_there).norm() / of_here.norm()
        yield (
            f"{family}: relative difference from the CPU's gradient",
            float(difference),
        )


def whole_vocabulary(name: str, asked: argparse.Namespace) -> Iterator[Row]:
    """Score a vocabulary, or a sample of it: agreement and noise, seconds, share of the peak,
    and two rivals.
    """
    model = model_for(name, asked)
    preparing = time.perf_counter()
    texts = vocabulary.tokens_of(model)["text"].sample(frac=1, random_state=0).tolist()
    texts = texts[: 500 if asked.small else REPLIES[name]]
    inputs = model.inputs_for(QUESTION, texts)
    yield (
        f"{name}: replies, distinct inputs",
        f"{len(texts):,}, {len(inputs.suffixes):,}",
    )
    yield f"{name}: host prepares, s", time.perf_counter() - preparing
    yield from ((f"{name}: {what}", value) for what, value in agreeing(model, inputs))
    blocks = vocabulary.blocks_of(inputs)
    ours(model, blocks[:1])
    peak_memory(asked.device)
    seconds, rewards = timed(partial(ours, model, blocks), asked.device)
    nodes = len(
        {suffix[: k + 1] for suffix in inputs.suffixes for k in range(len(suffix))}
    )
    rate = operations(model, nodes, len(inputs.prefix_ids) + 2) / seconds
    yield f"{name}: seconds", seconds
    yield f"{name}: TFLOP/s", rate / 1e12
    yield (
        f"{name}: of the matrix product's rate",
        rate / product_rate(asked.device, asked.small),
    )
    yield from (
        (f"{name}: of peak", rate / peak)
        for part, peak in PEAK.items()
        if part in machine(asked.device)
    )
    yield f"{name}: peak memory, GiB", peak_memory(asked.device)
    yield (
        f"{name}: sd of rewards; all finite",
        f"{rewards.std():.3g}; {bool(np.isfinite(rewards).all())}",
    )
    yield from (
        (f"{name}: {what}", value)
        for what, value in packed_in_rows(model, inputs, seconds, rewards, asked)
    )
    yield from (
        (f"{name}: {what}", value)
        for what, value in rivals(model, inputs, texts, seconds, asked)
    )


@torch.no_grad()
def agreeing(model: RewardModel, inputs: Inputs) -> Iterator[Row]:
    """Compare the shared prefix with reading in full, and with the noise of that."""
    scorer = stages.Scorer(model, inputs)
    longest = max(map(len, inputs.suffixes))
    replies = agreement.replies_to_compare(scorer, longest, several=True)
    differs, noise = (
        agreement.difference(scorer, replies),
        agreement.noise(scorer, replies),
    )
    yield "shares its prefix", "yes" if scorer.shares_prefix else f"no: {scorer.reason}"
    yield (
        "states: shared against whole, noise",
        f"{differs.states:.3g}, {noise.states:.3g}",
    )
    yield (
        "rewards, in sd: shared against whole, noise",
        f"{differs.rewards:.3g}, {noise.rewards:.3g}",
    )


def packed_in_rows(
    model: RewardModel,
    inputs: Inputs,
    seconds: float,
    expected: np.ndarray,
    asked: argparse.Namespace,
) -> Iterator[Row]:
    """Compare replies packed in rows, as they are and with compiled parts, with trees: the same
    replies, their seconds and rewards.
    """
    blocks = vocabulary.blocks_of(inputs)
    for compiled in (False, True):
        way = "packed, compiled" if compiled else "packed"
        other = replace(model, reader=packed.PackedScorer, compiled=compiled)
        scorer = packed.PackedScorer(other, inputs)
        yield (
            f"{way}: shares its prefix",
            "yes" if scorer.shares_prefix else f"no: {scorer.reason}",
        )
        first, _ = timed(partial(ours, other, blocks[:1]), asked.device)
        yield f"{way}: first block, compiling included, s", first
        peak_memory(asked.device)
        took, rewards = timed(partial(ours, other, blocks), asked.device)
        again, _ = timed(partial(ours, other, blocks), asked.device)
        yield (
            f"{way}: seconds, and of another prompt; over ours",
            f"{took:.3g}, {again:.3g}; {took / seconds:.3f}, {again / seconds:.3f}",
        )
        yield f"{way}: peak memory, GiB", peak_memory(asked.device)
        differs = np.abs(rewards - expected) / expected.std()
        yield (
            f"{way}: difference from ours in sd, median and largest",
            f"{np.median(differs):.3g}, {differs.max():.3g}",
        )


def rivals(
    model: RewardModel,
    inputs: Inputs,
    texts: Sequence[str],
    seconds: float,
    asked: argparse.Namespace,
) -> Iterator[Row]:
    """Compare with the paper's way, and with rows of many replies under one mask of SDPA."""
    some = list(texts[: 64 if asked.small else 1024])
    papers = partial(scoring.the_papers_way, model, QUESTION, some)
    papers()  # once, so that kernels are chosen
    took, _ = timed(papers, asked.device)
    yield (
        "times as fast as the paper's way",
        (took / len(some)) / (seconds / len(texts)),
    )
    if model.attention != "sdpa":
        return
    few = replace(inputs, suffixes=inputs.suffixes[:24_576], reply_ids=[])
    blocks = vocabulary.blocks_of(few)
    pieces = [piece for block in blocks for piece in block.ids()]
    way = partial(in_rows, model, few, pieces)
    way()  # once, so that kernels are chosen
    (theirs, rewards), (usual, expected) = (
        timed(way, asked.device),
        timed(partial(ours, model, blocks), asked.device),
    )
    yield "rows of 256 under one SDPA mask, time over ours", theirs / usual
    yield (
        "rows against ours, largest difference in sd",
        float(np.abs(rewards - expected).max() / expected.std()),
    )


@torch.inference_mode()
def in_rows(
    model: RewardModel,
    inputs: Inputs,
    pieces: Sequence[torch.Tensor],
    width: int = 256,
    tokens: int = 32_768,
) -> np.ndarray:
    """Return rewards of replies in rows of `width` tokens, many rows at once, under one mask, by
    transformers alone.
    """
    ids = torch.tensor([inputs.prefix_ids], device=model.device)
    prefix = model.backbone(
        ids, past_key_values=DynamicCache(), use_cache=True
    ).past_key_values
    rewards = []
    for piece in pieces:
        length = piece.shape[1]
        per_row = max(1, width // length)
        rows = F.pad(piece, (0, 0, 0, -len(piece) % per_row)).view(-1, per_row * length)
        mask, positions = _mask_of_rows(len(inputs.prefix_ids), per_row, length)
        found = []
        for part in rows.split(max(1, tokens // rows.shape[1])):
            cache = DynamicCache()
            for number, layer in enumerate(prefix.layers):
                copied = (
                    kept.expand(len(part), -1, -1, -1)
                    for kept in (layer.keys, layer.values)
                )
                cache.update(*copied, number)
            states = model.backbone(
                input_ids=part.to(model.device),
                past_key_values=cache,
                use_cache=True,
                attention_mask=mask.to(model.device).expand(len(part), -1, -1, -1),
                position_ids=positions.to(model.device).expand(len(part), -1),
            ).last_hidden_state  # (rows, per_row * length, d)
            found.append(
                model.head(states[:, length - 1 :: length].flatten(0, 1).float())
            )
        rewards.append(torch.cat(found)[: len(piece)])
    return torch.cat(rewards).float().cpu().numpy()


def _mask_of_rows(
    prefix: int, per_row: int, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which keys each token of a row sees, (1, 1, row, prefix + row) bool, and its
    position, (1, row).
    """
    reply = torch.arange(per_row).repeat_interleave(length)
    own = (reply[:, None] == reply) & torch.ones(
        len(reply), len(reply), dtype=torch.bool
    ).tril()
    seen = torch.cat([torch.ones(len(reply), prefix, dtype=torch.bool), own], dim=1)
    return seen[None, None], (prefix + torch.arange(length).repeat(per_row))[None]


def searching(asked: argparse.Namespace) -> Iterator[Row]:
    """Time what a search consists of, and a short search."""
    model = model_for("Llama-3.1-8B", asked)
    allowed = objective.allowed_ids(model, "printable")
    goal = objective.Objective(model, QUESTION, "optimal", allowed)
    rng = np.random.default_rng(0)
    for count in (1, 128, 512):
        replies = rng.choice(allowed, (count, 5))
        seconds, _ = timed(partial(goal.values, replies), asked.device, repeats=3)
        yield f"search: {count} replies of 5 tokens, ms", 1e3 * seconds
    start = tuple(rng.choice(allowed, 5).tolist())
    gradient = partial(goal.scorer.gradient, (*start, *goal.closing))
    yield "search: one gradient, ms", 1e3 * timed(gradient, asked.device, repeats=3)[0]
    budget = 128 if asked.small else 1024
    goal = objective.Objective(model, QUESTION, "optimal", allowed, reply_mode="ids")
    seconds, _ = timed(
        partial(searches.search, goal, start, gcg.Settings(budget=budget)), asked.device
    )
    yield f"search: {budget} evaluations, s", seconds
    four = {str(n): rng.choice(allowed, 5) for n in range(4)}
    for name, reader in (("ours", None), ("packed", packed.PackedScorer)):
        model = replace(model, reader=reader)
        goal = objective.Objective(
            model, QUESTION, "optimal", allowed, reply_mode="ids"
        )
        eight = partial(
            searches.search_both_ways, goal, four, gcg.Settings(budget=budget // 2)
        )
        seconds, _ = timed(eight, asked.device)
        yield f"search: {4 * budget} evaluations, eight searches, {name}, s", seconds


def two_devices(asked: argparse.Namespace) -> Iterator[Row]:
    """Score with one layer on another device: a second card if there is one, else the CPU."""
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module

    other = "cuda:1" if torch.cuda.device_count() > 1 else "cpu"
    small = SimpleNamespace(**vars(asked) | {"small": True})
    model = model_for("Llama-3.1-8B", small, torch.float32)
    ids = [(int(i), 400) for i in range(300, 400)]
    expected = vocabulary.score_replies(model, QUESTION, ids, reply_mode="ids")
    hook = AlignDevicesHook(
        execution_device=other, io_same_device=True, place_submodules=True
    )
    add_hook_to_module(model.backbone.layers[1], hook)
    agreement.AGREED.clear()
    rewards = vocabulary.score_replies(model, QUESTION, ids, reply_mode="ids")
    yield (
        f"one layer on {other}: largest difference",
        float(np.abs(rewards - expected).max()),
    )


def planted_errors(asked: argparse.Namespace) -> Iterator[Row]:
    """Say which planted errors are refused on this device."""
    for width, layers in ({64: 2} if asked.small else planting.SHAPES).items():
        model = planting.random_model(width, layers, torch.bfloat16)
        model.backbone.to(asked.device)
        model.head.to(asked.device)
        for row in planting.rows_of(
            replace(model, device=asked.device), planting.random_inputs()
        ):
            measured = (
                f"states {row['states']:.2g} at a noise of {row['noise of states']:.2g}, "
                f"refused: {row['refused']}"
            )
            yield f"width {width}, planted: {row['planted error']}", measured


def tests(asked: argparse.Namespace) -> Iterator[Row]:
    """Run the tests whose tensors are on the device where there is one."""
    chosen = TESTS[:1] if asked.small else TESTS
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        *chosen,
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
    yield "tests", lines[-1]
    yield from (
        ("tests", line) for line in lines if line.startswith(("FAILED", "ERROR"))
    )


SECTIONS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "machine": about_machine,
    "both-devices": both_devices,
    "planted": planted_errors,
    "two-devices": two_devices,
    "llama": partial(whole_vocabulary, "Llama-3.1-8B"),
    "search": searching,
    "gemma": partial(whole_vocabulary, "Gemma-2-27B"),
    "tests": tests,
}


def run(sections: Sequence[str], asked: argparse.Namespace) -> pd.DataFrame:
    """Return all that the sections measure. What fails leaves its error, and the next section
    runs.
    """
    rows = []
    for section in sections:
        start = time.perf_counter()
        try:
            for what, value in SECTIONS[section](asked):
                rows.append({"section": section, "measured": what, "value": value})
                print(f"{section}: {what}: {value}", flush=True)
        except Exception as error:
            # whatever it is: the time of a card is short, and others wait
            line = f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
            rows.append({"section": section, "measured": "failed", "value": line})
            print(f"{section}: failed: {line}", flush=True)
        rows.append(
            {
                "section": section,
                "measured": "took, s",
                "value": time.perf_counter() - start,
            }
        )
        gc.collect()
        if asked.device == "cuda":
            torch.cuda.empty_cache()
    return pd.DataFrame(rows)


def main(given: Sequence[str] | None = None) -> int:
    """Run the sections that are asked for. Return 1 if one failed."""
    parser = scoring.arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"of {', '.join(SECTIONS)}; all by default",
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny models, to see that everything runs"
    )
    parser.add_argument(
        "--tokenizers",
        type=Path,
        help="folder with the true ones, such as gemma-2; made by default",
    )
    parser.add_argument("--out", type=Path, help="file for the table")
    asked = parser.parse_args(given)
    if unknown := set(asked.sections) - set(SECTIONS):
        parser.error(f"no section {min(unknown)}; choose of {', '.join(SECTIONS)}")
    rows = run(asked.sections or list(SECTIONS), asked)
    if asked.out:
        asked.out.write_text(f"{table(rows)}\n", encoding="utf-8")
    return int((rows["measured"] == "failed").any())


if __name__ == "__main__":
    sys.exit(main())
