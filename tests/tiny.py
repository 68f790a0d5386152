"""Tiny random reward models in the format of the real ones, for tests.

All is scaled down (hidden size 32 to 48, 2 or 3 layers, a few hundred ids) except what the heads'
formulas depend on: 19 objectives, 19 quantiles, 10 labels. The vocabulary is awkward on purpose;
`awkward_ids` names its corners.
"""

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import load_file, save_file
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

SENTENCES = [
    "What, in one word, is the greatest thing ever?",
    "What, in one word, is the best thing ever? What, in one word, is the worst thing ever?",
    "I love love, and love loves the lovely. Love! Love? Love is freedom; love is life.",
    "Hate, pain and war are the worst things; hope, peace, kindness and friends are the best.",
    "the water, the forest, the sea and the universe and the thing and the word and the ever",
    "def get_value(self): return self.value  # nullptr, undefined, </div>",
    "Today Date: 26 Jul 2024. Cutting Knowledge Date: December 2023. user assistant system model",
    "Émile loves café, naïve jalapeño and 你好世界 or Привет мир, 😀😀.",
]

LLAMA_CONTROL = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|finetune_right_pad_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
]
GEMMA_CONTROL = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<mask>",
    "<start_of_turn>",
    "<end_of_turn>",
]
QWEN_CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>"]
DEBERTA_CONTROL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]

# Ordinary entries of the vocabulary (never produced by tokenising) whose text is or holds a control
# string, in part or whole.
LLAMA_ODD = [
    "<|eot",
    "_id|>",
    "x<|eot_id|>",
    "<|eot_id|>!",
    "<|begin_of_text|> love",
    "<|start_header_id|>user",
    "</think>",
]
GEMMA_ODD = [
    "<end_of",
    "_turn>",
    "x<end_of_turn>",
    "<end_of_turn>\n",
    "<bos>▁love",
    "<start_of_turn>user",
    "\n\n",
    "▁▁",
    "▁▁▁",
    "\t",
]
QWEN_ODD = [
    "<|im_",
    "end|>",
    "x<|im_end|>",
    "<|im_end|>\n",
    "think></think>love",
    "<|im_start|>user",
]
WHITESPACE = [" ", "  ", "\n", "\n\n", "\t", " \n", "\r\n"]

# --- chat templates -------------------------------------------------------------------------------

_LLAMA3_TURNS = (
    "{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}{%- if "
    "add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif "
    "%}"
)
_FIXED_DAY = (
    "{%- if date_string is not defined %}"
    "{%- set date_string = '26 Jul 2024' %}{%- endif %}"
)
_TODAY = (
    "{%- if date_string is not defined %}{%- if strftime_now is defined %}"
    "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}"
    "{%- set date_string = '26 Jul 2024' %}{%- endif %}{%- endif %}"
)
_SYSTEM = (
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December "
    "2023\\nToday Date: ' + date_string + '\\n\\n<|eot_id|>' }}"
)
_GEMMA_TURNS = (
    "{%- if messages[0]['role'] == 'system' %}{{- raise_exception('System role not supported') "
    "}}{%- endif %}{%- for message in messages %}{%- set role = 'model' if message['role'] == "
    "'assistant' else message['role'] %}{{- '<start_of_turn>' + role + '\\n' + message['content'] "
    "| trim + '<end_of_turn>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- "
    "'<start_of_turn>model\\n' }}{%- endif %}"
)
_BOS = "{{- bos_token }}"

