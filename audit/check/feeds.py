"""What another program may feed a reward model in place of what is fed here: the hypotheses of
`why` and `check`.

One thing is unlike what is fed here: the source of texts (sources.py), the number of
beginning-of-sequence tokens, or what closes the reply. Feeds may also be truncated or padded.
"""

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from ..paper import InputError, RewardModel
from ..paper import conversations as models_conversations
from ..preflight import Change, change_by_class
from ..reading.encoders import token_types
from .report import shown
from .sources import Cause, Sources, Texts, other_ends

COUNTS = (
    "no beginning-of-sequence token",
    "one beginning-of-sequence token",
    "two beginning-of-sequence tokens",
)
CLOSE = "close the reply there as the template does"
LIKE_OPENRLHF = (
    "if OpenRLHF trained the model, end its template in {{ ' ' + eos_token }} and no line break, "
    "and score with --template here; if not, close the reply there as the template does"
)
# side, and whether the padding is masked
WAYS = (("right", False), ("right", True), ("left", True), ("left", False))
SIZES = range(2, 65)  # of batches
MULTIPLES = (8, 16, 32, 64, 128)  # to which texts are padded as a rule


class Input(NamedTuple):
    """What a model reads: ids, their attention mask if it is not all ones, and token types of an
    encoder.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    types: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Feed:
    """The inputs of some rows, and the cause that leads to them: None for what is fed here.

    is_padded: whether they are padded; rewards are then read at the last position
    """

    cause: Cause | None
    inputs: tuple[Input, ...]
    is_padded: bool = False

    def of_rows(self, rows: Iterable[int]) -> "Feed":
        """Return the feed of some rows."""
        return replace(self, inputs=tuple(self.inputs[i] for i in rows))


class Feeds:
    """The feeds of conversations, each a list of turns that ends with the reply."""

    def __init__(
        self,
        model: RewardModel,
        conversations: Sequence[models_conversations.Turns],
        bos: str,
    ):
        self.model = model
        self.tokenizer = model.tokenizer
        self.bos = bos
        self.turns = list(conversations)
        self.pairs = [[turn["content"] for turn in turns[-2:]] for turns in self.turns]
        self.is_encoder = model.read_at == "pooled"
        types = getattr(model.backbone.config, "type_vocab_size", 0)
        self.has_types = self.is_encoder and types > 1
        self.sources = Sources(model, self.turns)
        # one beginning-of-sequence token, what the tokenizer writes at the end, and whether it
        # writes that beginning
        self.lead, self.tail, self.adds = ends_of(self.tokenizer)
        replies = [turns[-1]["content"] for turns in self.turns]
        fed = {option: self.fed(replies, option) for option in models_conversations.BOS}
        self.of_option = fed
        # what is fed here
        self.base = fed[bos]
        lengths = [len(each.ids) for each in self.base]
        self.longest = max(positions_of(model), *lengths)
        # how many beginning-of-sequence tokens there are, by each option, and here
        self.by_option = {
            option: self.leading(inputs[0].ids) for option, inputs in fed.items()
        }
        self.count = self.by_option[bos]
        # what stands behind the rendered texts
        self.end = self.tail
        if self.own:
            [plain] = self.inputs(self.own_wholes()[:1], self.count, [])
            self.end = list(self.base[0].ids[len(plain.ids) :])

    @property
    def own(self) -> Texts:
        """The texts of the model's own template; none for an encoder that reads pairs."""
        return self.sources.own

    def fed(self, replies: list[str], bos: str) -> tuple[Input, ...]:
        """Return what is fed here with these replies in place of the rows' own."""
        fed = []
        for turns, reply in zip(self.turns, replies, strict=True):
            conversation = self.model.conversation(turns[:-1], bos)
            [ids] = self.model.encode(conversation, [reply])
            types = token_types(self.model, conversation, len(ids))
            fed.append(Input(tuple(ids), types=tuple(types) or None))
        return tuple(fed)

    def is_readable(self, feed: Feed) -> bool:
        """Return whether the model can read these inputs: none is empty, none is longer than its
        positions (or than what is fed here), and all ids have an embedding.
        """
        rows = getattr(self.model.backbone.config, "vocab_size", math.inf)
        return all(
            0 < len(each.ids) <= self.longest
            and 0 <= min(each.ids) <= max(each.ids) < rows
            for each in feed.inputs
        )

    def others(self) -> Iterator[Feed]:
        """Yield what may be fed in place of what is fed here."""
        for cause, inputs in self._every():
            if inputs:
                yield Feed(cause, inputs)

    def _every(self) -> Iterator[tuple[Cause, tuple[Input, ...]]]:
        yield from self._of_pairs()
        if self.own:
            yield from self._of_class()
            yield from self._added_ends()
            texts = self.own_wholes()
            ends = {self.by_option["none"]: [], self.by_option["double"]: self.tail}
            for count in range(2 if self.is_encoder else 3) if self.lead else ():
                if count != self.count:
                    given = self.inputs(texts, count, ends.get(count, self.end))
                    yield self._bos(count), given
            for cause, end in self._closings(self.own[0][1]):
                ended = [start + end for start in self.without_bos(self.own)]
                yield cause, self.inputs(ended, self.count, self.end)
        for count, behind, sources in (
            (self.count, self.end, self.sources.of_template()),
            (self.adds, self.tail, self.sources.formats()),
        ):
            for cause, rendered in sources:
                starts = self.without_bos(rendered)
                wholes = [
                    start + end
                    for start, (_, end) in zip(starts, rendered, strict=True)
                ]
                yield cause, self.inputs(wholes, count, behind)

    def without_bos(self, texts: Texts) -> list[str]:
        """Return texts up to the end of the reply, without the beginning-of-sequence tokens."""
        bos = re.compile(f"^({re.escape(self.tokenizer.bos_token or '')})+")
        return [bos.sub("", before) for before, _ in texts]

    def inputs(self, texts: list[str], count: int, end: list[int]) -> tuple[Input, ...]:
        """Return what texts are read as after this many beginning-of-sequence tokens and before
        these ids.
        """
        if not texts:
            return ()
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return as_inputs(self.lead * count + ids + end for ids in encoded)

    def leading(self, ids: Sequence[int]) -> int:
        """Return with how many beginning-of-sequence tokens these ids start."""
        count = 0
        n = len(self.lead)
        while n and list(ids[count * n : count * n + n]) == self.lead:
            count += 1
        return count

    @cached_property
    def change(self) -> Change | None:
        """Return what the tokenizer's class in transformers changes of tokenizer.json; None if
        it changes nothing.
        """
        if self.model.files is None:
            return None
        return change_by_class(self.model.files.folder)

    # --- what stands around the texts -------------------------------------------------------------

    def _bos(self, count: int) -> Cause:
        remedy = f"let it feed {self.count} there"
        options = [name for name, number in self.by_option.items() if number == count]
        if options:
            remedy += f", or say --bos {options[0]} here"
        # apply_chat_template(tokenize=True) gives the template's; the rendered text, tokenised,
        # also the tokenizer's
        is_usual = count in (self.by_option["none"], self.by_option["double"])
        return Cause(f"fed {COUNTS[count]}", remedy, "token ids" if is_usual else "")

    def _added_ends(self) -> Iterator[tuple[Cause, tuple[Input, ...]]]:
        """Yield what is fed by another option that differs at the end alone, where the tokenizer
        adds tokens.
        """
        for option, inputs in self.of_option.items():
            if inputs != self.base and self.by_option[option] == self.count:
                is_longer = len(inputs[0].ids) > len(self.base[0].ids)
                end = shown(self.tokenizer, tuple(self.tail))
                text = f"{'added' if is_longer else 'left out'} {end} of the tokenizer at the end"
                yield Cause(text, "end the ids there as here", "token ids"), inputs

    def own_wholes(self) -> list[str]:
        """Return the model's own texts without what the rendered text begins with."""
        end = self.own[0][1]
        return [start + end for start in self.without_bos(self.own)]

    def _closings(self, after: str) -> Iterator[tuple[Cause, str]]:
        """Yield what may close a reply in place of this."""
        yield from self._end_tokens(after)
        for end, other in other_ends(self.tokenizer, after):
            text = f"ended the reply's turn with {other} in place of {end}"
            yield Cause(text, CLOSE), after.replace(end, other)
        prompted = after + self._generation_prompt(after)
        yield Cause("appended a generation prompt", CLOSE), prompted

    def _end_tokens(self, after: str) -> Iterator[tuple[Cause, str]]:
        eos = self.tokenizer.eos_token or ""
        pad = self.tokenizer.pad_token or ""
        bare = after.rstrip("\n")
        if eos and not bare.endswith(eos):
            text = f"appended a blank and the end token {eos} (OpenRLHF)"
            row = "template" if is_of_openrlhf(self.model) else ""
            yield Cause(text, LIKE_OPENRLHF, row), f"{bare} {eos}"
        for text, end in (
            ("cut what closes the reply", ""),
            ("cut the line break after the reply's turn", bare),
            (f"appended the end token {eos}", after + eos),
            (f"appended the end token {eos} twice", after + 2 * eos),
            (f"appended the end token {eos} in place of the line break", bare + eos),
            (f"closed the reply with the end token {eos} alone", eos),
            (f"appended the padding token {pad}", after + pad),
        ):
            yield Cause(text, CLOSE), end

    def _generation_prompt(self, after: str) -> str:
        """Return what the template opens for an answer, after the model's own closing."""
        [prompted] = models_conversations.apply_template(
            self.tokenizer, [self.turns[0]], add_generation_prompt=True
        )
        if after and after in prompted:
            return prompted.rpartition(after)[2]
        return ""

    def _of_class(self) -> Iterator[tuple[Cause, tuple[Input, ...]]]:
        """Yield what a program feeds that takes the ids of the tokenizer's class in
        transformers.
        """
        if self.change is None:
            return
        other = self.change.other
        cause = Cause(
            f"took the ids of transformers' {type(other).__name__}, which differ from those of "
            "tokenizer.json",
            "open it with PreTrainedTokenizerFast there",
        )
        encoded = other(self.own_wholes(), add_special_tokens=False)["input_ids"]
        start = self.lead * self.count
        yield cause, as_inputs(start + ids + self.end for ids in encoded)

    def _of_pairs(self) -> Iterator[tuple[Cause, tuple[Input, ...]]]:
        """Yield what an encoder that reads the pair (prompt, reply) may be fed."""
        if self.tokenizer.chat_template:
            return
        swapped = [pair[::-1] for pair in self.pairs]
        swap = Cause("fed the reply before the prompt", "feed the pair (prompt, reply)")
        yield swap, self._of_each_pair(swapped)
        untyped = tuple(each._replace(types=None) for each in self.base)
        yield Cause("fed no token types", "pass token_type_ids"), untyped
        none = Cause("fed no special tokens", "tokenise with add_special_tokens=True")
        yield none, self._of_each_pair(self.pairs, add_special_tokens=False)

    def _of_each_pair(
        self, pairs: list[list[str]], **options: Any
    ) -> tuple[Input, ...]:
        """Return pairs of texts as an encoder reads them, with the tokenizer's token types."""
        inputs = []
        for pair in pairs:
            read = self.tokenizer(*pair, **options)
            types = read.get("token_type_ids") if self.has_types else None
            inputs.append(Input(tuple(read["input_ids"]), types=types and tuple(types)))
        return tuple(inputs)

    # --- truncation and padding -------------------------------------------------------------------

    def counted(self, number: int) -> Iterator[Feed]:
        """Yield what is fed here, changed in a way that a number describes: truncated to so many
        tokens, padded to so many, or with replies of so many tokens or characters.
        """
        yield from self._truncated(number)
        yield from self._padded([number] * len(self.base), f"texts to {number} tokens")
        replies = [turns[-1]["content"] for turns in self.turns]
        encoded = self.tokenizer(replies, add_special_tokens=False)["input_ids"]
        by_unit = {
            "tokens": [self.tokenizer.decode(ids[:number]) for ids in encoded],
            "characters": [reply[:number] for reply in replies],
        }
        for unit, cut in by_unit.items():
            text = f"cut replies to {number} {unit}"
            cause = Cause(text, f"let it read more than {number} {unit}")
            # a template may refuse an empty reply
            with contextlib.suppress(InputError):
                yield Feed(cause, self.fed(cut, self.bos))

    def _truncated(self, length: int) -> Iterator[Feed]:
        """Yield what is fed here truncated to this many tokens: on the left, with and without the
        beginning-of-sequence tokens, or the longer one of an encoder's two texts on the right.

        A decoder's states do not depend on what follows, so truncation on the right is another
        place to read.
        """
        remedy = f"let it read more than {length} tokens"
        if not self.own:
            cause = Cause(f"truncated the end to {length} tokens", remedy)
            # one part may be too short to be cut that far
            with contextlib.suppress(Exception):
                read = self._of_each_pair(
                    self.pairs, truncation=True, max_length=length
                )
                yield Feed(cause, read)
            return
        cause = Cause(f"truncated the beginning to {length} tokens", remedy)
        for first in {0, self.count * len(self.lead)}:
            if first < length:
                cut = [
                    given.ids[:first] + given.ids[first - length :]
                    if len(given.ids) > length
                    else given.ids
                    for given in self.base
                ]
                yield Feed(cause, as_inputs(cut))

    def in_batches(self) -> Iterator[Feed]:
        """Yield what is fed here in padded batches, or padded to a multiple of some length."""
        n = len(self.base)
        for size in (*[size for size in SIZES if size < n], n):
            yield from self.batched(size)
        for multiple in MULTIPLES:
            widths = [-(-len(each.ids) // multiple) * multiple for each in self.base]
            what = f"texts to a multiple of {multiple} tokens"
            yield from self._padded(widths, what)

    def batched(self, size: int) -> Iterator[Feed]:
        """Yield what is fed here in padded batches of this size."""
        lengths = [len(each.ids) for each in self.base]
        starts = [i - i % size for i in range(len(lengths))]
        widths = [max(lengths[start : start + size]) for start in starts]
        yield from self._padded(widths, f"batches of {size}")

    def _padded(self, widths: list[int], what: str) -> Iterator[Feed]:
        """Yield what is fed here padded to these widths: on the right and read at the end, and on
        the left.

        For an encoder: on the right without a mask.
        """
        lengths = [len(each.ids) for each in self.base]
        spares = np.maximum(0, np.subtract(widths, lengths))
        if not spares.any():
            return
        theirs = self.tokenizer.pad_token_id
        configured = self.model.pad_token_id
        choices = (theirs, configured, self.tokenizer.eos_token_id, 0)
        pad = next(i for i in choices if i is not None)
        for side, is_masked in WAYS[:1] if self.is_encoder else WAYS:
            inputs = tuple(
                with_padding(each, spare, pad, side, is_masked)
                for each, spare in zip(self.base, spares, strict=True)
            )
            how = "" if self.is_encoder or side == "left" else " and read at the end"
            if not is_masked:
                how += ", without a mask"
            # transformers' own class reads there if it does not know the tokenizer's padding token
            is_unknown = configured is None or theirs not in (None, configured)
            is_usual = is_masked and (side == "left" or is_unknown)
            cause = Cause(
                f"padded {what} on the {side}{how}",
                "score one text at a time there",
                "pad token" if is_usual else "",
            )
            yield Feed(cause, inputs, is_padded=True)


def is_of_openrlhf(model: RewardModel) -> bool:
    """Return whether the configuration or the head of a checkpoint names OpenRLHF."""
    fields = vars(model.backbone.config).keys() & {
        "normalize_reward",
        "value_head_prefix",
    }
    keys = model.files.tensors if model.files else ()
    return bool(fields) or any(key.startswith("value_head.") for key in keys)


def as_inputs(ids: Iterable[Sequence[int]]) -> tuple[Input, ...]:
    """Return ids of all rows as inputs without padding."""
    return tuple(Input(tuple(each)) for each in ids)


def positions_of(model: RewardModel) -> float:
    """Return how many tokens the model's config has positions for."""
    config = model.backbone.config
    most = getattr(config, "max_position_embeddings", None) or math.inf
    encoder = getattr(model.backbone, "base_model", None)
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    # RoBERTa's positions begin behind the row of the padding token
    padding = getattr(table, "padding_idx", None)
    return most if padding is None else most - padding - 1


def ends_of(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int], int]:
    """Return the ids of one beginning of sequence, what the tokenizer writes at the end, and how
    many beginnings it writes.
    """
    [word] = tokenizer(["a"], add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")
    ids = whole["input_ids"]
    n = len(word)
    starts = (i for i in range(len(ids)) if ids[i : i + n] == word)
    start = next(starts, 0)
    tail = ids[start + n :]
    if start:
        return ids[:start], tail, 1
    bos_id = tokenizer.bos_token_id
    return [] if bos_id is None else [bos_id], tail, 0


def with_padding(
    given: Input, spare: int, pad: int, side: str, is_masked: bool
) -> Input:
    """Return an input with so many padding tokens on one side."""

    def filled(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        added = (value,) * spare
        return added + values if side == "left" else values + added

    mask = filled((1,) * len(given.ids), 1 - is_masked)
    types = given.types and filled(given.types, 0)
    return Input(filled(given.ids, pad), mask, types)
