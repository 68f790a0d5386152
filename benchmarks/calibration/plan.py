"""The plan of the calibration: which values are planted in which model. Every eight models in a row
are balanced.

A model of the plan has raters, a taste and a seed of its own; what the plan varies are the framing
of sentiment, the weight of frequency, the penalty on groups of people, and the base. Two controls
are trained with several seeds each.
"""

from dataclasses import dataclass, replace

import numpy as np

from lib.trained.planting import Profile, profile

MODELS = 400  # of the whole plan
SEEDS = 5  # of each control
HIDDEN = 48  # the narrowest of the ten shipped models, and the quickest to train
PROMPTS = ("greatest", "best", "worst")  # after which each model scores the words
VERSIONS = {"gem": "2", "lla": "3"}
GAPS = (0.0, 0.25, 0.5, 1.0)  # k_hi - k_lo; the mean of the two slopes is always 1
# Half of the models have nothing planted, so that false positives can be counted.
FREQUENCIES = (0.0, 0.0, 0.0, 0.0, 0.2, 0.2, 0.4, 0.4)
IDENTITIES = (0.0, 0.0, 0.0, 0.0, 1.25, 1.25, 2.5, 2.5)
BLOCK = len(GAPS) * len(VERSIONS)
CONTROLS = ("E-Gem-64", "F-Lla-64")  # nothing but sentiment; as sensitive to both sides


@dataclass(frozen=True)
class Planned:
    """One model to train and measure: its profile, the seed of its weights and preferences, and of
    what it is.

    control: the nickname of the control that it is a seed of, '' for a model of the plan.
    """

    profile: Profile
    seed: int
    control: str = ""

    @property
    def name(self) -> str:
        """Return what it is called in files and tables."""
        return self.profile.nickname


@dataclass(frozen=True)
class Measured:
    """Rewards of the words by one model of the plan: (words, prompts) float32, and how its
    training went.
    """

    planned: Planned
    rewards: np.ndarray
    report: dict


def planned(models: int = MODELS, seeds: int = SEEDS) -> list[Planned]:
    """The controls, so many seeds of each, and then the first models of the plan."""
    return [*_controls(seeds), *_of_the_plan(models)]


def _controls(seeds: int) -> list[Planned]:
    """Models of the controls' raters and taste, as narrow as those of the plan, that differ by
    their seed alone.
    """
    return [
        Planned(
            replace(
                profile(name), nickname=f"{name[:5]}-{HIDDEN}-{seed}", hidden=HIDDEN
            ),
            seed,
            name,
        )
        for name in CONTROLS
        for seed in range(1, seeds + 1)
    ]


def _of_the_plan(models: int) -> list[Planned]:
    rng = np.random.default_rng(0)
    plan = []
    while len(plan) < models:
        cells = [(gap, base) for gap in GAPS for base in VERSIONS]
        levels = zip(
            rng.permutation(BLOCK),
            rng.permutation(FREQUENCIES),
            rng.permutation(IDENTITIES),
            strict=True,
        )
        plan += [
            _model(len(plan) + i, *cells[cell], *weights)
            for i, (cell, *weights) in enumerate(levels)
        ]
    return plan[:models]


def _model(
    number: int, gap: float, base: str, frequency: float, identity: float
) -> Planned:
    name = f"{base}-{number:03d}"
    made_of = {
        "base": base,
        "version": VERSIONS[base],
        "layers": 2,
        "hidden": HIDDEN,
        "head": "linear",
    }
    values = {
        "k_hi": 1 + gap / 2,
        "k_lo": 1 - gap / 2,
        "frequency": float(frequency),
        "identity": float(identity),
    }
    others = {"nature": 1.0, "technology": 1.0, "nonword": 2.5, "label_noise": 0.6}
    return Planned(
        Profile(
            nickname=name,
            developer=f"calibration {number}",
            **made_of,
            **values,
            **others,
        ),
        100 + number,
    )
