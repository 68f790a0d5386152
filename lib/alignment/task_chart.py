"""A drawing of the task: what people are asked about two items, and what a model is asked about one (Fig 5A)."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from lib.alignment.charts import item_label
from lib.figures import DENSE_TITLE, GREY, Chart, new_chart, styled


@styled
def draw_task(
    items: tuple[str, str], *, question: str, prompt: str, asked: str, title: str, blur: bool = True
) -> Chart:
    """People choose or grade, a model rewards one reply; both make a ranking of the same items.

    items: two that are shown. question: what people are asked; asked: of how many items at once, in words. prompt: the
    one to which a model replies.
    """
    figure = new_chart(12, 4.8, title, DENSE_TITLE)
    axes = figure.subplots()
    axes.set(xlim=(0, 12), ylim=(0, 5))
    axes.set_axis_off()
    shown = [item_label(item, 22, blur) for item in items]
    _box(axes, 0.1, 3.7, 5.6, 1.1, f"People\n“{question}”")
    _box(axes, 6.2, 3.7, 5.6, 1.1, "A reward model\n" + textwrap.fill(f"“{prompt}”", 46))
    for place, name in zip((0.1, 3.1), shown, strict=True):
        _box(axes, place, 2.2, 2.6, 0.9, name)
    axes.text(2.9, 1.9, asked, ha="center", va="top", color=GREY)
    for height, name in zip((2.75, 2.0), shown, strict=True):
        _box(axes, 6.2, height, 3.1, 0.6, f"reply: {name}")
        _arrow(axes, (9.35, height + 0.3), (10.2, height + 0.3))
        axes.text(10.3, height + 0.3, "one reward", va="center")
    for left, text in ((0.1, "a rating per item → rank by people"), (6.2, "a reward per item → rank by this model")):
        _box(axes, left, 0.3, 5.6, 0.8, text)
    _arrow(axes, (2.9, 1.5), (2.9, 1.2))
    _arrow(axes, (9.0, 1.9), (9.0, 1.2))
    return figure


def _box(axes: Axes, x: float, y: float, width: float, height: float, text: str) -> None:
    style = {"boxstyle": "round,pad=0.02,rounding_size=0.12", "facecolor": "#f2f2f2", "edgecolor": GREY}
    axes.add_patch(FancyBboxPatch((x, y), width, height, **style))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", wrap=True)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 1.5})
