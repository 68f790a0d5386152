"""What another program may feed a reward model in place of the input that is scored here: the hypotheses of `why`.

A feed is a source of texts (the chat template, another template, plain texts), a number of beginning-of-sequence
tokens, and what closes the reply. Each that differs from what is fed here is a cause. formats.csv lists the texts
that other programs put around a prompt and a reply.
"""

import contextlib
import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ... import InputError
from ...models import templates
from ...models.conversations import DATE
from ...models.reward_models import RewardModel
from ...scoring.reply_files import Turns, within

SYSTEMS = ("", "You are a helpful assistant.", "You are a helpful, respectful and honest assistant.",
           "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")  # fmt: skip
BOS = {"none": 0, "single": 1, "double": 2}
COUNTS = ("no beginning-of-sequence token", "one beginning-of-sequence token", "two beginning-of-sequence tokens")


class Cause(NamedTuple):
    """What the other program did, in words after "it", and what to do about it."""

    text: str
    remedy: str


class Input(NamedTuple):
    """What a model reads: ids, which of them are masked as padding (left, right), and token types of an encoder."""

    ids: tuple[int, ...]
    left: int = 0
    right: int = 0
    is_masked: bool = True
    types: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Feed:
    """The inputs of all rows, and the causes that lead to them: none for what is fed here.

    is_own: whether they are texts of the model's own template, with another beginning or end
    """

    causes: tuple[Cause, ...]
    inputs: tuple[Input, ...]
    is_own: bool = False


Texts = list[tuple[str, str]]  # of each row: up to the end of the reply, and what closes the reply


