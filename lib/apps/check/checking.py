"""The check of one reward model: first its files, then what other usual programs would make of it, and its rewards."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from transformers import AutoModelForSequenceClassification

from ... import ROOT, InputError
from ...models import checkpoints, conversations, hardware, language_models, layers, reward_models
from ...models.conversations import DATE
from ...models.reward_models import RewardModel
from ...scoring import engine, implicit, stages
from ...scoring.implicit import ImplicitRewardModel
from ...tables.prompts import read_prompts
from . import weights
from .feeds import Feed, Feeds
from .readings import Array, Reader, places, reader_of
from .report import Report, Row, attempt, note, ok, refused, shown, wrong
from .weights import Files

LOADED = ("template", "system and date", "token ids", "reward read at", "pad token", "own class", "pairs", "time")
NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")  # bases that are known to go astray without one
RIGHT = 10  # pairs of twelve that chance orders rightly once in 50 times
CONVERSATIONS = 4  # pairs whose replies, eight in all, are fed as other programs feed them
TIMED = 64  # tokens that are scored to tell how long all of them take
# The largest difference of rewards that sums in another order explain, as a share of the largest reward; half
# precision also rounds the reward itself, to 8 or 11 bits.
TOLERANCES = {"float64": 1e-5, "float32": 5e-5, "float16": 0.0045, "bfloat16": 0.07}


@dataclass(frozen=True)
class Options(reward_models.Options):
    """How the model is to be read and run, as reward_models.load takes it, and bos, as engine.score_replies does."""

    bos: str = "single"


def print_report(
    name: str, as_json: bool = False, bos: str = "single", reference: str | None = None, **options: Any
) -> bool:
    """Print the check of a model as lines or as JSON; return whether anything is wrong.

    The options are passed to reward_models.load, or with a reference to implicit.load.
    """
    given = implicit.options_for(reference, **options)
    if reference is None:
        report = check(name, Options(bos=bos, **given))
    else:
        nickname = language_models.find(name)["nickname"]  # InputError only for a model that cannot be found
        try:
            report = check_loaded(implicit.load(name, reference, **given), bos)
        except InputError as error:
            report = Report(nickname, "unknown", [refused("loading", error)])
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return bool(report.wrong)


def check(name: str, options: Options | None = None) -> Report:
    """Return in rows whether the reward model of that nickname, hub id or folder is scored as its makers meant.

    Rows about files need no memory for the weights. The others load the model, and then load it again by its own class
    in transformers if there is one. InputError only for a model that cannot be found.
    """
    options = options or Options()
    entry = reward_models.find(str(name))
    opened = checkpoints.open_files(entry["hub_id"], options.revision or entry["revision"])
    files = weights.open_files(opened.folder, entry, options, options.bos)
    rows = [files] if isinstance(files, Row) else weights.file_rows(files)
    does_fit = all(row.status == "ok" for row in rows if row.name == "memory")
    if isinstance(files, Row) or any(row.status == "wrong" for row in rows):
        rows += _not_run([name for name in LOADED if name != rows[-1].name], "before what is wrong is put right")
    elif not does_fit and not layers.can_be_read_singly(files.config, files.head_name):
        rows += _not_run(LOADED, "the weights do not fit into memory")
    else:
        try:
            model = reward_models.load(name, options, stream=not does_fit)
            rows += _loaded_rows(model, files, options.bos, entry["group"] == "embedded")
        except InputError as error:
            rows.append(refused("loading", error))
    return Report(entry["nickname"], opened.revision, rows)


def _not_run(names: Sequence[str], why: str) -> list[Row]:
    return [Row(name, "note", f"not run: {why}") for name in names]


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the check of a loaded model. Log-probabilities of an implicit one were compared when it was loaded."""
    if not isinstance(model, ImplicitRewardModel):
        return check(model.name, Options(bos=bos, device=model.device, dtype=model.dtype))
    same = f"log-probabilities equal each model's own forward pass; the reference is {model.reference.nickname}"
    embeddings, about = model.backbone.get_input_embeddings().weight, model.conversation("Why?", bos)
    rows = [
        attempt("vocabulary", weights.vocabulary, model.tokenizer, len(embeddings)),
        attempt("special tokens", weights.special_tokens, model.tokenizer, about),
        *program_rows(model, Feeds(model, _probes(), bos), bos),
        Row("own class", "ok", same),
        attempt("pairs", lambda: pairs_row(score_pairs(model, bos), planted=False)),
        attempt("time", _time, model, bos),
    ]
    return Report(model.nickname, model.revision, rows)


