"""Charts of framing: what is drawn is what was found, and no token of the list is written out."""

import numpy as np

from lib.framing import charts as framing_charts


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_a_corner_names_its_tokens_and_hides_those_of_the_list(score_table):
    texts = [f"w{i}" for i in range(60)] + ["life", "fuck"]
    random = np.random.default_rng(0)
    best, worst = (
        np.append(random.normal(0, 0.3, 60), ends) for ends in ([5, -5], [5, -5])
    )
    table = score_table(texts, best=best, worst=worst)
    shown = texts_of(
        framing_charts.draw_density(table, "best", "worst", title="T", named=1)
    )
    assert {"rewarded for both:", "life", "for neither:", "▒▒▒⟨4⟩"} <= set(
        shown
    ) and "fuck" not in shown
    open_shown = texts_of(
        framing_charts.draw_density(
            table, "best", "worst", title="T", named=1, blur=False
        )
    )
    assert "fuck" in open_shown


def test_small_scatters_have_a_panel_per_model_with_its_note(score_table):
    random = np.random.default_rng(0)
    tables = {
        name: score_table(
            [f"w{i}" for i in range(60)],
            best=random.normal(size=60),
            worst=random.normal(size=60),
        )
        for name in "ABCDEFG"
    }
    notes = {name: f"note {name}" for name in tables}
    figure = framing_charts.draw_scatters(
        tables, "best", "worst", title="T", notes=notes
    )
    titled = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    # the last three of ten panels are empty
    assert titled == [f"{name}\nnote {name}" for name in tables]
