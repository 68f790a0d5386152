"""Classifiers with several outputs, of which one, a label, is the reward."""

import re
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedConfig

from .... import InputError
from ....models import checkpoints
from ....models.heads import LAYOUTS, Head, new_head, own_name
from ....models.reward_models import head_of, head_tensors


def row_of(
    outputs: int, label: int | None, what: str, config: PreTrainedConfig
) -> slice:
    """Return which of a head's outputs is the reward. InputError if it does not exist or the
    user has to choose one.

    what: the head, in words.
    """
    architecture = checkpoints.architecture_of(config)
    is_classifier = re.fullmatch("none|.*ForSequenceClassification", architecture)
    if outputs != 1 and not is_classifier:
        raise InputError(
            f"the head has {outputs} outputs ({what}), and a {architecture} is no classifier with "
            "a label that is the reward; score its texts elsewhere (python -m lib.run export)"
        )
    if outputs != 1 and label is None:
        raise InputError(
            f"the head has {outputs} outputs ({what}), and a reward model has one; say which one "
            f"is the reward: --label 0 to --label {outputs - 1}"
        )
    if label is None:
        return slice(None)
    if not 0 <= label < outputs:
        raise InputError(
            f"label {label} is none of the head's {outputs} outputs ({what}), which count from 0"
        )
    return slice(label, label + 1)


def load_head(
    folder: Path,
    keys: dict[str, Path],
    config: PreTrainedConfig,
    head_name: str,
    label: int | None = None,
) -> Head:
    """Return the head whose tensors these files hold, with the output `label` alone if it has
    several. InputError as for reward_models.load_head and row_of.
    """
    tensors = head_tensors(keys, head_name)
    if not LAYOUTS[head_name].is_linear and label is not None:
        raise InputError(
            f"a label is for classifiers with several, and head {head_name} has one; leave label "
            "out"
        )
    if LAYOUTS[head_name].is_linear:
        with checkpoints.built_from(folder):
            keys_of_last = _of_last_layer(tensors, config, head_name)
        for key in keys_of_last:
            tensors[key] = tensors[key][row_of(len(tensors[key]), label, key, config)]
    return head_of(folder, tensors, config, head_name)


def _of_last_layer(
    tensors: dict[str, Tensor], config: PreTrainedConfig, head_name: str
) -> list[str]:
    """Return the names, in the checkpoint, of the weight and bias of a head's last layer, which
    alone may have several rows.
    """
    keys = {own_name(head_name, key): key for key in tensors}
    shapes = {name: tensors[key].shape for name, key in keys.items()}
    own = new_head(head_name, config, shapes).state_dict()
    last = list(own)[-1].rpartition(".")[0]
    both = [
        name
        for name in (f"{last}.weight", f"{last}.bias")
        if name in own and name in keys
    ]
    return [keys[name] for name in both if shapes[name][1:] == own[name].shape[1:]]
