"""Checks of the rewards, against the checkpoint's class in transformers and on pairs that anybody can order."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase

from ... import ROOT
from ...models import checkpoints, conversations
from ...models.reward_models import RewardModel
from ...scoring import engine, stages
from .report import Row, note, ok, wrong

RIGHT = 10  # pairs of twelve that chance orders rightly once in 50 times
CONVERSATIONS = 4  # pairs whose replies, eight in all, are scored by the class in transformers too
TIMED = 64  # tokens that are scored to tell how long all of them take
# The largest difference from the class in transformers that sums in another order explain, as a share of the largest
# reward; half precision also rounds the reward itself, to 8 or 11 bits.
TOLERANCES = {"float64": 1e-5, "float32": 5e-5, "float16": 0.0045, "bfloat16": 0.07}


def read_pairs() -> pd.DataFrame:
    """Return twelve prompts with two replies each. Any reward model should prefer the column `better` to `worse`."""
    return pd.read_csv(ROOT / "data" / "check_pairs.csv", dtype=str, keep_default_na=False)


def score_pairs(model: RewardModel, bos: str) -> np.ndarray:
    """Return the rewards of both replies of each pair, (pairs, 2) float32: better, worse."""
    rows = read_pairs().itertuples()
    return np.stack([engine.score_replies(model, row.prompt, [row.better, row.worse], bos=bos) for row in rows])


def pairs(rewards: np.ndarray, planted: bool) -> Row:
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


# --- the checkpoint's own class -----------------------------------------------------------------------------------


def referee(folder: Path, model_was: RewardModel, rewards: np.ndarray, bos: str) -> Row:
    """Compare our rewards of eight conversations with those of AutoModelForSequenceClassification, alone and padded.

    `model_was` is the model of our rewards; its weights may no longer be in memory. Rewards are (pairs, 2).
    """
    own, problem = _own_class(folder, model_was)
    if problem:
        return wrong(problem, "download the checkpoint again, or check config.json")
    ours = rewards[:CONVERSATIONS].ravel()
    given = _conversations(model_was, bos)
    alone = np.array([_logit(own, _batch(model_was.tokenizer, [one]), model_was.device)[0] for one in given])
    limit = TOLERANCES[model_was.dtype] * float(np.abs(alone).max())
    apart = float(np.abs(alone - ours).max())
    numbers = {"largest difference": apart, "tolerance": limit}
    found = f"{type(own).__name__} gives {len(ours)} rewards with a largest difference of {apart:.1g}"
    if not apart <= limit:
        if model_was.read_at == "last" and model_was.pad_token_id is not None:
            return note(f"{found}: it reads another token than --read-at last", "", numbers)
        return wrong(f"{found}, more than the {limit:.1g} that {model_was.dtype} explains",
                     "score it with that class, not here", numbers)  # fmt: skip
    try:
        padded = _logit(own, _batch(model_was.tokenizer, given), model_was.device)
    except ValueError as error:  # no pad token in the tokenizer, or none in the configuration
        return note(f"{found}; it refuses a batch of several ({checkpoints.first_line(error)})",
                    "see the row on the pad token", numbers)  # fmt: skip
    numbers["largest difference when padded"] = moved = float(np.abs(padded - alone).max())
    if moved <= limit:
        return ok(f"{found}, alone and in a padded batch", "", numbers)
    return note(f"{found}; in a padded batch it gives others, by up to {moved:.2g}",
                "here nothing is padded; elsewhere see the row on the pad token", numbers)  # fmt: skip


def _own_class(folder: Path, model: RewardModel) -> tuple[PreTrainedModel, str]:
    """Return the checkpoint as transformers loads it by itself, and the problem with that, or ""."""
    config = checkpoints.config_of(folder)
    attention = checkpoints.set_attention(config, "uncapped" if model.attention == "uncapped" else None)
    config.num_labels = 1
    own, report = checkpoints.from_safetensors(
        AutoModelForSequenceClassification, folder, config, model.dtype, None if model.head is None else attention
    )
    lost = sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]])
    return checkpoints.ready(own, model.device), f"transformers draws {lost[0]} at random" if lost else ""


def _conversations(model: RewardModel, bos: str) -> list[dict]:
    """Return the inputs for the replies of the first pairs: ids, and for an encoder what its tokenizer adds."""
    given = []
    for row in read_pairs().head(CONVERSATIONS).itertuples():
        if not model.tokenizer.chat_template:
            given += [dict(model.tokenizer(row.prompt, reply)) for reply in (row.better, row.worse)]
            continue
        conversation = model.conversation(row.prompt, bos)
        given += [{"input_ids": ids} for ids in model.encode(conversation, [row.better, row.worse])]
    return given


def _batch(tokenizer: PreTrainedTokenizerBase, given: Sequence[dict]) -> dict[str, torch.Tensor]:
    if len(given) == 1:
        batch = {key: torch.tensor([ids]) for key, ids in given[0].items()}
        return batch | {"attention_mask": torch.ones_like(batch["input_ids"])}
    return dict(tokenizer.pad(list(given), padding=True, return_tensors="pt"))


def _logit(own: PreTrainedModel, batch: dict[str, torch.Tensor], device: str) -> np.ndarray:
    with torch.inference_mode():
        return own(**{key: ids.to(device) for key, ids in batch.items()}).logits[:, 0].float().cpu().numpy()


# --- time ---------------------------------------------------------------------------------------------------------


def speed(model: RewardModel, prompt: str, prompts: int, bos: str) -> Row:
    """Estimate the time for the whole vocabulary from some of its tokens."""
    texts = conversations.vocabulary(model.tokenizer)["text"]
    some = texts.sample(min(TIMED, len(texts)), random_state=0).tolist()
    inputs = model.inputs_for(prompt, some, bos=bos)
    scorer = stages.reader_of(model)(model, inputs)
    groups = pd.Series(inputs.suffixes).groupby([len(suffix) for suffix in inputs.suffixes])
    start = time.perf_counter()
    for _, suffixes in groups:
        scorer(suffixes.tolist())
    seconds = (time.perf_counter() - start) / len(some) * len(texts) * prompts
    numbers = {"seconds": seconds, "tokens": len(texts), "prompts": prompts}
    found = f"about {_in_words(seconds)} for {len(texts):,} tokens and {prompts} prompts on this {model.device}"
    if model.causal and not scorer.shares_prefix:
        return note(f"{found}; every conversation is read whole, which is exact but slower", "", numbers)
    return ok(found, "", numbers)


def _in_words(seconds: float) -> str:
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if seconds > 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{max(1, round(seconds))} seconds"
