"""Figures: one style, one palette, one way to open a chart and one place to save it.

Tokens go through `label`, because one may hold what matplotlib reads as a formula, or a character
that the font lacks. A picture cannot be unblurred, so in charts an offensive token is hidden unless
the notebook says blur=False.
"""

import io
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from ..io import replacing
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
# stands in every picture of the embedded models
PLANTED = "small models, values planted"
SAVED_DPI, SHOWN_DPI = 150, 100  # dots per inch of a picture's file, and in a notebook


# --- style and palette ----------------------------------------------------------------------------


def style() -> None:
    """Give every later figure of the notebook that calls this the project's style."""
    mpl.rcParams.update(RC_PARAMS)


def model_colours(nicknames: Iterable[str]) -> dict[str, str]:
    """Return the colour of each model, as `#rrggbb`: the same in every notebook, whichever models
    are asked for.

    In the registry the base family gives the hue, from dark to light by developer. Orange against
    blue is told apart by readers who confuse red and green. Other models are grey, in the order
    given.
    """
    colours = registry.reward_models()["colour"].to_dict()
    others = [name for name in dict.fromkeys(nicknames) if name not in colours]
    shades = mpl.colormaps["Greys"](np.linspace(0.9, 0.4, len(others)))
    colours |= zip(others, map(to_hex, shades), strict=True)
    return {name: colours[name] for name in nicknames}


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
    # the picture in a notebook, once it is saved: drawing it again takes long
    shown = b""

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        png = self.shown or _png(_drawn(self, dpi=SHOWN_DPI))
        return png, {"alt": self.alt, "file": self.file}

    def __repr__(self) -> str:
        return f"figure: {self.alt}"

    def panels(self, count: int, columns: int) -> np.ndarray:
        """Add a grid with so many columns, and return the axes of its first panels, (count,)."""
        axes = self.subplots(-(-count // columns), columns, squeeze=False).ravel()
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
    if collection.is_embedded:
        # Above the figure, where nothing is covered: the saved picture is as large as all that it
        # holds.
        corner = {"ha": "right", "va": "bottom", "fontsize": 10, "color": GREY}
        figure.text(0.995, 1.005, PLANTED, **corner)
    path = collection.figures / f"{name}.png"
    picture = _drawn(figure, dpi=SAVED_DPI)
    with replacing(path) as part:
        part.write_bytes(_png(picture))
    size = [side * SHOWN_DPI // SAVED_DPI for side in picture.size]
    figure.shown = _png(picture.resize(size, Image.Resampling.LANCZOS))
    alt = alt or figure.get_suptitle().replace(r"\$", "$")
    figure.alt = " ".join(alt.split())
    figure.file = path.name
    return path


def save_table(frame: pd.DataFrame, collection: Collection, name: str) -> Path:
    """Write figures/<collection>/<name>.csv and return its path; a named index is written, any
    other left out.

    Numbers have six significant digits.

    Read tokens back with keep_default_na=False, and show them with lib.show.display.
    """
    path = collection.figures / f"{name}.csv"
    # fewer than a processor's rounding can change
    return write_csv(frame, path, digits=6)


def _drawn(figure: Figure, dpi: int) -> Image.Image:
    file = io.BytesIO()
    with mpl.rc_context(RC_PARAMS):
        figure.savefig(file, format="png", dpi=dpi, bbox_inches="tight")
    return Image.open(file).convert("RGB")


def _png(picture: Image.Image) -> bytes:
    """Return the picture in 256 colours, which a chart hardly needs more of, at a third of the
    size. No date and no version is written, so that equal pictures are equal files.
    """
    file = io.BytesIO()
    fewer = picture.quantize(
        256,
        method=Image.Quantize.FASTOCTREE,
        dither=Image.Dither.NONE,
    )
    fewer.save(file, "PNG", optimize=True)
    return file.getvalue()


# --- charts ---------------------------------------------------------------------------------------


# as a decorator: draw in the project's style, whatever the notebook has set
styled = mpl.rc_context(RC_PARAMS)


def new_chart(width: float, height: float, title: str = "") -> Chart:
    """Return an empty chart of this size in inches, with a title of as many lines as it takes."""
    figure = Chart(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # texts can only be measured on a canvas
    figure.suptitle(title, x=0.01, ha="left", wrap=True)
    return figure


def model_label(name: str) -> str:
    """Return a model's name as matplotlib can write it, at most 30 columns; names are never
    hidden.
    """
    return label(name, 30, blur=False)
