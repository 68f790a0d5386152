"""What a terminal shows of score tables."""

from collections.abc import Iterable

import pandas as pd

from ..tables import scores
from ..tables.collection import Collection
from .display import show_token


def score_lines(collection: Collection, models: Iterable[str]) -> list[str]:
    """Return, in lines, what was scored, and per model the three best and worst replies to the
    first prompt.
    """
    rows = {}
    for name in models:
        path = scores.path_of(collection, name)
        if path.is_file():
            table = scores.read(path)
            prompt, *_ = scores.prompt_names(table)
            inputs = scores.unique_inputs(table)
            ranked = inputs.sort_values(prompt, ascending=False, kind="stable")["text"]
            shown = [show_token(text, 10) for text in [*ranked[:3], *ranked[:-4:-1]]]
            best, worst = ", ".join(shown[:3]), ", ".join(shown[3:])
            rows[name] = [len(table), len(inputs), prompt, best, worst]
    columns = ["tokens", "distinct", "prompt", "optimal", "pessimal"]
    found = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    counted = f"Reward models scored in collection '{collection}': {len(rows)}."
    return [counted, found.to_string() if rows else ""]
