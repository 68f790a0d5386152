"""Agreement with people, on items few enough to count pairs by hand, and on planted truths."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from lib import InputError
from lib.alignment import charts as alignment_charts
from lib.alignment import concordance, human, kinds, matched, specifications
from lib.claims import claims
from lib.stats import multiverse, resampling


def people_of(*ratings, items="abcdefghij"):
    return pd.Series(ratings, index=list(items[: len(ratings)]), dtype=float)


def made_up(items=60, models=4, seed=0, noise=1.0):
    """People, and models that agree with them but for noise; ratings are rounded, so that some tie."""
    random = np.random.default_rng(seed)
    names = [f"i{n}" for n in range(items)]
    people = pd.Series(random.normal(size=items).round(1), index=names)
    rewards = {f"m{m}": people + noise * random.normal(size=items) for m in range(models)}
    return people, pd.DataFrame(rewards)


# --- joining ------------------------------------------------------------------------------------------------------


def test_join_is_by_item_whatever_the_order():
    rewards = pd.DataFrame({"M": [1.0, 2, 3]}, index=["null", "b", "c"])
    people = pd.Series({"d": 9.0, "c": 7.0, "null": 8.0})
    kept, rated = human.join(rewards, people)
    assert kept["M"].to_dict() == {"null": 1, "c": 3}
    assert rated.to_dict() == {"null": 8, "c": 7}
    assert kept.index.equals(rated.index)


def test_join_refuses_what_it_cannot_join():
    rewards = pd.DataFrame({"M": [1.0, 2]}, index=["a", "b"])
    with pytest.raises(InputError, match="people rated none of the items"):
        human.join(rewards, people_of(1, items="z"))
    with pytest.raises(InputError, match="people's ratings hold 'a' twice"):
        human.join(rewards, people_of(1, 2, items="aa"))
    with pytest.raises(InputError, match="the rewards hold 'a' twice"):
        human.join(rewards.set_axis(["a", "a"]), people_of(1, 2))
    with pytest.raises(InputError, match="item 'b' has no rating"):
        human.join(rewards, people_of(1, np.nan))
    with pytest.raises(InputError, match="item 'b' has no rating"):
        human.join(rewards, pd.DataFrame({"one": [1, 2], "two": [3, np.nan]}, index=["a", "b"]))


def test_words_that_nobody_rated_are_neutral():
    rewards = pd.DataFrame({"M": [1.0, 2, 3, 4, 5]}, index=["null", "Love", "sea", "x", "a b"])
    kept, rated = human.with_unrated_words(rewards, pd.Series({"null": -1.5, "elsewhere": 3.0}))
    assert kept.index.tolist() == ["null", "sea"]
    assert rated.to_dict() == {"null": -1.5, "sea": 0}
    with pytest.raises(InputError, match="no item is a word of small letters"):
        human.with_unrated_words(rewards.loc[["x"]], rated)


def test_items_in_another_order_are_refused():
    rewards = pd.DataFrame({"M": [1.0, 2]}, index=["b", "a"])
    with pytest.raises(InputError, match="not about the same items in the same order; use join first"):
        human.taus(people_of(1, 2), rewards)
    with pytest.raises(InputError, match="at least two items"):
        human.taus(people_of(1), rewards.head(0).reindex(["a"]))


# --- agreement ----------------------------------------------------------------------------------------------------


def test_tau_counts_pairs():
    rewards = pd.DataFrame({"M": [1, 3, 2], "N": [3, 2, 1], "O": [1, 1, 2]}, index=list("abc"))
    tau = human.taus(people_of(1, 2, 3), rewards)
    assert tau["M"] == pytest.approx(1 / 3)  # two pairs agree, one does not, of three
    assert tau["N"] == pytest.approx(-1)
    assert tau["O"] == pytest.approx(2 / np.sqrt(2 * 3))  # two agree; one of three is tied on the model's side


def test_tau_depends_on_order_alone():
    people, rewards = made_up()
    tau = human.taus(people, rewards)
    pd.testing.assert_series_equal(human.taus(np.exp(people), rewards**3 * 7 - 2), tau)
    pd.testing.assert_series_equal(human.taus(people[::-1], rewards[::-1]), tau)
    pd.testing.assert_series_equal(human.taus(-people, rewards), -tau)


def agreed_of(people, rewards, *prompts):
    return concordance.agreement(concordance.together(people, dict.fromkeys(prompts or ("GE",), rewards)))


def test_the_interval_of_the_mean_has_the_width_that_theory_gives():
    """Where models and people are independent, tau's variance is 2 (2n + 5) / 9n(n - 1) (Kendall)."""
    random = np.random.default_rng(1)
    people, rewards = pd.Series(random.normal(size=300)), pd.DataFrame({"M": random.normal(size=300)})
    found = concordance.summaries(agreed_of(people, rewards), ["M"], ["GE"]).loc["GE"]
    expected = 2 * 1.96 * np.sqrt(2 * (2 * 300 + 5) / (9 * 300 * 299))
    assert found["these_high"] - found["these_low"] == pytest.approx(expected, rel=0.1)
    assert np.isnan(found["ci_low"]) and np.isnan(found["sd"])  # one model says nothing of others


