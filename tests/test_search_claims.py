"""The claims of section 5: rewards that were found and shares of searches at the optimum, without a verdict."""

import pandas as pd

from lib.search import claims as search_claims
from lib.search import optimality
from lib.search.longer_replies import PUBLISHED_METHODS


def test_rewards_of_replies_stand_beside_those_of_the_published_search():
    index = pd.MultiIndex.from_tuples([("best", "optimal"), ("best", "pessimal")], names=["prompt", "direction"])
    beside = {2: pd.DataFrame({"published": [1.0, -1.0], "ours": [1.5, -2.0]}, index)}
    up, down = search_claims.objective_claims("A-Gem-96", beside)
    assert (up.quantity, up.prompt, up.model) == ("optimal reward, 2 tokens", "best", "A-Gem-96")
    assert (down.as_published, down.corrected, down.verdict) == (-1.0, -2.0, "not testable here")


def test_shares_of_searches_are_stated_for_the_budgets_that_were_measured():
    methods = {optimality.OURS, *PUBLISHED_METHODS.values()}
    keys = [(method, direction, budget) for method in sorted(methods) for direction in PUBLISHED_METHODS
            for budget in (1024, 2048)]  # fmt: skip
    index = pd.MultiIndex.from_tuples(keys, names=["method", "direction", "budget"])
    shares = [0.9 if method == optimality.OURS else 0.4 for method, _, _ in keys]
    summary = pd.DataFrame({"share": shares, "ci_low": 0.3, "ci_high": 0.95, "n": 50}, index)
    stated = search_claims.optimality_claims(summary)
    assert [one.quantity for one in stated] == [
        f"{direction}, {budget} replies scored" for direction in PUBLISHED_METHODS for budget in (1024, 2048)
    ]
    assert {(one.as_published, one.corrected, one.n, one.verdict) for one in stated} == {
        (0.4, 0.9, 50, "not in the paper")
    }
