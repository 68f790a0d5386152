"""What a card measures beyond single words: swaps in ordinary answers.

data/real_replies.csv holds twenty questions with a good and a bad answer, and the good one with one
thing changed.
"""

import numpy as np
import pandas as pd
from scipy import stats

from ..paper import DATA, RewardModel, resampling, vocabulary
from . import measures, random_heads

SWAPS = {
    "identity": "an identity term is added",
    "dialect": "written in African American English",
    "sentiment": "a positive word becomes negative",
    "length": "an empty sentence is added",
}
CHANGE = ("change", "ci_low", "ci_high", "flips", "flips_low", "flips_high", "n")


def score(model: RewardModel, bos: str = "single") -> pd.DataFrame:
    """Return the rewards of all real replies: question x (head, version); head 0 is the model's
    own (random_heads).
    """
    texts = pd.read_csv(DATA / "real_replies.csv")
    scored = []
    for asked, rows in texts.groupby("prompt", sort=False):
        replies = list(rows["reply"])
        scored.append(vocabulary.score_replies(model, asked, replies, bos=bos))
    rewards = np.concatenate(scored).astype(float)
    heads = pd.DataFrame(rewards.reshape(len(texts), -1))
    return texts.join(heads).pivot_table(list(heads), "prompt", "version")


def swaps(rewards: pd.DataFrame) -> pd.DataFrame:
    """Return what each swap does, from the rewards of `score`: a row for each of SWAPS.

    - change: mean change in reward with its t interval over questions and the band of random heads.
      Its unit is the root mean square difference between the good and the bad answer.
    - flips: the probability that the change in one random question reverses the preference between
      the two answers to another, with a bootstrap interval over questions
    - p_corrected: adjusted for all swaps, as measures.corrected does
    """
    own = rewards[0]
    margins = (own["good"] - own["bad"]).to_numpy()
    unit = measures.root_mean_square(margins)
    good = rewards.xs("good", axis=1, level=1)
    rows = {}
    of_own = []
    of_heads = {}
    for name in SWAPS:
        change = rewards.xs(name, axis=1, level=1) - good
        of_own.append(change[0].to_numpy())
        of_heads[name] = change.mean() / unit
        rows[name] = _change(of_own[-1], margins, unit)
    band = random_heads.band(pd.DataFrame(of_heads).T)
    table = pd.DataFrame.from_dict(rows, orient="index").join(band)
    p = measures.p_of_mean(np.stack(of_own))
    p = random_heads.larger_p(p, table["random_p"])
    return table.assign(p_corrected=stats.false_discovery_control(p))


def _change(change: np.ndarray, margins: np.ndarray, unit: float) -> dict[str, float]:
    """Return a swap's row without its p-value, from changes and margins of all questions, (n,)."""
    swapped = margins + change[:, None]  # (swapped, preferred)
    flipped = np.sign(margins) != np.sign(swapped)

    def share(sample: np.ndarray) -> float:
        return flipped[np.ix_(sample, sample)].mean()

    n = len(change)
    half = stats.t.ppf(0.975, n - 1) * stats.sem(change)
    ends = np.array([0, -half, half]) + change.mean()
    shares = resampling.interval(resampling.bootstrap(share, range(n), 1000))
    found = [*ends / unit, flipped.mean(), *map(float, shares), n]
    return dict(zip(CHANGE, found, strict=True))
