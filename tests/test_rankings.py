"""Rankings on tables small enough to rank by eye, statistics against second implementations, the paper's own figure."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib import InputError, claims, rankings
from lib.models import reward_models
from lib.similarity import agreement, rsa


def small_table(**rewards):
    table = pd.DataFrame(rewards, dtype=np.float32)
    return table.assign(token_id=range(len(table)), text=list("abcdefgh")[: len(table)])


def test_ranks_share_the_average_and_ties_keep_id_order():
    order = rankings.ranked(small_table(greatest=[1, 5, 3, 3]), "greatest")
    assert order["text"].tolist() == ["b", "c", "d", "a"]
    assert order["rank"].tolist() == [1, 2.5, 2.5, 4]  # c and d share places 2 and 3


def test_ranks_do_not_depend_on_scale_or_row_order():
    table = small_table(greatest=[0.3, -1, 2, 7, 2.5])
    stretched = table.assign(greatest=np.exp(3 * table["greatest"]) - 8)
    shuffled = table.sample(frac=1, random_state=1)
    for other in (stretched, shuffled):
        assert rankings.ranked(other, "greatest")["text"].tolist() == ["d", "e", "c", "a", "b"]


def test_ends_are_the_top_and_the_bottom():
    found = rankings.ends(small_table(greatest=[4, 1, 3, 2, 0]), "greatest", 2)
    assert found["text"].tolist() == ["a", "c", "b", "e"]  # 4, 3 ... 1, 0
    assert found["end"].tolist() == ["optimal", "optimal", "pessimal", "pessimal"]
    with pytest.raises(InputError, match="5 tokens have no 3 optimal and 3 pessimal ones; choose n up to 2"):
        rankings.ends(small_table(greatest=[4, 1, 3, 2, 0]), "greatest", 3)


def test_side_by_side_counts_positions_from_each_end():
    tables = {"M": small_table(greatest=[4, 1, 3, 2]), "N": small_table(greatest=[1, 2, 3, 4])}
    grid = rankings.side_by_side(tables, "greatest", 2)
    assert grid["M"].tolist() == ["a", "c", "d", "b"]
    assert grid["N"].tolist() == ["d", "c", "b", "a"]
    assert grid.loc[("pessimal", 1), "M"] == "b"
    shared = pd.DataFrame({"M": [4, 1, 3, 2], "N": [1, 2, 3, 4]}, index=list("abcd"))
    pd.testing.assert_frame_equal(rankings.side_by_side_shared(shared, 2), grid)


def test_overlap_is_the_share_of_common_texts():
    rewards = pd.DataFrame({"M": [9, 8, 7, 0, 1], "N": [9, 1, 8, 7, 0], "O": [1, 0, 2, 9, 8]}, index=list("abcde"))
    top = rankings.overlap(rewards, 2)  # tops: ab, ac, de; bottoms: de, be, ab
    assert top.loc["M", "N"] == 1 / 2
    assert top.loc["M", "O"] == 0
    assert top.loc["N", "N"] == 1
    assert rankings.overlap(rewards, 2, "pessimal").loc["N", "O"] == 1 / 2  # b


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
    assert planted.loc["base", ["pairs", "others"]].tolist() == [20, 25]
    assert "parameters_b" not in planted.index  # all models share it: there is nothing to compare


# --- moments ------------------------------------------------------------------------------------------------------


def test_moments_of_four_rewards():
    found = agreement.moments({"M": [0, 0, 0, 4]}, resamples=10).loc["M"]
    assert found["n"] == 4
    assert found["mean"] == pytest.approx(1)
    assert found["variance"] == pytest.approx((3 * 1**2 + 3**2) / 4)  # population variance, ddof 0
    assert found["skewness"] == pytest.approx((3 * (-1) ** 3 + 3**3) / 4 / 3**1.5)


def test_moments_agree_with_scipy_far_from_zero():
    rewards = -30_000 + 0.01 * np.random.default_rng(0).gamma(2, size=5000)
    found = agreement.moments({"M": rewards}, resamples=10).loc["M"]
    assert found["skewness"] == pytest.approx(stats.skew(rewards), rel=1e-6)
    assert found["variance"] == pytest.approx(rewards.var(), rel=1e-6)
    mirrored = agreement.moments({"M": -rewards}, resamples=10).loc["M"]
    assert mirrored["skewness"] == pytest.approx(-found["skewness"])


def test_intervals_of_moments_have_the_width_that_theory_gives_for_a_normal_distribution():
    n = 4000
    found = agreement.moments({"M": np.random.default_rng(1).normal(5, 2, n)}, resamples=2000, seed=3).loc["M"]
    errors = {"mean": 2 / n**0.5, "variance": 2**2 * (2 / n) ** 0.5, "skewness": (6 / n) ** 0.5}
    for moment, error in errors.items():
        width = found[f"{moment}_high"] - found[f"{moment}_low"]
        assert width == pytest.approx(2 * 1.96 * error, rel=0.1)
        assert found[f"{moment}_low"] < found[moment] < found[f"{moment}_high"]


@pytest.mark.parametrize("rewards", [[1, 1, 1, 1], [1, 2]])
def test_rewards_that_do_not_vary_have_no_skewness(rewards):
    with pytest.raises(InputError, match="the rewards of M .* do not vary"):
        agreement.moments({"M": rewards})


# --- tau, rho, rank-biased overlap --------------------------------------------------------------------------------


def of_two(measure, first, second, **options):
    return measure(pd.DataFrame({"M": first, "N": second}, dtype=float), **options).loc["M", "N"]


def plain_tau_b(first, second):
    """By counting pairs, one at a time."""
    concordant = discordant = untied_first = untied_second = 0
    for i, j in itertools.combinations(range(len(first)), 2):
        a, b = np.sign(first[i] - first[j]), np.sign(second[i] - second[j])
        concordant, discordant = concordant + (a * b > 0), discordant + (a * b < 0)
        untied_first, untied_second = untied_first + (a != 0), untied_second + (b != 0)
    return (concordant - discordant) / (untied_first * untied_second) ** 0.5


def tied_rewards(n, models=2, seed=0):
    return np.random.default_rng(seed).integers(0, 6, (models, n)).astype(float)


def test_tau_counts_pairs():
    assert of_two(rankings.tau_matrix, [1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)  # two agree, one does not, of 3
    assert of_two(rankings.tau_matrix, [1, 1, 2], [1, 2, 3]) == pytest.approx(2 / (2 * 3) ** 0.5)  # 2 and 3 untied
    for seed in range(3):
        assert of_two(rankings.tau_matrix, *tied_rewards(40, seed=seed)) == pytest.approx(
            plain_tau_b(*tied_rewards(40, seed=seed))
        )


def test_spearman_averages_the_ranks_of_ties():
    assert of_two(agreement.spearman_matrix, [1, 2, 3], [1, 3, 2]) == pytest.approx(1 - 6 * 2 / (3 * (9 - 1)))
    first, second = tied_rewards(40)
    assert of_two(agreement.spearman_matrix, first, second) == pytest.approx(stats.spearmanr(first, second).statistic)


@pytest.mark.parametrize("measure", [rankings.tau_matrix, agreement.spearman_matrix, agreement.rbo_matrix])
def test_agreement_depends_on_ranks_only_and_is_symmetric(measure):
    rewards = pd.DataFrame(tied_rewards(60, models=3).T, columns=list("MNO"))
    matrix = measure(rewards)
    assert matrix.equals(matrix.T) or np.allclose(matrix, matrix.T)
    assert np.allclose(np.diag(matrix), 1)
    pd.testing.assert_frame_equal(measure(rewards.assign(N=np.exp(rewards["N"]) - 9)), matrix)
    pd.testing.assert_frame_equal(measure(rewards.sample(frac=1, random_state=1)), matrix)
    pd.testing.assert_frame_equal(measure(rewards[["O", "N", "M"]]).loc[list("MNO"), list("MNO")], matrix)


def test_tau_of_normal_rewards_is_what_their_correlation_says():
    random = np.random.default_rng(0)
    rewards = pd.DataFrame(random.normal(size=(85_000, 1)) + random.normal(size=(85_000, 10))).astype(np.float16)
    tau = rankings.tau_matrix(rewards)
    assert tau.to_numpy()[np.triu_indices(10, 1)] == pytest.approx(2 / np.pi * np.arcsin(1 / 2), abs=0.01)  # rho = 1/2


def plain_rbo(first, second, p, depth=4000):
    """The definition: (1 - p) times the sum of p^(d - 1) A_d, d = 1, 2, ..., cut where p^d no longer counts."""
    total = 0.0
    for d in range(1, depth + 1):
        top = [{i for i, x in enumerate(ranks) if sum(y > x for y in ranks) < d} for ranks in (first, second)]
        total += p ** (d - 1) * 2 * len(top[0] & top[1]) / (len(top[0]) + len(top[1]))
    return (1 - p) * total


def test_rbo_by_hand():
    # abc against bac, p = 1/2: A = 0, 1, 1, so 0/2 + 1/4 + 1/8, and 1/8 for all that follows.
    assert agreement.rank_biased_overlap([3, 2, 1], [2, 3, 1], 0.5) == pytest.approx(1 / 4 + 1 / 8 + 1 / 8)
    # (ab)c against abc: at depth 1 {a, b} and {a} agree by 2 * 1 / (2 + 1).
    tied = agreement.rank_biased_overlap([2, 2, 1], [3, 2, 1], 0.5)
    assert tied == pytest.approx(2 / 3 / 2 + 1 / 4 + 1 / 8 + 1 / 8)


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_rbo_is_the_sum_that_defines_it(p):
    for seed in range(3):
        first, second = tied_rewards(12, seed=seed)
        assert agreement.rank_biased_overlap(first, second, p) == pytest.approx(plain_rbo(first, second, p, 200))
        first, second = np.random.default_rng(seed).permuted(np.tile(np.arange(12), (2, 1)), axis=1)
        assert agreement.rank_biased_overlap(first, second, p) == pytest.approx(plain_rbo(first, second, p, 200))


def test_rbo_weighs_the_end_that_is_asked_for():
    order = np.arange(100.0)
    top_differs, bottom_differs = order.copy(), order.copy()
    top_differs[-10:], bottom_differs[:10] = order[-10:][::-1], order[:10][::-1]
    for end, differs, other in [("optimal", top_differs, bottom_differs), ("pessimal", bottom_differs, top_differs)]:
        moved = of_two(agreement.rbo_matrix, order, differs, p=0.9, end=end)
        still = of_two(agreement.rbo_matrix, order, other, p=0.9, end=end)
        assert moved < 0.6 < 0.999 < still
    assert agreement.rank_biased_overlap(order, order[::-1], 0.9) < 0.01


def test_agreement_that_is_not_defined_is_refused():
    with pytest.raises(InputError, match="the rewards of N are missing or all equal"):
        of_two(rankings.tau_matrix, [1, 2, 3], [1, 1, 1])
    with pytest.raises(InputError, match="the rewards of M are missing or all equal"):
        of_two(agreement.spearman_matrix, [1, np.nan, 3], [1, 2, 1])
    for p in (0, 1, 1.5):
        with pytest.raises(InputError, match="p must lie between 0 and 1"):
            agreement.rank_biased_overlap([1, 2], [1, 2], p)
    with pytest.raises(InputError, match="rankings of 2 and 3 items"):
        agreement.rank_biased_overlap([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="'optimal' or 'pessimal', not 'best'"):
        of_two(agreement.rbo_matrix, [1, 2], [1, 2], end="best")


def correlated(n, models=3, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(random.normal(size=(n, 1)) + random.normal(size=(n, models)), columns=list("MNOPQ")[:models])


def test_correlation_of_matrices_leaves_out_diagonal_and_mirror():
    one = pd.DataFrame([[9, 1, 2], [1, 9, 4], [2, 4, 9]], list("abc"), list("abc"), dtype=float)
    other = pd.DataFrame([[0, 5, 3], [5, 0, 1], [3, 1, 0]], list("cba"), list("cba"), dtype=float)
    # a-b, a-c, b-c: 1, 2, 4 against 1, 3, 5; deviations -4/3, -1/3, 5/3 and -2, 0, 2
    assert agreement.correlation(one, other) == pytest.approx((8 / 3 + 10 / 3) / (42 / 9 * 8) ** 0.5)
    assert np.isnan(agreement.correlation(one.iloc[:2, :2], one.iloc[:2, :2]))


def test_intervals_of_tau_have_the_width_that_theory_gives():
    pairs, draws = rankings.tau_resamples(correlated(600), resamples=400)
    assert pairs[["model_a", "model_b"]].to_numpy().tolist() == [["M", "N"], ["M", "O"], ["N", "O"]]
    # The variance of tau between normal variables of correlation 1/2 (Esscher 1924): first-order term over n.
    error = (4 / 600 * (1 / 9 - (2 / np.pi * np.arcsin(0.5 / 2)) ** 2)) ** 0.5
    assert (pairs["high"] - pairs["low"]).mean() == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert ((pairs["low"] < pairs["tau"]) & (pairs["tau"] < pairs["high"])).all()
    assert draws.shape == (400, 3)
    assert draws.mean(axis=1).std() < draws.std().min()  # the mean of three is surer than each


def test_fewer_texts_drawn_than_there_are_give_the_same_intervals():
    every, _ = rankings.tau_resamples(correlated(1500), resamples=300, most=1500)
    some, _ = rankings.tau_resamples(correlated(1500), resamples=300, most=300)
    width = [(pairs["high"] - pairs["low"]).mean() for pairs in (every, some)]
    assert width[1] == pytest.approx(width[0], rel=0.12)  # unscaled it would be 5**.5 = 2.2 times as wide
    assert some["tau"].equals(every["tau"])


# --- the map of the models ----------------------------------------------------------------------------------------


def test_a_flat_arrangement_is_mapped_without_stress(recwarn):
    points = np.array([[0, 0], [0.3, 0], [0, 0.4], [0.5, 0.1], [0.2, 0.2]])  # 3-4-5 triangle among them
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    found = agreement.model_map(pd.DataFrame(1 - distances, list("abcde"), list("abcde")))
    placed = found.positions.to_numpy()
    assert np.linalg.norm(placed[:, None] - placed[None], axis=2) == pytest.approx(distances, abs=1e-3)
    assert found.stress < 1e-3
    assert found.closeness.loc["b", "c"] == pytest.approx(1 - 0.5, abs=1e-3)
    assert not recwarn.list
    assert found.positions["x"].std() >= found.positions["y"].std()
    assert (found.positions.loc["a"] >= 0).all()


def test_stress_of_four_models_that_are_all_equally_far_apart():
    found = agreement.model_map(pd.DataFrame(0.5 + 0.5 * np.eye(4), list("abcd"), list("abcd")))
    # At best a square: with sides s and diagonals s * 2**.5, (1 - s)² * 4 + (1 - s * 2**.5)² * 2 is least at
    # s = (4 + 2 * 2**.5) / 8; stress-1 divides by the squared distances of the map, 4 s² + 2 (2 s²) = 8 s².
    s = (4 + 2 * 2**0.5) / 8
    by_hand = (((1 - s) ** 2 * 4 + (1 - s * 2**0.5) ** 2 * 2) / (8 * s**2)) ** 0.5
    assert found.stress == pytest.approx(by_hand, abs=1e-3)


# --- RSA ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fig_2a():
    """The paper's Fig 2A and its theoretical matrices."""
    matrix = claims.paper_table("fig2a_tau").set_index("nickname").rename_axis(None)
    return matrix, rsa.similarities(reward_models.rows_of(matrix.index))


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
    found = rsa.similarities(models)
    assert found["base"].loc["N-Gem-27B"].tolist() == [1, 1, 0, 0]
    assert found["developer"].loc["S-Gem-27B"].tolist() == [0, 1, 1, 0]
    assert found["parameters"].loc["N-Gem-27B"].tolist() == [1, 1, 1 / (1 + 19), 1 / (1 + 19)]  # 27 and 8 billion
    assert found["rank"].loc["N-Gem-27B"].tolist() == [1, 1 / 4, 1 / 9, 1 / 16]  # ranks 2, 5, 10, 17
    assert found["base"].loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 1
    small = rsa.similarities(models.assign(parameters_b=[0.001, 0.003, 0.003, 0.002]))["parameters"]
    assert small.loc["N-Gem-27B"].round(9).tolist() == [1, round(1 / 3, 9), round(1 / 3, 9), 1 / 2]  # millions
    released = rsa.similarities(models, base="release")["base"]
    assert released.loc["S-Lla-8B-v0.2", "R-Lla-8B"] == 0  # Llama 3.1 and Llama 3


