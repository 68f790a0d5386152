"""Classifiers with several outputs, of which one, a label, is the reward."""

import re

from torch import Tensor
from transformers import PreTrainedConfig

from ..paper import InputError, checkpoints, heads
from ..paper import files as models_files


def row_of(
    outputs: int, label: int | None, what: str, config: PreTrainedConfig
) -> slice:
    """Return which of a head's outputs is the reward. InputError if it does not exist or the
    user has to choose one.

    what: the head, in words.
    """
    architecture = checkpoints.architecture_of(config)
    is_classifier = re.fullmatch("none|.*ForSequenceClassification", architecture)
    given = f"{outputs} outputs ({what})"
    problem = ""
    if outputs != 1 and not is_classifier:
        problem = (
            f"the head has {given}, and a {architecture} is no classifier with a label that is the "
            "reward; score its texts elsewhere (python -m audit export)"
        )
    elif outputs != 1 and label is None:
        problem = (
            f"the head has {given}, and a reward model has one; say which one is the reward: "
            f"--label 0 to --label {outputs - 1}"
        )
    elif label is not None and not 0 <= label < outputs:
        problem = f"label {label} is none of the head's {given}, which count from 0"
    if problem:
        raise InputError(problem)
    if label is None:
        return slice(None)
    return slice(label, label + 1)


def load_head(
    files: models_files.Files,
    config: PreTrainedConfig,
    head_name: str,
    label: int | None = None,
) -> heads.Head:
    """Return a checkpoint's head with its weights, in fp32, with the output `label` alone if it has
    several. InputError as for reward_models.load and row_of.
    """
    head, names, report = heads.empty_head(head_name, config, files.tensors)
    tensors = files.read_tensors(names)
    if heads.LAYOUTS[head_name].is_linear:
        for name in _of_last_layer(head, tensors):
            outputs = len(tensors[name])
            rows = row_of(outputs, label, names[name], config)
            tensors[name] = tensors[name][rows]
            report["mismatched_keys"].discard(names[name])
    elif label is not None:
        raise InputError(
            f"a label is for classifiers with several, and head {head_name} has one; leave label "
            "out"
        )
    checkpoints.refuse_unloaded(files.folder, report, head_name=head_name)
    head.load_state_dict(tensors, strict=False)
    return head


def _of_last_layer(head: heads.Head, tensors: dict[str, Tensor]) -> list[str]:
    """Return the names of the weight and bias of a head's last layer, which alone may have several
    rows in its checkpoint.
    """
    own = head.state_dict()
    last = list(own)[-1].rpartition(".")[0]
    return [
        name
        for name in (f"{last}.weight", f"{last}.bias")
        if name in own
        and name in tensors
        and tensors[name].shape[1:] == own[name].shape[1:]
    ]
