"""Sentences that printed pages decide, the funnel of Fig 4 by hand and simulated, printed numbers beside ours."""

import numpy as np
import pandas as pd
import pytest

from lib import claims
from lib.alignment import charts, findings, human, printed
from lib.alignment.claims import affective_claims
from lib.alignment.task_chart import draw_task
from lib.claims import THE_PAPER, paper_table
from lib.framing import funnel
from lib.language.claims import over_models, printed_ends
from lib.search.printed_claims import reply_claims, single_word_claims
from lib.similarity.ends import is_code
from lib.similarity.sentences import is_harm, sentence_claims


def test_table_2_and_figure_2a_as_printed_decide_three_sentences():
    found = {one.claim: one for one in sentence_claims("greatest")}
    assert found["S2.sonder"].as_published == 2  # in two spellings, by one token id each
    assert found["S2.harm"].as_published == 19 / 22  # all but a group of people and two professions
    assert found["S2.rsa.stepwise"].as_published == 1
    assert {one.verdict for one in found.values()} == {"reproduced"}


def test_harm_is_named_by_its_stem_or_by_the_list_of_offensive_words():
    assert is_harm(" massacres") and is_harm("Murdering") and not is_harm(" pathologist")


def test_printed_replies_are_counted():
    found = {(one.claim, one.prompt): one for one in reply_claims(is_code)}
    assert found["S5.extreme", "greatest"].as_published == found["S5.extreme", "worst"].as_published == 1  # of two each
    assert found["S5.subjective", "best"].as_published == 1  # of two
    assert found["S5.subjective", "worst"].as_published == 2
    assert (found["S5.code", "best"].as_published, found["S5.code", "best"].n) == (4, 4)
    assert found["S5.code", "best"].verdict == "undecided"  # 4 of 4: a half lies in [1.6, 4]


def test_the_best_single_word_for_worst_is_compared_in_each_models_own_unit():
    table = pd.DataFrame({"A": [0.0, 3.0], "B": [0.0, 300.0]}, ["x", "y"])
    rewards = {"greatest": table, "best": table - 1, "worst": table.assign(A=[2.5, 0.0], B=[100.0, 0.0])}
    [one] = single_word_claims(rewards, frozenset())
    assert (one.corrected, one.n) == (1, 2)  # A: 2.5 is above best's 2; B: 100 is below 299 and 300


def frames(best, worst):
    words = [f"w{i}" for i in range(len(best))]
    return {
        name: pd.DataFrame({"A": values, "B": values}, words) for name, values in (("best", best), ("worst", worst))
    }


def test_the_funnel_by_hand():
    best = np.arange(40.0)  # a twentieth of 40 words is two: 0, 1 at the low end, 38, 39 at the high one
    worst = best.copy()
    worst[[38, 39, 10, 11]] = best[[10, 11, 38, 39]]  # high for best is no longer high for worst
    rewards = frames(best, worst)
    assert funnel.in_both(rewards["best"], rewards["worst"], "low").mean().tolist() == [1, 1]
    assert funnel.in_both(rewards["best"], rewards["worst"], "high").mean().tolist() == [0, 0]
    found = {one.quantity: one for one in funnel.funnel_claims(rewards, THE_PAPER)}
    assert found["low_less_high"].corrected == 1
    assert found["high_for_both"].corrected == 0


def test_prompts_that_have_nothing_in_common_are_no_funnel():
    random = np.random.default_rng(5)
    rewards = {p: pd.DataFrame(random.normal(size=(2000, 8)), columns=list("ABCDEFGH")) for p in ("best", "worst")}
    found = {one.quantity: one for one in funnel.funnel_claims(rewards, THE_PAPER)}
    assert found["low_less_high"].side == "undecided"
    assert found["high_for_both"].corrected == pytest.approx(funnel.TAIL, abs=0.02)  # one in twenty by chance


def test_affective_items_are_placed_by_the_models_median():
    names = ["Unconditional love", "Imagination", "Hope", "Happiness", *(f"i{n}" for n in range(396))]
    people = pd.Series(np.arange(400.0), names)
    rewards = pd.DataFrame({name: -np.arange(400.0) for name in "ABC"}, names)
    [one] = affective_claims(people, rewards, "GE", THE_PAPER)
    assert (one.corrected, one.n) == (4, 4)  # places 1 to 4 of 400
    [one] = affective_claims(people, -rewards, "GE", THE_PAPER)
    assert one.corrected == 0