class Feeds:
    """The feeds of some conversations, each a list of turns that ends with the reply.

    template: a file with another chat template, which is tried too.
    """

    def __init__(self, model: RewardModel, conversations: Sequence[Turns], bos: str, template: str | None = None):
        self.model, self.tokenizer, self.turns, self.template = model, model.tokenizer, list(conversations), template
        word = self.ids(["a"], None)[0]
        whole = self.tokenizer("a")["input_ids"]
        start = next((i for i in range(len(whole)) if whole[i : i + len(word)] == word), 0)
        bos_id = self.tokenizer.bos_token_id
        self.lead = whole[:start] or ([bos_id] if bos_id is not None else [])  # what one unit of bos is
        self.tail = whole[start + len(word) :]
        self.adds = int(start > 0)
        self.base = [self._own(turns, bos) for turns in self.turns]
        self.count = self._leading(self.base[0].ids)  # beginning-of-sequence tokens of what is fed here

    def __iter__(self) -> Iterator[Feed]:
        """Yield all feeds with at most two causes, the likeliest first. What is fed here comes first."""
        made = [Feed((), tuple(self.base), True)]
        for number, (source, texts) in enumerate(self._sources()):
            usual = self.adds if number else self.count
            for count in range(3) if self.lead else (0,):
                if count > 1 and self.model.head is None:
                    continue
                for closing, wholes in self._closings(texts, number == 0):
                    causes = (
                        [source] * (number > 0)
                        + [self._bos(count)] * (count != usual)
                        + [closing] * (closing.text != "")
                    )
                    if 0 < len(causes) <= 2:
                        inputs = tuple(Input(tuple(ids)) for ids in self.ids(wholes, count))
                        made.append(Feed(tuple(causes), inputs, number == 0))
        made += [Feed((cause,), tuple(inputs)) for cause, inputs in self._pairs()]
        feeds: dict[tuple[Input, ...], Feed] = {}
        for feed in sorted(made, key=lambda feed: len(feed.causes)):
            feeds.setdefault(feed.inputs, feed)
        yield from feeds.values()

    def ids(self, texts: list[str], count: int | None) -> list[list[int]]:
        """Return the ids of texts after this many beginning-of-sequence tokens; None adds nothing."""
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        if not count:
            return encoded
        return [self.lead * count + ids + self.tail for ids in encoded]

    def _leading(self, ids: Sequence[int]) -> int:
        count, n = 0, len(self.lead)
        while n and list(ids[count * n : count * n + n]) == self.lead:
            count += 1
        return count

    def _own(self, turns: Turns, bos: str) -> Input:
        """Return what is fed here."""
        reader, prompt = within(self.model, turns[:-2]), turns[-2]["content"]
        conversation = reader.conversation(prompt, bos)
        ids = tuple(reader.encode(conversation, [turns[-1]["content"]])[0])
        has_types = getattr(self.model.backbone.config, "type_vocab_size", 0) > 1 and self.model.head is None
        types = tuple(int(i >= len(conversation.prefix_ids)) for i in range(len(ids))) if has_types else None
        return Input(ids, types=types)

    # --- where the texts come from -----------------------------------------------------------------------------------

    def _sources(self) -> Iterator[tuple[Cause, Texts]]:
        """Yield the texts around and in each reply from every source, those of the model's own template first."""
        opened = self.model.after_reply.text if self.model.after_reply else ""
        if self.tokenizer.chat_template:
            own = self._rendered(self.turns)
            assert own is not None
            yield Cause("", ""), [(before, after + opened) for before, after in own]
            yield from self._variants(own)
        else:
            yield Cause("", ""), []
        table = pd.read_csv(Path(__file__).with_name("formats.csv"), dtype=str, keep_default_na=False)
        special = {"\\n": "\n", "<eos>": self.tokenizer.eos_token or "", "<sep>": self.tokenizer.sep_token or ""}
        for old, new in special.items():
            table.iloc[:, 1:] = table.iloc[:, 1:].map(lambda text, old=old, new=new: text.replace(old, new))
        for row in table.itertuples():
            texts = [self._formatted(row, turns) for turns in self.turns]
            yield Cause(f"fed {row.name}", "use the model's own chat template there"), texts

    @staticmethod
    def _formatted(row: tuple, turns: Turns) -> tuple[str, str]:
        pieces = {"system": row.system, "user": row.user, "assistant": row.reply}  # type: ignore[attr-defined]
        texts = [pieces[turn["role"]].replace("{}", turn["content"]) for turn in turns]
        end = row.end if row.reply else ""  # type: ignore[attr-defined]
        earlier = [text + end * (turn["role"] == "assistant") for text, turn in zip(texts, turns, strict=True)]
        return "".join(earlier[:-1]) + texts[-1], end

    def _variants(self, own: Texts) -> Iterator[tuple[Cause, Texts]]:
        """Yield what the model's template gives for other turns, other days and other templates of the tokenizer."""
        same = "give both programs the same system turn"
        if (plain := self._without_own_system(own)) is not None:
            yield Cause("left out the system turn that the template writes by itself", same), plain
        bare = [turns[turns[0]["role"] == "system" :] for turns in self.turns]
        variants: list[tuple[str, str, dict]] = [("left out the system turns", same, {"turns": bare})]
        for text in SYSTEMS if bare == self.turns else ():
            turns = [[{"role": "system", "content": text}, *turns] for turns in self.turns]
            first = f"put the system turn “{text}” first" if text else "put an empty system turn first"
            variants.append((first, same, {"turns": turns}))
        stripped = [[turn | {"content": turn["content"].strip()} for turn in turns] for turns in self.turns]
        as_user = [[{"role": "user", "content": turns[-1]["content"]}] for turns in self.turns]
        today, turn = date.today().strftime("%d %b %Y"), "render the reply as an assistant's turn there"
        variants += [
            ("fed the reply after a generation prompt, without a turn of its own", turn, {"prompted": True}),
            ("cut the white space around texts", "feed the same texts", {"turns": stripped}),
            ("fed the last turns alone", "feed all turns", {"turns": [turns[-2:] for turns in self.turns]}),
            ("fed the reply as the user's turn", turn, {"turns": as_user}),
            (f"let the template print the day ({today})", f"pass date_string='{DATE}'", {"day": today}),
        ]
        if isinstance(named := self.tokenizer.chat_template, dict):
            variants += [(f"used the tokenizer's template “{name}”", "use the default one", {"source": source})
                         for name, source in named.items() if name != "default"]  # fmt: skip
        if self.template:
            source = _read_template(self.template)
            variants.append(
                (f"used the template {self.template}", "score with the same TEMPLATE here", {"source": source})
            )
        for text, remedy, how in variants:
            if (texts := self._rendered(**{"turns": self.turns, **how})) is not None:
                yield Cause(text, remedy), texts

    def _rendered(self, turns: list[Turns], day: str = DATE, source: str = "", prompted: bool = False) -> Texts | None:
        """Return the conversations as texts by a chat template, split after the reply; None if it refuses them.

        prompted: the template renders the turns before the reply with a generation prompt, and the reply follows.
        """
        tokenizer = self.tokenizer
        if source:
            tokenizer = copy.copy(tokenizer)
            tokenizer.chat_template = source
            templates.confine(tokenizer)
        given = [conversation[:-1] for conversation in turns] if prompted else turns
        try:
            texts = tokenizer.apply_chat_template(
                given, tokenize=False, date_string=day, **({"add_generation_prompt": True} if prompted else {})
            )
        except InputError:
            return None
        replies = [conversation[-1]["content"] for conversation in turns]
        if prompted:
            return [(text + reply, "") for text, reply in zip(texts, replies, strict=True)]
        return [_split(text, reply) for text, reply in zip(texts, replies, strict=True)]

    def _without_own_system(self, own: Texts) -> Texts | None:
        """Return the texts from the first user's turn on; None if the template begins with that."""
        asked = [
            {"role": role, "content": text} for role, text in (("user", "Zq"), ("assistant", "xj"), ("user", "vw"))
        ]
        try:
            [text] = self.tokenizer.apply_chat_template([asked], tokenize=False, date_string=DATE)
        except InputError:
            return None
        header = text[text.rfind("xj") + 2 : text.rfind("vw")].removeprefix(own[0][1])
        bos, cut = self.tokenizer.bos_token or "", []
        for (before, after), turns in zip(own, self.turns, strict=True):
            at = before.find(header + turns[0]["content"].strip())
            if not header or at <= len(bos) or turns[0]["role"] != "user":
                return None
            cut.append((before[at:], after))
        return cut

    # --- what stands around the texts --------------------------------------------------------------------------------

    def _bos(self, count: int) -> Cause:
        option = next(name for name, number in BOS.items() if number == count)
        return Cause(f"fed {COUNTS[count]}", f"let it feed {self.count} there, or say BOS={option} here")

    def _closings(self, texts: Texts, is_own: bool) -> Iterator[tuple[Cause, list[str]]]:
        """Yield the whole texts with what may close a reply. The first is what the source itself writes."""
        if not texts:
            return
        bos = self.tokenizer.bos_token or "\0"
        starts = [_without_bos(before, bos) for before, _ in texts]
        after, eos = texts[0][1], self.tokenizer.eos_token or ""
        pad = self.tokenizer.pad_token if self.tokenizer.pad_token != eos else ""
        ends = {
            "": after,
            "cut what closes the reply": "",
            "cut the line break after the reply's turn": after.rstrip("\n"),
            f"appended the end token {eos}": after + eos,
            f"closed the reply with the end token {eos} alone": eos,
            f"appended the padding token {pad}": after + (pad or ""),
        }
        if is_own and self.model.opened:
            opened = self.model.opened.text
            trimmed = after.removesuffix(opened)
            ends["left out the turn that the template opens after the reply"] = trimmed
            ends["kept the turn that the template opens after the reply"] = trimmed + opened
        if is_own and (prompt := self._generation_prompt(after)):
            ends["appended a generation prompt"] = after + prompt
        used: set[str] = set()
        for name, end in ends.items():
            if end not in used:
                used.add(end)
                option = "CLOSING=trim here, or " if name.startswith("left out") else ""
                remedy = (
                    f"say {option}close the reply there as the template does"
                    if option
                    else "close the reply there as the template does"
                )
                yield Cause(name, remedy), [start + end for start in starts]

    def _generation_prompt(self, after: str) -> str:
        with_prompt = self.tokenizer.apply_chat_template(
            [self.turns[0]], tokenize=False, date_string=DATE, add_generation_prompt=True
        )[0]
        return with_prompt[with_prompt.rfind(after) + len(after) :] if after and after in with_prompt else ""

    def _pairs(self) -> Iterator[tuple[Cause, list[Input]]]:
        """Yield what an encoder that reads the pair (prompt, reply) may be fed."""
        if self.tokenizer.chat_template:
            return
        asked = [(turns[-2]["content"], turns[-1]["content"]) for turns in self.turns]
        swapped = [Input(tuple(self.tokenizer(reply, prompt)["input_ids"])) for prompt, reply in asked]
        yield Cause("fed the reply before the prompt", "feed the pair (prompt, reply)"), swapped
        if self.base[0].types:
            yield Cause("fed no token types", "pass token_type_ids"), [each._replace(types=None) for each in self.base]
        plain = [Input(tuple(self.tokenizer(*pair, add_special_tokens=False)["input_ids"])) for pair in asked]
        yield Cause("fed no special tokens", "tokenise with add_special_tokens=True"), plain

    # --- truncation --------------------------------------------------------------------------------------------------

    def truncated(self, feed: Feed, length: int) -> Iterator[Feed]:
        """Yield a feed truncated to this many tokens: on the left, or for an encoder on the right.

        A decoder's states do not depend on what follows, so truncation on the right is another place to read.
        """
        remedy, asked = f"let it read more than {length} tokens", self.turns
        lead, tail = len(self.lead) * self._leading(feed.inputs[0].ids), len(self.tail)
        cut = Cause(f"truncated the beginning to {length} tokens", remedy)
        for kept in dict.fromkeys([0, lead]) if self.model.head is not None else ():
            yield Feed((*feed.causes, cut), _shortened(feed.inputs, length, kept, length - kept))
        cut = Cause(f"truncated the end to {length} tokens", remedy)
        if self.model.head is None:
            yield Feed((*feed.causes, cut), _shortened(feed.inputs, length, length - tail, tail))
        for side in ("longest_first", "only_second") if self.model.head is None and not feed.causes else ():
            with contextlib.suppress(Exception):  # one part is too short to be cut that far
                how = {"truncation": side, "max_length": length}
                ids = [
                    self.tokenizer(turns[-2]["content"], turns[-1]["content"], **how)["input_ids"] for turns in asked
                ]
                yield Feed((cut,), tuple(Input(tuple(each)) for each in ids))

    def padded(self, feed: Feed, size: int) -> Iterator[Feed]:
        """Yield a feed in padded batches of this size: on the right and read at the end, and on the left.

        For an encoder: on the right without a mask.
        """
        lengths = [len(each.ids) for each in feed.inputs]
        spare = [max(lengths[i - i % size : i - i % size + size]) - lengths[i] for i in range(len(lengths))]
        known = (self.tokenizer.pad_token_id, self.model.pad_token_id, self.tokenizer.eos_token_id, 0)
        pad = next(i for i in known if i is not None)
        encoder = self.model.head is None
        for side, masked in [
            ("right", False),
            *([] if encoder else [("right", True), ("left", True), ("left", False)]),
        ]:
            inputs = [_padded(each, n, pad, side, masked) for each, n in zip(feed.inputs, spare, strict=True)]
            where = "" if encoder or side == "left" else " and read at the end"
            text = f"padded batches of {size} on the {side}{where}{'' if masked else ', without a mask'}"
            remedy = "score one text at a time there, or set padding_side, attention_mask and pad_token_id"
            yield Feed((*feed.causes, Cause(text, remedy)), tuple(inputs))


