"""The check of one reward model: its files first, then what they give when they are loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from ... import InputError
from ...models import checkpoints, conversations, hardware, language_models, layers, reward_models
from ...models.conversations import OpenedTurn
from ...models.reward_models import GATED, RewardModel
from ...scoring import implicit
from ...scoring.implicit import ImplicitRewardModel
from ...tables.prompts import read_prompts
from . import inputs, rewards, weights
from .report import Report, Row, attempt, refused

NOT_RUN = ("own class", "pairs", "time")  # rows that need the model in memory


@dataclass(frozen=True)
class Options(reward_models.Options):
    """How the model is to be read and run, as reward_models.load takes it, and bos, as engine.score_replies does."""

    bos: str = "single"


@dataclass(frozen=True)
class Files:
    """A checkpoint's files, as far as they could be opened."""

    folder: Path
    config: PreTrainedConfig
    tensors: weights.Tensors
    head_name: str
    tokenizer: PreTrainedTokenizerBase
    opened: OpenedTurn | None


def check(name: str, options: Options | None = None) -> Report:
    """Whether the reward model of that nickname, hub id or folder is scored as its makers meant, in rows.

    The rows about files need no memory for the weights; those about rewards load the model, and after it once more by
    its own class in transformers where there is one. InputError only for a model that cannot be found.
    """
    options = options or Options()
    entry = reward_models.find(str(name))
    opened = checkpoints.open_files(entry["hub_id"], options.revision or entry["revision"])
    rows: list[Row] = []
    files = _open(opened.folder, entry, options, rows)
    if files is not None:
        rows += _about_files(files, entry, options)
    if files is None or any(row.status == "wrong" for row in rows):
        rows += [Row(row, "note", "not run, before what is wrong is put right") for row in NOT_RUN]
    elif any(row.status == "note" for row in rows if row.name == "memory"):
        rows += [Row(row, "note", "not run: the weights do not fit into memory") for row in NOT_RUN]
    else:
        rows += _about_rewards(files, name, entry, options)
    return Report(entry["nickname"], opened.revision, rows)


def check_implicit(name: str, reference: str, bos: str = "single", **options: Any) -> Report:
    """Return the same for a language model over the reference that it was trained from. options: of implicit.load.

    InputError only for a model that cannot be found.
    """
    found = language_models.find(name)["nickname"]
    try:
        model = implicit.load(name, reference, **options)
    except InputError as error:
        return Report(found, "unknown", [refused("loading", error)])
    return check_loaded(model, bos)


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the report of a loaded model. An implicit one's log-probabilities were compared when it was loaded."""
    if not isinstance(model, ImplicitRewardModel):
        return check(model.name, Options(bos=bos, device=model.device, dtype=model.dtype))
    about, config, prompts = model.conversation("Why?", bos), model.backbone.config, read_prompts(None)
    tokenizer, rows_of_embeddings = model.tokenizer, len(model.backbone.get_input_embeddings().weight)
    same = f"log-probabilities equal each model's own forward pass; the reference is {model.reference.nickname}"
    ended = "counts" if model.ends and about.closing_ids else "does not count"
    try:
        about_rewards = [
            rewards.pairs(rewards.score_pairs(model, bos), planted=False),
            rewards.speed(model, next(iter(prompts.values())), len(prompts), bos),
        ]
    except InputError as error:
        about_rewards = [refused("pairs", error)]
    return Report(model.nickname, model.revision, [
        Row("own class", "ok", same),
        attempt("template", inputs.template, tokenizer, None, model.closing, about),
        attempt("system and date", inputs.system_and_date, tokenizer, about),
        attempt("token ids", inputs.token_ids, tokenizer, config, bos, about, about),
        Row("reward read at", "ok", f"every token of the reply; the token that ends it {ended}"),
        attempt("special tokens", inputs.special_tokens, tokenizer, about),
        attempt("vocabulary", inputs.vocabulary, tokenizer, config, rows_of_embeddings),
        *about_rewards,
    ])  # fmt: skip


