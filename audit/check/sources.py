"""The texts that another program may render from conversations: the model's own template used in
other ways, other templates, and usual formats (formats.csv).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ..paper import InputError, RewardModel, conversations, templates
from ..paper import files as models_files
from ..paper import models_tokenizers as tokenizers

SYSTEMS = (
    "",
    "You are a helpful assistant.",
    "You are a helpful, respectful and honest assistant.",
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)
END_TOKENS = (
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
)
SAME_TURN = "give both programs the same system turn"
ASSISTANT = "render the reply as an assistant's turn there"
ONCE = "render the turns there, not texts that are rendered already"
OWN_TEMPLATE = "use the model's own chat template there"


class Cause(NamedTuple):
    """What the other program did, in words after "it", what to do about it, and the row of
    `check` that tries it.
    """

    text: str
    remedy: str
    row: str = ""


# of each row: up to the end of the reply, and what closes the reply
Texts = list[tuple[str, str]]
# A cause, and a function that renders the texts: they are needed only if the cause is tried. It
# gives None where the template refuses the turns.
Source = tuple[Cause, Callable[[], Texts | None]]


class Sources:
    """The sources of texts of conversations, each a list of turns that ends with the reply.

    template: a file with another chat template, which is tried too
    """

    def __init__(
        self,
        model: RewardModel,
        turns: Sequence[conversations.Turns],
        template: str | None = None,
    ):
        self.model = model
        self.tokenizer = model.tokenizer
        self.turns = list(turns)
        self.template = template

    @cached_property
    def own(self) -> Texts:
        """The texts of the model's own template; none for a model without a template."""
        opened = self.model.after_reply.text if self.model.after_reply else ""
        rendered = self.rendered(self.turns) if self.tokenizer.chat_template else None
        return [(before, after + opened) for before, after in rendered or []]

    def every(self) -> Iterator[Source]:
        """Yield all sources but the model's own template."""
        if self.own:
            yield from self._systems()
            yield from self._turns()
            yield from self._rendered_twice()
            yield from self._ends_of_turns()
            yield from self._templates()
        yield from self._formats()

    def rendered(
        self, turns: Sequence[conversations.Turns], source: str = "", **options: Any
    ) -> Texts | None:
        """Return the conversations as texts by a chat template, split after the reply; None if it
        refuses them.

        With a generation prompt, the template renders the turns before the reply, and the reply
        follows.
        """
        tokenizer = self.tokenizer
        prompted = "add_generation_prompt" in options
        if source:
            tokenizer = copy.copy(tokenizer)
            tokenizer.chat_template = source
            templates.confine(tokenizer)
        given = [conversation[:-1] for conversation in turns] if prompted else turns
        options = {"date_string": conversations.DATE, **options}
        try:
            texts = tokenizer.apply_chat_template(given, tokenize=False, **options)
        except InputError:
            return None
        replies = [conversation[-1]["content"] for conversation in turns]
        if prompted:
            return [
                (text + reply, "") for text, reply in zip(texts, replies, strict=True)
            ]
        return [
            split_after(text, reply) for text, reply in zip(texts, replies, strict=True)
        ]

    def _of_turns(
        self,
        text: str,
        remedy: str,
        change: Callable[[conversations.Turns], conversations.Turns] = list,
        row: str = "",
        **options: Any,
    ) -> Source:
        """Return the source that renders changed turns. options: as for `rendered`."""

        def render() -> Texts | None:
            return self.rendered([change(turns) for turns in self.turns], **options)

        return Cause(text, remedy, row), render

    def _systems(self) -> Iterator[Source]:
        """Yield other system turns."""
        own = Cause(
            "left out the system turn that the template writes by itself",
            SAME_TURN,
            "system and date",
        )
        yield own, self._without_own_system
        if any(turns[0]["role"] == "system" for turns in self.turns):
            yield self._of_turns(
                "left out the system turns",
                SAME_TURN,
                lambda turns: turns[turns[0]["role"] == "system" :],
            )
            return
        for text in SYSTEMS:
            named = f"the system turn “{text}”" if text else "an empty system turn"
            system = [{"role": "system", "content": text}]
            yield self._of_turns(f"put {named} first", SAME_TURN, system.__add__)

    def _turns(self) -> Iterator[Source]:
        """Yield the same texts as other turns."""
        roles = {"user": "assistant", "assistant": "user"}
        yield self._of_turns(
            "fed the reply after a generation prompt, without a turn of its own",
            ASSISTANT,
            add_generation_prompt=True,
        )
        for text, remedy, change in (
            (
                "cut the white space around texts",
                "feed the same texts",
                lambda turns: [
                    turn | {"content": turn["content"].strip()} for turn in turns
                ],
            ),
            ("fed the last turns alone", "feed all turns", lambda turns: turns[-2:]),
            (
                "fed the reply as the user's turn",
                ASSISTANT,
                lambda turns: [turns[-1] | {"role": "user"}],
            ),
            (
                "swapped the roles of user and assistant",
                "name the roles of turns as here",
                lambda turns: [
                    turn | {"role": roles.get(turn["role"], turn["role"])}
                    for turn in turns
                ],
            ),
        ):
            yield self._of_turns(text, remedy, change)

    def _rendered_twice(self) -> Iterator[Source]:
        """Yield texts that went through the template twice, in whole or in part."""

        def whole() -> Texts | None:
            texts = [before + after for before, after in self.own]
            return self.rendered([[{"role": "user", "content": t}] for t in texts])

        def prompt(in_front: bool, **options: Any) -> Texts | None:
            prompts = [turns[:-1] for turns in self.turns]
            try:
                texts = self.tokenizer.apply_chat_template(
                    prompts, tokenize=False, date_string=conversations.DATE, **options
                )
            except InputError:
                return None
            if in_front:
                both = zip(texts, self.own, strict=True)
                return [(text + before, after) for text, (before, after) in both]
            both = zip(texts, self.turns, strict=True)
            return self.rendered(
                [[{"role": "user", "content": text}, turns[-1]] for text, turns in both]
            )

        yield Cause("applied the chat template twice", ONCE), whole
        for opening, options in (
            ("", {}),
            (", with a generation prompt,", {"add_generation_prompt": True}),
        ):
            twice = Cause(f"rendered the prompt{opening} twice", ONCE)
            yield twice, partial(prompt, False, **options)
            front = f"put the rendered prompt{opening} before the rendered conversation"
            yield Cause(front, ONCE), partial(prompt, True, **options)

    def _ends_of_turns(self) -> Iterator[Source]:
        """Yield the model's own template with other end tokens where turns end."""
        for end, other in other_ends(self.tokenizer, self.own[0][1]):
            cause = Cause(
                f"ended every turn with {other} in place of {end}", OWN_TEMPLATE
            )
            yield cause, partial(self._replaced, end, other)

    def _replaced(self, old: str, new: str) -> Texts:
        return [
            (before.replace(old, new), after.replace(old, new))
            for before, after in self.own
        ]

    def _templates(self) -> Iterator[Source]:
        """Yield other templates of the tokenizer and its files, the one that was given, and the
        day.
        """
        used = self.tokenizer.chat_template
        today = date.today().strftime("%d %b %Y")
        yield self._of_turns(
            f"let the template print the day ({today})",
            f"pass date_string='{conversations.DATE}'",
            row="system and date" * ("strftime_now" in str(used)),
            date_string=today,
        )
        others = []
        if isinstance(used, dict):
            others += [
                (f"the tokenizer's template “{name}”", "use the default one", source)
                for name, source in used.items()
                if name != "default"
            ]
        for file, source in templates_in_files(self.model).items():
            if source != used:
                remedy = (
                    f"use the other one there, or score with --template {file} here"
                )
                others.append((f"the chat template in {file}", remedy, source))
        if self.template:
            remedy = f"score with --template {self.template} here"
            source = tokenizers.read_template(Path(self.template))
            others.append((f"the template {self.template}", remedy, source))
        for which, remedy, source in others:
            yield self._of_turns(f"used {which}", remedy, source=source)

    def _formats(self) -> Iterator[Source]:
        """Yield the usual formats of formats.csv."""
        special = {
            r"\\n": "\n",
            "<eos>": self.tokenizer.eos_token or "",
            "<sep>": self.tokenizer.sep_token or "",
        }
        path = Path(__file__).with_name("formats.csv")
        table = pd.read_csv(path, dtype=str, keep_default_na=False).replace(
            special, regex=True
        )
        for name, system, user, reply, end in table.itertuples(index=False):
            forms = {"system": system, "user": user, "assistant": reply}

            def texts(forms: dict[str, str] = forms, end: str = end) -> Texts:
                return [(filled(forms, turns, end), end) for turns in self.turns]

            yield Cause(f"fed {name}", OWN_TEMPLATE), texts

    def _without_own_system(self) -> Texts | None:
        """Return the texts from the first user's turn on; None if the template begins with that."""
        header = self._header_of_user()
        cut = []
        for (before, after), turns in zip(self.own, self.turns, strict=True):
            asked = turns[0]["content"].strip()
            at = before.find(header + asked)
            is_first = at <= len(self.tokenizer.bos_token or "")
            if not header or is_first or turns[0]["role"] != "user":
                return None
            cut.append((before[at:], after))
        return cut

    def _header_of_user(self) -> str:
        """Return what stands before a user's turn; "" if the template refuses three turns."""
        turns = [
            {"role": role, "content": text}
            for role, text in (("user", "Zq"), ("assistant", "xj"), ("user", "vw"))
        ]
        if (rendered := self.rendered([turns])) is None:
            return ""
        [(text, _)] = rendered
        opened = self.model.opened.text if self.model.opened else ""
        closing = self.own[0][1].removesuffix(opened)
        start = text.rfind("xj") + 2
        between = text[start : text.rfind("vw")]
        return between.removeprefix(closing)


