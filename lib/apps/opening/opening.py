"""Open a reward model of any kind: a checkpoint, a served address, or a language model beside its
reference.
"""

from pathlib import Path
from typing import Any

from ... import InputError
from ...models import language_models, reward_models
from ...models.reward_models import RewardModel
from ...scoring import implicit
from ...tables import registry

OF_IMPLICIT = {"beta", "end", "device", "dtype", "attention"}  # the options of implicit.load


def open_model(name: str | Path, reference: str | None = None, **options: Any) -> RewardModel:
    """Return the reward model of that nickname, hub id, folder or server (http://host:port), ready
    to score.

    With a reference, `name` is a language model that was trained from it, and the reward is
    implicit. options: see `options_for`. InputError, in one line with the remedy, if the model does
    not exist, is not open, or is no reward model.
    """
    given = options_for(reference, **options)
    if reference:
        return implicit.load(str(name), reference, **given)
    return reward_models.load(name, **given)


def options_for(reference: str | None, **options: Any) -> dict[str, Any]:
    """Return the options that are not None: of implicit.load with a reference, else of
    reward_models.Options.

    InputError for an option that only the other kind of model has.
    """
    given = {option: value for option, value in options.items() if value is not None}
    unused = set(given) - OF_IMPLICIT if reference else set(given) & {"beta", "end"}
    if unused:
        which = "not for" if reference else "only for"
        raise InputError(
            f"'{min(unused).replace('_', '-')}' is {which} implicit rewards, which REFERENCE=model "
            "asks for"
        )
    return given


def find(name: str, reference: str | None = None) -> dict[str, str]:
    """Return what a name stands for, nickname -> what to load: one model, or with MODELS=paper
    several.
    """
    if reference:
        return {language_models.find(name)["nickname"]: name}
    return registry.find_models([name])
