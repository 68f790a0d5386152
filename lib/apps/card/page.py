"""The card as one HTML page that fetches nothing and prints on A4, and as JSON with all its numbers."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from ... import InputError
from ...io import replacing
from ...notebooks.pages import shown_path
from ...scoring import implicit
from ...show import display
from ...show.charts import Forest, Mark, draw_forest
from ...show.figures import GREY, Chart
from ...show.pages import template
from ...tables.collection import OWN, Collection
from ...tables.registry import study_of
from . import making, outside, replies
from .making import ENDS, Card
from .measures import MEASURES, RANDOM
from .random_heads import BAND, HEADS

PAIRS_SHOWN = 5
FURTHEST = 6.0  # standard deviations of the published models; what lies further out is drawn there
BAND_NAME, OWN_NAME, LIKE_RANDOM = "95% of random heads", "this model", "this model, as a random head"
MARKS = {
    BAND_NAME: Mark("#dddddd", "", width=10), OWN_NAME: Mark("black", "D", size=7),
    LIKE_RANDOM: Mark("#9a9a9a", "D", size=7), "published": Mark("black", "o", "white"), "planted": Mark(GREY, "x"),
}  # fmt: skip


def card(
    name: str, collection: str | None = None, words: str | None = None, reference: str | None = None, **options: Any
) -> None:
    """Print what a model values as a table, and write its card. `words` is a csv of own lists. See also making.make."""
    lists = None if words is None else replies.read_lists(words)
    if (table := outside.table_of(name, collection)) is not None:
        made = making.of_table(name, table, Collection(collection or OWN.name))
    elif len(models := implicit.find(name, reference)) != 1:
        raise InputError(f"'{name}' names {len(models)} reward models; a card is about one")
    else:
        made = making.make(*models.values(), study_of(models, collection), lists=lists, reference=reference, **options)
    print(*warnings(made), sep="\n", end="\n" * bool(warnings(made)))
    print(f"What {made.nickname} values:\n{made.table().to_string(index=False)}")
    written = write(made)
    print(f"The card is {shown_path(written[0])}, its numbers are {shown_path(written[1])}.")


def write(card: Card, blur: bool = True) -> tuple[Path, Path]:
    """Write figures/<collection>/card-<nickname>.html and .json; return both. `blur` blurs offensive tokens."""
    page, numbers = (card.collection.figures / f"card-{card.nickname}.{end}" for end in ("html", "json"))
    for path, text in ((page, as_html(card, blur)), (numbers, as_json(card))):
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    return page, numbers


def warnings(card: Card) -> list[str]:
    """Return the first line of the card of a model that fails `check`; nothing for any other."""
    if not card.failed:
        return []
    command = card.command.replace("make card", "make check").partition(" COLLECTION=")[0]
    return [f"{card.nickname} fails its check ({', '.join(card.failed)}): these may not be its rewards. Run: {command}"]


# --- the page -----------------------------------------------------------------------------------------------------


def as_html(card: Card, blur: bool = True) -> str:
    """Return the card as one page."""
    rows = [
        {"about": MEASURES.loc[key], "value": making.value(row), "reading": making.reading(key, row), "n": row["n"],
         "direction": row["direction"],
         "band": None if pd.isna(row["random_low"]) else making.interval(row, "random"),
         "places": {group: making.place(row, group) for group in card.others},
         "values": {group: table.loc[key].dropna().sort_values().map("{:.2f}".format).to_dict()
                    for group, table in card.others.items() if key in table.index}}
        for key, row in card.measured.iterrows()
    ]  # fmt: skip
    tables = [tokens_table(card, end, blur) for end in ENDS]
    tables += [pairs_table(card, end, blur) for end in ENDS if len(card.pairs[end])]
    outermost = {
        end: [Markup(display.token_html(text, 24, blur=blur)) for text in some["text"].head(3)]
        for end, some in card.ends.groupby("end")
    }
    chart = draw_places(card, title="") if len(standardised(card)) else None
    return template("card", Path(__file__).parent).render(
        title=f"What {card.nickname} values", card=card, rows=rows, tables=[Markup(table.html) for table in tables],
        picture=base64.b64encode(chart._repr_png_()[0]).decode() if chart else "", failed=warnings(card), heads=HEADS,
        outermost=outermost, outside=card.outside(), labels=MEASURES["label"], swaps=replies.SWAPS,
        searched={end: len(searched(card, end)) for end in ENDS}, text_of=making.value,
        warning=display.content_warning(blur).text, notice=" ".join(card.collection.notice.split()),
    )  # fmt: skip


def searched(card: Card, end: str) -> list[str]:
    """Return the words that were combined into the two-word replies of one end."""
    return sorted(set(" ".join(card.pairs[end]["reply"]).split()))


def tokens_table(card: Card, end: str, blur: bool = True) -> display.Shown:
    """Return one end of the vocabulary as a table."""
    rows = card.ends[card.ends["end"] == end].rename(columns={"position": "", "text": "token"})
    return display.table_html(rows[["", "token", "reward"]], ["token"], blur, f"Tokens {ENDS[end]}")


def pairs_table(card: Card, end: str, blur: bool = True) -> display.Shown:
    """Return the outermost two-word replies of one end as a table."""
    rows = card.pairs[end].query("survives").head(PAIRS_SHOWN)
    rows = rows[["reply", "reward"]].assign(**{"": range(1, len(rows) + 1)})[["", "reply", "reward"]]
    return display.table_html(rows, ["reply"], blur, f"Two words {ENDS[end]}", 34)


def draw_places(card: Card, *, title: str) -> Chart:
    """Draw each measure in standard deviations of the ten published models from their mean.

    A diamond with its 95% interval is the model, in grey if a random head gives such a value too. A ring is a published
    model, a cross a planted one, and a pale bar 95% of random heads. Values beyond FURTHEST are drawn at FURTHEST.
    """
    rows = standardised(card).assign(panel="")
    ends = ["place", "ci_low", "ci_high"]
    rows[ends] = rows[ends].clip(-FURTHEST, FURTHEST)
    rows["measure"] = rows["measure"].map(MEASURES["label"])
    forest = Forest("measure", "panel", "group", MARKS, estimate="place", heading="{}", width=9.5, reach=0.24)
    return draw_forest(rows, forest, title=title, xlabel="standard deviations of the published models from their mean")


def standardised(card: Card) -> pd.DataFrame:
    """Return every value of the card in standard deviations of the published models from their mean.

    The columns are measure, group (one of MARKS), model, place, ci_low and ci_high. Other models have no interval, and
    random heads have their band. Measures on which the published models do not differ are left out.
    """
    published = card.others["published"].drop(columns=card.nickname, errors="ignore").reindex(card.measured.index)
    named = np.where(card.measured["direction"] == RANDOM, LIKE_RANDOM, OWN_NAME)
    band = card.measured[BAND].set_axis(["ci_low", "ci_high"], axis=1).assign(group=BAND_NAME, model=card.nickname)
    own = card.measured[["estimate", "ci_low", "ci_high"]].rename(columns={"estimate": "place"})
    tables = [band, own.assign(group=named, model=card.nickname)]
    for group, values in card.others.items():
        some = values.drop(columns=card.nickname, errors="ignore").reindex(card.measured.index)
        long = some.melt(var_name="model", value_name="place", ignore_index=False).dropna(subset="place")
        tables.append(long.assign(group=group))
    rows, numbers = pd.concat(tables), ["place", "ci_low", "ci_high"]
    mean, spread = (values.reindex(rows.index) for values in (published.mean(axis=1), published.std(axis=1, ddof=1)))
    rows[numbers] = rows[numbers].sub(mean, axis=0).div(spread, axis=0)
    rows = rows[(spread > 0).to_numpy()].rename_axis("measure").reset_index()
    return rows[["measure", "group", "model", *numbers]]


# --- as numbers ---------------------------------------------------------------------------------------------------


def as_json(card: Card) -> str:
    """Return all numbers of the card, to seven digits, as ASCII, so that no token in it acts on a terminal."""
    content = {
        "model": card.nickname, "failed": list(card.failed), "collection": card.collection.name,
        "command": card.command, "settings": card.settings,
        "tokens": {end: rows.drop(columns="end").to_dict("records") for end, rows in card.ends.groupby("end")},
        "two_words": {
            end: {"searched": searched(card, end), "replies": table.head(PAIRS_SHOWN).to_dict("records")}
            for end, table in card.pairs.items()
        },
        "measures": [_measure(card, str(key), row) for key, row in card.measured.iterrows()],
        "real_replies": card.swaps.to_dict("index"), "own_lists": card.lists.to_dict("index"),
        "texts": {"words": card.typed_words, "items": card.typed_items, "tokens": card.settings["tokens"],
                  "words_read_as_one_token": card.single_tokens},
    }  # fmt: skip
    return json.dumps(_plain(content), indent=1, allow_nan=False) + "\n"


def _measure(card: Card, key: str, row: pd.Series) -> dict:
    groups = {}
    for group, table in card.others.items():
        end = "" if group == "published" else f"_{group}"
        place = {name: int(row[name + end]) for name in ("below", "equal", "within", "of")}
        groups[group] = {"place": place, "values": table.loc[key].dropna().to_dict() if key in table.index else {}}
    about = MEASURES.loc[key, ["label", "unit", "null", "texts"]].to_dict()
    own = row[["estimate", "ci_low", "ci_high", "n", "direction", *BAND]].to_dict()
    return {"key": key, **about, **own, "reading": making.reading(key, row), **groups}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: numbers to seven digits, whole ones as such, None for what is missing."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else int(value) if value == int(value) else float(f"{value:.7g}")
