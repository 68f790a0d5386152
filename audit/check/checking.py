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
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..opening import opening
from ..paper import (
    DATA,
    InputError,
    RewardModel,
    checkpoints,
    conversations,
    files,
    language_models,
    registry,
    reward_models,
    vocabulary,
)
from ..paper import prompts as tables_prompts
from ..reading import by_layer, implicit
from . import weights
from .feeds import Feeds
from .precision import HALF
from .readings import TOLERANCES, Array, Reader, elsewhere, reader_of, usual
from .report import Report, Row, attempt, note, ok, refused, shown, wrong
from .sources import Cause

# bases that are known to go astray without one
NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")
PAIRS = 12
RIGHT = 10  # pairs of PAIRS that chance orders rightly once in 50 times
# pairs whose replies, eight in all, are fed as other programs feed them
CONVERSATIONS = 4
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
    report = check(name, bos, reference, **given)
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return bool(report.wrong)


def check(
    name: str, bos: str = "single", reference: str | None = None, **options: Any
) -> Report:
    """Return in rows whether the reward model of that nickname, hub id or folder is scored as its
    makers meant.

    The model is loaded, with these options, and then by its own class in transformers if there is
    one: one of them in memory at a time. InputError only for a model that cannot be found.
    """
    if registry.is_served(str(name)):
        return check_loaded(opening.open_model(name, reference, **options), bos)
    commit = "unknown"
    if reference:
        entry = language_models.find(name)
    else:
        entry = reward_models.find(str(name))
        revision = options.get("revision") or entry["revision"]
        _, commit = files.fetch(entry["hub_id"], revision)
    try:
        model = opening.open_model(name, reference, **options)
        if reference:
            return check_loaded(model, bos)
        is_planted = entry["group"] == "embedded"
        rows = model_rows(model, bos, options.get("label"), is_planted)
    except InputError as error:
        rows = [refused("loading", error)]
    return Report(entry["nickname"], commit, rows)


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the check of a loaded model, which stays in memory."""
    if not isinstance(model, implicit.ImplicitRewardModel) and not model.is_served:
        return check(model.name, bos, device=model.device, dtype=model.dtype)
    return Report(model.nickname, model.revision, model_rows(model, bos))


def model_rows(
    model: RewardModel, bos: str, label: int | None = None, planted: bool = False
) -> list[Row]:
    """Return the rows about a loaded model, whose weights may leave memory then."""
    probes = probe_conversations()
    feeds = Feeds(model, probes, bos)
    asked = probes[0][0]["content"]
    about = model.conversation(asked, bos)
    is_read = is_checkpoint(model) and model.layers is None
    rows = []
    if is_checkpoint(model):
        rows = weights.weight_rows(model, label, about)
    if not model.is_served:
        size = model.backbone.config.get_text_config().vocab_size
        rows.append(attempt("vocabulary", weights.vocabulary, model.tokenizer, size))
    rows.append(
        attempt("special tokens", weights.special_tokens, model.tokenizer, about)
    )
    reader = reader_of(model) if is_read else None
    rows += program_rows(model, feeds, about, reader)
    why = ""
    if any(row.status == "wrong" for row in rows):
        why = "before what is wrong is put right"
    elif model.layers is not None:
        why = "the weights do not fit into memory"
    if why:
        names = ("own class", "pairs", "time")
        not_run = [Row(name, "note", f"not run: {why}") for name in names]
        return [*rows, *not_run]
    return [*rows, *reward_rows(model, bos, label, planted, feeds)]


def probe_conversations() -> list[list[dict]]:
    """Return the first pairs of data/check_pairs.csv as conversations, the better reply first."""
    return [
        [
            {"role": "user", "content": row.prompt},
            {"role": "assistant", "content": reply},
        ]
        for row in read_pairs().head(CONVERSATIONS).itertuples()
        for reply in (row.better, row.worse)
    ]


def is_checkpoint(model: RewardModel) -> bool:
    """Return whether the model is one checkpoint, whose weights are here."""
    return not isinstance(model, implicit.ImplicitRewardModel) and not model.is_served


def reward_rows(
    model: RewardModel, bos: str, label: int | None, planted: bool, feeds: Feeds
) -> list[Row]:
    """Return the rows about the model's rewards: its own class, pairs, and time."""
    rewards = np.stack(
        [
            vocabulary.score_replies(
                model, row.prompt, [row.better, row.worse], bos=bos
            )
            for row in read_pairs().itertuples()
        ]
    )
    last = [
        attempt("pairs", pairs_row, rewards, planted),
        attempt("time", _time, model, bos),
    ]
    if isinstance(model, implicit.ImplicitRewardModel):  # compared when it was loaded
        own = ok(
            "log-probabilities equal each model's own forward pass; the reference is "
            f"{model.reference.nickname}"
        )
    elif model.is_served:
        own = note(
            f"not run, as no row on weights is: {model.hub_id} has them",
            "check the folder of the checkpoint",
        )
    elif not has_own_class(model, label):
        own = ok("transformers has none for this head that runs without remote code")
    else:
        model.backbone.to(device="meta")
        by_layer.release()
        own = attempt(
            "own class", _own_class, model, feeds, rewards[:CONVERSATIONS].ravel()
        )
    if own.status == "ok" and last[0].status == "wrong":
        last[0] = of_another_task(last[0])
    return [replace(own, name="own class"), *last]


