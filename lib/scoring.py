"""Scoring: the reward of every reply to a prompt, each as the model really reads it.

All conversations about one prompt share their beginning, so the backbone reads that prefix once; every reply then costs
only its own tokens and the closing ones. Replies of one length form a batch without padding, and each attends to the
shared prefix keys and values, which are never copied, and to itself.

The way of a prompt: `run score` calls `score_vocabulary`, which goes down once to `models.conversations` for what the
model reads (`inputs_for`), and then runs backbone and head itself (`Scorer`).
"""

import itertools
import platform
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from lib import InputError, names, scores, shards, streaming
from lib.cores import one_thread
from lib.files import lock
from lib.models import checkpoints, conversations
from lib.models.conversations import Inputs
from lib.models.registry import refuse_foreign
from lib.models.reward_models import RewardModel
from lib.models.shared_prefix import (
    SMALL,
    TOKENS_PER_BATCH,
    Prefix,
    at,
    fits_window,
    hidden_after,
    input_name,
    read_at,
    read_prefix,
    smaller,
    states_after,
)
from lib.streaming import Block
from lib.unscored import Unscored, complete, hash_of, lacking
from lib.unscored import with_inputs as with_inputs  # what is read for each token, as the lessons call it

REPLIES_PER_SHARD = 8192  # rewards that are written to disk together


# --- what the model reads -----------------------------------------------------------------------------------------


def inputs_for(
    model: RewardModel, prompt: str, replies: Sequence, *, reply_mode: str = "text", bos: str = "single"
) -> Inputs:
    """The inputs that the model reads for these replies, identical ones merged, as of conversations.inputs_for."""
    return model.inputs_for(prompt, replies, reply_mode=reply_mode, bos=bos)


# --- rewards ------------------------------------------------------------------------------------------------------


