"""Charts of the small models: the loss during training, and planted values next to recovered ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..show.figures import DENSE_TITLE, GREY, Chart, model_colours, model_label, new_chart, styled

GUESSING = float(np.log(2))  # the loss of equal rewards
STEPS_IN_A_MEAN = 10


@styled
def draw_losses(losses: Mapping[str, Sequence[float]], title: str) -> Chart:
    """Draw the loss of every training step as a thin line, and its mean over ten steps as a thick one.

    `losses` maps at most two names to the loss of each step. The dashed line is the loss of guessing.
    """
    figure = new_chart(9, 4.6, title, DENSE_TITLE)
    axes = figure.subplots()
    axes.axhline(GUESSING, color=GREY, linestyle="--", linewidth=1, label="guessing: log 2")
    for (name, values), colour in zip(losses.items(), ("black", "#969696"), strict=False):
        n = min(STEPS_IN_A_MEAN, len(values))
        means = np.convolve(values, np.ones(n) / n, mode="valid")
        axes.plot(range(1, len(values) + 1), values, color=colour, linewidth=0.6, alpha=0.5)
        axes.plot(np.arange(n, len(values) + 1) - (n - 1) / 2, means, color=colour, linewidth=2.5, label=name)
    axes.set(xlabel="step", ylabel="loss, negative log probability")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


@styled
def draw_values(recovered: pd.DataFrame, title: str) -> Chart:
    """Draw the planted and the recovered values of one model, a row per value, as an open and a full circle.

    recovered: rows of embedded.recovery.recover of one prompt, indexed by value.
    """
    figure = new_chart(9, 1.9 + 0.45 * len(recovered), title, DENSE_TITLE)
    axes, rows = figure.subplots(), np.arange(len(recovered))
    axes.hlines(rows, recovered["planted"], recovered["recovered"], color="#bdbdbd", linewidth=1.5)
    axes.plot(recovered["planted"], rows, "o", markerfacecolor="white", markeredgecolor="black", label="planted")
    axes.hlines(rows, recovered["ci_low"], recovered["ci_high"], color="black", linewidth=3)
    axes.plot(recovered["recovered"], rows, "o", color="black", label="recovered, with its 95% interval over words")
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(rows, recovered.index)
    axes.set_ylim(len(recovered) - 0.5, -0.5)
    axes.set_xlabel("utility, in logits of preference")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@styled
def draw_skews(skews: pd.DataFrame, title: str) -> Chart:
    """Draw the planted and the recovered skewness of each model, in order of the planted skewness.

    skews: model -> planted, recovered. An open circle and a full one in the model's colour, a line between them.
    """
    ordered = skews.astype(float).sort_values("planted")
    figure = new_chart(9, 2.1 + 0.45 * len(ordered), title, DENSE_TITLE)
    axes, rows, colours = figure.subplots(), np.arange(len(ordered)), model_colours(ordered.index)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.hlines(rows, ordered["planted"], ordered["recovered"], color="#bdbdbd", linewidth=1.5)
    axes.scatter(ordered["planted"], rows, s=64, facecolors="white", edgecolors="black", label="planted", zorder=2)
    axes.scatter(ordered["recovered"], rows, s=64, c=list(colours.values()), zorder=3)
    axes.scatter([], [], s=64, color="black", label="found in its rewards")  # in black, since a legend names no model
    axes.set_yticks(rows, [model_label(name) for name in ordered.index])
    axes.set(xlabel="skewness", ylim=(-0.5, len(ordered) - 0.5))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@styled
def draw_penalties(penalties: pd.DataFrame, title: str) -> Chart:
    """Draw the penalty on identity terms after each training: a row per kind of data, a point per seed, and its mean.

    penalties: columns data, shown and unseen (logits), as in devaluation.PENALTIES. Full circles are terms that were
    shown in training, open squares are terms that were not.
    """
    figure = new_chart(9, 3.6, title, DENSE_TITLE)
    axes, names = figure.subplots(), list(dict.fromkeys(penalties["data"]))
    for terms, marker, face, above in (("shown", "o", "black", 0.15), ("unseen", "s", "white", -0.15)):
        for row, name in enumerate(names):
            values = penalties.loc[penalties["data"] == name, terms]
            label = f"identity terms {terms} in training" if row == 0 else None
            axes.plot(values, np.full(len(values), row - above), marker, color="black", markerfacecolor=face,
                      markersize=6, alpha=0.5, label=label)  # fmt: skip
            axes.plot([values.mean()] * 2, [row - above - 0.1, row - above + 0.1], color="black", linewidth=3)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(names)), [f"{name} data" for name in names])
    axes.set(xlabel="penalty on identity terms, logits", ylim=(len(names) - 0.5, -0.5))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
