"""A model that one card does not hold, laid over several of them by accelerate, layer after layer."""

from collections.abc import Mapping
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import PreTrainedConfig

from lib import memory
from lib.models.layers import WORKING_MEMORY, can_be_read_singly, skeleton_of

Layout = dict[str, int | str]  # part of the backbone -> number of the card that holds it


def layout_for(folder: Path, config: PreTrainedConfig, head_name: str, dtype: str, device: str) -> Layout | None:
    """Which card of this machine holds which part, where the first is too small and all together are not; else None.

    Where accelerate is missing a line says what it would do; the layers are then read one by one (see layers).
    """
    cards = torch.cuda.device_count() if torch.device(device) == torch.device("cuda") else 0
    if cards < 2 or not can_be_read_singly(config, head_name):
        return None
    return layout(folder, config, dtype, {card: memory.free(f"cuda:{card}") - WORKING_MEMORY for card in range(cards)})


def layout(folder: Path, config: PreTrainedConfig, dtype: str, free: Mapping[int, int]) -> Layout | None:
    """As layout_for, on cards that have `free` bytes each for weights."""
    skeleton = skeleton_of(folder, config, dtype)
    needed = skeleton.num_parameters() * getattr(torch, dtype).itemsize
    if needed <= free[0] or needed > sum(free.values()):
        return None
    try:
        from accelerate import infer_auto_device_map
    except ImportError:
        tqdm.write(
            f"{folder}: the weights take {needed / 1e9:.1f} GB, which {len(free)} cards hold together; to use them all "
            "install accelerate (.venv/bin/python -m pip install -c requirements.lock -e '.[cards]')"
        )
        return None
    placed = infer_auto_device_map(
        skeleton, dict(free), no_split_module_classes=skeleton._no_split_modules, dtype=getattr(torch, dtype)
    )
    # A part that found no room is left to the host or the disk, from where it would be copied for every batch.
    return dict(placed) if set(placed.values()) <= set(free) else None
