"""Reward models, loaded and saved: a transformers backbone and a head (lib/models/heads.py).

`load` reads the heads of the paper and linear layers, from safetensors, by key. All else is opened
by audit.opening. Facts about the ten models of the paper are in data/reward_models.csv.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import InputError
from ..tables import registry
from . import conversations, heads
from .conversations import Conversation, Inputs, Turns
from .heads import LAYOUTS, Head, UncertaintyHead
from .loading import (
    Files,
    Source,
    architecture_of,
    load_backbone,
    open_files,
    open_source,
    tokenizer_of,
)

# INF-ORM's: two linear layers with ReLU between them, named score.
TWO_LAYERS = "INFORMForSequenceClassification"


@dataclass(frozen=True)
class RewardModel:
    """A loaded reward model: backbone in its own dtype, head in fp32, both in eval mode on
    `device`.

    - name: the name that the user gave
    - head: None for encoders (BERT, DeBERTa), whose backbone is the whole model, and for served
      models
    - read_at: at the "last" token, at the "last_not_pad" token, or "pooled" by an encoder
    - layers: set if they are read one by one; the backbone then has no weights
    - files: the checkpoint's; None if the model was not loaded
    - reader: the class that reads prompts for this model; None for scoring.reader.Reader
    - onednn: whether oneDNN multiplies on a CPU; None does so where it pays (scoring.products)
    """

    name: str
    nickname: str
    hub_id: str
    revision: str
    head_name: str
    dtype: str
    attention: str
    device: str
    tokenizer: PreTrainedTokenizerBase
    backbone: PreTrainedModel
    head: Head | None
    read_at: str = "last"
    layers: Any = None
    files: Files | None = None
    reader: type | None = None
    onednn: bool | None = None

    @property
    def pad_token_id(self) -> int | None:
        return heads.pad_token_id(self.backbone.config)

    @property
    def causal(self) -> bool:
        """Return whether the states of a prefix do not depend on later tokens."""
        return self.head is not None

    @property
    def is_served(self) -> bool:
        """Return whether a server computes the rewards, and the weights are not here."""
        return registry.is_served(self.hub_id)

    @property
    def gated(self) -> bool:
        # no implicit head is
        return self.head_name in LAYOUTS and LAYOUTS[self.head_name].gated

    def conversation(self, prompt: str | Turns, bos: str = "single") -> Conversation:
        """Return the prompt rendered with a gap for the reply."""
        return conversations.open_conversation(
            self.tokenizer, prompt, bos, gated=self.gated
        )

    def encode(
        self, conversation: Conversation, replies: Sequence[str]
    ) -> list[list[int]]:
        """Return the whole model input for each reply, as conversations.encode does."""
        return conversations.encode(self.tokenizer, conversation, replies)

    def inputs_for(
        self,
        prompt: str | Turns,
        replies: Sequence,
        *,
        reply_mode: str = "text",
        bos: str = "single",
    ) -> Inputs:
        """Return what the model reads for these replies, as conversations.inputs_for does."""
        return conversations.inputs_for(
            self.tokenizer, self.conversation(prompt, bos), replies, reply_mode
        )


# --- loading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How a reward model is to be read and run; None leaves it to the registry and the checkpoint.

    - device: None takes cuda, then mps, then cpu.
    - dtype: None takes the registry's, then the checkpoint's. float16 becomes float32 on a cpu,
      where float16 is slow.
    - attention: None takes "eager" for Gemma-2, because "sdpa" drops its soft-capping, and
      transformers' usual one for all others. "uncapped" runs Gemma-2 without soft-capping, as the
      authors' code did.
    - head: None reads it from the checkpoint. "urm_helpfulness" reads URM as the paper's code did.
    - read_at: "last" token or "last_not_pad". None takes the rule of the checkpoint's own class.
    - template: a file with another chat template
    - revision: on the hub. None takes the registry's, then the newest.
    """

    device: str | None = None
    dtype: str | None = None
    attention: str | None = None
    head: str | None = None
    read_at: str | None = None
    template: str | Path | None = None
    revision: str | None = None


@dataclass(frozen=True)
class Checkpoint(Source):
    """All of a reward model but its weights: what its files, the options and the registry decide.
    entry: the registry's row.
    """

    name: str
    entry: dict
    head_name: str
    read_at: str
    tokenizer: PreTrainedTokenizerBase


