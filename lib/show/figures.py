"""Figures: one style, one palette, one way to open a chart and one place to save it.

Tokens go through `label`, because one may hold what matplotlib reads as a formula, or a character
that the font lacks. A picture cannot be unblurred, so in charts an offensive token is hidden unless
the notebook says blur=False.
"""

import io
import math
import textwrap
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from PIL import Image

from ..io import checked, replacing
from ..tables import registry
from ..tables.collection import Collection
from ..tables.exports import write_csv
from .display import show_token

FONT = "DejaVu Sans"  # comes with matplotlib, so a figure is the same on every machine
RC_PARAMS = {
    "font.family": FONT,
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.titlesize": 15,
    "figure.titleweight": "bold",
    "text.usetex": False,
}
GREY = "#595959"
# Of pairs that are no model families, as signs: hues that no family has, which colour-blind readers
# tell apart.
POSITIVE = "#1b7837"
NEGATIVE = "#762a83"
SIDES = {"positive": POSITIVE, "negative": NEGATIVE}
TITLE_CHARACTERS = 6.5  # per inch of a chart's width
# stands in every picture of the embedded models
PLANTED = "small models, values planted"
# as many as just fit, for charts of several panels, whose titles are long
DENSE_TITLE = 8.2
# From dark to light. Blue against orange is told apart by readers who confuse red and green, and by
# lightness too.
HUES = {
    "llama": ("#08306b", "#2171b5", "#7fc4e8"),
    "gemma": ("#7f2704", "#d94801", "#fdb863"),
    "other": ("#252525", "#737373", "#b3b3b3"),
}


# --- style and palette ----------------------------------------------------------------------------


def style() -> None:
    """Give every later figure of the notebook that calls this the project's style."""
    mpl.rcParams.update(RC_PARAMS)


def model_colours(nicknames: Iterable[str]) -> dict[str, str]:
    """Return the colour of each model, as `#rrggbb`: the same in every notebook, whichever models
    are asked for.

    The base family gives the hue. Within it, models of one group, such as `paper`, run from dark to
    light by developer, and models that the registry does not hold in the order given.
    """
    nicknames = list(dict.fromkeys(nicknames))
    models = registry.reward_models()
    # numbered in the registry's order
    models["developer"] = pd.factorize(models["developer"])[0]
    models["hue"] = [
        next((hue for hue in HUES if hue in base.lower()), "other")
        for base in models["base"]
    ]
    unknown = [name for name in nicknames if name not in models.index]
    colours = shades(unknown, "other")
    for (_, hue), rows in models.groupby(["group", "hue"], sort=False):
        rows = rows.sort_values("developer", kind="stable")
        colours |= shades(rows.index, hue)
    return {name: colours[name] for name in nicknames}


def shades(names: Iterable[str], hue: str) -> dict[str, str]:
    """Return a colour for each name, from dark to light within a hue of HUES."""
    names = list(names)
    shade = LinearSegmentedColormap.from_list(hue, HUES[hue])
    places = [0.5]
    if len(names) != 1:
        places = np.linspace(0, 1, len(names))
    return {
        name: to_hex(shade(place)) for name, place in zip(names, places, strict=True)
    }


def label(token: str, width: int = 20, *, blur: bool = True) -> str:
    """Return a token as matplotlib can write it: visible, at most `width` columns, no formula or
    missing glyph.
    """
    font = font_manager.get_font(font_manager.findfont(FONT))
    shown = show_token(
        token,
        width,
        blur=blur,
        lacks=lambda character: not font.get_char_index(ord(character)),
    )
    return shown.replace("$", r"\$")


# --- saving ---------------------------------------------------------------------------------------


class Chart(Figure):
    """A figure that a notebook shows once, where it is a cell's result, with or without pyplot."""

    alt = ""  # stands for the picture where it cannot be seen
    file = ""  # the name of its picture

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        return _png(self, dpi=100), {
            "alt": self.alt or finding_of(self),
            "file": self.file,
        }

    def __repr__(self) -> str:
        return f"figure: {self.alt or finding_of(self)}"

    def panels(self, count: int, columns: int) -> np.ndarray:
        """Add a grid with so many columns, and return the axes of its first panels, (count,)."""
        rows = math.ceil(count / columns)
        axes = self.subplots(rows, columns, squeeze=False).ravel()
        for unused in axes[count:]:
            unused.set_axis_off()
        return axes[:count]