def test_summary_is_of_the_models():
    people, rewards = made_up()
    tau = human.taus(people, rewards)
    found = concordance.summaries(agreed_of(people, rewards), list(rewards), ["GE"]).loc["GE"]
    assert found["mean"] == pytest.approx(sum(tau) / 4)
    assert found["sd"] == pytest.approx(np.std(tau, ddof=1))
    assert (found["min"], found["max"]) == pytest.approx((tau.min(), tau.max()))
    order = ["new_low", "ci_low", "these_low", "mean", "these_high", "ci_high", "new_high"]
    assert found[order].is_monotonic_increasing


def test_across_prompts_is_each_model_with_itself():
    one = pd.DataFrame({"M": [1, 2, 3], "N": [1, 2, 3]}, index=list("abc"))
    two = pd.DataFrame({"M": [1, 3, 2], "N": [3, 2, 1]}, index=list("abc"))
    agreed = concordance.agreement(concordance.together(people_of(1, 2, 3), {"GE": one, "HP": two, "GW": one}))
    found = concordance.across_prompts(agreed, ["M", "N"], ["GE", "HP", "GW"])
    assert list(found) == ["GE, HP", "GE, GW", "HP, GW"]
    assert found.loc["M"].tolist() == pytest.approx([1 / 3, 1, 1 / 3])
    assert found.loc["N"].tolist() == pytest.approx([-1, 1, -1])
    with pytest.raises(InputError, match="needs two prompts"):
        concordance.across_prompts(agreed, ["M", "N"], ["GE"])


def test_tops_show_every_item_that_ties():
    rewards = pd.DataFrame({"M": [1, 3, 3], "N": [9, 2, 1]}, index=["a", "null", "c"])
    found = human.tops(rewards)
    assert found[["model", "item", "tied"]].to_numpy().tolist() == [["M", "null", 2], ["M", "c", 2], ["N", "a", 1]]
    assert human.tops(rewards, "pessimal")["item"].tolist() == ["a", "c"]
    with pytest.raises(InputError, match="end must be"):
        human.tops(rewards, "top")


# --- the two ends -------------------------------------------------------------------------------------------------


def test_ends_are_judged_apart():
    # In the upper half the model orders as people do, in the lower half the other way round.
    people = people_of(8, 7, 6, 5, 4, 3, 2, 1)
    rewards = pd.DataFrame({"M": [8, 7, 6, 5, 1, 2, 3, 4]}, index=people.index)
    [row] = human.at_ends(people, rewards, [4]).to_dict("records")
    assert (row["high_tau"], row["low_tau"], row["difference"]) == pytest.approx((1, -1, 2))
    assert (row["high_items"], row["low_items"], row["high_span"], row["low_span"]) == (4, 4, 3, 3)
    flipped = human.at_ends(-people, -rewards, [4]).iloc[0]
    assert flipped["high_tau"] == pytest.approx(row["low_tau"])