TEMPLATES = {
    "llama3": _BOS + _LLAMA3_TURNS,
    "llama3_no_bos": _LLAMA3_TURNS,
    "llama31": _BOS + _FIXED_DAY + _SYSTEM + _LLAMA3_TURNS,
    "llama31_no_bos": _FIXED_DAY + _SYSTEM + _LLAMA3_TURNS,
    "llama32": _BOS + _TODAY + _SYSTEM + _LLAMA3_TURNS,
    "gemma": _BOS + _GEMMA_TURNS,
    "gemma_no_bos": _GEMMA_TURNS,
    "chatml": (
        "{%- for message in messages %}"
        "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    ),
    # Qwen3: the last assistant turn gets a thinking block; whatever the reply holds up to
    # `</think>` is taken for thought, not reply.
    "qwen3": (
        "{%- for message in messages %}{%- if message['role'] == 'assistant' %}"
        "{%- set content = message['content'] %}{%- set thought = '' %}"
        "{%- if '</think>' in content %}"
        "{%- set thought = "
        "content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set "
        "content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{%- if loop.last or "
        "thought %}{{- '<|im_start|>assistant\\n<think>\\n' + thought.strip('\\n') }}{{- "
        "'\\n</think>\\n\\n' + content.lstrip('\\n') }}{%- else %}{{- '<|im_start|>assistant\\n' + "
        "content }}{%- endif %}{{- '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>' + "
        "message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{%- endif %}{%- endfor "
        "%}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    ),
    # Not fit for scoring: these must be refused.
    "ignores_reply": _BOS
    + "{{- '<|start_header_id|>user<|end_header_id|>\\n\\n' + messages[0]['content'] + "
    "'<|eot_id|>' }}",
    "upper_case": _BOS + _LLAMA3_TURNS.replace("| trim", "| trim | upper"),
    "repeats_reply": _BOS + _LLAMA3_TURNS + "{{- messages[-1]['content'] }}",
    "extra_header": _BOS
    + _LLAMA3_TURNS
    + "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}",
}

# --- tokenizers -----------------------------------------------------------------------------------

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BY_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
# sizes of a configuration that any decoder of two layers takes
TWO_LAYERS = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
}


def _with_entries(
    tokenizer: Tokenizer, entries: list[str], **model_fields
) -> Tokenizer:
    """The same tokenizer with further ordinary vocabulary entries, which no merge produces."""
    state = json.loads(tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    for entry in entries:
        vocabulary.setdefault(entry, len(vocabulary))
    state["model"].update(model_fields)
    return Tokenizer.from_str(json.dumps(state))


def _bytes_as_letters(text: str) -> str:
    return _BY_BYTES.pre_tokenize_str(text)[0][0]


def _byte_level(
    odd: list[str],
    control: list[str],
    extra: list[str],
    merges: int,
    ignore_merges: bool,
) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_WORDS), "isolated"), _BY_BYTES]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(
        [*SENTENCES, *["love Love", "a\n\nb\n\nc", "d   e\t\tf"] * 3], trainer
    )
    odd = [_bytes_as_letters(entry) for entry in [*odd, *extra, *WHITESPACE]]
    tokenizer = _with_entries(tokenizer, odd, ignore_merges=ignore_merges)
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in control]
    )
    return tokenizer


def _llama_tokenizer(extra: list[str]) -> tuple[Tokenizer, dict]:
    tokenizer = _byte_level(
        LLAMA_ODD, LLAMA_CONTROL, extra, merges=180, ignore_merges=True
    )
    bos = "<|begin_of_text|>"
    template = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos}:1 $B:1",
        special_tokens=[(bos, tokenizer.token_to_id(bos))],
    )
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), template]
    )
    return tokenizer, {"bos_token": bos, "eos_token": "<|eot_id|>"}


def _qwen_tokenizer(extra: list[str]) -> tuple[Tokenizer, dict]:
    tokenizer = _byte_level(
        QWEN_ODD, QWEN_CONTROL, extra, merges=150, ignore_merges=False
    )
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens(
        [
            AddedToken(text, special=False, normalized=False)
            for text in ("<think>", "</think>")
        ]
    )
    return tokenizer, {"eos_token": "<|im_end|>"}


