"""Which formats of checkpoints are scored, and equally? Run: python -m benchmarks.formats

Newer architectures that transformers loads as sequence classifiers are made in a tiny size by their
own classes, with random weights, and saved by them. Other checkpoints are changed as trainers save
them. Each is opened as a user would open it, and scored by this library and by transformers' own
class, or by its head's formula. benchmarks/formats.md counts the outcomes. It takes ten minutes.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from benchmarks.scoring import table, write_report
from lib import InputError
from lib.apps.owner.opening import open_model, plain
from lib.scoring import engine

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import oracle
import tiny

PAGE = Path(__file__).with_suffix(".md")
PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "hope"]
EQUAL = 1e-5  # of the largest reward
LARGEST = 20_000_000  # parameters
OUTCOMES = ("scored equally", "scored otherwise", "refused in one line", "traceback")
# model types of transformers, since 2023
NEWER = (
    *("arcee", "axk1", "axk2", "cohere_compass_text", "deepseek_v2", "deepseek_v3"),
    *("diffllama", "doge", "eurobert", "exaone4", "falcon", "gemma", "gemma2"),
    *("gemma3_text", "glm", "glm4", "gpt_oss", "gte", "helium"),
    *("hunyuan_v1_dense", "hunyuan_v1_moe", "jamba", "jetmoe", "jina_embeddings_v3"),
    *("llama", "minicpm3", "minimax", "ministral", "ministral3", "mistral"),
    *("mistral4", "mixtral", "modernbert", "modernbert-decoder", "mpt", "nemotron"),
    *("nomic_bert", "olmo", "olmo2", "olmo3", "persimmon", "phi", "phi3", "phimoe"),
    *("qwen2", "qwen2_moe", "qwen3", "qwen3_5_text", "qwen3_moe"),
    *("qwen3_next", "seed_oss", "smollm3", "stablelm", "starcoder2"),
    *("ultrabert", "zamba2"),
)
ENCODERS = (
    *("eurobert", "gte", "jina_embeddings_v3", "modernbert", "nomic_bert"),
    "ultrabert",
)
# what makes a configuration tiny, under all names that architectures have for it
NAMES: dict[int, tuple[str, ...]] = {
    32: ("hidden_size", "d_model", "embedding_size"),
    2: (
        *("num_hidden_layers", "n_layers", "num_layers", "num_key_value_heads"),
        *("linear_num_key_heads", "num_experts_per_tok"),
    ),
    4: (
        *("num_attention_heads", "n_heads", "num_heads", "linear_num_value_heads"),
        *("num_experts", "num_local_experts", "n_routed_experts"),
    ),
    64: ("intermediate_size", "ffn_dim", "ffn_hidden_size"),
    8: (
        *("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"),
        *("linear_key_head_dim", "linear_value_head_dim"),
    ),
    16: (
        *("moe_intermediate_size", "q_lora_rank", "kv_lora_rank"),
        "shared_expert_intermediate_size",
    ),
    1: ("n_group", "topk_group"),
    512: ("max_position_embeddings",),
}
ROTARY = {"rope_type": "default", "rope_theta": 10000.0}
# fields that an architecture needs besides
FURTHER: dict[str, dict[str, Any]] = {
    "cohere_compass_text": {"rope_parameters": {"full_attention": ROTARY}},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "mistral4": {"head_dim": 16},
    "qwen3_5_text": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"]},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"]},
}


def tiny_config(kind: str) -> transformers.PreTrainedConfig:
    """Return a tiny configuration of an architecture."""
    made = CONFIG_MAPPING[kind]
    usual = made()
    sizes = {
        name: size
        for size, names in NAMES.items()
        for name in names
        if hasattr(usual, name) and not isinstance(getattr(made, name, 0), property)
    }
    if "kv_lora_rank" in sizes:  # each head has keys of its own
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    return made(**sizes | {"num_labels": 1} | FURTHER.get(kind, {}))


def make_architecture(kind: str, folder: Path) -> np.ndarray:
    """Write a tiny checkpoint of an architecture; return the rewards of REPLIES by its own class.

    Language models get a chat template, and encoders read the pair (prompt, reply).
    """
    is_encoder = kind in ENCODERS
    family, template = ("deberta", None) if is_encoder else ("llama", "llama3")
    config = tiny_config(kind)
    with torch.device("meta"):
        model = AutoModelForSequenceClassification.from_config(config)
    if model.num_parameters() > LARGEST:
        raise ValueError(f"{model.num_parameters():,} parameters are not tiny")
    tiny.save_other(folder, config, family, template=template)
    if getattr(config, "type_vocab_size", 0) > 1:
        return rewards_with_types(folder)
    return oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]


def rewards_with_types(folder: Path) -> np.ndarray:
    """Return the rewards of REPLIES by an encoder's own class, which reads the prompt and its end
    token as type 0, and the reply as type 1.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    first = len(tokenizer(PROMPT)["input_ids"])
    rows = oracle.input_ids(tokenizer, PROMPT, REPLIES)
    types = [[0] * first + [1] * (len(row) - first) for row in rows]
    with torch.no_grad():
        outputs = [
            model(torch.tensor([row]), token_type_ids=torch.tensor([kinds]))
            for row, kinds in zip(rows, types, strict=True)
        ]
    return np.array([output.logits.item() for output in outputs])