def test_items_tied_at_the_cut_all_count():
    people = people_of(5, 4, 3, 3, 3, 2, 1, 0)
    rewards = pd.DataFrame({"M": range(8)}, index=people.index)
    found = human.at_ends(people, rewards, [3]).iloc[0]
    assert found["high_items"] == 5  # 5, 4, and all three 3
    shuffled = people.sample(frac=1, random_state=3).index
    pd.testing.assert_series_equal(human.at_ends(people[shuffled], rewards.loc[shuffled], [3]).iloc[0], found)


def test_where_models_are_as_good_at_both_ends_there_is_no_asymmetry():
    people, rewards = made_up(items=2000, models=5, seed=2)
    found = human.at_ends(people, rewards, [1000]).iloc[0]
    assert found["difference_ci_low"] < 0 < found["difference_ci_high"]
    assert abs(found["difference"]) < 0.03
    blurred = rewards.where(people > people.median(), rewards + np.random.default_rng(3).normal(size=rewards.shape))
    assert human.at_ends(people, blurred, [1000]).iloc[0]["difference_ci_low"] > 0.03


def test_taus_by_the_number_of_matches():
    people, rewards = made_up(items=60)
    matches = pd.Series(np.arange(45, 105), people.index)
    found = human.taus_by_matches(people, rewards, matches).set_index("quantity")
    assert found["n"].to_dict() == {"fewest matches": 20, "middle": 20, "most matches": 20, "100 matches or more": 5}
    assert found.loc["most matches", "corrected"] == pytest.approx(human.taus(people[40:], rewards[40:]).mean())
    assert (found["ci_low"] < found["corrected"]).all()


def test_each_models_tau_has_an_interval_and_the_mean_stands_below():
    people, rewards = made_up()
    table = concordance.by_model(agreed_of(people, rewards), list(rewards), ["GE"])
    assert table["model"].tolist() == [*rewards, "mean"] and set(table["prompt"]) == {"GE"}
    assert table["tau"].tolist()[:-1] == pytest.approx(human.taus(people, rewards).tolist())
    assert table["tau"].iloc[-1] == pytest.approx(table["tau"].iloc[:-1].mean())
    assert (table["ci_low"] < table["tau"]).all() and (table["tau"] < table["ci_high"]).all()


def test_cuts_that_make_no_sense_are_refused():
    people, rewards = made_up(items=10)
    for cut in (2, 6):
        with pytest.raises(InputError, match=f"10 items have no two ends of {cut}; choose cuts from 3 to 5"):
            human.at_ends(people, rewards, [cut])


# --- discrepancies ------------------------------------------------------------------------------------------------


def test_the_three_aggregates():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame({"M": [1, 2, 3, 4], "N": [4, 3, 2, 1], "O": [1, 3, 2, 4]}, index=people.index)
    # ranks of a: people 1, models 4, 1, 4; of b: people 2, models 3, 2, 2
    assert human.models_rank(people, rewards, "median with people")[["a", "b"]].tolist() == [2.5, 2]
    assert human.models_rank(people, rewards, "median of models")[["a", "b"]].tolist() == [4, 2]
    assert human.models_rank(people, rewards, "mean of models")[["a", "b"]].tolist() == pytest.approx([3, 7 / 3])
    with pytest.raises(InputError, match="no aggregate 'mean'; choose one of median with people"):
        human.models_rank(people, rewards, "mean")