def other_ends(tokenizer: PreTrainedTokenizerBase, after: str) -> list[tuple[str, str]]:
    """Return the token that ends a turn, beside each other end token of this tokenizer. `after` is
    what closes a reply.
    """
    added = tokenizer.get_added_vocab()
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    texts = [tokenizer.decode([i]) for i in ids]
    end = next((text for text in texts if text in added), "")
    if not end:
        return []
    known = dict.fromkeys([tokenizer.eos_token, *END_TOKENS])
    return [(end, token) for token in known if token in added and token != end]


def split_after(text: str, reply: str) -> tuple[str, str]:
    """Return a rendered text up to the end of the reply, and what follows."""
    part = reply if reply in text else reply.strip()
    at = len(text)
    if part in text:
        at = text.rfind(part) + len(part)
    return text[:at], text[at:]


def filled(forms: dict[str, str], turns: conversations.Turns, end: str) -> str:
    """Return turns in forms, role -> text with {}. `end` follows each reply but the last."""
    text = ""
    for number, turn in enumerate(turns, start=1):
        form = forms.get(turn["role"], "{}")
        text += form.replace("{}", turn["content"])
        if turn["role"] == "assistant" and number < len(turns):
            text += end
    return text


def templates_in_files(model: RewardModel) -> dict[str, str]:
    """Return file -> chat template, of all files of a checkpoint that hold one."""
    files = getattr(model, "files", None)
    if files is None:
        return {}
    found: dict[str, Any] = {}
    for path in sorted(files.folder.glob("*")):
        if path.name in ("tokenizer_config.json", "chat_template.json"):
            found[path.name] = models_files.read_json(path).get("chat_template")
        if path.name == "chat_template.jinja":
            found[path.name] = path.read_text(encoding="utf-8")
    return {name: source for name, source in found.items() if isinstance(source, str)}
