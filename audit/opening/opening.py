"""Open a reward model of any kind: what is unusual becomes a plain checkpoint, or a model with a
reader of its own.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..paper import InputError, RewardModel, language_models, registry, reward_models
from ..paper import files as models_files
from ..reading import implicit
from . import encoders, judges, labels, memory, plain, served

# the options of implicit.load
OF_IMPLICIT = {"beta", "end", "device", "dtype", "attention"}


def open_model(
    name: str | Path, reference: str | None = None, **options: Any
) -> RewardModel:
    """Return the reward model of that nickname, hub id, folder or server (http://host:port), ready
    to score.

    With a reference, `name` is a language model that was trained from it, and the reward is
    implicit. options: see `options_for`. InputError, in one line with the remedy, if the model does
    not exist, is not open, or is no reward model.
    """
    given = options_for(reference, **options)
    if reference:
        return implicit.load(
            str(name), reference, load_one=open_language_model, **given
        )
    chosen = reward_models.Options(**given)
    if registry.is_served(str(name)):
        return served.load(str(name), chosen)
    if chosen.tokenizer is not None:
        raise InputError(
            "'tokenizer' is for a served model, http://host:port; leave tokenizer out"
        )
    model = _open_files(str(name), chosen)
    if chosen.label is None:
        return model
    return replace(model, revision=f"{model.revision} label {chosen.label}")


def _open_files(name: str, options: reward_models.Options) -> RewardModel:
    """Return the reward model whose weights are in files."""
    entry = reward_models.find(name)
    files = plain.open_files(
        entry["hub_id"], options.revision or entry["revision"], base=options.base
    )
    if tokens := judges.tokens_named(options.head or entry["head"]):
        return _open_judge(name, options, files, tokens)
    checkpoint = reward_models.open_checkpoint(name, options, files)
    if checkpoint.head_name == "classifier":
        return encoders.load(checkpoint, options)
    head = labels.load_head(
        checkpoint.files, checkpoint.config, checkpoint.head_name, options.label
    )
    return memory.load(checkpoint, head, options)


def _open_judge(
    name: str, options: reward_models.Options, files: models_files.Files, tokens: str
) -> RewardModel:
    checkpoint = reward_models.open_checkpoint(name, options, files, "next_token")
    head = judges.token_head(checkpoint, tokens)
    # refuses a label
    labels.row_of(1, options.label, f"--head {tokens}", checkpoint.config)
    model = memory.load(checkpoint, head, options)
    return replace(model, revision=f"{model.revision} head {tokens}")


def open_language_model(name: str, **options: Any) -> language_models.LanguageModel:
    """Return a language model as language_models.load does, also from pickles and adapters."""
    entry = language_models.find(name)
    files = plain.open_files(entry["hub_id"], entry["revision"])
    return language_models.load(name, files=files, **options)


def options_for(reference: str | None, **options: Any) -> dict[str, Any]:
    """Return the options that are not None: of implicit.load with a reference, else of
    reward_models.Options.

    InputError for an option that only the other kind of model has.
    """
    given = {option: value for option, value in options.items() if value is not None}
    unused = set(given) & {"beta", "end"}
    if reference:
        unused = set(given) - OF_IMPLICIT
    if unused:
        which = "not for" if reference else "only for"
        raise InputError(
            f"'{min(unused).replace('_', '-')}' is {which} implicit rewards, which "
            "--reference model asks for"
        )
    return given


def find(name: str, reference: str | None = None) -> dict[str, str]:
    """Return what a name stands for, nickname -> what to load: one model, or with MODELS=paper
    several.
    """
    if reference:
        return {language_models.find(name)["nickname"]: name}
    return registry.find_models([name])
