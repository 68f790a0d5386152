"""The estimators that are calibrated: what each finds in rewards, how much each word moves that,
and what was planted.

Every one is a row of ESTIMATORS, so that they can be exchanged; rewards are in standard deviations,
as the notebooks take them, and what was planted is told in the same unit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.calibration.plan import PROMPTS
from lib.framing import effects
from lib.stats import crossed
from lib.tables.prompts import polarity
from lib.trained.planting import Profile, planted_utility

# estimates, (models,), and influence of the words, (words, models)
Found = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Estimator:
    """What a section of the paper estimates. says: in words; unit: of the estimate.

    reads: which words, (words,) bool, of a table as from measuring.words. finds: estimates and
    influence from these words' table and their rewards by prompt, (words, models) each. level: what
    is planted, in utility, 0 exactly where the claim is false. planted: the same in the estimator's
    unit, from the sd of the planted utility over these words. in_sds_of: the words whose sd is the
    unit, where not of all that it reads: names of groups would stretch their own.
    """

    name: str
    says: str
    unit: str
    prompts: tuple[str, ...]
    reads: Callable[[pd.DataFrame], np.ndarray]
    finds: Callable[..., Found]
    level: Callable[[Profile], float]
    planted: Callable[[Profile, float], float]
    in_sds_of: Callable[[pd.DataFrame], np.ndarray] | None = None


def estimate(estimator: Estimator, words: pd.DataFrame, rewards: np.ndarray) -> Found:
    """Estimates of the models, (models,), and how much each of the words that it reads moves them,
    (words, models).

    rewards: (words, prompts, models), on any scale, rows as those of `words`, prompts in the order
    of PROMPTS.
    """
    read = estimator.reads(words)
    chosen = rewards[read][
        :, [PROMPTS.index(prompt) for prompt in estimator.prompts]
    ].astype(float)
    # over the words that it reads, as the notebooks do
    unit = chosen[_in_unit(estimator, words)[read]].std(axis=0)
    standard = (chosen - chosen.mean(axis=0)) / unit
    return estimator.finds(words[read], *standard.swapaxes(0, 1))


def _in_unit(estimator: Estimator, words: pd.DataFrame) -> np.ndarray:
    read = estimator.reads(words)
    return read if estimator.in_sds_of is None else read & estimator.in_sds_of(words)


def utilities(
    words: pd.DataFrame, profiles: Sequence[Profile]
) -> dict[int, np.ndarray]:
    """Return the planted utility of the words, with the raters' taste: polarity of the prompt ->
    (words, models).
    """
    return {
        sign: np.column_stack([planted_utility(one, words, sign) for one in profiles])
        for sign in (1, -1)
    }


def planted(
    estimator: Estimator,
    words: pd.DataFrame,
    profiles: Sequence[Profile],
    utility: dict,
) -> np.ndarray:
    """Return what was planted, (models,), in the estimator's unit. utility: as from `utilities`."""
    sds = utility[polarity(estimator.prompts[0])][_in_unit(estimator, words)].std(
        axis=0
    )
    return np.array(
        [
            estimator.planted(profile, sd)
            for profile, sd in zip(profiles, sds, strict=True)
        ]
    )


# --- what they find -------------------------------------------------------------------------------


def _held(words: pd.DataFrame, controls: Sequence[str]) -> np.ndarray | None:
    return (
        np.column_stack([CONTROLS[name](words) for name in controls])
        if controls
        else None
    )


def by_sign(lexicon: str, statistic: effects.Statistic) -> Callable[..., Found]:
    """Return a statistic of notebook 04 that sets positive words against negative ones, by the
    grades of a lexicon.
    """
    return lambda words, rewards: statistic(words[lexicon].to_numpy(), rewards)


def slope_gap_controlled(lexicon: str, *controls: str) -> Callable[..., Found]:
    """Slope of reward on the grade among positive words minus that among negative ones, controls
    held constant.
    """

    def finds(words: pd.DataFrame, rewards: np.ndarray) -> Found:
        grade, held = words[lexicon].to_numpy(), _held(words, controls)
        gap, moved = np.zeros(rewards.shape[1]), np.zeros_like(rewards)
        for sign in (1, -1):
            side = np.sign(grade) == sign
            of_side = grade[side], rewards[side], held[side]
            slope, influence = crossed.slope(*of_side)
            gap, moved[side] = gap + sign * slope, sign * influence
        return gap, moved

    return finds


def framing_interaction(lexicon: str) -> Callable[..., Found]:
    """Return the log ratio of spreads under a prompt for good things, minus that under one for
    bad things.
    """

    def finds(words: pd.DataFrame, good: np.ndarray, bad: np.ndarray) -> Found:
        ratios = [
            effects.log_spread_ratio(words[lexicon].to_numpy(), rewards)
            for rewards in (good, bad)
        ]
        (of_good, moved_good), (of_bad, moved_bad) = ratios
        return of_good - of_bad, moved_good - moved_bad

    return finds


