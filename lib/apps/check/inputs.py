"""Checks of what the model reads, from the template to the vocabulary."""

import re
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ...models import conversations
from ...models.conversations import DATE, Conversation, OpenedTurn
from ...models.heads import FAMILIES
from ...models.reward_models import GATED, pad_token_id, read_at_for
from .report import Row, shown

CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<[a-z]+(?:_[a-z]+)+>")  # strings that look as if they were one token each
NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")  # bases that are known to go astray without one


def template(tokenizer: PreTrainedTokenizerBase, opened: OpenedTurn | None, closing: str, about: Conversation) -> Row:
    """Where the reply stands, and what follows it. about: a conversation without an opened turn."""
    name = "template"
    if not tokenizer.chat_template:
        return Row(name, "ok", "none: an encoder, which reads the pair (prompt, reply)")
    asked, reply = conversations.STAND_INS[:2]
    plain, spaced = conversations.render(tokenizer, asked, [reply, f" {reply}\n"])
    blanks = "white space around it is cut off" if plain == spaced else "white space around it is kept"
    found = f"the reply stands once, {blanks}, and is followed by {shown(tokenizer, about.closing_ids)}"
    if opened is None:
        return Row(name, "ok", found)
    header = shown(tokenizer, opened.ids)
    if closing == "trim":
        return Row(name, "note", f"{found}; the turn that the template opens after it ({header}) is left out")
    return Row(
        name, "note", f"{found}; then the template opens another turn ({header}), which is scored as rendered",
        "if the model was trained on conversations that end with the reply, say --closing trim",
    )  # fmt: skip


def system_and_date(tokenizer: PreTrainedTokenizerBase, about: Conversation) -> Row:
    """What stands before the prompt without being asked for, and whether it depends on the day."""
    name = "system and date"
    before = about.before[: max(0, about.before.rfind(about.prompt.strip()))]
    says_system = "system" in before.lower()
    today = "strftime_now" in str(tokenizer.chat_template)
    if not says_system and DATE not in before:
        return Row(name, "ok", "the template adds neither a system turn nor a date")
    length = len(tokenizer(before, add_special_tokens=False)["input_ids"])
    found = f"the template begins with {'a system turn' if says_system else 'a text'} of its own, {length} ids"
    if DATE not in before:
        return Row(name, "note", found)
    why = "the template prints today's, which changes rewards from day to day" if today else "as it stands there"
    return Row(name, "note", f"{found}, with the date {DATE} ({why})" if not today else f"{found}, with a date: {why}",
               f"here it is always {DATE}; elsewhere pass date_string='{DATE}'" if today else "")  # fmt: skip


def token_ids(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, bos: str, plain: Conversation, about: Conversation
) -> Row:
    """Whether other code feeds the same ids: apply_chat_template(tokenize=True), or tokenising the rendered text.

    Both are transformers' own, on the text that is rendered here. plain, about: without and with an opened turn.
    """
    name, reply = "token ids", conversations.STAND_INS[0]
    ours = conversations.encode(tokenizer, plain, [reply])[0] + list(about.closing_ids[len(plain.closing_ids) :])
    if not tokenizer.chat_template:
        return Row(name, "ok", f"the tokenizer's own of a pair, beginning with {shown(tokenizer, tuple(ours[:1]))}")
    text = about.before + reply + about.after
    # A template that prints the text, so that transformers tokenises what was rendered here and nothing else
    by_template: Any = type(tokenizer).apply_chat_template(
        tokenizer, [{"role": "user", "content": ""}], chat_template="{{ text }}", text=text, return_dict=False
    )
    by_text = tokenizer(text)["input_ids"]
    begin = {tokenizer.bos_token_id, *tokenizer("")["input_ids"][:1]}  # some tokenizers add another than their bos
    here, *others = (_leading(begin, ids) for ids in (ours, by_template, by_text))
    counts = [("none", "one", "two")[count] if count < 3 else str(count) for count in (here, *others)]
    numbers = {"bos tokens": here, "by apply_chat_template": others[0], "by the rendered text": others[1]}
    readings = "{} here, {} by apply_chat_template(tokenize=True), {} where the rendered text is tokenised"
    found = f"{tokenizer.bos_token or 'bos tokens'}: {readings.format(*counts)}"
    if ours not in (by_template, by_text, by_text[1:]):
        return Row(name, "wrong", f"neither what apply_chat_template gives nor the rendered text, tokenised; {found}",
                   "see that the tokenizer is the one that the model was trained with", numbers)  # fmt: skip
    if not here and config.model_type in NEEDS_BOS:
        return Row(name, "wrong", found, "such a model needs one: begin its template with {{ bos_token }}", numbers)
    if bos == "single" and ours[:2] == [tokenizer.bos_token_id] * 2:
        return Row(name, "wrong", f"{found}, although one was asked for", "take one out of the template", numbers)
    if ours == by_template == by_text:
        return Row(name, "ok", found, "", numbers)
    modes = {"none": ("apply_chat_template", by_template), "double": ("the rendered text", by_text)}
    feeds = [f"--bos {mode} feeds what {reader} gives" for mode, (reader, ids) in modes.items() if ids != ours]
    return Row(name, "note", found, f"use what the model was trained with: {', '.join(feeds)}", numbers)


