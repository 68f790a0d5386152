"""The regression of section 2.2: the paper's own figure through all of it."""

import numpy as np
import pytest

from lib.claims.claims import paper_table
from lib.similarity import factors, rsa
from lib.tables import registry


@pytest.fixture(scope="module")
def fig_2a():
    """The paper's Fig 2A and its theoretical matrices."""
    matrix = paper_table("fig2a_tau").set_index("nickname").rename_axis(None)
    return matrix, factors.theoretical(registry.reward_models(matrix.index))


def test_the_papers_regression_comes_out_of_its_own_figure(fig_2a):
    matrix, predictors = fig_2a
    for name, theory in predictors.items():
        alone = rsa.regress(matrix, {name: theory}, "all")
        assert alone.pvalues[name] < 0.001  # "all p < .001"
    together = rsa.regress(matrix, predictors, "all").pvalues
    assert together["rank"] < 0.0001
    assert 0.05 < together["base"] < 0.10
    assert (together[["developer", "parameters"]] > 0.10).all()
    kept = ["rank", "base"]
    final = rsa.regress(matrix, {name: predictors[name] for name in kept}, "all")
    assert final.params[kept].round(2).to_dict() == {"rank": 0.69, "base": 0.05}
    assert final.nobs == 100
    # R² itself is .81: what the paper calls R² is the adjusted one
    assert round(final.rsquared_adj, 2) == 0.80
    assert round(final.rsquared, 2) == 0.81


def test_each_predictor_alone_has_a_regression_of_its_own(fig_2a):
    matrix, predictors = fig_2a
    six = matrix.iloc[:6, :6]
    few = {name: predictors[name] for name in ("base", "rank")}
    alone = rsa.rsa(six, few, jointly=False)
    for name, theory in few.items():
        own = rsa.regress(six, {name: theory}, "all").params[name]
        assert alone.loc[name, "b_published"] == pytest.approx(own)
    assert not np.allclose(alone["b_published"], rsa.rsa(six, few)["b_published"])


def test_shuffled_names_are_significant_as_published_and_not_when_corrected(fig_2a):
    found = rsa.shuffled_control(*fig_2a, shuffles=50)
    assert (found["published"] > 0.95).all()  # the diagonal alone is enough
    # over all deals, so no more
    assert (found["corrected"] <= 0.05).all() and (found["corrected"] > 0.04).all()