def of_another_task(pairs: Row) -> Row:
    """Return the row on pairs of a model in which nothing else is wrong: it may rate something else
    than good answers. To prefer the worse replies stays wrong.
    """
    if pairs.numbers["right"] <= PAIRS - RIGHT:
        return pairs
    remedy = (
        "nothing to do if it was trained to rate something else than answers, such as words; else "
        "look at the rows above, and at its model page"
    )
    return replace(pairs, status="note", remedy=remedy)


def has_own_class(model: RewardModel, label: int | None) -> bool:
    """Return whether a class of transformers gives the rewards of this checkpoint."""
    tensors = model.head.state_dict() if model.head else {}
    is_linear = model.head_name in ("linear", "classifier") and len(tensors) <= 1
    # Gemma-4's text part has none
    is_known = type(model.backbone.config) in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    return label is None and is_linear and is_known


def program_rows(
    model: RewardModel,
    feeds: Feeds,
    about: conversations.Conversation,
    reader: Reader | None,
) -> list[Row]:
    """Return what is fed and where it is read, and how far rewards are apart if a usual program
    does otherwise.

    The hypotheses are those of `why` that name a row here. Without a reader, distances are unknown.
    """
    apart, limit = distances(model, feeds, reader)
    rows = []
    for name, found in _found(model, feeds, about).items():
        own = {cause: far for cause, far in apart.items() if cause.row == name}
        # a distance that is unknown is noted too
        moved = {cause: far for cause, far in own.items() if not far <= limit}
        notes = [
            f"a program that {cause.text} gets other rewards"
            + (f", by up to {far:.2g}" if reader else "")
            for cause, far in moved.items()
        ]
        remedy = "; ".join(dict.fromkeys(cause.remedy for cause in moved))
        numbers = {}
        if reader:
            numbers = {cause.text: far for cause, far in own.items()}
        is_noted = notes or name == "tokenizer file" and feeds.change
        status = "note" if is_noted else "ok"
        rows.append(Row(name, status, "; ".join([found, *notes]), remedy, numbers))
    if feeds.own and (problem := _problem_of_ids(model, feeds, about.bos)):
        found, remedy = problem
        rows = [
            replace(row, status="wrong", found=f"{found}: {row.found}", remedy=remedy)
            if row.name == "token ids"
            else row
            for row in rows
        ]
    return rows


