"""Rewards of inputs, with the model's own weights or others, and what another program may make
of them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit, log_expit, softmax
from transformers import AutoModel, AutoModelForSequenceClassification

from ... import InputError
from ...models import checkpoints, reward_models
from ...models.files import tensor_files
from ...models.hardware import one_thread
from ...models.heads import tensors_of_head
from ...models.reward_models import RewardModel
from ...scoring.padded import pad_rows
from ...show.display import show_token
from ..opening import labels, open_model, plain
from .feeds import Cause, Feed, Input

Array = np.ndarray
# The largest difference of rewards that sums in another order explain, as a share of the largest
# reward; half precision also rounds the reward itself, to 8 or 11 bits.
TOLERANCES = {"float64": 1e-5, "float32": 5e-5, "float16": 0.0045, "bfloat16": 0.07}
TOKENS = 4096  # of a batch
EARLIER = 8  # tokens before the last at which the reward may have been read
# with which transformers may have drawn a head
SEEDS = [*range(128), 1234, 1337, 2023, 2024, 2025, 3407]


@dataclass
class Reader:
    """A model that gives rewards at every position of an input, one for each label; each input
    is read once.
    """

    model: RewardModel
    heads: list[Any]  # of a decoder, one per label; empty for an encoder
    cause: tuple[Cause, ...] = ()  # in what its weights differ
    known: dict[Input, Array] = field(default_factory=dict)  # input -> (length, labels)

    def read(self, inputs: Sequence[Input]) -> list[Array]:
        """Return the rewards at every position of each input, (length, labels); of an encoder,
        at one position.
        """
        new = sorted(set(inputs) - self.known.keys(), key=lambda each: len(each.ids))
        size = max(1, TOKENS // max([len(each.ids) for each in new], default=1))
        with torch.inference_mode(), one_thread(self.model.backbone.num_parameters() < 1e7):
            for start in range(0, len(new), size):
                some = new[start : start + size]
                self.known.update(zip(some, self._rewards(some), strict=True))
        return [self.known[each] for each in inputs]

    def _rewards(self, some: list[Input]) -> list[Array]:
        device = self.model.device
        given = {
            "input_ids": pad_rows([each.ids for each in some], device),
            "attention_mask": pad_rows([each.mask or [1] * len(each.ids) for each in some], device),
        }
        if any(each.types for each in some):
            types = [each.types or [0] * len(each.ids) for each in some]
            given["token_type_ids"] = pad_rows(types, device)
        out = self.model.backbone(**given)
        if self.model.head is None:
            return list(out.logits.float().cpu().numpy().astype(float)[:, None])
        return [
            self._at_all(out.last_hidden_state[i, : len(each.ids)].float(), each)
            for i, each in enumerate(some)
        ]

    def _at_all(self, hidden: torch.Tensor, given: Input) -> Array:
        """Return the rewards of hidden states, (length, d) -> (length, labels); NaN if a gate
        has no place to read.
        """
        gate: tuple = ()
        if self.model.gated:
            header = self.model.conversation("Why?").header_ids
            places = [i for i in range(len(given.ids)) if given.ids[i : i + len(header)] == header]
            if not places:
                return np.full((len(given.ids), len(self.heads)), np.nan)
            gate = (self.heads[0].gate(hidden[places[-1]]),)
        labels = [head(hidden, *gate).reshape(len(hidden), -1) for head in self.heads]
        return torch.cat(labels, dim=1).float().cpu().numpy().astype(float)


def reader_of(model: RewardModel) -> Reader:
    """Return the reader of a loaded model's one reward."""
    return Reader(model, [] if model.head is None else [model.head])


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
    if model.is_served:
        return reader_of(model)
    assert model.files is not None
    folder, config = model.files.folder, checkpoints.config_of(model.files.folder)
    if label is None or config.num_labels == 1:
        return reader_of(model)
    if model.head is None:
        whole, _ = checkpoints.from_safetensors(
            AutoModelForSequenceClassification, folder, config, model.dtype, None
        )
        return Reader(replace(model, backbone=checkpoints.ready(whole, model.device)), [])
    tensors = tensors_of_head(config, tensor_files(folder))
    heads = [
        labels.load_head(folder, tensors, config, model.head_name, i)
        for i in range(config.num_labels)
    ]
    return Reader(model, [head.to(model.device) for head in heads])


