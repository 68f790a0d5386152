"""Reward models, loaded and saved: a transformers backbone and a head (lib/models/heads.py).

Weights come from safetensors, by key. Facts about the ten models of the paper are in
data/reward_models.csv.
"""

import contextlib
import copy
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import nn
from tqdm import tqdm
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from .. import InputError
from ..io import INVISIBLE, as_typed
from ..tables import registry
from ..tables.imports import read_text
from . import checkpoints, conversations, layers, served, tokenizers
from .conversations import Conversation, Inputs, OpenedTurn
from .files import Files, open_tensors, refusing, tensor_files
from .heads import (
    LAYOUTS,
    OUTPUTS,
    READ_AT,
    Head,
    UncertaintyHead,
    layout_of,
    new_head,
    own_name,
    tensors_of_head,
)
from .layers import Layers

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight")
# INF-ORM's: two linear layers with ReLU between them, named score.
TWO_LAYERS = "INFORMForSequenceClassification"
# of logits, in config.json
SCALES = ("logit_scale", "logits_scaling", "lm_head_multiplier", "logits_soft_cap")
# What a template writes about "Why?" and "life" that was copied with what was around it, or with
# escapes for newlines and brackets. A quote is meant if both texts stand in it: a template may well
# write each of them within quotes.
WRAPPED = re.compile(
    r"""\A\s*```|```\s*\Z|\\n|&(lt|gt|quot);|\A\s*(<!doctype|<html|\w+\s*[:=]\s*[|>]|
    (['"]?\w+['"]?\s*[:=]\s*)?[rfbu]?(?P<quote>\"{3}|'{3}|['"])(\\.|(?!(?P=quote)).)*Why(\\.|(?!(?P=quote)).)*life)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)

_CUT: set[tuple[str, str]] = set()  # models of which was printed that their template cuts replies

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
    - packed: whether replies are packed into rows (scoring.packed), and compiled: whether parts are
      compiled for this
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
    layers: Layers | None = None
    files: Files | None = None
    packed: bool = False
    compiled: bool | None = None

    @property
    def after_reply(self) -> OpenedTurn | None:
        """Return the turn that is opened after each reply, if the model reads it."""
        return self.opened if self.closing == "rendered" else None

    @property
    def pad_token_id(self) -> int | None:
        return pad_token_id(self.backbone.config)

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
        return self.head_name in LAYOUTS and LAYOUTS[self.head_name].gated  # no implicit head is

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
        if self.read_at == "last_not_pad" and conversation.closing_ids[-1:] == (self.pad_token_id,):
            sentences.append(
                "what closes a reply is the pad token, so rewards are read at the last token that "
                "is not pad, as transformers does; READ_AT=last reads them at the closing token"
            )
        if self.after_reply:
            sentences.append(
                "its template opens another turn after the reply, and is scored as rendered; "
                "CLOSING=trim ends where the reply's turn ends"
            )
        return sentences

    def encode(self, conversation: Conversation, replies: Sequence[str]) -> list[list[int]]:
        """Return the whole model input for each reply, as conversations.encode does."""
        after = self.after_reply.ids if self.after_reply else ()
        return [
            [*ids, *after] for ids in conversations.encode(self.tokenizer, conversation, replies)
        ]

    def inputs_for(
        self, prompt: str, replies: Sequence, *, reply_mode: str = "text", bos: str = "single"
    ) -> Inputs:
        """Return what the model reads for these replies, as conversations.inputs_for does."""
        inputs = conversations.inputs_for(
            self.tokenizer, prompt, replies, reply_mode=reply_mode, bos=bos, gated=self.gated
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
        if self.gated and any(
            turn["role"] != "system" for turns in contexts for turn in turns[:-1]
        ):
            raise InputError(
                f"the gate of {self.name} reads where the user's one turn ends; give the last turn "
                "alone"
            )
        if not self.tokenizer.chat_template and any(len(turns) > 1 for turns in contexts):
            raise InputError(
                f"{self.name} reads pairs of a prompt and a reply; give no system or earlier turns"
            )
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
      "yes,no" reads a judge: the logit of the token "yes" as the next one, less that of "no"; one
      token alone is its logit.
    - read_at: "last" token or "last_not_pad". None takes the rule of the checkpoint's own class.
    - closing: "rendered" (as None) or "trim", if the template opens another turn after the reply
    - label: which output of a classifier is the reward, from 0. None if it has one output.
    - template: a file with another chat template
    - revision: on the hub. None takes the registry's, then the newest.
    - base: of an adapter, the folder or hub id of its base. None takes what its configuration
      names.
    - tokenizer: of a served model, the folder with its tokenizer and template. None takes what the
      server names.
    - stream: True leaves the weights in their files and reads them layer by layer, once for all
      replies that are scored together. None does so if they fit neither into device and host nor on
      all cards of the machine.
    - packed: True packs replies into rows under one mask, which is meant for a GPU (see
      scoring.packed).
    - compiled: whether norms, MLPs and rotary embeddings are compiled where replies are packed.
      None does so on cuda.
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
    packed: bool | None = None
    compiled: bool | None = None


def load(name: str | Path, options: Options | None = None, **given: Any) -> RewardModel:
    """Return the reward model of that nickname, hub id, folder or server (http://host:port), ready
    to score.

    Single options may also be given by name, as in `load(name, device="cpu")`. InputError, in one
    line with the remedy, if the model does not exist, is not open, or is no reward model.
    """
    name, options = str(name), replace(options or Options(), **given)
    if registry.is_served(name):
        return _load_served(name, options)
    if options.tokenizer is not None:
        raise InputError("'tokenizer' is for a served model, http://host:port; leave tokenizer out")
    entry = find(name)
    files = checkpoints.open_files(
        entry["hub_id"], options.revision or entry["revision"], base=options.base
    )
    folder, device = files.folder, checkpoints.device_for(options.device)
    config, keys = checkpoints.config_of(folder), tensor_files(folder)
    dtype = checkpoints.dtype_for(options.dtype or entry["dtype"], device, config)
    wanted = options.head or entry["head"]
    tokens = wanted if wanted == "next_token" or wanted not in LAYOUTS else ""
    head_name = (
        "next_token" if tokens else head_name_of(name, config, keys, options.head, entry["head"])
    )
    attention = checkpoints.set_attention(
        config, options.attention or _declared(name, folder, config)
    )
    read_at = read_at_for(head_name, config, options.read_at)
    tokenizer, opened = tokenizer_for(folder, head_name, options.template)
    closing = conversations.check_closing(options.closing, opened, LAYOUTS[head_name].gated)
    used = replace(options, device=device, dtype=dtype, attention=attention, head=head_name)
    head = _token_head(folder, config, keys, tokenizer, tokens) if tokens else None
    if tokens:
        _row_of(1, options.label, f"HEAD={tokens}", config)  # refuses a label
    backbone, head, in_files = _load_weights(files, config, keys, used, head)
    tokenizers.refuse_larger_tokenizer(
        folder, tokenizer, len(backbone.get_input_embeddings().weight)
    )
    if attention != "uncapped":
        attention = backbone.config._attn_implementation
    revision = files.revision + (f" head {tokens}" if tokens else "")
    revision += "" if options.label is None else f" label {options.label}"
    model = RewardModel(
        name,
        entry["nickname"],
        entry["hub_id"],
        revision,
        head_name,
        dtype,
        attention,
        device,
        tokenizer,
        backbone,
        head and head.to(device).eval(),
        read_at,
        closing,
        opened,
        in_files,
        files,
        bool(options.packed),
        options.compiled,
    )
    _refuse_unusable(model)  # now, not after the first prompt
    files.refuse_changed()
    return model


def _declared(name: str, folder: Path, config: PreTrainedConfig) -> str | None:
    """Return the way of attention that the checkpoint declares where it is not the usual one; a
    printed line says so.

    None if it declares none, or the usual one. "sdpa" drops soft-capping, and is called "uncapped"
    here.
    """
    usual, declared = checkpoints.usual_attention(config), checkpoints.declared_attention(folder)
    if declared in (None, usual) or declared == "sdpa" and not checkpoints.soft_caps(config):
        return None
    tqdm.write(
        as_typed(
            f"{name}: its config.json declares attention {declared!r}, which counts here; "
            f"ATTENTION={usual} is usual for this architecture"
        )
    )
    return "uncapped" if declared == "sdpa" else declared


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


def _load_served(url: str, options: Options) -> RewardModel:
    """Return the reward model that a server serves. InputError for options that the server has
    decided.
    """
    decided = [
        name
        for name, value in vars(options).items()
        if value is not None and name not in served.OPTIONS
    ]
    if decided:
        name = decided[0].replace("_", "-")
        raise InputError(
            f"'{name}' is for models that are loaded here, and {url} is a server; leave {name} out"
        )
    server = served.Server(find(url)["hub_id"])
    files = server.files(options.tokenizer)
    tokenizer, opened = tokenizer_for(files.folder, "linear", options.template)
    closing = conversations.check_closing(options.closing, opened, False)
    server.refuse_other_tokens(tokenizer, opened, options.template is None)
    model = RewardModel(
        url,
        find(url)["nickname"],
        server.url,
        f"{server.revision} {files.revision}",
        "linear",
        "the server's dtype",
        "served",
        "cpu",
        tokenizer,
        cast(PreTrainedModel, server),
        None,
        "last",
        closing,
        opened,
        None,
        files,
    )
    server.refuse_squashed(
        [model.encode(model.conversation(asked), [reply])[0] for asked, reply in served.PROBES]
    )
    return model


def find(name: str) -> dict:
    """Return the registry's row for a nickname, hub id or folder (see registry.find_in)."""
    return registry.find_in(registry.reward_models(), name, "reward model")


def head_name_of(
    name: str, config: PreTrainedConfig, keys: Iterable[str], wanted: str | None, expected: str
) -> str:
    """Return the name in LAYOUTS of the head of a checkpoint with these tensors, or the supported
    other reading.

    wanted: None takes the checkpoint's own. expected: the registry's, "" for any. InputError if
    they do not fit.
    """
    architecture = checkpoints.architecture_of(config)
    head_name = wanted or layout_of(architecture, keys)
    if head_name is None:
        what = (
            "no reward model that is known here; give one with a head that docs/own-models.md "
            "lists, or score texts elsewhere (python -m lib.run export)"
        )
        if architecture.endswith("ForCausalLM"):
            what = (
                "a language model; if it is a judge or process reward model, name the tokens that "
                "it answers with: HEAD=yes,no; if it was trained by DPO, name the model before: "
                "REFERENCE=model; else score texts elsewhere (python -m lib.run export)"
            )
        raise InputError(f"architecture {architecture} without a head of one reward is {what}")
    if expected and head_name not in (expected, "urm_helpfulness"):
        raise InputError(
            f"{name}: the checkpoint is a {architecture} with head {head_name}, but "
            f"data/reward_models.csv says {expected}; correct the row or the revision"
        )
    if head_name == "urm_helpfulness" and architecture != LAYOUTS["urm"].architecture:
        raise InputError(f"{name}: head 'urm_helpfulness' reads URM only; leave head out")
    return head_name


def pad_token_id(config: PreTrainedConfig) -> int | None:
    """Return the id of the padding token as transformers' classes for decoders look it up; None
    if there is none.
    """
    return getattr(config.get_text_config(), "pad_token_id", None)


def read_at_for(head_name: str, config: PreTrainedConfig, wanted: str | None = None) -> str:
    """Return where a model with this head reads a conversation: "last", "last_not_pad" or "pooled".

    `wanted` is one of READ_AT, or None for the rule that the checkpoint was trained with.
    InputError for a rule that the model cannot follow.
    """
    if wanted is not None and (wanted not in READ_AT or head_name == "classifier"):
        raise InputError(
            f"read_at must be 'last' or 'last_not_pad', and left out for an encoder, not {wanted!r}"
        )
    if wanted == "last_not_pad" and pad_token_id(config) is None:
        raise InputError(
            "read_at 'last_not_pad' needs a pad_token_id in config.json; name one there, or say "
            "'last'"
        )
    if wanted is not None or head_name == "classifier":
        return wanted or "pooled"
    # transformers' classes for decoders with one linear head take the rightmost token that is not
    # pad, in padded and in unpadded input alike. The code of gated heads takes the token before the
    # first pad; where the conversation itself holds a pad token, it would not see the reply at all.
    return LAYOUTS[head_name].reads if pad_token_id(config) is not None else "last"


def tokenizer_for(
    folder: Path, head_name: str, template: str | Path | None = None
) -> tuple[PreTrainedTokenizerBase, OpenedTurn | None]:
    """Return the checkpoint's tokenizer as conversations need it, and the turn that its template
    opens after a reply.

    `template` is a file with another chat template. InputError if the tokenizer lacks what the head
    needs.
    """
    tokenizer = tokenizers.tokenizer_of(folder)
    if template is not None:
        tokenizer.chat_template = read_template(Path(template))
        if tokenizer.chat_template and WRAPPED.search(
            conversations.render(tokenizer, "Why?", ["life"])[0]
        ):
            raise InputError(
                f"{template} cannot be read: it is quoted, escaped or part of another file; take "
                "it out"
            )
    if head_name == "classifier":
        if tokenizer.pad_token_id is None:
            raise InputError(
                f"{folder}: the tokenizer has no pad token, which an encoder needs; name one there"
            )
        return tokenizer, None
    if not tokenizer.chat_template:
        raise InputError(
            f"{folder}: the tokenizer has no chat template; name a file with the one that the "
            "reward model was trained with: TEMPLATE=file, or save it beside as chat_template.jinja"
        )
    opened = conversations.leave_out_opened_turn(tokenizer, judges=head_name == "next_token")
    if name := LAYOUTS[head_name].adds:
        token = getattr(tokenizer, name)
        if token is None:
            raise InputError(
                f"{folder}: the tokenizer names no {name}, where rewards are read; save the "
                "model's own"
            )
        conversations.change_rendered(tokenizer, lambda text: text + token)
    return tokenizer, opened


def read_template(file: Path) -> str:
    """Return the chat template in a text file, without a byte order mark. InputError for what is
    no plain template.
    """
    with refusing(
        f"the chat template {file} cannot be read",
        "give a text file (jinja)",
        (OSError, ValueError),
    ):
        template = read_text(file)
        seen = re.sub(r"(?<=[^\x00-\x7f])\ufe0f", "", template)  # without what colours an emoji
        if odd := next(
            (c for c in seen if c in INVISIBLE or not (c.isprintable() or c in "\n\r\t")), ""
        ):
            line = seen[: seen.index(odd)].count("\n") + 1
            raise ValueError(
                f"line {line} holds {odd!a}, which is not seen: take it out, or write {{{{ {odd!a} "
                "}}"
            )
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            json.loads(template, strict=False)
            raise ValueError("it is JSON; take the template out of it")
    return template


def _load_weights(
    files: Files,
    config: PreTrainedConfig,
    keys: dict[str, Path],
    options: Options,
    head: Head | None = None,
) -> tuple[PreTrainedModel, Head | None, Layers | None]:
    """Return backbone and head: over all cards, with layers left in their files, or whole on the
    device.

    The options are those given to `load`, with device, dtype, attention and head decided. `head`:
    one that is loaded.
    """
    folder, label = files.folder, options.label
    head_name, dtype, attention, device = (
        options.head,
        options.dtype,
        options.attention,
        options.device,
    )
    assert head_name and dtype and attention and device
    if head_name == "classifier":
        # refuses to stream an encoder
        layers.are_wanted(options.stream, folder, config, head_name, dtype, device)
        row = _row_of(config.num_labels, label, "its classifier", config)
        model, report = checkpoints.from_safetensors(
            AutoModelForSequenceClassification, folder, config, dtype, None
        )
        checkpoints.refuse_unloaded(folder, report, report["unexpected_keys"])
        linear = [part for part in model.modules() if isinstance(part, nn.Linear)]
        # it gets one output
        last = [part for part in linear if part.out_features == config.num_labels][-1]
        last.weight = nn.Parameter(last.weight[row])
        last.bias = None if last.bias is None else nn.Parameter(last.bias[row])
        return checkpoints.ready(model, device), None, None
    head = head or load_head(folder, tensors_of_head(config, keys), config, head_name, label)
    free = {} if options.stream else layers.free_on_cards(device)
    layout = layers.layout(folder, config, head_name, dtype, free)
    if not layout and layers.are_wanted(options.stream, folder, config, head_name, dtype, device):
        backbone, in_files = layers.open_layers(files, config, keys, dtype, attention, device)
        return backbone, head, in_files
    backbone, report = checkpoints.from_safetensors(
        AutoModel, folder, config, dtype, attention, layout
    )
    prefix = f"{backbone.base_model_prefix}."  # what has none is the head's, and is checked there
    checkpoints.refuse_unloaded(
        folder, report, {key for key in report["unexpected_keys"] if key.startswith(prefix)}
    )
    return backbone.eval() if layout else checkpoints.ready(backbone, device), head, None


def _token_head(
    folder: Path,
    config: PreTrainedConfig,
    keys: dict[str, Path],
    tokenizer: PreTrainedTokenizerBase,
    tokens: str,
) -> Head:
    """Return the head that reads the logits of one or two tokens, named with a comma between, in
    fp32.

    InputError for names that are not one token each, and for a checkpoint without a language
    model's output matrix.
    """
    ids: list[int] = []
    for name in tokens.split(","):
        written = [
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (name, f" {name}")
            if name
        ]
        ids += next(
            (each for each in written if len(each) == 1 and each[0] != tokenizer.unk_token_id), [-1]
        )
    blanks = {name[:1].isspace() for name in tokens.split(",")}
    if -1 in ids or len(set(ids)) != len(ids) or len(ids) > 2 or len(blanks) > 1:
        raise InputError(
            f"head '{tokens}' does not name one or two tokens of {folder}; write HEAD=yes,no with "
            "words that are one token each, a blank before both or before none, or leave head out"
        )
    places = {f"lm_head.{key.rpartition('.')[2]}": key for key in keys if key.startswith(OUTPUTS)}
    if (
        not places
        and config.tie_word_embeddings
        and re.search("CausalLM|GPT2LM", checkpoints.architecture_of(config))
    ):
        places = dict(
            zip(["lm_head.weight"], (key for key in keys if key.endswith(EMBEDDINGS)), strict=False)
        )
    scaled = [name for name in SCALES if getattr(config, name, None) not in (None, 1)]
    if "lm_head.weight" not in places or config.is_encoder_decoder or scaled:
        problem = (
            f"scales its logits ({scaled[0]})"
            if scaled
            else "has no output matrix of a decoder (lm_head.weight)"
        )
        raise InputError(
            f"{folder} {problem}, so tokens' logits cannot be read here; leave head out"
        )
    tables = {name: open_tensors(keys[key]).get_slice(key) for name, key in places.items()}
    tokenizers.refuse_larger_tokenizer(folder, tokenizer, tables["lm_head.weight"].get_shape()[0])
    tensors = {
        name: torch.cat([table[i : i + 1] for i in ids]).float() for name, table in tables.items()
    }
    head = new_head("next_token", config, {name: tensor.shape for name, tensor in tensors.items()})
    head.load_state_dict(tensors)
    return head


def _row_of(outputs: int, label: int | None, what: str, config: PreTrainedConfig) -> slice:
    """Return which of a head's outputs is the reward. InputError if it does not exist or the
    user has to choose one.
    """
    architecture = checkpoints.architecture_of(config)
    problem = f"a reward model has one; say which one is the reward: LABEL=0 to LABEL={outputs - 1}"
    if not (is_classifier := re.fullmatch("none|.*ForSequenceClassification", architecture)):
        elsewhere = "score its texts elsewhere (python -m lib.run export)"
        problem = f"a {architecture} is no classifier with a label that is the reward; {elsewhere}"
    if outputs != 1 and (label is None or not is_classifier):
        raise InputError(f"the head has {outputs} outputs ({what}), and {problem}")
    if label is not None and not 0 <= label < outputs:
        raise InputError(
            f"label {label} is none of the head's {outputs} outputs ({what}), which count from 0"
        )
    return slice(label, None if label is None else label + 1)


def load_head(
    folder: Path,
    keys: dict[str, Path],
    config: PreTrainedConfig,
    head_name: str,
    label: int | None = None,
) -> Head:
    """Return the head whose tensors these files hold, in fp32. InputError if one is missing,
    misshapen or left over.

    label: which output of a linear head with several is the reward.
    """
    names = {
        own_name(head_name, key): key for key in keys if not key.endswith("num_batches_tracked")
    }
    tensors = {name: open_tensors(keys[key]).get_tensor(key).float() for name, key in names.items()}
    with checkpoints.built_from(folder):
        head = new_head(head_name, config, {name: tensor.shape for name, tensor in tensors.items()})
    expected = {k: v for k, v in head.state_dict().items() if not k.endswith("num_batches_tracked")}
    if LAYOUTS[head_name].is_linear:
        # the last layer, which alone may have several rows
        last = list(expected)[-1].rpartition(".")[0]
        for name in [f"{last}.weight", f"{last}.bias"]:
            if (
                name in tensors
                and name in expected
                and tensors[name].shape[1:] == expected[name].shape[1:]
            ):
                tensors[name] = tensors[name][
                    _row_of(len(tensors[name]), label, names[name], config)
                ]
    elif label is not None:
        raise InputError(
            f"a label is for classifiers with several, and head {head_name} has one; leave label "
            "out"
        )
    both = tensors.keys() & expected.keys()
    report = {
        "missing_keys": expected.keys() - tensors.keys(),
        "mismatched_keys": [
            names[name] for name in both if tensors[name].shape != expected[name].shape
        ],
    }
    extra = [names[name] for name in tensors.keys() - expected.keys()]
    checkpoints.refuse_unloaded(folder, report, extra, head_name)
    head.load_state_dict(tensors, strict=False)
    return head


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
        own = TWO_LAYERS  # for which transformers' own class, with one layer, would make up weights
    architecture = own if LAYOUTS[head_name].is_linear else LAYOUTS[head_name].architecture
    config = copy.deepcopy(backbone.config)
    config.num_labels = len(head.score.weight) if isinstance(head, UncertaintyHead) else 1
    fields = config.to_dict() | {"architectures": [architecture]}
    (folder / "config.json").write_text(
        json.dumps(fields, indent=2, sort_keys=True, default=str) + "\n"
    )
    tokenizer.save_pretrained(folder)