def test_discrepancies_by_hand():
    people = people_of(4, 3, 2, 1)
    rewards = pd.DataFrame({"M": [1, 4, 3, 2]}, index=people.index)  # ranks 4, 1, 2, 3
    found = human.discrepancies(people, rewards)
    assert found["difference"].to_dict() == {"a": 3, "b": -1, "c": -1, "d": -1}
    assert found["position"].to_dict() == {"a": 1, "b": 2, "c": 2, "d": 2}
    assert found.index[0] == "a"
    # In people's order the models' ranks are 4, 1, 2, 3. 4 to 1 falls, so both get 2.5; 2 is below that: all get 7/3.
    assert found["expected"].sort_index().tolist() == pytest.approx([7 / 3, 7 / 3, 7 / 3, 3])
    assert found["surprise"].to_dict() == pytest.approx({"a": 5 / 3, "b": -4 / 3, "c": -1 / 3, "d": 0})
    assert found["surprise_position"].to_dict() == {"a": 1, "b": 4, "c": 3, "d": 2}
    assert found["surprise"].sum() == pytest.approx(0)


def test_discrepancies_do_not_depend_on_scales_or_row_order():
    people, rewards = made_up()
    found = human.discrepancies(people, rewards).sort_index()
    other = human.discrepancies(np.exp(people[::-1]), rewards[::-1] * 1000 - 3).sort_index()
    pd.testing.assert_frame_equal(found, other)


def test_of_models_that_know_nothing_the_items_that_people_rank_first_seem_undervalued():
    """By discrepancy the top of people's ranking always comes first; by surprise every rank is alike."""
    people, _ = made_up(items=500)
    rewards = pd.DataFrame(np.random.default_rng(7).normal(size=(500, 5)), index=people.index)
    found = human.discrepancies(people, rewards, "mean of models")
    assert np.corrcoef(found["difference"], found["people_rank"])[0, 1] < -0.8
    assert found.nsmallest(50, "position")["people_rank"].max() < 250
    assert abs(np.corrcoef(found["surprise"], found["people_rank"])[0, 1]) < 0.1
    assert found.nsmallest(50, "surprise_position")["people_rank"].max() > 400


def highest_lowest_mean(y, i):
    """What isotonic regression gives group i: the highest, over starts up to it, of the lowest mean up to an end.

    y: the values of each group, in rising order of x (Robertson, Wright and Dykstra 1988, the max-min formula).
    """
    ends = range(i + 1, len(y) + 1)
    return max(min(np.mean(list(itertools.chain(*y[start:end]))) for end in ends) for start in range(i + 1))


def test_what_is_expected_is_isotonic_regression():
    people, rewards = made_up(items=80)  # ratings are rounded, so many people's ranks tie
    found = human.discrepancies(people, rewards)
    groups = found.groupby("people_rank")
    assert 20 < len(groups) < 60
    y = [list(group) for _, group in groups["models_rank"]]
    by_definition = [highest_lowest_mean(y, i) for i in range(len(y))]
    assert groups["expected"].first().tolist() == pytest.approx(by_definition, abs=1e-9)
    assert groups["expected"].nunique().max() == 1  # items that tie are expected at one rank
    assert found["surprise"].mean() == pytest.approx(0, abs=1e-9)


def test_where_models_rank_as_people_do_nothing_is_a_surprise():
    people, rewards = made_up(items=100, noise=0)
    found = human.discrepancies(people, rewards)
    assert (found["difference"] == 0).all() and (found["surprise"].abs() < 1e-9).all()
    assert (found["surprise_position"] == 1).all()


def test_a_planted_undervaluation_comes_first():
    people, rewards = made_up(items=500, models=7, noise=0.5)
    hurt = list(people[(people > -0.3) & (people < 0.3)].index[:10])
    rewards.loc[hurt] -= 4
    for aggregate in human.AGGREGATES:
        found = human.discrepancies(people, rewards, aggregate)
        assert set(found.nsmallest(10, "surprise_position").index) == set(hurt)


