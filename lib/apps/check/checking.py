"""The check of one reward model: first its files, then the rewards of the loaded model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import InputError
from ...models import checkpoints, conversations, hardware, language_models, reward_models
from ...models.heads import LAYOUTS
from ...models.reward_models import RewardModel
from ...scoring import implicit
from ...scoring.implicit import ImplicitRewardModel
from ...tables.prompts import read_prompts
from . import inputs, rewards, weights
from .report import Report, Row, attempt, refused
from .weights import Files

NOT_RUN = ("own class", "pairs", "time")  # rows that need the model in memory


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
    report = check_implicit(name, reference, bos, **given) if reference else check(name, Options(bos=bos, **given))
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return bool(report.wrong)


def check(name: str, options: Options | None = None) -> Report:
    """Return in rows whether the reward model of that nickname, hub id or folder is scored as its makers meant.

    Rows about files need no memory for the weights. Rows about rewards load the model, and then load it again by its
    own class in transformers if there is one. InputError only for a model that cannot be found.
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
    """Return the check of a language model over the reference that it was trained from. See implicit.load for options.

    InputError only for a model that cannot be found.
    """
    nickname = language_models.find(name)["nickname"]
    try:
        return check_loaded(implicit.load(name, reference, **options), bos)
    except InputError as error:
        return Report(nickname, "unknown", [refused("loading", error)])


def check_loaded(model: RewardModel, bos: str = "single") -> Report:
    """Return the check of a loaded model. Log-probabilities of an implicit one were compared when it was loaded."""
    if not isinstance(model, ImplicitRewardModel):
        return check(model.name, Options(bos=bos, device=model.device, dtype=model.dtype))
    about, tokenizer, prompts = model.conversation("Why?", bos), model.tokenizer, read_prompts(None)
    same = f"log-probabilities equal each model's own forward pass; the reference is {model.reference.nickname}"
    ended = "counts" if model.ends and about.closing_ids else "does not count"
    return Report(model.nickname, model.revision, [
        Row("own class", "ok", same),
        attempt("template", inputs.template, tokenizer, None, model.closing, about),
        attempt("system and date", inputs.system_and_date, tokenizer, about),
        attempt("token ids", inputs.token_ids, tokenizer, model.backbone.config, bos, about, about),
        Row("reward read at", "ok", f"every token of the reply; the token that ends it {ended}"),
        attempt("special tokens", inputs.special_tokens, tokenizer, about),
        attempt("vocabulary", inputs.vocabulary, tokenizer, len(model.backbone.get_input_embeddings().weight)),
        attempt("pairs", lambda: rewards.pairs(rewards.score_pairs(model, bos), planted=False)),
        attempt("time", rewards.speed, model, next(iter(prompts.values())), len(prompts), bos),
    ])  # fmt: skip


def _open(folder: Path, entry: dict, options: Options, rows: list[Row]) -> Files | None:
    """Return the checkpoint's files and add rows about them; None, and a row with the problem, if one is wrong."""
    step = "configuration"
    try:
        config = checkpoints.config_of(folder)
        step = "weights"
        tensors = weights.read_headers(folder)
        step = "head"
        given = options.head, entry["head"]
        head_name = reward_models.head_name_of(entry["nickname"], config, tensors.shapes, *given)
        rows.append(attempt("configuration", weights.configuration, folder, config, head_name))
        rows.append(attempt("weights", weights.weights, tensors))
        step = "template"
        tokenizer, opened = reward_models.tokenizer_for(folder, head_name, options.template)
    except InputError as error:
        rows.append(refused(step, error))
        return None
    return Files(folder, config, tensors, head_name, tokenizer, opened)


def _about_files(files: Files, entry: dict, options: Options) -> list[Row]:
    """Return the rows about files. If no conversation can be rendered, a row says so and rows on these are left out."""
    tokenizer, config = files.tokenizer, files.config

    def device_and_dtype() -> tuple[str, str]:
        device = checkpoints.device_for(options.device)
        return device, checkpoints.dtype_for(options.dtype or entry["dtype"], device, config)

    always = [
        attempt("vocabulary", inputs.vocabulary, tokenizer, files.tensors.embedding_rows(config)),
        attempt("precision", lambda: weights.precision(files, device_and_dtype()[1])),
        attempt("memory", lambda: weights.memory(files, *device_and_dtype())),
    ]
    prompt, gated = next(iter(read_prompts(None).values())), LAYOUTS[files.head_name].gated
    try:
        plain = conversations.open_conversation(tokenizer, prompt, options.bos, gated=gated)
        closing = conversations.check_closing(options.closing, files.opened, gated)
    except InputError as error:
        return [refused("template", error), attempt("head", weights.head, files, None, options.label), *always]
    about = conversations.complete(plain, files.opened if closing == "rendered" else None)
    return [
        attempt("head", weights.head, files, about, options.label),
        attempt("template", inputs.template, tokenizer, files.opened, closing, plain),
        attempt("system and date", inputs.system_and_date, tokenizer, about),
        attempt("token ids", inputs.token_ids, tokenizer, config, options.bos, plain, about),
        attempt("reward read at", inputs.read_at, files, options.read_at, about),
        attempt("pad token", inputs.padding, files, about),
        attempt("special tokens", inputs.special_tokens, tokenizer, about),
        attempt("attention", weights.attention, files, options.attention, about),
        *always,
    ]


def _about_rewards(files: Files, name: str, entry: dict, options: Options) -> list[Row]:
    """Return the rows about the loaded model and its own class in transformers: one of them in memory at a time."""
    prompts = read_prompts(None)
    try:
        model = reward_models.load(name, options, stream=False)
        given = rewards.score_pairs(model, options.bos)
        timed = attempt("time", rewards.speed, model, next(iter(prompts.values())), len(prompts), options.bos)
    except InputError as error:
        return [refused("loading", error)]
    rows = [attempt("pairs", rewards.pairs, given, entry["group"] == "embedded"), timed]
    plain = model.head_name == "linear" and model.head is not None and set(model.head.state_dict()) == {"score.weight"}
    if options.label is not None or not plain and model.head_name != "classifier":
        return [Row("own class", "ok", "transformers has none for this head that runs without remote code"), *rows]
    model.backbone.to(device="meta")
    hardware.release()
    return [attempt("own class", rewards.referee, files.folder, model, given, options.bos), *rows]