def _shortened(inputs: Sequence[Input], length: int, first: int, last: int) -> tuple[Input, ...]:
    """Return the inputs, of each that is longer than `length` only so many of its first and of its last ids."""
    return tuple(each if len(each.ids) <= length else Input(each.ids[:first] + each.ids[len(each.ids) - last :])
                 for each in inputs)  # fmt: skip


def _padded(given: Input, n: int, pad: int, side: str, masked: bool) -> Input:
    left, right = n * (side == "left"), n * (side == "right")
    types = given.types and (0,) * left + given.types + (0,) * right
    return Input((pad,) * left + given.ids + (pad,) * right, left, right, masked, types)


def _read_template(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"the chat template {file} cannot be read; give a text file (jinja)") from error


def _split(text: str, reply: str) -> tuple[str, str]:
    """Return a rendered text up to the end of the reply, and the rest."""
    for part in (reply, reply.strip()):
        if part and (at := text.rfind(part)) >= 0:
            return text[: at + len(part)], text[at + len(part) :]
    return text, ""


def _without_bos(text: str, bos: str) -> str:
    while text.startswith(bos):
        text = text.removeprefix(bos)
    return text


def conversations_of(contexts: Sequence[str], replies: Sequence[str]) -> list[Turns]:
    """Return the turns of each row, from the columns context and reply of reply_files.read_replies."""
    return [[*json.loads(context), {"role": "assistant", "content": reply}]
            for context, reply in zip(contexts, replies, strict=True)]  # fmt: skip
