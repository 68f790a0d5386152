"""The truth about every reply of two tokens, and how searches are measured against it."""

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
from scipy.stats import rankdata

from benchmarks.search import exhaustive, optimality
from benchmarks.search.exhaustive import Exhausted, all_replies, alphabet, compare, landscape
from lib import InputError
from lib.models.reward_models import load
from lib.scoring import engine, stages
from lib.search.gcg import METHODS as ALL_METHODS
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, Objective, allowed_ids
from lib.search.searches import search
from lib.tables.prompts import read_prompts

PROMPT = "What, in one word, is the greatest thing ever?"
METHODS = {name: Settings(name, width=4) for name in ("round robin", "random", "GCG")}
BUDGETS = (1, 5, 17, 29)  # ends of batches


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make_checkpoint(tmp_path_factory.mktemp("reward") / "linear_llama", "linear_llama")


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder), device="cpu")


@pytest.fixture(scope="module")
def ids(model):
    return alphabet(model, 10)


@pytest.fixture(scope="module")
def exhausted(model, ids):
    """Both directions, over one truth."""
    optimal = Exhausted(model, PROMPT, "optimal", ids, reply_mode="ids")
    return {"optimal": optimal, "pessimal": Exhausted(model, PROMPT, "pessimal", ids, optimal.truth, reply_mode="ids")}


# --- the truth ----------------------------------------------------------------------------------------------------


def test_an_alphabet_is_a_draw_of_printable_ids(model):
    printable = set(allowed_ids(model, "printable").tolist())
    drawn = alphabet(model, 40, seed=1)
    assert len(drawn) == 40 and (np.diff(drawn) > 0).all()  # ascending, none twice
    assert set(drawn.tolist()) < printable
    assert drawn.tolist() == alphabet(model, 40, seed=1).tolist()
    assert drawn.tolist() != alphabet(model, 40, seed=2).tolist()
    assert set(alphabet(model, len(printable)).tolist()) == printable


def test_an_alphabet_larger_than_the_vocabulary_is_refused(model):
    with pytest.raises(InputError, match="263"):
        alphabet(model, len(allowed_ids(model, "printable")) + 1)


@pytest.mark.parametrize("n", [2, 3])
def test_all_replies_run_through_the_last_token_first(n):
    assert all_replies(np.array([3, 5, 8]), n).tolist() == [list(reply) for reply in product((3, 5, 8), repeat=n)]


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2"])
def test_the_truth_is_the_reward_of_every_pair(tmp_path, kind):
    folder = tiny.make_checkpoint(tmp_path, kind)
    model = load(str(folder), device="cpu")
    ids = alphabet(model, 7)
    pairs = [[first, second] for first in ids.tolist() for second in ids.tolist()]
    truth = Exhausted(model, PROMPT, "pessimal", ids).truth
    assert truth.shape == (7, 7)  # first token by second, on the model's own scale: no sign
    scored = engine.score_replies(model, PROMPT, pairs, reply_mode="ids")
    np.testing.assert_allclose(truth.ravel(), scored, atol=1e-5)
    np.testing.assert_allclose(
        truth.ravel(), oracle.rewards(folder, PROMPT, pairs, reply_mode="ids", batch=49), atol=1e-4
    )
    assert truth.std() > 0.01


def test_the_optimum_is_the_greatest_reward_or_the_least(exhausted):
    truth = exhausted["optimal"].truth
    assert exhausted["optimal"].optimum == sorted(truth.ravel().tolist())[-1]
    assert exhausted["pessimal"].optimum == sorted(truth.ravel().tolist())[0]