def _leading(token_ids: set, ids: Sequence[int]) -> int:
    return next((i for i, other in enumerate(ids) if other not in token_ids), len(ids))


def read_at(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, head_name: str, wanted: str | None,
    about: Conversation,
) -> Row:  # fmt: skip
    """Check at which token the reward is read. wanted: see reward_models.read_at_for. about: what the model reads."""
    rule = read_at_for(head_name, config, wanted)
    name, pad, closing = "reward read at", pad_token_id(config), about.closing_ids
    if rule == "pooled":
        return Row(name, "ok", "the encoder pools in its own way, at its first token")
    pads = _leading({pad}, closing[::-1])
    last, kept = shown(tokenizer, closing[-1:]), closing[: len(closing) - pads]
    at = shown(tokenizer, kept[-1:]) if kept else "the reply's own last token"
    if rule == "last_not_pad" and pads:
        found = f"{at}: what closes a reply, {last}, is the pad token, and transformers reads the last that is no pad"
        return Row(name, "note", found, "if it was trained to be read at its closing token, say --read-at last")
    if rule == "last" and pads and head_name in FAMILIES and FAMILIES[head_name].reads == "last_not_pad":
        return Row(name, "note", f"{last}, as asked for; transformers reads at {at}, since {last} is the pad token",
                   "leave --read-at out to read where transformers does")  # fmt: skip
    if head_name in GATED and pad in about.prefix_ids:
        return Row(name, "note", f"{last}; the pad token stands in the prompt too, and the code that this head was "
                   "released with reads before the first pad")  # fmt: skip
    return Row(name, "ok", f"{last}, the last token" if closing else "the reply's own last token: nothing closes it")


def padding(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, about: Conversation) -> Row:
    """Whether batches are padded with the token that the model's class takes for padding; here nothing is padded."""
    name, pad, theirs = "pad token", pad_token_id(config), tokenizer.pad_token_id
    if pad is None:
        return Row(name, "note", "config.json names none, so transformers refuses batches; here nothing is padded",
                   "elsewhere score one conversation at a time, or set config.pad_token_id")  # fmt: skip
    if theirs is not None and theirs != pad:
        return Row(name, "note", f"config.json says {shown(tokenizer, (pad,))}, the tokenizer pads with "
                   f"{shown(tokenizer, (theirs,))}, so a padded batch is read at a pad; here nothing is padded",
                   f"elsewhere set config.pad_token_id = {theirs}")  # fmt: skip
    if pad in about.prefix_ids or pad in about.closing_ids:
        return Row(name, "note", f"{shown(tokenizer, (pad,))} also stands in conversations; here nothing is padded")
    return Row(name, "ok", f"{shown(tokenizer, (pad,))}; here nothing is padded")


def special_tokens(tokenizer: PreTrainedTokenizerBase, about: Conversation) -> Row:
    """Whether the control strings that the template prints are tokens of this tokenizer."""
    name, unknown = "special tokens", tokenizer.unk_token_id
    strings = dict.fromkeys(CONTROL.findall(about.before.replace(about.prompt.strip(), "") + about.after))
    ids = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in strings}
    if lost := [text for text, parts in ids.items() if unknown in parts]:
        return Row(name, "wrong", f"the template prints {', '.join(lost)}, which this tokenizer does not know",
                   "give the tokenizer that the model was trained with")  # fmt: skip
    if split := {text: len(parts) for text, parts in ids.items() if len(parts) != 1}:
        said = ", ".join(f"{text} is read as {count} ids" for text, count in split.items())
        return Row(name, "note", f"no tokens, but text: {said}",
                   "right only if the model was trained with this template and this tokenizer")  # fmt: skip
    return Row(name, "ok", f"{', '.join(strings) or 'the template prints none'}{' are one id each' if strings else ''}")


def vocabulary(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, rows: int) -> Row:
    """Whether every token has a row of the embedding table. rows: how many that has."""
    name, largest = "vocabulary", max(tokenizer.get_vocab().values())
    if largest >= rows:
        return Row(name, "wrong", f"the tokenizer has ids up to {largest}, but there are {rows} rows of embeddings",
                   "give the tokenizer that the model was trained with")  # fmt: skip
    spare = f"; {rows - 1 - largest} rows have no token, and are not scored" if rows - 1 > largest else ""
    return Row(name, "ok", f"{len(tokenizer):,} tokens in {rows:,} rows of embeddings{spare}")
