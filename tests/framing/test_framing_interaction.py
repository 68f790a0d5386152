"""The framing interaction by signs: by hand, planted, and where only the scale is bent."""

import numpy as np
import pandas as pd

from lib.framing import effects


def observed(wider, words=400, models=6, seed=0):
    """Rewards of words of both signs; wider: prompt -> how many times as spread its positive
    words are.
    """
    random = np.random.default_rng(seed)
    sentiment = np.where(np.arange(words) < words // 2, 1.0, -1.0)
    frames = []
    for prompt, times in wider.items():
        for m in range(models):
            reward = np.where(sentiment > 0, times, 1) * random.normal(size=words)
            columns = {
                "model": f"M{m}",
                "prompt": prompt,
                "word": [f"w{i}" for i in range(words)],
            }
            frames.append(
                pd.DataFrame(columns | {"sentiment": sentiment, "reward": reward})
            )
    return pd.concat(frames, ignore_index=True)


def interaction_of(rows):
    """The log ratio of spreads under best minus that under worst, as notebook 04 takes it."""
    spreads = effects.measured(rows, effects.log_spread_ratio)
    return spreads["best"] - spreads["worst"]


def test_the_planted_interaction_is_found_and_needs_no_scale():
    rows = observed({"best": 2.0, "worst": 0.5})
    found = interaction_of(rows)
    assert found.mean.ci_low < np.log(4) < found.mean.ci_high and found.mean.ci_low > 1
    scaled = rows.assign(
        reward=5 - 3 * rows["reward"] * np.where(rows["model"] == "M2", 1000, 1)
    )
    pd.testing.assert_frame_equal(interaction_of(scaled).by_model(), found.by_model())


def test_order_alone_shows_no_interaction_where_only_the_scale_is_bent():
    """Signs differ in mean only; a convex scale spreads whichever words are on top."""
    random, words = np.random.default_rng(0), 600
    sentiment = np.repeat([1.0, -1.0], words // 2)
    frames = []
    for side, prompt in ((1, "best"), (-1, "worst")):
        for m in range(8):
            latent = side * 0.8 * sentiment + random.normal(size=words)
            columns = {
                "model": f"M{m}",
                "prompt": prompt,
                "word": [f"w{i}" for i in range(words)],
            }
            frames.append(
                pd.DataFrame(
                    columns | {"sentiment": sentiment, "reward": np.exp(latent)}
                )
            )
    rows = pd.concat(frames)
    # exp stretches what lies higher by 1.6: a factor of 5 on each side
    assert interaction_of(rows).mean.ci_low > 1
    assert abs(interaction_of(effects.normal_scores(rows)).mean.estimate) < 0.1
