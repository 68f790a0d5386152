"""What another program may feed a reward model in place of what is fed here: the hypotheses of
`why` and `check`.

A feed is a source of texts (sources.py), a number of beginning-of-sequence tokens, and what closes
the reply. Each of these that differs from what is fed here is a cause. Feeds may also be truncated
or padded.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from ..paper import RewardModel
from ..paper import conversations as models_conversations
from ..paper import models_tokenizers as tokenizers
from .sources import Cause, Sources, Texts, other_ends

COUNTS = (
    "no beginning-of-sequence token",
    "one beginning-of-sequence token",
    "two beginning-of-sequence tokens",
)
CLOSE = "close the reply there as the template does"
# side, and whether the padding is masked
WAYS = (("right", False), ("right", True), ("left", True), ("left", False))
MULTIPLES = (8, 16, 32, 64, 128)  # to which texts are padded as a rule
UNITS = ("tokens", "characters")  # to whose number a reply may be cut


class Input(NamedTuple):
    """What a model reads: ids, their attention mask if it is not all ones, and token types of an
    encoder.
    """

    ids: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    types: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Feed:
    """The inputs of all rows, and the causes that lead to them: none for what is fed here.

    is_own: whether they are texts of the model's own template, with another beginning or end
    is_padded: whether they are padded; rewards are then read at the last position
    """

    causes: tuple[Cause, ...]
    inputs: tuple[Input, ...]
    is_own: bool = False
    is_padded: bool = False

    def of_rows(self, rows: Iterable[int]) -> "Feed":
        """Return the feed of some rows."""
        inputs = tuple(self.inputs[i] for i in rows)
        return Feed(self.causes, inputs, self.is_own, self.is_padded)


Wanted = Callable[[tuple[Cause, ...]], bool]


class Feeds:
    """The feeds of conversations, each a list of turns that ends with the reply. template: a
    file with another one.
    """

    def __init__(
        self,
        model: RewardModel,
        conversations: Sequence[models_conversations.Turns],
        bos: str,
        template: str | None = None,
    ):
        self.model = model
        self.tokenizer = model.tokenizer
        self.bos = bos
        self.turns = list(conversations)
        self.template = template
        self.is_encoder = model.read_at == "pooled"
        self.sources = Sources(model, self.turns, template)
        # one beginning-of-sequence token, and what the tokenizer writes at the end
        self.lead, self.tail, self.adds = ends_of(self.tokenizer)
        self.base = self._base()  # what is fed here
        # How many beginning-of-sequence tokens there are here, by the tokenizer alone, and by each
        # option BOS
        self.count = self.leading(self.base[0].ids)
        alone = 0
        if self.own:
            [first] = self.ids([self.own[0][0]], 0)
            alone = self.leading(first)
        both = alone + self.adds
        single = both - bool(alone and self.adds)
        self.by_option = {"none": alone, "single": single, "double": both}

    @property
    def own(self) -> Texts:
        """The texts of the model's own template; none for an encoder that reads pairs."""
        return self.sources.own

    def of_rows(self, rows: Iterable[int]) -> "Feeds":
        """Return the feeds of some rows."""
        turns = [self.turns[i] for i in rows]
        return Feeds(self.model, turns, self.bos, self.template)

    def _base(self) -> tuple[Input, ...]:
        contexts = [turns[:-1] for turns in self.turns]
        replies = [[turns[-1]["content"]] for turns in self.turns]
        config = self.model.backbone.config
        has_types = self.is_encoder and getattr(config, "type_vocab_size", 0) > 1
        base = []
        for inputs in self.model.inputs_for_rows(contexts, replies, self.bos):
            ids = inputs.prefix_ids + inputs.suffixes[0]
            types = None
            if has_types:
                second = len(inputs.conversation.prefix_ids)
                types = tuple(int(i >= second) for i in range(len(ids)))
            base.append(Input(ids, types=types))
        return tuple(base)

    def every(self, is_wanted: Wanted = lambda causes: True) -> list[Feed]:
        """Return all feeds with at most two causes, those with fewer first. What is fed here is
        the first.

        is_wanted: whether feeds with these causes are needed
        """
        # of feeds with the same inputs the first counts: no token types, before a format
        further = [*self._of_pairs(), *self._of_class()]
        made = [Feed((), self.base, True)]
        made += [feed for feed in further if is_wanted(feed.causes)]
        made += self._with_ends(None, self.own, is_wanted)
        for source, texts in self.sources.every():
            if is_wanted((source,)):
                made += self._with_ends(source, texts() or [], is_wanted)
        feeds: dict[tuple[Input, ...], Feed] = {}
        for feed in sorted(made, key=lambda feed: len(feed.causes)):
            feeds.setdefault(feed.inputs, feed)
        return list(feeds.values())

    def _with_ends(
        self, source: Cause | None, texts: Texts, is_wanted: Wanted
    ) -> Iterator[Feed]:
        """Yield texts with each number of beginning-of-sequence tokens and each closing."""
        is_own = source is None
        usual = self.count if is_own else self.adds
        most = 2 if self.is_encoder else 3
        counts = range(most) if self.lead else (0,)
        for closing, wholes in self.closings(texts, is_own):
            for count in counts:
                bos = self._bos(count) if count != usual else None
                causes = tuple(cause for cause in (source, bos, closing) if cause)
                if 0 < len(causes) <= 2 and is_wanted(causes):
                    ids = self.ids(wholes, count)
                    yield Feed(causes, as_inputs(ids), is_own)

    def ids(self, texts: list[str], count: int) -> list[list[int]]:
        """Return the ids of texts after this many beginning-of-sequence tokens."""
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        if not count:
            return encoded
        return [self.lead * count + ids + self.tail for ids in encoded]

    def leading(self, ids: Sequence[int]) -> int:
        """Return with how many beginning-of-sequence tokens these ids start."""
        count = 0
        n = len(self.lead)
        while n and list(ids[count * n : count * n + n]) == self.lead:
            count += 1
        return count

    @cached_property
    def change(self) -> tokenizers.Change | None:
        """Return what the tokenizer's class in transformers changes of tokenizer.json; None if
        it changes nothing.
        """
        files = getattr(self.model, "files", None)
        if files is None:
            return None
        _, change = tokenizers.open_as_file_says(files)
        return change

    # --- what stands around the texts -------------------------------------------------------------

    def _bos(self, count: int) -> Cause:
        text = f"fed {COUNTS[count]}"
        remedy = f"let it feed {self.count} there"
        if not self.own:
            return Cause(text, remedy)
        options = [name for name, number in self.by_option.items() if number == count]
        if options:
            remedy += f", or say --bos {options[0]} here"
        # apply_chat_template(tokenize=True) gives the template's; the rendered text, tokenised,
        # also the tokenizer's
        usual = (self.by_option["none"], self.by_option["double"])
        is_usual = count in usual
        return Cause(text, remedy, "token ids" if is_usual else "")

    def closings(
        self, texts: Texts, is_own: bool
    ) -> Iterator[tuple[Cause | None, list[str]]]:
        """Yield the whole texts with what may close a reply. The first is what the source itself
        writes.
        """
        if not texts:
            return
        bos = re.compile(f"^({re.escape(self.tokenizer.bos_token or '')})+")
        starts = [bos.sub("", before) for before, _ in texts]
        after = texts[0][1]
        ends: list[tuple[Cause | None, str]] = [(None, after)]
        if is_own and self.model.opened:
            ends += self._opened_turns(after, self.model.opened.text)
        ends += self._end_tokens(after)
        others = other_ends(self.tokenizer, after) if is_own else ()
        for end, other in others:
            text = f"ended the reply's turn with {other} in place of {end}"
            replaced = after.replace(end, other)
            ends.append((Cause(text, CLOSE), replaced))
        if after and self.own:
            prompted = after + self._generation_prompt
            ends.append((Cause("appended a generation prompt", CLOSE), prompted))
        used = set()
        for cause, end in ends:
            if end not in used:
                used.add(end)
                yield cause, [start + end for start in starts]

    def own_wholes(self) -> list[str]:
        """Return the model's own texts without what the rendered text begins with."""
        return next(self.closings(self.own, True))[1]

    def _opened_turns(self, after: str, opened: str) -> Iterator[tuple[Cause, str]]:
        turn = "the turn that the template opens after the reply"
        trimmed = after.removesuffix(opened)
        for verb, option, end in (
            ("left out", "trim", trimmed),
            ("kept", "rendered", trimmed + opened),
        ):
            remedy = f"say --closing {option} here, or {CLOSE}"
            yield Cause(f"{verb} {turn}", remedy, "template"), end

    def _end_tokens(self, after: str) -> Iterator[tuple[Cause, str]]:
        eos = self.tokenizer.eos_token or ""
        pad = self.tokenizer.pad_token or ""
        bare = after.rstrip("\n")
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

    @cached_property
    def _generation_prompt(self) -> str:
        """What the template opens for an answer, after the model's own closing."""
        after = self.own[0][1]
        [prompted] = self.tokenizer.apply_chat_template(
            [self.turns[0]],
            tokenize=False,
            date_string=models_conversations.DATE,
            add_generation_prompt=True,
        )
        if after and after in prompted:
            return prompted.rpartition(after)[2]
        return ""

    def _of_class(self) -> Iterator[Feed]:
        """Yield what a program feeds that takes the ids of the tokenizer's class in
        transformers.
        """
        if self.change is None:
            return
        other = self.change.other
        name = type(self.change.other).__name__
        cause = Cause(
            f"took the ids of transformers' {name}, which drops parts of tokenizer.json",
            "open it with PreTrainedTokenizerFast there",
            "tokenizer file",
        )
        if getattr(other, tokenizers.FIXED_PATTERN, False):
            cause = cause._replace(
                text=f"corrected the pattern of tokenizer.json ({tokenizers.FIXED_PATTERN}=True)",
                remedy="leave that option out there",
            )
        if self.own:
            encoded = other(self.own_wholes(), add_special_tokens=False)
            lead = self.lead * self.count
            ids = [lead + each for each in encoded["input_ids"]]
        else:
            ids = [other(*pair)["input_ids"] for pair in self._pairs]
        yield Feed((cause,), as_inputs(ids))

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        """The prompt and the reply of each row, as an encoder reads them."""
        last = [turns[-2:] for turns in self.turns]
        return [(prompt["content"], reply["content"]) for prompt, reply in last]

    def _of_pairs(self) -> Iterator[Feed]:
        """Yield what an encoder that reads the pair (prompt, reply) may be fed."""
        if self.tokenizer.chat_template:
            return
        swapped = []
        plain = []
        for prompt, reply in self._pairs:
            ids = self.tokenizer(reply, prompt)["input_ids"]
            swapped.append(ids)
            bare = self.tokenizer(prompt, reply, add_special_tokens=False)
            plain.append(bare["input_ids"])
        swap = Cause("fed the reply before the prompt", "feed the pair (prompt, reply)")
        yield Feed((swap,), as_inputs(swapped))
        if self.base[0].types:
            cause = Cause("fed no token types", "pass token_type_ids")
            untyped = tuple(each._replace(types=None) for each in self.base)
            yield Feed((cause,), untyped)
        none = Cause("fed no special tokens", "tokenise with add_special_tokens=True")
        yield Feed((none,), as_inputs(plain))

    # --- truncation and padding -------------------------------------------------------------------

    def counted(self, number: int) -> Iterator[Feed]:
        """Yield what is fed here, changed in a way that a number describes: truncated to so many
        tokens, padded to so many, or with replies of so many tokens or characters.
        """
        base = Feed((), self.base, True)
        yield from self.truncated(base, number)
        widths = [number] * len(self.base)
        yield from self.padded(base, widths, f"texts to {number} tokens")
        for unit in UNITS:
            yield from self._shortened(number, unit)

    def truncated(self, feed: Feed, length: int) -> Iterator[Feed]:
        """Yield a feed truncated to this many tokens: on the left, or for an encoder on the right.

        A decoder's states do not depend on what follows, so truncation on the right is another
        place to read.
        """

        def cut(side: str, first: int, last: int) -> Feed:
            inputs = []
            for each in feed.inputs:
                n = len(each.ids)
                if n > length:
                    shorter = each.ids[:first] + each.ids[n - last :]
                    each = Input(shorter)
                inputs.append(each)
            cause = Cause(
                f"truncated the {side} to {length} tokens",
                f"let it read more than {length} tokens",
            )
            return Feed((*feed.causes, cause), tuple(inputs))

        if not self.is_encoder:
            count = self.leading(feed.inputs[0].ids)
            lead = len(self.lead) * count
            for kept in {0, lead}:
                if kept < length:
                    yield cut("beginning", kept, length - kept)
            return
        tail = len(self.tail)
        whole = cut("end", max(0, length - tail), tail)
        yield whole
        if feed.causes:
            return
        for side in ("longest_first", "only_second"):
            # one part is too short to be cut that far
            with contextlib.suppress(Exception):
                ids = []
                for pair in self._pairs:
                    cut_pair = self.tokenizer(*pair, truncation=side, max_length=length)
                    ids.append(cut_pair["input_ids"])
                yield Feed(whole.causes, as_inputs(ids))

    def _shortened(self, number: int, unit: str) -> Iterator[Feed]:
        """Yield what is fed here, with replies that are cut to so many of these units."""
        replies = [turns[-1]["content"] for turns in self.turns]
        if unit == "tokens":
            encoded = self.tokenizer(replies, add_special_tokens=False)["input_ids"]
            cut = []
            for reply, ids in zip(replies, encoded, strict=True):
                if len(ids) > number:
                    reply = self.tokenizer.decode(ids[:number])
                cut.append(reply)
        else:
            cut = [reply[:number] for reply in replies]
        if cut == replies:
            return
        cause = Cause(
            f"cut replies to {number} {unit}", f"let it read more than {number} {unit}"
        )
        yield Feed((cause,), as_inputs(self._with_replies(cut)))

    def _with_replies(self, replies: list[str]) -> list[list[int]]:
        """Return the ids that are fed here, with these replies in place of those of all rows."""
        if not self.own:
            prompts = [prompt for prompt, _ in self._pairs]
            return self.tokenizer(prompts, replies)["input_ids"]
        texts = []
        for (before, after), turns, reply in zip(
            self.own, self.turns, replies, strict=True
        ):
            old = turns[-1]["content"]
            if self._trims:
                old = old.strip()
                reply = reply.strip()
            texts.append((before.removesuffix(old) + reply, after))
        _, wholes = next(self.closings(texts, True))
        return self.ids(wholes, self.count)

    @cached_property
    def _trims(self) -> bool:
        """Whether the template cuts the white space around replies."""
        spaced = {"role": "assistant", "content": " x "}
        probe = [*self.turns[0][:-1], spaced]
        rendered = self.sources.rendered([probe])
        [(before, _)] = rendered or [("", "")]
        return not before.endswith(" x ")

    def batched(self, feed: Feed, size: int) -> Iterator[Feed]:
        """Yield a feed in padded batches of this size."""
        lengths = [len(each.ids) for each in feed.inputs]
        widths = []
        for i in range(len(lengths)):
            first = i - i % size
            widths.append(max(lengths[first : first + size]))
        yield from self.padded(feed, widths, f"batches of {size}")

    def rounded_up(self, feed: Feed, multiple: int) -> Iterator[Feed]:
        """Yield a feed whose texts are padded one by one to a multiple of this many tokens."""
        lengths = [len(each.ids) for each in feed.inputs]
        widths = [-(-length // multiple) * multiple for length in lengths]
        yield from self.padded(
            feed, widths, f"texts to a multiple of {multiple} tokens"
        )

    def padded(self, feed: Feed, widths: list[int], what: str) -> Iterator[Feed]:
        """Yield a feed padded to these widths: on the right and read at the end, and on the left.

        For an encoder: on the right without a mask.
        """
        spares = [
            width - len(each.ids)
            for each, width in zip(feed.inputs, widths, strict=True)
        ]
        if max(spares) <= 0:
            return
        theirs = self.tokenizer.pad_token_id
        configured = self.model.pad_token_id
        choices = (theirs, configured, self.tokenizer.eos_token_id, 0)
        pad = next(i for i in choices if i is not None)
        for side, is_masked in WAYS[:1] if self.is_encoder else WAYS:
            inputs = tuple(
                with_padding(each, spare, pad, side, is_masked)
                for each, spare in zip(feed.inputs, spares, strict=True)
            )
            how = "" if self.is_encoder or side == "left" else " and read at the end"
            if not is_masked:
                how += ", without a mask"
            # transformers' own class reads there if it does not know the tokenizer's padding token
            is_unknown = configured is None or theirs not in (None, configured)
            is_usual = is_masked and (side == "left" or is_unknown)
            cause = Cause(
                f"padded {what} on the {side}{how}",
                "score one text at a time there, or set padding_side, attention_mask and "
                "pad_token_id",
                "pad token" if is_usual else "",
            )
            yield Feed((*feed.causes, cause), inputs, is_padded=True)


def as_inputs(ids: Iterable[Sequence[int]]) -> tuple[Input, ...]:
    """Return ids of all rows as inputs without padding."""
    return tuple(Input(tuple(each)) for each in ids)


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
    if spare <= 0:
        return given
    n = len(given.ids)

    def filled(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        added = (value,) * spare
        return added + values if side == "left" else values + added

    mask = filled((1,) * n, 0) if is_masked else None
    types = given.types and filled(given.types, 0)
    return Input(filled(given.ids, pad), mask, types)
