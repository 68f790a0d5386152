"""What another program may feed a reward model in place of what is fed here: the hypotheses of
`why` and `check`.

A feed is a source of texts (formats.csv lists usual ones), a number of beginning-of-sequence
tokens, and what closes the reply. Each of these that differs from what is fed here is a cause.
"""

import contextlib
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ... import InputError
from ...models import templates, tokenizers
from ...models.conversations import DATE, Turns
from ...models.reward_models import RewardModel, read_template
from ...models.tokenizers import Change

SYSTEMS = (
    "",
    "You are a helpful assistant.",
    "You are a helpful, respectful and honest assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)
COUNTS = (
    "no beginning-of-sequence token",
    "one beginning-of-sequence token",
    "two beginning-of-sequence tokens",
)


class Cause(NamedTuple):
    """What the other program did, in words after "it", what to do about it, and the row of
    `check` that tries it.
    """

    text: str
    remedy: str
    row: str = ""


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


Texts = list[tuple[str, str]]  # of each row: up to the end of the reply, and what closes the reply


class Feeds:
    """The feeds of conversations, each a list of turns that ends with the reply. template: a
    file with another one.
    """

    def __init__(
        self,
        model: RewardModel,
        conversations: Sequence[Turns],
        bos: str,
        template: str | None = None,
    ):
        self.model, self.tokenizer, self.turns, self.template = (
            model,
            model.tokenizer,
            list(conversations),
            template,
        )
        self.is_encoder = model.read_at == "pooled"
        [word], whole = self.ids(["a"], 0), self.tokenizer("a")["input_ids"]
        start = next((i for i in range(len(whole)) if whole[i : i + len(word)] == word), 0)
        bos_id = self.tokenizer.bos_token_id
        # one beginning-of-sequence token
        self.lead = whole[:start] or ([bos_id] if bos_id is not None else [])
        self.tail = whole[start + len(word) :]
        contexts, replies = zip(
            *((turns[:-1], [turns[-1]["content"]]) for turns in self.turns), strict=True
        )
        has_types, base = (
            self.is_encoder and getattr(model.backbone.config, "type_vocab_size", 0) > 1,
            [],
        )
        for inputs in model.inputs_for_rows(contexts, replies, bos):
            ids, second = (
                inputs.prefix_ids + inputs.suffixes[0],
                len(inputs.conversation.prefix_ids),
            )
            base.append(
                Input(
                    ids,
                    types=tuple(int(i >= second) for i in range(len(ids))) if has_types else None,
                )
            )
        self.base = tuple(base)  # what is fed here
        opened = model.after_reply.text if model.after_reply else ""
        own = self._rendered(self.turns) if self.tokenizer.chat_template else None
        # texts of the model's own template
        self.own = [(before, after + opened) for before, after in own or []]
        # How many beginning-of-sequence tokens there are here, by the tokenizer alone, and by each
        # option BOS
        self.count, self.adds = self.leading(self.base[0].ids), int(start > 0)
        template_alone = self.leading(self.ids([self.own[0][0]], 0)[0]) if self.own else 0
        both = template_alone + self.adds
        self.by_option = {
            "none": template_alone,
            "single": both - bool(template_alone and self.adds),
            "double": both,
        }

    def every(self) -> list[Feed]:
        """Return all feeds with at most two causes, those with fewer first. What is fed here is
        the first.
        """
        made = [Feed((), self.base, True)]
        for number, (source, texts) in enumerate(self._sources()):
            is_own, usual = number == 0, self.adds if number else self.count
            for count in range(2 if self.is_encoder else 3) if self.lead else (0,):
                for closing, wholes in self.closings(texts, is_own):
                    others = (source, self._bos(count) if count != usual else None, closing)
                    causes = tuple(cause for cause in others if cause)
                    if 0 < len(causes) <= 2:
                        made.append(
                            Feed(
                                causes,
                                tuple(Input(tuple(ids)) for ids in self.ids(wholes, count)),
                                is_own,
                            )
                        )
        made += [*self._of_pairs(), *self._of_class()]
        feeds: dict[tuple[Input, ...], Feed] = {}
        for feed in sorted(made, key=lambda feed: len(feed.causes)):
            feeds.setdefault(feed.inputs, feed)
        return list(feeds.values())

    def ids(self, texts: list[str], count: int) -> list[list[int]]:
        """Return the ids of texts after this many beginning-of-sequence tokens."""
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return [self.lead * count + ids + self.tail for ids in encoded] if count else encoded

    def leading(self, ids: Sequence[int]) -> int:
        """Return with how many beginning-of-sequence tokens these ids start."""
        count, n = 0, len(self.lead)
        while n and list(ids[count * n : count * n + n]) == self.lead:
            count += 1
        return count

    @cached_property
    def change(self) -> Change | None:
        """Return what the tokenizer's class in transformers changes of tokenizer.json; None if
        it changes nothing.
        """
        files = getattr(self.model, "files", None)
        return tokenizers.open_as_file_says(files.folder)[1] if files else None

    # --- where the texts come from ----------------------------------------------------------------

    def _sources(self) -> Iterator[tuple[Cause | None, Texts]]:
        """Yield the texts of each source, those of the model's own template first."""
        yield None, self.own
        if self.own:
            yield from self._variants()
        table = pd.read_csv(
            Path(__file__).with_name("formats.csv"), dtype=str, keep_default_na=False
        )
        special = {
            r"\\n": "\n",
            "<eos>": self.tokenizer.eos_token or "",
            "<sep>": self.tokenizer.sep_token or "",
        }
        for name, system, user, reply, end in table.replace(special, regex=True).itertuples(
            index=False
        ):
            forms = {"system": system, "user": user, "assistant": reply + end}
            wholes = [
                "".join(
                    forms.get(turn["role"], "{}").replace("{}", turn["content"]) for turn in turns
                )
                for turns in self.turns
            ]
            texts = [(whole.removesuffix(end), end) for whole in wholes]
            yield Cause(f"fed {name}", "use the model's own chat template there"), texts

    def _variants(self) -> Iterator[tuple[Cause, Texts]]:
        """Yield what the model's template gives for other turns, other days and other templates
        of the tokenizer.
        """
        same, turn = (
            "give both programs the same system turn",
            "render the reply as an assistant's turn there",
        )
        if (plain := self._without_own_system()) is not None:
            yield (
                Cause(
                    "left out the system turn that the template writes by itself",
                    same,
                    "system and date",
                ),
                plain,
            )
        bare = [turns[turns[0]["role"] == "system" :] for turns in self.turns]
        tried: list[tuple[Cause, dict[str, Any]]] = [
            (Cause("left out the system turns", same), {"turns": bare})
        ]
        for text in SYSTEMS if bare == self.turns else ():
            first = (
                f"put the system turn “{text}” first" if text else "put an empty system turn first"
            )
            with_system = [[{"role": "system", "content": text}, *turns] for turns in self.turns]
            tried.append((Cause(first, same), {"turns": with_system}))
        stripped = [
            [turn | {"content": turn["content"].strip()} for turn in turns] for turns in self.turns
        ]
        as_user = [[{"role": "user", "content": turns[-1]["content"]}] for turns in self.turns]
        prints_day = (
            "system and date" if "strftime_now" in str(self.tokenizer.chat_template) else ""
        )
        today = date.today().strftime("%d %b %Y")
        tried += [
            (
                Cause("fed the reply after a generation prompt, without a turn of its own", turn),
                {"add_generation_prompt": True},
            ),
            (Cause("cut the white space around texts", "feed the same texts"), {"turns": stripped}),
            (
                Cause("fed the last turns alone", "feed all turns"),
                {"turns": [turns[-2:] for turns in self.turns]},
            ),
            (Cause("fed the reply as the user's turn", turn), {"turns": as_user}),
            (
                Cause(
                    f"let the template print the day ({today})",
                    f"pass date_string='{DATE}'",
                    prints_day,
                ),
                {"date_string": today},
            ),
        ]
        if isinstance(named := self.tokenizer.chat_template, dict):
            tried += [
                (
                    Cause(f"used the tokenizer's template “{name}”", "use the default one"),
                    {"source": source},
                )
                for name, source in named.items()
                if name != "default"
            ]
        if self.template:
            tried.append(
                (
                    Cause(
                        f"used the template {self.template}", "score with the same TEMPLATE here"
                    ),
                    {"source": read_template(Path(self.template))},
                )
            )
        for cause, how in tried:
            if (texts := self._rendered(**{"turns": self.turns, **how})) is not None:
                yield cause, texts

    def _rendered(self, turns: list[Turns], source: str = "", **options: Any) -> Texts | None:
        """Return the conversations as texts by a chat template, split after the reply; None if it
        refuses them.

        With a generation prompt, the template renders the turns before the reply, and the reply
        follows.
        """
        tokenizer, prompted = self.tokenizer, "add_generation_prompt" in options
        if source:
            tokenizer = copy.copy(tokenizer)
            tokenizer.chat_template = source
            templates.confine(tokenizer)
        given = [conversation[:-1] for conversation in turns] if prompted else turns
        try:
            texts = tokenizer.apply_chat_template(
                given, tokenize=False, **{"date_string": DATE, **options}
            )
        except InputError:
            return None
        split = []
        for text, conversation in zip(texts, turns, strict=True):
            reply = conversation[-1]["content"]
            if prompted:
                text += reply
            part = reply if reply in text else reply.strip()
            at = text.rfind(part) + len(part) if part in text else len(text)
            split.append((text[:at], text[at:]))
        return split

    def _without_own_system(self) -> Texts | None:
        """Return the texts from the first user's turn on; None if the template begins with that."""
        turns = [
            {"role": role, "content": text}
            for role, text in (("user", "Zq"), ("assistant", "xj"), ("user", "vw"))
        ]
        if (rendered := self._rendered([turns])) is None:
            return None
        [(text, _)] = rendered
        closing = self.own[0][1].removesuffix(self.model.opened.text if self.model.opened else "")
        header = text[text.rfind("xj") + 2 : text.rfind("vw")].removeprefix(closing)
        cut = []
        for (before, after), whole in zip(self.own, self.turns, strict=True):
            at = before.find(header + whole[0]["content"].strip())
            if (
                not header
                or at <= len(self.tokenizer.bos_token or "")
                or whole[0]["role"] != "user"
            ):
                return None
            cut.append((before[at:], after))
        return cut

    # --- what stands around the texts -------------------------------------------------------------

    def _bos(self, count: int) -> Cause:
        option = next(
            (name for name, number in self.by_option.items() if self.own and number == count), None
        )
        remedy = f"let it feed {self.count} there" + (
            f", or say --bos {option} here" if option else ""
        )
        # apply_chat_template(tokenize=True) gives the template's; the rendered text, tokenised,
        # also the tokenizer's
        is_usual = self.own and count in (self.by_option["none"], self.by_option["double"])
        return Cause(f"fed {COUNTS[count]}", remedy, "token ids" if is_usual else "")

    def closings(self, texts: Texts, is_own: bool) -> Iterator[tuple[Cause | None, list[str]]]:
        """Yield the whole texts with what may close a reply. The first is what the source itself
        writes.
        """
        if not texts:
            return
        bos = re.compile(f"^({re.escape(self.tokenizer.bos_token or '')})+")
        starts = [bos.sub("", before) for before, _ in texts]
        after, eos, pad = (
            texts[0][1],
            self.tokenizer.eos_token or "",
            self.tokenizer.pad_token or "",
        )
        close = "close the reply there as the template does"
        ends: list[tuple[Cause | None, str]] = [(None, after)]
        if is_own and self.model.opened:
            turn, opened = (
                "the turn that the template opens after the reply",
                self.model.opened.text,
            )
            trimmed = after.removesuffix(opened)
            for verb, option, end in (
                ("left out", "trim", trimmed),
                ("kept", "rendered", trimmed + opened),
            ):
                ends.append(
                    (
                        Cause(
                            f"{verb} {turn}", f"say --closing {option} here, or {close}", "template"
                        ),
                        end,
                    )
                )
        ends += [
            (Cause("cut what closes the reply", close), ""),
            (Cause("cut the line break after the reply's turn", close), after.rstrip("\n")),
            (Cause(f"appended the end token {eos}", close), after + eos),
            (Cause(f"appended the end token {eos} twice", close), after + 2 * eos),
            (Cause(f"closed the reply with the end token {eos} alone", close), eos),
            (Cause(f"appended the padding token {pad}", close), after + pad),
        ]
        if is_own and after:
            prompted = self.tokenizer.apply_chat_template(
                [self.turns[0]], tokenize=False, date_string=DATE, add_generation_prompt=True
            )[0]
            opened = prompted.rpartition(after)[2] if after in prompted else ""
            ends.append((Cause("appended a generation prompt", close), after + opened))
        used: dict[str, Cause | None] = {}
        for cause, end in ends:
            used.setdefault(end, cause)
        yield from ((cause, [start + end for start in starts]) for end, cause in used.items())

    def _of_class(self) -> Iterator[Feed]:
        """Yield what a program feeds that takes the ids of the tokenizer's class in
        transformers.
        """
        if self.change is None:
            return
        other, name = self.change.other, type(self.change.other).__name__
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
            _, wholes = next(self.closings(self.own, True))
            ids = [
                self.lead * self.count + each
                for each in other(wholes, add_special_tokens=False)["input_ids"]
            ]
        else:
            ids = [
                other(turns[-2]["content"], turns[-1]["content"])["input_ids"]
                for turns in self.turns
            ]
        yield Feed((cause,), tuple(Input(tuple(each)) for each in ids))

    def _of_pairs(self) -> Iterator[Feed]:
        """Yield what an encoder that reads the pair (prompt, reply) may be fed."""
        if self.tokenizer.chat_template:
            return
        pairs = [(turns[-2]["content"], turns[-1]["content"]) for turns in self.turns]
        swapped = tuple(
            Input(tuple(self.tokenizer(reply, prompt)["input_ids"])) for prompt, reply in pairs
        )
        yield Feed(
            (Cause("fed the reply before the prompt", "feed the pair (prompt, reply)"),), swapped
        )
        if self.base[0].types:
            untyped = tuple(each._replace(types=None) for each in self.base)
            yield Feed((Cause("fed no token types", "pass token_type_ids"),), untyped)
        plain = tuple(
            Input(tuple(self.tokenizer(*pair, add_special_tokens=False)["input_ids"]))
            for pair in pairs
        )
        yield Feed(
            (Cause("fed no special tokens", "tokenise with add_special_tokens=True"),), plain
        )

    # --- truncation and padding -------------------------------------------------------------------

    def truncated(self, feed: Feed, length: int) -> Iterator[Feed]:
        """Yield a feed truncated to this many tokens: on the left, or for an encoder on the right.

        A decoder's states do not depend on what follows, so truncation on the right is another
        place to read.
        """

        def cut(side: str, first: int, last: int) -> Feed:
            cause = Cause(
                f"truncated the {side} to {length} tokens", f"let it read more than {length} tokens"
            )
            inputs = [
                Input(each.ids[:first] + each.ids[len(each.ids) - last :])
                if len(each.ids) > length
                else each
                for each in feed.inputs
            ]
            return Feed((*feed.causes, cause), tuple(inputs))

        if not self.is_encoder:
            for kept in {0, len(self.lead) * self.leading(feed.inputs[0].ids)}:
                yield cut("beginning", kept, length - kept)
            return
        whole = cut("end", length - len(self.tail), len(self.tail))
        yield whole
        for side in ("longest_first", "only_second") if not feed.causes else ():
            with contextlib.suppress(Exception):  # one part is too short to be cut that far
                ids = [
                    self.tokenizer(
                        turns[-2]["content"],
                        turns[-1]["content"],
                        truncation=side,
                        max_length=length,
                    )
                    for turns in self.turns
                ]
                yield Feed(whole.causes, tuple(Input(tuple(each["input_ids"])) for each in ids))

    def padded(self, feed: Feed, size: int) -> Iterator[Feed]:
        """Yield a feed in padded batches of this size: on the right and read at the end, and on the
        left.

        For an encoder: on the right without a mask.
        """
        lengths = [len(each.ids) for each in feed.inputs]
        spare = [
            max(lengths[i - i % size : i - i % size + size]) - lengths[i]
            for i in range(len(lengths))
        ]
        theirs, configured = self.tokenizer.pad_token_id, self.model.pad_token_id
        pad = next(i for i in (theirs, configured, self.tokenizer.eos_token_id, 0) if i is not None)

        def filled(values: tuple[int, ...], n: int, value: int) -> tuple[int, ...]:
            return (value,) * n + values if side == "left" else values + (value,) * n

        ways = (("right", False), ("right", True), ("left", True), ("left", False))
        for side, is_masked in ways[:1] if self.is_encoder else ways:
            inputs = tuple(
                Input(
                    filled(each.ids, n, pad),
                    filled((1,) * len(each.ids), n, 0) if is_masked else None,
                    each.types and filled(each.types, n, 0),
                )
                if n
                else each
                for each, n in zip(feed.inputs, spare, strict=True)
            )
            where = "" if self.is_encoder or side == "left" else " and read at the end"
            # transformers' own class reads there if it does not know the tokenizer's padding token
            is_usual = is_masked and (
                side == "left" or configured is None or theirs not in (None, configured)
            )
            cause = Cause(
                f"padded batches of {size} on the "
                f"{side}{where}{'' if is_masked else ', without a mask'}",
                "score one text at a time there, or set padding_side, attention_mask and "
                "pad_token_id",
                "pad token" if is_usual else "",
            )
            yield Feed((*feed.causes, cause), inputs, is_padded=True)
