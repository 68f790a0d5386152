"""Open a reward model of any kind: what is unusual becomes a plain checkpoint, or a model with a
reader of its own.
"""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..paper import (
    InputError,
    RewardModel,
    heads,
    language_models,
    loading,
    registry,
    reward_models,
)
from ..preflight import (
    refuse_foreign,
    refuse_headless,
    refuse_tokens_without_rows,
    refuse_two_outputs,
)
from ..reading import by_layer, implicit, layers
from . import encoders, judges, labels, plain, served
from .options import Options

# the options of implicit.load
OF_IMPLICIT = {"beta", "device", "dtype", "attention"}


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
    chosen = Options(**given)
    if registry.is_served(str(name)):
        return served.load(str(name), chosen)
    return _open_files(str(name), chosen)


def _open_files(name: str, options: Options) -> RewardModel:
    """Return the reward model whose weights are in files."""
    if options.tokenizer is not None:
        raise InputError("'tokenizer' is for a served model; leave tokenizer out")
    entry = reward_models.find(name)
    revision = options.revision or entry["revision"]
    files = plain.open_files(entry["hub_id"], revision, options.base)
    refuse_foreign(files)
    head = options.head or entry["head"]
    if not head:
        refuse_headless(files)
    tokens = judges.tokens_named(head)
    checkpoint = reward_models.open_checkpoint(
        name, options, files, "next_token" if tokens else ""
    )
    refuse_tokens_without_rows(checkpoint.tokenizer, checkpoint.config)
    if checkpoint.head_name == "classifier":
        layers.are_wanted(options.stream, checkpoint)  # refuses to stream an encoder
        model = encoders.load(checkpoint, options)
    elif tokens:
        labels.row_of(1, options.label, f"--head {tokens}", checkpoint.config)
        model = _in_memory(checkpoint, judges.token_head(checkpoint, tokens), options)
        model = replace(model, revision=f"{model.revision} head {tokens}")
    else:
        own = (checkpoint.files, checkpoint.config, checkpoint.head_name)
        head = labels.load_head(*own, options.label)
        model = _in_memory(checkpoint, head, options)
    if options.label is None:
        return model
    return replace(model, revision=f"{model.revision} label {options.label}")


def _in_memory(
    checkpoint: reward_models.Checkpoint,
    head: heads.Head,
    options: Options,
) -> RewardModel:
    """Return the reward model of a decoder, with its weights in memory, or in their files to be
    read layer by layer.
    """
    if layers.are_wanted(options.stream, checkpoint):
        skeleton, in_files = layers.open_layers(checkpoint)
        return reward_models.complete(
            checkpoint, skeleton, head, layers=in_files, reader=by_layer.LayerByLayer
        )
    backbone = loading.load_backbone(checkpoint)
    return reward_models.complete(checkpoint, backbone, head)


def open_language_model(name: str, **options: Any) -> language_models.LanguageModel:
    """Return a language model as language_models.load does, also from pickles and adapters."""
    entry = language_models.find(name)
    files = plain.open_files(entry["hub_id"], entry["revision"])
    refuse_two_outputs(files)
    return language_models.load(name, files=files, **options)


def options_for(reference: str | None, **options: Any) -> dict[str, Any]:
    """Return the options that are not None: of implicit.load with a reference, else of
    Options.

    InputError for an option that only the other kind of model has.
    """
    given = {option: value for option, value in options.items() if value is not None}
    known = OF_IMPLICIT if reference else {field.name for field in fields(Options)}
    if unused := given.keys() - known:
        how = "with" if reference else "without"
        raise InputError(
            f"'{min(unused)}' is no option {how} --reference model (implicit rewards); use "
            + ", ".join(sorted(known))
        )
    return given


def find(name: str, reference: str | None = None) -> dict[str, str]:
    """Return what a name stands for, nickname -> what to load: one model, or with MODELS=paper
    several.
    """
    if reference:
        return {language_models.find(name)["nickname"]: name}
    return registry.find_models([name])
