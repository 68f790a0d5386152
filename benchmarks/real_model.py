"""How fast a real model is scored, and what bfloat16 changes. Run: python -m benchmarks.real_model
[--tokens 4096] [--dtypes float32]

V-Smol-135M scores its whole vocabulary, or a sample of it, in float32 and in bfloat16:
benchmarks/real_model.md.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, spearmanr

from benchmarks.scoring import (
    QUESTION,
    compare,
    machine,
    processor_seconds,
    table,
    write_report,
)
from lib.human_ratings import training
from lib.models import conversations, reward_models
from lib.scoring import engine
from lib.tables.prompts import read_prompts

PAGE = Path(__file__).with_suffix(".md")
PADDED = 256  # replies that the plain padded loop reads
DTYPES = ("float32", "bfloat16")


def speed(replies: int, dtypes: Sequence[str]) -> pd.DataFrame:
    """Return a row per dtype: replies per second of ours and of the plain padded loop, and the
    token-count bound.
    """
    rows = []
    for dtype in dtypes:
        model = reward_models.load(training.NICKNAME, dtype=dtype)
        row = compare(
            model, len(model.conversation(QUESTION).prefix_ids), replies, PADDED
        )
        rows.append({name: value for name, value in row.items() if name != "model"})
    return pd.DataFrame(rows)


def whole_vocabulary(tokens: int | None, dtypes: Sequence[str]) -> pd.DataFrame:
    """Return the rewards of the vocabulary, or of a sample, tokens x dtypes; attrs["seconds"]
    holds core-seconds.
    """
    prompt, rewards, took = read_prompts("greatest")["greatest"], {}, {}
    for dtype in dtypes:
        model = reward_models.load(training.NICKNAME, dtype=dtype)
        sample = engine.sample(model, tokens) if tokens else None
        texts = conversations.vocabulary(model.tokenizer, sample)["text"].tolist()
        took[dtype], rewards[dtype] = processor_seconds(
            lambda model=model, texts=texts: engine.score_replies(model, prompt, texts)
        )
    frame = pd.DataFrame(rewards)
    frame.attrs["seconds"] = took
    return frame


def errors_of_bfloat16(rewards: pd.DataFrame) -> dict[str, float]:
    """Return how bfloat16's rewards differ from float32's: in standard deviations, and in places
    of the ranking.
    """
    wrong = (rewards["bfloat16"] - rewards["float32"]) / rewards["float32"].std()
    places = np.abs(rankdata(rewards["bfloat16"]) - rankdata(rewards["float32"]))
    top = [set(rewards[dtype].nlargest(100).index) for dtype in DTYPES]
    return {
        "replies": len(rewards),
        "root mean square error, SD": float(np.sqrt((wrong**2).mean())),
        "largest error, SD": float(wrong.abs().max()),
        "median places": float(np.median(places)),
        "median places, share of the ranking": float(np.median(places) / len(rewards)),
        "of the 100 best, in both": len(top[0] & top[1]),
        "Spearman's rho": float(
            spearmanr(rewards["float32"], rewards["bfloat16"]).statistic
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--replies",
        type=int,
        default=2048,
        help="how many replies each dtype's speed is measured on",
    )
    parser.add_argument(
        "--tokens", type=int, help="a sample of the vocabulary; default: all of it"
    )
    parser.add_argument(
        "--dtypes",
        nargs="+",
        choices=DTYPES,
        default=DTYPES,
        help="bfloat16 takes very long where the processor only imitates it",
    )
    asked = parser.parse_args()
    speeds = speed(asked.replies, asked.dtypes)
    rewards = whole_vocabulary(asked.tokens, asked.dtypes)
    took = ", ".join(
        f"{dtype} {seconds:.0f} s ({len(rewards) / seconds:.0f} replies per core-second)"
        for dtype, seconds in rewards.attrs["seconds"].items()
    )
    native = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    lines = [
        f"{machine('cpu')}; load of the machine's {os.cpu_count()} cores meanwhile: "
        f"{os.getloadavg()[0]:.1f}; the processor "
        f"{'multiplies' if native else 'does not multiply'} bfloat16 numbers itself",
        table(speeds),
        f"{len(rewards):,} tokens of the vocabulary to one prompt, processor's seconds: {took}.",
    ]
    if set(asked.dtypes) == set(DTYPES):
        lines.append(table(pd.DataFrame([errors_of_bfloat16(rewards)])))
    write_report("real model", "\n\n".join(lines), PAGE)


if __name__ == "__main__":
    main()
