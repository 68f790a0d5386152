"""Verify whether a real reward model, run here, gives its published scores: `why`, with the released rewards as file.

For one model, JudgeBench (Tan et al. 2024) released rewards of 350 pairs of long answers, where causes show clearly.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import InputError
from ...tables import downloads, registry, score_files, scores
from ...tables.collection import ITEMS
from . import why
from .why import Answer

REPOSITORY = "ScalerLab/JudgeBench"
JUDGED = "S-Gem-27B"  # the only one of the paper's ten models whose rewards were released there
FILE = ("outputs/dataset=judgebench,response_model=gpt-4o-2024-05-13,judge_name=reward_model,"
        "judge_model=Skywork_Skywork-Reward-Gemma-2-27B.jsonl")  # fmt: skip


def verify(name: str, *, sample: int = 40, seed: int = 0, **options: Any) -> dict[str, Answer]:
    """Return why each source of published rewards of one of the paper's ten models differs from the model run here.

    The sources are a sample of items under each published prompt and, for one model, long answers. Each was made with
    settings of its own. The sample is spread over the ranking, and drawn with the seed. InputError for another model.
    """
    models = registry.reward_models()
    ten = models[models["group"] == "paper"]
    if name not in ten.index and name not in set(ten["hub_id"]):
        raise InputError(
            f"scores were published for ten reward models, and '{name}' is not one of them; "
            f"choose from {', '.join(ten.index)}"
        )
    nickname = registry.find_in(models, name, "reward model")["nickname"]
    if not (path := scores.path_of(ITEMS, nickname)).is_file():
        score_files.import_items()
    items = spread_sample(scores.read(path), sample, seed)
    sources = {f"items, {prompt}": _rows([question] * len(items), items["text"], items[prompt])
               for prompt, question in items.attrs["metadata"]["prompts"].items()}  # fmt: skip
    if nickname == JUDGED:
        try:
            sources["long answers"] = read_answers(downloads.fetch(REPOSITORY, FILE), sample, seed)
        except downloads.Unreachable as error:
            print(f"Long answers are not compared: {error}.")
    return {source: why.explain(name, rows, **options) for source, rows in sources.items()}


def read_answers(path: Path, sample: int, seed: int = 0) -> pd.DataFrame:
    """Return a sample of the pairs of a released file, two rows per pair, as why.explain takes them.

    InputError, which names file and line, for a line that is no scored pair.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n"), start=1):
        try:
            pair = json.loads(line)
            for letter, reward in zip("AB", map(float, pair["judgments"][0]["judgment"]["scores"]), strict=True):
                rows.append((str(pair["question"]), str(pair[f"response_{letter}"]), reward))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise InputError(f"{path}, line {number} holds no pair with two scores; fetch it again") from error
    questions, texts, rewards = zip(*rows, strict=True)
    if not np.isfinite(rewards).all():
        raise InputError(f"{path} holds rewards that are not finite; fetch it again")
    table = _rows(questions, texts, rewards)
    first = spread_sample(table[::2].reset_index(drop=True), min(sample, len(table) // 2), seed)
    return table[table["context"].isin(first["context"])].reset_index(drop=True)


def _rows(questions: Any, texts: Any, rewards: Any) -> pd.DataFrame:
    contexts = [json.dumps([{"role": "user", "content": str(question)}]) for question in questions]
    return pd.DataFrame({"context": contexts, "reply": list(texts), "printed": [str(reward) for reward in rewards]})


def spread_sample(table: pd.DataFrame, n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of a table: one drawn from each of n stretches of nearly equal length, in order."""
    if not 2 <= n <= len(table):
        raise InputError(f"a sample of {n} items cannot be drawn; choose 2 to {len(table)}")
    edges = np.linspace(0, len(table), n + 1).astype(int)
    return table.iloc[np.random.default_rng(seed).integers(edges[:-1], edges[1:])].reset_index(drop=True)


def print_report(name: str, **options: Any) -> bool:
    """Print why published scores differ from those of the model run here; return whether some are not explained."""
    answers = verify(name, **options)
    print(*(f"published {source}: {answer.line}" for source, answer in answers.items()), sep="\n")
    return any(answer.code == 2 for answer in answers.values())
