"""The check of one reward model: first its files, then what other usual programs would make of
it, and its rewards.
"""

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from transformers import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoModelForSequenceClassification,
)

from ... import DATA, InputError
from ...models import checkpoints, conversations, hardware, language_models, reward_models
from ...models.conversations import DATE, Conversation
from ...models.reward_models import RewardModel
from ...scoring import engine, stages
from ...scoring.implicit import ImplicitRewardModel
from ...tables import registry
from ...tables.prompts import read_prompts
from ..opening import opening, plain
from . import weights
from .feeds import Feed, Feeds
from .readings import TOLERANCES, Array, Reader, places, reader_of
from .report import Report, Row, attempt, note, ok, refused, shown, wrong

NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")  # bases that are known to go astray without one
RIGHT = 10  # pairs of twelve that chance orders rightly once in 50 times
CONVERSATIONS = 4  # pairs whose replies, eight in all, are fed as other programs feed them
TIMED = 64  # tokens that are scored to tell how long all of them take


def print_report(
    name: str,
    as_json: bool = False,
    bos: str = "single",
    reference: str | None = None,
    **options: Any,
) -> bool:
    """Print the check of a model as lines or as JSON; return whether anything is wrong.

    The options are passed to opening.open_model.
    """
    given = opening.options_for(reference, **options)
    if reference is None:
        report = check(name, bos, **given)
    else:
        # InputError only for a model that cannot be found
        nickname = language_models.find(name)["nickname"]
        try:
            report = check_loaded(opening.open_model(name, reference, **given), bos)
        except InputError as error:
            report = Report(nickname, "unknown", [refused("loading", error)])
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return bool(report.wrong)


