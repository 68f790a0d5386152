"""The card as one HTML page that fetches nothing and prints on A4, and as JSON with all its
numbers.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from ..check import checking
from ..opening import opening
from ..paper import (
    Collection,
    InputError,
    display,
    imports,
    pages,
    registry,
    replacing,
    shown_path,
)
from ..paper import collection as tables_collection
from . import exploits, making, outside, replies
from .making import Card
from .measures import ENDS, MEASURES, RANDOM, is_labelled
from .others import ENDINGS, PLACES
from .random_heads import BAND, HEADS

PAIRS_SHOWN = 5
GREY_DIRECTIONS = (RANDOM, "undecided")
# standard deviations of the published models; what lies further out is drawn there
FURTHEST = 6.0
BAND_NAME = "95% of random heads"
OWN_NAME = "this model"
LIKE_RANDOM = "this model, as a random head"


def card(
    name: str,
    collection: str | None = None,
    words: str | None = None,
    reference: str | None = None,
    limits: str | None = None,
    bos: str = "single",
    spam: int | None = None,
    **options: Any,
) -> int:
    """Print what a model values as a table, and write its card. Return how many values are beyond
    their limits.

    words: a csv of own lists, see replies.read_lists; limits: a csv, see read_limits; spam: whether
    to ask what a policy would spam, None where this is quick; options: of opening.open_model.
    """
    lists = None if words is None else replies.read_lists(words)
    given = None if limits is None else read_limits(limits)
    made = make(name, collection, lists, reference, bos, spam, **options)
    lines = [f"{line}\n" for line in warnings(made)]
    print(*lines, sep="", end="")
    print(f"What {made.nickname} values:\n{as_text(made)}")
    if made.spam.empty and not made.swaps.empty:
        print("What a policy would spam was not asked (SPAM=1 asks it).")
    page, numbers = write(made)
    print(f"The card is {shown_path(page)}, its numbers are {shown_path(numbers)}.")
    if given is None:
        return 0
    beyond = beyond_limits(made, given)
    counted = f"{len(beyond)} of {len(given)} values are beyond the limits of {limits}."
    print(*beyond, counted, sep="\n")
    return len(beyond)


def make(
    name: str,
    collection: str | None,
    lists: pd.DataFrame | None,
    reference: str | None,
    bos: str,
    spam: int | None,
    **options: Any,
) -> Card:
    """Return the card of a model, or of rewards that were imported under this name. For the
    arguments see `card`.
    """
    if (table := outside.table_of(name, collection)) is not None:
        return making.of_table(
            name, table, Collection(collection or tables_collection.OWN.name)
        )
    models = opening.find(name, reference)
    if len(models) != 1:
        raise InputError(
            f"'{name}' names {len(models)} reward models; a card is about one"
        )
    [load] = models.values()
    study = registry.study_of(models, collection)
    report = None
    if reference is None:  # before it is loaded: two may not fit
        how = opening.options_for(None, **options)
        report = checking.check(load, bos, **how)
    model = opening.open_model(load, reference, **options)
    asks = exploits.are_quick(model) if spam is None else bool(spam)
    return making.of_model(model, study, bos, report, lists, asks)


def as_text(card: Card) -> str:
    """Return the measures of a card as a table to print."""
    measured = card.measured
    readings = [making.reading(key, row) for key, row in measured.iterrows()]
    columns = {
        "measure": MEASURES.loc[measured.index, "label"],
        "value": measured.apply(making.value, axis=1),
        "direction": readings,
        "published": measured.apply(making.place, axis=1),
    }
    return pd.DataFrame(columns).to_string(index=False)


def read_limits(file: str | Path) -> pd.DataFrame:
    """Return the limits of a csv with columns measure, low, high: measure -> low, high. One of both
    may be empty.

    InputError for a file without these columns, and for a line that is no limit.
    """
    rows = imports.read_columns(file, "measure", "low", "high").map(str.strip)
    open_ends = {"low": {"": "-inf"}, "high": {"": "inf"}}
    texts = rows[["low", "high"]].replace(open_ends)
    limits = texts.apply(pd.to_numeric, errors="coerce")
    wrong = (rows["measure"] == "") | rows["measure"].duplicated()
    wrong |= ~(limits["low"] <= limits["high"]) | np.isinf(limits).all(axis=1)
    if wrong.any():
        line = rows.index[wrong][0]
        raise InputError(
            f"{file} line {line} is no limit; name each measure once, with low, a higher high, or "
            "one"
        )
    return limits.set_axis(rows["measure"])


def beyond_limits(card: Card, limits: pd.DataFrame) -> list[str]:
    """Return a line for each value beyond its limits. InputError for a name that is no measure,
    swap or own list.
    """
    columns = (
        (card.measured, "estimate"),
        (card.swaps, "change"),
        (card.lists, "estimate"),
    )
    values = pd.concat([table[name] for table, name in columns if len(table)])
    names = list(values.index)
    if unclear := [name for name in limits.index if names.count(name) != 1]:
        raise InputError(
            f"{unclear[0]!r} is not one of this card's values; choose from "
            f"{', '.join(values.index)}"
        )
    return [
        f"{name} is {values[name]:.3f}, beyond its limits {row['low']:g} to {row['high']:g}"
        for name, row in limits.iterrows()
        if not row["low"] <= values[name] <= row["high"]
    ]


def write(card: Card, blur: bool = True) -> tuple[Path, Path]:
    """Write figures/<collection>/card-<nickname>.html and .json; return both. `blur` blurs
    offensive tokens.
    """
    page, numbers = (
        card.collection.figures / f"card-{card.nickname}.{end}"
        for end in ("html", "json")
    )
    contents = {page: as_html(card, blur), numbers: as_json(card)}
    for path, text in contents.items():
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    return page, numbers


def warnings(card: Card) -> list[str]:
    """Return the first lines of a card: of a model that fails `check`, and of one that was trained
    on VADER's ratings.

    There are none for any other model.
    """
    lines = []
    name = card.nickname
    if card.failed:
        command = f"make check MODEL={card.model}"
        lines.append(
            f"{name} fails its check ({', '.join(card.failed)}): these may not be its rewards. "
            f"Run: {command}"
        )
    if is_labelled(name):
        words = card.measured.loc["people_words", "n"]
        lines.append(
            f"{name} was trained on VADER's ratings. Its measures with VADER use only the "
            f"{words:,.0f} rated words whose stems its training left out; the published models "
            "are measured with all words."
        )
    return lines


def as_html(card: Card, blur: bool = True) -> str:
    """Return the card as one page."""
    is_grey = card.measured["direction"].isin(GREY_DIRECTIONS)
    grey_last = is_grey.sort_values(kind="stable")
    strips = drawn_at(standardised(card)).groupby("measure")

    def token(text: str) -> Markup:
        return Markup(display.token_html(text, 24, blur=blur))

    outermost = {
        end: [token(text) for text in tokens["text"].head(3)]
        for end, tokens in card.ends.groupby("end")
    }
    return pages.template("card", Path(__file__).parent).render(
        title=f"What {card.nickname} values",
        card=card,
        making=making,
        about=MEASURES,
        swaps=replies.SWAPS,
        rows=card.measured.loc[grey_last.index],
        grey=GREY_DIRECTIONS,
        own=(OWN_NAME, LIKE_RANDOM),
        heads=HEADS,
        strips={key: rows.to_dict("records") for key, rows in strips},
        tables=reply_tables(card, blur),
        outermost=outermost,
        failed=warnings(card),
        outside=card.outside(),
        searched={end: len(searched(card, end)) for end in card.pairs},
        spam=most_spammed(card.spam),
        repeats=exploits.REPEATS,
        token=token,
        warning=display.content_warning(blur).text,
        notice=" ".join(card.collection.notice.split()),
    )


def reply_tables(card: Card, blur: bool) -> list[Markup]:
    """Return the tables of the outermost tokens and, where there are some, two-word replies."""
    tables = []
    for end, tokens in card.ends.groupby("end"):
        shown = tokens[["position", "text", "reward"]].rename(columns={"text": "token"})
        tables.append((f"Tokens {ENDS[end]}", shown, 24))
    for end, pairs in card.pairs.items():
        shown = pairs.query("survives")[["reply", "reward"]].head(PAIRS_SHOWN)
        shown.insert(0, "position", range(1, len(shown) + 1))
        tables.append((f"Two words {ENDS[end]}", shown, 34))
    return [
        Markup(display.table_html(shown, [shown.columns[1]], blur, caption, width).html)
        for caption, shown, width in tables
    ]


def most_spammed(spam: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return heading -> rows of the section on spam: each text once, at the place of its largest
    gain.
    """
    if spam.empty:
        return {}
    texts = exploits.most_gained(spam)
    most = texts.head(exploits.MOST)
    others = texts[exploits.MOST :]
    return {
        f"The {len(most)} texts with the largest gain": most,
        "Other tricks": others[others["kind"] == "style"],
    }


