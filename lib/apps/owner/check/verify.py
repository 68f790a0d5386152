"""Verify whether a real reward model, run here, gives its published scores: `why`, with the
released rewards.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

from .... import InputError
from ....tables import registry, score_files, scores
from ....tables.collection import ITEMS
from . import why
from .why import Answer


def verify(
    name: str, *, sample: int = 40, seed: int = 0, **options: Any
) -> dict[str, Answer]:
    """Return, for each published prompt, why the released rewards of a model of the paper differ
    from those here.

    They are compared on a sample of items, which is spread over the ranking and drawn with the
    seed. InputError for a model that is not one of the ten.
    """
    models = registry.reward_models()
    ten = models[models["group"] == "paper"]
    if name not in ten.index and name not in set(ten["hub_id"]):
        raise InputError(
            f"scores were published for ten reward models, and '{name}' is not one of them; "
            f"choose from {', '.join(ten.index)}"
        )
    nickname = registry.find_in(models, name, "reward model")["nickname"]
    path = scores.path_of(ITEMS, nickname)
    if not path.is_file():
        score_files.import_items()
    items = spread_sample(scores.read(path), sample, seed)
    answers = {}
    prompts = items.attrs["metadata"]["prompts"]
    for prompt, question in prompts.items():
        context = json.dumps([{"role": "user", "content": question}])
        printed = [str(reward) for reward in items[prompt]]
        rows = pd.DataFrame(
            {"context": context, "reply": list(items["text"]), "printed": printed}
        )
        answers[f"items, {prompt}"] = why.explain(name, rows, **options)
    return answers


def spread_sample(table: pd.DataFrame, n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of a table: one drawn from each of n stretches of nearly equal length, in
    order.
    """
    if not 2 <= n <= len(table):
        raise InputError(
            f"a sample of {n} items cannot be drawn; choose 2 to {len(table)}"
        )
    edges = np.linspace(0, len(table), n + 1).astype(int)
    random = np.random.default_rng(seed)
    drawn = random.integers(edges[:-1], edges[1:])
    return table.iloc[drawn].reset_index(drop=True)


def print_report(name: str, **options: Any) -> bool:
    """Print why published scores differ from those of the model run here; return whether some
    are not explained.
    """
    answers = verify(name, **options)
    print(
        *(f"published {source}: {answer.line}" for source, answer in answers.items()),
        sep="\n",
    )
    return any(answer.code == 2 for answer in answers.values())
