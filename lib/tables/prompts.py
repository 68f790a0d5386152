"""Prompts: the table data/prompts.csv, the 54 published prompts, and whether a prompt asks for good
or bad things.

Of the 54, the paper's are `greatest`, `best` and `worst`, others adjective_superlative_style, as
`greatest_world_one`.
"""

import itertools
from collections.abc import Iterable

import pandas as pd

from .. import DATA, InputError
from .imports import read_columns

# 6 adjectives x 3 superlatives x 3 styles of asking for one word = 54 prompts, in the order of the
# published columns.
# Each adjective with 1 or -1: whether it asks for good or for bad things.
ADJECTIVES = {
    "best": ("best", 1),
    "greatest": ("greatest", 1),
    "good": ("most good", 1),
    "worst": ("worst", -1),
    "bad": ("most bad", -1),
    "terrible": ("most terrible", -1),
}
SUPERLATIVES = {"ever": "ever", "world": "in the world", "time": "of all time"}
STYLES = {
    "one": "What, in one word, is the {}?",
    "single": "What, in a single word, is the {}?",
    "please": "What is the {}? Please answer in one word only.",
}
PAPERS_OWN = {
    "greatest_ever_one": "greatest",
    "best_ever_one": "best",
    "worst_ever_one": "worst",
}


def read_prompts(chosen: str | None) -> dict[str, str]:
    """Return name -> prompt for the names in `chosen`, separated by commas. None chooses all of
    data/prompts.csv.

    `chosen` may also name another csv with the columns prompt,text. InputError for an unknown
    prompt, and for a file that is no such table.
    """
    is_file = (chosen or "").endswith(".csv")
    file = str(chosen) if is_file else DATA / "prompts.csv"
    table = read_columns(file, "prompt", "text").set_index("prompt")["text"]
    if table.empty or not table.index.is_unique or not table.str.strip().all():
        raise InputError(f"{file}: give each prompt a text, and a name of its own")
    if not chosen or is_file:
        return table.to_dict()
    wanted = [name.strip() for name in chosen.split(",")]
    for name in wanted:
        if name not in table:
            raise InputError(
                f"unknown prompt {name!r}; name one of data/prompts.csv, or a csv with prompt,text"
            )
    return table[wanted].to_dict()


def grid() -> pd.DataFrame:
    """Return the 54 prompts for words, in columns prompt (as in the score tables), published (as in
    the published files) and text, in the order of these files.
    """
    rows = []
    for adjective, superlative, style in itertools.product(
        ADJECTIVES, SUPERLATIVES, STYLES
    ):
        published = f"{adjective}_{superlative}_{style}"
        thing = f"{ADJECTIVES[adjective][0]} thing {SUPERLATIVES[superlative]}"
        prompt = PAPERS_OWN.get(published, published)
        rows.append([prompt, published, STYLES[style].format(thing)])
    return pd.DataFrame(rows, columns=["prompt", "published", "text"])


def polarity(prompt: str) -> int:
    """Return 1 for a prompt that asks for good things, and -1 for bad things, by its name;
    InputError for others.
    """
    if not with_polarity([prompt]):
        raise InputError(
            f"whether prompt '{prompt}' asks for good or bad things is unknown; name it by its "
            f"adjective, one of {', '.join(ADJECTIVES)}, alone or as adjective_superlative_style"
        )
    return ADJECTIVES[prompt.split("_")[0]][1]


def with_polarity(prompts: Iterable[str]) -> list[str]:
    """Return those of the prompts whose names are an adjective or a cell of the grid, in their
    order.
    """
    known = {*ADJECTIVES, *grid()["published"]}
    return [prompt for prompt in prompts if prompt in known]
