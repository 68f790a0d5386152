"""Checkpoints as transformers stores them: what is stored in another way is written so once."""

import hashlib
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tqdm import tqdm

from ..paper import ROOT, InputError, io
from ..paper import files as models_files
from ..paper import io as lib_io
from . import adapters, formats


def open_files(
    hub_id: str, revision: str, base: str | Path | None = None
) -> models_files.Files:
    """Return the files of a checkpoint in a folder or on the hub, as transformers' classes store
    it. base: see reward_models.Options.

    InputError if there is none, or if it is stored in a way that is not read here.
    """
    folder, commit = models_files.fetch(hub_id, revision)
    return models_files.files_of(as_plain_checkpoint(folder, base), commit)


def as_plain_checkpoint(folder: Path, base: str | Path | None = None) -> Path:
    """Return a folder with the checkpoint as transformers' classes store it: this one, or a
    converted copy.

    The copy is named for the bytes that it was made of and for the code that made it.
    """
    has_config = (folder / "config.json").is_file()
    if not has_config and (folder / "adapter_config.json").is_file():
        own_base = _base_of(folder, base)
        reason = f"it is an adapter of {own_base.folder}, revision {own_base.revision}"
        target = _target(
            folder, own_base.revision, version("peft"), *io.versions().values()
        )
        return _written(
            target, partial(adapters.merge, folder, own_base.folder), folder, reason
        )
    if base:
        raise InputError(
            f"{folder} is no adapter, which alone has a base; leave base out"
        )
    try:
        files = models_files.weight_files(folder)
        reason = formats.reason_to_convert(folder, files) if has_config else ""
    except InputError:
        # whoever reads the checkpoint says so, after the configuration's faults
        return folder
    if not reason:
        return folder
    return _written(
        _target(folder), partial(formats.convert, folder, files), folder, reason
    )


def _base_of(folder: Path, given: str | Path | None) -> models_files.Files:
    """Return the files of an adapter's base. InputError if it does not open."""
    adapter = adapters.adapter_of(folder)
    name = str(
        given or adapter.get("base_model_name_or_path") or "no model that it names"
    )
    has_revision = not given and not Path(name).is_dir()
    revision = adapter.get("revision") if has_revision else None
    try:
        return open_files(name, revision or "")
    except (InputError, RecursionError) as error:
        why = str(error).partition(";")[0]
        raise InputError(
            f"{folder} is an adapter of {name}, which does not open ({why}); name its base: "
            "--base <folder or hub id>"
        ) from error


def _target(folder: Path, *made_by: str) -> Path:
    """Return where the converted copy of a folder stands. made_by: versions that it depends on."""
    code = lib_io.hash_of_code([Path(formats.__file__), Path(adapters.__file__)])
    names = formats.NAMES.read_text(encoding="utf-8")
    content, _ = models_files.hashed(folder, *models_files.PICKLED)
    key = hashlib.sha256(
        " ".join([content, code, names, *made_by]).encode()
    ).hexdigest()
    return ROOT / "data" / "cache" / "converted" / key[:16]


def _written(
    target: Path, write: Callable[[Path], None], folder: Path, reason: str
) -> Path:
    """Return the target, written first if it is not there."""
    if not (target / "config.json").is_file():
        tqdm.write(
            f"{folder}: {reason}; it is written once as transformers does, in {target}"
        )
        write(target)
    return target