def distances(
    model: RewardModel, feeds: Feeds, reader: Reader | None
) -> tuple[dict[Cause, float], float]:
    """Return how far rewards are at most apart from those here, for each cause that a row names,
    and how far rounding moves them. Without a reader, distances are NaN.
    """
    base, *others = feeds.every(lambda cause: bool(cause.row))
    if reader is None:
        return {feed.cause: np.nan for feed in others if feed.cause}, 0.0
    others += feeds.batched(len(feeds.base))
    tried = dict(elsewhere(reader, base))
    tried |= {feed.cause: usual(reader, feed) for feed in others if feed.cause}
    here = usual(reader, base)[:, 0]
    apart = {}
    for cause, moved in tried.items():
        apart[cause] = float(np.abs(moved[:, 0] - here).max())
    return apart, TOLERANCES[model.dtype] * float(np.abs(here).max())


def _found(
    model: RewardModel, feeds: Feeds, about: conversations.Conversation
) -> dict[str, str]:
    """Return what this library feeds and where it reads, by the name of the row."""
    tokenizer = model.tokenizer
    template = f"the reply is followed by {shown(tokenizer, about.closing_ids)}"
    if not feeds.own:
        template = "none: an encoder, which reads the pair (prompt, reply)"
    file = "ids are those that tokenizer.json says, also by the class of the tokenizer"
    found = {
        "template": template,
        "system and date": _found_before(tokenizer, about),
        "token ids": _found_ids(feeds),
        "tokenizer file": feeds.change.line if feeds.change else file,
        "reward read at": _found_place(model, feeds.base[0].ids, about),
    }
    if model.read_at != "reply":
        found["pad token"] = f"{_found_pad(model)}; here nothing is padded"
    return found


def _found_before(
    tokenizer: PreTrainedTokenizerBase, about: conversations.Conversation
) -> str:
    prompt = about.prompt.strip()
    before = about.before.partition(prompt)[0]
    if "system" not in before.lower() and conversations.DATE not in before:
        return "the template adds neither a system turn nor a date"
    ids = tokenizer(before, add_special_tokens=False)["input_ids"]
    day = (
        f", with the date {conversations.DATE}" if conversations.DATE in before else ""
    )
    return f"the template begins with {len(ids)} ids of its own{day}"


def _found_ids(feeds: Feeds) -> str:
    tokenizer = feeds.tokenizer
    if not feeds.own:
        first = shown(tokenizer, feeds.base[0].ids[:1])
        return f"the tokenizer's own of a pair, beginning with {first}"
    words = {0: "none", 1: "one", 2: "two"}
    by_template = feeds.by_option["none"]
    as_text = feeds.by_option["double"]
    return (
        f"{tokenizer.bos_token or 'bos tokens'}: {words.get(feeds.count, feeds.count)} here, "
        f"{words.get(by_template, by_template)} by apply_chat_template(tokenize=True), "
        f"{words.get(as_text, as_text)} where the rendered text is tokenised"
    )


def _found_place(
    model: RewardModel, ids: tuple[int, ...], about: conversations.Conversation
) -> str:
    if model.read_at == "pooled":
        return "the encoder pools in its own way, at its first token"
    if model.read_at == "reply":
        ended = "counts" if about.closing_ids else "does not count"
        return f"every token of the reply; the token that ends it {ended}"
    if model.read_at != "last_not_pad":
        return f"{shown(model.tokenizer, ids[-1:])}, the last token"
    from_the_end = (i for i in ids[::-1] if i != model.pad_token_id)
    at = next(from_the_end, ids[-1])
    return f"{shown(model.tokenizer, (at,))}, the last token that is not padding"


def _found_pad(model: RewardModel) -> str:
    pad = model.pad_token_id
    theirs = model.tokenizer.pad_token_id
    if pad is None:
        return "config.json names none, so transformers refuses batches"
    found = shown(model.tokenizer, (pad,))
    if theirs not in (None, pad):
        found += f"; the tokenizer pads with {shown(model.tokenizer, (theirs,))}"
    return found


