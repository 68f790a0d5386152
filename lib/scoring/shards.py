"""Shards: rewards of a part of the replies, written when they are scored, so that a stopped run
can continue.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..io import replacing


def split(suffixes: Sequence[tuple[int, ...]], most: int) -> list[list[np.ndarray]]:
    """Return shards of at most that many replies, each in pieces of one length: their indices.

    suffixes: the ids that are scored for each reply. Replies that begin alike stand together, flat
    trees first.
    """
    lengths = np.array(list(map(len, suffixes)))
    longest: dict[int, int] = {}  # of the replies that have this first token
    for suffix in suffixes:
        first = suffix[0]
        longest[first] = max(len(suffix), longest.get(first, 0))

    def depth_and_ids(number: int) -> tuple[int, tuple[int, ...]]:
        suffix = suffixes[number]
        return longest[suffix[0]], suffix

    numbers = sorted(range(len(suffixes)), key=depth_and_ids)
    order = np.array(numbers)
    parts = []
    for start in range(0, len(order), most):
        shard = order[start : start + most]
        of_shard = lengths[shard]
        pieces = [shard[of_shard == length] for length in np.unique(of_shard)]
        parts.append(pieces)
    return parts


def path_of(folder: Path, prompt: str, number: int) -> Path:
    """Return the path of a shard, by a hash of the prompt, since the prompt's name may contain
    anything.
    """
    return folder / f"{_prompt_hash(prompt)}-{number:05d}.rewards"


def write(file: Path, rewards: np.ndarray) -> None:
    """Write rewards, and after them a digest. InputError if the disk is full or the folder not
    writable.
    """
    content = rewards.tobytes()
    with replacing(file, size=len(content)) as part:
        part.write_bytes(content + _digest_of(file, content))


def read(file: Path, count: int) -> np.ndarray | None:
    """Return the rewards, (count,) float32, that an earlier run wrote; None if they are not
    there or are damaged.
    """
    if not file.is_file():
        return None
    content = file.read_bytes()
    size = count * 4
    kept = content[:size]
    digest = content[size:]
    if len(kept) == size and _digest_of(file, kept) == digest:
        return np.frombuffer(kept, dtype=np.float32)
    tqdm.write(f"{file} is damaged, or of another size; its replies are scored again")
    return None


def _digest_of(file: Path, content: bytes) -> bytes:
    """Return the digest of a shard's content and of its file's and folder's names, which stand
    for what was scored.
    """
    return hashlib.sha256(
        f"{file.parent.name}/{file.name}\0".encode() + content
    ).digest()


def remove(folder: Path, prompts: Iterable[str]) -> None:
    """Remove the shards of these prompts, whole or not, and the folder once it is empty."""
    done = {_prompt_hash(prompt) for prompt in prompts}
    # once, however many prompts
    files = list(folder.iterdir()) if folder.is_dir() else []
    for file in files:
        prompt, _, _ = file.name.removeprefix(".").partition("-")
        if prompt in done:
            file.unlink(missing_ok=True)
    # it is not there, or holds shards of other prompts
    with contextlib.suppress(OSError):
        folder.rmdir()


def _prompt_hash(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]
