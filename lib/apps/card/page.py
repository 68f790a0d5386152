"""The card as one HTML page that fetches nothing and prints on A4, and as JSON with all its
numbers.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from ... import InputError
from ...io import replacing, shown_path
from ...scoring import implicit
from ...show import display
from ...show.pages import template
from ...tables.collection import OWN, Collection
from ...tables.imports import read_columns
from ...tables.registry import study_of
from ..check import checking
from . import exploits, making, outside, replies
from .making import Card
from .measures import ENDS, MEASURES, RANDOM, is_labelled
from .random_heads import BAND, HEADS

PAIRS_SHOWN = 5
GREY_DIRECTIONS = (RANDOM, "undecided")
FURTHEST = 6.0  # standard deviations of the published models; what lies further out is drawn there
BAND_NAME, OWN_NAME, LIKE_RANDOM = (
    "95% of random heads",
    "this model",
    "this model, as a random head",
)


def card(
    name: str,
    collection: str | None = None,
    words: str | None = None,
    reference: str | None = None,
    limits: str | None = None,
    bos: str = "single",
    **options: Any,
) -> int:
    """Print what a model values as a table, and write its card. Return how many values are beyond
    their limits.

    words: a csv of own lists, see replies.read_lists; limits: a csv, see read_limits; options: of
    implicit.open_model.
    """
    lists, given = (
        None if words is None else replies.read_lists(words),
        None if limits is None else read_limits(limits),
    )
    if (table := outside.table_of(name, collection)) is not None:
        made = making.of_table(name, table, Collection(collection or OWN.name))
    elif len(models := implicit.find(name, reference)) != 1:
        raise InputError(f"'{name}' names {len(models)} reward models; a card is about one")
    else:
        [load], study = models.values(), study_of(models, collection)
        # before it is loaded: two may not fit
        report = (
            None
            if reference is not None
            else checking.check(load, bos, **implicit.options_for(None, **options))
        )
        made = making.of_model(
            implicit.open_model(load, reference, **options), study, bos, report, lists
        )
    print(*warnings(made), sep="\n", end="\n" * bool(warnings(made)))
    shown = pd.DataFrame(
        {
            "measure": MEASURES.loc[made.measured.index, "label"],
            "value": made.measured.apply(making.value, axis=1),
            "direction": [making.reading(key, row) for key, row in made.measured.iterrows()],
            "published": made.measured.apply(making.place, axis=1),
        }
    )
    print(f"What {made.nickname} values:\n{shown.to_string(index=False)}")
    written = write(made)
    print(f"The card is {shown_path(written[0])}, its numbers are {shown_path(written[1])}.")
    if given is None:
        return 0
    beyond = beyond_limits(made, given)
    print(
        *beyond,
        f"{len(beyond)} of {len(given)} values are beyond the limits of {limits}.",
        sep="\n",
    )
    return len(beyond)


def read_limits(file: str | Path) -> pd.DataFrame:
    """Return the limits of a csv with columns measure, low, high: measure -> low, high. One of both
    may be empty.

    InputError for a file without these columns, and for a line that is no limit.
    """
    rows = read_columns(file, "measure", "low", "high").map(str.strip)
    given = rows[["low", "high"]].apply(pd.to_numeric, errors="coerce")
    limits = given.fillna({"low": -np.inf, "high": np.inf})
    wrong = (rows["measure"] == "") | rows["measure"].duplicated() | given.isna().all(axis=1)
    wrong |= (given.isna() & (rows[["low", "high"]] != "")).any(axis=1) | (
        limits["low"] > limits["high"]
    )
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
    values = pd.concat(
        [
            card.measured["estimate"],
            *(
                table[column]
                for table, column in ((card.swaps, "change"), (card.lists, "estimate"))
                if len(table)
            ),
        ]
    )
    if unclear := [name for name in limits.index if list(values.index).count(name) != 1]:
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
        card.collection.figures / f"card-{card.nickname}.{end}" for end in ("html", "json")
    )
    for path, text in ((page, as_html(card, blur)), (numbers, as_json(card))):
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    return page, numbers


def warnings(card: Card) -> list[str]:
    """Return the first lines of a card: of a model that fails `check`, and of one that was trained
    on VADER's ratings.

    There are none for any other model.
    """
    lines, name = [], card.nickname
    if card.failed:
        command = card.command.replace("make card", "make check").partition(" COLLECTION=")[0]
        lines.append(
            f"{name} fails its check ({', '.join(card.failed)}): these may not be its rewards. "
            f"Run: {command}"
        )
    if is_labelled(name):
        words = card.measured.loc["people_words", "n"]
        lines.append(
            f"{name} was trained on VADER's ratings. Its measures with VADER use only the "
            f"{words:,.0f} rated"
        )
        lines[-1] += (
            " words whose stems its training left out; the published models are measured with all "
            "words."
        )
    return lines


def as_html(card: Card, blur: bool = True) -> str:
    """Return the card as one page."""
    is_grey = card.measured["direction"].isin(GREY_DIRECTIONS)
    drawn = standardised(card)
    strips = {key: strip(drawn[drawn["measure"] == key]) for key in is_grey.index}
    outermost, tables = {}, []
    for end, tokens in card.ends.groupby("end"):
        outermost[end] = [
            Markup(display.token_html(text, 24, blur=blur)) for text in tokens["text"].head(3)
        ]
        shown = tokens.rename(columns={"text": "token"})[["position", "token", "reward"]]
        tables.append(display.table_html(shown, ["token"], blur, f"Tokens {ENDS[end]}"))
    for end, pairs in card.pairs.items():
        shown = pairs.query("survives").head(PAIRS_SHOWN)[["reply", "reward"]]
        shown.insert(0, "position", range(1, len(shown) + 1))
        if len(pairs):
            tables.append(display.table_html(shown, ["reply"], blur, f"Two words {ENDS[end]}", 34))
    return template("card", Path(__file__).parent).render(
        title=f"What {card.nickname} values",
        card=card,
        making=making,
        about=MEASURES,
        swaps=replies.SWAPS,
        rows=card.measured.loc[is_grey.sort_values(kind="stable").index],
        grey=GREY_DIRECTIONS,
        heads=HEADS,
        strips=strips,
        tables=[Markup(table.html) for table in tables],
        outermost=outermost,
        failed=warnings(card),
        outside=card.outside(),
        searched={end: len(searched(card, end)) for end in ENDS},
        spam=most_spammed(card.spam),
        repeats=exploits.REPEATS,
        token=lambda text: Markup(display.token_html(text, 24, blur=blur)),
        warning=display.content_warning(blur).text,
        notice=" ".join(card.collection.notice.split()),
    )


def most_spammed(spam: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return heading -> rows of the section on spam: each text once, at the place of its largest
    gain.
    """
    if spam.empty:
        return {}
    texts = exploits.most_gained(spam)
    most, others = texts.head(exploits.MOST), texts[exploits.MOST :]
    return {
        f"The {len(most)} texts with the largest gain": most,
        "Other tricks": others[others["kind"] == "style"],
    }