def test_a_position_varies_with_the_models_drawn():
    people, rewards = made_up(items=100, models=5)
    alike = pd.DataFrame({f"m{m}": rewards["m0"] for m in range(5)})
    here = int(human.discrepancies(people, alike).loc["i3", "position"])
    assert set(human.positions_over_models(people, alike, "i3", "median of models", 20)) == {here}
    drawn = human.positions_over_models(people, rewards, "i3", "mean of models", 200)
    assert drawn.min() < int(human.discrepancies(people, rewards, "mean of models").loc["i3", "position"]) < drawn.max()
    with pytest.raises(InputError, match="no item 'love'"):
        human.positions_over_models(people, rewards, "love", "mean of models")


# --- charts -------------------------------------------------------------------------------------------------------


def texts_in(figure) -> list[str]:
    figure.draw_without_rendering()
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]


def test_charts_draw_what_they_are_given_and_hide_what_offends():
    people, rewards = made_up(items=200)
    word = claims.paper_table("table_2").set_index("token_id").loc[106863, "decoded"]  # a profanity, not printed here
    hidden = f"▒▒▒⟨{len(word)}⟩"
    people, rewards = (one.rename({"i0": "$x$ a", "i1": word}) for one in (people, rewards))
    people["$x$ a"], people[word] = 9, 8
    found = human.discrepancies(people, rewards.assign(m0=-people, m1=-people, m2=-people))
    shown = texts_in(alignment_charts.draw_discrepancies(found, title="Title", n=3))
    assert r"\$x\$ a" in shown and hidden in shown and word not in shown
    assert word in texts_in(alignment_charts.draw_discrepancies(found, title="Title", n=3, blur=False))
    ranked = human.ranks(rewards).assign(people=human.ranks(people))
    shown = texts_in(alignment_charts.draw_trajectories(ranked, {"first": ["$x$ a", word]}, title="Title"))
    assert shown.count(r"\$x\$ a") == 2 and shown.count(hidden) == 2  # at both ends


def test_a_strip_per_kind_has_a_stroke_for_each_of_its_items():
    people = pd.Series(np.arange(100.0), [f"i{n}" for n in range(100)])
    items = human.discrepancies(people, pd.DataFrame({"M": -people}))
    kind_of = pd.Series(["nature"] * 7 + [""] * 93, people.index)
    axes = alignment_charts.draw_discrepancies(items, title="T", n=3, kinds=kind_of).axes
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["nature (7)", "no kind (93)"]
    assert [len(strip.get_segments()) for strip in axes[1].collections] == [7, 93]


def test_the_task_is_drawn_with_its_words_and_hides_what_offends():
    word = claims.paper_table("table_2").set_index("token_id").loc[106863, "decoded"]
    figure = alignment_charts.draw_task(("$x$", word), question="Which?", prompt="What?", asked="two", title="T")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert r"\$x\$" in texts and word not in " ".join(texts)
    assert "People\n“Which?”" in texts and "A reward model\n“What?”" in texts


def test_no_leader_crosses_the_name_of_another_item():
    """Six items at either end lie close together, so their names, short and long, stand far from them."""
    names = [f"{'long ' * (5 * n % 6)}name {n}" for n in range(400)]
    people = pd.Series(np.arange(400.0, 0, -1), names)
    found = human.discrepancies(people, pd.DataFrame({"M": -people}))
    figure = alignment_charts.draw_discrepancies(found, title="", n=6)
    figure.draw_without_rendering()
    [axes] = figure.axes
    named = [text for text in axes.texts if getattr(text, "arrow_patch", None)]
    assert len(named) == 12
    boxes = [Text.get_window_extent(text) for text in named]
    for text in named:
        start, *_, end = text.arrow_patch.get_transform().transform_path(text.arrow_patch.get_path()).vertices
        line = start + np.linspace(0, 1, 200)[:, None] * (end - start)
        assert not any(box.contains(x, y) for box in boxes for x, y in line)


