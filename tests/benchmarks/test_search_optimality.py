"""How comparisons of searches are summed up: shares at the optimum with their intervals, and
instances won.
"""

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from benchmarks.search import optimality
from benchmarks.search.optimality import summarise

# --- summary --------------------------------------------------------------------------------------


def searches(*rows, **same):
    """Rows of (model, method, budget, at_optimum, gap)."""
    table = pd.DataFrame(
        rows, columns=["model", "method", "budget", "at_optimum", "gap"]
    )
    return table.assign(
        **({"prompt": "best", "direction": "optimal", "searches": 1} | same)
    )


def test_a_summary_by_hand():
    table = searches(
        ("A", "ours", 8, True, 0.0),
        ("A", "ours", 8, False, 1.0),
        ("A", "ours", 8, True, 0.0),
        ("B", "ours", 8, False, 0.5),
        ("A", "random", 8, False, 2.0),
        ("B", "random", 8, False, 3.0),
    )
    found = summarise(table)
    assert found.columns.tolist() == ["share", "ci_low", "ci_high", "gap", "n"]
    assert found.index.names == ["method", "budget"]
    ours, random = found.loc[("ours", 8)], found.loc[("random", 8)]
    assert (ours["share"], ours["gap"], ours["n"]) == (2 / 4, 1.5 / 4, 4)
    # instances: 2 of 3, and 0 of 1
    assert (ours["ci_low"], ours["ci_high"]) == pytest.approx((0, 2 / 3))
    assert (random["share"], random["gap"], random["n"]) == (0, 2.5, 2)


def test_the_interval_is_over_instances_not_searches():
    whole = searches(
        *[("A", "ours", 8, True, 0.0)] * 50, *[("B", "ours", 8, False, 1.0)] * 50
    )
    # two instances, whatever n
    assert summarise(whole)[["ci_low", "ci_high"]].to_numpy().tolist() == [[0, 1]]
    prompts = pd.concat(
        [
            whole[whole["model"] == "A"],
            whole[whole["model"] == "B"].assign(model="A", prompt="worst"),
        ]
    )
    # prompts are instances too
    assert summarise(prompts)[["ci_low", "ci_high"]].to_numpy().tolist() == [[0, 1]]
    alike = searches(*[("A", "ours", 8, hit, 0.0) for hit in (True, False)])
    alike = pd.concat([alike, alike.assign(model="B"), alike.assign(model="C")])
    assert summarise(alike)[["share", "ci_low", "ci_high"]].to_numpy().tolist() == [
        [0.5, 0.5, 0.5]
    ]


# --- wins -----------------------------------------------------------------------------------------


def test_wins_are_counted_over_instances_whatever_the_number_of_budgets():
    # model: ours, theirs
    gaps = {"A": (0.1, 0.2), "B": (0.3, 0.2), "C": (0.0, 0.0), "D": (0.0, 0.1)}
    rows = [
        {"model": model, "method": method, "budget": budget, "gap": gap * budget}
        for model, pair in gaps.items()
        for method, gap in zip((optimality.OURS, "theirs"), pair, strict=True)
        for budget in (1, 2, 3)
    ]
    same = {"prompt": "best", "tokens": 2, "reply_mode": "text", "direction": "optimal"}
    [won] = optimality.wins(pd.DataFrame(rows).assign(**same)).itertuples()
    assert (won.Index, won.won, won.level, won.lost) == ("theirs", 2, 1, 1)
    # leads 2 x (.1, -.1, 0, .1), mean budget 2
    assert won.lead == pytest.approx(0.1 / 4 * 2) and won.models == 4
    assert won.p == pytest.approx(ttest_1samp([0.2, -0.2, 0, 0.2], 0).pvalue)


def test_a_share_of_all_ends_at_the_exact_bound_for_so_many_models():
    rows = [
        {
            "model": model,
            "prompt": "best",
            "method": "ours",
            "budget": 1,
            "at_optimum": 1.0,
            "gap": 0.0,
            "searches": 3,
        }
        for model in "ABCDE"
    ]
    [all_of_them] = optimality.summarise(pd.DataFrame(rows)).itertuples()
    assert (all_of_them.share, all_of_them.ci_high) == (
        1,
        1,
    ) and all_of_them.ci_low == pytest.approx(0.025**0.2)
    [none] = optimality.summarise(
        pd.DataFrame(rows).assign(at_optimum=0.0)
    ).itertuples()
    assert (none.ci_low, none.ci_high) == (0, pytest.approx(1 - 0.025**0.2))
