"""Agreement with people, on items few enough to count pairs by hand, and on planted truths."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from lib import InputError
from lib.alignment import charts as alignment_charts
from lib.alignment import human
from lib.claims import claims


def people_of(*ratings, items="abcdefghij"):
    return pd.Series(ratings, index=list(items[: len(ratings)]), dtype=float)


def made_up(items=60, models=4, seed=0, noise=1.0):
    """People, and models that agree with them but for noise; ratings are rounded, so that some
    tie.
    """
    random = np.random.default_rng(seed)
    names = [f"i{n}" for n in range(items)]
    people = pd.Series(random.normal(size=items).round(1), index=names)
    rewards = {
        f"m{m}": people + noise * random.normal(size=items) for m in range(models)
    }
    return people, pd.DataFrame(rewards)


# --- joining --------------------------------------------------------------------------------------


def test_join_is_by_item_whatever_the_order():
    rewards = pd.DataFrame({"M": [1.0, 2, 3]}, index=["null", "b", "c"])
    people = pd.Series({"d": 9.0, "c": 7.0, "null": 8.0})
    kept, rated = human.join(rewards, people)
    assert kept["M"].to_dict() == {"null": 1, "c": 3}
    assert rated.to_dict() == {"null": 8, "c": 7}
    assert kept.index.equals(rated.index)


def test_join_refuses_an_item_that_stands_twice_or_has_no_rating():
    rewards = pd.DataFrame({"M": [1.0, 2]}, index=["a", "a"])
    with pytest.raises(InputError, match="the rewards hold 'a' twice"):
        human.join(rewards, people_of(1, 2))
    with pytest.raises(InputError, match="people's ratings hold 'b' twice"):
        human.join(rewards.set_axis(["a", "b"]), people_of(1, 2, items="bb"))
    raters = pd.DataFrame({"one": [1, 2], "two": [3, np.nan]}, index=["a", "b"])
    with pytest.raises(InputError, match="item 'b' has no rating"):
        human.join(rewards.set_axis(["a", "b"]), raters)


def test_a_tau_pairs_items_by_their_names():
    rewards = pd.DataFrame({"M": [1.0, 2]}, index=["b", "a"])
    assert human.taus(people_of(1, 2), rewards)["M"] == -1


# --- discrepancies --------------------------------------------------------------------------------


def test_the_three_aggregates():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame(
        {"M": [1, 2, 3, 4], "N": [4, 3, 2, 1], "O": [1, 3, 2, 4]}, index=people.index
    )
    # ranks of a: people 1, models 4, 1, 4; of b: people 2, models 3, 2, 2
    assert human.models_rank(people, rewards, "median with people")[
        ["a", "b"]
    ].tolist() == [2.5, 2]
    assert human.models_rank(people, rewards, "median of models")[
        ["a", "b"]
    ].tolist() == [4, 2]
    assert human.models_rank(people, rewards, "mean of models")[
        ["a", "b"]
    ].tolist() == pytest.approx([3, 7 / 3])


def test_discrepancies_by_hand():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame({"M": [1, 4, 3, 2]}, index=people.index)  # ranks 4, 1, 2, 3
    found = human.discrepancies(people, rewards)
    assert found["difference"].to_dict() == {"a": 3, "b": -1, "c": -1, "d": -1}
    assert found["position"].to_dict() == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert found.index[0] == "a"
    # In people's order the models' ranks are 4, 1, 2, 3. 4 to 1 falls, so both get 2.5; 2 is below
    # that: all get 7/3.
    assert found["expected"].sort_index().tolist() == pytest.approx(
        [7 / 3, 7 / 3, 7 / 3, 3]
    )
    assert found["surprise"].to_dict() == pytest.approx(
        {"a": 5 / 3, "b": -4 / 3, "c": -1 / 3, "d": 0}
    )
    assert found["surprise_position"].to_dict() == {"a": 1, "b": 4, "c": 3, "d": 2}
    assert found["surprise"].sum() == pytest.approx(0)


def test_a_planted_undervaluation_comes_first():
    people, rewards = made_up(items=500, models=7, noise=0.5)
    hurt = list(people[(people > -0.3) & (people < 0.3)].index[:10])
    rewards.loc[hurt] -= 4
    for aggregate in human.AGGREGATES:
        found = human.discrepancies(people, rewards, aggregate)
        assert set(found.nsmallest(10, "surprise_position").index) == set(hurt)


# --- charts ---------------------------------------------------------------------------------------


def texts_in(figure) -> list[str]:
    figure.draw_without_rendering()
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]


def test_charts_draw_what_they_are_given_and_hide_what_offends():
    people, rewards = made_up(items=200)
    # a profanity, not printed here
    word = claims.paper_table("table_2").set_index("token_id").loc[106863, "decoded"]
    hidden = f"▒▒▒⟨{len(word)}⟩"
    people, rewards = (
        one.rename({"i0": "$x$ a", "i1": word}) for one in (people, rewards)
    )
    people["$x$ a"], people[word] = 9, 8
    found = human.discrepancies(
        people, rewards.assign(m0=-people, m1=-people, m2=-people)
    )
    shown = texts_in(alignment_charts.draw_discrepancies(found, title="Title", n=3))
    assert r"\$x\$ a" in shown and hidden in shown and word not in shown
    assert word in texts_in(
        alignment_charts.draw_discrepancies(found, title="Title", n=3, blur=False)
    )
    ranked = human.ranks(rewards).assign(people=human.ranks(people))
    shown = texts_in(
        alignment_charts.draw_trajectories(
            ranked, {"first": ["$x$ a", word]}, title="Title"
        )
    )
    assert shown.count(r"\$x\$ a") == 2 and shown.count(hidden) == 2  # at both ends


def test_the_task_stands_in_boxes_of_its_own_for_people_and_for_a_model():
    people, prompt, pair = (
        ("Which is higher?", "two at once"),
        "What is best?",
        ("Tea", "War"),
    )
    [axes] = alignment_charts.draw_task(people, prompt, pair, title="Title").axes
    held = []  # each box has one text in its middle
    for box in axes.patches:
        inside = [
            text for text in axes.texts if box.get_bbox().contains(*text.get_position())
        ]
        [text] = inside
        held.append(text.get_text())
    assert len(held) == 8 and held[2:6] == ["Tea", "War", "reply: Tea", "reply: War"]
    assert "Which is higher?" in held[0] and "What is best?" in held[1]
    others = [text.get_text() for text in axes.texts if text.get_text() not in held]
    assert others == [
        "",
        "",
        "",
        "",
        "one reward",
        "one reward",
        "two at once",
    ]  # "": arrows
    # people see both items on the left half, a model one reply after the other on the right
    sides = [
        text.get_position()[0] < 6 for text in axes.texts if text.get_text() in pair
    ]
    assert sides == [True, True]


def test_bars_show_the_two_ends_with_a_gap_between_them_and_hide_what_offends():
    word = claims.paper_table("table_2").set_index("token_id").loc[106863, "decoded"]
    ordered = pd.Series(
        [900.0, 500, 1, 0, -1, -400], ["$x$ a", word, "b", "c", "d", "e"]
    )
    figure = alignment_charts.draw_bars({"GE": ordered}, title="Title", n=2)
    [axes] = figure.axes
    heights = [
        (patch.get_y() + patch.get_height() / 2, patch.get_width())
        for patch in axes.patches
    ]
    assert heights == [(0, 900), (1, 500), (3, -1), (4, -400)]  # no bar at 2
    shown = texts_in(figure)
    assert (
        r"\$x\$ a" in shown
        and f"▒▒▒⟨{len(word)}⟩" in shown
        and word not in shown
        and "b" not in shown
    )


def test_small_matrices_write_the_numbers_of_each_model():
    matrices = {
        name: pd.DataFrame([[1, r], [r, 1]], ["GE", "HP"], ["GE", "HP"])
        for name, r in {"A": 0.25, "B": 0.5}.items()
    }
    shown = texts_in(alignment_charts.draw_small_matrices(matrices, title="Title"))
    assert {"A", "B"} <= set(shown) and (
        shown.count("1.00"),
        shown.count("0.25"),
        shown.count("0.50"),
    ) == (4, 2, 2)