def test_a_given_truth_is_shared_and_nothing_is_scored_for_it(model, ids, exhausted, monkeypatch):
    assert exhausted["pessimal"].truth is exhausted["optimal"].truth
    monkeypatch.setattr(Objective, "values", lambda *_: pytest.fail("scored"))
    Exhausted(model, PROMPT, "optimal", ids, exhausted["optimal"].truth, reply_mode="ids")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_values_are_looked_up_and_those_of_the_model(model, ids, exhausted, monkeypatch, direction):
    plain = Objective(model, PROMPT, direction, ids, reply_mode="ids")
    replies = np.random.default_rng(3).choice(ids, size=(30, 2))
    expected = plain.values(replies)
    monkeypatch.setattr(stages.Scorer, "__call__", lambda *_: pytest.fail("scored"))
    found = exhausted[direction].values(replies)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found, -exhausted[next(d for d in DIRECTIONS if d != direction)].values(replies))


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_search_goes_the_same_way_looked_up_or_scored(model, ids, exhausted, method):
    settings, start = Settings(method, budget=60, width=8, top_k=4), ids[[2, 7]]
    scored = search(Objective(model, PROMPT, "pessimal", ids, reply_mode="ids"), start, settings)
    for _ in range(2):  # the second one from known gains: they are counted as before
        found = search(exhausted["pessimal"], start, settings)
        assert found.ids == scored.ids
        assert (found.evaluations, found.gradients) == (scored.evaluations, scored.gradients)
        assert [count for count, _ in found.trace] == [count for count, _ in scored.trace]
        assert found.reward == pytest.approx(scored.reward, abs=1e-5)


def test_gains_are_computed_once_and_counted_each_time(model, ids, monkeypatch):
    objective = Exhausted(model, PROMPT, "pessimal", ids, reply_mode="ids")
    plain, computed, gradient = Objective(model, PROMPT, "pessimal", ids, reply_mode="ids"), [], stages.Scorer.gradient
    monkeypatch.setattr(stages.Scorer, "gradient", lambda *given: computed.append(given[1]) or gradient(*given))
    reply, other = tuple(ids[:2].tolist()), tuple(ids[2:4].tolist())
    for _ in range(3):
        for centred in (True, False):
            for one in (reply, other):
                objective.gains(one, centred)
    assert objective.gradients == 12
    assert len(computed) == 4
    for centred in (True, False):
        np.testing.assert_array_equal(objective.gains(other, centred), plain.gains(other, centred))
    assert objective.gains(reply).tolist() != objective.gains(other).tolist()


# --- what survives as text ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["linear_llama", "linear_gemma2"])
def typed(request, tmp_path_factory):
    """Both directions as text over one truth of three tokens, five ids each, whose survivors another count knows."""
    folder = tmp_path_factory.mktemp("typed")
    model = load(str(tiny.make_checkpoint(folder, request.param)), device="cpu")
    texts = {int(i): model.tokenizer.decode([int(i)]) for i in allowed_ids(model)}
    spaced = [i for i, text in texts.items() if text.startswith(" ")][:2]  # trimmed where they stand first
    ids = np.sort([*spaced, *[i for i, text in texts.items() if text.isalpha()][:3]])
    optimal = Exhausted(model, PROMPT, "optimal", ids, n=3)
    given = {"truth": optimal.truth, "survives": optimal.survives}
    return {"optimal": optimal, "pessimal": Exhausted(model, PROMPT, "pessimal", ids, **given)}


def test_survivors_are_what_comes_back_and_the_optimum_is_the_best_of_them(typed):
    objective = typed["optimal"]
    replies = all_replies(objective.allowed, 3)
    survive = np.array([oracle.comes_back(objective.model.tokenizer, PROMPT, reply) for reply in replies.tolist()])
    assert objective.survives.ravel().tolist() == survive.tolist()
    assert 0 < survive.sum() < len(replies)
    rewards = engine.score_replies(objective.model, PROMPT, replies[survive].tolist(), reply_mode="ids")
    assert objective.optimum == pytest.approx(rewards.max(), abs=1e-5)
    assert typed["pessimal"].optimum == pytest.approx(rewards.min(), abs=1e-5)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_a_search_as_text_scores_survivors_alone_and_finds_the_best(typed, method):
    for objective in typed.values():
        scored, values = [], objective.values
        objective.values = lambda replies, scored=scored, values=values: scored.append(replies) or values(replies)
        start = objective.draw(3, np.random.default_rng(0))
        found = search(objective, start, Settings(method, budget=400, width=8, top_k=5))
        del objective.values
        assert objective.survivors(np.concatenate(scored)).all()
        assert found.survives
        if method in ("round robin", "random"):
            assert found.reward == objective.optimum


