"""Listings: what there is to choose from, as lines for the terminal."""

import shutil
import textwrap
from collections.abc import Iterable

import pandas as pd

from lib import ROOT
from lib.collection import EMBEDDED, ITEMS, OWN, PUBLISHED, VOCABULARY, WORDS, Collection
from lib.prompts import grid, read_prompts
from lib.reproduce.notebooks import find_notebooks, opening, parameters_of


def models() -> list[str]:
    """The reward models of the registry: nickname, group, base, parameters in 10^9, and what is loaded."""
    registry = pd.read_csv(ROOT / "data" / "reward_models.csv", dtype=str, keep_default_na=False)
    columns = ["nickname", "group", "base", "parameters_b", "hub_id"]
    header = ["model", "group", "base", "10^9 parameters", "loaded from"]
    return [*_aligned([header, *registry[columns].to_numpy().tolist()]),
            "Any other: its hub id (owner/name) or its folder. paper: the ten of the paper."]  # fmt: skip


def collections() -> list[str]:
    """The collections that have or may have score tables: kind, number of models, and where the figures are."""
    known = (EMBEDDED, OWN, WORDS, ITEMS, VOCABULARY, PUBLISHED)
    others = (Collection(path.name) for path in sorted((ROOT / "data" / "scores").glob("[!.]*")) if path.is_dir())
    rows = [
        [study.name, study.kind, str(sum(len(part.models) for part in study.parts)), _place(study)]
        for study in dict.fromkeys([*known, *others])
    ]
    return _aligned([["collection", "kind", "score tables", "figures"], *rows])


def prompts() -> list[str]:
    """The prompts that are scored unless others are named, and how the published grid is called."""
    few = [["prompt", "text"], *([name, text] for name, text in read_prompts(None).items())]
    whole = grid()
    example = whole[~whole["prompt"].isin(list(read_prompts(None)))].iloc[0]
    return [*_aligned(few), f'Published scores have {len(whole)}, as {example["prompt"]}: "{example["text"]}"',
            "Your own: a csv with columns prompt,text."]  # fmt: skip


def notebooks() -> list[str]:
    """The notebooks: what each asks, and the parameters that it takes with their defaults."""
    lines = []
    for path in find_notebooks(ROOT / "notebooks"):
        given = ", ".join(f"{name}={value!r}" for name, value in parameters_of(path).items())
        lines += [path.stem, f"    {opening(path)[1]}", *_wrapped(given)]
    return lines


LISTINGS = {"models": models, "collections": collections, "prompts": prompts, "notebooks": notebooks}


def show(what: str | None = None) -> None:
    """Print one listing, None for all."""
    print("\n\n".join("\n".join(LISTINGS[name]()) for name in ([what] if what else LISTINGS)))


def _place(study: Collection) -> str:
    return f"{study.figures.relative_to(ROOT)}{'' if study.figures.is_dir() else ' (not yet)'}"


def _wrapped(text: str) -> Iterable[str]:
    width = shutil.get_terminal_size((120, 0)).columns
    return textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ")


def _aligned(rows: list[list[str]]) -> list[str]:
    """The rows as lines with columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
