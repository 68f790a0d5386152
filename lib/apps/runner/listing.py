"""Where a figure or table of the paper is computed again."""

import re

from ... import ROOT, InputError
from ...claims import claims
from ...tables.collection import EMBEDDED, ITEMS, VOCABULARY, WORDS
from .files import pictures_of, read, with_tag


def figure(item: str) -> None:
    """Print where the counterpart of a figure or table of the paper is: its notebooks, pictures,
    and what they show.

    item: for example `Figure 3C`, `Table A6` or `3C`, which means the figure. Raise InputError if
    it is not listed.
    """
    listed = claims.paper_table("items").set_index("item")
    kind, number = re.fullmatch(r"(?i)\s*(fig|table|)[a-z.]*\s*(.*?)\s*", item).groups()
    names = [
        f"{word} {number.upper()}"
        for word in ("Figure", "Table")
        if word.lower().startswith(kind.lower())
    ]
    name = next((name for name in names if name in listed.index), None)
    if name is None:
        raise InputError(
            f"the paper has no '{item}' that is listed; there are: {', '.join(listed.index)}"
        )
    notebook, tag = listed.loc[name, ["notebook", "tag"]]
    print(
        f"{name}: notebook {notebook}, cell '{tag}'. make published (real models) and make "
        "reproduce write:"
    )
    for folder in (
        WORDS.figures,
        ITEMS.figures,
        VOCABULARY.figures,
        ROOT / "notebooks",
    ):
        pictures = EMBEDDED.figures if folder == ROOT / "notebooks" else folder
        for path in sorted(folder.glob(f"{notebook}*.ipynb")):
            print(f"  {path.relative_to(ROOT)}")
            cells = with_tag(read(path), tag)
            for file, alt in pictures_of(cells).items():
                print(f"    {(pictures / file).relative_to(ROOT)}: {alt}")