def strip(rows: pd.DataFrame) -> Markup:
    """Return one measure as a small picture, from rows of `standardised`: dots, crosses, a
    diamond and a pale bar.
    """
    ends = ["place", "ci_low", "ci_high"]
    # in units of the picture
    rows = rows.assign(**(110 + 17 * rows[ends].clip(-FURTHEST, FURTHEST)).round(1))
    parts, own = ['<line x1="110" x2="110" y1="0" y2="20" stroke="#ccc"/>'], []
    for row in rows.itertuples():
        x, low, high = row.place, row.ci_low, row.ci_high
        if row.group == BAND_NAME and low == low:
            parts.append(
                f'<rect x="{low}" y="6" width="{max(1, high - low):.1f}" height="8" fill="#ddd"/>'
            )
        elif row.group == "published":
            parts.append(f'<circle cx="{x}" cy="10" r="3" fill="none" stroke="#555"/>')
        elif row.group == "planted":
            parts.append(f'<path d="M{x - 2} 8l4 4m0-4l-4 4" stroke="#999"/>')
        elif row.group in (OWN_NAME, LIKE_RANDOM):
            colour = "black" if row.group == OWN_NAME else "#9a9a9a"
            line = (
                f'<line x1="{low}" x2="{high}" y1="10" y2="10" stroke="{colour}" stroke-width="2"/>'
            )
            own += [line] * (low == low) + [f'<path d="M{x} 5l5 5-5 5-5-5z" fill="{colour}"/>']
    return Markup(
        f'<svg class="strip" viewBox="0 0 220 20" aria-hidden="true">{"".join(parts + own)}</svg>'
    )


