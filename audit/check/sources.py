"""The texts that another program may render from conversations: the model's own template used in
other ways, other templates, and usual formats (formats.csv).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ..paper import InputError, RewardModel, conversations
from ..preflight import read_json

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
Source = tuple[Cause, Texts]


class Sources:
    """The sources of texts of conversations, each a list of turns that ends with the reply."""

    def __init__(self, model: RewardModel, turns: Sequence[conversations.Turns]):
        self.model = model
        self.tokenizer = model.tokenizer
        self.turns = turns

    @cached_property
    def own(self) -> Texts:
        """The texts of the model's own template; none for a model without a template."""
        return self.rendered(self.turns) if self.tokenizer.chat_template else []

    def of_template(self) -> Iterator[Source]:
        """Yield what the model's own template gives otherwise, and other templates of its files."""
        if self.own:
            yield from self._systems()
            yield from self._turns()
            yield from self._rendered_twice()
            yield from self._ends_of_turns()
            yield from self._templates()

    def rendered(
        self, turns: Sequence[conversations.Turns], source: str = "", **options: Any
    ) -> Texts:
        """Return the conversations as texts by a chat template, split after the reply; none if it
        refuses them.

        With a generation prompt, the template renders the turns before the reply, and the reply
        follows.
        """
        tokenizer = self.tokenizer
        prompted = "add_generation_prompt" in options
        if source:
            tokenizer = copy.copy(tokenizer)
            tokenizer.chat_template = source
        given = [conversation[:-1] for conversation in turns] if prompted else turns
        try:
            texts = conversations.apply_template(tokenizer, given, **options)
        except InputError:
            return []
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
        **options: Any,
    ) -> Source:
        """Return the source that renders changed turns. options: as for `rendered`."""
        changed = [change(turns) for turns in self.turns]
        return Cause(text, remedy), self.rendered(changed, **options)

    def _systems(self) -> Iterator[Source]:
        """Yield other system turns."""
        if any(turns[0]["role"] == "system" for turns in self.turns):
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
        texts = [before + after for before, after in self.own]
        whole = self.rendered([[{"role": "user", "content": t}] for t in texts])
        yield Cause("applied the chat template twice", ONCE), whole
        prompts = [turns[:-1] for turns in self.turns]
        for opening, is_opened in (("", False), (", with a generation prompt,", True)):
            try:
                texts = conversations.apply_template(
                    self.tokenizer, prompts, add_generation_prompt=is_opened
                )
            except InputError:
                return
            both = zip(texts, self.turns, strict=True)
            rendered = self.rendered(
                [[{"role": "user", "content": text}, turns[-1]] for text, turns in both]
            )
            yield Cause(f"rendered the prompt{opening} twice", ONCE), rendered

    def _ends_of_turns(self) -> Iterator[Source]:
        """Yield the model's own template with other end tokens where turns end."""
        for end, other in other_ends(self.tokenizer, self.own[0][1]):
            cause = Cause(
                f"ended every turn with {other} in place of {end}", OWN_TEMPLATE
            )
            replaced = [
                (before.replace(end, other), after.replace(end, other))
                for before, after in self.own
            ]
            yield cause, replaced

    def _templates(self) -> Iterator[Source]:
        """Yield the templates in other files of the checkpoint, and the day."""
        today = date.today().strftime("%d %b %Y")
        yield self._of_turns(
            f"let the template print the day ({today})",
            f"pass date_string='{conversations.DATE}'",
            date_string=today,
        )
        for file, source in templates_in_files(self.model).items():
            if source != self.tokenizer.chat_template:
                remedy = f"use the other one there, or score with --template {file}"
                text = f"used the chat template in {file}"
                yield self._of_turns(text, remedy, source=source)

    def formats(self) -> Iterator[Source]:
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

            for change in (str, str.strip):  # many templates strip texts
                texts = [
                    (filled(forms, turns, end, change), end) for turns in self.turns
                ]
                yield Cause(f"fed {name}", OWN_TEMPLATE), texts


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


def filled(
    forms: dict[str, str],
    turns: conversations.Turns,
    end: str,
    change: Callable[[str], str],
) -> str:
    """Return turns in forms, role -> text with {}. `end` follows each reply but the last.

    change: what becomes of a turn's text
    """
    text = ""
    for number, turn in enumerate(turns, start=1):
        form = forms.get(turn["role"], "{}")
        text += form.replace("{}", change(turn["content"]))
        if turn["role"] == "assistant" and number < len(turns):
            text += end
    return text


def templates_in_files(model: RewardModel) -> dict[str, str]:
    """Return file -> chat template, of all files of a checkpoint that hold one."""
    if model.files is None:
        return {}
    found: dict[str, Any] = {}
    folder = model.files.folder
    for path in folder.glob("tokenizer_config.json"):
        found[path.name] = read_json(path).get("chat_template")
    for path in folder.glob("chat_template.jinja"):
        found[path.name] = path.read_text(encoding="utf-8")
    return {name: source for name, source in found.items() if isinstance(source, str)}