def _open(folder: Path, entry: dict, options: Options, rows: list[Row]) -> Files | None:
    """The checkpoint's files; None, and a row that says what is wrong, where one cannot be made sense of."""
    step = "configuration"
    try:
        config = checkpoints.config_of(folder)
        step = "weights"
        tensors = weights.read_headers(folder)
        step = "head"
        head_name = options.head or reward_models.head_name_of(config, set(tensors.shapes))
        reward_models.check_head_name(entry["nickname"], head_name, entry["head"], config)
        rows += [weights.configuration(folder, config, head_name), weights.weights(tensors)]
        step = "template"
        tokenizer, opened = reward_models.tokenizer_for(folder, head_name, options.template)
    except InputError as error:
        rows.append(refused(step, error))
        return None
    return Files(folder, config, tensors, head_name, tokenizer, opened)


def _about_files(files: Files, entry: dict, options: Options) -> list[Row]:
    """What the files say. Rows on conversations are left out where none can be rendered, which is a row itself."""
    tokenizer, config, tensors, head_name = files.tokenizer, files.config, files.tensors, files.head_name

    def dtype_and_device() -> tuple[str, str]:
        device = checkpoints.device_for(options.device)
        return checkpoints.dtype_for(options.dtype or entry["dtype"], device, config), device

    def attention(about: conversations.Conversation) -> Row:
        changed = checkpoints.config_of(files.folder)  # set_attention writes into the one that it is given
        return weights.attention(config, checkpoints.set_attention(changed, options.attention), about)

    streams = layers.can_be_read_singly(config, head_name)
    always = [
        attempt("vocabulary", inputs.vocabulary, tokenizer, config, tensors.embedding_rows(config)),
        attempt("precision", lambda: weights.precision(config, tensors, dtype_and_device()[0], head_name)),
        attempt("memory", lambda: weights.memory(tensors, *dtype_and_device(), streams)),
    ]
    prompt, gated = next(iter(read_prompts(None).values())), head_name in GATED
    try:
        plain = conversations.open_conversation(tokenizer, prompt, options.bos, gated=gated)
        closing = conversations.check_closing(options.closing, files.opened, gated)
    except InputError as error:
        about_head = attempt("head", weights.head, files.folder, config, tensors, head_name, None, options.label)
        return [refused("template", error), about_head, *always]
    about = conversations.complete(plain, files.opened if closing == "rendered" else None)
    return [
        attempt("head", weights.head, files.folder, config, tensors, head_name, about, options.label),
        attempt("template", inputs.template, tokenizer, files.opened, closing, plain),
        attempt("system and date", inputs.system_and_date, tokenizer, about),
        attempt("token ids", inputs.token_ids, tokenizer, config, options.bos, plain, about),
        attempt("reward read at", inputs.read_at, tokenizer, config, head_name, options.read_at, about),
        attempt("pad token", inputs.padding, tokenizer, config, about),
        attempt("special tokens", inputs.special_tokens, tokenizer, about),
        attempt("attention", attention, about),
        *always,
    ]


def _about_rewards(files: Files, name: str, entry: dict, options: Options) -> list[Row]:
    """What the loaded model gives, and then its own class in transformers: one of them in memory at a time."""
    prompts = read_prompts(None)
    try:
        model = reward_models.load(name, options, stream=False)
        given = rewards.score_pairs(model, options.bos)
        timed = rewards.speed(model, next(iter(prompts.values())), len(prompts), options.bos)
    except InputError as error:
        return [refused("loading", error)]
    rows = [rewards.pairs(given, planted=entry["group"] == "embedded"), timed]
    plain = model.head_name == "linear" and model.head is not None and set(model.head.state_dict()) == {"score.weight"}
    if options.label is not None or not plain and model.head_name != "classifier":
        return [Row("own class", "ok", "transformers has none for this head that runs without remote code"), *rows]
    model.backbone.to(device="meta")
    hardware.release()
    return [attempt("own class", rewards.referee, files.folder, model, given, options.bos), *rows]
