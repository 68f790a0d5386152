"""Scoring: the reward of replies to a prompt (`score_replies`), or a table of every token of a
vocabulary.

`models.conversations` says what the model reads for each reply; shards of that go through `stages`,
and are written.
"""

import datetime
import hashlib
import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from .. import InputError, io
from ..io import lock
from ..models import conversations
from ..models.conversations import Conversation, Inputs
from ..models.reward_models import RewardModel
from ..tables import scores
from ..tables.registry import refuse_foreign
from . import padded, shards, stages
from .stages import Block

REPLIES_PER_SHARD = 8192  # rewards that are written to disk together
# replies that are prepared again, evenly spaced, to see that a preparation holds for another prompt
COMPARED = 64


def score_replies(
    model: RewardModel,
    prompt: str,
    replies: Sequence,
    *,
    reply_mode: str = "text",
    bos: str = "single",
    tokens_per_batch: int | None = None,
) -> np.ndarray:
    """Return the rewards of these replies to the prompt, (replies,) float32, on the model's own
    scale.

    Replies are strings (reply_mode="text") or sequences of token ids ("ids"). `bos` is one of
    conversations.BOS. A head with several outputs gives (replies, outputs). InputError for rewards
    that are not finite.
    """
    return score_inputs(
        model,
        model.inputs_for(prompt, replies, reply_mode=reply_mode, bos=bos),
        tokens_per_batch,
    )


def score_inputs(
    model: RewardModel,
    inputs: Inputs,
    tokens_per_batch: int | None = None,
) -> np.ndarray:
    """Return the rewards of the replies whose inputs these are, (replies,) float32. See
    score_replies.
    """
    inputs = stages.extend_prefix(model, inputs)
    scored = list(stages.score(model, blocks_of(inputs), tokens_per_batch))
    numbers = np.concatenate([block.shard for block, _ in scored])
    rewards = np.concatenate([rewards for _, rewards in scored])
    return rewards[np.argsort(numbers)][inputs.group]


def score_rows(model: RewardModel, inputs: Sequence[Inputs]) -> list[np.ndarray]:
    """Return the rewards of the replies to each of several prompts, (replies,) float32 each. See
    score_replies.
    """
    found = {
        id(each): np.empty(len(each.suffixes), dtype=np.float32) for each in inputs
    }
    blocks = [block for each in inputs for block in blocks_of(each)]
    way = padded.score if stages.reader_of(model).pads else None
    for block, rewards in stages.score(model, blocks, way=way):
        found[id(block.inputs)][block.shard] = rewards
    return [found[id(each)][each.group] for each in inputs]


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
    path = Path(path)
    started = time.time()
    _refuse_names(model, prompts, path)
    tokens = tokens_of(model, token_ids)
    settings = settings_of(model, tokens, **how)
    run = about_run(model)
    # Rewards of other versions may differ a little, so these do not continue their shards.
    folder = path.with_name(
        f"{path.stem}.{_hash_of([settings, run['versions']])}.shards"
    )
    with lock(path):
        table, scored = _read_table(path, settings, prompts, overwrite)
        missing = {
            name: prompt for name, prompt in prompts.items() if name not in scored
        }
        if missing:
            metadata = settings | run | _about_when(started, scored | missing)
            if scored:
                metadata["earlier"] = _earlier_runs(table, run)
            with tqdm(
                unit=" replies",
                desc=model.nickname,
                unit_scale=stages.reader_of(model).by_layer,
                disable=not progress,
            ) as bar:
                known = table if len(table) else tokens
                table = _with_rewards(known, model, missing, folder, bar, how)
            metadata["seconds"] = round(time.time() - started, 1)
            scores.write(table, path, metadata)
        shards.remove(folder, (scored | missing).values())
        return scores.read(path) if missing else table


def _refuse_names(model: RewardModel, prompts: Iterable[str], path: Path) -> None:
    """Raise InputError for a prompt's name that no column can have, and for a model that does not
    belong into the path's collection. All ways meet here: a notebook opened by hand too.
    """
    for name in prompts:
        scores.checked_prompt(name)
    if collection := scores.collection_of(path):
        refuse_foreign(collection, {model.nickname: model.hub_id})


