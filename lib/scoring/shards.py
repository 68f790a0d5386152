"""Shards: rewards of a part of the replies, written as they are scored, so that a run that is stopped goes on there."""

import contextlib
import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .. import InputError
from ..io import replacing

DIGEST_BYTES = 32  # of the SHA-256 that ends a shard


def split(suffixes: Sequence[tuple[int, ...]], most: int) -> list[list[np.ndarray]]:
    """Return shards of at most that many replies, each in pieces of one length: their indices.

    suffixes: what is scored for each reply. Replies that begin alike stand together, those of flat trees first.
    """
    longest: dict[int, int] = {}
    for suffix in suffixes:
        longest[suffix[0]] = max(len(suffix), longest.get(suffix[0], 0))
    order = sorted(range(len(suffixes)), key=lambda i: (longest[suffixes[i][0]], suffixes[i]))
    shards = [np.array(order[start : start + most]) for start in range(0, len(order), most)]
    lengths = np.array(list(map(len, suffixes)))
    return [[shard[lengths[shard] == length] for length in np.unique(lengths[shard])] for shard in shards]


def path_of(folder: Path, prompt: str, number: int) -> Path:
    """Where a shard is kept. By a hash of the prompt: its name may be anything, and its text is what is scored."""
    return folder / f"{_prompt_hash(prompt)}-tree-{number:05d}.npy"  # earlier versions sorted replies otherwise


def write(file: Path, rewards: np.ndarray) -> None:
    """Write the rewards, and after them a digest. InputError when the disk is full or the folder cannot be written."""
    array = io.BytesIO()
    np.save(array, rewards)
    content = array.getvalue() + digest_of(file, array.getvalue())
    with replacing(file, size=len(content), durable=False) as part:  # thousands of them for many prompts, and a digest
        part.write_bytes(content)


def read(file: Path, length: int) -> np.ndarray | None:
    """The rewards that an earlier run finished, (length,) float32; None if there are none, or not what was written.

    The latter is told; they are then to be scored again. InputError for what cannot be read, such as a folder.
    """
    if (shard := open_kept(file)) is None:
        return None
    with shard:
        content = shard.read()
    saved, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if digest_of(file, saved) == digest:
        rewards = np.load(io.BytesIO(saved), allow_pickle=False)
        if rewards.shape == (length,) and rewards.dtype == np.float32 and np.isfinite(rewards).all():
            return rewards
    tqdm.write(f"{file} is damaged, or of another size; its {length} replies are scored again")
    return None


def digest_of(file: Path, content: bytes | memoryview) -> bytes:
    """Return the digest of what is written to a file of shards, and of what it is for: settings, prompt and number.

    These are what the names of the file and of its folder stand for, so that a file that was renamed is not accepted.
    """
    return hashlib.sha256(f"{file.parent.name}/{file.name}\0".encode() + hashlib.sha256(content).digest()).digest()


def open_kept(file: Path) -> io.BufferedReader | None:
    """Return a file of an earlier run, open for reading; None if it is not there. InputError if it cannot be opened."""
    try:
        return file.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}), where a run keeps what it has scored; remove it and run the "
            "same command again"
        ) from error


def remove(folder: Path, prompts: Iterable[str]) -> None:
    """Remove the shards of these prompts, and what a killed run left half written; the folder too, once it is empty."""
    done = {_prompt_hash(prompt) for prompt in prompts}
    for file in list(folder.iterdir()) if folder.is_dir() else []:  # once, however many prompts
        if file.name.removeprefix(".").partition("-")[0] in done:
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or holds shards of other prompts
        folder.rmdir()


def _prompt_hash(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]
