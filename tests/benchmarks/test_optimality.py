"""The truth about every reply of two tokens, and how searches are measured against it."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
import tiny
from scipy.stats import rankdata

from benchmarks.search import exhaustive
from benchmarks.search.exhaustive import (
    Exhausted,
    all_replies,
    alphabet,
    compare,
    landscape,
)
from lib.apps.owner.opening import open_model as load
from lib.scoring import vocabulary
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, allowed_ids
from lib.search.searches import search
from lib.tables.prompts import read_prompts

PROMPT = "What, in one word, is the greatest thing ever?"
METHODS = {name: Settings(name, width=4) for name in ("round robin", "random", "GCG")}
BUDGETS = (1, 5, 17, 29)  # ends of batches


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder), device="cpu")


@pytest.fixture(scope="module")
def ids(model):
    return alphabet(model, 10)


@pytest.mark.parametrize("kind", ["linear_llama", "linear_gemma2"])
def test_the_truth_is_the_reward_of_every_pair(tmp_path, kind):
    folder = tiny.make_checkpoint(tmp_path, kind)
    model = load(str(folder), device="cpu")
    ids = alphabet(model, 7)
    pairs = [[first, second] for first in ids.tolist() for second in ids.tolist()]
    truth = Exhausted(model, PROMPT, "pessimal", ids).truth
    # first token by second, on the model's own scale: no sign
    assert truth.shape == (7, 7)
    scored = vocabulary.score_replies(model, PROMPT, pairs, reply_mode="ids")
    np.testing.assert_allclose(truth.ravel(), scored, atol=1e-5)
    np.testing.assert_allclose(
        truth.ravel(),
        oracle.rewards(folder, PROMPT, pairs, reply_mode="ids", batch=49),
        atol=1e-4,
    )
    assert truth.std() > 0.01


@pytest.fixture(scope="module", params=["linear_llama", "linear_gemma2"])
def typed(request, tmp_path_factory):
    """Both directions as text over one truth of three tokens, five ids each, whose survivors
    another count knows.
    """
    folder = tmp_path_factory.mktemp("typed")
    model = load(str(tiny.make_checkpoint(folder, request.param)), device="cpu")
    texts = {int(i): model.tokenizer.decode([int(i)]) for i in allowed_ids(model)}
    # trimmed where they stand first
    spaced = [i for i, text in texts.items() if text.startswith(" ")][:2]
    ids = np.sort([*spaced, *[i for i, text in texts.items() if text.isalpha()][:3]])
    optimal = Exhausted(model, PROMPT, "optimal", ids, n=3)
    given = {"truth": optimal.truth, "survives": optimal.survives}
    return {
        "optimal": optimal,
        "pessimal": Exhausted(model, PROMPT, "pessimal", ids, **given),
    }


def test_survivors_are_what_comes_back_and_the_optimum_is_the_best_of_them(typed):
    objective = typed["optimal"]
    replies = all_replies(objective.allowed, 3)
    survive = np.array(
        [
            oracle.comes_back(objective.model.tokenizer, PROMPT, reply)
            for reply in replies.tolist()
        ]
    )
    assert objective.survives.ravel().tolist() == survive.tolist()
    assert 0 < survive.sum() < len(replies)
    rewards = vocabulary.score_replies(
        objective.model, PROMPT, replies[survive].tolist(), reply_mode="ids"
    )
    assert objective.optimum == pytest.approx(rewards.max(), abs=1e-5)
    assert typed["pessimal"].optimum == pytest.approx(rewards.min(), abs=1e-5)


@pytest.fixture(scope="module")
def table(folder):
    """One prompt, three methods, two seeds, an alphabet of eight tokens."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(exhaustive, "COMPARED", METHODS)
        monkeypatch.setattr(exhaustive, "BUDGETS", BUDGETS)
        settings = {"seeds": 2, "alphabets": {2: 8}, "folder": None, "processes": 1}
        return compare([(str(folder), "best")], progress=False, **settings)


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
@pytest.mark.parametrize("method", METHODS)
def test_a_gap_is_that_of_searches_with_no_larger_budget(
    model, table, method, reply_mode
):
    rows = table.query("method == @method and reply_mode == @reply_mode")
    rows = rows.set_index(["direction", "budget"])
    for direction in DIRECTIONS:
        prompt, ids = read_prompts("best")["best"], alphabet(model, 8, seed=0)
        objective = Exhausted(model, prompt, direction, ids, reply_mode=reply_mode)
        starts = [objective.draw(2, np.random.default_rng(seed)) for seed in range(2)]
        for budget in BUDGETS:
            settings = [
                replace(METHODS[method], seed=seed, budget=budget) for seed in range(2)
            ]
            rewards = np.array(
                [
                    search(objective, *given).reward
                    for given in zip(starts, settings, strict=True)
                ]
            )
            gap = np.abs(objective.optimum - rewards).mean() / objective.truth.std()
            row = rows.loc[(direction, budget)]
            # budgets cut its batches, which differ in length
            if (method, reply_mode) == ("GCG", "text"):
                assert row["gap"] >= gap - 1e-5
                continue
            assert row["gap"] == pytest.approx(gap, abs=1e-5)
            assert row["at_optimum"] == (rewards == objective.optimum).mean()


class Planted(Exhausted):
    """Rewards as given; gains that are the true changes plus some noise."""

    def __init__(self, model, ids, truth, direction="optimal", noise=0.0):
        self.noise = np.random.default_rng(5).normal(
            scale=noise, size=(len(ids), len(ids), 2, len(ids))
        )
        super().__init__(
            model,
            PROMPT,
            direction,
            ids,
            np.asarray(truth, dtype=np.float32),
            reply_mode="ids",
        )

    def gains(self, reply, centred=True):
        first, second = np.searchsorted(self.allowed, reply)
        values = self.sign * self.truth
        return (
            np.stack([values[:, second], values[first]])
            - values[first, second]
            + self.noise[first, second]
        )


def brute_optima(values):
    """Cells that no other cell of their row or column exceeds."""
    n = range(len(values))
    return sum(
        all(values[i, j] >= values[k, j] for k in n)
        and all(values[i, j] >= values[i, k] for k in n)
        for i in n
        for j in n
    )


def brute_r2(truth):
    """R^2 of ordinary least squares on one indicator per first and per second token."""
    size = len(truth)
    design = np.array(
        [[*np.eye(size)[i], *np.eye(size)[j]] for i in range(size) for j in range(size)]
    )
    fitted = design @ np.linalg.lstsq(design, truth.ravel(), rcond=None)[0]
    return (
        1 - ((truth.ravel() - fitted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_landscape_by_brute_force(model, ids, direction):
    truth = np.random.default_rng(2).normal(size=(6, 6)).astype(np.float32)
    objective = Planted(model, ids[:6], truth, direction, noise=2.0)
    found = landscape(objective, replies=15, seed=4)
    values = truth if direction == "optimal" else -truth
    assert found["optima"] == brute_optima(values) > 1
    assert found["additive_r2"] == pytest.approx(
        brute_r2(truth.astype(float)), abs=1e-5
    )
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
    # so that the noise is felt
    assert max(ranks) > 1 and found["gradient_spearman"] < 0.9
