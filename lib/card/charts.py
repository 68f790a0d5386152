"""The picture of a card: all its measures on one axis, that of the ten published models."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from lib.card.making import Card
from lib.card.measures import BY_KEY
from lib.figures import GREY, Chart, new_chart, styled

FURTHEST = 6.0  # standard deviations of the published models; what lies beyond is drawn there, as an arrow
STYLES: dict[str, dict[str, Any]] = {
    "published": {"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 6},
    "planted": {"marker": "x", "color": GREY, "markersize": 5},
}
OFFSETS = {"published": -0.22, "planted": 0.22}


@styled
def draw_places(card: Card, *, title: str) -> Chart:
    """Where a model lies on each measure: in standard deviations of the ten published models from their mean.

    A diamond with its 95% interval for the model, a ring per published and a cross per planted model. Measures that no
    published models differ on are left out.
    """
    rows = standardised(card)
    keys = list(dict.fromkeys(rows["measure"]))
    figure = new_chart(9.5, 1.8 + 0.42 * len(keys), title)
    axes = figure.subplots()
    axes.axvline(0, color=GREY, linewidth=0.8)
    for group, style in STYLES.items():
        some = rows[rows["group"] == group]
        heights = some["measure"].map(keys.index) + OFFSETS[group]
        axes.plot(_inside(some["place"]), heights, linestyle="", label=f"{group} models", **style)
    _draw_own(axes, rows[rows["group"] == "own"], keys, card.nickname)
    axes.set_yticks(range(len(keys)), [BY_KEY[key].label for key in keys])
    axes.set(ylim=(len(keys) - 0.5, -0.5), xlim=(-FURTHEST - 0.4, FURTHEST + 0.4))
    axes.set_xlabel("standard deviations of the published models from their mean")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def standardised(card: Card) -> pd.DataFrame:
    """Every value of the card in standard deviations of the published models from their mean.

    Columns: measure, group (own, published, planted), model, place, ci_low, ci_high (missing but for own). A measure
    on which fewer than two published models differ is left out.
    """
    rows = []
    for key, own in card.measured.iterrows():
        values = {group: table.loc[key].dropna().drop(card.nickname, errors="ignore")
                  for group, table in card.others.items() if key in table.index}  # fmt: skip
        spread = values["published"].std(ddof=1) if "published" in values else np.nan
        if not spread > 0:
            continue
        mean = values["published"].mean()
        place, low, high = ((own[name] - mean) / spread for name in ("estimate", "ci_low", "ci_high"))
        rows.append((key, "own", card.nickname, place, low, high))
        for group, some in values.items():
            rows += [(key, group, name, (value - mean) / spread, np.nan, np.nan) for name, value in some.items()]
    return pd.DataFrame(rows, columns=["measure", "group", "model", "place", "ci_low", "ci_high"])


def _inside(places: pd.Series) -> pd.Series:
    return places.clip(-FURTHEST, FURTHEST)


def _draw_own(axes: Axes, rows: pd.DataFrame, keys: list[str], nickname: str) -> None:
    heights = rows["measure"].map(keys.index)
    axes.hlines(heights, _inside(rows["ci_low"]), _inside(rows["ci_high"]), color="black", linewidth=2)
    within = rows["place"].abs() <= FURTHEST
    axes.plot(rows["place"][within], heights[within], "D", color="black", markersize=8, label=nickname)
    for sign, marker in ((-1, "<"), (1, ">")):
        beyond = sign * rows["place"] > FURTHEST
        axes.plot(_inside(rows["place"])[beyond], heights[beyond], marker, color="black", markersize=9)
