"""What tests of charts share: awkward tokens, and which texts of a figure overlap or leave it."""

import itertools

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

HOSTILE = [
    "$x$",
    "$",
    r"\$",
    "a$b",
    "$\\frac{1$",
    "\x1b[31mred",
    "😀爱情",
    "\U0001fae8",
    "<b>",
    "نفت",
    "#" * 60,
    " " + "W" * 19,
    "_{a}^b",
    "a\u202eb",
    " love",
    "love",
    "null",
    "",
    "\n",
    "हिन्दी",
]
TEN = [
    "N-Gem-27B",
    "S-Gem-27B-v0.2",
    "S-Gem-27B",
    "S-Lla-8B-v0.2",
    "N-Lla-8B",
    "L-Lla-8B",
    "R-Lla-8B",
    "R-Lla-3B",
    "F-Lla-8B-v0.1",
    "R-Gem-2B",
]
TITLE = (
    "All of these distributions are skewed to the right: a few tokens are liked much, most are "
    "disliked a little"
)


def visible_texts(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    unseen = set()  # labels of ticks beyond an axis' limits
    for axes in figure.axes:
        for axis, (low, high) in (
            (axes.xaxis, axes.get_xlim()),
            (axes.yaxis, sorted(axes.get_ylim())),
        ):
            unseen |= {
                tick.label1
                for tick in axis.get_major_ticks()
                if not low <= tick.get_loc() <= high
            }
    texts = figure.findobj(Text)
    return [
        text
        for text in texts
        if text not in unseen and text.get_visible() and text.get_text().strip()
    ]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts of which more than a hair's breadth is printed on the same place."""
    boxes = [
        (text.get_text(), text.get_window_extent().padded(-1.5))
        for text in visible_texts(figure)
    ]
    return [
        (a, b)
        for (a, one), (b, other) in itertools.combinations(boxes, 2)
        if one.overlaps(other)
    ]


def outside(figure: Figure) -> list[str]:
    page = figure.bbox.padded(2)
    boxes = [
        (text.get_text(), text.get_window_extent()) for text in visible_texts(figure)
    ]
    return [
        text
        for text, box in boxes
        if not (page.contains(*box.min) and page.contains(*box.max))
    ]


def pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())
