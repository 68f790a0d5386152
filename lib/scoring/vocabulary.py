"""Rewards of replies to a prompt (`score_replies`), and a table of every token of a vocabulary.

`models.conversations` says what the model reads for each reply. A table's rewards are written shard
by shard, each a file that is renamed when it is whole, so that a stopped run can continue.
"""

import contextlib
import datetime
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from .. import InputError, io
from ..io import lock, replacing
from ..models import conversations
from ..models.conversations import Inputs
from ..models.reward_models import RewardModel
from ..tables import scores
from ..tables.registry import refuse_foreign
from . import products
from .reader import Part, reader_of

# dtype -> what to load instead if rewards are not finite
WIDER = {
    "float16": "--dtype bfloat16 or --dtype float32",
    "bfloat16": "--dtype float32",
    "the server's dtype": "float32 on the server",
}


def score_replies(
    model: RewardModel,
    prompt: str,
    replies: Sequence,
    *,
    reply_mode: str = "text",
    bos: str = "single",
) -> np.ndarray:
    """Return the rewards of these replies to the prompt, (replies,) float32, on the model's own
    scale.

    Replies are strings (reply_mode="text") or sequences of token ids ("ids"). `bos` is one of
    conversations.BOS. A head with several outputs gives (replies, outputs). InputError for rewards
    that are not finite.
    """
    inputs = model.inputs_for(prompt, replies, reply_mode=reply_mode, bos=bos)
    return score_inputs(model, [inputs])[0]


def score_inputs(model: RewardModel, inputs: Iterable[Inputs]) -> list[np.ndarray]:
    """Return the rewards of the replies to each prompt, (replies,) float32. See score_replies."""
    asked = [extend_prefix(model, each) for each in inputs]
    parts = [Part(each, range(len(each.suffixes))) for each in asked]
    return [rewards[part.inputs.group] for part, rewards in score(model, parts)]


def extend_prefix(model: RewardModel, inputs: Inputs) -> Inputs:
    """Return the same inputs, with what all suffixes begin with moved into the prefix.

    Each suffix keeps its last id. Nothing moves where the reply is needed whole, or a gate reads.
    """
    gate = inputs.conversation.gate_position
    common = os.path.commonprefix([suffix[:-1] for suffix in inputs.suffixes])
    if gate is not None or not reader_of(model).extends or len(inputs.suffixes) < 2:
        return inputs
    prefix = inputs.prefix_ids + tuple(common)
    return replace(
        inputs,
        conversation=replace(inputs.conversation, prefix_ids=prefix),
        prefix_ids=prefix,
        suffixes=[suffix[len(common) :] for suffix in inputs.suffixes],
    )


def score(
    model: RewardModel, parts: Iterable[Part], bar: tqdm | None = None
) -> Iterator[tuple[Part, np.ndarray]]:
    """Yield each part with its rewards, (replies,) float32, when they are known.

    Parts of one prompt follow each other. InputError for rewards that are not finite.
    """
    bar = tqdm(disable=True) if bar is None else bar
    for part, rewards in reader_of(model).each(model, parts, bar):
        bad = np.argwhere(~np.isfinite(rewards))
        if len(bad):
            ids = part.inputs.reply_ids[part.numbers[bad[0][0]]]
            prompt = part.inputs.conversation.prompt
            # in float32 the weights themselves are the likely cause, not their dtype
            remedy = (
                f"load the model with {WIDER[model.dtype]}"
                if model.dtype in WIDER
                else "its weights may be damaged, since it is computed in "
                f"{model.dtype}: download the checkpoint again"
            )
            raise InputError(
                f"the reward of the reply {model.tokenizer.decode(ids)[:80]!r} to the prompt "
                f"{prompt[:80]!r} is {rewards[tuple(bad[0])]} (its token ids: "
                f"{str([*ids][:8])[1:-1]}); {remedy}"
            )
        yield part, rewards


# --- the table ------------------------------------------------------------------------------------


def score_vocabulary(
    model: RewardModel,
    prompts: dict[str, str],
    path: Path,
    *,
    token_ids: Sequence[int] | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **how: str,
) -> pd.DataFrame:
    """Write and return the score table of a model, with every token of its vocabulary as the reply
    to each prompt.

    `prompts` maps column names to prompts. `token_ids` restricts the tokens. `how` holds reply_mode
    and bos, see score_replies. Finished shards are kept next to `path`, so a killed run continues
    and ends with the same table. Prompts of a table of the same settings are not scored again.
    InputError for rewards that are not finite, for a model that does not belong into the path's
    collection, and, without `overwrite`, for a table of other settings.
    """
    path, started = Path(path), datetime.datetime.now(datetime.UTC)
    for name in prompts:
        scores.checked_prompt(name)
    if collection := scores.collection_of(path):
        refuse_foreign(collection, {model.nickname: model.hub_id})
    tokens = tokens_of(model, token_ids)
    with lock(path):
        table = _table_before(path, overwrite)
        model, folder = _as_begun(model, table, path, tokens, how)
        settings = settings_of(model, tokens, **how)
        if differ := _differences(table, settings, prompts):
            if not overwrite:
                raise _other_settings(path, differ)
            table = pd.DataFrame()
        before = table.attrs.get("metadata", {})
        scored = before.get("prompts", {})
        missing = {name: prompts[name] for name in prompts if name not in scored}
        if missing:
            run = about_run(model)
            with tqdm(
                unit=" replies",
                desc=model.nickname,
                unit_scale=reader_of(model).by_layer,
                disable=not progress,
            ) as bar:
                table = table if scored else tokens
                table = _with_rewards(table, model, missing, folder, bar, how)
            about = _about_when(started, before, run) | {"prompts": scored | missing}
            scores.write(table, path, settings | run | about)
            table = scores.read(path)
        _remove(folder, prompts.values())
        return table