def _about_when(started: float, prompts: dict[str, str]) -> dict[str, Any]:
    """Return the prompts of a table and when its scoring started, in UTC."""
    start = datetime.datetime.fromtimestamp(started, datetime.UTC)
    return {"prompts": prompts, "start": start.isoformat(timespec="seconds")}


def _earlier_runs(table: pd.DataFrame, run: dict) -> list[dict]:
    """Return what a table says of the runs before this one, which may have had other versions and
    another device.
    """
    before = table.attrs.get("metadata", {})
    return [
        *before.get("earlier", []),
        {key: before.get(key) for key in ("prompts", *run)},
    ]


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
    progress = _Progress(folder, bar)

    def unscored() -> Iterator[Block]:
        nonlocal table
        prepared = _prepared_blocks(model, prompts.values(), table, how)
        for inputs, blocks in prepared:
            table = with_inputs(table, inputs)
            bar.total = bar.total or len(inputs.suffixes) * len(prompts)
            yield from progress.unfinished(inputs, blocks)

    ahead = stages.made_ahead(model, unscored())
    for block, rewards in stages.score(model, ahead, bar=bar):
        progress.keep(block, rewards)
    columns = {
        name: progress.rewards[prompt][table["input_group"]]
        for name, prompt in prompts.items()
    }
    rewards = pd.DataFrame(columns, index=table.index)
    return pd.concat([table, rewards], axis=1)


@dataclass
class _Progress:
    """The rewards of a table so far: finished shards are read, and new ones are written.

    rewards: of each prompt, (inputs,) float32
    """

    folder: Path
    bar: tqdm
    rewards: dict[str, np.ndarray] = field(default_factory=dict)

    def unfinished(self, inputs: Inputs, blocks: list[Block]) -> Iterator[Block]:
        """Yield the blocks that have no finished shard, and take the rewards of the others."""
        prompt = inputs.conversation.prompt
        count = len(inputs.suffixes)
        rewards = self.rewards[prompt] = np.empty(count, dtype=np.float32)
        for number, block in enumerate(blocks):
            file = shards.path_of(self.folder, prompt, number)
            finished = shards.read(file, len(block.shard))
            if finished is None:
                yield replace(block, inputs=inputs, file=file)
            else:
                rewards[block.shard] = finished
                self.bar.update(len(finished))

    def keep(self, block: Block, rewards: np.ndarray) -> None:
        """Write the rewards of a block as its shard."""
        assert block.file is not None
        shards.write(block.file, rewards)
        self.rewards[block.inputs.conversation.prompt][block.shard] = rewards


def _prepared_blocks(
    model: RewardModel,
    prompts: Iterable[str],
    table: pd.DataFrame,
    how: dict[str, str],
) -> Iterator[tuple[Inputs, list[Block]]]:
    """Yield the inputs of the table's tokens under each prompt, and their blocks: one list for
    prompts that are read alike.
    """
    replies = replies_of(table, how.get("reply_mode", "text"))
    most = stages.reader_of(model).replies_per_shard or REPLIES_PER_SHARD
    blocks: list[Block] = []
    for inputs in prepare(model, prompts, replies, **how):
        if not blocks or blocks[0].inputs.suffixes is not inputs.suffixes:
            blocks = blocks_of(inputs, most)
        yield inputs, blocks


