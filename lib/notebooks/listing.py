"""Lists for the terminal of models, collections, prompts and notebooks, and of the paper's figures in notebooks."""

import re
import textwrap
from collections.abc import Iterable

from .. import ROOT, InputError
from ..claims import claims
from ..tables import registry
from ..tables.collection import EMBEDDED, ITEMS, OWN, PUBLISHED, VOCABULARY, WORDS, Collection
from ..tables.prompts import grid, read_prompts
from .files import find_notebooks, opening, parameters_of, pictures_of, read, with_tag


def ls(what: str | None = None) -> None:
    """Print the list of models, collections, prompts or notebooks; None prints all four lists."""
    lists = {"models": models, "collections": collections, "prompts": prompts, "notebooks": notebooks}
    print("\n\n".join("\n".join(lists[name]()) for name in ([what] if what else lists)))


def models() -> list[str]:
    columns = {"nickname": "model", "group": "group", "base": "base", "parameters_b": "10^9 parameters",
               "hub_id": "loaded from"}  # fmt: skip
    rows = registry.reward_models().reset_index()[list(columns)].to_numpy()
    return [*_aligned([columns.values(), *rows]),
            "Any other: its hub id (owner/name) or its folder. paper: the ten of the paper."]  # fmt: skip


def collections() -> list[str]:
    here = (Collection(path.name) for path in sorted((ROOT / "data" / "scores").glob("[!.]*")) if path.is_dir())
    studies = dict.fromkeys([EMBEDDED, OWN, WORDS, ITEMS, VOCABULARY, PUBLISHED, *here])
    rows = [(study.name, study.kind, sum(len(part.models) for part in study.parts),
             f"{study.figures.relative_to(ROOT)}{'' if study.figures.is_dir() else ' (not yet)'}")
            for study in studies]  # fmt: skip
    return _aligned([("collection", "kind", "score tables", "figures"), *rows])


def prompts() -> list[str]:
    few, whole = read_prompts(None), grid()
    example = whole[~whole["prompt"].isin(list(few))].iloc[0]
    return [*_aligned([("prompt", "text"), *few.items()]),
            f'Published scores have {len(whole)}, as {example["prompt"]}: "{example["text"]}"',
            "Your own: a csv with columns prompt,text."]  # fmt: skip


def notebooks() -> list[str]:
    lines = []
    for path in find_notebooks(ROOT / "notebooks"):
        given = ", ".join(f"{name}={value!r}" for name, value in parameters_of(path).items())
        wrapped = textwrap.wrap(opening(path)[1], 116) + textwrap.wrap(given, 116)
        lines += [path.stem, *(f"    {line}" for line in wrapped)]
    return lines


def figure(item: str) -> None:
    """Print where the counterpart of a figure or table of the paper is: its notebooks, pictures, and what they show.

    item: for example `Figure 3C`, `Table A6` or `3C`, which means the figure. Raise InputError if it is not listed.
    """
    listed = claims.paper_table("items").set_index("item")
    kind, number = re.fullmatch(r"(?i)\s*(fig|table|)[a-z.]*\s*(.*?)\s*", item).groups()
    names = [f"{word} {number.upper()}" for word in ("Figure", "Table") if word.lower().startswith(kind.lower())]
    name = next((name for name in names if name in listed.index), None)
    if name is None:
        raise InputError(f"the paper has no '{item}' that is listed; there are: {', '.join(listed.index)}")
    notebook, tag = listed.loc[name]
    print(f"{name}: notebook {notebook}, cell '{tag}'. make published (real models) and make reproduce write:")
    for folder in (WORDS.figures, ITEMS.figures, VOCABULARY.figures, ROOT / "notebooks"):
        pictures = EMBEDDED.figures if folder == ROOT / "notebooks" else folder
        for path in sorted(folder.glob(f"{notebook}*.ipynb")):
            print(f"  {path.relative_to(ROOT)}")
            for file, alt in pictures_of(with_tag(read(path), tag)).items():
                print(f"    {(pictures / file).relative_to(ROOT)}: {alt}")


def _aligned(rows: Iterable[Iterable]) -> list[str]:
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