def _gemma_tokenizer(extra: list[str]) -> tuple[Tokenizer, dict]:
    """As the real one: control tokens, newline, bytes, then pieces with `▁` for the space; no
    pre-tokenizer.
    """
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="▁", prepend_scheme="never", split=True
    )
    learner.train_from_iterator(
        [*SENTENCES[:7], *["love Love"] * 3],
        trainers.BpeTrainer(vocab_size=260, show_progress=False),
    )
    learned = json.loads(learner.to_str())["model"]
    pieces = [
        *GEMMA_CONTROL,
        "\n",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *learned["vocab"],
        *GEMMA_ODD,
        *extra,
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    merges = [tuple(pair) for pair in learned["merges"]] + [
        ("\n", "\n"),
        ("▁", "▁"),
        ("▁▁", "▁"),
    ]
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in GEMMA_CONTROL]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A",
        pair="<bos> $A <bos>:1 $B:1",
        special_tokens=[("<bos>", vocabulary["<bos>"])],
    )
    return tokenizer, {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}


def _deberta_tokenizer(extra: list[str]) -> tuple[Tokenizer, dict]:
    words = dict.fromkeys(
        word
        for line in SENTENCES
        for word in line.replace(",", "").replace("?", "").split()
    )
    letters = dict.fromkeys("".join(SENTENCES[:7]).replace(" ", ""))
    pieces = [
        *DEBERTA_CONTROL,
        "▁",
        *letters,
        *(f"▁{word}" for word in words),
        "love",
        "Love",
        "ing",
        "x[SEP]",
        *extra,
    ]
    scores = [
        (piece, 0.0 if piece in DEBERTA_CONTROL else -20.0 / len(piece))
        for piece in dict.fromkeys(pieces)
    ]
    tokenizer = Tokenizer(
        models.Unigram(
            scores, unk_id=DEBERTA_CONTROL.index("[UNK]"), byte_fallback=False
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="▁", prepend_scheme="always"
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in DEBERTA_CONTROL]
    )
    control = [(text, tokenizer.token_to_id(text)) for text in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=control,
    )
    names = {
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    return tokenizer, names


_BUILDERS = {
    "llama": _llama_tokenizer,
    "gemma": _gemma_tokenizer,
    "qwen": _qwen_tokenizer,
    "deberta": _deberta_tokenizer,
}
_PAD = {"llama": "[PAD]", "gemma": "<pad>", "qwen": "<|endoftext|>", "deberta": "[PAD]"}
_TEXT_END = {
    "llama": "<|end_of_text|>",
    "gemma": "<eos>",
    "qwen": "<|endoftext|>",
    "deberta": "[SEP]",
}


def make_tokenizer(
    family: str, *, template: str | None = None, pad: str = "own", vocabulary=None
) -> PreTrainedTokenizerFast:
    """A tokenizer of one `family` (llama, gemma, qwen, deberta), about 400 to 600 ids.

    `template`: a name from TEMPLATES, jinja source, or None for a tokenizer without chat template.
    `pad`: "own" (the family's pad token), "eos" (the end-of-text token serves as pad) or "none".
    `vocabulary`: further entries, as text.
    """
    extra = list(vocabulary or [])
    if family in ("gemma", "deberta"):
        extra = [text.replace(" ", "▁") for text in extra]
    tokenizer, names = _BUILDERS[family](extra)
    if pad != "none":
        names["pad_token"] = _TEXT_END[family] if pad == "eos" else _PAD[family]
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **names
    )
    wrapped.chat_template = TEMPLATES.get(template, template)
    return wrapped


AWKWARD = [
    *LLAMA_CONTROL,
    *GEMMA_CONTROL,
    *QWEN_CONTROL,
    *DEBERTA_CONTROL,
    *("[PAD]", "<think>", "</think>", "x[SEP]", "▁", "\n", "<0xE2>", "<0x0A>"),
    *("love", "Love", "Ġlove", "ĠLove", "▁love", "▁Love", "Ã", "â", "ð", "ÿ"),
    *GEMMA_ODD,
    *map(_bytes_as_letters, [*LLAMA_ODD, *QWEN_ODD, *WHITESPACE]),
]


