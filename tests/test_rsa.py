"""Representational similarity analysis against regressions written out, scikit-bio, and the paper's own figure."""

import itertools

import numpy as np
import pandas as pd
import pytest
import skbio
from scipy import stats

from lib import InputError, claims, rankings, resampling
from lib.models import reward_models
from lib.similarity import agreement, rsa

# --- pairs of models ----------------------------------------------------------------------------------------------


def made_up_models(count):
    names = [f"m{i}" for i in range(count)]
    traits = {"base": ["x", "y"] * (count // 2), "developer": [f"d{i // 2}" for i in range(count)], "parameters_b": 1}
    return pd.DataFrame(traits, index=names)


def test_pairs_leave_out_the_diagonal_and_the_mirror():
    models = made_up_models(4)
    matrix = pd.DataFrame(np.arange(16).reshape(4, 4), models.index, models.index)
    found = rsa.pairs(matrix, models)
    assert found["value"].tolist() == [1, 2, 3, 6, 7, 11]  # above the diagonal, row by row
    assert found["same_base"].tolist() == [False, True, False, False, True, False]
    assert found["same_developer"].tolist() == [True, False, False, False, False, True]


def test_sharing_a_base_is_found_when_planted_and_not_otherwise():
    models = made_up_models(10)
    noise = np.random.default_rng(0).normal(0, 0.1, (10, 10))
    noise = pd.DataFrame(noise + noise.T, models.index, models.index)
    same_base = models["base"].to_numpy()[:, None] == models["base"].to_numpy()[None, :]
    planted = rsa.what_sharing_brings(noise + 0.5 * same_base, models, permutations=999).set_index("trait")
    null = rsa.what_sharing_brings(noise, models, permutations=999).set_index("trait")
    assert planted.loc["base", "difference"] - null.loc["base", "difference"] == pytest.approx(0.5)
    assert planted.loc["base", "p"] < 0.02  # 126 ways to split ten models into two fives, so about 1 / 126 at best
    assert null.loc["base", "p"] > 0.05
    less = rsa.what_sharing_brings(noise - 0.5 * same_base, models, permutations=999).set_index("trait")
    assert less.loc["base", "p"] < 0.02  # two-sided: sharing may also make models less alike
    assert planted.loc["base", ["pairs", "others"]].tolist() == [20, 25]
    assert "parameters_b" not in planted.index  # all models share it: there is nothing to compare


# --- theory ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fig_2a():
    """The paper's Fig 2A and its theoretical matrices."""
    matrix = claims.paper_table("fig2a_tau").set_index("nickname").rename_axis(None)
    return matrix, rsa.theoretical(reward_models.rows_of(matrix.index))


def random_matrices(models=6, predictors=2, seed=0):
    """A symmetric matrix of noise that leans on the first of some random predictors."""
    random = np.random.default_rng(seed)
    names = list("abcdefghij")[:models]

    def noise():
        values = np.triu(random.normal(size=(models, models)), 1)
        return pd.DataFrame(values + values.T + np.eye(models), names, names)

    found = {f"x{i}": noise() for i in range(predictors)}
    return noise() + 0.7 * found["x0"], found


def least_squares(outcome, design):
    """b and t without a library: normal equations with an intercept, and textbook standard errors."""
    design = np.column_stack([np.ones(len(outcome)), design])
    inverse = np.linalg.inv(design.T @ design)
    b = inverse @ design.T @ outcome
    error = outcome - design @ b
    variance = error @ error / (len(outcome) - design.shape[1])
    return b[1:], (b / np.sqrt(variance * np.diag(inverse)))[1:]


def test_similarities_by_hand():
    models = reward_models.rows_of(["N-Gem-27B", "S-Gem-27B", "S-Lla-8B-v0.2", "R-Lla-8B"])
    found = rsa.theoretical(models)
    assert found["base"].loc["N-Gem-27B"].tolist() == [1, 1, 0, 0]
    assert found["developer"].loc["S-Gem-27B"].tolist() == [0, 1, 1, 0]
    assert found["parameters"].loc["N-Gem-27B"].tolist() == [1, 1, 1 / (1 + 19), 1 / (1 + 19)]  # 27 and 8 billion
    assert found["rank"].loc["N-Gem-27B"].tolist() == [1, 1 / 4, 1 / 9, 1 / 16]  # ranks 2, 5, 10, 17
    assert found["base"].loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 1
    small = rsa.theoretical(models.assign(parameters_b=[0.001, 0.003, 0.003, 0.002]))["parameters"]
    assert small.loc["N-Gem-27B"].round(9).tolist() == [1, round(1 / 3, 9), round(1 / 3, 9), 1 / 2]  # millions
    released = rsa.theoretical(models, base="release")["base"]
    assert released.loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 0  # Llama 3.1 and Llama 3


def test_traits_that_are_unknown_or_the_same_for_all_are_left_out():
    models = reward_models.rows_of(["N-Gem-27B", "S-Gem-27B", "a model of one's own"])
    assert rsa.theoretical(models) == {}
    models = reward_models.rows_of(["N-Gem-27B", "S-Gem-27B", "S-Gem-27B-v0.2"])
    assert list(rsa.theoretical(models)) == ["developer", "rank"]  # all are 27 billion Gemmas
    assert list(rsa.theoretical(models.assign(rewardbench_rank=["", 2, 3]))) == ["developer"]


def test_the_papers_regression_comes_out_of_its_own_figure(fig_2a):
    matrix, predictors = fig_2a
    alone = rsa.rsa(matrix, predictors, jointly=False, permutations=99)
    assert (alone["p_published"] < 0.001).all()  # "all p < .001"
    together = rsa.rsa(matrix, predictors, permutations=99)["p_published"]
    assert together["rank"] < 0.0001
    assert 0.05 < together["base"] < 0.10
    assert (together[["developer", "parameters"]] > 0.10).all()
    kept, steps = rsa.stepwise(matrix, predictors, "all")
    assert kept == ["rank", "base"]
    assert steps["step"].tolist() == ["none", "+ rank", "+ base"]
    final = rsa.regress(matrix, {name: predictors[name] for name in kept}, "all")
    assert final.table["b"].round(2).to_dict() == {"rank": 0.69, "base": 0.05}
    assert final.n == 100
    assert round(final.adjusted_r2, 2) == 0.80  # R² itself is .81: what the paper calls R² is the adjusted one
    assert round(final.r2, 2) == 0.81


def test_the_release_of_the_base_does_not_give_the_papers_numbers(fig_2a):
    matrix, _ = fig_2a
    released = rsa.theoretical(reward_models.rows_of(matrix.index), base="release")
    final = rsa.regress(matrix, {name: released[name] for name in ("base", "rank")}, "all")
    assert final.table["b"].round(2).to_dict() == {"base": 0.12, "rank": 0.61}  # not .05 and .69
    assert rsa.regress(matrix, released, "all").table["p"]["base"] < 0.001  # not between .05 and .10


def test_regression_is_least_squares_over_the_entries_it_says():
    matrix, predictors = random_matrices(6)
    for entries, chosen in [("pairs", np.triu_indices(6, 1)), ("all", tuple(np.indices((6, 6)).reshape(2, -1)))]:
        found = rsa.regress(matrix, predictors, entries)
        outcome, design = (
            matrix.to_numpy()[chosen],
            np.column_stack([one.to_numpy()[chosen] for one in predictors.values()]),
        )
        b, t = least_squares(outcome, design)
        assert found.table["b"].to_numpy() == pytest.approx(b)
        assert found.table["t"].to_numpy() == pytest.approx(t)
        k = len(outcome) - 3
        assert found.table["p"].to_numpy() == pytest.approx(2 * stats.t.sf(abs(t), k))
        assert found.n == len(outcome) == {"pairs": 15, "all": 36}[entries]
        assert found.adjusted_r2 == pytest.approx(1 - (1 - found.r2) * (found.n - 1) / k)


def test_regression_over_pairs_does_not_look_at_the_diagonal():
    matrix, predictors = random_matrices(6)
    other = matrix + np.diag(np.arange(6))
    pd.testing.assert_frame_equal(rsa.regress(matrix, predictors).table, rsa.regress(other, predictors).table)
    assert rsa.regress(matrix, predictors, "all").r2 != rsa.regress(other, predictors, "all").r2


def reorder(matrix, order):
    return pd.DataFrame(matrix.to_numpy()[np.ix_(order, order)], matrix.index, matrix.index)


def plain_semi_partial_p(matrix, predictors, name, orders):
    """MRQAP without algebra: residuals by a regression, permuted as a matrix, and one regression per permutation."""
    upper = np.triu_indices(len(matrix), 1)
    outcome = matrix.to_numpy()[upper]
    others = [one.to_numpy()[upper] for other, one in predictors.items() if other != name]
    others = np.column_stack(others) if others else np.empty((len(outcome), 0))
    with_intercept = np.column_stack([np.ones(len(outcome)), others])
    x = predictors[name].to_numpy()[upper]
    residual = np.zeros(matrix.shape)
    residual[upper] = x - with_intercept @ np.linalg.lstsq(with_intercept, x)[0]
    residual = pd.DataFrame(residual + residual.T, matrix.index, matrix.index)
    t = [
        abs(least_squares(outcome, np.column_stack([reorder(residual, o).to_numpy()[upper], others]))[1][0])
        for o in orders
    ]
    return np.mean(np.array(t) >= t[0] * (1 - 1e-9))


@pytest.mark.parametrize("predictors", [1, 2, 3])
def test_mrqap_is_one_regression_per_permutation(predictors):
    matrix, found = random_matrices(7, predictors, seed=predictors)
    p = rsa.mrqap(matrix, found, permutations=300, seed=4)
    orders = resampling.orders(7, 300, 4)
    assert len(orders) == 301 and (orders[0] == np.arange(7)).all()
    for name in found:
        assert p[name] == plain_semi_partial_p(matrix, found, name, orders)


def test_one_predictor_makes_it_mantels_test_whose_exact_p_it_comes_near():
    matrix, predictors = random_matrices(6, 1, seed=7)
    upper = np.triu_indices(6, 1)
    x = predictors["x0"].to_numpy()[upper]
    every = [reorder(matrix, list(o)).to_numpy()[upper] for o in itertools.permutations(range(6))]
    r = np.array([abs(np.corrcoef(x, one)[0, 1]) for one in every])
    exact = (r >= r[0] - 1e-9).mean()
    assert 0.005 < exact < 0.5
    estimated = rsa.mrqap(matrix, predictors, permutations=20_000)["x0"]
    assert estimated == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 20_000) ** 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_one_predictor_gives_the_p_of_scikit_bios_mantel(seed):
    matrix, predictors = random_matrices(9, 1, seed=seed)
    squares = [frame.to_numpy() - np.eye(9) * np.diag(frame) for frame in (matrix, predictors["x0"])]
    permutations = 20_000
    _, theirs, _ = skbio.stats.distance.mantel(*map(skbio.DistanceMatrix, squares), permutations=permutations, seed=1)
    ours = rsa.mrqap(matrix, predictors, permutations)["x0"]
    assert ours == pytest.approx(theirs, abs=4 * (2 * theirs * (1 - theirs) / permutations) ** 0.5 + 1 / permutations)


def test_permutation_p_does_not_depend_on_scale_or_on_the_order_of_models():
    matrix, predictors = random_matrices(8, seed=2)
    p = rsa.mrqap(matrix, predictors, 2000)
    scaled = {name: 3 + 100 * one for name, one in predictors.items()}
    assert rsa.mrqap(0.1 * matrix - 5, scaled, 2000).to_dict() == p.to_dict()
    mirrored = matrix.iloc[::-1, ::-1]
    assert rsa.mrqap(mirrored, predictors, 2000).to_numpy() == pytest.approx(p.to_numpy(), abs=0.04)


def test_a_p_that_no_permutation_reaches_is_one_of_their_number_and_one(fig_2a):
    matrix, predictors = fig_2a
    rank = {"rank": predictors["rank"]}
    nearly = 0.9 * rank["rank"] + 0.1 * matrix  # so near that no other order of ten models is as near
    assert rsa.mrqap(nearly, rank, permutations=10_000)["rank"] == pytest.approx(1 / 10_001)


def test_what_is_left_of_the_papers_regression_over_pairs(fig_2a):
    matrix, predictors = fig_2a
    alone = rsa.rsa(matrix, predictors, jointly=False)
    assert alone.loc["developer", "p"] > 0.5  # the only one of the four that is not associated
    assert (alone.drop("developer")["p"] < 0.05).all()
    assert alone.loc["developer", "b"] < 0
    together = rsa.rsa(matrix, predictors)
    assert together.loc["rank", "p"] > 0.05
    assert rsa.regress(matrix, predictors, "pairs").r2 < 0.4  # .81 with diagonal and mirrored triangle


def test_shuffled_names_are_significant_as_published_and_not_when_corrected(fig_2a):
    matrix, predictors = fig_2a
    found = rsa.shuffled_control(matrix, predictors, shuffles=100)
    assert (found["published"] == 1).all()  # the diagonal alone is enough
    assert (found["corrected"] < 0.15).all()  # 5% expected, 15% is 4.6 standard errors above


def rewards_with_values_planted(base, developer, seed=0):
    """Ten models: each ranks by what all share, what its base and its developer add, and its own noise."""
    random = np.random.default_rng(seed)
    models = pd.DataFrame({"base": ["gem", "lla"] * 5, "developer": list("AABBCCDDEE"), "parameters_b": 1.0})
    models = models.assign(rewardbench_rank="").set_index(pd.Index([f"m{i}" for i in range(10)]))
    shared = {trait: random.normal(size=(800, 5)) for trait in ("base", "developer")}
    columns = {}
    for name, model in models.iterrows():
        own = random.normal(size=800) + random.normal(size=800)
        own += base * shared["base"][:, ["gem", "lla"].index(model["base"])]
        columns[name] = own + developer * shared["developer"][:, "ABCDE".index(model["developer"])]
    return pd.DataFrame(columns), models


def test_planted_base_and_developer_are_recovered_and_nothing_where_none_is_planted():
    rewards, models = rewards_with_values_planted(base=0.7, developer=0.7)
    found = rsa.rsa(rankings.tau_matrix(rewards), rsa.theoretical(models))
    assert list(found.index) == ["base", "developer"]  # the same size, and no rank
    assert (found["p"] < 0.001).all()
    assert (found["ci_low"] > 0).all()
    rewards, models = rewards_with_values_planted(base=0, developer=0)
    found = rsa.rsa(rankings.tau_matrix(rewards), rsa.theoretical(models))
    assert (found["p"] > 0.05).all()
    assert (found["p_published"] < 0.001).all()  # the published recipe finds both all the same


def test_jackknife_leaves_out_one_model_at_a_time():
    matrix, predictors = random_matrices(6, 1)
    b = []
    for i in range(6):
        kept = np.delete(np.arange(6), i)
        upper = np.triu_indices(5, 1)
        y, x = (one.to_numpy()[np.ix_(kept, kept)][upper] for one in (matrix, predictors["x0"]))
        b.append(np.polyfit(x, y, 1)[0])
    by_hand = (5 / 6 * np.sum((np.array(b) - np.mean(b)) ** 2)) ** 0.5
    assert rsa.jackknife(matrix, predictors)["x0"] == pytest.approx(by_hand)
    row = rsa.rsa(matrix, predictors, permutations=9).loc["x0"]
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * stats.t.ppf(0.975, 5) * by_hand)