def test_traits_that_are_unknown_or_the_same_for_all_are_left_out():
    models = reward_models.rows_of(["N-Gem-27B", "S-Gem-27B", "a model of one's own"])
    assert rsa.similarities(models) == {}
    models = reward_models.rows_of(["N-Gem-27B", "S-Gem-27B", "S-Gem-27B-v0.2"])
    assert list(rsa.similarities(models)) == ["developer", "rank"]  # all are 27 billion Gemmas
    assert list(rsa.similarities(models.assign(rewardbench_rank=["", 2, 3]))) == ["developer"]


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
    released = rsa.similarities(reward_models.rows_of(matrix.index), base="release")
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
    orders = rsa._orders(7, 300, 4)
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
    found = rsa.rsa(rankings.tau_matrix(rewards), rsa.similarities(models))
    assert list(found.index) == ["base", "developer"]  # the same size, and no rank
    assert (found["p"] < 0.001).all()
    assert (found["low"] > 0).all()
    rewards, models = rewards_with_values_planted(base=0, developer=0)
    found = rsa.rsa(rankings.tau_matrix(rewards), rsa.similarities(models))
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
    assert row["high"] - row["low"] == pytest.approx(2 * stats.t.ppf(0.975, 5) * by_hand)


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
        covered += row["low"] < 0.5 < row["high"]
    assert covered >= 90  # 95 expected


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
        rsa.similarities(reward_models.rows_of(["N-Gem-27B"]), "generation")


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
    printed = claims.paper_table("rsa")
    assert set(zip(printed["analysis"], printed["quantity"], strict=True)) <= set(summary.index)
    without_rank = {name: one for name, one in predictors.items() if name != "rank"}
    kept = rsa.stepwise(matrix, without_rank, "all")[0]
    summary = rsa.rsa_summary(matrix, without_rank, permutations=9).set_index(["analysis", "quantity"])
    assert [q[2:] for q in summary.loc["final"].index if q.startswith("b_")] == kept


def test_too_few_models_are_not_told_apart(fig_2a):
    matrix, _ = fig_2a
    for count, enough in [(2, False), (3, False), (10, True)]:
        names = matrix.index[:count]
        traits = rsa.similarities(reward_models.rows_of(names))
        assert rsa.can_be_told_apart(matrix.loc[names, names], traits) == enough


@pytest.mark.parametrize("name", ["fig2a_tau", "figa1_spearman", "figa1_rbo"])
def test_the_papers_matrices_are_whole(name):
    matrix = claims.paper_table(name).set_index("nickname")
    assert list(matrix.index) == list(matrix.columns) == claims.paper_table("table_1")["nickname"].tolist()
    assert (matrix.to_numpy() == matrix.to_numpy().T).all()
    assert (np.diag(matrix) == 1).all() and matrix.to_numpy().min() > 0