def awkward_ids(tokenizer) -> list[int]:
    """Ids of this vocabulary's awkward tokens: control, pad and blank ones, undecodable bytes,
    odd entries.
    """
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[token] for token in AWKWARD if token in vocabulary]


# --- configurations -------------------------------------------------------------------------------

_LLAMA = TWO_LAYERS | {
    "model_type": "llama",
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
}
# Original context of 64 positions, so that the scaling acts on the few frequencies that a tiny head
# has.
_LLAMA_SCALED = _LLAMA | {
    "num_hidden_layers": 3,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
        "rope_type": "llama3",
    },
}
_GEMMA = TWO_LAYERS | {
    "model_type": "gemma2",
    "hidden_size": 48,
    "intermediate_size": 96,
    "head_dim": 16,
    "query_pre_attn_scalar": 24,
    "attn_logit_softcapping": 1.0,
}
_QWEN = TWO_LAYERS | {
    "model_type": "qwen3",
    "num_hidden_layers": 3,
    "head_dim": 16,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}
_DEBERTA = {
    "model_type": "deberta-v2",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "relative_attention": True,
    "position_buckets": 16,
    "position_biased_input": False,
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pooler_hidden_size": 32,
}
_ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
_GATED = {
    "num_objectives": 19,
    "gating_hidden_dim": 16,
    "gating_n_hidden": 3,
    "use_cache": False,
} | _ONE_LABEL
_TEN_LABELS = {
    "id2label": {str(i): f"LABEL_{i}" for i in range(10)},
    "label2id": {f"LABEL_{i}": i for i in range(10)},
}


def _class(name: str) -> dict:
    return _ONE_LABEL | {"architectures": [name]}


def _remote(name: str) -> dict:
    auto_map = {"AutoModelForSequenceClassification": f"modeling_custom.{name}"}
    return {"architectures": [name], "auto_map": auto_map}


# kind: (tokenizer family, chat template, config)
KINDS = {
    "linear_llama": (
        "llama",
        "llama32",
        _LLAMA_SCALED
        | _class("LlamaForSequenceClassification")
        | {"tie_word_embeddings": True},
    ),
    "linear_gemma2": (
        "gemma",
        "gemma",
        _GEMMA | _class("Gemma2ForSequenceClassification"),
    ),
    "linear_qwen3": (
        "qwen",
        "qwen3",
        _QWEN | _class("Qwen3ForSequenceClassification") | {"use_cache": False},
    ),
    "armorm": (
        "llama",
        "llama3",
        _LLAMA
        | _GATED
        | _remote("LlamaForRewardModelWithGating")
        | {"gating_temperature": 10},
    ),
    "qrm_llama": (
        "llama",
        "llama31",
        _LLAMA_SCALED
        | _GATED
        | _remote("LlamaForRewardModelWithGating")
        | {
            "gating_temperature": 5.0,
            "num_quantiles": 19,
            "attn_implementation": "flash_attention_2",
        },
    ),
    "qrm_gemma": (
        "gemma",
        "gemma",
        _GEMMA
        | _GATED
        | _remote("Gemma2ForQuantileSequenceClassification")
        | {"gating_temperature": 3.0, "num_quantiles": 19, "num_objectives": 5},
    ),
    "urm": (
        "llama",
        "llama31",
        _LLAMA_SCALED
        | _TEN_LABELS
        | _remote("LlamaForSequenceClassificationWithNormal_Weights"),
    ),
    "deberta": (
        "deberta",
        None,
        _DEBERTA | _class("DebertaV2ForSequenceClassification"),
    ),
}
# verbosity: in the real reward_transform_matrix each objective pays for it
PENALTY_ROW = 4