def load(name: str | Path, options: Options | None = None, **given: Any) -> RewardModel:
    """Return the reward model of that nickname, hub id or folder, ready to score.

    Single options may also be given by name, as in `load(name, device="cpu")`. InputError, in one
    line with the remedy, if the model does not exist, or is no reward model with one of the paper's
    heads or linear layers; audit.load opens more.
    """
    checkpoint = open_checkpoint(str(name), replace(options or Options(), **given))
    if checkpoint.head_name == "classifier":
        raise InputError(
            "the model is an encoder, whose head is part of it; open it with audit.load"
        )
    tensors = heads.head_tensors(checkpoint.files, checkpoint.config)
    head = heads.load_head(checkpoint.head_name, checkpoint.config, tensors)
    return complete(checkpoint, load_backbone(checkpoint), head)


def open_checkpoint(
    name: str, options: Options, files: Files | None = None, head_name: str = ""
) -> Checkpoint:
    """Return what is known of a reward model before its weights are read. InputError as for `load`.

    files: those of the checkpoint, if they are known. head_name: its head's, if it is known.
    """
    entry = find(name)
    files = files or open_files(entry["hub_id"], options.revision or entry["revision"])
    dtype = options.dtype or entry["dtype"]
    source = open_source(files, options.device, dtype, options.attention)
    if not head_name:
        own = architecture_of(source.config)
        head_name = options.head or heads.head_name_of(own, files.tensors) or "none"
        if head_name not in LAYOUTS:
            raise InputError(
                f"architecture {own} without a head of one reward is no reward model that is read "
                "here; see if audit.load opens it"
            )
    tokenizer = tokenizer_of(files, options.template)
    if head_name != "classifier" and not tokenizer.chat_template:
        raise InputError(
            f"{files.folder}: the tokenizer has no chat template; name a file with the one that "
            "the reward model was trained with: --template file"
        )
    read_at = heads.read_at_for(head_name, source.config, options.read_at)
    return Checkpoint(
        **vars(source),
        name=name,
        entry=entry,
        head_name=head_name,
        read_at=read_at,
        tokenizer=tokenizer,
    )


def complete(
    checkpoint: Checkpoint, backbone: PreTrainedModel, head: Head | None, **others: Any
) -> RewardModel:
    """Return the reward model of a checkpoint with this backbone and head. others: further
    fields.
    """
    attention = checkpoint.attention
    if attention != "uncapped":
        attention = backbone.config._attn_implementation
    return RewardModel(
        name=checkpoint.name,
        nickname=checkpoint.entry["nickname"],
        hub_id=checkpoint.entry["hub_id"],
        revision=checkpoint.files.revision,
        head_name=checkpoint.head_name,
        dtype=checkpoint.dtype,
        attention=attention,
        device=checkpoint.device,
        tokenizer=checkpoint.tokenizer,
        backbone=backbone,
        head=None if head is None else head.to(checkpoint.device).eval(),
        read_at=checkpoint.read_at,
        files=checkpoint.files,
        **others,
    )


def find(name: str) -> dict:
    """Return the registry's row for a nickname, hub id or folder (see registry.find_in)."""
    return registry.find_in(registry.reward_models(), name, "reward model")


# --- saving ---------------------------------------------------------------------------------------


def save(
    folder: Path,
    backbone: PreTrainedModel,
    head: Head,
    head_name: str,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write a reward model as a standard checkpoint, with the key names and architecture name of
    the released ones.
    """
    folder.mkdir(exist_ok=True)
    tensors = {
        f"model.{key}": tensor for key, tensor in backbone.state_dict().items()
    } | head.state_dict()
    save_file(
        {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    own = f"{type(backbone).__name__.removesuffix('Model')}ForSequenceClassification"
    if isinstance(getattr(head, "score", None), nn.Sequential):
        # for which transformers' own class, with one layer, would make up weights
        own = TWO_LAYERS
    config = copy.deepcopy(backbone.config)
    config.num_labels = (
        len(head.score.weight) if isinstance(head, UncertaintyHead) else 1
    )
    architecture = LAYOUTS[head_name].architecture or own
    # neither where its parts lay nor how they were fetched belongs to the model
    tokenizer.init_kwargs.pop("local_files_only", None)
    fields = config.to_dict() | {"architectures": [architecture], "_name_or_path": ""}
    (folder / "config.json").write_text(
        json.dumps(fields, indent=2, sort_keys=True, default=str) + "\n"
    )
    tokenizer.save_pretrained(folder)
