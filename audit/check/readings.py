"""Rewards of inputs at every place where another program may read them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import AutoModelForSequenceClassification, PreTrainedConfig

from ..opening import labels, open_model
from ..paper import InputError, RewardModel, display, loading
from .feeds import Feed, Input
from .sources import Cause

Array = np.ndarray
# The largest difference of rewards that sums in another order explain, as a share of the largest
# reward; half precision also rounds the reward itself, to 8 or 11 bits.
TOLERANCES = {"float64": 1e-5, "float32": 5e-5, "float16": 0.0045, "bfloat16": 0.07}
TOKENS = 4096  # of a batch
DELAY = 2  # seconds before a bar is shown
EARLIER = 8  # tokens before the last at which the reward may have been read
READ_AT = "reward read at"  # the row of `check` on places
SAME_TOKEN = "read at the same token"


Place = tuple[Cause, Array]  # and the position in each input, (n,)


@dataclass
class Reader:
    """A model that gives rewards at every position of an input, one for each label; each input
    is read once.
    """

    model: RewardModel
    heads: list[Any]  # of a decoder, one per label; empty for an encoder
    cause: Cause | None = None  # in what its weights differ
    # what becomes of states, (length, d), before the heads read them
    states: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.float
    # whether the heads are tried one by one, in place of one label
    of_any: bool = False
    known: dict[Input, Array] = field(default_factory=dict)  # input -> (length, labels)

    def read(self, inputs: Sequence[Input]) -> list[Array]:
        """Return the rewards at every position of each input, (length, labels); of an encoder,
        at one position.
        """
        different = dict.fromkeys(inputs)
        new = [each for each in different if each not in self.known]
        new.sort(key=lambda each: len(each.ids))
        some: list[Input] = []
        for each in tqdm(new, unit=" texts", leave=False, delay=DELAY, disable=None):
            if some and (len(some) + 1) * len(each.ids) > TOKENS:
                self._read_batch(some)
                some = []
            some.append(each)
        if some:
            self._read_batch(some)
        return [self.known[each] for each in inputs]

    @torch.inference_mode()
    def _read_batch(self, some: list[Input]) -> None:
        device = self.model.device
        ids = [each.ids for each in some]
        masks = [each.mask or [1] * len(each.ids) for each in some]
        given = {
            "input_ids": _padded(ids, device),
            "attention_mask": _padded(masks, device),
        }
        if any(each.types for each in some):
            types = [each.types or [0] * len(each.ids) for each in some]
            given["token_type_ids"] = _padded(types, device)
        out = self.model.backbone(**given)
        if self.model.head is None:
            logits = out.logits.double().cpu().numpy()
            self.known.update(zip(some, logits[:, None], strict=True))
            return
        for hidden, each in zip(out.last_hidden_state, some, strict=True):
            states = hidden[: len(each.ids)].float()  # (length, d)
            self.known[each] = self._at_all(self.states(states), each)

    def _at_all(self, hidden: torch.Tensor, given: Input) -> Array:
        """Return the rewards of hidden states, (length, d) -> (length, labels); NaN if a gate
        has no place to read.
        """
        gate: tuple = ()
        if self.model.gated:
            header = self.model.conversation("Why?").header_ids
            n = len(header)
            starts = range(len(given.ids))
            places = [i for i in starts if given.ids[i : i + n] == header]
            if not places:
                shape = (len(given.ids), len(self.heads))
                return np.full(shape, np.nan)
            weights = self.heads[0].gate(hidden[places[-1]])
            gate = (weights,)
        labels = []
        for head in self.heads:
            rated = head(hidden, *gate)
            labels.append(rated.reshape(len(hidden), -1))
        return torch.cat(labels, dim=1).double().cpu().numpy()


def _padded(rows: Sequence[Sequence[int]], device: str) -> torch.Tensor:
    """Return rows of one length, (rows, longest), with 0 behind."""
    tensors = list(map(torch.tensor, rows))
    return pad_sequence(tensors, batch_first=True).to(device)


def reader_of(model: RewardModel) -> Reader:
    """Return the reader of a loaded model's one reward."""
    heads = [] if model.head is None else [model.head]
    return Reader(model, heads)


