"""Prompts that ask the same in other words: the grid of 54, and wordings as a third random factor."""

import numpy as np
import pandas as pd
import pytest

from lib.claims import claims
from lib.framing import effects, wordings
from lib.framing.claims import wording_claims
from lib.stats import crossed
from lib.tables.prompts import POLARITIES, STYLES, SUPERLATIVES, polarity


def made_up_grid(effect):
    """Observations of four models for all 54 prompts; their gap is effect(adjective, superlative, style) and noise."""
    random = np.random.default_rng(0)
    sentiment = np.repeat([-3.0, -2, -1, 1, 2, 3], 10)
    prompts = ["_".join((a, b, c)) for a in POLARITIES for b in SUPERLATIVES for c in STYLES]
    words = [f"w{i}" for i in range(60)]
    return pd.concat([
        pd.DataFrame({"model": f"M{m}", "prompt": p, "word": words, "sentiment": sentiment,
                      "reward": effect(*p.split("_")) * sentiment.clip(0) + random.normal(0, 0.1, 60)})
        for p in prompts
        for m in range(4)
    ])  # fmt: skip


def test_the_grid_has_54_prompts_and_says_what_they_ask_for():
    found = wordings.over_prompts(made_up_grid(lambda *parts: 1.0))
    assert len(found) == 54 and (found["n_steeper"] == 4).all() and (found["models"] == 4).all()
    assert found["gap"].to_numpy() == pytest.approx(1.0, abs=0.15)
    assert found.groupby("adjective").size().to_dict() == dict.fromkeys(POLARITIES, 9)
    assert found["polarity"].tolist() == [polarity(prompt) for prompt in found["prompt"]]
    assert (found["p_holm"] >= found["p"]).all()
    smallest = found["p"].idxmin()
    assert found.loc[smallest, "p_holm"] == pytest.approx(min(1, 54 * found.loc[smallest, "p"]))  # Holm's first step


def test_what_varies_finds_the_planted_part_only():
    by_style = wordings.over_prompts(made_up_grid(lambda a, b, c: {"one": 0, "single": 1, "please": 2}[c]))
    found = wordings.what_varies(by_style).set_index("part")
    assert found["share"].sum() == pytest.approx(1)
    assert found.loc["style", "share"] > 0.98 and found.loc["style", "p"] < 1e-10
    assert found.loc["superlative", "share"] < 0.01
    assert found["df"].to_dict() == {"adjective": 5, "superlative": 2, "style": 2, "residual": 44}  # 53 in all
    means = by_style.groupby("style")["gap"].mean()
    # Balanced, so a part's sum of squares is 18 times that of its means.
    total = ((by_style["gap"] - by_style["gap"].mean()) ** 2).sum()
    assert found.loc["style", "share"] == pytest.approx(18 * ((means - means.mean()) ** 2).sum() / total)


# --- wordings as a random factor ----------------------------------------------------------------------------------


def measured_of(values, moved):
    """A statistic of models under prompts, and how far words move it; values: (models, prompts)."""
    names = [f"M{i}" for i in range(len(values))]
    prompts = [name for name in ("best", "greatest", "good", "best_world_one", "worst", "bad", "terrible")]
    return {prompt: effects.Measured(pd.Series(values[:, i], names), pd.DataFrame(moved[:, :, i], columns=names))
            for i, prompt in enumerate(prompts)}  # fmt: skip


def test_prompts_for_good_and_for_bad_things_are_two_samples_of_wordings():
    random = np.random.default_rng(0)
    values, moved = random.normal(size=(5, 7)), random.normal(0, 0.01, (40, 5, 7))
    found = wordings.over_wordings(measured_of(values, moved))
    assert found["wordings"].to_dict() == {"good": 4, "bad": 3} and (found["n"] == 40).all()
    assert found.loc["good", "estimate"] == pytest.approx(values[:, :4].mean())
    assert found.loc["bad", "estimate"] == pytest.approx(values[:, 4:].mean())
    shares = found[["words", "models", "prompts", "interactions"]]
    assert shares.sum(axis=1).tolist() == pytest.approx([1, 1]) and (shares["words"] < 0.01).all()


def test_prompts_that_differ_widen_the_interval_and_have_their_share():
    random = np.random.default_rng(1)
    models, moved = random.normal(size=(5, 1)) + np.zeros((5, 7)), np.zeros((40, 5, 7))
    alike = wordings.over_wordings(measured_of(models, moved)).loc["good"]
    both = crossed.crossed(pd.Series(models[:, 0]), pd.DataFrame(moved[:, :, 0]))
    # Prompts that all say the same leave the interval of the two factors words and models.
    assert (alike.ci_low, alike.ci_high) == (pytest.approx(both.ci_low), pytest.approx(both.ci_high))
    assert alike.models == pytest.approx(1)
    apart = wordings.over_wordings(measured_of(models + 3 * random.normal(size=7), moved)).loc["good"]
    assert apart.ci_high - apart.ci_low > 2 * (alike.ci_high - alike.ci_low) and apart.prompts > apart.models / 2


def test_two_wordings_or_one_model_give_no_row():
    values, moved = np.ones((3, 7)), np.zeros((9, 3, 7))
    few = measured_of(values, moved)
    one_good = {name: few[name] for name in ("best", "worst", "bad", "terrible")}
    assert list(wordings.over_wordings(one_good).index) == ["bad"]
    assert wordings.over_wordings(measured_of(values[:1], moved[:, :1])).empty
    assert wording_claims({"gap": wordings.over_wordings({})}) == []


def test_each_mean_is_a_row_with_its_shares():
    random = np.random.default_rng(2)
    table = wordings.over_wordings(measured_of(random.normal(size=(5, 7)), random.normal(0, 0.01, (40, 5, 7))))
    rows = claims.judged(wording_claims({"gap": table})).set_index(["quantity", "prompt"])
    assert len(rows) == 8 and (rows["verdict"] == "not in the paper").all()
    assert rows.loc[("gap", "bad"), "p"] == table.loc["bad", "p"]
    shares = [rows.loc[(f"gap, share of {factor}", "good"), "corrected"] for factor in ("words", "models", "prompts")]
    assert sum(shares) == pytest.approx(1 - table.loc["good", "interactions"])
