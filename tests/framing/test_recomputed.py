"""Section 3 by the paper's recipe, on stand-ins whose answer is known in every cell: who moves
what.
"""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.framing import recomputed
from lib.tables import lexicons
from lib.tables.lexicons import Lexicon

# as if AFINN's
GRADES = {
    "joy": 3,
    "nice": 3,
    "win": 4,
    "love": 2,
    "war": -2,
    "kill": -3,
    "hate": -3,
    "sad": -1,
}
COUNTS = {
    "joy": 10.0,
    "nice": 100.0,
    "win": 1000.0,
    "love": 10.0,
    "war": 1000.0,
    "kill": 10.0,
    "hate": 100.0,
}


@pytest.fixture
def tables(score_table, monkeypatch):
    """Two models. M: slope 2 above zero and 1 below it, plus one per natural logarithm of
    frequency; N: half of it.
    """
    lists = {
        "afinn": pd.DataFrame(
            {"word": GRADES.keys(), "sentiment": map(float, GRADES.values())}
        ),
        "bnc": pd.DataFrame({"word": COUNTS.keys(), "frequency": COUNTS.values()}),
    }
    known = {
        name: Lexicon(name, words.columns[1], words, words)
        for name, words in lists.items()
    }
    monkeypatch.setattr(lexicons, "load", known.__getitem__)
    # the authors' join leaves out " joy", which is read as the same input as "joy"
    texts = [*GRADES, " joy", "zebra"]
    grade = np.array([GRADES.get(text.strip(), 0.0) for text in texts])
    bent = np.where(grade > 0, 2, 1) * grade
    groups = [*range(len(GRADES)), 0, len(GRADES)]
    rewards = {"greatest": bent, "best": 3 * bent, "worst": -bent}
    return {
        name: score_table(
            texts, groups, **{prompt: size * own for prompt, own in rewards.items()}
        )
        for name, size in (("M", 1.0), ("N", 0.5))
    }


SIZE = {"greatest": 1, "best": 3, "worst": -1}


def fig3c():
    rows = [
        [prompt, sign, model, SIZE[prompt] * steep * size, 0.01]
        for prompt, (sign, steep), (model, size) in itertools.product(
            SIZE, {"positive": 2, "negative": 1}.items(), {"M": 1.0, "N": 0.5}.items()
        )
    ]
    return pd.DataFrame(rows, columns=["prompt", "sign", "model", "slope", "halfwidth"])


def test_every_slope_of_the_figure_comes_back(tables):
    cells = recomputed.slope_cells(tables, fig3c())
    assert len(cells) == 12 and cells["agrees"].all()
    of = cells.set_index(["row", "column"])["as_published"].astype(float)
    assert of["greatest positive", "M"] == pytest.approx(2) and of[
        "worst negative", "N"
    ] == pytest.approx(-0.5)
    assert cells["corrected"].astype(float).tolist() == pytest.approx(
        cells["as_published"].astype(float).tolist()
    )


def test_one_changed_reward_changes_its_cells_and_a_changed_print_changes_no_number_of_ours(
    tables,
):
    before = recomputed.slope_cells(tables, fig3c())
    tables["M"].loc[2, "greatest"] += 1  # `win`, a positive word
    after = recomputed.slope_cells(tables, fig3c())
    moved = before["as_published"].astype(float) != after["as_published"].astype(float)
    assert after.loc[moved, ["row", "column"]].to_numpy().tolist() == [
        ["greatest positive", "M"]
    ]
    # Positive grades 3 3 4 2 have mean 3; `win` lies 1 above it, of 0 + 0 + 1 + 1 in all: the slope
    # grows by 1/2.
    assert after.loc[moved, "as_published"].iloc[0] == pytest.approx(2.5)
    assert after["agrees"].tolist() == (~moved).tolist()
    misprint = fig3c().replace({"slope": {-0.5: -0.7}})
    again = recomputed.slope_cells(tables, misprint)
    assert (
        again["as_published"].equals(after["as_published"])
        and again["agrees"].sum() == after["agrees"].sum() - 1
    )


def test_slopes_on_frequency_come_back_and_follow_rewards_alone(tables):
    logs = {word: np.log(count) for word, count in COUNTS.items()}
    for table in tables.values():
        words = table["text"].str.strip()
        table["best"] = (
            words.map(logs).fillna(0) + words.map(GRADES).fillna(0)
        ).astype("float32")
        table["greatest"], table["worst"] = 2 * table["best"], -table["best"]
    slopes = {"greatest": 2, "best": 1, "worst": -1}
    printed = pd.DataFrame(
        [[p, m, s, 0.001] for p, s in slopes.items() for m in tables],
        columns=["prompt", "model", "slope", "halfwidth"],
    )
    cells = recomputed.frequency_cells(tables, printed)
    assert len(cells) == 6 and cells["agrees"].all()
    wrong = recomputed.frequency_cells(
        tables, printed.assign(slope=printed["slope"] + 1)
    )
    assert (
        wrong["as_published"].equals(cells["as_published"])
        and not wrong["agrees"].any()
    )


def test_lists_of_best_plus_worst_are_read_on_texts_as_they_are_and_ties_may_stand_in_any_order(
    tables, score_table
):
    texts = [f"t{i}" for i in range(50)]
    table = score_table(texts, best=[*range(48), 48, 48], worst=[0.0] * 50)
    order = [f"t{i}" for i in (48, 49, *range(47, 29, -1), *range(19, -1, -1))]
    index = pd.MultiIndex.from_tuples(
        [("optimal", i) for i in range(1, 21)]
        + [("pessimal", i) for i in range(20, 0, -1)],
        names=["end", "position"],
    )
    printed = pd.DataFrame({"M": order}, index)
    assert recomputed.combined_cells({"M": table}, "A8", printed)["agrees"].all()
    swapped = printed.replace({"t48": "t49", "t49": "t48"})
    again = recomputed.combined_cells({"M": table}, "A8", swapped)
    # the lower token id, whatever is printed
    assert again["agrees"].all() and again["as_published"].iloc[0] == "t48"
    wrong = recomputed.combined_cells(
        {"M": table}, "A8", printed.replace({"t47": "t30", "t30": "t47"})
    )
    assert wrong["agrees"].sum() == 38 and wrong["as_published"].equals(
        again["as_published"]
    )
    table.loc[0, "best"] = 99
    moved = recomputed.combined_cells({"M": table}, "A8", printed)
    # all places move by one; two tie
    assert moved["as_published"].iloc[0] == "t0" and moved["agrees"].sum() == 1