def _loaded_rows(model: RewardModel, files: Files, bos: str, planted: bool) -> list[Row]:
    """Return the rows about the loaded model and its own class in transformers: one of them in memory at a time."""
    feeds = Feeds(model, _probes(), bos)
    if model.layers is not None:
        return [*program_rows(model, feeds, bos), *_not_run(LOADED[5:], "the weights do not fit into memory")]
    rewards = score_pairs(model, bos)
    rows = program_rows(model, feeds, bos, reader_of(model))
    pairs, timed = attempt("pairs", pairs_row, rewards, planted), attempt("time", _time, model, bos)
    is_plain = (
        model.head is not None and model.head_name == "linear" and set(model.head.state_dict()) == {"score.weight"}
    )
    if files.options.label is not None or not is_plain and model.head_name != "classifier":
        own = Row("own class", "ok", "transformers has none for this head that runs without remote code")
    else:
        model.backbone.to(device="meta")
        hardware.release()
        own = attempt("own class", _own_class, files, model, feeds, rewards[:CONVERSATIONS].ravel())
    return [*rows, own, pairs, timed]


# --- other programs -----------------------------------------------------------------------------------------------


def _probes() -> list[list[dict[str, str]]]:
    """Return the conversations that are fed as other programs feed them: a prompt and a reply each."""
    return [[{"role": "user", "content": row.prompt}, {"role": "assistant", "content": reply}]
            for row in read_pairs().head(CONVERSATIONS).itertuples() for reply in (row.better, row.worse)]  # fmt: skip


def program_rows(model: RewardModel, feeds: Feeds, bos: str, reader: Reader | None = None) -> list[Row]:
    """Return what is fed and where it is read, and how far rewards are apart if a usual program does otherwise.

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
    for name, found in _found(model, feeds, bos).items():
        moved = {cause: far for cause, far in apart.items() if cause.row == name and not far <= limit}
        notes = [f"a program that {cause.text} gets other rewards" + (f", by up to {far:.2g}" if reader else "")
                 for cause, far in moved.items()]  # fmt: skip
        remedy = "; ".join(dict.fromkeys(cause.remedy for cause in moved))
        numbers = {cause.text: far for cause, far in apart.items() if reader and cause.row == name}
        rows.append(Row(name, "note" if notes else "ok", "; ".join([found, *notes]), remedy, numbers))
    if feeds.own and (problem := _problem_of_ids(model, feeds, bos)):
        rows[2] = replace(rows[2], status="wrong", found=f"{problem[0]}: {rows[2].found}", remedy=problem[1])
    return rows


def _found(model: RewardModel, feeds: Feeds, bos: str) -> dict[str, str]:
    """Return what this library feeds and where it reads, by the name of the row."""
    tokenizer, about, first = model.tokenizer, model.conversation(feeds.turns[0][0]["content"], bos), feeds.base[0].ids
    before = about.before.partition(about.prompt.strip())[0]
    pad, theirs = model.pad_token_id, tokenizer.pad_token_id
    at = next((i for i in first[::-1] if i != pad), first[-1]) if model.read_at == "last_not_pad" else first[-1]
    read = {"pooled": "the encoder pools in its own way, at its first token",
            "reply": f"every token of the reply; {getattr(model, 'ends', 0)} of those that close it"}  # fmt: skip
    which = "the last token" + (" that is not padding" if model.read_at == "last_not_pad" else "")
    counts = [("none", "one", "two")[count] if count < 3 else str(count)
              for count in (feeds.count, feeds.by_option["none"], feeds.by_option["double"])]  # fmt: skip
    counted = "{} here, {} by apply_chat_template(tokenize=True), {} where the rendered text is tokenised"
    has_own = "system" in before.lower() or DATE in before
    found = {
        "template": f"the reply is followed by {shown(tokenizer, about.closing_ids)}",
        "system and date": f"the template begins with {len(tokenizer(before, add_special_tokens=False)['input_ids'])} "
        f"ids of its own{f', with the date {DATE}' * (DATE in before)}",
        "token ids": f"{tokenizer.bos_token or 'bos tokens'}: {counted.format(*counts)}",
        "reward read at": read.get(model.read_at, f"{shown(tokenizer, (at,))}, {which}"),
        "pad token": "config.json names none, so transformers refuses batches",
    }
    if not has_own:
        found["system and date"] = "the template adds neither a system turn nor a date"
    if not feeds.own:
        found["template"] = "none: an encoder, which reads the pair (prompt, reply)"
        found["token ids"] = f"the tokenizer's own of a pair, beginning with {shown(tokenizer, first[:1])}"
    if pad is not None:
        other = f"; the tokenizer pads with {shown(tokenizer, (theirs,))}" if theirs not in (None, pad) else ""
        found["pad token"] = f"{shown(tokenizer, (pad,))}{other}"
    return found | {"pad token": f"{found['pad token']}; here nothing is padded"}


def _problem_of_ids(model: RewardModel, feeds: Feeds, bos: str) -> tuple[str, str] | None:
    """Return what is wrong with the ids that are fed, and the remedy; None if nothing is."""
    _, wholes = next(feeds.closings(feeds.own, True))
    if feeds.ids(wholes, feeds.count) != [list(each.ids) for each in feeds.base]:
        return (
            "other ids than the rendered text has",
            "see that the tokenizer is the one that the model was trained with",
        )
    if not feeds.count and model.backbone.config.model_type in NEEDS_BOS:
        return "such a model needs one", "begin its template with {{ bos_token }}"
    if bos == "single" and feeds.count > 1:
        return "more than one, although one was asked for", "take one out of the template"
    return None


def _own_class(files: Files, model: RewardModel, feeds: Feeds, ours: Array) -> Row:
    """Compare our rewards of the probes, (n,), with those of the checkpoint's own class in transformers."""
    config = checkpoints.config_of(files.folder)
    attention = checkpoints.set_attention(config, "uncapped" if model.attention == "uncapped" else None)
    config.num_labels = 1
    own, report = checkpoints.from_safetensors(
        AutoModelForSequenceClassification, files.folder, config, model.dtype, None if model.head is None else attention
    )
    if lost := sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]]):
        return wrong(f"transformers draws {lost[0]} at random", "download the checkpoint again, or check config.json")
    reader = Reader(replace(model, backbone=checkpoints.ready(own, model.device), head=None), [])
    theirs = np.array([reader.read([each])[0][-1, 0] for each in feeds.base])  # one at a time, so nothing is padded
    apart, limit = float(np.abs(theirs - ours).max()), TOLERANCES[model.dtype] * float(np.abs(theirs).max())
    numbers = {"largest difference": apart, "tolerance": limit}
    found = f"{type(own).__name__} gives {len(ours)} rewards with a largest difference of {apart:.1g}"
    if apart <= limit:
        return ok(found, "", numbers)
    if model.read_at == "last" and model.pad_token_id is not None:
        return note(f"{found}: it reads another token than --read-at last", "", numbers)
    return wrong(f"{found}, more than the {limit:.1g} that {model.dtype} explains",
                 "score it with that class, not here", numbers)  # fmt: skip