def searched(card: Card, end: str) -> list[str]:
    """Return the words that were combined into the two-word replies of one end."""
    return sorted(set(" ".join(card.pairs[end]["reply"]).split()))


def standardised(card: Card) -> pd.DataFrame:
    """Return every value of the card in standard deviations of the published models from their
    mean.

    Columns: measure, group (published, planted, or a name above), model, place, ci_low, ci_high.
    Other models have no interval, and random heads have their band. Measures on which the published
    models do not differ are left out.
    """
    others = {
        group: values.drop(columns=card.nickname, errors="ignore").reindex(card.measured.index)
        for group, values in card.others.items()
    }
    named = np.where(card.measured["direction"] == RANDOM, LIKE_RANDOM, OWN_NAME)
    band = (
        card.measured[BAND]
        .set_axis(["ci_low", "ci_high"], axis=1)
        .assign(group=BAND_NAME, model=card.nickname)
    )
    own = card.measured[["estimate", "ci_low", "ci_high"]].rename(columns={"estimate": "place"})
    tables = [band, own.assign(group=named, model=card.nickname)]
    for group, values in others.items():
        long = values.melt(var_name="model", value_name="place", ignore_index=False).dropna(
            subset="place"
        )
        tables.append(long.assign(group=group))
    rows, numbers = pd.concat(tables), ["place", "ci_low", "ci_high"]
    mean, spread = others["published"].mean(axis=1), others["published"].std(axis=1, ddof=1)
    rows[numbers] = (
        rows[numbers].sub(mean.reindex(rows.index), axis=0).div(spread.reindex(rows.index), axis=0)
    )
    rows = rows[spread.reindex(rows.index) > 0].rename_axis("measure").reset_index()
    return rows[["measure", "group", "model", *numbers]]


def as_json(card: Card) -> str:
    """Return all numbers of the card, to seven digits, as ASCII, so that no token in it acts on
    a terminal.
    """
    rows = []
    for key, row in card.measured.iterrows():
        groups = {}
        for group, table in card.others.items():
            end = "" if group == "published" else f"_{group}"
            place = {name: int(row[name + end]) for name in ("below", "equal", "within", "of")}
            groups[group] = {
                "place": place,
                "values": table.loc[key].dropna().to_dict() if key in table.index else {},
            }
        about = MEASURES.loc[key, ["label", "unit", "null", "texts"]].to_dict()
        own = row[
            ["estimate", "ci_low", "ci_high", "n", "direction", *BAND, "p_corrected"]
        ].to_dict()
        rows.append(
            {"key": key, **about, **own, "reading": making.reading(str(key), row), **groups}
        )
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
        "measures": rows,
        "real_replies": card.swaps.to_dict("index"),
        "own_lists": card.lists.to_dict("index"),
        "spam": card.spam.to_dict("records"),
        "texts": {
            "words": card.typed_words,
            "items": card.typed_items,
            "tokens": card.settings["tokens"],
            "words_read_as_one_token": card.single_tokens,
        },
    }

    def seven_digits(number: str) -> float:
        value = float(number)
        return int(value) if value == int(value) else float(f"{value:.7g}")

    plain = json.loads(
        json.dumps(content), parse_float=seven_digits, parse_constant=lambda missing: None
    )
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"
