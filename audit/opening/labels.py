"""Classifiers with several outputs, of which one, a label, is the reward."""

import re

from transformers import PreTrainedConfig

from ..paper import InputError, heads, loading


def named(label: int, config: PreTrainedConfig) -> str:
    """Return a label with the name that config.json gives it, such as `1 (helpfulness)`."""
    name = (config.id2label or {}).get(label, "")
    return str(label) if name in ("", f"LABEL_{label}") else f"{label} ({name})"


def row_of(
    outputs: int, label: int | None, what: str, config: PreTrainedConfig
) -> slice:
    """Return which of a head's outputs is the reward. InputError if it does not exist or the
    user has to choose one.

    what: the head, in words.
    """
    if outputs == 1 and not label:
        return slice(None)
    architecture = loading.architecture_of(config)
    if outputs > 1 and architecture.endswith("ForTokenClassification"):
        raise InputError(
            f"this {architecture} gives each token {outputs} labels ({what}), as TRL's PRMTrainer "
            "trains it, and where a step ends is not known here; score its texts elsewhere "
            "(python -m audit export)"
        )
    is_classifier = re.fullmatch("none|.*ForSequenceClassification", architecture)
    names = [named(number, config) for number in range(outputs)]
    if label is None or not is_classifier or not 0 <= label < outputs:
        raise InputError(
            f"the head of this {architecture} has {outputs} outputs ({what}); of a classifier say "
            f"which one is the reward, --label {' or '.join(names)}; if none is, score its texts "
            "elsewhere (python -m audit export)"
        )
    return slice(label, label + 1)


def load_head(
    files: loading.Files,
    config: PreTrainedConfig,
    head_name: str,
    label: int | None = None,
) -> heads.Head:
    """Return a checkpoint's head with its weights, in fp32, with the output `label` alone if it has
    several. InputError as for reward_models.load and row_of.
    """
    tensors = heads.head_tensors(files, config)
    if head_name == "linear":
        # the last layer alone may have several outputs
        last = max(tensors, key=lambda name: (len(name), name)).rpartition(".")[0]
        for name in tensors.keys() & {f"{last}.weight", f"{last}.bias"}:
            rows = row_of(len(tensors[name]), label, name, config)
            tensors[name] = tensors[name][rows]
    else:
        row_of(1, label, head_name, config)  # refuses a label
    return heads.load_head(head_name, config, tensors)
