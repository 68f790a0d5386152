"""What nodes share: shards of rewards and the inputs that they are of, on any filesystem that pyarrow knows.

Each file shows by itself whether it is whole, and is there whole or not at all: a half one is made again.
"""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from pyarrow import fs

from lib import InputError, shards
from lib.files import replacing
from lib.models.checkpoints import first_line
from lib.models.conversations import Conversation, Ids, Inputs


@dataclass(frozen=True)
class Store:
    """A folder that every node sees. place: its path, or its URI (s3://bucket/folder, gs://..., file:///...)."""

    place: str

    @property
    def is_remote(self) -> bool:
        """Whether it is reached by a URI, and not as a folder of the node."""
        return "://" in self.place

    @cached_property
    def _opened(self) -> tuple[fs.FileSystem, str]:
        try:
            return fs.FileSystem.from_uri(self.place)
        except (ValueError, OSError) as error:
            raise InputError(
                f"{self.place} is no place that pyarrow can open ({first_line(error)}); name a folder that all nodes "
                "share, or a URI as s3://bucket/folder"
            ) from error

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if it is not there."""
        if not self.is_remote:
            file = Path(self.place) / name
            return file.read_bytes() if file.is_file() else None
        system, folder = self._opened
        if system.get_file_info(f"{folder}/{name}").type != fs.FileType.File:
            return None
        with system.open_input_file(f"{folder}/{name}") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file. InputError when there is no room for it, or it cannot be written."""
        if not self.is_remote:
            with replacing(Path(self.place) / name, size=len(content), durable=False) as part:
                part.write_bytes(content)
            return
        system, folder = self._opened
        try:
            system.create_dir(folder, recursive=True)  # object stores have no folders, and make nothing of it
            with system.open_output_stream(f"{folder}/{name}") as file:
                file.write(content)
        except OSError as error:
            raise InputError(
                f"{self.place}/{name} was not written ({first_line(error)}); mend that and run again"
            ) from error

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        if not self.is_remote:
            (Path(self.place) / name).unlink(missing_ok=True)
        elif self.read(name) is not None:
            system, folder = self._opened
            system.delete_file(f"{folder}/{name}")

    def remove(self, prompts: Iterable[str]) -> None:
        """Remove what is kept of these prompts; of a remote folder all that it holds, which is of one table."""
        if not self.is_remote:
            shards.remove(Path(self.place), prompts)
            return
        system, folder = self._opened
        if system.get_file_info(folder).type == fs.FileType.Directory:
            system.delete_dir(folder)


# --- shards -------------------------------------------------------------------------------------------------------


def shard_name(prompt: str, number: int) -> str:
    """What a shard's file is called: as in a run of one process, which goes on from it."""
    return shards.path_of(Path(), prompt, number).name


def read_shard(store: Store, prompt: str, number: int, length: int) -> np.ndarray | None:
    """The rewards of a shard, (length,) float32; None if it is not there, or not whole."""
    content = store.read(shard_name(prompt, number))
    return None if content is None else shards.from_bytes(content, length)


# --- inputs -------------------------------------------------------------------------------------------------------


def write_inputs(store: Store, inputs: Inputs) -> None:
    """Keep the inputs of a prompt, so that they are prepared once, wherever they are scored."""
    content = io.BytesIO()
    (suffixes, suffix_lengths), (reply_ids, reply_lengths) = _flat(inputs.suffixes), _flat(inputs.reply_ids)
    np.savez(
        content,
        conversation=json.dumps(asdict(inputs.conversation)),
        prefix_ids=np.array(inputs.prefix_ids, dtype=np.int32),
        group=inputs.group,
        suffixes=suffixes,
        suffix_lengths=suffix_lengths,
        reply_ids=reply_ids,
        reply_lengths=reply_lengths,
    )
    store.write(_inputs_name(inputs.conversation.prompt), shards.sealed(content.getvalue()))


def read_inputs(store: Store, prompt: str) -> Inputs | None:
    """The inputs of a prompt as they were kept; None if they are not there, or not whole."""
    content = store.read(_inputs_name(prompt))
    if content is None or (saved := shards.unsealed(content)) is None:
        return None
    with np.load(io.BytesIO(saved), allow_pickle=False) as kept:
        about = json.loads(str(kept["conversation"]))
        conversation = Conversation(**{key: tuple(v) if isinstance(v, list) else v for key, v in about.items()})
        suffixes = _ragged(kept["suffixes"], kept["suffix_lengths"])
        reply_ids = _ragged(kept["reply_ids"], kept["reply_lengths"])
        return Inputs(conversation, tuple(kept["prefix_ids"].tolist()), suffixes, reply_ids, kept["group"])


def _inputs_name(prompt: str) -> str:
    return shards.inputs_path_of(Path(), prompt).name


def _flat(rows: Sequence[Ids]) -> tuple[np.ndarray, np.ndarray]:
    """All ids one after the other, and how many of them each row has."""
    return np.array([i for row in rows for i in row], dtype=np.int32), np.array(
        [len(row) for row in rows], dtype=np.int32
    )


def _ragged(flat: np.ndarray, lengths: np.ndarray) -> list[Ids]:
    ids = iter(flat.tolist())
    return [tuple(islice(ids, length)) for length in lengths.tolist()]
