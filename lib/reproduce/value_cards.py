"""The value card of one model, for the command line; apart from lib.reproduce.one_model, since it draws and fits."""

from pathlib import Path
from typing import Any

from lib import InputError
from lib.card import making, page, sentences
from lib.reproduce.jobs import find_models, study_of
from lib.reproduce.pages import shown_path


def make(name: str, collection: str | None = None, **options: Any) -> Path:
    """Print what a model values in words, and write its card; the path of the page. options: as of making.make."""
    if len(models := find_models([name])) != 1:
        raise InputError(f"'{name}' names {len(models)} reward models; a card is about one")
    [load] = models.values()
    card = making.make(load, study_of(models, collection), **options)
    print("\n".join([f"What {card.nickname} values:", *sentences.paragraph(card)]))
    written = page.write(card)
    print(f"The card is {shown_path(written[0])}, its numbers are {shown_path(written[1])}.")
    return written[0]