def _other_settings(path: Path, differ: Sequence[str]) -> InputError:
    return InputError(
        f"{path} holds scores of other settings ({', '.join(differ)}); score into another "
        "collection, or delete it"
    )


def _about_when(started: datetime.datetime, before: dict, run: dict) -> dict:
    """Return when a run took place, in UTC, and what the table says of earlier ones, which may have
    had other versions and another device.
    """
    took = datetime.datetime.now(datetime.UTC) - started
    about: dict = {
        "start": started.isoformat(timespec="seconds"),
        "seconds": round(took.total_seconds(), 1),
    }
    if before.get("prompts"):
        earlier = {key: before.get(key) for key in ("prompts", *run)}
        about["earlier"] = [*before.get("earlier", []), earlier]
    return about


def _table_before(path: Path, overwrite: bool) -> pd.DataFrame:
    """Return the table at this path; an empty one if there is none, or a damaged one to be
    overwritten.
    """
    if not path.exists():
        return pd.DataFrame()
    try:
        return scores.read(path)
    except InputError as error:
        if not overwrite:
            raise
        tqdm.write(f"scored again, because {error}")
        return pd.DataFrame()


def _as_begun(
    model: RewardModel, table: pd.DataFrame, path: Path, tokens: pd.DataFrame, how: dict
) -> tuple[RewardModel, Path]:
    """Return the model with the products by which the table or its shards were begun, and the
    folder of the shards.
    """

    def folder_of(model: RewardModel) -> Path:
        # rewards of other versions may differ a little, so these do not continue their shards
        parts = [settings_of(model, tokens, **how), about_run(model)["versions"]]
        return path.with_name(f"{path.stem}.{_hash_of(parts)}.shards")

    other = replace(model, onednn=not products.by_onednn(model))
    if metadata := table.attrs.get("metadata"):
        model = replace(model, onednn="products" in metadata)
    elif folder_of(other).is_dir():
        model = other
    return model, folder_of(model)


def _differences(table: pd.DataFrame, settings: dict, prompts: dict) -> list[str]:
    """Return the settings in which a table differs; a prompt of another text counts too."""
    if not len(table):
        return []
    metadata = table.attrs["metadata"]
    scored = metadata.get("prompts", {})
    differ = [key for key, value in settings.items() if metadata.get(key) != value]
    differ += [
        name for name in scored if prompts.get(name, scored[name]) != scored[name]
    ]
    return differ + ["prompts"] * ({*scored} != {*scores.prompt_names(table)})


def _with_rewards(
    table: pd.DataFrame,
    model: RewardModel,
    prompts: dict[str, str],
    folder: Path,
    bar: tqdm,
    how: dict[str, str],
) -> pd.DataFrame:
    """Return the table with what is fed for each token, and rewards for each prompt; finished
    shards are only read.
    """
    found: dict[str, np.ndarray] = {}  # of each prompt, (inputs,) float32
    replies = replies_of(table, how.get("reply_mode", "text"))

    def unscored() -> Iterator[Part]:
        nonlocal table
        for name, prompt in prompts.items():
            inputs = model.inputs_for(prompt, replies, **how)
            if not (found or bar.disable):
                _report_readings(model, inputs)
            table = with_inputs(table, inputs)
            count = len(inputs.suffixes)
            bar.total = bar.total or count * len(prompts)
            rewards = found[name] = np.empty(count, dtype=np.float32)
            shards = _shards(inputs, reader_of(model).per_shard)
            for number, some in enumerate(shards):
                file = folder / f"{_hash_of(prompt)}-{number:05d}.rewards"
                if (known := _shard(file, len(some))) is None:
                    yield Part(inputs, some, (rewards, file))
                else:
                    rewards[some] = known
                    bar.update(len(some))

    with products.compiled(model.backbone, len(prompts)):
        for part, of_part in score(model, unscored(), bar):
            rewards, file = part.about
            _write_shard(file, of_part)
            rewards[part.numbers] = of_part
    columns = {name: found[name][table["input_group"]] for name in prompts}
    return pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)


def _report_readings(model: RewardModel, inputs: Inputs) -> None:
    """Print what is unusual about how such conversations are read."""
    for line in model.readings(inputs.conversation):
        tqdm.write(f"{model.nickname}: {line}")


