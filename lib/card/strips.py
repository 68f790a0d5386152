"""The strip of one measure: where a model lies among the ten published models and among the planted ones, as SVG."""

import html

import numpy as np
import pandas as pd

from lib.card.measures import Measure

WIDTH, HEIGHT, MARGIN = 260, 36, 8  # without the line of numbers below
LANES = {"published": 10, "planted": 28}
OWN = 19  # between the two


def strip(measure: Measure, row: pd.Series, others: dict[str, pd.DataFrame], nickname: str) -> str:
    """The strip as an inline SVG: rings for published models, crosses for planted ones, a diamond for this one.

    The line through the diamond is its 95% interval, the dashed one the value that decides nothing. Every mark says
    its model when pointed at. row: of Card.measured; others: group -> measures x models.
    """
    values = {
        group: table.loc[measure.key].dropna().drop(nickname, errors="ignore")
        for group, table in others.items()
        if measure.key in table.index
    }
    scale = _Scale([row["estimate"], row["ci_low"], row["ci_high"], *(v for some in values.values() for v in some)])
    parts = [_null(measure, scale), *_own(row, scale, nickname)]
    for group, some in values.items():
        parts += [_mark(group, name, value, scale) for name, value in some.items()]
    said = f"{nickname} at {row['estimate']:.2f}; published models from {_ends(values.get('published'))}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 11}" role="img" aria-label="{html.escape(said)}">{"".join(parts)}'
        f"{_axis(scale)}</svg>"
    )


class _Scale:
    """From values to places on the strip, with the least and the largest value at its margins."""

    def __init__(self, values: list[float]):
        finite = np.array([value for value in values if np.isfinite(value)])
        self.low, self.high = float(finite.min()), float(finite.max())
        if self.high == self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def __call__(self, value: float) -> float:
        return round(MARGIN + (value - self.low) / (self.high - self.low) * (WIDTH - 2 * MARGIN), 1)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def _ends(values: pd.Series | None) -> str:
    return "none" if values is None or values.empty else f"{values.min():.2f} to {values.max():.2f}"


def _null(measure: Measure, scale: _Scale) -> str:
    if measure.null is None or measure.null not in scale:
        return ""
    x = scale(measure.null)
    return f'<line class="null" x1="{x}" x2="{x}" y1="2" y2="{HEIGHT}"><title>{measure.null:g}</title></line>'


def _own(row: pd.Series, scale: _Scale, nickname: str) -> list[str]:
    x, parts = scale(row["estimate"]), []
    if np.isfinite(row["ci_low"]):
        low, high = scale(row["ci_low"]), scale(row["ci_high"])
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="{OWN}" y2="{OWN}"/>')
    points = f"{x},{OWN - 6} {x + 6:.1f},{OWN} {x},{OWN + 6} {x - 6:.1f},{OWN}"
    return [*parts, f'<polygon class="own" points="{points}">{_title(nickname, row["estimate"])}</polygon>']


def _mark(group: str, name: str, value: float, scale: _Scale) -> str:
    x, y = scale(value), LANES[group]
    if group == "published":
        return f'<circle class="published" cx="{x}" cy="{y - 2}" r="3.5">{_title(name, value)}</circle>'
    path = f"M{x - 3:.1f},{y - 3}L{x + 3:.1f},{y + 3}M{x - 3:.1f},{y + 3}L{x + 3:.1f},{y - 3}"
    return f'<path class="planted" d="{path}">{_title(name, value)}</path>'


def _title(name: str, value: float) -> str:
    return f"<title>{html.escape(name)}: {value:.2f}</title>"


def _axis(scale: _Scale) -> str:
    low, high = (f"{value:.2f}".replace("-", "−") for value in (scale.low, scale.high))
    return (
        f'<text x="0" y="{HEIGHT + 9}">{low}</text><text x="{WIDTH}" y="{HEIGHT + 9}" text-anchor="end">{high}</text>'
    )
