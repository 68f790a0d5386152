"""The claims of appendix A.1.2: what the printed tables come to, and what is made of counts and correlations."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.claims import claims
from lib.language import claims as language_claims
from lib.language.claims import PRINTED, over_models, printed_ends


def test_printed_tables_are_counted_by_hand():
    found = language_claims.printed_function_words().set_index(["model", "prompt"])
    assert len(found) == 10 * 3 and (found["n"] == 20).all()
    # Table A1, gemma-2b: the function words are The I That What It You A Why No In How; the others are Well Oh God Love
    # Everything and signs.
    assert found.loc[("gemma-2b", "greatest"), "function_words"] == 11
    assert found.loc[("gemma-2b", "greatest"), "first"] == " The"
    assert found.loc[("gemma-2-27b-it", "greatest"), "first"] == "Love"
    assert found["kind"].value_counts().to_dict() == {"pretrained": 15, "instruction-tuned": 15}


def test_in_the_printed_tables_pretrained_models_have_more_function_words_than_their_tuned_ones():
    found = language_claims.printed_function_words().set_index(["model", "prompt"])["function_words"]
    for name in ("gemma-2b", "gemma-7b", "gemma-2-2b", "gemma-2-9b", "gemma-2-27b"):
        for prompt in ("greatest", "best", "worst"):
            assert found[name, prompt] > found[f"{name}-it", prompt]


def judged(counts, source="models here", own=claims.THE_PAPER):
    """The rows on function words with their verdicts, as namedtuples."""
    return list(claims.judged(language_claims.function_word_rows(counts, source, own)).itertuples())


@pytest.fixture
def counts(score_table):
    tables = {
        "A": score_table([" the", "of", "love"], greatest=[3, 2, 1]),
        "B": score_table([" the", "of", "love"], greatest=[1, 2, 3]),
    }
    return language_claims.count_function_words(tables, ["greatest"], {"A": "pretrained"}, n=2)


def test_counted_says_the_kind_of_each_model(counts):
    assert counts.set_index("model")["kind"].to_dict() == {"A": "pretrained", "B": "reward model"}
    assert counts.set_index("model")["function_words"].to_dict() == {"A": 2, "B": 1}


def test_one_model_of_each_kind_decides_nothing(counts):
    tested = judged(counts)
    first = [claim for claim in tested if claim.quantity == language_claims.FIRST]
    assert [(claim.claim, claim.corrected, claim.verdict) for claim in first] == [
        ("A1.logprobs", 1, "undecided"),
        ("A1.rewards", 0, "undecided"),
    ]
    assert (first[0].ci_low, first[0].ci_high) == pytest.approx((0.025, 1))  # one of one: .025 to the power of 1/1
    assert [claim.corrected for claim in tested if claim.quantity == "function_words_of_2"] == [2, 1]


def test_many_models_decide_on_the_side_on_which_they_are(counts):
    many = pd.concat([counts.assign(model=counts["model"] + str(i)) for i in range(10)])
    tested = judged(many)
    assert {claim.verdict for claim in tested if claim.quantity == language_claims.FIRST} == {"reproduced"}
    swapped = many.assign(first_is_function_word=~many["first_is_function_word"])
    tested = judged(swapped)
    assert {claim.verdict for claim in tested if claim.quantity == language_claims.FIRST} == {"not reproduced"}
    untested = judged(many, own=frozenset())
    assert {claim.verdict for claim in untested} == {"not testable here"}


def test_numbers_of_the_printed_tables_are_as_published():
    found = judged(language_claims.printed_function_words(), PRINTED)
    assert all(pd.isna(claim.corrected) and not pd.isna(claim.as_published) for claim in found)
    assert {claim.population for claim in found} == {"printed tables"}
    first = {claim.note: claim for claim in found if claim.prompt == "greatest" and claim.quantity.startswith("models")}
    assert first[f"pretrained, {PRINTED}"].as_published == 4  # of five; gemma-2-27b says Love
    tuned = first[f"instruction-tuned, {PRINTED}"]
    assert (tuned.as_published, tuned.verdict) == (1, "undecided")  # of five, of which half is 2.5
    assert tuned.ci_high == pytest.approx(5 * 0.7164, abs=1e-3)


def test_leakage_is_the_mean_over_models_without_a_verdict():
    found = pd.DataFrame({"prompt": "greatest", "held_constant": "sentiment", "rho": [0.1, 0.2, 0.3]})
    beyond = pd.DataFrame({"prompt": ["greatest"] * 2, "apart": [True, False]})
    rho, apart = claims.judged(language_claims.leakage_rows(found, beyond)).itertuples()
    assert rho.corrected == pytest.approx(0.2) and rho.n == 3 and rho.verdict == "not testable here"
    half = 4.302653 * 0.1 / np.sqrt(3)  # t of two degrees of freedom, sd .1
    assert (rho.ci_low, rho.ci_high) == pytest.approx((0.2 - half, 0.2 + half))
    assert apart.corrected == 1 and apart.n == 2
    assert len(language_claims.leakage_rows(found, pd.DataFrame())) == 1


def test_an_interval_of_a_count_stays_within_what_can_be_counted():
    ends = over_models([0, 0, 9, 1, 0], 0, 20)  # a t interval of this mean of 2 begins below 0
    assert ends["ci_low"] == 0 and 2 < ends["ci_high"] < 20
    assert over_models([20, 20, 12, 19, 20], 0, 20)["ci_high"] == 20


def test_printed_next_tokens_keep_their_places():
    grid = printed_ends("A1")
    rows = claims.paper_table("tables_a1_to_a5").query("table == 'A1' and model == 'gemma-2b-it' and position == 3")
    assert grid.shape == (40, 2)
    for end, name in (("top", "likeliest"), ("bottom", "least likely")):
        assert grid.loc[(name, 3), "paper: gemma-2b-it"] == rows.loc[rows["end"] == end, "text"].item()


def test_the_papers_lists_come_back_from_stand_ins(score_table, monkeypatch):
    tables = {}
    for name in ("gemma-2b", "gemma-2b-it"):
        table = pd.DataFrame(columns=["text"])
        for number, asked in language_claims.LISTS.items():
            printed = language_claims.cells.printed_lists(number)[name]
            order = [*printed["optimal"], "middle", *printed["pessimal"].sort_index(ascending=False)]
            of_list = pd.DataFrame({"text": order, asked: range(len(order), 0, -1)}).drop_duplicates("text")
            table = table.merge(of_list, on="text", how="outer")
        tables[name] = table.fillna(20.5)  # what is not in a list lies between its two ends
    found = language_claims.all_cells(tables)
    assert list(found) == ["Table A1", "Table A2", "Table A3", "Table A4", "Table A5"]
    # A text that a list holds twice has one of its two places here, so that a few lists are shifted by one.
    assert all(len(cells) == 80 for cells in found.values()) and found["Table A1"]["agrees"].mean() > 0.9
    tables["gemma-2b"].loc[tables["gemma-2b"]["text"] == "middle", "greatest"] = 99
    moved = language_claims.all_cells(tables)["Table A1"]
    assert moved["as_published"].iloc[0] == "middle" and not moved["agrees"].iloc[0]
    read, misprint = language_claims.cells.claims.paper_table, {"text": {" The": "x"}}
    monkeypatch.setattr(language_claims.cells.claims, "paper_table", lambda name: read(name).replace(misprint))
    assert language_claims.all_cells(tables)["Table A1"]["as_published"].equals(moved["as_published"])


def test_what_training_changes_is_a_mean_over_models_and_a_geometric_one_of_ratios():
    three = pd.Series([1.0, 2.0, 3.0])
    rows = language_claims.training_rows("greatest", 1.0, collapse=three, twice=three, devalued=three, overlaps=three)
    stated = {each["claim"]: each for each in rows}
    assert stated["S7.collapse"]["corrected"] == 2 and stated["S7.overlap"].get("ci_low") is None
    assert stated["S7.devalued"]["corrected"] == pytest.approx(6 ** (1 / 3))
    reach = stats.t.ppf(0.975, 2) * 1 / np.sqrt(3)  # the standard deviation of 1, 2, 3 is 1
    assert stated["S3.twice"]["ci_high"] == pytest.approx(2 + reach)
    logs = np.log(three)
    high = np.exp(logs.mean() + stats.t.ppf(0.975, 2) * logs.std() / np.sqrt(3))
    assert stated["S7.devalued"]["ci_high"] == pytest.approx(high)