def _write_shard(file: Path, rewards: np.ndarray) -> None:
    """Write the rewards of a shard; the file is there only when it is whole."""
    with replacing(file) as unfinished:
        unfinished.write_bytes(rewards.tobytes())


def _shards(inputs: Inputs, most: int) -> Iterator[list[int]]:
    """Yield the replies' numbers, so many at most; replies that begin alike stand together."""
    suffixes = inputs.suffixes
    order = sorted(range(len(suffixes)), key=suffixes.__getitem__)
    for start in range(0, len(order), most):
        yield order[start : start + most]


def _shard(file: Path, count: int) -> np.ndarray | None:
    """Return the rewards, (count,) float32, that an earlier run wrote; None if there are none."""
    if not file.is_file():
        return None
    rewards = np.fromfile(file, dtype=np.float32)
    if len(rewards) == count:
        return rewards
    tqdm.write(f"{file} is damaged; its replies are scored again")
    return None


def _remove(folder: Path, prompts: Iterable[str]) -> None:
    """Remove the shards of these prompts, whole or not, and the folder once it is empty."""
    done = {_hash_of(prompt) for prompt in prompts}
    for file in folder.glob("*"):
        if file.name.removeprefix(".").partition("-")[0] in done:
            file.unlink(missing_ok=True)
    # it is not there, or holds shards of other prompts
    with contextlib.suppress(OSError):
        folder.rmdir()


def with_inputs(table: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """Return the table with `reply_ids` and `input_group`: what is fed for each token, the same for
    every prompt.

    InputError if a prompt merges other replies than the first did; no template that ends in control
    tokens does.
    """
    if "input_group" not in table:
        fed = [np.array(ids, dtype=np.int32) for ids in inputs.reply_ids]
        reply_ids = [fed[group] for group in inputs.group]
        return table.assign(reply_ids=reply_ids, input_group=inputs.group)
    if np.array_equal(table["input_group"], inputs.group):
        return table
    prompt = inputs.conversation.prompt
    raise InputError(f"the prompt {prompt!r} merges other replies; score it by itself")


def tokens_of(
    model: RewardModel,
    token_ids: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Return the tokens to score as replies, with columns token_id, token and text. `token_ids`
    None means all.
    """
    known = {*model.tokenizer.get_vocab().values()}
    if token_ids is not None and (not len(token_ids) or {*token_ids} - known):
        raise InputError(
            f"token_ids must be one or more of the vocabulary's ids, not {str([*token_ids])[:60]}"
        )
    return conversations.vocabulary(model.tokenizer, token_ids)


def sample(model: RewardModel, tokens: int, seed: int = 0) -> list[int]:
    """Return the token ids of a random sample of two or more of the vocabulary, in order; all if
    it has no more.
    """
    if tokens < 2:
        raise InputError(
            f"a sample has 2 tokens or more, not {tokens}; leave it out for the whole vocabulary"
        )
    known = set(model.tokenizer.get_vocab().values())
    vocabulary = pd.Series(sorted(known))
    count = min(tokens, len(vocabulary))
    drawn = vocabulary.sample(count, random_state=seed)
    return sorted(drawn.tolist())


def replies_of(tokens: pd.DataFrame, reply_mode: str = "text") -> list:
    """Return the tokens as replies: their texts (reply_mode="text") or their ids, each a tuple
    of one.
    """
    if reply_mode == "text":
        return tokens["text"].tolist()
    return [(i,) for i in tokens["token_id"].tolist()]


def settings_of(
    model: RewardModel,
    tokens: pd.DataFrame,
    reply_mode: str = "text",
    bos: str = "single",
) -> dict:
    """Return everything that a reward depends on, other than the prompt."""
    is_local = Path(model.hub_id).is_dir()
    settings = {
        "model": model.nickname if is_local else model.hub_id,
        "revision": model.revision,
        "head": model.head_name,
        "dtype": model.dtype,
        "attention": model.attention,
        "read_at": model.read_at,
        "reply_mode": reply_mode,
        "bos": bos,
        "date": conversations.DATE,
        "chat_template": _hash_of(model.tokenizer.chat_template or ""),
        "vocabulary": f"{len(tokens)} tokens, {_hash_of(tokens['token'].tolist())}",
    }
    if model.opened:
        settings["closing"] = model.closing
    if products.by_onednn(model):
        settings["products"] = "oneDNN"
    return settings


def about_run(model: RewardModel) -> dict:
    """Return device, cards, versions, and whether weights are streamed. Rewards do not depend on
    these.
    """
    machine = platform.machine()
    if model.device == "cuda":
        machine = torch.cuda.get_device_name()
    # empty unless the model is laid over several cards
    cards_of_parts = getattr(model.backbone, "hf_device_map", {})
    return {
        "streamed": model.layers is not None,
        "device": f"{model.device} ({machine})",
        "cards": sorted(set(cards_of_parts.values())),
        "versions": io.versions(),
    }


def _hash_of(value: object) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
