"""Reward models, loaded and saved: a transformers backbone and a head (lib/models/heads.py).

`load` reads the heads of the paper and every checkpoint of linear layers, from safetensors, by key.
All else is opened by audit.opening. Facts about the ten models of the paper are in
data/reward_models.csv.
"""

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .. import InputError
from ..tables import registry
from . import conversations, heads
from .checkpoints import (
    Source,
    architecture_of,
    load_backbone,
    open_source,
    refuse_unloaded,
)
from .conversations import Conversation, Inputs, OpenedTurn
from .files import Files, open_files
from .heads import LAYOUTS, EmptyHead, Head, UncertaintyHead
from .tokenizers import tokenizer_of

# INF-ORM's: two linear layers with ReLU between them, named score.
TWO_LAYERS = "INFORMForSequenceClassification"
# options for models that `load` does not read by itself
OF_OPENER = ("stream", "label", "base", "tokenizer")

# models of which was printed that their template cuts replies
_CUT: set[tuple[str, str]] = set()

# --- conversations --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RewardModel:
    """A loaded reward model: backbone in its own dtype, head in fp32, both in eval mode on
    `device`.

    - name: the name that the user gave
    - head: None for encoders (BERT, DeBERTa), whose backbone is the whole model, and for served
      models
    - read_at: at the "last" token, at the "last_not_pad" token, or "pooled" by an encoder
    - closing: how a conversation ends, one of conversations.CLOSINGS
    - opened: the turn that the template opens after a reply, if any
    - layers: set if they are read one by one; the backbone then has no weights
    - files: the checkpoint's, which must not change meanwhile; None if the model was not loaded
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
    closing: str = "rendered"
    opened: OpenedTurn | None = None
    layers: Any = None
    files: Files | None = None
    reader: type | None = None
    onednn: bool | None = None

    @property
    def after_reply(self) -> OpenedTurn | None:
        """Return the turn that is opened after each reply, if the model reads it."""
        return self.opened if self.closing == "rendered" else None

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

    def conversation(self, prompt: str, bos: str = "single") -> Conversation:
        """Return the prompt rendered with a gap for the reply."""
        conversation = conversations.open_conversation(
            self.tokenizer, prompt, bos, gated=self.gated
        )
        return conversations.complete(conversation, self.after_reply)

    def readings(self, conversation: Conversation) -> list[str]:
        """Return sentences about where such a conversation is read and how it ends, if this is
        unusual.
        """
        sentences = []
        if self.read_at == "last_not_pad" and conversation.closing_ids[-1:] == (
            self.pad_token_id,
        ):
            sentences.append(
                "what closes a reply is the pad token, so rewards are read at the last token that "
                "is not pad, as transformers does; --read-at last reads them at the closing token"
            )
        if self.after_reply:
            sentences.append(
                "its template opens another turn after the reply, and is scored as rendered; "
                "--closing trim ends where the reply's turn ends"
            )
        return sentences

    def encode(
        self, conversation: Conversation, replies: Sequence[str]
    ) -> list[list[int]]:
        """Return the whole model input for each reply, as conversations.encode does."""
        after = self.after_reply.ids if self.after_reply else ()
        return [
            [*ids, *after]
            for ids in conversations.encode(self.tokenizer, conversation, replies)
        ]

    def inputs_for(
        self,
        prompt: str,
        replies: Sequence,
        *,
        reply_mode: str = "text",
        bos: str = "single",
    ) -> Inputs:
        """Return what the model reads for these replies, as conversations.inputs_for does."""
        inputs = conversations.inputs_for(
            self.tokenizer,
            prompt,
            replies,
            reply_mode=reply_mode,
            bos=bos,
            gated=self.gated,
        )
        if reply_mode == "text":
            self._report_cut_replies(replies)
        return self._completed(inputs)

    def inputs_for_rows(
        self,
        contexts: Sequence[conversations.Turns],
        replies: Sequence[Sequence[str]],
        bos: str = "single",
    ) -> list[Inputs]:
        """Return what the model reads for the replies to each context, as
        conversations.inputs_for_rows does.

        InputError for an encoder, and for a gate before earlier turns of user or assistant: they
        read one prompt.
        """
        earlier = [turn["role"] for turns in contexts for turn in turns[:-1]]
        problem = ""
        if self.gated and {*earlier} - {"system"}:
            problem = (
                f"the gate of {self.name} reads where the user's one turn ends; give the last turn "
                "alone"
            )
        elif earlier and not self.tokenizer.chat_template:
            problem = (
                f"{self.name} reads pairs of a prompt and a reply; give no system or "
                "earlier turns"
            )
        if problem:
            raise InputError(problem)
        found = conversations.inputs_for_rows(
            self.tokenizer, contexts, replies, bos, gated=self.gated
        )
        self._report_cut_replies(reply for some in replies for reply in some)
        return list(map(self._completed, found))

    def _report_cut_replies(self, replies: Iterable[str]) -> None:
        """Print a line, once for a model, if the template cuts one of these replies where a
        thought ends.
        """
        if (self.name, self.revision) in _CUT or not any(
            conversations.THOUGHT_END in reply for reply in replies
        ):
            return
        if conversations.cuts_thoughts(self.tokenizer):
            _CUT.add((self.name, self.revision))
            end = conversations.THOUGHT_END
            tqdm.write(
                f"{self.nickname}: its chat template takes a reply apart at {end}, so that {end} "
                f"alone is read as an empty reply, and x{end}love as love with a thought or none; "
                f"--reply-mode ids reads {end} as itself"
            )

    def _completed(self, inputs: Inputs) -> Inputs:
        if self.after_reply is None:
            return inputs
        suffixes = [suffix + self.after_reply.ids for suffix in inputs.suffixes]
        conversation = conversations.complete(inputs.conversation, self.after_reply)
        return replace(inputs, conversation=conversation, suffixes=suffixes)


# --- loading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How a reward model is to be read and run; None leaves it to the registry and the checkpoint.

    - device: None takes cuda, then mps, then cpu.
    - dtype: None takes the registry's, then the checkpoint's. float16 becomes float32 on a cpu,
      where float16 is slow.
    - attention: None takes "eager" for Gemma-2, because "sdpa" drops its soft-capping, and "sdpa"
      for all others. "uncapped" runs Gemma-2 without soft-capping, as the authors' code did.
    - head: None reads it from the checkpoint. "urm_helpfulness" reads URM as the paper's code did.
    - read_at: "last" token or "last_not_pad". None takes the rule of the checkpoint's own class.
    - closing: "rendered" (as None) or "trim", if the template opens another turn after the reply
    - template: a file with another chat template
    - revision: on the hub. None takes the registry's, then the newest.

    The others are for audit.load:

    - head: "yes,no" reads a judge: the logit of the token "yes" as the next one, less that of "no";
      one token alone is its logit.
    - label: which output of a classifier is the reward, from 0. None if it has one output.
    - base: of an adapter, the folder or hub id of its base. None takes what its configuration
      names.
    - tokenizer: of a served model, the folder with its tokenizer and template. None takes what the
      server names.
    - stream: True leaves the weights in their files and reads them layer by layer, once for all
      replies that are scored together. None does so if they fit neither into device and host nor on
      all cards of the machine.
    """

    device: str | None = None
    dtype: str | None = None
    attention: str | None = None
    head: str | None = None
    read_at: str | None = None
    closing: str | None = None
    label: int | None = None
    template: str | Path | None = None
    revision: str | None = None
    stream: bool | None = None
    tokenizer: str | Path | None = None
    base: str | Path | None = None