def open_reader(name: str, label: int | None, given: dict) -> Reader:
    """Return the reader of a model, with all labels of a classifier. InputError for weights that
    do not fit.
    """
    try:
        model = open_model(name, label=label, **given)
    except InputError as error:
        if label is not None or "outputs" not in str(error):
            raise
        return open_reader(name, 0, given)
    if model.layers is not None:
        raise InputError(
            f"{name} exceeds the memory in {model.dtype}; say --dtype bfloat16, or use a larger "
            "device"
        )
    if model.is_served or label is None or config_in_file(model).num_labels == 1:
        return reader_of(model)
    return reader_of_labels(model)


def config_in_file(model: RewardModel) -> PreTrainedConfig:
    """Return the config.json of a loaded checkpoint."""
    assert model.files is not None
    return loading.config_of(model.files)


def reader_of_labels(model: RewardModel) -> Reader:
    """Return the reader of all labels of a loaded classifier."""
    assert model.files is not None
    files = model.files
    config = config_in_file(model)
    if model.head is None:
        whole, _ = loading.from_safetensors(
            AutoModelForSequenceClassification, files, config, model.dtype, None
        )
        backbone = loading.ready(whole, model.device)
        return Reader(replace(model, backbone=backbone), [])
    heads = []
    for label in range(config.num_labels):
        head = labels.load_head(files, config, model.head_name, label)
        heads.append(head.to(model.device))
    return Reader(model, heads)


# --- where a reward is read -----------------------------------------------------------------------


def usual(reader: Reader, feed: Feed) -> Array:
    """Return the rewards where this library reads, (n, labels); of padded texts, at the end."""
    out = reader.read(feed.inputs)  # of each input: (length, labels)
    if reader.model.head is None or feed.is_padded:
        return np.stack([rewards[-1] for rewards in out])
    _, at = next(positions(reader.model, feed))
    return read_at(out, at)


def elsewhere(reader: Reader, feed: Feed) -> Iterator[tuple[Cause, Array]]:
    """Yield other places where rewards may have been read, and the rewards there, (n, labels)."""
    if reader.model.head is None:
        return
    out = reader.read(feed.inputs)
    _, *others = positions(reader.model, feed)
    for cause, at in others:
        yield cause, read_at(out, at)
    mean = Cause("took the mean over all tokens", "read at the last token")
    yield mean, np.stack([each.mean(axis=0) for each in out])


def read_at(out: list[Array], at: Array) -> Array:
    """Return the rewards of each input at its position, (n, labels)."""
    return np.stack([rewards[i] for rewards, i in zip(out, at, strict=True)])


def positions(model: RewardModel, feed: Feed) -> Iterator[Place]:
    """Yield where a program may read the inputs of a feed, first where this library reads."""
    ids = [np.array(each.ids) for each in feed.inputs]
    last = np.array([len(each) - 1 for each in ids])
    here = last
    if model.read_at == "last_not_pad" and model.pad_token_id is not None:
        here = _last_unlike(ids, model.pad_token_id)
    yield Cause("", ""), here
    yield Cause("read at the last token", "say --read-at last here", READ_AT), last
    yield from _beside_padding(model, ids)
    for back in range(1, EARLIER + 1):
        text = f"read {back} token{'s' * (back > 1)} before the last"
        yield Cause(text, SAME_TOKEN), np.maximum(0, last - back)
    for length in range(4, max(last) + 1):
        cause = Cause(
            f"truncated the end to {length} tokens",
            f"let it read more than {length} tokens",
        )
        yield cause, np.minimum(last, length - 1)


def _beside_padding(model: RewardModel, ids: list[Array]) -> Iterator[Place]:
    """Yield the places beside the tokens that a program may take for padding."""
    own = model.pad_token_id
    tokenizer = model.tokenizer
    for pad in {own, tokenizer.pad_token_id, tokenizer.eos_token_id} - {None}:
        shown = display.show_token(tokenizer.decode([pad]), 30)
        text = f"read at the last token that is not {shown}"
        cause = Cause(text, SAME_TOKEN)
        if pad == own:
            cause = Cause(text, "say --read-at last_not_pad here", READ_AT)
        yield cause, _last_unlike(ids, pad)
        # where there is none it is the last token, and before the very first one too
        before = [int((each == pad).argmax() - 1) % len(each) for each in ids]
        # the released code of heads with a gate reads there
        row = READ_AT if pad == own and model.gated else ""
        text = f"read at the token before the first {shown}"
        yield Cause(text, "name another padding token", row), np.array(before)


def _last_unlike(ids: list[Array], pad: int) -> Array:
    """Return the place of the last token that is not this one, (n,)."""
    return np.array(
        [int((np.arange(len(each)) * (each != pad)).argmax()) for each in ids]
    )