class Scorer:
    """Rewards of suffixes of one length, in batches whose size it learns: half as large after running out of memory."""

    def __init__(self, model: RewardModel, inputs: Inputs, tokens_per_batch: int | None = None):
        if model.layers:
            raise InputError(
                f"{model.nickname} is read layer by layer, once for all replies; load it with stream=False"
            )
        self.model, self.inputs = model, inputs
        self.small = torch.device(model.device).type == "cpu" and model.backbone.num_parameters() < SMALL
        self.tokens_per_batch = tokens_per_batch or TOKENS_PER_BATCH.get(torch.device(model.device).type, 4096)
        # Not inference_mode: gradients of replies pass through the prefix
        with checkpoints.enough_memory("read a prompt"), torch.no_grad():
            self.prefix = read_prefix(model, inputs) if model.causal else None
            self.shares_prefix = (
                self.prefix is not None
                and fits_window(model, self.prefix.length + 1)
                and self._agrees_with_whole(self.prefix)
            )

    def __call__(self, suffixes: Sequence[tuple[int, ...]] | np.ndarray) -> np.ndarray:
        """Rewards of prefix + suffix, (n,) float32. The suffixes have one length."""
        ids = torch.as_tensor(suffixes, device=self.model.device)  # (n, length)
        done, rewards = 0, []
        while done < len(ids):
            batch = ids[done : done + max(1, self.tokens_per_batch // ids.shape[1])]
            try:
                with torch.inference_mode(), one_thread(self.small):
                    rewards.append(self._rewards(batch).float().cpu().numpy())
            except (RuntimeError, MemoryError) as error:
                self.tokens_per_batch = smaller(self.tokens_per_batch, len(batch), error)
                continue
            done += len(batch)
        return np.concatenate(rewards)

    def gradient(self, suffix: Sequence[int]) -> Tensor:
        """The gradient of the reward of prefix + suffix by the embeddings of the suffix, (length, d) float32.

        By the embedding module's own output: some modules scale what stands in their table (Gemma's by sqrt(d)).
        """
        ids = torch.as_tensor(suffix, device=self.model.device)[None]
        return self.relaxed(self.model.backbone.get_input_embeddings()(ids), ids)[1][0]

    def relaxed(self, embeddings: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards of prefix + suffixes of any embeddings, (batch,), and their gradient by these, (batch, length, d).

        embeddings: (batch, length, d), as mixtures of tokens' are. ids: (batch, length), which tokens they stand for,
        as which decides where a reward is read. Both come back in float32.
        """
        embeddings = embeddings.detach().requires_grad_()
        with one_thread(self.small):
            rewards = self._rewards(embeddings, ids)
            gradient = torch.autograd.grad(rewards.sum(), embeddings)[0]
        return rewards.detach().float(), gradient.float()

    def _rewards(self, suffixes: Tensor, ids: Tensor | None = None) -> Tensor:
        """Rewards, (batch,). suffixes: (batch, length) ids, or (batch, length, d) embeddings of these `ids`."""
        head, prefix = self.model.head, self.prefix
        if head is None or prefix is None:
            return self._classifier_rewards(suffixes)
        apart = self.shares_prefix and fits_window(self.model, prefix.length + suffixes.shape[1])
        where = self._read_at(suffixes if ids is None else ids)
        hidden = self._apart(prefix, suffixes, where) if apart else self._whole(suffixes, where)  # (batch, d)
        return head(hidden.float(), prefix.gate)  # (batch,)

    def _read_at(self, ids: Tensor) -> Tensor | None:
        return read_at(ids, self.inputs.prefix_ids, self.model)

    def _apart(self, prefix: Prefix, suffixes: Tensor, where: Tensor | None) -> Tensor:
        return at(where, states_after(self.model.backbone, prefix.length, prefix.shared, suffixes), prefix)

    def _whole(self, suffixes: Tensor, read_at: Tensor | None = None) -> Tensor:
        hidden = self.model.backbone(**self._with_prefix(suffixes), use_cache=False).last_hidden_state
        if read_at is None:
            return hidden[:, -1]
        return hidden[torch.arange(len(hidden), device=hidden.device), len(self.inputs.prefix_ids) + read_at]

    def _with_prefix(self, suffixes: Tensor) -> dict[str, Tensor]:
        prefix = torch.tensor([self.inputs.prefix_ids], device=suffixes.device)
        if suffixes.is_floating_point():
            prefix = self.model.backbone.get_input_embeddings()(prefix)
        whole = torch.cat([prefix.expand(len(suffixes), *prefix.shape[1:]), suffixes], dim=1)
        return {input_name(suffixes): whole}

    def _classifier_rewards(self, suffixes: Tensor) -> Tensor:
        given, length = self._with_prefix(suffixes), len(self.inputs.prefix_ids) + suffixes.shape[1]
        given["attention_mask"] = torch.ones(len(suffixes), length, dtype=torch.long, device=suffixes.device)
        if getattr(self.model.backbone.config, "type_vocab_size", 0) > 1:
            in_reply = torch.arange(length, device=suffixes.device) >= len(self.inputs.conversation.prefix_ids)
            given["token_type_ids"] = in_reply.long().expand(len(suffixes), -1)
        return self.model.backbone(**given).logits[:, 0]

    def _agrees_with_whole(self, prefix: Prefix) -> bool:
        """Whether prefix and replies read apart give what they give when read whole, on the first few inputs."""
        length = len(self.inputs.suffixes[0])
        first_few = [suffix for suffix in self.inputs.suffixes[:99] if len(suffix) == length][:4]
        ids = torch.tensor(first_few, device=self.model.device)  # (at most 4, length)
        whole = self._whole(ids).float()  # (at most 4, d)
        tolerance = 1e-3 if self.model.dtype == "float32" else 5e-2  # half precision reorders sums
        try:
            apart = hidden_after(self.model, prefix, ids).float()
        except (TypeError, ValueError, KeyError):
            apart = torch.full_like(whole, torch.nan)  # an architecture without pluggable attention
        return bool((apart - whole).norm() <= tolerance * whole.norm())


def score_replies(
    model: RewardModel, prompt: str, replies: Sequence, *, reply_mode: str = "text", bos: str = "single",
    tokens_per_batch: int | None = None,
) -> np.ndarray:  # fmt: skip
    """Rewards of these replies to the prompt, (replies,) float32, on the model's own scale.

    replies: strings (reply_mode="text") or sequences of token ids (reply_mode="ids"). bos: "single" or "double".
    """
    inputs = inputs_for(model, prompt, replies, reply_mode=reply_mode, bos=bos)
    parts = shards_of(inputs)
    rewards = np.empty(len(inputs.suffixes), dtype=np.float32)
    if model.layers:
        blocks = [streaming.block_of(inputs, pieces) for pieces in parts]
        for block, of_block in streaming.rewards(model, blocks, tokens_per_batch=tokens_per_batch, progress=False):
            rewards[block.shard] = of_block
        return rewards[inputs.group]
    scorer = Scorer(model, inputs, tokens_per_batch)
    for piece in itertools.chain(*parts):
        rewards[piece] = scorer([inputs.suffixes[i] for i in piece])
    return rewards[inputs.group]


# --- the whole vocabulary -----------------------------------------------------------------------------------------


def score_vocabulary(
    model: RewardModel, prompts: dict[str, str], path: Path, *, reply_mode: str = "text", bos: str = "single",
    token_ids: Sequence[int] | None = None, overwrite: bool = False, tokens_per_batch: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:  # fmt: skip
    """The score table of a model: every token of its vocabulary as the reply to each prompt; also written to `path`.

    prompts: column name -> prompt. token_ids: score only these. Finished shards are kept beside `path`, so a run that
    was killed goes on where it stopped and ends with the same table. Prompts that a table of the same settings already
    holds are not scored again; a table of other settings is an InputError unless `overwrite`. Rewards that are not
    finite stop the run and name the token. InputError for a model that does not belong into the path's collection.
    """
    path, started = Path(path), time.time()
    [names.checked(name, "a prompt") for name in prompts]
    if collection := scores.collection_of(path):  # here, where all ways meet: a notebook opened by hand too
        refuse_foreign(collection, {model.nickname: model.hub_id})
    tokens = tokens_of(model, token_ids)
    with lock(path):
        lacks = lacking(path, settings_of(model, tokens, reply_mode, bos), tokens, prompts, overwrite)
        if lacks.missing and model.layers:
            _stream_into_shards(model, lacks, tokens_per_batch, progress, reply_mode=reply_mode, bos=bos)
        with tqdm(unit=" replies", desc=model.nickname, disable=not (progress and lacks.missing)) as bar:
            found = _prompt_by_prompt(model, lacks, tokens_per_batch, bar, reply_mode=reply_mode, bos=bos)
            return complete(lacks, found, about_run(model), started)


def tokens_of(model: RewardModel, token_ids: Sequence[int] | None = None) -> pd.DataFrame:
    """The tokens that are scored as replies, a row each: token_id, token, text. token_ids: None for all of them."""
    tokens = conversations.vocabulary(model.tokenizer)
    return tokens if token_ids is None else tokens[tokens["token_id"].isin(token_ids)].reset_index(drop=True)


def shards_of(inputs: Inputs) -> list[list[np.ndarray]]:
    """The inputs in shards, in pieces of one length, by their indices: the same ones wherever they are scored."""
    return shards.split(list(map(len, inputs.suffixes)), REPLIES_PER_SHARD)


def sample(model: RewardModel, tokens: int, seed: int = 0) -> list[int]:
    """The token ids of a random sample of the vocabulary, in order; of the whole vocabulary if that has no more.

    As notebook 01 draws it. InputError unless at least two are asked for.
    """
    if tokens < 2:
        raise InputError(f"a sample has 2 tokens or more, not {tokens}; leave it out for the whole vocabulary")
    vocabulary = conversations.vocabulary(model.tokenizer)
    return sorted(vocabulary["token_id"].sample(min(tokens, len(vocabulary)), random_state=seed).tolist())


def replies_of(tokens: pd.DataFrame, reply_mode: str) -> list:
    """The tokens as replies: their texts (reply_mode="text") or their ids, each a tuple of one."""
    return tokens["text"].tolist() if reply_mode == "text" else [(i,) for i in tokens["token_id"].tolist()]


def settings_of(model: RewardModel, tokens: pd.DataFrame, reply_mode: str, bos: str) -> dict:
    """Everything that a reward depends on, other than the prompt."""
    return {
        "model": model.nickname if Path(model.hub_id).is_dir() else model.hub_id,
        "revision": model.revision,
        "head": model.head_name,
        "dtype": model.dtype,
        "attention": model.attention,
        "read_at": model.read_at,
        "reply_mode": reply_mode,
        "bos": bos,
        "date": conversations.DATE,
        "chat_template": hash_of(model.tokenizer.chat_template or ""),
        "vocabulary": f"{len(tokens)} tokens, {hash_of(tokens['token'].tolist())}",
    } | ({"closing": model.closing} if model.opened else {})


def about_run(model: RewardModel) -> dict:
    """How and with what this process scores: device, cards, whether streamed, versions. Rewards do not depend on it."""
    libraries = ("torch", "transformers", "tokenizers", "numpy")
    return {
        "streamed": model.layers is not None,
        "device": f"{model.device} ({torch.cuda.get_device_name() if model.device == 'cuda' else platform.machine()})",
        "cards": sorted(set(getattr(model.backbone, "hf_device_map", {}).values())),  # that the model is laid over
        "versions": {"python": platform.python_version()} | {name: version(name) for name in libraries},
    }


def _prompt_by_prompt(
    model: RewardModel, lacks: Unscored, tokens_per_batch: int | None, bar: tqdm, **how: str
) -> Iterator[tuple[str, Inputs, np.ndarray]]:
    for done, (name, prompt) in enumerate(lacks.missing.items()):
        inputs = inputs_for(model, prompt, replies_of(lacks.tokens, how["reply_mode"]), **how)
        bar.total = bar.n + len(inputs.suffixes) * (len(lacks.missing) - done)
        yield name, inputs, _score_in_shards(model, inputs, lacks.tokens, lacks.folder, tokens_per_batch, bar)


def _score_in_shards(
    model: RewardModel, inputs: Inputs, tokens: pd.DataFrame, folder: Path, tokens_per_batch: int | None, bar: tqdm
) -> np.ndarray:
    """Rewards of the distinct inputs, (inputs,) float32; shards that an earlier run finished are read, not scored."""
    scorer = None
    rewards = np.empty(len(inputs.suffixes), dtype=np.float32)
    for number, pieces in enumerate(shards_of(inputs)):
        shard = np.concatenate(pieces)
        file = shards.path_of(folder, inputs.conversation.prompt, number)
        finished = shards.read(file, len(shard))
        if finished is None:
            scorer = scorer or announced(Scorer(model, inputs, tokens_per_batch))
            finished = score_shard(scorer, pieces, tokens)
            shards.write(file, finished)
        rewards[shard] = finished
        bar.update(len(shard))
    return rewards


def score_shard(scorer: Scorer, pieces: list[np.ndarray], tokens: pd.DataFrame) -> np.ndarray:
    """Rewards of one of shards_of(scorer.inputs), (inputs,) float32; InputError where one is not finite."""
    suffixes = scorer.inputs.suffixes
    rewards = np.concatenate([scorer([suffixes[i] for i in piece]) for piece in pieces])
    _refuse_non_finite(scorer.model, rewards, np.concatenate(pieces), scorer.inputs, tokens)
    return rewards


def _stream_into_shards(
    model: RewardModel, lacks: Unscored, tokens_per_batch: int | None, progress: bool, **how: str
) -> None:
    """Score the shards of all prompts that no earlier run finished, together."""
    blocks = []
    for prompt in lacks.missing.values():
        inputs = inputs_for(model, prompt, replies_of(lacks.tokens, how["reply_mode"]), **how)
        for number, pieces in enumerate(shards_of(inputs)):
            file = shards.path_of(lacks.folder, prompt, number)
            if shards.read(file, sum(map(len, pieces))) is None:
                blocks.append(streaming.block_of(inputs, pieces, file))
    for block, rewards in stream_shards(model, blocks, lacks.tokens, tokens_per_batch, progress):
        shards.write(block.file, rewards)  # type: ignore[arg-type]  # it was given above


def stream_shards(
    model: RewardModel, blocks: list[Block], tokens: pd.DataFrame, tokens_per_batch: int | None = None,
    progress: bool = True,
) -> Iterator[tuple[Block, np.ndarray]]:  # fmt: skip
    """Each shard, as of streaming.block_of, and its rewards, (inputs,) float32: all in one pass over the weights.

    InputError where one is not finite.
    """
    if blocks:
        _tell_readings(model, blocks[-1].inputs)
    for block, rewards in streaming.rewards(model, blocks, tokens_per_batch=tokens_per_batch, progress=progress):
        _refuse_non_finite(model, rewards, block.shard, block.inputs, tokens)
        yield block, rewards


def announced(scorer: Scorer) -> Scorer:
    """The scorer, once it is told how it reads conversations, where that is to be told."""
    if not scorer.shares_prefix:
        tqdm.write(f"{scorer.model.nickname}: every conversation is read whole, which is exact but slower")
    _tell_readings(scorer.model, scorer.inputs)
    return scorer


def _tell_readings(model: RewardModel, inputs: Inputs) -> None:
    for told in model.readings(inputs.conversation):
        tqdm.write(f"{model.nickname}: {told}")


def _refuse_non_finite(
    model: RewardModel, rewards: np.ndarray, shard: np.ndarray, inputs: Inputs, tokens: pd.DataFrame
) -> None:
    bad = np.flatnonzero(~np.isfinite(rewards))
    if len(bad):
        token = tokens.iloc[int(np.flatnonzero(inputs.group == shard[bad[0]])[0])]
        raise InputError(
            f"the reward of token {token['token_id']} ({token['token']!r}) for the prompt "
            f"{inputs.conversation.prompt!r} is {rewards[bad[0]]}; {_remedy_for_non_finite(model)}"
        )


def _remedy_for_non_finite(model: RewardModel) -> str:
    """A wider dtype where there is one; in float32 the weights themselves are the likely cause, not their dtype."""
    wider = {"float16": "'bfloat16' or 'float32'", "bfloat16": "'float32'"}.get(model.dtype)
    damaged = f"its weights may be damaged, since it is computed in {model.dtype}: download the checkpoint again"
    return f"load the model with dtype={wider}" if wider else damaged
