"""Prompts: the table data/prompts.csv, the 54 published prompts, and whether a prompt asks for good or bad things.

Of the 54, the paper's are `greatest`, `best` and `worst`, others adjective_superlative_style, as `greatest_world_one`.
"""

import csv
import difflib
import itertools
from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd

from .. import ROOT, InputError, io
from .scores import COLUMNS

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
    """Return name -> prompt for the names in `chosen`, separated by commas. None chooses all of data/prompts.csv.

    `chosen` may also name another csv with the columns prompt,text. Raise InputError for a file that is no such table.
    """
    ours = _prompt_table(ROOT / "data" / "prompts.csv")
    if not chosen:
        return ours
    if Path(chosen).suffix == ".csv":
        return _prompt_table(Path(chosen))
    wanted = [name.strip() for name in chosen.split(",")]
    for name in wanted:
        if io.checked(name, "a prompt") not in ours:
            near = difflib.get_close_matches(name, ours, n=1, cutoff=0)[0]
            raise InputError(f"unknown prompt '{name}'; did you mean '{near}'? Or give a csv with columns prompt,text")
    return {name: ours[name] for name in wanted}


def _prompt_table(path: Path) -> dict[str, str]:
    table: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = filter(None, reader)  # blank lines are left out
            if next(rows, None) != ["prompt", "text"]:
                raise InputError(f"{path} has no columns prompt,text; head it with: prompt,text")
            for row in rows:
                if problem := _problem(row, table):
                    remedy = 'write each row as name,"text", the text in double quotes'
                    raise InputError(f"{path} line {reader.line_num}: {problem}; {remedy}")
                table[row[0]] = row[1]
    except csv.Error as error:
        remedy = "put the text in double quotes, a quote in it twice"
        raise InputError(f"{path} line {reader.line_num}: {error}; {remedy}") from error
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a csv in UTF-8 with columns prompt,text") from error
    if not table:
        raise InputError(f"{path} has no prompt; add a row: name,text")
    return table


def _problem(row: list[str], earlier: Collection[str]) -> str:
    """Return what is wrong with a row of a prompt table; '' for nothing."""
    if len(row) != 2:
        return f"{len(row)} columns instead of 2, perhaps for a comma outside double quotes"
    name, text = row
    try:
        io.checked(name, "a prompt")
    except InputError as error:
        return str(error).partition(";")[0]
    if name in COLUMNS or name in earlier:
        return f"a prompt needs a name of its own, and '{name}' is that of an earlier row or of another column"
    return "" if text.strip() else "a prompt needs a text"


def grid() -> pd.DataFrame:
    """Return the 54 prompts for words, in columns prompt, adjective, superlative, style, published and text.

    `prompt` is the column in the score tables, `published` that in the published files. Rows have the order of these.
    """
    rows = []
    for adjective, superlative, style in itertools.product(ADJECTIVES, SUPERLATIVES, STYLES):
        name = f"{adjective}_{superlative}_{style}"
        text = STYLES[style].format(f"{ADJECTIVES[adjective]} thing {SUPERLATIVES[superlative]}")
        rows.append([PAPERS_OWN.get(name, name), adjective, superlative, style, name, text])
    return pd.DataFrame(rows, columns=["prompt", "adjective", "superlative", "style", "published", "text"])


def polarity(prompt: str) -> int:
    """Return 1 for a prompt that asks for good things, and -1 for bad things, by its name; InputError for others."""
    if not with_polarity([prompt]):
        raise InputError(
            f"whether prompt '{prompt}' asks for good or bad things is unknown; name it by its adjective, one of "
            f"{', '.join(ADJECTIVES)}, alone or as adjective_superlative_style"
        )
    return POLARITIES[prompt.split("_")[0]]


def with_polarity(prompts: Iterable[str]) -> list[str]:
    """Return those of the prompts whose names are an adjective or a cell of the grid, in their order."""
    known = {*ADJECTIVES, *grid()["published"]}
    return [prompt for prompt in prompts if prompt in known]
