"""Why do the rewards of another program differ? Try what it may have done, and name what reproduces every reward.

Hypotheses have four parts: what was fed (feeds.py), with which weights, where the reward was read, and what was done
with the number. Those with one cause come first, then pairs. One is named only if it reproduces every reward within
what printing and precision explain, if so many rewards cannot agree by chance, and if nothing simpler does.
"""

import copy
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from ... import InputError
from ...io import as_typed
from ...models import checkpoints, reward_models
from ...models.hardware import one_thread
from ...models.heads import tensors_of_head
from ...models.reward_models import RewardModel
from ...scoring.reply_files import read_replies
from ...show.display import show_token
from .feeds import Cause, Feed, Feeds, Input, conversations_of

Array = np.ndarray
TOLERANCE = 5e-5  # of float32: what sums in another order explain, as a share of the largest reward
SCREENED = 6  # rows on which pairs of causes are tried before all: the shortest, which truncation leaves alone
SIZES = (2, 3, 4, 8, 16, 32, 64)  # of batches
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # to which texts are truncated as a rule
MOST_LENGTHS = 200  # of truncation that are tried between the longest row that agrees and the shortest that does not
EARLIER = 8  # tokens before the last at which the reward may have been read
SEEDS = [*range(128), 1234, 1337, 2023, 2024, 2025, 3407]  # with which transformers may have drawn a head
EVIDENCE = 8.0  # powers of ten by which an agreement of all rows by chance must be improbable
MANTISSA = {"bfloat16": 8, "float16": 11, "float32": 24}  # bits of a number
REWARDS = ("reward", "rewards", "score", "scores")  # names of the column


class Fit(NamedTuple):
    """A hypothesis: its causes, the rewards that it predicts, (n,), and its error as a share of what is allowed."""

    causes: tuple[Cause, ...]
    predicted: Array
    error: float
    fed: int = 0  # causes that lie in the feed
    free: int = 0  # constants that were estimated


