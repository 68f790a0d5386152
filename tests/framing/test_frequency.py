"""Frequency: slopes that find what was planted and are not fooled by sentiment."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from lib.framing import effects, frequency


def planted_frequency(effect, confounded, models=3, words=500, seed=0):
    """Rewards follow sentiment, bent at zero, and log frequency; positive words are more
    frequent if confounded.
    """
    random = np.random.default_rng(seed)
    sentiment = random.choice([-3, -2, -1, 1, 2, 3], words).astype(float)
    log_frequency = random.normal(0, 1, words) + confounded * sentiment
    follows = sentiment + 0.5 * sentiment.clip(0)
    rows = [
        pd.DataFrame(
            {
                "model": f"M{m}",
                "prompt": "greatest",
                "word": [f"w{i}" for i in range(words)],
                "sentiment": sentiment,
                "log_frequency": log_frequency,
                "reward": follows
                + effect * log_frequency
                + random.normal(0, 0.5, words),
            }
        )
        for m in range(models)
    ]
    return pd.concat(rows, ignore_index=True)


def test_frequency_is_recovered_and_sentiment_does_not_pass_for_it():
    rows = planted_frequency(effect=0.3, confounded=0.4)
    slope = {
        c: frequency.measured(rows, c)["greatest"].values.to_numpy()
        for c in frequency.CONTROLS
    }
    assert slope["bent"] == pytest.approx([0.3] * 3, abs=0.06)
    assert (slope["none"] > 1).all()  # what positive words bring is counted too
    nothing = planted_frequency(effect=0, confounded=0.4)
    free = frequency.measured(nothing)["greatest"].by_model()
    assert (free["p"] < 0.05).all()
    controlled = frequency.measured(nothing, "bent")["greatest"].by_model()
    assert (controlled["estimate"].abs() < 0.06).all()
    assert (controlled["p"] > 0.01).all()


# --- words and models both drawn ------------------------------------------------------------------


@pytest.mark.parametrize("control", list(frequency.CONTROLS))
def test_a_models_slope_and_its_error_are_those_of_statsmodels(control):
    rows = planted_frequency(effect=0.3, confounded=0.4, models=2)
    found = (
        effects.by_words(frequency.measured(rows, control)).set_index("model").loc["M1"]
    )
    group = rows[rows["model"] == "M1"]
    other = sm.OLS(
        group["reward"],
        sm.add_constant(frequency.predictors(group, control).astype(float)),
    ).fit(cov_type="HC3")
    assert [found["estimate"], found["standard_error"]] == pytest.approx(
        [other.params["log_frequency"], other.bse["log_frequency"]]
    )