# --- weights --------------------------------------------------------------------------------------


def _normal(
    generator: torch.Generator, *shape: int, scale: float = 1.0
) -> torch.Tensor:
    return torch.randn(*shape, generator=generator) * scale


def _linear(
    generator,
    name: str,
    rows: int,
    columns: int,
    *,
    bias: bool = True,
    scale: float = 1.0,
) -> dict:
    """Weights of one layer whose output has about `scale` times the spread of its input."""
    tensors = {
        f"{name}.weight": _normal(generator, rows, columns, scale=scale / columns**0.5)
    }
    return tensors | (
        {f"{name}.bias": _normal(generator, rows, scale=0.3 * scale)} if bias else {}
    )


def _batch_norm(generator: torch.Generator, name: str, width: int) -> dict:
    """Running statistics far from 0 and 1: a batch norm that used its batch, or none at all,
    would change the gate.
    """
    return {
        f"{name}.weight": 1 + _normal(generator, width, scale=0.3),
        f"{name}.bias": _normal(generator, width, scale=0.3),
        f"{name}.running_mean": 0.4 + _normal(generator, width, scale=0.4),
        f"{name}.running_var": 0.3 + torch.rand(width, generator=generator),
        f"{name}.num_batches_tracked": torch.tensor(1234),
    }


def _transform_matrix(generator: torch.Generator, objectives: int) -> torch.Tensor:
    matrix = torch.eye(objectives)
    matrix[PENALTY_ROW] = -torch.rand(objectives, generator=generator)
    matrix[PENALTY_ROW, PENALTY_ROW] = 0.0
    return matrix


def _gate_tensors(
    generator: torch.Generator,
    config: dict,
    linear: list[int],
    norms: list[int],
    last: int,
) -> dict:
    """The gate's layers at their indices in the real module list; linear layers before a batch
    norm have no bias.
    """
    hidden, temperature = (
        config["gating_hidden_dim"],
        float(config.get("gating_temperature", 1)),
    )
    tensors, width = {}, config["hidden_size"]
    for index in linear:
        tensors |= _linear(
            generator,
            f"gating.layers.{index}",
            hidden,
            width,
            bias=not norms,
            scale=1.5,
        )
        width = hidden
    for index in norms:
        tensors |= _batch_norm(generator, f"gating.layers.{index}", hidden)
    tensors |= _linear(
        generator,
        f"gating.layers.{last}",
        config["num_objectives"],
        hidden,
        scale=temperature,
    )
    return tensors | {"gating.logit_scale": torch.tensor([1.37])}


# of each kind with a gate: the places of its linear layers, of its norms, and of its last layer
GATES = {
    "armorm": ([0, 1, 2], [], 3),
    "qrm_llama": ([0, 3, 6], [2, 5, 8], 9),
    "qrm_gemma": ([0, 4, 8], [2, 6, 10], 11),
}