def test_charts_refuse_more_than_can_be_read():
    people, rewards = made_up(items=20)
    ranked = human.ranks(rewards)
    with pytest.raises(InputError, match="7 items in the panel 'all'; choose 1 to 6"):
        alignment_charts.draw_trajectories(ranked, {"all": list(ranked.index[:7])}, title="")
    with pytest.raises(InputError, match="no item 'love'"):
        alignment_charts.draw_trajectories(ranked, {"all": ["love"]}, title="")
    with pytest.raises(InputError, match="20 items have no 11 at either end"):
        alignment_charts.draw_discrepancies(human.discrepancies(people, rewards), title="", n=11)


def test_charts_of_pairs_and_kinds_name_what_they_show():
    people, rewards = made_up(items=300)
    by_distance = {"GE": matched.by_distance(matched.matched(people, rewards).strata)}
    words = {"labels": ("distance (Elo)", "share"), "names": ("upper", "lower"), "lines": {"high": 0.6, "low": 0.5}}
    figure = alignment_charts.draw_halves(by_distance, title="Title", **words)
    assert {"prompt: GE", "distance (Elo)", "upper", "the paper's two numbers"} <= set(texts_in(figure))
    assert list(figure.axes[0].lines[0].get_ydata()) == by_distance["GE"]["high"].tolist()
    kind = pd.Series(np.where(np.arange(300) < 20, "nature", ""), people.index)
    values = kinds.undervalued_kinds(people, rewards, kind, neighbours=50)
    alone = {"GE": values.groupby(kind.loc[values.index]).mean().T}
    tables = {"GE": kinds.by_kind(values, kind)}
    shown = texts_in(alignment_charts.draw_kinds(tables, alone, title="Title", xlabel="share"))
    assert {"nature", "GE", "m0", "these very models"} <= set(shown)


# --- specifications -----------------------------------------------------------------------------------------------


def test_every_specification_is_for_a_kind_that_is_hurt_and_none_for_one_that_is_not():
    people, rewards = made_up(items=500, models=6, noise=1.5)
    kind = pd.Series("", people.index)
    kind.iloc[:30], kind.iloc[30:60] = "hurt", "like any"
    rewards = rewards.where(kind != "hurt", rewards - 3)
    matches = pd.Series(np.random.default_rng(1).integers(50, 900, 500), people.index)
    lists, prompts = {"first": kind, "same": kind}, {"GE": rewards, "HP": rewards * 2}
    shares = specifications.Shares(people, prompts, matches)
    hurt, other = specifications.of_kinds(shares, lists, ["hurt", "like any"]).values()
    # Two prompts, four ranks by four ways but for three of one aggregate, two sets of items; both lists are one.
    assert len(hurt) == len(other) == 2 * (4 * 4 - 3) * 2 and "list" not in hurt
    assert set(hurt["side"]) == {"for"} and (other["side"] == "undecided").mean() > 0.8
    joint = specifications.joint_p_of_kinds({"hurt": hurt, "like any": other}, shares, lists, draws=49)
    assert joint["hurt"] == 1 / 50 and joint["like any"] > 0.05
    assert not ((hurt["rank of the models"] == human.AGGREGATES[0]) & (hurt["undervalued"] != specifications.RAW)).any()


def test_our_specification_is_what_the_section_says_by_itself():
    people, rewards = made_up(items=500, models=6, noise=1.5)
    kind = pd.Series(np.where(np.arange(500) < 30, "k", ""), people.index)
    table = specifications.of_kinds(specifications.Shares(people, {"GE": rewards}), {"list": kind}, ["k"])["k"]
    ours = multiverse.chosen(table, specifications.marked(table, "GE")["ours"])
    [found] = kinds.by_kind(kinds.undervalued_kinds(people, rewards, kind), kind).to_dict("records")
    assert ours[["estimate", "ci_low", "ci_high"]].to_numpy()[0] + 0.5 == pytest.approx(
        [found["above"], found["ci_low"], found["ci_high"]]
    )
    raw = human.discrepancies(people, rewards, human.AGGREGATES[0])["difference"]
    papers = multiverse.chosen(table, specifications.marked(table, "GE")["papers"])
    assert papers["estimate"].item() + 0.5 == pytest.approx(kinds.raw_kinds(raw, kind)["k"])