def save(figure: Figure, collection: Collection, name: str, alt: str = "") -> Path:
    """Write figures/<collection>/<name>.png and return its path; the same figure gives the same
    bytes.

    `alt` is the finding in one sentence, for readers who cannot see the picture. Without it, the
    title is used. A figure of the embedded models says above its upper right corner that their
    values are planted.
    """
    if collection.is_embedded and PLANTED not in [
        text.get_text() for text in figure.texts
    ]:
        # Above the figure, where nothing is covered: the saved picture is as large as all that it
        # holds.
        figure.text(
            0.995,
            1.005,
            PLANTED,
            ha="right",
            va="bottom",
            fontsize=10,
            color=GREY,
        )
    # replacing adds to the name
    path = collection.figures / checked(f"{name}.png", "a figure", longest=240)
    with replacing(path) as part:
        part.write_bytes(_png(figure, dpi=150))
    figure.alt = " ".join(alt.split())
    figure.file = path.name
    return path


def finding_of(figure: Figure) -> str:
    """Return the title of a figure, or else the titles of its panels, as one line of text; ''
    without any.
    """
    titles = (
        [figure.get_suptitle()]
        if figure.get_suptitle()
        else [axes.get_title(loc="left") for axes in figure.axes]
    )
    return "; ".join(
        " ".join(title.replace(r"\$", "$").split())
        for title in dict.fromkeys(titles)
        if title
    )


def save_table(frame: pd.DataFrame, collection: Collection, name: str) -> Path:
    """Write figures/<collection>/<name>.csv and return its path; a named index is written, any
    other left out.

    Numbers have six significant digits.

    Read tokens back with keep_default_na=False, and show them with lib.show.display.
    """
    path = collection.figures / checked(f"{name}.csv", "a figure", longest=240)
    # fewer than a processor's rounding can change
    return write_csv(frame, path, digits=6)


def _png(figure: Figure, dpi: int) -> bytes:
    file = io.BytesIO()
    # no date and no version is written, so that equal figures are equal files
    with mpl.rc_context(RC_PARAMS):
        figure.savefig(
            file,
            format="png",
            dpi=dpi,
            bbox_inches="tight",
            metadata={"Software": None},
        )
    return smaller(file.getvalue())


def smaller(png: bytes) -> bytes:
    """Return the picture in 256 colours, which a chart hardly needs more of, at a third of the
    size.
    """
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(
        256,
        method=Image.Quantize.FASTOCTREE,
        dither=Image.Dither.NONE,
    ).save(file, "PNG", optimize=True)
    return file.getvalue()


# --- charts ---------------------------------------------------------------------------------------


# as a decorator: draw in the project's style, whatever the notebook has set
styled = mpl.rc_context(RC_PARAMS)


def new_chart(
    width: float,
    height: float,
    title: str = "",
    per_inch: float = TITLE_CHARACTERS,
) -> Chart:
    """Return an empty chart of this size in inches; `per_inch` is how many characters of its
    title fit an inch.
    """
    figure = Chart(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # texts can only be measured on a canvas
    if title:
        figure.suptitle(
            "\n".join(title_lines(title, width, per_inch)),
            x=0.01,
            ha="left",
        )
    return figure


def title_lines(
    title: str,
    inches: float,
    per_inch: float = TITLE_CHARACTERS,
) -> list[str]:
    """Return the lines of a title on a chart of this width; its own line breaks and models'
    names are kept.
    """
    width = max(10, int(inches * per_inch))
    return [
        line
        for part in title.split("\n")
        for line in textwrap.wrap(part, width, break_on_hyphens=False)
    ]


def model_label(name: str) -> str:
    """Return a model's name as matplotlib can write it, at most 30 columns; names are never
    hidden.
    """
    return label(name, 30, blur=False)
