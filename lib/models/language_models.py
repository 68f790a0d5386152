"""Causal language models: loading, and the log-probability of every token as the next one (appendix
A.1.2).

Facts about the models of Tables A1-A5 are in data/language_models.csv.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from .. import InputError
from ..io import lock
from ..tables import downloads, registry, score_files, scores
from ..tables.collection import LOGPROBS
from ..tables.prompts import grid
from . import conversations
from .loading import (
    Files,
    from_safetensors,
    open_files,
    open_source,
    ready,
    refuse_unloaded,
    tokenizer_of,
)

# --- loading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageModel:
    """A loaded causal language model, in eval mode on `device`.

    - name: the name that the user gave
    - revision: see loading.Files
    - tuned: True puts prompts into the chat template (instruction-tuned), False into the plain
      frame (pretrained)
    """

    name: str
    nickname: str
    hub_id: str
    revision: str
    tuned: bool
    dtype: str
    attention: str
    device: str
    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel

    def render(self, prompt: str) -> str:
        return conversations.frame(self.tokenizer, prompt, tuned=self.tuned)

    def encode(self, prompt: str) -> list[int]:
        return conversations.frame_ids(self.tokenizer, prompt, tuned=self.tuned)


def load(
    name: str | Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    attention: str | None = None,
    tuned: bool | None = None,
    files: Files | None = None,
) -> LanguageModel:
    """Return the language model of that nickname, hub id or folder.

    See reward_models.Options for device, dtype and attention. `tuned` says whether to put prompts
    into the chat template; None asks the registry, or else the tokenizer. `files` are those of the
    checkpoint, if they are known. InputError if it cannot be had, or is no language model.
    """
    entry = find(name := str(name))
    files = files or open_files(entry["hub_id"], entry["revision"])
    source = open_source(files, device, dtype or "", attention)
    tokenizer = tokenizer_of(files)
    model, report = from_safetensors(
        AutoModelForCausalLM, files, source.config, source.dtype, source.attention
    )
    # a reward model has a head in place of the output
    refuse_unloaded(source.folder, report)
    if tuned is None:
        declared = entry["tuned"]
        tuned = bool(tokenizer.chat_template if declared == "" else declared)
    return LanguageModel(
        name,
        entry["nickname"],
        entry["hub_id"],
        files.revision,
        tuned,
        source.dtype,
        source.attention or model.config._attn_implementation,
        source.device,
        tokenizer,
        ready(model, source.device),
    )


def find(name: str) -> dict:
    """Return the registry's row for a nickname, hub id or folder (see registry.find_in)."""
    return registry.find_in(registry.language_models(), name, "language model")


# --- log-probabilities ----------------------------------------------------------------------------


def next_token_logits(model: LanguageModel, prompt: str) -> np.ndarray:
    """Return the model's logits for what comes after the prompt, (output rows,) float32.
    Gemma-2's are soft-capped.
    """
    ids = torch.tensor([model.encode(prompt)], device=model.device)
    with torch.inference_mode():
        logits = (
            model.model(input_ids=ids, use_cache=False, logits_to_keep=1)
            .logits[0, -1]
            .float()
            .cpu()
        )
    if not torch.isfinite(logits).all():
        raise InputError(
            f"{model.name} gives logits that are not finite; load it with dtype='bfloat16' or "
            "'float32'"
        )
    return logits.numpy()


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Return the natural logarithms of the softmax of all outputs' logits, (n,) float32."""
    tensor = torch.tensor(logits, dtype=torch.float32)
    return torch.log_softmax(tensor, dim=-1).numpy()


def score_vocabulary(
    model: LanguageModel, prompts: dict[str, str], path: Path | None = None
) -> pd.DataFrame:
    """Return the log-probability of every token as the next one, as a score table; write it to
    `path`, if given.

    prompts: column name -> prompt. Outputs beyond the tokenizer's vocabulary (padding of the table
    to a round number) take part in the softmax but have no row.
    """
    table = conversations.vocabulary(model.tokenizer)
    ids = table["token_id"].to_numpy()
    table = scores.as_score_table(table)
    for name, prompt in prompts.items():
        table[name] = log_probabilities(next_token_logits(model, prompt))[ids]
    is_local = Path(model.hub_id).is_dir()
    metadata = {
        "model": model.nickname if is_local else model.hub_id,
        "revision": model.revision,
        "quantity": "natural log-probability of the next token",
        "frame": "chat template" if model.tuned else conversations.FRAME,
        "rendered": {name: model.render(prompt) for name, prompt in prompts.items()},
        "dtype": model.dtype,
        "attention": model.attention,
        "date": conversations.DATE,
        "prompts": prompts,
    }
    if path is not None:
        with lock(path):
            scores.write(table, path, metadata)
    table.attrs["metadata"] = metadata
    return table


# --- the authors' own -----------------------------------------------------------------------------


def import_published() -> dict[str, Path]:
    """Write the published language models' log-probabilities as score tables, `published-logprobs`:
    nickname -> table.

    Raise InputError if a file cannot be fetched.
    """
    models = registry.language_models()
    texts = grid().set_index("prompt")["text"]
    written = {}
    for name, hub_id in models.loc[models["group"] == "paper", "hub_id"].items():
        place = f"data/base_model_logits/{hub_id.replace('/', '--')}.csv"
        file = downloads.fetch(score_files.PAPER, place)
        table = read_published(file)
        path = scores.path_of(LOGPROBS, name)
        about = {
            "model": hub_id,
            "imported": LOGPROBS.name,
            "source": file.name,
            "quantity": "natural log-probability, from published logits",
            "prompts": texts[scores.prompt_names(table)].to_dict(),
        }
        with lock(path):
            scores.write(table, path, about)
        written[name] = path
    return written


def read_published(path: Path) -> pd.DataFrame:
    """Return a published file of raw logits as log-probabilities: a score table with columns
    greatest, best, worst.

    InputError, which names the file, if its columns differ from the columns of the published reward
    scores.
    """
    table = score_files.read_vocabulary(path)
    prompts = ["greatest", "best", "worst"]
    table = table.assign(
        **{prompt: log_probabilities(table[prompt].to_numpy()) for prompt in prompts}
    )
    return scores.as_score_table(table[["token_id", "token", "text", *prompts]])