def test_intervals_of_b_cover_the_truth():
    """Pairs are made of what each model adds to all its pairs, a trait with b = .5, and noise."""
    random, covered = np.random.default_rng(0), 0
    for _ in range(100):
        names = list("abcdefghij")
        trait = (random.integers(0, 2, 10)[:, None] == random.integers(0, 2, 10)[None]).astype(float)
        trait = np.triu(trait, 1) + np.triu(trait, 1).T
        own = random.normal(size=10)
        noise = np.triu(random.normal(size=(10, 10)), 1)
        matrix = pd.DataFrame(own[:, None] + own[None] + 0.5 * trait + noise + noise.T, names, names)
        row = rsa.rsa(matrix, {"x": pd.DataFrame(trait, names, names)}, permutations=9).loc["x"]
        covered += row["ci_low"] < 0.5 < row["ci_high"]
    assert covered >= 90  # 95 expected


def test_shares_of_r2_are_averages_over_the_orders_of_entry():
    matrix, predictors = random_matrices(7, 3, seed=5)
    gained = {name: [] for name in predictors}
    for order in itertools.permutations(predictors):
        r2 = [0.0]
        for count in range(1, 4):
            r2.append(rsa.regress(matrix, {name: predictors[name] for name in order[:count]}).r2)
        for name, gain in zip(order, np.diff(r2), strict=True):
            gained[name].append(gain)
    total = rsa.regress(matrix, predictors).r2
    found = rsa.shares_of_r2(matrix, predictors)
    assert found.to_dict() == pytest.approx({name: np.mean(gains) / total for name, gains in gained.items()})
    assert found.sum() == pytest.approx(1)
    assert rsa.shares_of_r2(matrix, {"x1": predictors["x1"]}).to_dict() == pytest.approx({"x1": 1})
    table = rsa.rsa(matrix, predictors, permutations=9)
    assert table["share"].to_dict() == found.to_dict()
    assert table["share_published"].to_dict() == rsa.shares_of_r2(matrix, predictors, "all").to_dict()


