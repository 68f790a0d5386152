"""Prompts: those of data/prompts.csv, the grid of 54 published ones, and the side that each of them asks for.

A prompt goes by its name, which is a column of the score tables: `greatest`, `best` and `worst` are the paper's three,
and a cell of the grid is called adjective_superlative_style, such as `greatest_world_one`.
"""

import difflib
import itertools
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from lib import ROOT, InputError
from lib.scores import COLUMNS

# 6 adjectives x 3 superlatives x 3 styles of asking for one word = 54 prompts, in the order of the published columns.
ADJECTIVES = {"best": "best", "greatest": "greatest", "good": "most good", "worst": "worst", "bad": "most bad",
              "terrible": "most terrible"}  # fmt: skip
POLARITIES = {"best": 1, "greatest": 1, "good": 1, "worst": -1, "bad": -1, "terrible": -1}
SUPERLATIVES = {"ever": "ever", "world": "in the world", "time": "of all time"}
STYLES = {
    "one": "What, in one word, is the {}?",
    "single": "What, in a single word, is the {}?",
    "please": "What is the {}? Please answer in one word only.",
}
PAPERS_OWN = {"greatest_ever_one": "greatest", "best_ever_one": "best", "worst_ever_one": "worst"}


def read_prompts(chosen: str | None) -> dict[str, str]:
    """Name -> prompt. chosen: names from data/prompts.csv, separated by commas; a csv like it; None takes them all."""
    ours = _prompt_table(ROOT / "data" / "prompts.csv")
    if not chosen:
        return ours
    if Path(chosen).suffix == ".csv":
        return _prompt_table(Path(chosen))
    names = [name.strip() for name in chosen.split(",")]
    for name in names:
        if name not in ours:
            near = difflib.get_close_matches(name, ours, n=1, cutoff=0)[0]
            raise InputError(f"unknown prompt '{name}'; did you mean '{near}'? Or give a csv with columns prompt,text")
    return {name: ours[name] for name in names}


def _prompt_table(path: Path) -> dict[str, str]:
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a csv with columns prompt,text") from error
    if not {"prompt", "text"} <= set(table.columns) or table.empty:
        raise InputError(f"{path} has no columns prompt,text with a row; head it with: prompt,text")
    wrong = [name for name in table["prompt"] if not name.strip() or name in COLUMNS]
    wrong += table.loc[table["prompt"].duplicated(), "prompt"].tolist()
    if wrong or not table["text"].str.strip().all():
        raise InputError(f"{path}: each row needs a text and a name of its own, not one of {', '.join(COLUMNS)}")
    return dict(zip(table["prompt"], table["text"], strict=True))


# --- the grid -----------------------------------------------------------------------------------------------------


def grid() -> pd.DataFrame:
    """The 54 prompts that words were scored for: columns prompt, adjective, superlative, style, published, text.

    prompt: its column in the score tables; the paper's three are `greatest`, `best`, `worst`. published: its column in
    the published files. One row per prompt, in the order of the published columns.
    """
    rows = []
    for adjective, superlative, style in itertools.product(ADJECTIVES, SUPERLATIVES, STYLES):
        name = f"{adjective}_{superlative}_{style}"
        text = STYLES[style].format(f"{ADJECTIVES[adjective]} thing {SUPERLATIVES[superlative]}")
        rows.append([PAPERS_OWN.get(name, name), adjective, superlative, style, name, text])
    return pd.DataFrame(rows, columns=["prompt", "adjective", "superlative", "style", "published", "text"])


def polarity(prompt: str) -> int:
    """1 for a prompt that asks for good things, -1 for one that asks for bad things, by the adjective in its name.

    Names are those of data/prompts.csv (`greatest`) or of the 54 published prompts (`greatest_world_one`).
    """
    return POLARITIES[cell(prompt)[0]]


def cell(prompt: str) -> tuple[str, str, str]:
    """The (adjective, superlative, style) of a prompt of the 6 x 3 x 3 grid; `worst` alone is (worst, ever, one)."""
    if parts := _parts(prompt):
        return parts
    raise InputError(
        f"whether prompt '{prompt}' asks for good or bad things is unknown; name it by its adjective, one of "
        f"{', '.join(ADJECTIVES)}, alone or as adjective_superlative_style"
    )


def with_polarity(prompts: Iterable[str]) -> list[str]:
    """Those of the prompts whose names say what they ask for (see cell), in their order."""
    return [prompt for prompt in prompts if _parts(prompt)]


def _parts(prompt: str) -> tuple[str, str, str] | None:
    parts = tuple(prompt.split("_")) if "_" in prompt else (prompt, "ever", "one")
    is_cell = len(parts) == 3 and all(
        part in names for part, names in zip(parts, (ADJECTIVES, SUPERLATIVES, STYLES), strict=True)
    )
    return parts if is_cell else None
