"""Charts of framing: what is drawn is what was found, and no token of the list is written out."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from lib.framing import charts as framing_charts
from lib.framing import effects
from lib.framing.wordings import PARTS
from lib.show import charts
from lib.tables import scores
from lib.tables.prompts import POLARITIES, STYLES, SUPERLATIVES, cell


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_corner_names_its_tokens_and_hides_those_of_the_list(score_table):
    texts = [f"w{i}" for i in range(60)] + ["life", "fuck"]
    random = np.random.default_rng(0)
    best, worst = (np.append(random.normal(0, 0.3, 60), ends) for ends in ([5, -5], [5, -5]))
    tables = {"M": score_table(texts, best=best, worst=worst)}
    shown = texts_of(framing_charts.draw_density(tables, "best", "worst", title="T", named=1))
    assert {"rewarded for both:", "life", "for neither:", "▒▒▒⟨4⟩"} <= set(shown) and "fuck" not in shown
    open_shown = texts_of(framing_charts.draw_density(tables, "best", "worst", title="T", named=1, blur=False))
    assert "fuck" in open_shown


def test_many_models_have_a_panel_each(score_table):
    tables = {f"M{i}": score_table(list("abcd"), best=[1, 2, 3, 4], worst=[4, 2, 3, 1]) for i in range(7)}
    figure = framing_charts.draw_density(tables, "best", "worst", title="T")
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert titles == list(tables)


def observations(prompts=("best",), words=400):
    random = np.random.default_rng(0)
    sentiment = random.choice([-3.0, -1, 0, 1, 3], words)
    rows = [
        pd.DataFrame({"model": m, "prompt": p, "word": np.arange(words), "sentiment": sentiment,
                      "reward": sentiment + random.normal(size=words)})
        for m in ("M", "N")
        for p in prompts
    ]  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def test_sentiment_curves_hold_the_means_and_both_lines():
    rows = observations()
    figure = framing_charts.draw_sentiment_curves(rows, title="T", lexicon="AFINN")
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    means = rows[(rows["model"] == "M") & (rows["sentiment"] != 0)].groupby("sentiment")["reward"].mean()
    assert lines["M"].get_ydata() == pytest.approx(means.to_numpy())
    up = lines["all, positive words"]
    slope = np.diff(up.get_ydata()) / np.diff(up.get_xdata())
    positive = rows[rows["sentiment"] > 0]
    assert slope == pytest.approx(np.polyfit(positive["sentiment"], positive["reward"], 1)[0])


def test_a_beeswarm_draws_at_most_so_many_dots_and_means_over_all_words():
    rows = observations()
    figure = framing_charts.draw_beeswarm(rows, title="T", lexicon="Bing", most=50)
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert [len(line.get_xdata()) for line in dots] == [50] * 4
    bars = {segment[0][1] for c in figure.axes[0].collections for segment in c.get_segments()}
    signed = rows[rows["sentiment"] != 0]
    expected = signed.groupby(["model", signed["sentiment"] > 0])["reward"].mean()
    assert sorted(bars) == pytest.approx(sorted(expected))


def test_names_of_points_that_lie_together_stand_apart(score_table):
    random = np.random.default_rng(1)
    best, worst = (np.append(random.normal(0, 0.3, 60), 5 + random.normal(0, 0.02, 6)) for _ in range(2))
    table = score_table([f"w{i}" for i in range(66)], best=best, worst=worst)
    figure = framing_charts.draw_density({"M": table}, "best", "worst", title="T", named=6)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in figure.axes[0].texts]
    assert len(boxes) == 4 * (6 + 1)  # six names and a heading in each corner
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert all(figure.axes[0].bbox.contains(*corner) for box in boxes for corner in (box.p0, box.p1))


def test_the_grid_of_prompts_shows_each_gap_in_its_place_and_what_is_clear_in_bold():
    prompts = ["_".join((a, b, c)) for c in STYLES for b in SUPERLATIVES for a in POLARITIES]
    found = pd.DataFrame(
        [{"lexicon": name, "gap": i + j / 100, "p_holm": 0.01 if j else 0.5} | dict(zip(PARTS, cell(p), strict=True))
         for i, name in enumerate(("AFINN", "VADER")) for j, p in enumerate(prompts)]
    )  # fmt: skip
    figure = framing_charts.draw_prompt_grid(found, title="T")
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["AFINN", "VADER"]
    cells = np.asarray(panels[1].collections[0].get_array()).reshape(9, 6)
    adjectives = [label.get_text() for label in panels[1].get_xticklabels()]
    assert adjectives == list(POLARITIES) and cells[0, 0] == 1 + prompts.index("best_ever_one") / 100
    assert cells[-1, adjectives.index("worst")] == 1 + prompts.index("worst_time_please") / 100
    assert [label.get_text() for label in panels[0].get_yticklabels()][0] == "ever, in one word"
    bold = [text.get_text() for text in panels[0].texts if text.get_fontweight() == "bold"]
    assert len(panels[0].texts) == 54 and len(bold) == 53  # all but the first


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


def test_a_token_of_a_chart_is_no_formula(score_table):
    table = score_table(["$x$", *map(str, range(30))], best=np.arange(31)[::-1], worst=np.arange(31)[::-1])
    scores.validate(table)
    figure = framing_charts.draw_density({"M": table}, "best", "worst", title="T", named=1)
    figure.draw_without_rendering()
    assert any(r"\$x\$" in text for text in texts_of(figure))


def test_the_strip_of_the_interaction_shows_every_choice_as_a_ratio():
    keys = [(m, lexicon, words) for m in ("M", "N", effects.ALL) for lexicon in ("AFINN", "Bing")
            for words in effects.WORDS]  # fmt: skip
    over = pd.DataFrame(keys, columns=["model", "lexicon", "words"])
    over["estimate"] = np.log(np.linspace(1.5, 4, len(over)))
    over = over.assign(ci_low=over["estimate"] - 0.2, ci_high=over["estimate"] + 0.2, scale="rewards", wording="one")
    over = over.assign(these_low=np.nan, these_high=np.nan, new_low=np.nan, new_high=np.nan)
    figure = framing_charts.draw_interaction(over, title="T")
    [panel] = figure.axes
    drawn = [line for line in panel.lines if line.get_marker() in framing_charts.LEXICON_MARKS]
    places = sorted(x for line in drawn for x in line.get_xdata())
    assert places == pytest.approx(np.linspace(1.5, 4, len(over)))
    assert [line.get_markerfacecolor() for line in drawn] == ["black", "white"] * 2  # open: without offensive
    assert [tick.get_text() for tick in panel.get_yticklabels()] == ["M", "N", "mean"]
    assert panel.get_xlim()[0] < 1 < 4 * np.exp(0.2) < panel.get_xlim()[1] * 1.001


def test_gaps_of_each_lexicon_stand_in_their_panel_and_row():
    keys = itertools.product(("best", "worst"), ("AFINN", "VADER"), effects.WORDS)
    gaps = pd.DataFrame(keys, columns=["prompt", "lexicon", "words"]).assign(estimate=np.arange(8.0))
    gaps = gaps.assign(ci_low=gaps["estimate"] - 1, ci_high=gaps["estimate"] + 2)
    figure = charts.draw_forest(gaps, framing_charts.GAPS, title="T", xlabel="gap")
    best, worst = figure.axes
    (all_words, some), marks = ([line for line in worst.lines if line.get_marker() == "o"], best.lines)
    assert list(all_words.get_xdata()) == [4, 6] and list(some.get_xdata()) == [5, 7]  # AFINN, then VADER
    assert np.round(all_words.get_ydata()).tolist() == [0, 1]
    assert [tick.get_text() for tick in best.get_yticklabels()] == ["AFINN", "VADER"]
    assert some.get_markerfacecolor() == "white" and len(marks) == 3