def other_weights(name: str, label: int | None, reader: Reader, given: dict) -> Iterator[Reader]:
    """Yield readers with the weights that another program may have used in place of the model's
    own.
    """
    model, folder = reader.model, Path(reward_models.find(name)["hub_id"])
    if model.head is None:
        return
    assert model.files is not None
    config = checkpoints.config_of(model.files.folder)
    if (folder / "adapter_config.json").is_file():
        named = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get(
            "base_model_name_or_path"
        )
        at = plain.open_files(str(given.get("base") or named), "").folder
        bare, _ = checkpoints.from_safetensors(
            AutoModel, at, checkpoints.config_of(at), model.dtype, None
        )
        left_out = Cause(
            "left out the adapter's changes to the weights",
            "merge the adapter, or load it with peft",
        )
        yield Reader(
            replace(model, backbone=checkpoints.ready(bare, model.device)),
            reader.heads,
            (left_out,),
        )
    if checkpoints.soft_caps(config) and model.attention != "uncapped":
        remedy = "say attn_implementation='eager' there, or --attention uncapped here"
        dropped = Cause("dropped the soft-capping of attention", remedy)
        yield replace(
            open_reader(name, label, {**given, "attention": "uncapped"}), cause=(dropped,)
        )
    if model.head_name == "urm":
        helpful = Cause(
            "read helpfulness in place of the reward", "say --head urm_helpfulness here"
        )
        yield replace(
            reader_of(open_model(name, **{**given, "head": "urm_helpfulness"})),
            cause=(helpful,),
        )
    if model.head_name == "linear":
        width, spread = config.hidden_size, getattr(config, "initializer_range", 0.02)
        drawn = [
            torch.empty(1, width).normal_(0, spread, generator=torch.manual_seed(seed))
            for seed in SEEDS
        ]
        head = torch.nn.Linear(width, len(SEEDS), bias=False)
        head.weight = torch.nn.Parameter(torch.cat(drawn))
        random = Cause(
            "drew the head at random", "load the checkpoint's own head: its class, and num_labels=1"
        )
        yield Reader(model, [head.to(model.device)], (random,))


# --- where a reward is read -----------------------------------------------------------------------


def places(reader: Reader, feed: Feed) -> tuple[list[tuple[Cause, ...]], Array]:
    """Return where rewards may have been read, the usual place first, and the rewards, (places,
    n, labels).
    """
    model, out = reader.model, reader.read(feed.inputs)  # of each input: (length, labels)
    if model.head is None or feed.is_padded:
        return [()], np.stack([rewards[-1] for rewards in out])[None]
    ids = [np.array(each.ids) for each in feed.inputs]
    last, same = [len(each) - 1 for each in ids], "read at the same token"
    pads = {model.pad_token_id, model.tokenizer.pad_token_id, model.tokenizer.eos_token_id} - {None}
    not_pad = {
        pad: [int((np.arange(len(each)) * (each != pad)).argmax()) for each in ids] for pad in pads
    }
    usual = not_pad.get(model.pad_token_id, last) if model.read_at == "last_not_pad" else last
    row = "reward read at"
    where = [
        (Cause("", ""), usual),
        (Cause("read at the last token", "say --read-at last here", row), last),
    ]
    for pad, at in not_pad.items():
        token, is_configured = (
            show_token(model.tokenizer.decode([pad]), 30),
            pad == model.pad_token_id,
        )
        remedy, shown_in = ("say --read-at last_not_pad here", row) if is_configured else (same, "")
        where.append((Cause(f"read at the last token that is not {token}", remedy, shown_in), at))
        first = [
            int((each == pad).argmax()) - 1 if (each == pad).any() else len(each) - 1
            for each in ids
        ]
        # The released code of heads with a gate reads there
        shown_in = row if is_configured and model.gated else ""
        before = Cause(
            f"read at the token before the first {token}", "name another padding token", shown_in
        )
        where.append((before, [at % len(each) for at, each in zip(first, ids, strict=True)]))
    for back in range(1, EARLIER + 1):
        cause = Cause(f"read {back} token{'s' * (back > 1)} before the last", same)
        where.append((cause, [max(0, at - back) for at in last]))
    where.append((Cause("read at the first token", "read at the last token"), [0] * len(ids)))
    for length in range(4, max(last) + 1):
        cause = Cause(
            f"truncated the end to {length} tokens", f"let it read more than {length} tokens"
        )
        where.append((cause, [min(at, length - 1) for at in last]))
    rewards = [[out[i][at] for i, at in enumerate(positions)] for _, positions in where]
    mean = Cause("took the mean over all tokens", "read at the last token")
    causes = [(), *((cause,) for cause, _ in where[1:]), (mean,)]
    return causes, np.array([*rewards, [each.mean(axis=0) for each in out]])


# --- what becomes of the number -------------------------------------------------------------------