def outcome_of(make: Callable[[Path], np.ndarray]) -> dict[str, str]:
    """Return what becomes of a checkpoint that `make` writes into a folder, and how."""
    with tempfile.TemporaryDirectory() as name:
        plain.ROOT = Path(name)  # where converted weights are kept
        folder = Path(name) / "model"
        try:
            expected = make(folder)
        except Exception as error:
            return {"outcome": "not made", "how": _in_one_line(error)}
        try:
            model = open_model(folder, device="cpu", dtype="float32")
            scored = engine.score_replies(model, PROMPT, REPLIES)
        except InputError as error:
            line = str(error).replace(str(folder), "it").replace(name, "")
            return {"outcome": OUTCOMES[2], "how": line}
        except Exception as error:
            return {"outcome": OUTCOMES[3], "how": _in_one_line(error)}
    apart = np.abs(scored - expected).max() / np.abs(expected).max()
    how = f"as `{model.head_name}`, read at `{model.read_at}`"
    if apart <= EQUAL:
        return {"outcome": OUTCOMES[0], "how": how}
    return {"outcome": OUTCOMES[1], "how": f"{how}: {apart:.1g} of the largest reward"}


def _in_one_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


# --- as trainers save them ------------------------------------------------------------------------


def of_family(name: str) -> Callable[[Path], np.ndarray]:
    """Return what makes a checkpoint of a family of reward models; its rewards come from the
    formula of its head.
    """
    stored = tiny.FAMILIES[name]

    def make(folder: Path) -> np.ndarray:
        usual = folder.with_name("plain")
        tiny.make_family(folder, name, usual)
        read = usual if stored.store else folder
        tokenizer = AutoTokenizer.from_pretrained(read)
        added = [tokenizer.convert_tokens_to_ids(stored.adds)] if stored.adds else []
        ids = [row + added for row in oracle.input_ids(tokenizer, PROMPT, REPLIES)]
        states = oracle.hidden_states(read, ids)
        tensors = oracle.read_tensors(read)
        return np.array([float(stored.formula(tensors, rows[-1])) for rows in states])

    return make


def with_tensors(
    renamed: Callable[[str, Tensor], dict[str, Tensor]], shards: int = 1, **fields: Any
) -> Callable[[Path], np.ndarray]:
    """Return what makes a Llama of one output, and then changes its tensors and these fields of
    config.json.

    renamed: (name, tensor) -> the tensors that are saved in its place
    """

    def make(folder: Path) -> np.ndarray:
        tiny.make_checkpoint(folder, "linear_llama", shards=shards)
        expected = oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]
        for file in folder.glob("*.safetensors"):
            tensors: dict[str, Tensor] = {}
            for name, tensor in load_file(file).items():
                tensors |= renamed(name, tensor)
            save_file(tensors, file, metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | fields))
        return expected

    return make


def prefixed(prefix: str) -> Callable[[Path], np.ndarray]:
    """Return what makes a Llama whose tensors have a prefix, as a module around it saves them."""
    return with_tensors(lambda name, tensor: {prefix + name: tensor})


def head_named(name: str, **fields: Any) -> Callable[[Path], np.ndarray]:
    """Return what makes a Llama whose head has this name."""
    return with_tensors(
        lambda old, tensor: {name if old == "score.weight" else old: tensor}, **fields
    )


