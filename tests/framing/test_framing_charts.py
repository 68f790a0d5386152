"""Charts of framing: what is drawn is what was found, and no token of the list is written out."""

import numpy as np
import pandas as pd

from lib.framing import charts as framing_charts


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_corner_names_its_tokens_and_hides_those_of_the_list(score_table):
    texts = [f"w{i}" for i in range(60)] + ["life", "fuck"]
    random = np.random.default_rng(0)
    best, worst = (np.append(random.normal(0, 0.3, 60), ends) for ends in ([5, -5], [5, -5]))
    table = score_table(texts, best=best, worst=worst)
    shown = texts_of(framing_charts.draw_density(table, "best", "worst", title="T", named=1))
    assert {"rewarded for both:", "life", "for neither:", "▒▒▒⟨4⟩"} <= set(shown) and "fuck" not in shown
    open_shown = texts_of(framing_charts.draw_density(table, "best", "worst", title="T", named=1, blur=False))
    assert "fuck" in open_shown


def test_slopes_of_the_paper_and_ours_stand_in_rows_of_their_own_scale():
    parts = {"source": ["paper", "these models"], "prompt": ["best", "worst"], "model": ["M", "N"]}
    parts["sign"] = ["positive", "negative"]
    keys = pd.MultiIndex.from_product(parts.values(), names=parts)
    slopes = pd.DataFrame({"slope": np.arange(16.0)}, keys).reset_index()
    slopes = slopes.assign(ci_low=slopes["slope"] - 1, ci_high=slopes["slope"] + 1)
    slopes["read"] = np.where(slopes["slope"] == 7, "hidden", "seen")
    figure = framing_charts.draw_sources(slopes, title="T", units={"paper": "raw", "these models": "SD"})
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["paper, best", "paper, worst", "these models, best", "these models, worst"]
    drawn = [
        sorted(x for line in axes.lines if line.get_marker() == "o" for x in line.get_xdata()) for axes in figure.axes
    ]
    assert drawn == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]
    open_marks = [x for line in figure.axes[1].lines if line.get_markerfacecolor() == "white" for x in line.get_xdata()]
    assert open_marks == [7] and figure.axes[0].get_xlim() != figure.axes[2].get_xlim()