class Number(NamedTuple):
    """What a program may have made of rewards. A text may name constants: scale, shift, mean,
    spread.
    """

    text: str  # empty for the reward itself
    predicted: Array  # (places, n)
    slope: Any = 1.0  # how far a prediction moves with a reward
    free: int = 0  # how many constants are estimated
    remedy: str = "take the number itself there"


def numbers(rewards: Array, theirs: Array, label: int, groups: Array) -> list[Number]:
    """Return what may have been made of rewards, (places, n, labels). Groups number the prompts."""
    raw, labels = rewards[..., label], rewards.shape[-1]
    if labels == len(SEEDS):  # heads drawn with these seeds
        return [Number("", rewards[..., i], free=1) for i in range(labels)]
    squashed, power = expit(raw), np.exp(np.minimum(raw, 700))
    off = "switch the activation off there (function_to_apply='none')"
    made = [
        Number("", raw),
        Number("applied the sigmoid", squashed, squashed * (1 - squashed), 0, off),
        *(_of_labels(rewards, label) if 1 < labels <= 20 else ()),
        Number("applied the sigmoid twice", expit(squashed), squashed / 4, 0, off),
        Number("changed the sign", -raw),
        Number("took the logarithm of the sigmoid", log_expit(raw), 1 - squashed),
        Number("applied the hyperbolic tangent", np.tanh(raw), 1 - np.tanh(raw) ** 2),
        Number("took the exponential", power, power),
    ]
    low, high = theirs.min(), theirs.max()
    if (theirs == low).sum() > 1 or (theirs == high).sum() > 1:
        low, high = (
            (low if (theirs == low).sum() > 1 else -np.inf),
            (high if (theirs == high).sum() > 1 else np.inf),
        )
        made.append(Number(f"cut rewards to [{low:g}, {high:g}]", np.clip(raw, low, high), 1.0, 2))
    sizes = np.bincount(groups)
    if len(sizes) > 1 and (sizes > 1).any():
        shares = np.eye(len(sizes))[groups] / sizes  # (n, groups)
        apart, others = raw - (raw @ shares)[:, groups], np.maximum(sizes - 1, 1)
        made.append(Number("subtracted the mean over the replies to each prompt", apart))
        without_own = apart * (sizes / others)[groups]  # (places, n)
        made.append(
            Number("subtracted the mean over the other replies to each prompt", without_own, 2.0)
        )
        spread = np.sqrt((apart**2 @ shares * sizes / others)[:, groups])
        made += [
            Number(
                "standardised the rewards of the replies to each prompt",
                apart / (spread + least),
                2 / spread,
            )
            for least in (1e-6, 1e-4)
        ]
    # Scales and shifts that are fitted to the other program's rewards
    scale = (raw * theirs).sum(1, keepdims=True) / (raw * raw).sum(1, keepdims=True)
    shift = (theirs - raw).mean(1, keepdims=True)
    apart = raw - raw.mean(1, keepdims=True)
    slope = (apart * (theirs - theirs.mean())).sum(1, keepdims=True) / (apart * apart).sum(
        1, keepdims=True
    )
    rescaled = "rescaled to mean {mean:.4g} and standard deviation {spread:.4g}"
    return [
        *made,
        Number("multiplied by {scale:.4g}", scale * raw, np.abs(scale), 1),
        Number("added {shift:.4g}", raw + shift, 1.0, 1),
        Number(rescaled, slope * apart + theirs.mean(), np.abs(slope), 2),
    ]


def _of_labels(rewards: Array, label: int) -> Iterator[Number]:
    """Yield what a program may have made of several labels, (places, n, labels)."""
    raw, labels, shares = rewards[..., label], rewards.shape[-1], softmax(rewards, axis=-1)
    for i in range(labels):
        other, share, which = (
            rewards[..., i],
            shares[..., i],
            f"softmax, of label {i} among {labels}",
        )
        yield Number(f"applied the {which}", share, share * (1 - share))
        yield Number(f"took the logarithm of the {which}", np.log(share + 1e-300))
        if i != label:
            yield Number(
                f"took label {i}",
                other,
                remedy=f"say --label {i} here, or take label {label} there",
            )
            yield Number(f"took label {label} minus label {i}", raw - other, 2.0)
            yield Number(f"took label {i} minus label {label}", other - raw, 2.0)
            yield Number(
                f"applied the sigmoid to label {i}", expit(other), expit(other) * (1 - expit(other))
            )
    yield Number("took the mean of all labels", rewards.mean(axis=-1))
    yield Number("took the sum of all labels", rewards.sum(axis=-1), labels)
    yield Number("took the expected label of the softmax", shares @ np.arange(labels), labels)
