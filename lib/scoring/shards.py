"""Shards: rewards of a part of the replies, written when they are scored, so that a stopped run can continue."""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .. import InputError
from ..io import replacing

DIGEST_BYTES = 32  # of the SHA-256 that ends a shard


def split(suffixes: Sequence[tuple[int, ...]], most: int) -> list[list[np.ndarray]]:
    """Return shards of at most that many replies, each in pieces of one length: their indices.

    suffixes: the ids that are scored for each reply. Replies that begin alike stand together, and flat trees come
    first.
    """
    longest: dict[int, int] = {}
    for suffix in suffixes:
        longest[suffix[0]] = max(len(suffix), longest.get(suffix[0], 0))
    order = sorted(range(len(suffixes)), key=lambda i: (longest[suffixes[i][0]], suffixes[i]))
    shards = [np.array(order[start : start + most]) for start in range(0, len(order), most)]
    lengths = np.array(list(map(len, suffixes)))
    return [[shard[lengths[shard] == length] for length in np.unique(lengths[shard])] for shard in shards]


def path_of(folder: Path, prompt: str, number: int) -> Path:
    """Return the path of a shard, by a hash of the prompt, since the prompt's name may contain anything."""
    return folder / f"{_prompt_hash(prompt)}-{number:05d}.rewards"


def write(file: Path, array: np.ndarray) -> None:
    """Write an array's numbers, and after them a digest. InputError if the disk is full or the folder not writable."""
    content = array.data.cast("B")
    with replacing(file, size=array.nbytes, durable=False) as part, part.open("wb") as out:  # a digest shows damage
        out.write(content)
        out.write(_digest_of(file, content))


def read(file: Path, array: np.ndarray) -> bool:
    """Fill the array with what an earlier run wrote; return whether it is there, whole and of this size.

    If the file is damaged, print a line. InputError if it cannot be read, for example if it is a folder.
    """
    try:
        with file.open("rb") as shard:
            is_filled = shard.readinto(array.data.cast("B")) == array.nbytes
            digest = shard.read(DIGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}), where a run keeps what it has scored; remove it and run the "
            "same command again"
        ) from error
    is_whole = is_filled and _digest_of(file, array.data.cast("B")) == digest
    if not is_whole:
        tqdm.write(f"{file} is damaged, or of another size; its replies are scored again")
    return is_whole


def _digest_of(file: Path, content: memoryview) -> bytes:
    """Return the digest of a shard's content and of the names of its file and folder.

    These names stand for settings, prompt and number, so a renamed file is not accepted.
    """
    return hashlib.sha256(f"{file.parent.name}/{file.name}\0".encode() + hashlib.sha256(content).digest()).digest()


def remove(folder: Path, prompts: Iterable[str]) -> None:
    """Remove the shards of these prompts and unfinished files of a killed run. Remove the folder once it is empty."""
    done = {_prompt_hash(prompt) for prompt in prompts}
    for file in list(folder.iterdir()) if folder.is_dir() else []:  # once, however many prompts
        if file.name.removeprefix(".").partition("-")[0] in done:
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or holds shards of other prompts
        folder.rmdir()


def _prompt_hash(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]