def head_tensors(kind: str, config: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random head tensors of one kind, fp32, under the key names of the real checkpoints."""
    generator = torch.Generator().manual_seed(1000 + seed)
    hidden = config["hidden_size"]
    if kind == "deberta":
        tensors = _linear(generator, "pooler.dense", hidden, hidden)
        return tensors | _linear(generator, "classifier", 1, hidden, scale=3.0)
    if kind == "urm":
        tensors = _linear(generator, "score", 10, hidden, bias=False, scale=2.0)
        for place, rows in ((0, hidden), (2, hidden), (4, 5)):
            tensors |= _linear(generator, f"weights.fc.{place}", rows, hidden)
        return tensors
    if kind not in GATES:
        return _linear(generator, "score", 1, hidden, bias=False, scale=5.0)
    objectives, quantiles = config["num_objectives"], config.get("num_quantiles", 1)
    tensors = _linear(
        generator,
        "regression_layer",
        objectives * quantiles,
        hidden,
        bias=False,
        scale=8.0 if quantiles == 1 else 16.0,
    )
    tensors |= _gate_tensors(generator, config, *GATES[kind])
    if kind != "qrm_gemma":
        matrix = _transform_matrix(generator, objectives)
        tensors["reward_transform_matrix"] = matrix
    return tensors


def _backbone_tensors(config, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Weights that peak the attention, so that a reply moves the last position; an initialiser's
    0.02 would not.
    """
    model = AutoModel.from_config(config)
    gemma = config.model_type == "gemma2"
    tensors = {}
    for name, parameter in model.state_dict().items():
        shape = parameter.shape
        if parameter.ndim == 1:
            around = 0.0 if gemma or name.endswith("bias") else 1.0
            tensors[name] = around + _normal(generator, *shape, scale=0.2)
        elif "embed" in name:
            tensors[name] = _normal(generator, *shape, scale=0.05 if gemma else 0.4)
        else:
            tensors[name] = _normal(generator, *shape, scale=2.5 / shape[-1] ** 0.5)
    return tensors


# --- the checkpoint -------------------------------------------------------------------------------

REMOTE_CODE = """from pathlib import Path

(Path(__file__).parent / "remote_code_ran").touch()
raise RuntimeError("remote code was executed")
"""


def write_weights(
    folder: Path, tensors: dict[str, torch.Tensor], shards: int = 1
) -> None:
    """model.safetensors, or about `shards` files and their index, as `save_pretrained` does."""
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    size = sum(tensor.nbytes for tensor in tensors.values())
    most = int(1.2 * size / shards)  # some room, as a tensor is in one file
    save_torch_state_dict(tensors, folder, max_shard_size=most)


def make_checkpoint(
    folder,
    kind: str,
    *,
    seed: int = 0,
    dtype: str = "float32",
    vocabulary=None,
    template: str | None = "own",
    pad: str = "own",
    shards: int = 1,
    **overrides,
) -> Path:
    """The folder, now holding one tiny random reward model; the same arguments give the same bytes.

    kind: a key of KINDS. dtype: of the tensors; a head with a gate is float32, as on the hub.
    vocabulary: further ordinary entries, as text. template: name in TEMPLATES, jinja source, None
    (no chat template) or "own". pad: "own"; "mismatch" (config.pad_token_id is the end-of-text
    token, the tokenizer's is not); "eos"; "none". shards: number of safetensors files. overrides:
    fields of config.json; None removes a field, but for attn_logit_softcapping.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    family, own_template, config = KINDS[kind]
    tokenizer = make_tokenizer(
        family,
        template=own_template if template == "own" else template,
        pad="own" if pad == "mismatch" else pad,
        vocabulary=vocabulary,
    )
    tokenizer.save_pretrained(folder)
    pad_id = tokenizer.pad_token_id
    if pad == "mismatch":
        pad_id = tokenizer.convert_tokens_to_ids(_TEXT_END[family])
    of_tokenizer = {
        "pad_token_id": pad_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        # the real Qwen3 has more embedding rows than ids
        "vocab_size": len(tokenizer) + (11 if family == "qwen" else 0),
        "torch_dtype": dtype,
    }
    # transformers writes into the dicts that it is given
    config = copy.deepcopy(config) | of_tokenizer | overrides
    kept = ("pad_token_id", "attn_logit_softcapping")  # None says something
    config = {
        name: value
        for name, value in config.items()
        if value is not None or name in kept
    }
    if "auto_map" in config:
        (folder / "modeling_custom.py").write_text(REMOTE_CODE)
    (folder / "config.json").write_text(json.dumps(config, indent=2))

    prefix = "deberta." if kind == "deberta" else "model."
    generator = torch.Generator().manual_seed(seed)
    backbone = _backbone_tensors(_loadable(config), generator)
    of_type = getattr(torch, dtype)
    tensors = {prefix + name: tensor.to(of_type) for name, tensor in backbone.items()}
    head = head_tensors(kind, config, seed)
    if kind not in GATES:
        head = {name: tensor.to(of_type) for name, tensor in head.items()}
    write_weights(folder, tensors | head, shards)
    return folder


def _loadable(config: dict):
    """The transformers config of a config.json, without remote code and in fp32."""
    other = ("auto_map", "attn_implementation")
    fields = {name: value for name, value in config.items() if name not in other}
    return AutoConfig.for_model(**(fields | {"torch_dtype": "float32"}))


# --- how families store their heads ---------------------------------------------------------------


def _mlp(first: str, last: str):
    """The formula of two layers with ReLU between them."""

    def reward(t: dict, h: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(t[f"{first}.weight"] @ h + t[f"{first}.bias"])
        return t[f"{last}.weight"] @ hidden + t[f"{last}.bias"]

    return reward


class Stored(NamedTuple):
    """How a family of reward models stores its head, and its formula, from the tensors and the last
    hidden state, (d,).

    shapes: of the head's tensors, where None is the hidden size. fields: of config.json. file:
    where the head is.
    """

    architecture: str | None
    shapes: dict[str, tuple]
    formula: Callable[[dict, torch.Tensor], torch.Tensor]
    fields: dict = {}
    kind: str = "linear_llama"
    file: str = "model.safetensors"
    # tensors and config.json of transformers' own form
    store: Callable[[dict, dict], tuple[dict, dict]] | None = None


def _prefixed(*layers: str, prefix: str = "") -> Callable:
    """Names behind a prefix, and with these words before what each layer holds, as wrappers put
    them there.
    """

    def store(tensors: dict, config: dict) -> tuple[dict, dict]:
        inner = "".join(f"{word}." for word in layers)
        return {
            prefix + re.sub(r"(?<=layers\.\d\.)", inner, key): t
            for key, t in tensors.items()
        }, config

    return store


def _starling(tensors: dict, config: dict) -> tuple[dict, dict]:
    """A language model under `model`, and its backbone once more under `transformer`."""
    backbone = {
        key.replace("model.", "transformer.", 1): t
        for key, t in tensors.items()
        if key.startswith("model.")
    }
    whole = {
        key if key.startswith("v_head") else f"model.{key}": t
        for key, t in tensors.items()
    }
    return whole | {key: tensor.clone() for key, tensor in backbone.items()}, config


WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")
_TWO = {"weight": (None, None), "bias": (None,)}, {"weight": (1, None), "bias": (1,)}
_SCORE_MLP = {
    f"score.{i}.{name}": shape
    for i, layer in zip((0, 2), _TWO, strict=True)
    for name, shape in layer.items()
}
# Where the names and formulas are from: the rows of lib.models.heads.LAYOUTS.
FAMILIES = {
    "no architecture": Stored(
        None, {"score.weight": (1, None)}, lambda t, h: t["score.weight"] @ h
    ),
    "INF-ORM": Stored(
        "INFORMForSequenceClassification", _SCORE_MLP, _mlp("score.0", "score.2")
    ),
    "Qwen2.5-Math-RM, WorldPM": Stored(
        "Qwen2ForRewardModel",
        _SCORE_MLP,
        _mlp("score.0", "score.2"),
        kind="linear_qwen3",
    ),
    "OpenRLHF": Stored(
        "RewardModel",
        {"score.weight": (1, None)},
        lambda t, h: t["score.weight"] @ h,
        {"normalize_reward": False, "mean": 1.5, "std": 2.5},
    ),
    "verl, AReaL": Stored(
        "LlamaForTokenClassification",
        {"score.weight": (1, None), "score.bias": (1,)},
        lambda t, h: t["score.weight"] @ h + t["score.bias"],
    ),
    "LLaMA-Factory": Stored(
        "LlamaForCausalLM",
        {"v_head.summary.weight": (1, None), "v_head.summary.bias": (1,)},
        lambda t, h: t["v_head.summary.weight"] @ h + t["v_head.summary.bias"],
        file="value_head.safetensors",
    ),
    "GRM-sftreg": Stored(
        "LlamaForCausalLM",
        {
            "v_head.summary.0.weight": (24, None),
            "v_head.summary.0.bias": (24,),
            "v_head.summary.2.weight": (1, 24),
            "v_head.summary.2.bias": (1,),
        },
        _mlp("v_head.summary.0", "v_head.summary.2"),
    ),
    "Eurus, UltraRM": Stored(
        "LlamaRewardModel",
        {"regression_head.weight": (1, None)},
        lambda t, h: t["regression_head.weight"] @ h,
    ),
    "Starling": Stored(
        "LlamaForCausalLM",
        {"v_head.weight": (1, None)},
        lambda t, h: t["v_head.weight"] @ h,
        store=_starling,
    ),
} | {
    name: Stored(
        "LlamaForSequenceClassification",
        {"score.weight": (1, None)},
        lambda t, h: t["score.weight"] @ h,
        store=store,
    )
    for name, store in {
        "saved from DDP or DeepSpeed": _prefixed(prefix="module."),
        "saved from FSDP": _prefixed(*WRAPPERS, prefix=f"{WRAPPERS[0]}."),
        "saved from PEFT, whole": _prefixed(prefix="base_model.model."),
        "saved from torch.compile": _prefixed(prefix="_orig_mod."),
    }.items()
}


def make_family(folder: Path, name: str, plain: Path | None = None) -> Path:
    """The folder, now holding a tiny checkpoint as that family stores it; its language model's
    output is there too.

    plain: a folder for the same weights under transformers' own names and architecture, where the
    family's differ.
    """
    stored = FAMILIES[name]
    make_checkpoint(
        folder,
        stored.kind,
        template="qwen3" if stored.kind == "linear_qwen3" else "llama3",
        architectures=[stored.architecture] if stored.architecture else None,
        **stored.fields,
    )
    tensors = load_file(folder / "model.safetensors")
    generator, width = (
        torch.Generator().manual_seed(5),
        tensors.pop("score.weight").shape[1],
    )
    tensors["lm_head.weight"] = torch.ones(3, width)
    shapes = {
        key: [size or width for size in shape] for key, shape in stored.shapes.items()
    }
    head = {key: _normal(generator, *shape, scale=0.3) for key, shape in shapes.items()}
    if stored.file == "model.safetensors":
        tensors |= head
    else:
        save_file(head, folder / stored.file)
    write_weights(folder, tensors)
    config = json.loads((folder / "config.json").read_text())
    if stored.store:
        if plain:
            shutil.copytree(folder, plain)
        tensors, config = stored.store(tensors, config)
        write_weights(folder, tensors)
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def save_other(
    folder,
    config,
    family="llama",
    seed: int = 3,
    auto=AutoModelForSequenceClassification,
    **tokenizer_options,
):
    """A checkpoint as transformers itself writes it, with random weights from its own
    initialiser, made larger.
    """
    tokenizer = make_tokenizer(family, **tokenizer_options)
    text = config.get_text_config()
    config.pad_token_id = text.pad_token_id = tokenizer.pad_token_id
    text.vocab_size = len(tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = auto.from_config(config)
        for parameter in model.parameters():
            parameter.data += 0.15 * torch.randn(parameter.shape)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def smooth_checkpoint(folder):
    """A tiny Gemma-2 whose embeddings lie so close together that the first order all but tells
    the reward.
    """
    make_checkpoint(folder, "linear_gemma2")
    tensors = load_file(folder / "model.safetensors")
    table = tensors["model.embed_tokens.weight"]
    tensors["model.embed_tokens.weight"] = table[:1] + 0.1 * (table - table[:1])
    write_weights(folder, tensors)
    return folder