@dataclass(frozen=True)
class Answer:
    """Why rewards differ. causes: none if they are equal; `fits` is False if none fits, and they are the nearest."""

    model: str
    causes: tuple[Cause, ...]
    fits: bool
    explained: float  # share of the mean difference from what is scored here
    precision: str
    same: list[str]  # other hypotheses of equally many causes that fit as well
    table: pd.DataFrame  # a row for each text: prompt, reply, theirs, here, with the causes, left over

    @property
    def code(self) -> int:
        """Return 0 if rewards are equal, 1 if a cause is named, 2 if none fits."""
        return 2 if not self.fits else int(bool(self.causes))

    @property
    def line(self) -> str:
        """Return the answer in one line."""
        named = "It " + ", and it ".join(cause.text for cause in self.causes) if self.causes else ""
        if not self.fits:
            nearest = f"{named[0].lower()}{named[1:]}" if named else "what is scored here"
            return f"None fits; nearest: {nearest} explains {max(0.0, self.explained):.0%} of the difference."
        if not self.causes:
            return f"Equal: the other program's rewards are those that are scored here ({self.precision})."
        also = f" The same numbers come from: {'; '.join(self.same[:3])}." if self.same else ""
        remedies = "; ".join(dict.fromkeys(cause.remedy for cause in self.causes))
        return as_typed(f"{named}. -> {remedies}.{also}")

    def as_json(self) -> str:
        """Return the answer as JSON."""
        about = {"model": self.model, "verdict": ("equal", "named", "none fits")[self.code], "code": self.code,
                 "line": self.line, "causes": [cause._asdict() for cause in self.causes], "same": self.same,
                 "explained": self.explained, "precision": self.precision}  # fmt: skip
        return json.dumps(about | {"rows": self.table.to_dict("records")}, indent=2)


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """A model that gives rewards at every position of an input, one for each label; each input is read once."""

    model: RewardModel
    heads: list[Any]  # of a decoder, one per label; empty for an encoder
    cause: tuple[Cause, ...] = ()  # in what its weights differ
    known: dict[Input, Array] = field(default_factory=dict)  # input -> (length, labels)

    def read(self, inputs: Sequence[Input]) -> list[Array]:
        """Return the rewards at every position of each input, (length, labels); of an encoder, at one position."""
        new = sorted(set(inputs) - self.known.keys(), key=lambda each: len(each.ids))
        size = max(1, 4096 // max([len(each.ids) for each in new], default=1))
        with torch.inference_mode(), one_thread(self.model.backbone.num_parameters() < 1e7):
            for start in range(0, len(new), size):
                some = new[start : start + size]
                for given, rewards in zip(some, self._rewards(some), strict=True):
                    self.known[given] = rewards
        return [self.known[each] for each in inputs]

    def _rewards(self, some: list[Input]) -> list[Array]:
        longest = max(len(each.ids) for each in some)
        ids, mask, types = (torch.zeros(len(some), longest, dtype=torch.long) for _ in range(3))
        for i, each in enumerate(some):
            n = len(each.ids)
            ids[i, :n] = torch.tensor(each.ids)
            mask[i, :n] = 1
            if each.is_masked:
                mask[i, : each.left] = mask[i, n - each.right : n] = 0
            types[i, :n] = torch.tensor(each.types or [0] * n)
        given = {"input_ids": ids, "attention_mask": mask} | (
            {"token_type_ids": types} if any(each.types for each in some) else {}
        )
        out = self.model.backbone(**{name: value.to(self.model.device) for name, value in given.items()})
        if self.model.head is None:
            return list(out.logits.float().cpu().numpy().astype(float)[:, None])
        return [self._at_all(out.last_hidden_state[i, : len(each.ids)].float(), each) for i, each in enumerate(some)]

    def _at_all(self, hidden: torch.Tensor, given: Input) -> Array:
        """Return the rewards of hidden states, (length, d) -> (length, labels); NaN if a gate has no place to read."""
        gate: tuple = ()
        if self.model.gated:
            header = self.model.conversation("Why?").header_ids
            places = [i for i in range(len(given.ids)) if given.ids[i : i + len(header)] == header]
            if not places:
                return np.full((len(given.ids), len(self.heads)), np.nan)
            gate = (self.heads[0].gate(hidden[places[-1]]),)
        labels = [head(hidden, *gate).reshape(len(hidden), -1) for head in self.heads]
        return torch.cat(labels, dim=1).float().cpu().numpy().astype(float)


def open_reader(name: str, label: int | None, given: dict) -> Reader:
    """Return the reader of a model, with all labels of a classifier. InputError for weights that do not fit."""
    try:
        model, labels = reward_models.load(name, label=label, **given), 1
    except InputError as error:
        if label is not None or "outputs" not in str(error):
            raise
        model, labels = reward_models.load(name, label=0, **given), 0
    if model.layers is not None:
        raise InputError(
            f"{name} does not fit into memory in {model.dtype}; say DTYPE=bfloat16, or use a larger device"
        )
    assert model.files is not None
    folder, config = model.files.folder, checkpoints.config_of(model.files.folder)
    several = config.num_labels if label is not None or not labels else 1
    if several > 1 and model.head is None:
        whole, _ = checkpoints.from_safetensors(AutoModelForSequenceClassification, folder, config, model.dtype, None)
        model = replace(model, backbone=checkpoints.ready(whole, model.device))
    heads = [] if model.head is None else [model.head]
    if several > 1 and heads:
        tensors = tensors_of_head(config, checkpoints.tensor_files(folder))
        heads = [reward_models.load_head(folder, tensors, config, model.head_name, i).to(model.device)
                 for i in range(several)]  # fmt: skip
    return Reader(model, heads)


def other_weights(name: str, reader: Reader, given: dict) -> Iterator[Reader]:
    """Yield readers with the weights that another program may have used in place of the model's own."""
    model, folder = reader.model, Path(reward_models.find(name)["hub_id"])
    assert model.files is not None
    config = checkpoints.config_of(model.files.folder)
    if model.head is None:
        return
    if (folder / "adapter_config.json").is_file():
        base = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
        at = checkpoints.open_files(base, "").folder
        bare, _ = checkpoints.from_safetensors(AutoModel, at, checkpoints.config_of(at), model.dtype, None)
        left_out = Cause("left out the adapter's changes to the weights", "merge the adapter, or load it with peft")
        yield Reader(replace(model, backbone=checkpoints.ready(bare, model.device)), reader.heads, (left_out,))
    if checkpoints.soft_caps(config) and model.attention != "uncapped":
        remedy = "say attn_implementation='eager' there, or --attention uncapped here"
        dropped = Cause("dropped the soft-capping of attention", remedy)
        uncapped = reward_models.load(name, **{**given, "attention": "uncapped"})
        yield Reader(uncapped, [uncapped.head], (dropped,))
    if model.head_name == "urm":
        read = Cause("read helpfulness in place of the reward", "say --head urm_helpfulness here")
        helpful = reward_models.load(name, **{**given, "head": "urm_helpfulness"})
        yield Reader(helpful, [helpful.head], (read,))
    if model.head_name == "linear":
        width, spread = config.hidden_size, getattr(config, "initializer_range", 0.02)
        drawn = [torch.empty(1, width).normal_(0, spread, generator=torch.manual_seed(seed)) for seed in SEEDS]
        head = torch.nn.Linear(width, len(SEEDS), bias=False)
        head.weight = torch.nn.Parameter(torch.cat(drawn))
        random = Cause("drew the head at random", "load the checkpoint's own head: its class, and num_labels=1")
        yield Reader(model, [head.to(model.device)], (random,))


# --- where a reward is read, and what becomes of the number -------------------------------------------------------


def places(reader: Reader, feed: Feed) -> tuple[list[tuple[Cause, ...]], Array]:
    """Return where rewards may have been read, the usual place first, and the rewards, (places, n, labels)."""
    out = reader.read(feed.inputs)
    ids = [np.array(each.ids) for each in feed.inputs]
    model, last = reader.model, [len(each) - 1 for each in ids]
    if model.head is None:
        return [()], np.stack([rewards[0] for rewards in out])[None]
    pads = {
        i for i in (model.pad_token_id, model.tokenizer.pad_token_id, model.tokenizer.eos_token_id) if i is not None
    }
    not_pad = {pad: [int((np.arange(len(each)) * (each != pad)).argmax()) for each in ids] for pad in pads}
    usual = not_pad[model.pad_token_id] if model.read_at == "last_not_pad" and model.pad_token_id is not None else last
    if any(each.right or each.left for each in feed.inputs):
        return [()], np.stack([rewards[-1] for rewards in out])[None]
    where = [((), usual), ((Cause("read at the last token", "say READ_AT=last here"),), last)]
    for pad, at in not_pad.items():
        token = show_token(model.tokenizer.decode([pad]), 30)
        where.append(((Cause(f"read at the last token that is not {token}", "read at the same token"),), at))
        first = [int((each == pad).argmax()) - 1 if (each == pad).any() else len(each) - 1 for each in ids]
        where.append(((Cause(f"read at the token before the first {token}", "name another padding token"),),
                      [at % len(each) for at, each in zip(first, ids, strict=True)]))  # fmt: skip
    for back in range(1, EARLIER + 1):
        cause = Cause(f"read {back} token{'s' * (back > 1)} before the last", "read at the same token")
        where.append(((cause,), [max(0, at - back) for at in last]))
    where.append(((Cause("read at the first token", "read at the last token"),), [0] * len(ids)))
    for length in range(4, max(last) + 1):
        cause = Cause(f"truncated the end to {length} tokens", f"let it read more than {length} tokens")
        where.append(((cause,), [min(at, length - 1) for at in last]))
    rewards = np.stack([np.stack([out[i][at] for i, at in enumerate(places)]) for _, places in where])
    mean = np.stack([each.mean(axis=0) for each in out])[None]
    averaged = (Cause("took the mean over all tokens", "read at the last token"),)
    return [*(causes for causes, _ in where), averaged], np.concatenate([rewards, mean])


def softmax(values: Array) -> Array:
    """Return the softmax over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(values: Array) -> Array:
    """Return the logistic function of each value."""
    return 1 / (1 + np.exp(-np.clip(values, -700, 700)))


def _of_labels(rewards: Array, label: int, one: str) -> Iterator[tuple[tuple[Cause, ...], Array, Any, int]]:
    """Yield, as `numbers` does, what a program may have done with several labels, (places, n, labels)."""
    raw = rewards[..., label]
    labels = rewards.shape[-1]
    for i in range(labels) if 1 < labels <= 20 else ():
        if i != label:
            yield (
                (Cause(f"took label {i}", f"say LABEL={i} here, or take label {label} there"),),
                rewards[..., i],
                1.0,
                0,
            )
            difference = raw - rewards[..., i]
            yield (Cause(f"took label {label} minus label {i}", one),), difference, 2.0, 0
            yield (Cause(f"took label {i} minus label {label}", one),), -difference, 2.0, 0
    if 1 < labels <= 20:
        shares = softmax(rewards)
        for i in range(labels):
            where = f"of label {i} among {labels}"
            yield (
                (Cause(f"applied the softmax, {where}", one),),
                shares[..., i],
                shares[..., i] * (1 - shares[..., i]),
                0,
            )
            yield (Cause(f"took the logarithm of the softmax, {where}", one),), np.log(shares[..., i] + 1e-300), 1.0, 0
            if i != label:
                other = sigmoid(rewards[..., i])
                yield (Cause(f"applied the sigmoid to label {i}", one),), other, other * (1 - other), 0
        yield (Cause("took the mean of all labels", one),), rewards.mean(axis=-1), 1.0, 0
        yield (Cause("took the sum of all labels", one),), rewards.sum(axis=-1), labels, 0
        yield (Cause("took the expected label of the softmax", one),), shares @ np.arange(labels), labels, 0


def _fitted(raw: Array, theirs: Array, one: str) -> Iterator[tuple[tuple[Cause, ...], Array, Any, int]]:
    """Yield, as `numbers` does, scales and shifts that are fitted to the other program's rewards."""
    with np.errstate(all="ignore"):
        scale = (raw * theirs).sum(1, keepdims=True) / (raw * raw).sum(1, keepdims=True)
        yield (Cause("multiplied by {scale:.4g}", one),), scale * raw, np.abs(scale), 1
        shift = (theirs - raw).mean(1, keepdims=True)
        yield (Cause("added {shift:.4g}", one),), raw + shift, 1.0, 1
        apart = raw - raw.mean(1, keepdims=True)
        slope = (apart * (theirs - theirs.mean())).sum(1, keepdims=True) / (apart * apart).sum(1, keepdims=True)
        yield (Cause("rescaled to mean {mean:.4g} and standard deviation {spread:.4g}", one),), (
            slope * apart + theirs.mean()), np.abs(slope), 2  # fmt: skip


def numbers(
    rewards: Array, theirs: Array, label: int, groups: Array
) -> Iterator[tuple[tuple[Cause, ...], Array, Any, int]]:
    """Yield what may have been done with rewards, (places, n, labels): causes, predictions, slopes and free parameters.

    Predictions are (places, n). A slope says how far a prediction moves with a reward. Groups number the prompts.
    """
    raw, one = rewards[..., label], "take the number itself there"
    if rewards.shape[-1] == len(SEEDS):  # heads drawn with these seeds
        yield from (((), rewards[..., i], 1.0, 1) for i in range(len(SEEDS)))
        return
    yield (), raw, 1.0, 0
    squashed = sigmoid(raw)
    yield (Cause("applied the sigmoid", "switch the activation off there (function_to_apply='none')"),), squashed, (
        squashed * (1 - squashed)), 0  # fmt: skip
    yield from _of_labels(rewards, label, one)
    yield (Cause("changed the sign", one),), -raw, 1.0, 0
    yield (Cause("took the logarithm of the sigmoid", one),), -np.logaddexp(0, -raw), 1 - squashed, 0
    yield (Cause("applied the hyperbolic tangent", one),), np.tanh(raw), 1 - np.tanh(raw) ** 2, 0
    yield (Cause("took the exponential", one),), np.exp(np.minimum(raw, 700)), np.exp(np.minimum(raw, 700)), 0
    low, high = theirs.min(), theirs.max()
    if (theirs == low).sum() > 1 or (theirs == high).sum() > 1:
        low, high = (low if (theirs == low).sum() > 1 else -np.inf), (high if (theirs == high).sum() > 1 else np.inf)
        yield (Cause(f"cut rewards to [{low:g}, {high:g}]", one),), np.clip(raw, low, high), 1.0, 2
    sizes = np.bincount(groups)
    if len(sizes) > 1 and (sizes > 1).any():
        means = (np.eye(len(sizes))[groups] / sizes).T @ np.swapaxes(raw, 0, 1)  # (groups, places)
        yield (Cause("subtracted the mean over the replies to each prompt", one),), raw - means.T[:, groups], 1.0, 0
    yield from _fitted(raw, theirs, one)


# --- the search ---------------------------------------------------------------------------------------------------


@dataclass
class Search:
    """The search for what another program did to give these rewards, (n,).

    - slack: how far each reward may be off by its printing and by its floating-point format, (n,)
    - groups: the number of the prompt of each row, (n,)
    - label: which output of the model is the reward here
    """

    reader: Reader
    feeds: Feeds
    theirs: Array
    slack: Array
    groups: Array
    label: int = 0
    noise: float = 0.0  # of the precision that is tried, on the model's own scale
    most: int = 2  # causes of a hypothesis
    fits: list[Fit] = field(default_factory=list)
    nearest: Fit | None = None
    partial: dict[Feed, tuple[int, int]] = field(
        default_factory=dict
    )  # longest row that agrees, shortest that does not

    def __post_init__(self) -> None:
        self.every = list(self.feeds)

    def run(self, noise: float, others: Sequence[Reader], is_coarse: bool = False) -> list[Fit]:
        """Return hypotheses that fit within this noise: with one cause, or with two if nothing simpler fits.

        is_coarse: only one cause, because half precision is another one
        """
        self.noise, self.most, self.fits, self.partial = noise, 1 if is_coarse else 2, [], {}
        every, everywhere = self.every, np.arange(len(self.theirs))
        by_length = np.argsort([len(each.ids) for each in every[0].inputs], kind="stable")
        some = np.sort(np.r_[by_length[: SCREENED // 2], by_length[SCREENED // 2 :][-SCREENED // 2 :]])
        single = [feed for feed in every if len(feed.causes) < 2]
        announce(self.reader, single, "")
        for feed in single:
            self.consider(self.reader, feed, everywhere)
        for reader, feed in self._further(every[0], others, LENGTHS):
            self.consider(reader, feed, everywhere)
        if is_coarse or any(len(fit.causes) < 2 for fit in self.fits):
            return self.fits
        pairs = [(self.reader, feed) for feed in every if len(feed.causes) == 2]
        for feed in single[1:]:
            pairs += self._further(feed, others, ()) if feed.is_own or feed in self.partial else []
        announce(self.reader, [self._part(feed, some) for _, feed in pairs], " more, for pairs of causes")
        for reader, feed in pairs:
            if self.consider(reader, feed, some):
                self.consider(reader, feed, everywhere)
        return self.fits

    def _further(self, feed: Feed, others: Sequence[Reader], lengths: Sequence[int]) -> Iterator[tuple[Reader, Feed]]:
        """Yield a feed with other weights, in padded batches, and truncated: to these lengths, or where rows differ."""
        yield from ((reader, feed) for reader in others)
        for size in [size for size in SIZES if size < len(self.theirs)] + [len(self.theirs)]:
            yield from ((self.reader, padded) for padded in self.feeds.padded(feed, size))
        longest = max(len(each.ids) for each in feed.inputs)
        low, high = self.partial.get(feed, (0, 0))
        for length in dict.fromkeys([*range(low, min(high, low + MOST_LENGTHS)), *lengths]):
            if 4 <= length < longest:
                yield from ((self.reader, cut) for cut in self.feeds.truncated(feed, length))

    @staticmethod
    def _part(feed: Feed, rows: Array) -> Feed:
        return Feed(feed.causes, tuple(feed.inputs[i] for i in rows))

    def consider(self, reader: Reader, feed: Feed, rows: Array) -> bool:
        """Try every place and number with a feed on these rows; return whether one fits them. Keep what fits all."""
        where, rewards = places(reader, self._part(feed, rows))
        theirs, slack, whole, fitting = self.theirs[rows], self.slack[rows], len(rows) == len(self.theirs), False
        before, label = (*reader.cause, *feed.causes), self.label if reader is self.reader else 0
        with np.errstate(all="ignore"):  # a gate without a place to read gives no number
            variants = list(numbers(rewards, theirs, label, self.groups[rows]))
        for number, predicted, slope, free in variants:
            room = self.most - len(before) - len(number)
            if room < 0:
                continue
            with np.errstate(all="ignore"):
                allowed = slack + self.noise * slope  # (places, n)
                apart = np.nan_to_num(np.abs(predicted - theirs), nan=np.inf)
                spread = np.minimum(predicted.std(axis=1), theirs.std())
                evidence = (len(theirs) - free) * np.log10(spread / np.broadcast_to(allowed, apart.shape).mean(axis=1))
            error = (apart / allowed).max(axis=1)
            for i in np.flatnonzero(error <= 1):
                if len(where[i]) <= room and (evidence[i] >= EVIDENCE or not whole):
                    fitting = True
                    if whole:
                        constants = _constants(predicted[i], rewards[i, :, label])
                        causes = tuple(Cause(c.text.format(**constants), c.remedy) for c in number)
                        self.fits.append(
                            Fit((*before, *where[i], *causes), predicted[i], float(error[i]), len(feed.causes), free)
                        )
            if whole and not free:
                self._note(feed if reader is self.reader else None, (*before, *number), apart, allowed, predicted)
        return fitting

    def _note(self, feed: Feed | None, causes: tuple, apart: Array, allowed: Array, predicted: Array) -> None:
        """Keep what is nearest at the usual place, and between which lengths a truncation may begin."""
        if self.nearest is None or apart[0].mean() < self.nearest.error:
            self.nearest = Fit(causes, predicted[0], float(apart[0].mean()))
        if feed is None:
            return
        agrees, lengths = apart[0] <= np.broadcast_to(allowed, apart.shape)[0], [len(each.ids) for each in feed.inputs]
        other = min((length for length, same in zip(lengths, agrees, strict=True) if not same), default=0)
        if agrees.sum() >= 3 and lengths and max(np.array(lengths)[agrees]) < other:
            self.partial[feed] = (int(max(np.array(lengths)[agrees])), other)


def _constants(predicted: Array, raw: Array) -> dict[str, float]:
    """Return the constants that were estimated, as the words of a cause name them."""
    with np.errstate(all="ignore"):
        return {"scale": predicted[0] / raw[0], "shift": (predicted - raw).mean(), "mean": predicted.mean(),
                "spread": predicted.std()}  # fmt: skip


def announce(reader: Reader, feeds: list[Feed], what: str) -> None:
    """Print how many forward passes are needed, before they begin."""
    new = {each for feed in feeds for each in feed.inputs} - reader.known.keys()
    if new:
        print(f"{len(new):,} forward passes{what}.", file=sys.stderr)


# --- precision ----------------------------------------------------------------------------------------------------


def printed_to(texts: Sequence[str]) -> Array:
    """Return half a unit of the last digit to which each number was printed, (n,).

    Programs print equally many decimals, or equally many digits; zeros at the end may be missing.
    """
    parts = [Decimal(text).as_tuple() for text in texts]
    decimals = max(max(0, -int(part.exponent)) for part in parts)
    digits = max(len(part.digits) for part in parts)
    sizes = [Decimal(text).adjusted() + 1 for text in texts]
    return np.array([0.5 * 10.0 ** max(-decimals, size - digits) for size in sizes])


def format_of(rewards: Array, slack: Array) -> tuple[str, Array]:
    """Return the floating-point format whose numbers all rewards are, as far as they were printed; its half steps."""
    for name in ("bfloat16", "float16"):
        step = 2.0 ** (np.frexp(rewards)[1] - MANTISSA[name])
        near = np.abs(np.round(rewards / step) * step - rewards) <= slack * 1.01
        if near.all() and np.log10(np.minimum(1, 2 * slack / step)).sum() < -EVIDENCE:
            return name, step / 2
    return "float32", np.zeros(len(rewards))


def in_precision(reader: Reader, dtype: str) -> Reader:
    """Return the reader of the same model, computed in another precision."""
    backbone = copy.deepcopy(reader.model.backbone).to(getattr(torch, dtype))
    return Reader(replace(reader.model, backbone=backbone, dtype=dtype), reader.heads)


# --- the answer ---------------------------------------------------------------------------------------------------


def explain(
    name: str, rows: pd.DataFrame, *, bos: str = "single", template: str | None = None, label: int | None = None,
    **options: Any,
) -> Answer:  # fmt: skip
    """Return why these rewards differ from the model's.

    - rows: context and reply, as from reply_files.read_replies, and `printed`, the other program's rewards as texts
    - bos, label and the options are as for scoring; template is a file with a chat template that is tried too
    """
    entry = reward_models.find(name)
    given = {"dtype": "float32", **{key: value for key, value in options.items() if value is not None}}
    try:
        reader = open_reader(name, label, given)
    except InputError:
        if template is None:
            raise
        given["template"] = template  # of a tokenizer that has none of its own
        reader = open_reader(name, label, given)
    theirs, slack = rows["printed"].astype(float).to_numpy(), printed_to(rows["printed"].tolist())
    form, step = format_of(theirs, slack)
    feeds = Feeds(reader.model, conversations_of(rows["context"].tolist(), rows["reply"].tolist()), bos, template)
    search = Search(reader, feeds, theirs, slack + step, rows["context"].factorize()[0], label or 0)
    usual = places(reader, base := Feed((), tuple(feeds.base)))[1][0]  # (n, labels)
    here, noise = usual[:, search.label], TOLERANCE * float(np.abs(usual).max())
    if (theirs == 1).all() and np.abs(here - 1).max() > 0.1:
        one = Cause("applied the softmax to a single output, which always gives 1", "switch the activation off there")
        return _answer(entry["nickname"], rows, here, [Fit((one,), theirs, 0.0)], form)
    others = list(other_weights(name, reader, given))
    fits, precision = search.run(noise, others), form
    for dtype in () if fits else ("float16", "bfloat16"):
        coarse = replace(search, reader=in_precision(reader, dtype))
        spread = float(np.sqrt(((places(coarse.reader, base)[1][0] - usual) ** 2).mean()))
        fine = {fit.causes: fit.predicted for fit in search.run(noise + 6 * spread, others, is_coarse=True)}
        for fit in coarse.run(noise + 6 * spread, [], is_coarse=True):
            error, without = (((one - theirs) ** 2).sum() for one in (fit.predicted, fine.get(fit.causes, here)))
            fits += [fit] * bool(error < 0.8 * without)
        if fits:  # half precision itself explains more than noise of its size
            fits, precision = sorted(fits, key=lambda fit: fit.error), dtype
            break
    assert reader.model.files is not None and search.nearest is not None
    config = checkpoints.config_of(reader.model.files.folder)
    if fits and precision not in (
        "float32",
        checkpoints.dtype_for(given.get("scored_in", entry["dtype"]), reader.model.device, config),
    ):
        cause = Cause(f"computed in {precision}", f"compute in float32 there, or say DTYPE={precision} here")
        fits = [fit._replace(causes=(*fit.causes, cause)) for fit in fits]
    return _answer(entry["nickname"], rows, here, fits or [search.nearest], precision, bool(fits))


def _answer(name: str, rows: pd.DataFrame, here: Array, fits: list[Fit], precision: str, found: bool = True) -> Answer:
    fewest = min(len(fit.causes) for fit in fits)
    first, *others = sorted([fit for fit in fits if len(fit.causes) == fewest], key=lambda fit: (fit.free, -fit.fed))
    theirs = rows["printed"].astype(float).to_numpy()
    left, difference = np.abs(theirs - first.predicted), np.abs(theirs - here)
    same = dict.fromkeys(" and ".join(cause.text for cause in fit.causes) for fit in others if fit.free <= first.free)
    asked = [json.loads(text)[-1]["content"] for text in rows["context"]]
    table = pd.DataFrame({"prompt": asked, "reply": rows["reply"], "theirs": theirs, "here": here,
                          "with the causes": first.predicted, "left over": left})  # fmt: skip
    explained = 1 - left.mean() / difference.mean() if difference.mean() else 1.0
    return Answer(name, first.causes, found, float(explained), precision, list(same), table)


def read_rewards(file: Path) -> pd.DataFrame:
    """Return the rows of a file with texts and rewards, as `explain` takes them. InputError if there are none."""
    rows = read_replies(file)
    named = next((name for name in REWARDS if name in rows), None)
    if named is None:
        raise InputError(f"{file} has no column {', '.join(REWARDS[:-1])} or {REWARDS[-1]}; name the rewards so")
    printed = rows[named].astype(str)
    numbers = pd.to_numeric(printed, errors="coerce")
    if not np.isfinite(numbers).all():
        number = int(np.flatnonzero(~np.isfinite(numbers))[0]) + 1
        raise InputError(f"{file}, row {number}: the reward {printed.iloc[number - 1]!r} is no number; correct it")
    if len(rows) < 3:
        raise InputError(f"{file} has {len(rows)} rows, from which nothing can be told; give ten, or better thirty")
    return rows.assign(printed=printed.str.strip())


def why(name: str, rewards: str, as_json: bool = False, template: str | None = None, **options: Any) -> int:
    """Print why another program's rewards, in a file, differ from the model's. Return the code of the answer."""
    answer = explain(name, read_rewards(Path(rewards)), template=template, **options)
    if as_json:
        print(answer.as_json())
        return answer.code
    texts = answer.table[["prompt", "reply"]].map(lambda text: show_token(text, 30).replace("␣", " "))
    table = answer.table.assign(**texts)
    print(answer.line, "", table.to_string(index=False, float_format="{:.5g}".format), sep="\n")
    return answer.code