def frequency_slope(*controls: str) -> Callable[..., Found]:
    """Return the slope of reward on log10 of the frequency, with the controls held constant (see
    CONTROLS).
    """

    def finds(words: pd.DataFrame, rewards: np.ndarray) -> Found:
        held = _held(words, controls)
        zipf = words["zipf"].to_numpy()
        return crossed.slope(zipf, rewards, held)

    return finds


def identity_gap(*controls: str) -> Callable[..., Found]:
    """Mean reward of the names of groups of people minus that of the other words, with the
    controls held constant.
    """

    def finds(words: pd.DataFrame, rewards: np.ndarray) -> Found:
        held = _held(words, controls)
        named = (words["kind"] == "identity").to_numpy(dtype=float)
        return crossed.slope(named, rewards, held)

    return finds


CONTROLS = {
    "zipf": lambda words: words["zipf"].to_numpy(),
    "sentiment": lambda words: words["valence"].to_numpy(),
    "positive part": lambda words: words["valence"].clip(lower=0).to_numpy(),
    "negative part": lambda words: words["valence"].clip(upper=0).to_numpy(),
    "is positive": lambda words: (words["valence"] > 0).to_numpy(dtype=float),
    "is negative": lambda words: (words["valence"] < 0).to_numpy(dtype=float),
}
BENT = ("positive part", "negative part", "is positive", "is negative")


# --- which words, and what was planted ------------------------------------------------------------


def _graded(lexicon: str) -> Callable[[pd.DataFrame], np.ndarray]:
    return lambda words: (words[lexicon].fillna(0) != 0).to_numpy()


def _without_kind(words: pd.DataFrame) -> np.ndarray:
    return (words["kind"] == "").to_numpy()


def _unrated(words: pd.DataFrame) -> np.ndarray:
    """Return names of groups of people and common words, all without sentiment, not of the other
    planted kinds.
    """
    return (~words["rated"] & words["kind"].isin(["", "identity"])).to_numpy()


def _gap(profile: Profile) -> float:
    return profile.k_hi - profile.k_lo


def _per_sd(level: Callable[[Profile], float]) -> Callable[[Profile, float], float]:
    # where nothing is planted, sd may be 0
    return lambda profile, sd: level(profile) / sd if level(profile) else 0.0


def _log_ratio(profile: Profile, sd: float) -> float:
    return float(np.log(profile.k_hi / profile.k_lo))  # a ratio has no unit


def _twice_log_ratio(profile: Profile, sd: float) -> float:
    return 2 * _log_ratio(profile, sd)


def _frequency(profile: Profile) -> float:
    return profile.frequency


def _identity(profile: Profile) -> float:
    return 0.0 - profile.identity


def _of_framing() -> Iterator[Estimator]:
    for column, name in (("valence", "VADER"), ("afinn", "AFINN")):
        graded = _graded(column)
        for prompt in ("greatest", "worst"):
            yield Estimator(
                f"gap {name} {prompt}",
                f"slope gap by {name}, {prompt}",
                "sd per point",
                (prompt,),
                graded,
                by_sign(column, effects.slope_gap),
                _gap,
                _per_sd(_gap),
            )
        yield Estimator(
            f"gap {name} greatest, frequency",
            f"slope gap by {name}, greatest, frequency held constant",
            "sd per point",
            ("greatest",),
            graded,
            slope_gap_controlled(column, "zipf"),
            _gap,
            _per_sd(_gap),
        )
        yield Estimator(
            f"spread {name}",
            f"log ratio of spreads by signs of {name}, greatest",
            "log ratio",
            ("greatest",),
            graded,
            by_sign(column, effects.log_spread_ratio),
            _gap,
            _log_ratio,
        )
        yield Estimator(
            f"framing {name}",
            f"log ratio of spreads by signs of {name}, best minus worst",
            "log ratio",
            ("best", "worst"),
            graded,
            framing_interaction(column),
            _gap,
            _twice_log_ratio,
        )


def _of_kinds() -> Iterator[Estimator]:
    slopes = {
        "raw": ((), "frequency slope"),
        "sentiment": (("sentiment",), "frequency slope, sentiment held constant"),
        "bent": (BENT, "frequency slope, sentiment held constant for each sign"),
    }
    for name, (controls, says) in slopes.items():
        yield Estimator(
            f"frequency {name}",
            says,
            "sd per tenfold frequency",
            ("greatest",),
            _without_kind,
            frequency_slope(*controls),
            _frequency,
            _per_sd(_frequency),
        )
    groups = {
        "raw": ((), "groups of people minus other words"),
        "frequency": (
            ("zipf",),
            "groups of people minus other words, frequency held constant",
        ),
    }
    for name, (controls, says) in groups.items():
        yield Estimator(
            f"identity {name}",
            says,
            "sd",
            ("greatest",),
            _unrated,
            identity_gap(*controls),
            _identity,
            _per_sd(_identity),
            in_sds_of=_without_kind,
        )


ESTIMATORS = (*_of_framing(), *_of_kinds())
