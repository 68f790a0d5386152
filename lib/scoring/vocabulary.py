"""Rewards of replies to a prompt (`score_replies`), and a table of every token of a vocabulary.

`models.conversations` says what the model reads for each reply. A table's rewards are written shard
by shard, each a file that is renamed when it is whole, so that a stopped run can continue.
"""

import datetime
import hashlib
import json
import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from .. import InputError, io
from ..io import lock, replacing
from ..models import conversations
from ..models.conversations import Ids, Inputs
from ..models.reward_models import RewardModel
from ..tables import scores
from . import products
from .reader import reader_of


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
    parts = [Part(each, each.suffixes) for each in inputs]
    return [rewards[part.inputs.group] for part, rewards in score(model, parts)]


class Part(NamedTuple):
    """Some of the replies to one prompt, as the model reads them, and whatever goes along."""

    inputs: Inputs
    replies: Sequence[Ids]
    about: Any = None


def score(
    model: RewardModel, parts: Iterable[Part], bar: tqdm | None = None
) -> Iterator[tuple[Part, np.ndarray]]:
    """Yield each part with its rewards, (replies,) float32, when they are known.

    Parts of one prompt follow each other. InputError for rewards that are not finite.
    """
    bar = tqdm(disable=True) if bar is None else bar
    each = getattr(reader_of(model), "each", _prompt_by_prompt)
    for part, rewards in each(model, parts, bar):
        if not np.isfinite(rewards).all():
            place = np.argwhere(~np.isfinite(rewards))[0]
            number = part.inputs.suffixes.index(part.replies[place[0]])
            ids = part.inputs.reply_ids[number]
            raise InputError(
                f"the reward of the reply {model.tokenizer.decode(ids)[:80]!r} to the prompt "
                f"{part.inputs.conversation.prompt[:80]!r} is {rewards[tuple(place)]} (its token "
                f"ids: {str([*ids][:8])[1:-1]}); compute it with --dtype float32 in place of "
                f"{model.dtype}, or download the checkpoint again: its weights may be damaged"
            )
        yield part, rewards


def _prompt_by_prompt(
    model: RewardModel, parts: Iterable[Part], bar: tqdm
) -> Iterator[tuple[Part, np.ndarray]]:
    reader = tokens = None
    for part in parts:
        if reader is None or reader.inputs is not part.inputs:
            # as many tokens at once as there was memory for before
            reader = reader_of(model)(model, part.inputs, tokens)
        yield part, reader.rewards(part.replies)
        tokens = reader.tokens
        bar.update(len(part.replies))


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
    tokens = tokens_of(model, token_ids)
    with lock(path):
        table = _table_before(path, overwrite)
        before = table.attrs.get("metadata", {})
        if before:  # products as they were, also on another processor
            model = replace(model, onednn="products" in before)
        settings = settings_of(model, tokens, **how)
        if differ := _differences(table, settings, prompts):
            if not overwrite:
                raise InputError(
                    f"{path} holds scores of other settings ({', '.join(differ)}); score into "
                    "another collection, or delete it"
                )
            before = {}
        scored = before.get("prompts", {})
        table = table if scored else tokens
        missing = {name: prompts[name] for name in prompts if name not in scored}
        folders = {
            name: _shards_of(path, settings, prompt) for name, prompt in prompts.items()
        }
        if missing:
            bar = tqdm(desc=model.nickname, disable=not progress, unit_scale=True)
            with bar, products.compiled(model.backbone, len(missing)):
                table = _with_rewards(table, model, missing, folders, bar, how)
            about = _about(started, model, before) | {"prompts": scored | missing}
            scores.write(table, path, settings | about)
            table = scores.read(path)
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
        return table


def _shards_of(path: Path, settings: dict, prompt: str) -> Path:
    """Return the folder of a prompt's shards. Rewards of other versions may differ a little, so
    these have another one.
    """
    made_by = _hash_of([settings, io.versions(), prompt])
    return path.with_name(f"{path.stem}.{made_by}.shards")


def _about(started: datetime.datetime, model: RewardModel, before: dict) -> dict:
    """Return when and by what a run was made, and what the table says of earlier ones, which may
    have had other versions and another device.
    """
    took = datetime.datetime.now(datetime.UTC) - started
    about = {
        "start": started.isoformat(timespec="seconds"),
        "seconds": round(took.total_seconds(), 1),
    }
    if before:
        about["earlier"] = [*before.pop("earlier", []), before]
    return about_run(model) | about


def _table_before(path: Path, overwrite: bool) -> pd.DataFrame:
    """Return the table at this path; an empty one if there is none, or a damaged one to be
    overwritten.
    """
    try:
        return scores.read(path) if path.exists() else pd.DataFrame()
    except InputError:
        if overwrite:
            return pd.DataFrame()
        raise


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
    folders: dict[str, Path],
    bar: tqdm,
    how: dict[str, str],
) -> pd.DataFrame:
    """Return the table with what is fed for each token, and rewards for each prompt; finished
    shards are only read.
    """
    found: dict[str, np.ndarray] = {}  # of each prompt, (inputs,) float32
    ids = [(i,) for i in table["token_id"].tolist()]
    replies = ids if how.get("reply_mode") == "ids" else table["text"].tolist()

    def unscored() -> Iterator[Part]:
        nonlocal table
        for name, prompt in prompts.items():
            inputs = model.inputs_for(prompt, replies, **how)
            if not (found or bar.disable):
                for line in model.readings(inputs.conversation):
                    tqdm.write(f"{model.nickname}: {line}")
            table = with_inputs(table, inputs)
            bar.total = len(inputs.suffixes) * len(prompts)
            rewards = found[name] = np.empty(len(inputs.suffixes), dtype=np.float32)
            most = reader_of(model).per_shard
            yield from _unfinished(inputs, folders[name], most, rewards)

    for part, of_part in score(model, unscored(), bar):
        rewards, some, file = part.about
        # the file is there only when it is whole
        with replacing(file) as unfinished:
            unfinished.write_bytes(of_part.tobytes())
        rewards[some] = of_part
    columns = {name: found[name][table["input_group"]] for name in prompts}
    return pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)


def _unfinished(
    inputs: Inputs, folder: Path, most: int, rewards: np.ndarray
) -> Iterator[Part]:
    """Yield the shards that no earlier run wrote, `most` replies in each, and put the others into
    the rewards. Replies that begin alike stand together.
    """
    suffixes = inputs.suffixes
    order = sorted(range(len(suffixes)), key=suffixes.__getitem__)
    for start in range(0, len(order), most):
        some = order[start : start + most]
        file = folder / f"{start:07d}.rewards"
        if file.is_file() and file.stat().st_size == 4 * len(some):
            rewards[some] = np.fromfile(file, dtype=np.float32)
        else:
            yield Part(inputs, [suffixes[i] for i in some], (rewards, some, file))


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
    ids = tokens_of(model)["token_id"]
    drawn = ids.sample(min(tokens, len(ids)), random_state=seed)
    return sorted(drawn.tolist())


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