@dataclass(frozen=True)
class Checkpoint(Source):
    """All of a reward model but its weights: what its files, the options and the registry decide.

    - entry: the registry's row
    - head: None for an encoder, and where its user names the head
    - opened: the turn that the template opens after a reply, if any
    """

    name: str
    entry: dict
    head_name: str
    head: EmptyHead | None
    read_at: str
    closing: str
    tokenizer: PreTrainedTokenizerBase
    opened: OpenedTurn | None


def load(name: str | Path, options: Options | None = None, **given: Any) -> RewardModel:
    """Return the reward model of that nickname, hub id or folder, ready to score.

    Single options may also be given by name, as in `load(name, device="cpu")`. InputError, in one
    line with the remedy, if the model does not exist, is not open, or is no reward model with one
    of the paper's heads or linear layers; audit.load opens more.
    """
    options = replace(options or Options(), **given)
    set_there = [
        each for each in OF_OPENER if getattr(options, each) not in (None, False)
    ]
    if set_there or options.label is not None:
        raise InputError(
            f"'{(set_there or ['label'])[0]}' is no option of load; "
            "open such a model with audit.load"
        )
    checkpoint = open_checkpoint(str(name), options)
    if checkpoint.head is None:
        raise InputError(
            "the model is an encoder, whose head is part of it; open it with audit.load"
        )
    head, names, report = checkpoint.head
    refuse_unloaded(checkpoint.folder, report, head_name=checkpoint.head_name)
    backbone = load_backbone(checkpoint)
    head.load_state_dict(checkpoint.files.read_tensors(names), strict=False)
    return complete(checkpoint, backbone, head)