def test_specifications_of_the_two_ends_hold_ours_and_the_papers():
    people, rewards = made_up(items=600, models=5)
    table, by_model = specifications.of_ends(people, {"GE": rewards}, cuts=(100,))
    assert by_model.mean(axis=1).to_list() == pytest.approx(table["estimate"].to_list())
    assert len(table) == 2 * 2  # two ways to compare, two sizes of the ends
    both = {name: multiverse.chosen(table, options) for name, options in specifications.marked(table, "GE").items()}
    assert both["ours"]["estimate"].item() == pytest.approx(2 * matched.matched(people, rewards).mean.estimate)
    row = human.at_ends(people, rewards, [100]).iloc[0]
    assert both["papers"]["estimate"].item() == pytest.approx(row["difference"])


def test_placebos_are_items_of_no_kind_that_people_rank_alike():
    people = pd.Series(np.arange(1000.0), [f"i{n}" for n in range(1000)])
    matches = pd.Series(np.where(np.arange(1000) % 2, 50, 500), people.index)
    kind, none = people.index[[400, 401, 500]], people.index.drop(people.index[[400, 401, 500]])
    shares = specifications.Shares(people, {"GE": people.to_frame("m")}, matches)
    drawn = specifications.placebos(shares, kind, none, draws=30)
    others = people[none].to_numpy()[drawn]  # (draws, items)
    assert np.abs(others - [400, 401, 500]).max() <= 202  # the nearest 200 of each parity
    assert (others % 2 == [0, 1, 0]).all()  # as many matches: at least 100, or fewer
    assert all(len(set(draw)) == 3 for draw in drawn) and len({tuple(draw) for draw in drawn}) > 25


def test_intervals_of_aggregates_hold_one_half_where_a_kind_is_like_any_other():
    """Each model has a liking for the kind of its own, whose mean is 0; items and models are new in each study."""
    random, held = np.random.default_rng(11), {aggregate: [] for aggregate in human.AGGREGATES}
    for _ in range(40):
        people = pd.Series(random.normal(size=210), [f"i{n}" for n in range(210)])
        kind = pd.Series("", people.index)
        kind[random.choice(people.index, 10, replace=False)] = "k"
        values = np.outer(people, random.uniform(0.3, 1.3, 8)) + random.normal(size=(210, 1))
        values += random.normal(size=(210, 8)) + np.outer(kind == "k", random.normal(scale=0.5, size=8))
        shares = specifications.Shares(people, {"GE": pd.DataFrame(values, people.index)})
        shares.choices["undervalued"] = (specifications.RAW,)
        table = specifications.of_kinds(shares, {"list": kind}, ["k"])["k"]
        for aggregate, rows in table.groupby("rank of the models"):
            if aggregate in held:
                held[aggregate].append(rows["side"].item() == "undecided")
    for inside in held.values():
        assert np.mean(inside) >= 0.85  # .95, with a standard error of .034


def test_the_interval_of_a_place_holds_that_of_many_models():
    """The place of one item by ten models, against its place by two hundred of the same population."""
    random, held = np.random.default_rng(12), []
    for _ in range(40):
        people = pd.Series(np.sort(random.normal(size=100))[::-1], [f"i{n}" for n in range(100)])
        dislike = random.normal(scale=0.5, size=100)
        dislike[15] = 1.5
        values = (0.8 * people.to_numpy() - dislike)[:, None] + random.normal(size=(100, 210))
        many = pd.DataFrame(values[:, 10:], people.index)
        truth = human.discrepancies(people, many).loc["i15", "position"]
        ten = pd.DataFrame(values[:, :10], people.index)
        draws = human.positions_over_models(people, ten, "i15", "median of models", 60)
        ci_low, ci_high = resampling.interval(draws)
        held.append(ci_low <= truth <= ci_high)
    assert np.mean(held) >= 0.85  # .95, with a standard error of .034