def check(name: str, bos: str = "single", **options: Any) -> Report:
    """Return in rows whether the reward model of that nickname, hub id or folder is scored as its
    makers meant.

    The model is loaded, with these options, and then by its own class in transformers if there is
    one: one of them in memory at a time. InputError only for a model that cannot be found.
    """
    if registry.is_served(str(name)):
        return check_loaded(opening.open_model(name, **options), bos)
    entry = reward_models.find(str(name))
    revision = options.get("revision") or entry["revision"]
    opened = plain.open_files(entry["hub_id"], revision, base=options.get("base"))
    try:
        model = opening.open_model(name, **options)
        rows = model_rows(model, bos, options.get("label"), entry["group"] == "embedded")
    except InputError as error:
        rows = [refused("loading", error)]
    return Report(entry["nickname"], opened.revision, rows)


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the check of a loaded model, which stays in memory."""
    if not isinstance(model, ImplicitRewardModel) and not model.is_served:
        return check(model.name, bos, device=model.device, dtype=model.dtype)
    return Report(model.nickname, model.revision, model_rows(model, bos))


def model_rows(
    model: RewardModel, bos: str, label: int | None = None, planted: bool = False
) -> list[Row]:
    """Return the rows about a loaded model, whose weights may leave memory then."""
    is_checkpoint = not isinstance(model, ImplicitRewardModel) and not model.is_served
    asked = [
        (row.prompt, reply)
        for row in read_pairs().head(CONVERSATIONS).itertuples()
        for reply in row[2:]
    ]
    probes = [
        [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        for prompt, reply in asked
    ]
    feeds, about = Feeds(model, probes, bos), model.conversation(asked[0][0], bos)
    reader = reader_of(model) if is_checkpoint and model.layers is None else None
    rows = weights.weight_rows(model, label, about) if is_checkpoint else []
    if not model.is_served:
        size = model.backbone.config.get_text_config().vocab_size
        rows.append(attempt("vocabulary", weights.vocabulary, model.tokenizer, size))
    rows.append(attempt("special tokens", weights.special_tokens, model.tokenizer, about))
    rows += program_rows(model, feeds, about, reader)
    why = "before what is wrong is put right" if any(row.status == "wrong" for row in rows) else ""
    if why or model.layers is not None:
        found = f"not run: {why or 'the weights do not fit into memory'}"
        return [*rows, *(Row(name, "note", found) for name in ("own class", "pairs", "time"))]
    pairs = read_pairs().itertuples()
    rewards = np.stack(
        [engine.score_replies(model, row.prompt, [row.better, row.worse], bos=bos) for row in pairs]
    )
    last = [attempt("pairs", pairs_row, rewards, planted), attempt("time", _time, model, bos)]
    tensors = model.head.state_dict() if model.head else {}
    if isinstance(model, ImplicitRewardModel):  # compared when it was loaded
        own = ok(
            "log-probabilities equal each model's own forward pass; the reference is "
            f"{model.reference.nickname}"
        )
    elif model.is_served:
        own = note(
            f"not run, as no row on weights is: {model.hub_id} has them",
            "check the folder of the checkpoint",
        )
    elif (
        label is not None
        or model.head_name not in ("linear", "classifier")
        or len(tensors) > 1
        # Gemma-4's text part
        or type(model.backbone.config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    ):
        own = ok("transformers has none for this head that runs without remote code")
    else:
        model.backbone.to(device="meta")
        hardware.release()
        return [
            *rows,
            attempt("own class", _own_class, model, feeds, rewards[:CONVERSATIONS].ravel()),
            *last,
        ]
    return [*rows, replace(own, name="own class"), *last]


def program_rows(
    model: RewardModel, feeds: Feeds, about: Conversation, reader: Reader | None
) -> list[Row]:
    """Return what is fed and where it is read, and how far rewards are apart if a usual program
    does otherwise.

    The hypotheses are those of `why` that name a row here. Without a reader, distances are unknown.
    """
    base, tried = Feed((), feeds.base, True), []  # causes and rewards, (n,)
    feeds_tried = [*feeds.every(), *(feeds.padded(base, len(feeds.base)) if reader else ())]
    for feed in [feed for feed in feeds_tried if len(feed.causes) == 1 and feed.causes[0].row]:
        tried.append((feed.causes, places(reader, feed)[1][0, :, 0] if reader else np.nan))
    usual, limit = np.array(0.0), 0.0
    if reader:
        where, rewards = places(reader, base)  # (places, n, labels)
        tried += zip(where[1:], rewards[1:, :, 0], strict=True)
        usual = rewards[0, :, 0]
        limit = TOLERANCES[model.dtype] * float(np.abs(usual).max())
    apart = {cause: float(np.abs(rewards - usual).max()) for (cause, *_), rewards in tried}
    rows = []
    for name, found in _found(model, feeds, about).items():
        moved = {
            cause: far for cause, far in apart.items() if cause.row == name and not far <= limit
        }
        notes = [
            f"a program that {cause.text} gets other rewards"
            + (f", by up to {far:.2g}" if reader else "")
            for cause, far in moved.items()
        ]
        remedy = "; ".join(dict.fromkeys(cause.remedy for cause in moved))
        numbers = {cause.text: far for cause, far in apart.items() if reader and cause.row == name}
        is_noted = notes or name == "tokenizer file" and feeds.change
        rows.append(
            Row(name, "note" if is_noted else "ok", "; ".join([found, *notes]), remedy, numbers)
        )
    if feeds.own and (problem := _problem_of_ids(model, feeds, about.bos)):
        rows[2] = replace(
            rows[2], status="wrong", found=f"{problem[0]}: {rows[2].found}", remedy=problem[1]
        )
    return rows


def _found(model: RewardModel, feeds: Feeds, about: Conversation) -> dict[str, str]:
    """Return what this library feeds and where it reads, by the name of the row."""
    tokenizer, first = model.tokenizer, feeds.base[0].ids
    before = about.before.partition(about.prompt.strip())[0]
    pad, theirs = model.pad_token_id, tokenizer.pad_token_id
    at = (
        next((i for i in first[::-1] if i != pad), first[-1])
        if model.read_at == "last_not_pad"
        else first[-1]
    )
    ended = "counts" if getattr(model, "ends", 0) and about.closing_ids else "does not count"
    read = {
        "pooled": "the encoder pools in its own way, at its first token",
        "reply": f"every token of the reply; the token that ends it {ended}",
    }
    which = "the last token" + (" that is not padding" if model.read_at == "last_not_pad" else "")
    counts = [
        ("none", "one", "two")[count] if count < 3 else str(count)
        for count in (feeds.count, feeds.by_option["none"], feeds.by_option["double"])
    ]
    counted = (
        "{} here, {} by apply_chat_template(tokenize=True), {} where the rendered text is tokenised"
    )
    has_own = "system" in before.lower() or DATE in before
    found = {
        "template": f"the reply is followed by {shown(tokenizer, about.closing_ids)}",
        "system and date": "the template begins with "
        f"{len(tokenizer(before, add_special_tokens=False)['input_ids'])} ids of its "
        f"own{f', with the date {DATE}' * (DATE in before)}",
        "token ids": f"{tokenizer.bos_token or 'bos tokens'}: {counted.format(*counts)}",
        "tokenizer file": "ids are those that tokenizer.json says, also by the class of the "
        "tokenizer",
        "reward read at": read.get(model.read_at, f"{shown(tokenizer, (at,))}, {which}"),
        "pad token": "config.json names none, so transformers refuses batches",
    }
    if feeds.change:
        found["tokenizer file"] = feeds.change.line
    if not has_own:
        found["system and date"] = "the template adds neither a system turn nor a date"
    if not feeds.own:
        found["template"] = "none: an encoder, which reads the pair (prompt, reply)"
        found["token ids"] = (
            f"the tokenizer's own of a pair, beginning with {shown(tokenizer, first[:1])}"
        )
    if pad is not None:
        other = (
            f"; the tokenizer pads with {shown(tokenizer, (theirs,))}"
            if theirs not in (None, pad)
            else ""
        )
        found["pad token"] = f"{shown(tokenizer, (pad,))}{other}"
    found["pad token"] += "; here nothing is padded"
    return {
        name: text
        for name, text in found.items()
        if model.read_at != "reply" or name != "pad token"
    }


def _problem_of_ids(model: RewardModel, feeds: Feeds, bos: str) -> tuple[str, str] | None:
    """Return what is wrong with the ids that are fed, and the remedy; None if nothing is."""
    _, wholes = next(feeds.closings(feeds.own, True))
    if feeds.ids(wholes, feeds.count) != [list(each.ids) for each in feeds.base]:
        return (
            "other ids than the rendered text has",
            "give the tokenizer that the model was trained with",
        )
    if not feeds.count and model.backbone.config.model_type in NEEDS_BOS:
        return "such a model needs one", "begin its template with {{ bos_token }}"
    if bos == "single" and feeds.count > 1:
        return "more than one, although one was asked for", "take one out of the template"
    return None


def _own_class(model: RewardModel, feeds: Feeds, ours: Array) -> Row:
    """Compare our rewards of the probes, (n,), with those of the checkpoint's own class in
    transformers.
    """
    assert model.files is not None
    folder, config = model.files.folder, checkpoints.config_of(model.files.folder)
    attention = checkpoints.set_attention(
        config, None if model.attention == "sdpa" else model.attention
    )
    config.num_labels = 1
    own, report = checkpoints.from_safetensors(
        AutoModelForSequenceClassification,
        folder,
        config,
        model.dtype,
        None if model.head is None else attention,
    )
    if lost := sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]]):
        return wrong(
            f"transformers draws {lost[0]} at random",
            "download the checkpoint again, or check config.json",
        )
    reader = Reader(replace(model, backbone=checkpoints.ready(own, model.device), head=None), [])
    # one at a time, so nothing is padded
    theirs = np.array([reader.read([each])[0][-1, 0] for each in feeds.base])
    apart, limit = (
        float(np.abs(theirs - ours).max()),
        TOLERANCES[model.dtype] * float(np.abs(theirs).max()),
    )
    numbers = {"largest difference": apart, "tolerance": limit}
    found = (
        f"{type(own).__name__} gives {len(ours)} rewards with a largest difference of {apart:.1g}"
    )
    if apart <= limit:
        return ok(found, "", numbers)
    if model.read_at == "last" and model.pad_token_id is not None:
        return note(f"{found}: it reads another token than --read-at last", "", numbers)
    return wrong(
        f"{found}, more than the {limit:.1g} that {model.dtype} explains",
        "score it with that class, not here",
        numbers,
    )


def read_pairs() -> pd.DataFrame:
    """Return twelve prompts with two replies each. Any reward model should prefer the column
    `better` to `worse`.
    """
    return pd.read_csv(DATA / "check_pairs.csv", dtype=str, keep_default_na=False)


def pairs_row(rewards: Array, planted: bool) -> Row:
    """Check how many pairs are in the right order. `planted` says whether the values of the
    model were planted.
    """
    margins = rewards[:, 0] - rewards[:, 1]
    right = int((margins > 0).sum())
    found = (
        f"{right} of {len(margins)} harmless pairs in the right order, median margin "
        f"{np.median(margins):.3g}"
    )
    numbers = {"right": right, "margins": [float(margin) for margin in margins]}
    if not np.isfinite(rewards).all():
        return wrong("rewards are not finite", "load it with --dtype bfloat16 or float32", numbers)
    if right >= RIGHT:
        return ok(found, "", numbers)
    if planted:
        return note(
            f"{found}; its values were planted in single words, not in sentences", "", numbers
        )
    missed = ", ".join(read_pairs()["prompt"][margins <= 0].head(3))
    why = (
        f"its rewards cannot be told from a random head's, which orders {RIGHT} rightly once in "
        "50 times"
    )
    if right <= len(margins) - RIGHT:
        why = "it prefers the worse replies"
    remedy = "most likely it was loaded wrongly: look at the rows above, and at its model page"
    return wrong(f"{found}; {why}; missed: {missed}", remedy, numbers)


def _time(model: RewardModel, bos: str) -> Row:
    """Estimate the time for the whole vocabulary from some of its tokens."""
    texts, prompts = conversations.vocabulary(model.tokenizer)["text"], read_prompts(None)
    some = texts.sample(min(TIMED, len(texts)), random_state=0).tolist()
    inputs = model.inputs_for(next(iter(prompts.values())), some, bos=bos)
    scorer = stages.reader_of(model)(model, inputs)
    start = time.perf_counter()
    for _, suffixes in pd.Series(inputs.suffixes).groupby(
        [len(suffix) for suffix in inputs.suffixes]
    ):
        scorer(suffixes.tolist())
    seconds = (time.perf_counter() - start) / len(some) * len(texts) * len(prompts)
    numbers = {"seconds": seconds, "tokens": len(texts), "prompts": len(prompts)}
    took = timedelta(seconds=round(seconds) or 1)
    found = f"about {took} (h:mm:ss) for {len(texts):,} tokens and {len(prompts)} prompts"
    if model.causal and not scorer.shares_prefix:
        return note(
            f"{found}; every conversation is read whole, which is exact but slower", "", numbers
        )
    return ok(found, "", numbers)