def as_pickle(nested: str = "") -> Callable[[Path], np.ndarray]:
    """Return what makes a Llama whose weights are saved by torch.save, perhaps in a dictionary."""

    def make(folder: Path) -> np.ndarray:
        expected = with_tensors(lambda name, tensor: {name: tensor})(folder)
        file = folder / "model.safetensors"
        tensors = load_file(file)
        saved = {nested: tensors, "step": 3} if nested else tensors
        torch.save(saved, folder / "pytorch_model.bin")
        file.unlink()
        return expected

    return make


def adapted(**settings: Any) -> Callable[[Path], np.ndarray]:
    """Return what makes a LoRA adapter of a Llama, as peft saves it."""

    def make(folder: Path) -> np.ndarray:
        base = folder.with_name("base")
        tiny.make_checkpoint(base, "linear_llama")
        plain_model = AutoModelForSequenceClassification.from_pretrained(base)
        usual = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"]}
        config = peft.LoraConfig(task_type="SEQ_CLS", **usual | settings)
        torch.manual_seed(1)
        model = peft.get_peft_model(plain_model, config).eval()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data += torch.randn(parameter.shape) / 8
        model.save_pretrained(folder)
        ids = oracle.input_ids(AutoTokenizer.from_pretrained(base), PROMPT, REPLIES)
        with torch.no_grad():
            rows = [model(input_ids=torch.tensor([row])).logits.item() for row in ids]
        return np.array(rows)

    return make


def with_untrained_head(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return a head beside the trained copy that counts; other tensors alone."""
    if name != "score.weight":
        return {name: tensor}
    trained = {"score.modules_to_save.default.weight": tensor}
    return {name: torch.zeros_like(tensor), **trained}


def kept(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return the tensor as it is."""
    return {name: tensor}


def emptied(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return a tensor as DeepSpeed's ZeRO-3 leaves it on one process."""
    return {name: tensor[:0] if "embed" in name else tensor}


def in_fp8(name: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return a layer's weights in 8 bits, without their scale."""
    return {name: tensor.to(torch.float8_e4m3fn) if "q_proj" in name else tensor}


LANGUAGE_MODEL = {"architectures": ["LlamaForCausalLM"]}
TRAINERS: dict[str, Callable[[Path], np.ndarray]] = {
    **{name: of_family(name) for name in tiny.FAMILIES},
    "three files with an index": with_tensors(kept, shards=3),
    "pickled": as_pickle(),
    "pickled in a dictionary": as_pickle("model_state_dict"),
    "DistributedDataParallel": prefixed("module."),
    "torch.compile": prefixed("_orig_mod."),
    "a module named model around it": prefixed("model."),
    "peft, not merged": prefixed("base_model.model."),
    "one row of lm_head": head_named("lm_head.weight", **LANGUAGE_MODEL),
    "v_head of one row": head_named("v_head.weight", **LANGUAGE_MODEL),
    "the head twice": with_tensors(with_untrained_head),
    "LoRA": adapted(),
    "rsLoRA": adapted(use_rslora=True),
    "DoRA": adapted(use_dora=True),
    "LoRA with biases": adapted(bias="all"),
    "LoRA with a norm": adapted(modules_to_save=["score", "norm"]),
    "ZeRO-3, empty tensors": with_tensors(emptied),
    "fp8 without a scale": with_tensors(in_fp8),
}


# --- the table ------------------------------------------------------------------------------------


def tried(only: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield a row for each format, or for these: group, format, outcome and how."""
    made: dict[tuple[str, str], Callable[[Path], np.ndarray]] = {
        ("architecture", kind): partial(make_architecture, kind) for kind in NEWER
    }
    made |= {("trainer", name): make for name, make in TRAINERS.items()}
    for (group, name), make in made.items():
        if not only or name in only:
            with warnings.catch_warnings(action="ignore"):
                yield {"group": group, "format": name, **outcome_of(make)}


def main(*only: str) -> None:
    rows = []
    for row in tried(only):
        print(json.dumps(row), flush=True)
        rows.append(row)
    found = pd.DataFrame(rows)
    counts = pd.crosstab(found["group"], found["outcome"])
    print(counts)
    if not only:
        text = f"{table(counts.reset_index())}\n\n{table(found)}"
        write_report("formats", text, PAGE)


if __name__ == "__main__":
    main(*sys.argv[1:])
