"""Why do the rewards of another program differ? Try what it may have done, and name what reproduces
every reward.

A hypothesis says what was fed (feeds.py), to which weights, where the reward was read, and what was
done with the number (readings.py). Those with one cause come first, then pairs. A cause is named
only if it reproduces every reward.
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
from numpy.linalg import norm
from scipy.stats import ks_2samp

from ... import InputError
from ...models import checkpoints, reward_models
from ...scoring.reply_files import read_replies
from ...show.display import show_token
from ...tables import registry
from .feeds import Cause, Feed, Feeds
from .readings import TOLERANCES, Array, Reader, numbers, open_reader, other_weights, places

# rows on which causes are tried before all: the shortest, which truncation leaves alone, and the
# longest
SCREENED = 6
SIZES = (2, 3, 4, 8, 16, 32, 64)  # of batches
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # to which texts are truncated as a rule
# of truncation that are tried between the longest row that agrees and the shortest that does not
MOST_LENGTHS = 200
# of the standard deviation of rewards: below it, errors of half precision are told from other
# causes
SMALL = 0.05
EVIDENCE = 8.0  # powers of ten by which an agreement of all rows by chance must be improbable
MANTISSA = {"bfloat16": 8, "float16": 11, "float32": 24}  # bits of a number
REWARDS = ("reward", "rewards", "score", "scores")  # names of the column


class Fit(NamedTuple):
    """A hypothesis: its causes, the rewards that it predicts, (n,), and its error as a share of
    what is allowed.
    """

    causes: tuple[Cause, ...]
    predicted: Array
    error: float
    feed: Feed = Feed((), ())
    free: int = 0  # constants that were estimated
    kind: tuple[Cause | None, ...] = ()  # the causes without these constants


@dataclass(frozen=True)
class Answer:
    """Why rewards differ. causes: none if they are equal; `fits` is False if none fits, and they
    are the nearest.
    """

    model: str
    causes: tuple[Cause, ...]
    fits: bool
    explained: float  # share of the mean difference from what is scored here
    precision: str
    same: list[str]  # other hypotheses of equally many causes that fit as well
    # a row for each text: prompt, reply, theirs, here, with the causes, left over
    table: pd.DataFrame

    @property
    def code(self) -> int:
        """Return 0 if rewards are equal, 1 if a cause is named, 2 if none fits."""
        return 2 if not self.fits else int(bool(self.causes))

    @property
    def line(self) -> str:
        """Return the answer in one line."""
        named = "t " + ", and it ".join(cause.text for cause in self.causes) if self.causes else ""
        if not self.fits:
            nearest = f"i{named}" if named else "what is scored here"
            return (
                f"None fits; nearest: {nearest} explains {max(0.0, self.explained):.0%} of the "
                "difference."
            )
        if not self.causes:
            return (
                "Equal: the other program's rewards are those that are scored here "
                f"({self.precision})."
            )
        also = f" The same numbers come from: {'; '.join(self.same[:3])}." if self.same else ""
        remedies = "; ".join(dict.fromkeys(cause.remedy for cause in self.causes))
        return f"I{named}. -> {remedies}.{also}"

    def as_json(self) -> str:
        """Return the answer as JSON."""
        causes = [{"text": cause.text, "remedy": cause.remedy} for cause in self.causes]
        about = {
            "model": self.model,
            "verdict": ("equal", "named", "none fits")[self.code],
            "code": self.code,
            "line": self.line,
            "causes": causes,
            "same": self.same,
            "explained": self.explained,
            "precision": self.precision,
        }
        return json.dumps(about | {"rows": self.table.to_dict("records")}, indent=2)


# --- the search -----------------------------------------------------------------------------------


@dataclass
class Search:
    """The search for what another program did to give these rewards, (n,).

    - every: the feeds, of which the first is what is fed here
    - slack: how far each reward may be off by its printing and by its floating-point format, (n,)
    - groups: the number of the prompt of each row, (n,)
    - label: which output of the model is the reward here
    """

    reader: Reader
    feeds: Feeds
    every: list[Feed]
    theirs: Array
    slack: Array
    groups: Array
    label: int = 0
    noise: float = 0.0  # of the precision that is tried, on the model's own scale
    # only one cause then, as half precision is another one; the largest noise is 4 times this
    is_coarse: bool = False
    fits: list[Fit] = field(default_factory=list)
    nearest: Fit | None = None
    # Of a feed, the longest row that agrees and the shortest that does not, if longer: it may have
    # been truncated.
    partial: dict[Feed, tuple[int, int]] = field(default_factory=dict)

    def run(self, noise: float, others: Sequence[Reader], is_coarse: bool = False) -> list[Fit]:
        """Return hypotheses that fit within this noise: with one cause, or with two if nothing
        simpler fits.
        """
        self.noise, self.is_coarse, self.fits, self.partial = noise, is_coarse, [], {}
        single = [feed for feed in self.every if len(feed.causes) < 2]
        self.consider(self.reader, single[0])
        if not is_coarse and not all(fit.causes for fit in self.fits):
            return self.fits  # equal
        tried = [
            *((self.reader, feed) for feed in single[1:]),
            *self._further(single[0], others, LENGTHS),
        ]
        self._screen(tried, "")
        # what the few rows do not tell, such as means over the replies to a prompt
        if not self.fits:
            announce(self.reader, [feed for _, feed in tried], " more, for all rows")
            for reader, feed in tried:
                self.consider(reader, feed)
        if is_coarse or any(len(fit.causes) < 2 for fit in self.fits):
            return self.fits
        pairs = [(self.reader, feed) for feed in self.every if len(feed.causes) == 2]
        for feed in single[1:]:
            pairs += self._further(feed, others, ()) if feed.is_own or feed in self.partial else []
        self._screen(pairs, " more, for pairs of causes")
        return self.fits

    def _screen(self, some: Sequence[tuple[Reader, Feed]], what: str) -> None:
        """Try feeds on a few rows, and those that fit these on all."""
        by_length = np.argsort([len(each.ids) for each in self.every[0].inputs], kind="stable")
        rows = np.sort(
            np.r_[by_length[: SCREENED // 2], by_length[SCREENED // 2 :][-SCREENED // 2 :]]
        )
        announce(self.reader, [_part(feed, rows) for _, feed in some], what)
        for reader, feed in some:
            if self.consider(reader, feed, rows) and len(rows) < len(self.theirs):
                self.consider(reader, feed)

    def _further(
        self, feed: Feed, others: Sequence[Reader], lengths: Sequence[int]
    ) -> Iterator[tuple[Reader, Feed]]:
        """Yield a feed with other weights, in padded batches, and truncated: to these lengths,
        or where rows differ.
        """
        yield from ((reader, feed) for reader in others)
        for size in [size for size in SIZES if size < len(self.theirs)] + [len(self.theirs)]:
            yield from ((self.reader, padded) for padded in self.feeds.padded(feed, size))
        longest = max(len(each.ids) for each in feed.inputs)
        low, high = self.partial.get(feed, (0, 0))
        for length in dict.fromkeys([*range(low, min(high, low + MOST_LENGTHS)), *lengths]):
            if 4 <= length < longest:
                yield from ((self.reader, cut) for cut in self.feeds.truncated(feed, length))

    def consider(self, reader: Reader, feed: Feed, rows: Array | None = None) -> bool:
        """Try every place and number with a feed on all rows or some; return whether one fits.
        Keep what fits all.
        """
        rows = np.arange(len(self.theirs)) if rows is None else rows
        where, rewards = places(reader, _part(feed, rows))  # (places, n, labels)
        theirs, is_whole, is_fitting = self.theirs[rows], len(rows) == len(self.theirs), False
        label = self.label if self.label < rewards.shape[-1] else 0
        with np.errstate(all="ignore"):  # a gate without a place to read gives no number
            for text, predicted, slope, free, remedy in numbers(
                rewards, theirs, label, self.groups[rows]
            ):
                cause = Cause(text, remedy) if text else None
                before = (*reader.cause, *feed.causes)
                room = 2 - self.is_coarse - len(before) - (cause is not None)
                if room < 0:
                    continue
                allowed = self.slack[rows] + self.noise * slope  # (n,) or (places, n)
                apart = np.nan_to_num(np.abs(predicted - theirs), nan=np.inf)  # (places, n)
                allowed = np.broadcast_to(allowed, apart.shape)
                spread = np.minimum(predicted.std(axis=1), theirs.std())
                evidence = (len(theirs) - free) * np.log10(spread / allowed.mean(axis=1))
                error = (apart / allowed).max(axis=1)
                for i in np.flatnonzero(
                    (error <= 1 + 3 * self.is_coarse) & ((evidence >= EVIDENCE) | (not is_whole))
                ):
                    if len(where[i]) <= room:
                        is_fitting = True
                        causes = (
                            *before,
                            *where[i],
                            *_with_constants(cause, predicted[i], rewards[i, :, label]),
                        )
                        kind = (*before, *where[i], cause)
                        self.fits += [
                            Fit(causes, predicted[i], error[i], feed, free, kind)
                        ] * is_whole
                if is_whole and not free and spread[0] >= 0.1 * theirs.std():  # not a constant
                    causes = (*before, *([cause] if cause else ()))
                    self._keep_nearest(reader, feed, causes, apart[0], allowed[0], predicted[0])
        return is_fitting

    def _keep_nearest(
        self,
        reader: Reader,
        feed: Feed,
        causes: tuple,
        apart: Array,
        allowed: Array,
        predicted: Array,
    ) -> None:
        """Keep what is nearest at the usual place, and between which lengths a truncation may
        begin; all are (n,).
        """
        if self.nearest is None or apart.mean() < self.nearest.error:
            self.nearest = Fit(causes, predicted, float(apart.mean()))
        if reader is not self.reader:
            return
        agrees, lengths = apart <= allowed, np.array([len(each.ids) for each in feed.inputs])
        other = min(lengths[~agrees], default=0)
        if agrees.sum() >= 3 and max(lengths[agrees]) < other:
            self.partial[feed] = (int(max(lengths[agrees])), int(other))


def _part(feed: Feed, rows: Array) -> Feed:
    return replace(feed, inputs=tuple(feed.inputs[i] for i in rows))


def _with_constants(cause: Cause | None, predicted: Array, raw: Array) -> list[Cause]:
    """Return the cause, if any, with the constants that were estimated from predictions and
    rewards, (n,).
    """
    constants = {
        "scale": predicted[0] / raw[0],
        "shift": (predicted - raw).mean(),
        "mean": predicted.mean(),
        "spread": predicted.std(),
    }
    return [cause._replace(text=cause.text.format(**constants))] if cause else []


def announce(reader: Reader, feeds: list[Feed], what: str) -> None:
    """Print how many forward passes are needed, before they begin."""
    new = {each for feed in feeds for each in feed.inputs} - reader.known.keys()
    if new:
        print(f"{len(new):,} forward passes{what}.", file=sys.stderr)


# --- precision ------------------------------------------------------------------------------------


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
    """Return the floating-point format whose numbers all rewards are, as far as they were
    printed; its half steps.
    """
    for name in ("bfloat16", "float16"):
        step = 2.0 ** (np.frexp(rewards)[1] - MANTISSA[name])
        near = np.abs(np.round(rewards / step) * step - rewards) <= slack * 1.01
        if near.all() and np.log10(np.minimum(1, 2 * slack / step)).sum() < -EVIDENCE:
            return name, step / 2
    return "float32", np.zeros(len(rewards))


def in_half_precision(search: Search, noise: float, precision: str) -> tuple[list[Fit], str]:
    """Return hypotheses with one cause that fit if the other program computed in half precision,
    and in which.

    What fits float32 within the errors of that precision is computed again with rounded weights.
    `precision` is the format of the other program's numbers.
    """
    usual, model = places(search.reader, search.every[0])[1][0], search.reader.model  # (n, labels)
    for dtype in ("float16", "bfloat16") if precision == "float32" else (precision,):
        backbone = copy.deepcopy(model.backbone).to(getattr(torch, dtype))
        rounded = Reader(replace(model, backbone=backbone, dtype=dtype), search.reader.heads)
        error = norm(places(rounded, search.every[0])[1][0] - usual) / np.sqrt(usual.size)
        is_small = precision == dtype or error < SMALL * usual.std()
        exact = {fit.kind: fit for fit in search.run(noise + 1.5 * error, [], is_coarse=True)}
        again = replace(search, reader=rounded, fits=[])
        for feed in dict.fromkeys(fit.feed for fit in exact.values()):
            again.consider(rounded, feed)
        fits = []
        for fit in again.fits:
            in_float32 = exact.get(fit.kind, fit).predicted  # (n,)
            if is_rounding(search.theirs - in_float32, fit.predicted - in_float32, is_small):
                fits.append(fit)
        if fits:
            return sorted(fits, key=lambda fit: fit.error), dtype
    return [], precision


def is_rounding(apart: Array, rounding: Array, is_small: bool) -> bool:
    """Return whether rewards that are so far apart from those of float32 were rounded, as here or
    elsewhere; (n,) each.

    As here: rounding explains a tenth of the distance. Machines and batches round differently, so
    where rounding is small (`is_small`) it is enough that both are equally far, in size and in
    distribution.
    """
    if norm(apart - rounding) < 0.9 * norm(apart):
        return True
    is_as_far = 0.5 * norm(rounding) < norm(apart) < 1.6 * norm(rounding)
    return bool(is_small and is_as_far and ks_2samp(np.abs(apart), np.abs(rounding)).pvalue > 0.01)


# --- the answer -----------------------------------------------------------------------------------


def explain(
    name: str,
    rows: pd.DataFrame,
    *,
    bos: str = "single",
    template: str | None = None,
    label: int | None = None,
    **options: Any,
) -> Answer:
    """Return why these rewards differ from the model's.

    - rows: context and reply, as from reply_files.read_replies, and `printed`, the other program's
      rewards as texts
    - bos, label and the options are as for scoring; template is a file with a chat template that is
      tried too
    """
    entry, given = (
        reward_models.find(name),
        {} if registry.is_served(name) else {"dtype": "float32"},
    )
    given |= {option: value for option, value in options.items() if value is not None}
    try:
        reader = open_reader(name, label, given)
    except InputError:
        if template is None:
            raise
        given["template"] = template  # of a tokenizer that has none of its own
        reader = open_reader(name, label, given)
    theirs, slack = rows["printed"].astype(float).to_numpy(), printed_to(rows["printed"].tolist())
    printed, step = format_of(theirs, slack)
    turns = [
        [*json.loads(context), {"role": "assistant", "content": reply}]
        for context, reply in zip(rows["context"], rows["reply"], strict=True)
    ]
    feeds = Feeds(reader.model, turns, bos, template)
    search = Search(
        reader,
        feeds,
        feeds.every(),
        theirs,
        slack + step,
        rows["context"].factorize()[0],
        label or 0,
    )
    usual = places(reader, search.every[0])[1][0]  # (n, labels)
    here, noise = usual[:, search.label], TOLERANCES["float32"] * float(np.abs(usual).max())
    if (theirs == 1).all() and np.abs(here - 1).max() > 0.1:
        one = Cause(
            "applied the softmax to a single output, which always gives 1",
            "switch the activation off there",
        )
        return _answer(entry["nickname"], rows, here, [Fit((one,), theirs, 0.0)], printed)
    fits, precision = search.run(noise, list(other_weights(name, label, reader, given))), printed
    assert reader.model.files is not None
    if not reader.model.is_served:  # whose precision is unknown
        if not fits:
            fits, precision = in_half_precision(search, noise, printed)
        config = checkpoints.config_of(reader.model.files.folder)
        if precision not in (
            "float32",
            checkpoints.dtype_for(entry["dtype"], reader.model.device, config),
        ):
            size = ", or with errors of its size" * (precision != printed)
            cause = Cause(
                f"computed in {precision}{size}",
                f"compute in float32 there, or say --dtype {precision} here",
            )
            fits = [fit._replace(causes=(*fit.causes, cause)) for fit in fits]
    return _answer(
        entry["nickname"],
        rows,
        here,
        fits or [search.nearest or Fit((), here, 0.0)],
        precision,
        bool(fits),
    )


def _answer(
    name: str, rows: pd.DataFrame, here: Array, fits: list[Fit], precision: str, found: bool = True
) -> Answer:
    first, *others = sorted(
        fits, key=lambda fit: (len(fit.causes), fit.free, -len(fit.feed.causes))
    )
    as_simple = [
        fit for fit in others if len(fit.causes) == len(first.causes) and fit.free <= first.free
    ]
    same = dict.fromkeys(" and ".join(cause.text for cause in fit.causes) for fit in as_simple)
    theirs = rows["printed"].astype(float).to_numpy()
    left, difference = np.abs(theirs - first.predicted), np.abs(theirs - here)
    asked = [json.loads(text)[-1]["content"] for text in rows["context"]]
    table = pd.DataFrame(
        {
            "prompt": asked,
            "reply": rows["reply"],
            "theirs": theirs,
            "here": here,
            "with the causes": first.predicted,
            "left over": left,
        }
    )
    explained = 1 - left.mean() / difference.mean() if difference.mean() else 1.0
    return Answer(name, first.causes, found, float(explained), precision, list(same), table)


def read_rewards(file: Path) -> pd.DataFrame:
    """Return the rows of a file with texts and rewards, as `explain` takes them. InputError if
    there are none.
    """
    rows = read_replies(file)
    named = [name for name in REWARDS if name in rows]
    if len(named) != 1:
        raise InputError(
            f"{file} has no column, or two, of {', '.join(REWARDS)}; name one of them so, the "
            "rewards"
        )
    printed = rows[named[0]].astype(str)
    numbers = pd.to_numeric(printed, errors="coerce")
    if not np.isfinite(numbers).all():
        number = int(np.flatnonzero(~np.isfinite(numbers))[0]) + 1
        raise InputError(
            f"{file}, row {number}: the reward {printed.iloc[number - 1]!r} is no number; correct "
            "it"
        )
    if len(rows) < 3:
        raise InputError(
            f"{file} has {len(rows)} rows, from which nothing can be told; give ten, or better "
            "thirty"
        )
    return rows.assign(printed=printed.str.strip())


def why(
    name: str, rewards: str, as_json: bool = False, template: str | None = None, **options: Any
) -> int:
    """Print why another program's rewards, in a file, differ from the model's. Return the code
    of the answer.
    """
    answer = explain(name, read_rewards(Path(rewards)), template=template, **options)
    if as_json:
        print(answer.as_json())
        return answer.code
    texts = answer.table[["prompt", "reply"]].map(
        lambda text: show_token(text, 30).replace("␣", " ")
    )
    table = answer.table.assign(**texts)
    print(answer.line, "", table.to_string(index=False, float_format="{:.5g}".format), sep="\n")
    return answer.code