def _problem_of_ids(
    model: RewardModel, feeds: Feeds, bos: str
) -> tuple[str, str] | None:
    """Return what is wrong with the ids that are fed, and the remedy; None if nothing is."""
    if feeds.ids(feeds.own_wholes(), feeds.count) != [
        list(each.ids) for each in feeds.base
    ]:
        return (
            "other ids than the rendered text has",
            "give the tokenizer that the model was trained with",
        )
    if not feeds.count and model.backbone.config.model_type in NEEDS_BOS:
        return "such a model needs one", "begin its template with {{ bos_token }}"
    if bos == "single" and feeds.count > 1:
        return (
            "more than one, although one was asked for",
            "take one out of the template",
        )
    return None


def open_own_class(model: RewardModel) -> tuple[PreTrainedModel, list[str]]:
    """Return the checkpoint as its own class in transformers, and the tensors that are drawn at
    random there.
    """
    assert model.files is not None
    config = checkpoints.config_of(model.files)
    asked = None if model.attention == "sdpa" else model.attention
    attention = checkpoints.set_attention(config, asked)
    config.num_labels = 1
    own, report = checkpoints.from_safetensors(
        AutoModelForSequenceClassification,
        model.files,
        config,
        model.dtype,
        None if model.head is None else attention,
    )
    return own, sorted(
        str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]]
    )


def _own_class(model: RewardModel, feeds: Feeds, ours: Array) -> Row:
    """Compare our rewards of the probes, (n,), with those of the checkpoint's own class in
    transformers.
    """
    own, lost = open_own_class(model)
    if lost:
        return wrong(
            f"transformers draws {lost[0]} at random",
            "download the checkpoint again, or check config.json",
        )
    whole = checkpoints.ready(own, model.device)
    headless = replace(model, backbone=whole, head=None)
    reader = Reader(headless, [])
    # one at a time, so nothing is padded
    read = [reader.read([each])[0] for each in feeds.base]
    theirs = np.array([rewards[-1, 0] for rewards in read])
    apart = float(np.abs(theirs - ours).max())
    largest = np.abs(theirs).max()
    limit = TOLERANCES[model.dtype] * float(largest)
    numbers = {"largest difference": apart, "tolerance": limit}
    found = (
        f"{type(own).__name__} gives {len(ours)} rewards with a largest difference of {apart:.1g} "
        f"({apart / max(theirs.std(), 1e-12):.2g} of their standard deviation)"
    )
    if apart <= limit:
        rounded = f", which {model.dtype} explains" if model.dtype in HALF else ""
        return ok(f"{found}{rounded}", "", numbers)
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
    listed = [float(margin) for margin in margins]
    numbers = {"right": right, "margins": listed}
    if not np.isfinite(rewards).all():
        return wrong(
            "rewards are not finite",
            "load it with --dtype bfloat16 or float32",
            numbers,
        )
    if right >= RIGHT:
        return ok(found, "", numbers)
    if planted:
        return note(
            f"{found}; its values were planted in single words, not in sentences",
            "",
            numbers,
        )
    prompts = read_pairs()["prompt"]
    missed = ", ".join(prompts[margins <= 0].head(3))
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
    texts = conversations.vocabulary(model.tokenizer)["text"]
    prompts = tables_prompts.read_prompts(None)
    n = min(TIMED, len(texts))
    some = texts.sample(n, random_state=0).tolist()
    first = next(iter(prompts.values()))
    inputs = model.inputs_for(first, some, bos=bos)
    reader = vocabulary.reader_of(model)(model, inputs)
    start = time.perf_counter()
    reader.rewards(inputs.suffixes)
    of_a_token = (time.perf_counter() - start) / len(some)
    seconds = of_a_token * len(texts) * len(prompts)
    numbers = {"seconds": seconds, "tokens": len(texts), "prompts": len(prompts)}
    took = timedelta(seconds=round(seconds) or 1)
    found = (
        f"about {took} (h:mm:ss) for {len(texts):,} tokens and {len(prompts)} prompts"
    )
    if model.causal and not reader.limit:
        return note(
            f"{found}; every conversation is read whole, which is exact but slower",
            "",
            numbers,
        )
    return ok(found, "", numbers)