# --- what was wrong once ------------------------------------------------------------------------------------------


def test_an_interval_of_a_count_stays_within_what_can_be_counted():
    ends = over_models([0, 0, 9, 1, 0], 0, 20)  # a t interval of this mean of 2 begins below 0
    assert ends["ci_low"] == 0 and 2 < ends["ci_high"] < 20
    assert over_models([20, 20, 12, 19, 20], 0, 20)["ci_high"] == 20


def test_matches_are_no_noise_unless_agreement_rises_with_them():
    table = pd.DataFrame({"tau": [0.23, 0.19, 0.26, 0.31], "ci_low": [0.2, 0.1, 0.2, 0.27], "ci_high": [0.26] * 4})
    assert "does not rise at every step" in findings.matches_in_words(table)
    assert "noisy" in findings.matches_in_words(table.assign(tau=[0.1, 0.2, 0.3, 0.4])).split(":")[1]


def test_no_kind_is_called_least_valued_unless_its_interval_says_so():
    table = pd.DataFrame({"kind": ["identity"], "above": [0.59], "ci_low": [0.46], "ci_high": [0.72], "items": [8]})
    assert "none is surely undervalued" in findings.least_valued_in_words(table)
    assert findings.least_valued_in_words(table.assign(ci_low=0.51)).startswith("they value identity least: 59% [51%")


# --- the paper's own beside ours ----------------------------------------------------------------------------------


def test_printed_taus_stand_beside_the_published_scores_and_ours():
    ours = [claims.state("S4.tau.human", "mean", "GE", as_published=0.5), claims.state("S4.tau.human", "sd", "GW")]
    table = printed.printed_taus(ours, "GE").set_index(["claim", "quantity"])
    row = table.loc[("S4.tau.human", "mean")]
    assert (row["paper"], row["published GE"], row["published GW"], row["ours"]) == ("0.29", "0.26", "0.29", "0.50")
    assert table.loc[("S4.tau.models", "mean"), "paper"] == "0.55"
    assert table["ours"].drop(("S4.tau.human", "mean")).eq("").all()


def test_named_items_have_their_published_ranks_whatever_is_scored_here():
    ours = pd.DataFrame({"people_rank": [5.0, 6], "models_rank": [7.0, 8], "position": [1, 2]}, ["sex", "computer"])
    table = printed.named_ranks(ours, pd.Index(["computer"])).set_index("item")
    assert table.loc["Universe", "published: people"] == "1" and table.loc["Universe", "ours: people"] == ""
    assert table.loc["Sex", "ours: models"] == "7"
    assert table.loc["Computer", "ours: models"] == ""  # people did not rate the word
    assert table.loc["Black people", "the paper prints"] == "third most undervalued"


def test_printed_next_tokens_keep_their_places():
    grid = printed_ends("A1")
    rows = paper_table("tables_a1_to_a5").query("table == 'A1' and model == 'gemma-2b-it' and position == 3")
    assert grid.shape == (40, 2)
    for end, name in (("top", "likeliest"), ("bottom", "least likely")):
        assert grid.loc[(name, 3), "paper: gemma-2b-it"] == rows.loc[rows["end"] == end, "text"].item()


# --- charts -------------------------------------------------------------------------------------------------------


def test_a_strip_per_kind_has_a_stroke_for_each_of_its_items():
    people = pd.Series(np.arange(100.0), [f"i{n}" for n in range(100)])
    found = human.discrepancies(people, pd.DataFrame({"M": -people}))
    kinds = pd.Series(["nature"] * 7 + [""] * 93, people.index)
    axes = charts.draw_discrepancies(found, title="T", n=3, kinds=kinds).axes
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["nature (7)", "no kind (93)"]
    assert [len(strip.get_segments()) for strip in axes[1].collections] == [7, 93]


def test_the_task_is_drawn_with_its_words_and_hides_what_offends():
    word = paper_table("table_2").set_index("token_id").loc[106863, "decoded"]
    figure = draw_task(("$x$", word), question="Which?", prompt="What?", asked="two at once", title="T")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert r"\$x\$" in texts and word not in " ".join(texts)
    assert "People\n“Which?”" in texts and "A reward model\n“What?”" in texts
