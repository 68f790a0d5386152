"""Rewards of replies to a prompt (`score_replies`), and a table of every token of a vocabulary.

`models.conversations` says what the model reads for each reply. A table's rewards are written shard
by shard, each a file that is renamed when it is whole, so that a stopped run can continue.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
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
    return [
        reader_of(model)(model, each).rewards(each.suffixes)[each.group]
        for each in inputs
    ]


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
    InputError for rewards that are not finite, and, without `overwrite`, for a table of other
    settings.
    """
    path = Path(path)
    for name in prompts:
        scores.checked_prompt(name)
    tokens = conversations.vocabulary(model.tokenizer, token_ids)
    with lock(path):
        table = scores.read(path) if path.exists() else tokens
        before = table.attrs.get("metadata", {})
        if before:  # products as they were, also on another processor
            model = replace(model, onednn="products" in before)
        settings = settings_of(model, tokens, **how)
        if differ := _differences(before, settings, prompts):
            if not overwrite:
                raise InputError(
                    f"{path} holds scores of other settings ({', '.join(differ)}); score into "
                    "another collection, or delete it"
                )
            table, before = tokens, {}
        scored = before.get("prompts", {})
        missing = {name: prompts[name] for name in prompts if name not in scored}
        # rewards of other versions may differ a little
        made_by = _hash_of([settings, io.versions()])
        shards = path.with_name(f"{path.stem}.{made_by}.shards")
        for name, prompt in missing.items():
            table = _with_rewards(table, model, name, prompt, shards, progress, how)
        if missing:
            about = about_run(model) | {"prompts": scored | missing}
            scores.write(table, path, settings | about)
        shutil.rmtree(shards, ignore_errors=True)
        return scores.read(path)


def _differences(before: dict, settings: dict, prompts: dict[str, str]) -> list[str]:
    """Return the settings in which a table differs; a prompt of another text counts too."""
    if not before:
        return []
    differ = [key for key, value in settings.items() if before.get(key) != value]
    scored = before.get("prompts", {})
    return differ + [
        name for name, text in scored.items() if prompts.get(name, text) != text
    ]


def _with_rewards(
    table: pd.DataFrame,
    model: RewardModel,
    name: str,
    prompt: str,
    shards: Path,
    progress: bool,
    how: dict[str, str],
) -> pd.DataFrame:
    """Return the table with what is fed for each token, and the rewards for this prompt; finished
    shards are only read. Replies that begin alike stand together.
    """
    ids = [(i,) for i in table["token_id"]]
    replies = ids if how.get("reply_mode") == "ids" else list(table["text"])
    inputs = model.inputs_for(prompt, replies, **how)
    suffixes = inputs.suffixes
    order = sorted(range(len(suffixes)), key=suffixes.__getitem__)
    reader = reader_of(model)(model, inputs)
    rewards = np.empty(len(suffixes), "float32")
    starts = range(0, len(order), reader.per_shard)
    label = f"{model.nickname}, {name}"
    for start in tqdm(starts, label, disable=not progress, unit=" shards"):
        some = order[start : start + reader.per_shard]
        file = shards / f"{_hash_of(prompt)}.{start:07d}.rewards"
        if not file.is_file():
            scored = reader.rewards([suffixes[i] for i in some])
            # the file is there only when it is whole
            with replacing(file) as unfinished:
                unfinished.write_bytes(scored.tobytes())
        rewards[some] = np.fromfile(file, "float32")
    return with_inputs(table, inputs).assign(**{name: rewards[inputs.group]})


def with_inputs(table: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """Return the table with `reply_ids` and `input_group`: what is fed for each token."""
    fed = [np.array(ids, "int32") for ids in inputs.reply_ids]
    reply_ids = [fed[group] for group in inputs.group]
    return table.assign(reply_ids=reply_ids, input_group=inputs.group)


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
    if products.by_onednn(model):
        settings["products"] = "oneDNN"
    return settings


def about_run(model: RewardModel) -> dict:
    """Return device and versions of a run. Rewards hardly depend on these."""
    card = f" ({torch.cuda.get_device_name()})" if model.device == "cuda" else ""
    return {"device": f"{model.device}{card}", "versions": io.versions()}


def _hash_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