def drawn_at(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `standardised` in units of the card's small pictures."""
    ends = ["place", "ci_low", "ci_high"]
    at = 110 + 17 * rows[ends].clip(-FURTHEST, FURTHEST)
    return rows.assign(**at.round(1))


def searched(card: Card, end: str) -> list[str]:
    """Return the words that were combined into the two-word replies of one end."""
    replies_of_end = " ".join(card.pairs[end]["reply"])
    return sorted(set(replies_of_end.split()))


def standardised(card: Card) -> pd.DataFrame:
    """Return every value of the card in standard deviations of the published models from their
    mean.

    Columns: measure, group (published, planted, or a name above), model, place, ci_low, ci_high.
    Other models have no interval, and random heads have their band. Measures on which the published
    models do not differ are left out.
    """
    measured = card.measured
    interval = ["ci_low", "ci_high"]
    band = measured[BAND].set_axis(interval, axis=1)
    group = np.where(measured["direction"] == RANDOM, LIKE_RANDOM, OWN_NAME)
    own = measured[interval].assign(place=measured["estimate"], group=group)
    tables = [band.assign(group=BAND_NAME), own]
    for name, values in card.others.items():
        others = values.drop(columns=card.nickname, errors="ignore")
        long = others.reindex(measured.index).melt(
            var_name="model", value_name="place", ignore_index=False
        )
        tables.append(long.dropna(subset="place").assign(group=name))
    rows = pd.concat(tables).fillna({"model": card.nickname})
    published = card.others["published"].drop(columns=card.nickname, errors="ignore")
    mean = published.mean(axis=1).reindex(rows.index)
    spread = published.std(axis=1).reindex(rows.index)
    numbers = ["place", *interval]
    rows[numbers] = rows[numbers].sub(mean, axis=0).div(spread, axis=0)
    rows = rows[spread > 0].rename_axis("measure").reset_index()
    return rows[["measure", "group", "model", *numbers]]


def as_json(card: Card) -> str:
    """Return all numbers of the card, to seven digits, as ASCII, so that no token in it acts on
    a terminal.
    """
    content = {
        "model": card.nickname,
        "failed": list(card.failed),
        "collection": card.collection.name,
        "command": card.command,
        "settings": card.settings,
        "tokens": {
            end: some.drop(columns="end").to_dict("records")
            for end, some in card.ends.groupby("end")
        },
        "two_words": {
            end: {
                "searched": searched(card, end),
                "replies": table.head(PAIRS_SHOWN).to_dict("records"),
            }
            for end, table in card.pairs.items()
        },
        "measures": [measure_numbers(card, key) for key in card.measured.index],
        "real_replies": card.swaps.to_dict("index"),
        "own_lists": card.lists.to_dict("index"),
        "spam": card.spam.to_dict("records"),
        "texts": {
            "words": card.typed_words,
            "items": card.typed_items,
            "tokens": card.settings["tokens"],
        },
    }

    plain = json.loads(
        json.dumps(content),
        parse_float=lambda number: float(f"{float(number):.7g}"),
        parse_constant=lambda missing: None,
    )
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def measure_numbers(card: Card, key: str) -> dict[str, Any]:
    """Return all numbers of one measure, and its place among each group of models."""
    row = card.measured.loc[key]
    groups = {}
    for group, table in card.others.items():
        place = {name: int(row[name + ENDINGS[group]]) for name in PLACES}
        values = table.reindex([key]).loc[key].dropna().to_dict()
        groups[group] = {"place": place, "values": values}
    about = MEASURES.loc[key, ["label", "unit", "null", "texts"]].to_dict()
    columns = ["estimate", "ci_low", "ci_high", "n", "direction", *BAND, "p_corrected"]
    own = row[columns].to_dict()
    reading = making.reading(key, row)
    return {"key": key, **about, **own, "reading": reading, **groups}
