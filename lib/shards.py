"""Shards: rewards of a part of the replies, written as they are scored, so that a run that is stopped goes on there."""

import contextlib
import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lib.files import replacing

DIGEST_BYTES = 32  # of the SHA-256 that ends a shard


def split(lengths: Sequence[int], most: int) -> list[list[np.ndarray]]:
    """Shards of at most that many replies, shortest first, each in pieces of one length: their indices.

    lengths: of what is scored for each reply. A shard has several pieces where few replies have one length.
    """
    shards: list[list[np.ndarray]] = []
    room = 0
    for length in np.unique(lengths):
        same = np.flatnonzero(np.asarray(lengths) == length)
        for piece in (same[i : i + most] for i in range(0, len(same), most)):
            if len(piece) > room:
                shards.append([])
                room = most
            shards[-1].append(piece)
            room -= len(piece)
    return shards


def path_of(folder: Path, prompt: str, number: int) -> Path:
    """Where a shard is kept. By a hash of the prompt: its name may be anything, and its text is what is scored."""
    return folder / f"{_prompt_hash(prompt)}-{number:05d}.npy"


def inputs_path_of(folder: Path, prompt: str) -> Path:
    """Where the inputs of a prompt are kept beside its shards, for processes that did not prepare them."""
    return folder / f"{_prompt_hash(prompt)}-inputs.npz"


def write(file: Path, rewards: np.ndarray) -> None:
    """Write the rewards, and after them a digest. InputError when the disk is full or the folder cannot be written."""
    content = to_bytes(rewards)
    with replacing(file, size=len(content), durable=False) as part:  # thousands of them for many prompts, and a digest
        part.write_bytes(content)


def read(file: Path, length: int) -> np.ndarray | None:
    """The rewards that an earlier run finished, (length,) float32; None if there are none, or not what was written.

    The latter is told; they are then to be scored again.
    """
    if not file.exists():
        return None
    rewards = from_bytes(file.read_bytes(), length)
    if rewards is None:
        tqdm.write(f"{file} is damaged, or of another size; its {length} replies are scored again")
    return rewards


def to_bytes(rewards: np.ndarray) -> bytes:
    """The content of a shard's file."""
    content = io.BytesIO()
    np.save(content, rewards)
    return sealed(content.getvalue())


def from_bytes(content: bytes, length: int) -> np.ndarray | None:
    """The rewards in a shard's file, (length,) float32; None if it is not what was written, or of another length."""
    saved = unsealed(content)
    if saved is not None:
        rewards = np.load(io.BytesIO(saved), allow_pickle=False)
        if rewards.shape == (length,) and rewards.dtype == np.float32 and np.isfinite(rewards).all():
            return rewards
    return None


def sealed(content: bytes) -> bytes:
    """The content with its digest behind it, by which it shows whether it is whole."""
    return content + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes | None:
    """What was sealed; None if these bytes are not whole."""
    saved, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    return saved if hashlib.sha256(saved).digest() == digest else None


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