def test_optima_of_text_are_survivors_that_no_surviving_swap_improves(typed):
    objective = typed["optimal"]
    values = np.where(objective.survives, objective.truth, -np.inf)
    places = [tuple(place) for place in np.argwhere(objective.survives)]
    by_hand = sum(
        all(values[(*at[:axis], other, *at[axis + 1 :])] <= values[at] for axis in range(3) for other in range(5))
        for at in places
    )
    found = landscape(objective, replies=6)
    assert found["optima"] == by_hand >= 1
    assert found["survivors"] == len(places) / 125


# --- comparison ---------------------------------------------------------------------------------------------------


KEY = ["prompt", "reply_mode", "direction", "method", "budget"]


def make_small(monkeypatch):
    """Few methods and budgets."""
    monkeypatch.setattr(exhaustive, "COMPARED", METHODS)
    monkeypatch.setattr(exhaustive, "BUDGETS", BUDGETS)


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)


def compared(checkpoint, *prompts, **settings):
    """A table of instances of one model with these prompts, on alphabets of eight tokens unless told."""
    settings = {"seeds": 2, "alphabets": {2: 8}, "folder": None, "processes": 1} | settings
    return compare([(str(checkpoint), prompt) for prompt in prompts], progress=False, **settings)


@pytest.fixture(scope="module")
def table(folder):
    """Two prompts, three methods, two seeds."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        return compared(folder, "best", "worst")


def test_a_row_per_instance_method_and_budget(table):
    found = ["tokens", "searches", "at_optimum", "gap", "scored", "gradients"]
    assert sorted(table) == sorted(["model", *KEY, *found, *optimality.LANDSCAPE])
    assert len(table[["prompt", "reply_mode", "direction", *optimality.LANDSCAPE]].drop_duplicates()) == 8
    keys = product(["best", "worst"], ["text", "ids"], DIRECTIONS, METHODS, BUDGETS)
    assert sorted(table[KEY].itertuples(index=False, name=None)) == sorted(keys)
    assert (table["searches"] == 2).all()


def test_gaps_are_nothing_at_the_optimum_and_never_rise(table):
    assert (table["gap"] >= 0).all()
    assert ((table["gap"] == 0) == (table["at_optimum"] == 1)).all()
    assert set(table["at_optimum"]) == {0, 0.5, 1}
    searches = table.sort_values("budget").groupby(KEY[:-1])
    assert searches["gap"].apply(lambda gaps: (np.diff(gaps) <= 0).all()).all()
    for spent in ("scored", "gradients"):
        assert (searches[spent].min() == searches[spent].max()).all()  # of the whole search
    assert (table["scored"] <= max(BUDGETS)).all()
    assert (table.query("at_optimum == 1")["scored"] < max(BUDGETS)).any()  # it stopped there
    assert not table.query("method == 'random'")["gradients"].any()


def test_the_first_gap_is_that_of_the_random_starts(folder, model, table):
    first_gaps = table.query("budget == 1 and reply_mode == 'ids'").set_index(["prompt", "direction"])["gap"]
    for number, prompt in enumerate(["best", "worst"]):
        ids = alphabet(model, 8, seed=number)
        rewards = oracle.rewards(folder, read_prompts(prompt)[prompt], all_replies(ids).tolist(), reply_mode="ids")
        starts = [np.searchsorted(ids, np.random.default_rng(seed).choice(ids, size=2)) for seed in range(2)]
        reward = np.array([rewards.reshape(8, 8)[tuple(start)] for start in starts])
        for direction, optimum in {"optimal": rewards.max(), "pessimal": rewards.min()}.items():
            gaps = first_gaps.loc[(prompt, direction)]
            assert len(gaps) == len(METHODS)  # every method starts there
            np.testing.assert_allclose(gaps, np.abs(optimum - reward).mean() / rewards.std(), atol=1e-3)


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
@pytest.mark.parametrize("method", METHODS)
def test_a_gap_is_that_of_searches_with_no_larger_budget(model, table, method, reply_mode):
    rows = table.query("method == @method and prompt == 'best' and reply_mode == @reply_mode")
    rows = rows.set_index(["direction", "budget"])
    for direction in DIRECTIONS:
        prompt, ids = read_prompts("best")["best"], alphabet(model, 8, seed=0)
        objective = Exhausted(model, prompt, direction, ids, reply_mode=reply_mode)
        starts = [objective.draw(2, np.random.default_rng(seed)) for seed in range(2)]
        for budget in BUDGETS:
            settings = [replace(METHODS[method], seed=seed, budget=budget) for seed in range(2)]
            rewards = np.array([search(objective, *given).reward for given in zip(starts, settings, strict=True)])
            gap = np.abs(objective.optimum - rewards).mean() / objective.truth.std()
            row = rows.loc[(direction, budget)]
            if (method, reply_mode) == ("GCG", "text"):  # budgets cut its batches, which differ in length
                assert row["gap"] >= gap - 1e-5
                continue
            assert row["gap"] == pytest.approx(gap, abs=1e-5)
            assert row["at_optimum"] == (rewards == objective.optimum).mean()


def test_what_was_measured_is_read_back_as_it_was_written(table, tmp_path):
    exhaustive.write(table, tmp_path)
    read = optimality.read(tmp_path)
    pd.testing.assert_frame_equal(read[list(table)], table, rtol=1e-3, check_dtype=False)
    with pytest.raises(InputError, match="run: python -m benchmarks.search optimality"):
        optimality.read(tmp_path / "none")


def test_finished_instances_are_read_back(folder, small, tmp_path, monkeypatch):
    fresh = compared(folder, "best", folder=tmp_path)
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    for name in ("__call__", "gradient"):
        monkeypatch.setattr(stages.Scorer, name, lambda *_: pytest.fail("scored again"))
    pd.testing.assert_frame_equal(compared(folder, "best", folder=tmp_path), fresh)


def test_what_changes_an_instance_is_kept_elsewhere(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(exhaustive, "search_both_ways", lambda instance: pd.DataFrame([{"model": instance.model}]))
    compared(folder, "best", folder=tmp_path, seeds=1)
    compared(folder, "best", folder=tmp_path, seeds=2)
    compared(folder, "best", folder=tmp_path, seeds=1, alphabets={2: 5})
    compared(folder, "worst", folder=tmp_path, seeds=1)
    compared(folder, "worst", "best", folder=tmp_path, seeds=1)  # best with the second alphabet, worst is there
    other = tiny.make_checkpoint(tmp_path / "other" / folder.name, "linear_llama", seed=1)  # other weights, same name
    compared(other, "best", folder=tmp_path, seeds=1)
    prompts = {"best": "What is best?"}
    monkeypatch.setattr(exhaustive, "read_prompts", lambda _: prompts)  # another text, same name
    compared(folder, "best", folder=tmp_path, seeds=1)
    assert len(list(tmp_path.glob("*.parquet"))) == 7


def test_other_processes_find_the_same_in_the_same_order(folder, table, small, monkeypatch):
    def each(function, jobs, processes):
        """As lib.models.hardware.each sends them to its processes."""
        assert processes == 2
        return map(*pickle.loads(pickle.dumps((function, jobs))))

    monkeypatch.setattr(exhaustive, "each", each)
    pd.testing.assert_frame_equal(compared(folder, "best", "worst", processes=2), table)


def test_an_unknown_prompt_is_named_with_its_remedy(folder, small):
    with pytest.raises(InputError, match="bst"):
        compared(folder, "bst")


# --- landscape ----------------------------------------------------------------------------------------------------


class Planted(Exhausted):
    """Rewards as given; gains that are the true changes plus some noise."""

    def __init__(self, model, ids, truth, direction="optimal", noise=0.0):
        self.noise = np.random.default_rng(5).normal(scale=noise, size=(len(ids), len(ids), 2, len(ids)))
        super().__init__(model, PROMPT, direction, ids, np.asarray(truth, dtype=np.float32), reply_mode="ids")

    def gains(self, reply, centred=True):
        first, second = np.searchsorted(self.allowed, reply)
        values = self.sign * self.truth
        return np.stack([values[:, second], values[first]]) - values[first, second] + self.noise[first, second]


def test_an_additive_table_is_explained_whole_and_has_one_optimum(model, ids):
    truth = np.add.outer(np.arange(10.0) ** 2, -3.0 * np.arange(10))
    for direction in DIRECTIONS:
        found = landscape(Planted(model, ids, truth, direction), replies=20)
        assert found["additive_r2"] == pytest.approx(1, abs=1e-6)
        assert found["optima"] == 1
        assert found["gradient_spearman"] == pytest.approx(1)  # its gains are the truth
        assert found["rank_of_best"] == 1


def test_a_table_of_pure_interaction_is_not_explained_at_all(model, ids):
    found = landscape(Planted(model, ids[:2], [[1, 0], [0, 1]]), replies=4)
    assert found["additive_r2"] == pytest.approx(0)
    assert found["optima"] == 2  # either token twice


def brute_optima(values):
    """Cells that no other cell of their row or column exceeds."""
    n = range(len(values))
    return sum(
        all(values[i, j] >= values[k, j] for k in n) and all(values[i, j] >= values[i, k] for k in n)
        for i in n
        for j in n
    )


def brute_r2(truth):
    """R^2 of ordinary least squares on one indicator per first and per second token."""
    size = len(truth)
    design = np.array([[*np.eye(size)[i], *np.eye(size)[j]] for i in range(size) for j in range(size)])
    fitted = design @ np.linalg.lstsq(design, truth.ravel(), rcond=None)[0]
    return 1 - ((truth.ravel() - fitted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_landscape_by_brute_force(model, ids, direction):
    truth = np.random.default_rng(2).normal(size=(6, 6)).astype(np.float32)
    objective = Planted(model, ids[:6], truth, direction, noise=2.0)
    found = landscape(objective, replies=15, seed=4)
    values = truth if direction == "optimal" else -truth
    assert found["optima"] == brute_optima(values) > 1
    assert found["additive_r2"] == pytest.approx(brute_r2(truth.astype(float)), abs=1e-5)
    correlations, ranks = [], []
    for drawn in np.random.default_rng(4).integers(36, size=15):
        i, j = divmod(int(drawn), 6)
        swaps = [(k, j) for k in range(6)] + [(i, k) for k in range(6)]
        gains = objective.gains((int(ids[i]), int(ids[j]))).ravel().tolist()
        true = [float(values[swap]) for swap in swaps]
        by_gain = sorted(gains, reverse=True)
        ranks.append(1 + by_gain.index(gains[true.index(max(true))]))
        correlations.append(np.corrcoef(rankdata(gains), rankdata(true))[0, 1])
    assert found["rank_of_best"] == np.median(ranks)
    assert found["gradient_spearman"] == pytest.approx(np.mean(correlations), abs=1e-6)
    assert max(ranks) > 1 and found["gradient_spearman"] < 0.9  # so that the noise is felt
    again = landscape(objective, replies=15, seed=4)
    assert again == found
    assert landscape(objective, replies=15, seed=5) != found


def test_a_landscape_of_a_model_is_in_its_ranges(exhausted):
    for objective in exhausted.values():
        found = landscape(objective, replies=5)
        assert -1 <= found["gradient_spearman"] <= 1 and 1 <= found["rank_of_best"] <= 20
        assert 0 <= found["additive_r2"] <= 1
        assert found["optima"] == brute_optima(objective.sign * objective.truth)


def test_settings_compared_are_those_the_table_names():
    assert exhaustive.COMPARED[optimality.OURS] == replace(Settings(), method="round robin")
    assert {settings.method for settings in exhaustive.COMPARED.values()} == set(ALL_METHODS)
    assert len(set(exhaustive.COMPARED.values())) == len(exhaustive.COMPARED)
