"""The check of one reward model: first its files, then what other usual programs would make of
it, and its rewards.
"""

from dataclasses import replace
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
    conversations,
    language_models,
    loading,
    registry,
    reward_models,
    vocabulary,
)
from ..reading import by_layer, implicit
from . import weights
from .feeds import Feed, Feeds
from .readings import TOLERANCES, Array, Reader, elsewhere, reader_of, usual
from .report import Report, Row, attempt, note, ok, refused, shown, wrong
from .sources import Cause

# bases that are known to go astray without one
NEEDS_BOS = ("gemma", "gemma2", "gemma3_text")
PAIRS = 12
RIGHT = 10  # pairs of PAIRS that chance orders rightly once in 50 times
# pairs whose replies, eight in all, are fed as other programs feed them
CONVERSATIONS = 4


def print_report(
    name: str, bos: str = "single", reference: str | None = None, **options: Any
) -> bool:
    """Print the check of a model; return whether anything is wrong.

    The options are passed to opening.open_model.
    """
    given = opening.options_for(reference, **options)
    report = check(name, bos, reference, **given)
    print("\n".join(report.lines()))
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
        _, commit = loading.fetch(entry["hub_id"], revision)
    try:
        model = opening.open_model(name, reference, **options)
        if reference:
            return check_loaded(model, bos)
        rows = model_rows(model, bos, options.get("label"))
    except InputError as error:
        rows = [refused("loading", error)]
    return Report(entry["nickname"], commit, rows)


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the check of a loaded model, which stays in memory."""
    if not isinstance(model, implicit.ImplicitRewardModel) and not model.is_served:
        return check(model.name, bos, device=model.device, dtype=model.dtype)
    return Report(model.nickname, model.revision, model_rows(model, bos))


def model_rows(model: RewardModel, bos: str, label: int | None = None) -> list[Row]:
    """Return the rows about a loaded model, whose weights may leave memory then."""
    probes = probe_conversations()
    feeds = Feeds(model, probes, bos)
    asked = probes[0][0]["content"]
    about = model.conversation(asked, bos)
    rows = []
    reader = None
    if is_checkpoint(model):
        rows = weights.weight_rows(model, label, about)
        reader = reader_of(model) if model.layers is None else None
    tokenizer = model.tokenizer
    rows += [
        attempt("special tokens", weights.special_tokens, tokenizer, about),
        attempt("system and date", _system, tokenizer, about),
        attempt("tokenizer file", _tokenizer_file, feeds),
        *program_rows(model, feeds, about, reader),
    ]
    if any(row.status == "wrong" for row in rows):
        return [*rows, Row("rewards", "note", "not read before this is put right")]
    if model.layers is not None:
        why = "not read: the weights do not fit into memory"
        return [*rows, Row("rewards", "note", why)]
    return [*rows, *reward_rows(model, bos, label, feeds)]


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
    model: RewardModel, bos: str, label: int | None, feeds: Feeds
) -> list[Row]:
    """Return the rows about the model's rewards: its own class, and pairs."""
    rewards = np.stack(
        [
            vocabulary.score_replies(
                model, row.prompt, [row.better, row.worse], bos=bos
            )
            for row in read_pairs().itertuples()
        ]
    )
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
        probed = rewards[:CONVERSATIONS].ravel()
        own = attempt("own class", _own_class, model, feeds, probed)
    is_read_right = own.status == "ok" or model.is_served  # by the server's own class
    pairs = attempt("pairs", pairs_row, rewards, is_read_right)
    return [replace(own, name="own class"), pairs]


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

    The hypotheses are those of `why` that name a row here. Without a reader, there are no
    distances.
    """
    apart = distances(model, feeds, reader) if reader else {}
    rows = []
    for name, found in _found(model, feeds, about).items():
        causes = [cause for cause in apart if cause.row == name]
        notes = [
            f"a program that {cause.text} gets other rewards, by up to {apart[cause]:.2g}"
            for cause in causes
        ]
        remedies = dict.fromkeys(cause.remedy for cause in causes)
        status = "note" if causes else "ok"
        row = Row(name, status, "; ".join([found, *notes]), "; ".join(remedies))
        if name == "token ids" and feeds.own:
            row = _put_right(model, feeds, row)
        rows.append(row)
    return rows


def distances(model: RewardModel, feeds: Feeds, reader: Reader) -> dict[Cause, float]:
    """Return how far rewards are at most apart from those here, for each cause that a row names
    and that moves them further than rounding does.
    """
    base = Feed(None, feeds.base)
    tried = dict(elsewhere(reader, base))
    tried_here = [*feeds.others(), *feeds.batched(len(feeds.base))]
    for feed in filter(feeds.is_readable, tried_here):
        if feed.cause and feed.cause.row:
            tried[feed.cause] = usual(reader, feed)
    here = usual(reader, base)[:, 0]
    limit = TOLERANCES[model.dtype] * float(np.abs(here).max())
    apart = {
        cause: float(np.abs(moved[:, 0] - here).max()) for cause, moved in tried.items()
    }
    return {cause: far for cause, far in apart.items() if far > limit}


def _found(
    model: RewardModel, feeds: Feeds, about: conversations.Conversation
) -> dict[str, str]:
    """Return what this library feeds and where it reads, by the name of the row."""
    template = f"the reply is followed by {shown(model.tokenizer, about.closing_ids)}"
    if not feeds.own:
        template = "none: an encoder, which reads the pair (prompt, reply)"
    found = {
        "template": template,
        "token ids": _found_ids(feeds),
        "reward read at": _found_place(model, feeds.base[0].ids),
    }
    if model.read_at != "reply":
        found["pad token"] = f"{_found_pad(model)}; here nothing is padded"
    return found


def _system(
    tokenizer: PreTrainedTokenizerBase, about: conversations.Conversation
) -> Row:
    before = about.before.partition(about.prompt.strip())[0]
    if "system" not in before.lower() and conversations.DATE not in before:
        return ok("the template adds neither a system turn nor a date")
    ids = tokenizer(before, add_special_tokens=False)["input_ids"]
    day = (
        f", with the date {conversations.DATE}" if conversations.DATE in before else ""
    )
    return note(
        f"the template begins with {len(ids)} ids of its own{day}",
        "give both programs the same system turn and date_string",
    )


def _tokenizer_file(feeds: Feeds) -> Row:
    if feeds.change:
        return note(feeds.change.line)
    return ok(
        "ids are those that tokenizer.json says, also by the class of the tokenizer"
    )


def _found_ids(feeds: Feeds) -> str:
    if not feeds.own:
        first = shown(feeds.tokenizer, feeds.base[0].ids[:1])
        return f"the tokenizer's own of a pair, beginning with {first}"
    return (
        f"{feeds.tokenizer.bos_token or 'bos tokens'}: {feeds.count} here, "
        f"{feeds.by_option['none']} by apply_chat_template(tokenize=True), "
        f"{feeds.by_option['double']} where the rendered text is tokenised"
    )


def _found_place(model: RewardModel, ids: tuple[int, ...]) -> str:
    if model.read_at == "pooled":
        return "the encoder pools in its own way, at its first token"
    if model.read_at == "reply":
        return "every token of the reply"
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


def _put_right(model: RewardModel, feeds: Feeds, row: Row) -> Row:
    """Return the row on token ids, which is wrong if there are too few or too many
    beginning-of-sequence tokens.
    """
    if not feeds.count and model.backbone.config.model_type in NEEDS_BOS:
        remedy = "begin its template with {{ bos_token }}: such a model needs one"
        return replace(row, status="wrong", remedy=remedy)
    if feeds.bos == "single" and feeds.count > 1:
        return replace(row, status="wrong", remedy="take one out of the template")
    return row


def open_own_class(model: RewardModel) -> tuple[PreTrainedModel, list[str]]:
    """Return the checkpoint as its own class in transformers, and the tensors that are drawn at
    random there.
    """
    assert model.files is not None
    config = loading.config_of(model.files)
    asked = None if model.attention == "sdpa" else model.attention
    attention = loading.set_attention(config, asked)
    config.num_labels = 1
    own, report = loading.from_safetensors(
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
    whole = loading.ready(own, model.device)
    headless = replace(model, backbone=whole, head=None)
    reader = Reader(headless, [])
    # one at a time, so nothing is padded
    read = [reader.read([each])[0] for each in feeds.base]
    theirs = np.array([rewards[-1, 0] for rewards in read])
    apart = float(np.abs(theirs - ours).max())
    limit = TOLERANCES[model.dtype] * float(np.abs(theirs).max())
    found = (
        f"{type(own).__name__} gives {len(ours)} rewards with a largest difference of {apart:.1g}, "
        f"where {model.dtype} explains {limit:.1g}"
    )
    if apart <= limit:
        return ok(found)
    if model.read_at == "last" and model.pad_token_id is not None:
        return note(f"{found}: it reads another token than --read-at last")
    return wrong(found, "score it with that class, not here")


def read_pairs() -> pd.DataFrame:
    """Return twelve prompts with two replies each. Any reward model should prefer the column
    `better` to `worse`.
    """
    return pd.read_csv(DATA / "check_pairs.csv", dtype=str, keep_default_na=False)


def pairs_row(rewards: Array, is_read_right: bool) -> Row:
    """Check how many pairs are in the right order. A model that its own class reads alike may rate
    something else than good answers; to prefer the worse replies is wrong for any.
    """
    if not np.isfinite(rewards).all():
        return wrong(
            "rewards are not finite", "load it with --dtype bfloat16 or float32"
        )
    margins = rewards[:, 0] - rewards[:, 1]
    right = int((margins > 0).sum())
    found = (
        f"{right} of {len(margins)} harmless pairs in the right order, median margin "
        f"{np.median(margins):.3g}"
    )
    if right >= RIGHT:
        return ok(found)
    remedy = "most likely it was loaded wrongly: look at the rows above, and at its model page"
    if right <= len(margins) - RIGHT:
        return wrong(f"{found}; it prefers the worse replies", remedy)
    found += f"; of a random head's, {RIGHT} are right once in 50 times"
    if is_read_right:
        remedy = (
            "nothing to do if it was trained to rate something else than answers, such as words; "
            "else look at its model page"
        )
        return note(found, remedy)
    return wrong(found, remedy)