def test_stepwise_adds_what_matters_and_stops():
    matrix, predictors = random_matrices(9, 3, seed=1)
    kept, steps = rsa.stepwise(0.2 * matrix + predictors["x0"] - 2 * predictors["x2"], predictors)
    assert kept == ["x2", "x0"]
    assert steps["aic"].is_monotonic_decreasing
    assert rsa.stepwise(matrix, {})[0] == []


def test_matrices_that_cannot_be_compared_are_refused():
    matrix, predictors = random_matrices(5)
    lopsided = matrix.copy()
    lopsided.iloc[0, 1] += 1
    missing = matrix.copy()
    missing.iloc[0, 1] = missing.iloc[1, 0] = np.nan
    for wrong in (lopsided, missing, matrix.iloc[:, ::-1]):
        with pytest.raises(InputError, match="needs the same models on both sides"):
            rsa.regress(wrong, predictors)
        with pytest.raises(InputError, match="needs the same models on both sides"):
            agreement.model_map(wrong)
    renamed = predictors["x0"].rename(index={"a": "z"}, columns={"a": "z"})
    with pytest.raises(InputError, match="the similarity matrix of x0 is about other models"):
        rsa.mrqap(matrix, {"x0": renamed})
    with pytest.raises(InputError, match="5 models are too few, or too alike, to tell apart x0, copy"):
        rsa.regress(matrix, {"x0": predictors["x0"], "copy": predictors["x0"]})
    with pytest.raises(InputError, match="entries must be 'pairs' or 'all', not 'half'"):
        rsa.regress(matrix, predictors, "half")
    with pytest.raises(InputError, match="'family' or 'release', not 'generation'"):
        rsa.theoretical(reward_models.rows_of(["N-Gem-27B"]), "generation")


