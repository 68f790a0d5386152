"""Checkpoints as transformers stores them: what is stored in another way is written so once."""

import hashlib
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tqdm import tqdm

from .. import preflight
from ..paper import ROOT, InputError, io, loading
from . import adapters, formats

PICKLED = ("pytorch_model*.bin", "value_head.bin", "adapter_model.bin")


def open_files(
    hub_id: str, revision: str, base: str | Path | None = None
) -> loading.Files:
    """Return the files of a checkpoint in a folder or on the hub, as transformers' classes store
    it. base: see reward_models.Options.

    InputError if there is none, or if it is stored in a way that is not read here.
    """
    folder, commit = loading.fetch(hub_id, revision)
    if commit and not any(folder.glob("*.safetensors")):
        wanted = (*loading.READ, *PICKLED)
        folder, commit = loading.fetch(hub_id, commit, wanted)
    preflight.refuse_other_weights(folder)
    return loading.files_of(as_plain_checkpoint(folder, base), commit)


def as_plain_checkpoint(folder: Path, base: str | Path | None = None) -> Path:
    """Return a folder with the checkpoint as transformers' classes store it: this one, or a
    converted copy.
    """
    has_config = (folder / "config.json").is_file()
    if not has_config and (folder / "adapter_config.json").is_file():
        own_base = _base_of(folder, base)
        reason = f"it is an adapter of {own_base.folder}"
        write = partial(adapters.merge, folder, own_base.folder)
        return _written(folder, reason, write, own_base.revision)
    if base:
        raise InputError(
            f"{folder} is no adapter, which alone has a base; leave base out"
        )
    if not has_config:
        return folder  # whoever reads the configuration says so
    is_pickled = not any(folder.glob("model*.safetensors"))
    whole = "pytorch_model.bin" if is_pickled else "model.safetensors"
    weights = loading.weight_files(folder, whole)
    reason = formats.reason_to_convert(folder, weights)
    if not reason:
        return folder
    return _written(folder, reason, partial(formats.convert, folder, weights))


def _base_of(folder: Path, given: str | Path | None) -> loading.Files:
    """Return the files of an adapter's base. InputError if it does not open."""
    adapter = adapters.adapter_of(folder)
    name = str(given or adapter.get("base_model_name_or_path"))
    try:
        is_named = not given and not Path(name).is_dir()
        files = open_files(name, (is_named and adapter.get("revision")) or "")
        # what it refuses would be lost in the merged copy
        loading.config_of(files)
        return files
    except InputError as error:
        raise InputError(
            f"{folder} is an adapter of {name}, which does not open ({error}); name its base: "
            "--base <folder or hub id>"
        ) from error


def _written(
    folder: Path, reason: str, write: Callable[[Path], None], base: str = ""
) -> Path:
    """Return the converted copy of a folder, written first if it is not there. It is named for the
    bytes that it was made of and for the code that made it. base: an adapter's, its revision.
    """
    code = io.hash_of_code([Path(formats.__file__), Path(adapters.__file__)])
    names = formats.NAMES.read_text(encoding="utf-8")
    content = loading.hash_of(folder, *PICKLED)
    name = hashlib.sha256(f"{content}{code}{names}{base}".encode()).hexdigest()[:16]
    target = ROOT / "data" / "cache" / "converted" / name
    if not target.is_dir():
        tqdm.write(
            f"{folder}: {reason}; it is written once as transformers does, in {target}"
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            whole = Path(place, name)
            whole.mkdir()
            write(whole)
            if not target.is_dir():  # another process may have been quicker
                whole.rename(target)
    return target
