"""Charts of tokens: the distribution of rewards with its ends named, and tokens of several models side by side."""

import textwrap
from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ..stats import rankings
from .display import legend_of
from .figures import GREY, Chart, label, model_colours, model_label, new_chart, styled


@styled
def draw_reward_histogram(
    table: pd.DataFrame, prompts: Iterable[str], *, nickname: str, title: str, n: int = 3, blur: bool = True
) -> Chart:
    """Draw the rewards of one model's tokens, a panel per prompt, with its n optimal and n pessimal tokens marked.

    `table`: a score table. With unique_inputs(table), each input counts once. Panels share the reward axis.
    """
    prompts = list(prompts)
    figure = new_chart(10, 0.7 + (1.9 + 0.32 * n) * len(prompts), title)
    panels = figure.subplots(len(prompts), sharex=True, squeeze=False)[:, 0]
    edges = np.histogram_bin_edges(table[prompts].to_numpy(dtype=float), bins=80)
    colour, texts = model_colours([nickname])[nickname], []
    counted = "distinct inputs" if table["input_group"].is_unique else "tokens"
    for axes, prompt in zip(panels, prompts, strict=True):
        counts, _, _ = axes.hist(table[prompt], bins=edges, color=colour)
        axes.set_ylim(0, counts.max() / BARS)
        axes.set_yticks([tick for tick in axes.get_yticks() if tick <= counts.max()])
        axes.set(title=f"{model_label(nickname)}, prompt: {prompt}", ylabel=counted)
        texts += _mark_ends(axes, rankings.ends(table, prompt, n), prompt, blur)
    panels[-1].set_xlabel("\n".join(["reward, model's own scale", *_legend((text.get_text() for text in texts), 85)]))

    figure.draw_without_rendering()  # and widen the reward axis by the widest label on either side
    whole = panels[0].get_window_extent().width
    left, right = (max((t.get_window_extent().width for t in texts if t.get_ha() == side), default=0) + 12
                   for side in ("left", "right"))  # fmt: skip
    per_pixel = (edges[-1] - edges[0]) / max(whole - left - right, whole / 5)
    panels[0].set_xlim(edges[0] - right * per_pixel, edges[-1] + left * per_pixel)
    return figure


BARS = 0.6  # the share of a panel's height that bars may fill; labels stand above it


def _mark_ends(axes: Axes, ends: pd.DataFrame, prompt: str, blur: bool) -> list:
    """Draw a line and a label at each token of the ends; labels point outwards, in steps, so that none overlap."""
    n = len(ends) // 2
    optimal, pessimal = ends.head(n), ends.tail(n)[::-1]
    heights = np.linspace(BARS + 0.08, 0.94, n) if n > 1 else [0.8]
    texts = []
    for rows, side, gap in ((optimal, "left", 5), (pessimal, "right", -5)):
        for (token, reward), height in zip(rows[["text", prompt]].itertuples(index=False), heights, strict=True):
            where = axes.get_xaxis_transform()
            axes.plot([reward, reward], [0, height], transform=where, color=GREY, linewidth=1)
            texts.append(
                axes.annotate(label(token, 14, blur=blur), (reward, height), (gap, 0), xycoords=where, ha=side,
                              textcoords="offset points", va="center", fontsize=12)
            )  # fmt: skip
    return texts


def _legend(labels: Iterable[str], width: int) -> list[str]:
    """Return what the marks in these labels mean, in lines of at most `width` characters."""
    return textwrap.wrap(legend_of("".join(labels)), width)


@styled
def draw_token_grid(
    frame: pd.DataFrame, *, title: str, blur: bool = True, models_per_row: int = 5, width: int = 16
) -> Chart:
    """Draw tokens of several models side by side: a column per model, as from rankings.side_by_side.

    After so many models per row, the others go into further panels below.
    """
    shown = frame.map(lambda token: label(token, width, blur=blur))
    blocks = [list(shown)[i : i + models_per_row] for i in range(0, shown.shape[1], models_per_row)]
    columns, ruler = len(blocks[0]), new_chart(1, 1)
    texts = [ruler.text(0, 0, text, fontsize=12) for text in np.unique(shown.to_numpy())]
    texts += [ruler.text(0, 0, model_label(name), fontsize=12, weight="bold") for name in shown]
    cell = max(text.get_window_extent().width for text in texts) / ruler.dpi + 0.25  # inches
    figure = new_chart(1.6 + cell * columns, 1.4 + 0.29 * (len(frame) + 3) * len(blocks), title)
    firsts = np.flatnonzero(~shown.index.get_level_values(0).duplicated())
    for axes, block in zip(figure.subplots(len(blocks), squeeze=False)[:, 0], blocks, strict=True):
        axes.set(xlim=(0, columns), ylim=(len(frame) - 0.5, -0.5))
        axes.tick_params(length=0, labelsize=12, labeltop=True, labelbottom=False, pad=8)
        axes.set_yticks(range(len(frame)), [f"{end if row in firsts else ''} {position}"
                                            for row, (end, position) in enumerate(shown.index)])  # fmt: skip
        starts = np.arange(len(block))
        axes.set_xticks(starts, map(model_label, block), ha="left", weight="bold")
        axes.hlines([-0.5] * len(block), starts, starts + 0.8, color=model_colours(block).values(), linewidth=4)
        axes.hlines(firsts[1:] - 0.5, 0, columns, color=GREY, linewidth=1)
        for (row, column), text in np.ndenumerate(shown[block].to_numpy()):
            axes.text(column, row, text, va="center", fontsize=12)
        axes.spines[:].set_visible(False)
    figure.supxlabel("\n".join(_legend(shown.to_numpy().ravel(), int(8 * figure.get_figwidth()))), fontsize=12)
    return figure