def _read_table(
    path: Path,
    settings: dict,
    prompts: dict[str, str],
    overwrite: bool,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table at `path` and its prompts, name -> prompt; both are empty if it is not there
    or overwritten.

    InputError if the table is damaged or has other settings, unless `overwrite`.
    """
    if not path.exists():
        return pd.DataFrame(), {}
    try:
        table = scores.read(path)
    except InputError as error:
        if not overwrite:
            raise
        tqdm.write(f"scored again, because {error}")
        return pd.DataFrame(), {}
    metadata = table.attrs["metadata"]
    scored = metadata.get("prompts", {})
    differ = [key for key, value in settings.items() if metadata.get(key) != value]
    differ += [
        name for name, prompt in scored.items() if prompts.get(name, prompt) != prompt
    ]
    in_table = set(scores.prompt_names(table))
    differ += ["prompts"] * (set(scored) != in_table)
    if differ and not overwrite:
        raise InputError(
            f"{path} holds scores of other settings ({', '.join(differ)}); score into another "
            "collection, or delete it"
        )
    if differ:
        return pd.DataFrame(), {}
    return table, scored


def with_inputs(table: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """Return the table with `reply_ids` and `input_group`: what is fed for each token, the same for
    every prompt.

    InputError if a prompt merges other replies than the first did; no template that ends in control
    tokens does.
    """
    if "input_group" in table:
        if not np.array_equal(table["input_group"], inputs.group):
            raise InputError(
                f"the prompt {inputs.conversation.prompt!r} merges other replies; score it by "
                "itself"
            )
        return table
    reply_ids = [
        np.array(inputs.reply_ids[group], dtype=np.int32) for group in inputs.group
    ]
    return table.assign(reply_ids=reply_ids, input_group=inputs.group)


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


def blocks_of(inputs: Inputs, most: int = REPLIES_PER_SHARD) -> list[Block]:
    """Return the inputs in blocks of at most that many replies: the same wherever they are
    scored.
    """
    parts = shards.split(inputs.suffixes, most)
    return [Block(inputs, pieces) for pieces in parts]


def settings_of(
    model: RewardModel,
    tokens: pd.DataFrame,
    reply_mode: str = "text",
    bos: str = "single",
) -> dict:
    """Return everything that a reward depends on, other than the prompt."""
    is_local = Path(model.hub_id).is_dir()
    return {
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
    } | ({"closing": model.closing} if model.opened else {})


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


def prepare(
    model: RewardModel,
    prompts: Iterable[str],
    replies: Sequence,
    *,
    reply_mode: str = "text",
    bos: str = "single",
) -> Iterator[Inputs]:
    """Yield the inputs of the same replies under each prompt, as from RewardModel.inputs_for.

    Tokenizers cut at control tokens first. So the ids between the control tokens around the reply
    are the same under every prompt (conversations.Between), and only the ids before them change.
    """
    # the inputs last prepared in full, and what their replies were tokenised with
    first = None
    around_first = None
    for prompt in prompts:
        inputs = None
        opened = conversations.open_conversation(
            model.tokenizer,
            prompt,
            bos,
            gated=model.gated,
        )
        around: tuple | None = opened.closing_ids
        if reply_mode == "text":
            between = conversations.between_control_tokens(model.tokenizer, opened)
            around = (
                (between.opening, between.opening_ids, between.after, between.after_ids)
                if between
                else None
            )
        if first and around is not None and around == around_first:
            inputs = _under(
                model,
                opened,
                first,
                replies if reply_mode == "text" else [],
            )
        if inputs is None:
            inputs = first = model.inputs_for(
                prompt,
                replies,
                reply_mode=reply_mode,
                bos=bos,
            )
            around_first = around
        yield inputs


def _under(
    model: RewardModel,
    opened: Conversation,
    first: Inputs,
    texts: Sequence[str],
) -> Inputs | None:
    """Return the inputs of another prompt with this prompt before them; None if some inputs would
    differ.

    texts: replies to compare, tokenised within the whole conversation. Replies that are ids need no
    comparison.
    """
    asked = first.conversation.prefix_ids
    # ids before the reply that a suffix begins with
    length = len(asked) - len(first.prefix_ids)
    end = len(opened.prefix_ids) - length
    if opened.prefix_ids[end:] != asked[len(asked) - length :]:
        return None
    inputs = replace(
        first,
        conversation=conversations.complete(opened, model.after_reply),
        prefix_ids=opened.prefix_ids[:end],
    )
    step = -(-len(texts) // COMPARED) or 1
    spaced = range(0, len(texts), step)
    some = [texts[i] for i in spaced]
    again = model.encode(opened, some) if some else []
    groups = [inputs.group[i] for i in spaced]
    expected = [inputs.prefix_ids + inputs.suffixes[group] for group in groups]
    if expected == list(map(tuple, again)):
        return inputs
    return None
