"""What a GPU says, in one command and one table. Run: python3 -m benchmarks.gpu --out table.md

It needs no more than scoring itself: torch, transformers, numpy, pandas, scipy and safetensors.
Models have random weights, made on the card. A section that fails
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
from transformers import PreTrainedTokenizerBase

from benchmarks import scoring
from benchmarks.scoring import QUESTION, machine, matmul_rate, operations, table
from benchmarks.shapes import TRUE_SHAPES
from benchmarks.tokenizers import open_tokenizer
from lib import ROOT
from lib.models.reward_models import RewardModel
from lib.scoring import products, reader, vocabulary
from lib.scoring.reader import Reader
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
    "tests/scoring/test_reader.py",
    "tests/scoring/test_implicit.py",
    "tests/search/test_searches.py",
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
    tokenizer = open_tokenizer(BASES[family], folder)[0]
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
        yield (
            f"{family}: largest difference from the CPU's rewards",
            float(np.abs(first - second).max()),
        )
        of_here, of_there = (
            Reader(each, each.inputs_for(QUESTION, ids[:1], reply_mode="ids"))
            .gradients([(300, 301, 302)])[0]
            .cpu()
            for each in (here, there)
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
    read = Reader(model, inputs)
    yield f"{name}: shares its prefix", "yes" if read.limit else "no"
    few = inputs.suffixes[:64]
    shared = read.rewards(few)
    usual = read.limit, read.tokens
    read.limit = 0
    one, eight = (_whole(read, few, size) for size in (1, 8))
    read.limit, read.tokens = usual
    yield (
        f"{name}: rms in sd, rows against whole, whole at batches of 1 and 8",
        f"{_rms(shared - one) / one.std():.3g}, {_rms(eight - one) / one.std():.3g}",
    )
    nodes = len({each[: k + 1] for each in inputs.suffixes for k in range(len(each))})
    work = operations(model, nodes, len(inputs.prefix_ids) + 2)
    first = None
    for width, prompts in ((128, 1), (256, 1), (512, 1), (128, products.PROMPTS)):
        with products.compiled(model.backbone, prompts):
            reader.WIDTH = width
            read.rewards(inputs.suffixes[:8192])  # so that kernels are chosen
            peak_memory(asked.device)
            seconds, rewards = timed(
                partial(read.rewards, inputs.suffixes), asked.device
            )
        first = rewards if first is None else first
        differs = np.abs(rewards - first) / first.std()
        way = f"{name}: rows of {width}{', compiled' * (prompts > 1)}"
        yield f"{way}: seconds", seconds
        yield f"{way}: TFLOP/s", work / seconds / 1e12
        rate = product_rate(asked.device, asked.small)
        yield f"{way}: of the matrix product's rate", work / seconds / rate
        yield f"{way}: peak memory, GiB", peak_memory(asked.device)
        yield (
            f"{way}: median, largest difference in sd",
            (f"{np.median(differs):.3g}, {differs.max():.3g}"),
        )
    reader.WIDTH = 128
    yield f"{name}: all finite", bool(np.isfinite(first).all())


def _whole(read: Reader, replies: list, size: int) -> np.ndarray:
    """Return rewards of whole conversations, so many at once at most."""
    read.tokens = size * (read.length + max(map(len, replies)))
    return read.rewards(replies)


def _rms(differences: np.ndarray) -> float:
    return float(np.sqrt(np.square(differences).mean()))


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
    starts = [tuple(rng.choice(allowed, 5).tolist()) for _ in range(4)]
    given = [(*start, *goal.conversation.closing_ids) for start in starts]
    gradients = partial(goal.reader.gradients, given)
    yield "search: four gradients, ms", 1e3 * timed(gradients, asked.device, 3)[0]
    budget = 128 if asked.small else 1024
    goal = objective.Objective(model, QUESTION, "optimal", allowed, reply_mode="ids")
    four = partial(searches.search, goal, starts, gcg.Settings(budget=budget))
    seconds, _ = timed(four, asked.device)
    yield f"search: four of {budget} evaluations, s", seconds


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
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
