"""Checks of what the model reads, from the template to the vocabulary."""

import re
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ...models import conversations
from ...models.conversations import DATE, Conversation, OpenedTurn
from ...models.heads import LAYOUTS
from ...models.reward_models import pad_token_id, read_at_for
from .report import Row, note, ok, shown, wrong
from .weights import Files

CONTROL = re.compile(r"<\|[^<>|\s]+\|>|<[a-z]+(?:_[a-z]+)+>")  # strings that look as if they were one token each
NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")  # bases that are known to go astray without one


def template(tokenizer: PreTrainedTokenizerBase, opened: OpenedTurn | None, closing: str, about: Conversation) -> Row:
    """Describe where the reply stands, and what follows it. `about` is a conversation without an opened turn."""
    if not tokenizer.chat_template:
        return ok("none: an encoder, which reads the pair (prompt, reply)")
    asked, reply = conversations.STAND_INS[:2]
    plain, spaced = conversations.render(tokenizer, asked, [reply, f" {reply}\n"])
    blanks = "white space around it is cut off" if plain == spaced else "white space around it is kept"
    found = f"the reply stands once, {blanks}, and is followed by {shown(tokenizer, about.closing_ids)}"
    if opened is None:
        return ok(found)
    header = shown(tokenizer, opened.ids)
    if closing == "trim":
        return note(f"{found}; the turn that the template opens after it ({header}) is left out")
    return note(
        f"{found}; then the template opens another turn ({header}), which is scored as rendered",
        "if the model was trained on conversations that end with the reply, say --closing trim",
    )


def system_and_date(tokenizer: PreTrainedTokenizerBase, about: Conversation) -> Row:
    """Describe what the template puts before the prompt, and whether it depends on the day."""
    before = about.before[: max(0, about.before.rfind(about.prompt.strip()))]
    says_system = "system" in before.lower()
    if not says_system and DATE not in before:
        return ok("the template adds neither a system turn nor a date")
    length = len(tokenizer(before, add_special_tokens=False)["input_ids"])
    found = f"the template begins with {'a system turn' if says_system else 'a text'} of its own, {length} ids"
    if DATE not in before:
        return note(found)
    if "strftime_now" not in str(tokenizer.chat_template):
        return note(f"{found}, with the date {DATE} (as it stands there)")
    return note(
        f"{found}, with a date: the template prints today's, which changes rewards from day to day",
        f"here it is always {DATE}; elsewhere pass date_string='{DATE}'",
    )


def token_ids(
    tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig, bos: str, plain: Conversation, about: Conversation
) -> Row:
    """Check whether other code feeds the same ids: apply_chat_template(tokenize=True), or tokenising the rendered text.

    Both are transformers' own, on the text that is rendered here. `plain` has no opened turn, and `about` may have one.
    """
    reply = conversations.STAND_INS[0]
    ours = conversations.encode(tokenizer, plain, [reply])[0] + list(about.closing_ids[len(plain.closing_ids) :])
    if not tokenizer.chat_template:
        return ok(f"the tokenizer's own of a pair, beginning with {shown(tokenizer, tuple(ours[:1]))}")
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
        other = f"neither what apply_chat_template gives nor the rendered text, tokenised; {found}"
        return wrong(other, "see that the tokenizer is the one that the model was trained with", numbers)
    if not here and config.model_type in NEEDS_BOS:
        return wrong(found, "such a model needs one: begin its template with {{ bos_token }}", numbers)
    if bos == "single" and ours[:2] == [tokenizer.bos_token_id] * 2:
        return wrong(f"{found}, although one was asked for", "take one out of the template", numbers)
    if ours == by_template == by_text:
        return ok(found, "", numbers)
    modes = {"none": ("apply_chat_template", by_template), "double": ("the rendered text", by_text)}
    feeds = [f"--bos {mode} feeds what {reader} gives" for mode, (reader, ids) in modes.items() if ids != ours]
    return note(found, f"use what the model was trained with: {', '.join(feeds)}", numbers)


