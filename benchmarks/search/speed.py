"""How fast and how lean the search of section 5 scores its candidates.

With the prefix read once, as lib/search does, against reading every candidate whole, as the
published code does. Random weights, both ways in turn within one process, as in
benchmarks/scoring.py, whose models and report these are.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.scoring import (
    REPEATS,
    SMALL,
    TRUE_SHAPES,
    machine,
    peak_kilobytes,
    peak_memory,
    prompt_of,
    random_model,
    seconds,
    table,
    tokenizer_of,
    write_report,
)
from lib.models.reward_models import RewardModel
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.search.searches import search

PREFIXES = (25, 50)  # ids before the reply
LENGTHS = (2, 5, 20)  # tokens of a reply
WIDTHS = (32, 512, 4096)  # candidates per step


def _objective(model: RewardModel, prompt: str) -> Objective:
    return Objective(model, prompt, "optimal", allowed_ids(model), reply_mode="ids")


@torch.inference_mode()
def read_whole(
    model: RewardModel, prompt: str, replies: np.ndarray, batch: int = 128
) -> np.ndarray:
    """Return rewards of replies of ids, (replies,), every conversation read whole: what the
    published code does.
    """
    conversation, rewards = model.conversation(prompt), []
    for start in range(0, len(replies), batch):
        rows = [
            [*conversation.prefix_ids, *r, *conversation.closing_ids]
            for r in replies[start : start + batch]
        ]
        ids = torch.tensor(rows, device=model.device)
        rewards.append(
            model.head(
                model.backbone(ids, use_cache=False).last_hidden_state[:, -1].float()
            ).cpu()
        )
    return torch.cat(rewards).numpy()


def timed(
    objective: Objective, replies: np.ndarray, theirs: int
) -> tuple[list[float], np.ndarray, np.ndarray]:
    """Return median seconds of four ways, and the rewards of the first two.

    The replies with the prefix read once; the first `theirs` of them read whole; five gradients; a
    search that scores as many replies as were given.
    """
    model, prompt = objective.model, objective.prompt
    # warm up
    (
        objective.values(replies[:128]),
        read_whole(model, prompt, replies[:128]),
        objective.gains(replies[0]),
    )
    ways = [
        lambda: objective.values(replies),
        lambda: read_whole(model, prompt, replies[:theirs]),
        lambda: [objective.gains(tuple(reply)) for reply in replies[:5].tolist()],
        lambda: search(objective, replies[0], Settings(budget=len(replies))),
    ]
    runs = [[seconds(way) for way in ways] for _ in range(REPEATS)]
    (_, rewards), (_, expected) = runs[0][:2]
    return (
        np.median([[run[0] for run in one] for one in runs], axis=0).tolist(),
        rewards,
        expected,
    )


def compare(
    model: RewardModel, prefix: int, length: int, ours: int, theirs: int
) -> dict:
    """One row of the report: `ours` candidates with the prefix read once, the first `theirs` of
    them read whole.
    """
    objective = _objective(model, prompt_of(model, prefix))
    replies = np.random.default_rng(0).choice(objective.allowed, size=(ours, length))
    (shared, whole, gradients, searched), rewards, expected = timed(
        objective, replies, theirs
    )
    read = length + len(objective.closing)
    shape = {
        "model": model.name.removeprefix("random-"),
        "dtype": model.dtype,
        "prefix": prefix,
        "reply": length,
    }
    return shape | {
        "ours, candidates/s": ours / shared,
        "read whole, candidates/s": theirs / whole,
        "speed-up": (whole / theirs) / (shared / ours),
        "token-count bound": (prefix + read) / read,
        "gradients/s": 5 / gradients,
        "whole search, candidates/s": ours / searched,
        "largest difference": float(np.abs(rewards[:theirs] - expected).max()),
        "sd of rewards": float(rewards.std()),
    }


def speed(models: dict[str, RewardModel], ours: int, theirs: int) -> pd.DataFrame:
    return pd.DataFrame(
        compare(model, prefix, length, ours, theirs) | {"model": name}
        for name, model in models.items()
        for prefix in PREFIXES
        for length in LENGTHS
    )


def small_models() -> dict[str, RewardModel]:
    """Return a model of each family: hidden size 512, eight layers, fp32."""
    families = ("llama", "gemma")
    return {
        family: random_model(family, tokenizer_of(16_384, family), torch.float32, SMALL)
        for family in families
    }


def true_shape(device: str) -> dict[str, RewardModel]:
    family, size, shape = TRUE_SHAPES["Gemma-2-2B"]
    return {
        "Gemma-2-2B": random_model(
            family, tokenizer_of(size, family), torch.bfloat16, shape, device
        )
    }


def one_search(model: RewardModel, width: int) -> None:
    """4,097 candidates of five tokens: the start, and 4,096 in steps of this width."""
    objective = _objective(model, prompt_of(model, 50))
    search(objective, objective.allowed[:5], Settings(budget=4097, width=width))


def _memory_of_one(width: int, report) -> None:
    model = random_model(
        "llama",
        tokenizer_of(16_384, "llama"),
        torch.float32,
        SMALL | {"hidden_size": 128},
    )
    # a first gradient loads what every later one uses
    _objective(model, "Why?").gains((100, 101))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading (Linux)
    before = peak_kilobytes()
    one_search(model, width)
    report.put(
        {
            "width": width,
            "above the loaded model, MB": (peak_kilobytes() - before) / 1024,
        }
    )


def peak_memory_on_gpu(model: RewardModel) -> pd.DataFrame:
    rows = []
    for width in WIDTHS:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        one_search(model, width)
        above = (torch.cuda.max_memory_allocated() - before) / 2**20
        rows.append({"width": width, "above the loaded model, MB": above})
    return pd.DataFrame(rows)


def report(device: str) -> None:
    """Measure on the device, cpu or cuda, and replace its section of README.md."""
    if device == "cuda":
        models = true_shape(device)
        parts = [
            table(speed(models, 8_192, 1_024)),
            table(peak_memory_on_gpu(models["Gemma-2-2B"])),
        ]
    else:
        parts = [
            table(speed(small_models(), 256, 128)),
            table(peak_memory(_memory_of_one, WIDTHS)),
        ]
    write_report(
        "gcg on a gpu" if device == "cuda" else "gcg on a cpu",
        "\n\n".join([machine(device), *parts]),
    )