def open_checkpoint(
    name: str, options: Options, files: Files | None = None, head_name: str = ""
) -> Checkpoint:
    """Return what is known of a reward model before its weights are read. InputError as for `load`.

    files: those of the checkpoint, if they are known. head_name: its head's, if it is known.
    """
    entry = find(name)
    files = files or open_files(entry["hub_id"], options.revision or entry["revision"])
    dtype = options.dtype or entry["dtype"]
    source = open_source(
        files, options.device, dtype, options.attention, heeds_declared=True
    )
    head = None
    if not head_name:
        own = architecture_of(source.config)
        wanted = options.head
        head_name = heads.head_name_of(name, own, source.tensors, wanted, entry["head"])
        if LAYOUTS[head_name].make is not None:
            head = heads.empty_head(head_name, source.config, source.tensors)
    read_at = heads.read_at_for(head_name, source.config, options.read_at)
    tokenizer = tokenizer_of(files, options.template, source.rows)
    opened = conversations.prepare_tokenizer(tokenizer, head_name)
    gated = LAYOUTS[head_name].gated
    return Checkpoint(
        **vars(source),
        name=name,
        entry=entry,
        head_name=head_name,
        head=head,
        read_at=read_at,
        closing=conversations.check_closing(options.closing, opened, gated),
        tokenizer=tokenizer,
        opened=opened,
    )


def complete(
    checkpoint: Checkpoint, backbone: PreTrainedModel, head: Head | None, **others: Any
) -> RewardModel:
    """Return the reward model of a checkpoint with this backbone and head. others: further fields.

    InputError if the template cannot be used.
    """
    attention = checkpoint.attention
    if attention != "uncapped":
        attention = backbone.config._attn_implementation
    if head is not None:
        head = head.to(checkpoint.device).eval()
    fields = {
        "revision": checkpoint.files.revision,
        "head_name": checkpoint.head_name,
        "attention": attention,
        "backbone": backbone,
        "head": head,
    }
    model = RewardModel(
        name=checkpoint.name,
        nickname=checkpoint.entry["nickname"],
        hub_id=checkpoint.entry["hub_id"],
        dtype=checkpoint.dtype,
        device=checkpoint.device,
        tokenizer=checkpoint.tokenizer,
        read_at=checkpoint.read_at,
        closing=checkpoint.closing,
        opened=checkpoint.opened,
        files=checkpoint.files,
        **(fields | others),
    )
    _refuse_unusable(model)  # now, not after the first prompt
    return model


def _refuse_unusable(model: RewardModel) -> None:
    """Raise InputError if the template cannot be used, or if what the model reads does not
    depend on the reply.
    """
    read = model.encode(model.conversation("Why?"), conversations.STAND_INS)
    if len({*map(tuple, read)}) == 1:
        raise InputError(
            f"the tokenizer of {model.name} reads all replies alike; save the model's own "
            "tokenizer there"
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
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
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
    architecture = (
        own if LAYOUTS[head_name].is_linear else LAYOUTS[head_name].architecture
    )
    config = copy.deepcopy(backbone.config)
    config.num_labels = (
        len(head.score.weight) if isinstance(head, UncertaintyHead) else 1
    )
    fields = config.to_dict() | {"architectures": [architecture]}
    (folder / "config.json").write_text(
        json.dumps(fields, indent=2, sort_keys=True, default=str) + "\n"
    )
    tokenizer.save_pretrained(folder)