def _leading(token_ids: set, ids: Sequence[int]) -> int:
    return next((i for i, other in enumerate(ids) if other not in token_ids), len(ids))


def read_at(files: Files, wanted: str | None, about: Conversation) -> Row:
    """Check at which token the reward is read, on the input `about`. See reward_models.read_at_for for `wanted`."""
    rule = read_at_for(files.head_name, files.config, wanted)
    pad, closing = pad_token_id(files.config), about.closing_ids
    if rule == "pooled":
        return ok("the encoder pools in its own way, at its first token")
    pads = _leading({pad}, closing[::-1])
    last, kept = shown(files.tokenizer, closing[-1:]), closing[: len(closing) - pads]
    at = shown(files.tokenizer, kept[-1:]) if kept else "the reply's own last token"
    if rule == "last_not_pad" and pads:
        found = f"{at}: what closes a reply, {last}, is the pad token, and transformers reads the last that is no pad"
        return note(found, "if it was trained to be read at its closing token, say --read-at last")
    if pads and LAYOUTS[files.head_name].reads == "last_not_pad":
        found = f"{last}, as asked for; transformers reads at {at}, since {last} is the pad token"
        return note(found, "leave --read-at out to read where transformers does")
    if LAYOUTS[files.head_name].gated and pad in about.prefix_ids:
        why = "the pad token stands in the prompt too, and the code that this head was released with reads before"
        return note(f"{last}; {why} the first pad")
    return ok(f"{last}, the last token" if closing else "the reply's own last token: nothing closes it")


def padding(files: Files, about: Conversation) -> Row:
    """Check whether batches are padded with the token that the model's class takes for padding."""
    pad, theirs = pad_token_id(files.config), files.tokenizer.pad_token_id
    if pad is None:
        found = "config.json names none, so transformers refuses batches; here nothing is padded"
        return note(found, "elsewhere score one conversation at a time, or set config.pad_token_id")
    named = shown(files.tokenizer, (pad,))
    if theirs is not None and theirs != pad:
        other = f"config.json says {named}, the tokenizer pads with {shown(files.tokenizer, (theirs,))}"
        found = f"{other}, so a padded batch is read at a pad; here nothing is padded"
        return note(found, f"elsewhere set config.pad_token_id = {theirs}")
    if pad in about.prefix_ids or pad in about.closing_ids:
        return note(f"{named} also stands in conversations; here nothing is padded")
    return ok(f"{named}; here nothing is padded")


def special_tokens(tokenizer: PreTrainedTokenizerBase, about: Conversation) -> Row:
    """Check whether the control strings that the template prints are tokens of this tokenizer."""
    strings = dict.fromkeys(CONTROL.findall(about.before.replace(about.prompt.strip(), "") + about.after))
    ids = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in strings}
    if lost := [text for text, parts in ids.items() if tokenizer.unk_token_id in parts]:
        found = f"the template prints {', '.join(lost)}, which this tokenizer does not know"
        return wrong(found, "give the tokenizer that the model was trained with")
    if split := [f"{text} is read as {len(parts)} ids" for text, parts in ids.items() if len(parts) != 1]:
        remedy = "right only if the model was trained with this template and this tokenizer"
        return note(f"no tokens, but text: {', '.join(split)}", remedy)
    return ok(f"{', '.join(strings)} are one id each" if strings else "the template prints none")


def vocabulary(tokenizer: PreTrainedTokenizerBase, rows: int) -> Row:
    """Check whether every token has a row of the embedding table, which has this many rows."""
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        found = f"the tokenizer has ids up to {largest}, but there are {rows} rows of embeddings"
        return wrong(found, "give the tokenizer that the model was trained with")
    spare = f"; {rows - 1 - largest} rows have no token, and are not scored" if rows - 1 > largest else ""
    return ok(f"{len(tokenizer):,} tokens in {rows:,} rows of embeddings{spare}")