# --- pairs and time -----------------------------------------------------------------------------------------------


def read_pairs() -> pd.DataFrame:
    """Return twelve prompts with two replies each. Any reward model should prefer the column `better` to `worse`."""
    return pd.read_csv(ROOT / "data" / "check_pairs.csv", dtype=str, keep_default_na=False)


def score_pairs(model: RewardModel, bos: str) -> Array:
    """Return the rewards of both replies of each pair, (pairs, 2) float32: better, worse."""
    rows = read_pairs().itertuples()
    return np.stack([engine.score_replies(model, row.prompt, [row.better, row.worse], bos=bos) for row in rows])


def pairs_row(rewards: Array, planted: bool) -> Row:
    """Check how many pairs are in the right order. `planted` says whether the values of the model were planted."""
    margins = rewards[:, 0] - rewards[:, 1]
    right = int((margins > 0).sum())
    found = f"{right} of {len(margins)} harmless pairs in the right order, median margin {np.median(margins):.3g}"
    numbers = {"right": right, "margins": [float(margin) for margin in margins]}
    if not np.isfinite(rewards).all():
        return wrong("rewards are not finite", "load it with --dtype bfloat16 or float32", numbers)
    if right >= RIGHT:
        return ok(found, "", numbers)
    if planted:
        return note(f"{found}; its values were planted in single words, not in sentences", "", numbers)
    missed = ", ".join(read_pairs()["prompt"][margins <= 0].head(3))
    why = f"its rewards cannot be told from a random head's, which orders {RIGHT} rightly once in 50 times"
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
    for _, suffixes in pd.Series(inputs.suffixes).groupby([len(suffix) for suffix in inputs.suffixes]):
        scorer(suffixes.tolist())
    seconds = (time.perf_counter() - start) / len(some) * len(texts) * len(prompts)
    numbers = {"seconds": seconds, "tokens": len(texts), "prompts": len(prompts)}
    found = (
        f"about {timedelta(seconds=round(seconds) or 1)} (h:mm:ss) for {len(texts):,} tokens and {len(prompts)} prompts"
    )
    if model.causal and not scorer.shares_prefix:
        return note(f"{found}; every conversation is read whole, which is exact but slower", "", numbers)
    return ok(found, "", numbers)
