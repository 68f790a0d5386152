"""The card as one HTML page that fetches nothing and prints on A4, with a csv of its measures."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from ..check import checking
from ..opening import opening
from ..paper import (
    OWN,
    Collection,
    InputError,
    display,
    pages,
    registry,
    replacing,
    shown_path,
    write_csv,
)
from . import exploits, making, outside, replies
from .making import Card
from .measures import ENDS, MEASURES, RANDOM, is_labelled
from .random_heads import BAND, HEADS

PAIRS_SHOWN = 5
# standard deviations of the published models; what lies further out is drawn there
FURTHEST = 6.0
BAND_NAME = "95% of random heads"
OWN_NAME = "this model"
LIKE_RANDOM = "this model, as a random head"
CLEAR = 0.001  # p-values of measures that no random head has by luck


def card(
    name: str,
    collection: str | None = None,
    reference: str | None = None,
    bos: str = "single",
    spam: bool = False,
    **options: Any,
) -> None:
    """Print what a model values as a table, and write its card. For the arguments see `make`."""
    made = make(name, collection, reference, bos, spam, **options)
    for line in warnings(made):
        print(line)
    print(f"What {made.nickname} values:\n{as_text(made)}")
    page, numbers = write(made)
    print(f"The card is {shown_path(page)}, its numbers are {shown_path(numbers)}.")


def make(
    name: str,
    collection: str | None,
    reference: str | None,
    bos: str,
    spam: bool,
    **options: Any,
) -> Card:
    """Return the card of a model, or of rewards that were imported under this name.

    spam: whether to ask what a policy would spam, which takes minutes for a large model on a CPU;
    options: of opening.open_model. InputError for a name of several models.
    """
    own = Collection(collection or OWN.name)
    if (table := outside.table_of(name, own)) is not None:
        return making.of_table(name, table, own)
    models = opening.find(name, reference)
    if len(models) != 1:
        raise InputError(
            f"'{name}' names {len(models)} reward models; a card is about one"
        )
    [load] = models.values()
    study = registry.study_of(models, collection)
    # before it is loaded: two may not fit
    report = checking.check(load, bos, reference, **options)
    model = opening.open_model(load, reference, **options)
    return making.of_model(model, study, bos, spam, tuple(report.wrong))


def as_text(card: Card) -> str:
    """Return the measures of a card as a table to print, and the names of those that are no
    findings.
    """
    is_grey = card.measured["direction"].isin(making.GREY)
    measured = card.measured[~is_grey]
    readings = [making.reading(key, row) for key, row in measured.iterrows()]
    columns = {
        "measure": MEASURES.loc[measured.index, "label"],
        "value": measured.apply(making.value, axis=1),
        "direction": readings,
        "published": measured.apply(making.place, axis=1),
    }
    table = pd.DataFrame(columns).to_string(index=False)
    others = MEASURES.loc[card.measured.index[is_grey], "label"]
    return f"{table}\nNot told apart from chance: {', '.join(others) or 'none'}."


def write(card: Card, blur: bool = True) -> tuple[Path, Path]:
    """Write figures/<collection>/card-<nickname>.html, and its measures as .csv; return both.
    `blur` blurs offensive tokens.
    """
    page = card.collection.figures / f"card-{card.nickname}.html"
    numbers = write_csv(card.measured.reset_index(), page.with_suffix(".csv"))
    with replacing(page) as part:
        part.write_text(as_html(card, blur), encoding="utf-8")
    return page, numbers


def warnings(card: Card) -> list[str]:
    """Return the first lines of a card: of a model that fails `check`, of one that is like random
    heads, and of one that was trained on VADER's ratings.

    There are none for any other model.
    """
    lines = []
    name = card.nickname
    if card.failed:
        lines.append(
            f"{name} fails its check ({', '.join(card.failed)}): these may not be its rewards. "
            "Run: make check"
        )
    if is_like_random(card):
        lines.append(
            f"No measure tells {name} clearly from a random head (p < {CLEAR:g}). Was its head "
            "trained, and is it the one that was loaded? transformers draws a missing head at "
            "random."
        )
    if is_labelled(name):
        words = card.measured.loc["people_words", "n"]
        lines.append(
            f"{name} was trained on VADER's ratings. Its measures with VADER use only the "
            f"{words:,.0f} rated words whose stems its training left out; the published models "
            "are measured with all words."
        )
    return lines


def is_like_random(card: Card) -> bool:
    """Return whether no measure differs clearly from those of random heads. The bound is low,
    because one random head in twenty has a measure with a p-value below .05.
    """
    has_heads = card.measured[BAND].notna().any(axis=None)
    return has_heads and not (card.measured["p_corrected"] < CLEAR).any()


def as_html(card: Card, blur: bool = True) -> str:
    """Return the card as one page."""

    def token(text: str) -> Markup:
        return Markup(display.token_html(text, 24, blur=blur))

    strips = standardised(card).groupby("measure")
    return pages.template("card", Path(__file__).parent).render(
        title=f"What {card.nickname} values",
        card=card,
        making=making,
        exploits=exploits,
        about=MEASURES,
        swaps=replies.SWAPS,
        own=(OWN_NAME, LIKE_RANDOM),
        band=BAND_NAME,
        furthest=FURTHEST,
        heads=HEADS,
        strips={key: rows.to_dict("records") for key, rows in strips},
        tables=reply_tables(card, blur),
        failed=warnings(card),
        outside=card.outside(),
        token=token,
        warning=display.content_warning(blur).text,
        notice=" ".join(card.collection.notice.split()),
    )


def reply_tables(card: Card, blur: bool) -> list[Markup]:
    """Return the tables of the outermost tokens and, where there are some, two-word replies."""
    tables = []
    for end, tokens in card.ends.groupby("end"):
        shown = tokens[["position", "text", "reward"]].rename(columns={"text": "token"})
        tables.append((shown, ["token"], blur, f"Tokens {ENDS[end]}", 24))
    for end, pairs in card.pairs.items():
        shown = pairs.head(PAIRS_SHOWN)
        tables.append((shown, ["reply"], blur, f"Two words {ENDS[end]}", 34))
    return [Markup(display.table_html(*given).html) for given in tables]


def standardised(card: Card) -> pd.DataFrame:
    """Return every value of the card in standard deviations of the published models from their
    mean.

    Columns: measure, group (published, or a name above), place, ci_low, ci_high. Published models
    have no interval, and random heads have their band.
    """
    measured = card.measured
    interval = ["ci_low", "ci_high"]
    band = measured[BAND].set_axis(interval, axis=1)
    group = np.where(measured["direction"] == RANDOM, LIKE_RANDOM, OWN_NAME)
    own = measured[interval].assign(place=measured["estimate"], group=group)
    others = card.published.melt(value_name="place", ignore_index=False)
    others = others[["place"]].assign(group="published")
    rows = pd.concat([band.assign(group=BAND_NAME), own, others])
    mean = card.published.mean(axis=1).reindex(rows.index)
    spread = card.published.std(axis=1).reindex(rows.index)
    numbers = ["place", *interval]
    rows[numbers] = rows[numbers].sub(mean, axis=0).div(spread, axis=0)
    return rows.rename_axis("measure").reset_index()