def test_predictors_are_matched_by_model_and_not_by_position():
    matrix, predictors = random_matrices(6)
    turned = {name: one.iloc[::-1, ::-1] for name, one in predictors.items()}
    pd.testing.assert_frame_equal(rsa.regress(matrix, turned).table, rsa.regress(matrix, predictors).table)


def test_the_summary_holds_what_the_single_analyses_give(fig_2a):
    matrix, predictors = fig_2a
    summary = rsa.rsa_summary(matrix, predictors, permutations=199).set_index(["analysis", "quantity"])
    assert summary.index.is_unique
    alone = rsa.rsa(matrix, predictors, jointly=False, permutations=199)
    assert summary.loc[("simple", "p_rank"), ["as_published", "corrected"]].tolist() == [
        alone.loc["rank", "p_published"],
        alone.loc["rank", "p"],
    ]
    together = rsa.rsa(matrix, predictors, permutations=199)
    assert summary.loc[("multiple", "p_base_mrqap"), "corrected"] == together.loc["base", "p"]
    assert summary.loc[("final", "b_base"), "as_published"].round(2) == 0.05
    assert summary.loc[("final", "adjusted_r2"), "as_published"].round(2) == 0.80
    assert summary.loc[("final", "b_rank"), "corrected"] == pytest.approx(0.25, abs=0.005)
    joint = summary[summary.index.get_level_values("quantity").str.startswith("share_")]
    assert joint.groupby("analysis")[["as_published", "corrected"]].sum().to_numpy() == pytest.approx(np.ones((2, 2)))
    assert summary.loc[("multiple", "share_rank"), "corrected"] == together.loc["rank", "share"]
    printed = claims.quantities().query("claim.str.startswith('S2.rsa')")
    assert set(zip(printed["claim"].str[7:], printed["quantity"], strict=True)) <= set(summary.index)
    without_rank = {name: one for name, one in predictors.items() if name != "rank"}
    kept = rsa.stepwise(matrix, without_rank, "all")[0]
    summary = rsa.rsa_summary(matrix, without_rank, permutations=9).set_index(["analysis", "quantity"])
    assert [q[2:] for q in summary.loc["final"].index if q.startswith("b_")] == kept


def test_too_few_models_are_not_told_apart(fig_2a):
    matrix, _ = fig_2a
    for count, enough in [(2, False), (3, False), (10, True)]:
        names = matrix.index[:count]
        traits = rsa.theoretical(reward_models.rows_of(names))
        assert rsa.can_be_told_apart(matrix.loc[names, names], traits) == enough


@pytest.mark.parametrize("name", ["fig2a_tau", "figa1_spearman", "figa1_rbo"])
def test_the_papers_matrices_are_whole(name):
    matrix = claims.paper_table(name).set_index("nickname")
    assert list(matrix.index) == list(matrix.columns) == claims.paper_table("table_1")["nickname"].tolist()
    assert (matrix.to_numpy() == matrix.to_numpy().T).all()
    assert (np.diag(matrix) == 1).all() and matrix.to_numpy().min() > 0
