"""How fast scoring is, beside one cache by transformers alone and beside oneDNN's products. Run:
python -m benchmarks.scoring

Ways run in turn within one process, and seconds are the processor's, so that ratios hold on a busy
machine. The report replaces its part of benchmarks/README.md. For a GPU: benchmarks.gpu.
"""

import json
import platform
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import tokenizers
import torch
import transformers
from tokenizers import decoders, pre_tokenizers, trainers
from transformers import (
    AutoModel,
    DynamicCache,
    Gemma2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
)

from lib.models import conversations
from lib.models.conversations import Inputs
from lib.models.heads import new_head
from lib.models.reward_models import RewardModel, load
from lib.scoring import products
from lib.scoring.reader import Reader

README = Path(__file__).parent / "README.md"
QUESTION = "What, in one word, is the greatest thing ever?"
SPECIAL = [
    "<|begin_of_text|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|pad|>",
]
REPEATS = 3  # each way in turn; the median counts
# closing ids after the reply: one for Llama, two for Gemma, as in the real families
TEMPLATES = {
    "llama": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role "
    "}}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}",
    "gemma": "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}\n"
    "{{ m.content | trim }}<|eot_id|>\n{% endfor %}",
}
# the replies, tokens of its vocabulary, that each of them reads at most
MODELS = {"F-Lla-64": 100_000, "V-Smol-135M": 200}

# --- random models --------------------------------------------------------------------------------


def tokenizer_of(size: int, family: str, words: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of `size` ids: merges learnt from common words, then whole words
    until it is full.
    """
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=6_000,
        special_tokens=SPECIAL,
        initial_alphabet=bytes_of.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((f" {word} {word}" for word in words[:40_000]), trainer)
    vocab = bpe.get_vocab()
    for word in words:
        for text in (f" {word}", word):
            if len(vocab) < size:
                vocab.setdefault(bytes_of.pre_tokenize_str(text)[0][0], len(vocab))
    merges = [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]]
    bpe.model = tokenizers.models.BPE(vocab, merges, ignore_merges=True)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=SPECIAL[0],
        pad_token=SPECIAL[4],
        chat_template=TEMPLATES[family],
    )


def random_model(
    family: str, tokenizer, dtype: torch.dtype, shape: dict, device: str = "cpu"
) -> RewardModel:
    """A reward model with random weights in the given family's architecture."""
    make, attention = {
        "llama": (LlamaConfig, "sdpa"),
        "gemma": (Gemma2Config, "eager"),
    }[family]
    config = make(
        vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape
    )
    torch.manual_seed(0)
    with torch.device(device):
        backbone = AutoModel.from_config(
            config, dtype=dtype, attn_implementation=attention
        ).eval()
        head = new_head("linear", config)
    name = f"random-{family}"
    return RewardModel(
        name,
        name,
        name,
        "",
        "linear",
        str(dtype).removeprefix("torch."),
        attention,
        device,
        tokenizer,
        backbone,
        head,
    )


# --- ways -----------------------------------------------------------------------------------------


@torch.inference_mode()
def with_one_cache(
    model: RewardModel, inputs: Inputs, tokens: int = 2048
) -> np.ndarray:
    """Rewards by transformers alone: the prompt's cache is copied for batches of one length."""
    prefix = torch.tensor([inputs.prefix_ids])
    cache = model.backbone(prefix, past_key_values=DynamicCache(), use_cache=True)
    kept = [(x.keys, x.values) for x in cache.past_key_values.layers]
    rewards = np.empty(len(inputs.suffixes), np.float32)
    lengths = np.array(list(map(len, inputs.suffixes)))
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        for start in range(0, len(same), max(1, tokens // length)):
            some = same[start : start + max(1, tokens // length)]
            copies = [[x.expand(len(some), -1, -1, -1) for x in pair] for pair in kept]
            ids = torch.tensor([inputs.suffixes[i] for i in some])
            states = model.backbone(ids, past_key_values=DynamicCache(copies))[0]
            rewards[some] = model.head(states[:, -1].float(), None)
    return rewards


def in_turn(ways: dict) -> tuple[dict, dict]:
    """The median seconds of each way, one after the other REPEATS times, and its result."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(REPEATS):
        for name, work in ways.items():
            start = time.process_time()
            results[name] = work()
            took[name].append(time.process_time() - start)
    return {name: float(np.median(all_)) for name, all_ in took.items()}, results


def report() -> pd.DataFrame:
    """A row for each model: its whole vocabulary, or tokens of it that are drawn."""
    rows = []
    for name, replies in MODELS.items():
        model = load(name, device="cpu")
        texts = conversations.vocabulary(model.tokenizer)["text"]
        some = texts.sample(min(replies, len(texts)), random_state=0).tolist()
        inputs = model.inputs_for(QUESTION, some)
        usual, quick = (
            Reader(replace(model, onednn=each), inputs) for each in (False, True)
        )
        took, found = in_turn(
            {
                "rows, s": partial(usual.rewards, inputs.suffixes),
                "with oneDNN, s": partial(quick.rewards, inputs.suffixes),
                "one cache, s": partial(with_one_cache, model, inputs),
            }
        )
        row = {
            "model": name,
            "inputs": len(inputs.suffixes),
            "tokens": sum(map(len, inputs.suffixes)),
        }
        first = found["rows, s"]
        apart = [np.abs(each - first).max() / first.std() for each in found.values()]
        row |= took | {"rows / one cache": took["rows, s"] / took["one cache, s"]}
        rows.append(row | {"largest difference, sd": max(apart)})
    return pd.DataFrame(rows)


def seconds(work) -> tuple[float, object]:
    """How long work() takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def matmul_rate(dtype: torch.dtype, device: str, n: int | None = None) -> float:
    """The machine's measured matrix-product rate, FLOP/s: the best of ten products of square
    matrices, (n, n).
    """
    n = n or (8192 if device == "cuda" else 2048)
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2 * n**3 / min(seconds(lambda: a @ b)[0] for _ in range(10))


def machine(device: str) -> str:
    """One line: processor, cores, versions."""
    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    processor = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{names[0]}, threads: {torch.get_num_threads()}"
    )
    return (
        f"{processor}; Python {platform.python_version()}, torch "
        f"{torch.__version__.split('+')[0]}, transformers {transformers.__version__}"
    )


def main() -> None:
    torch.set_num_threads(1)
    pays = "is taken" if products.onednn_pays() else "is not taken by itself"
    rows = report().to_markdown(index=False, floatfmt=".3g")
    text = f"{machine('cpu')}; oneDNN {pays} here.\n\n{rows}"
    start, end = (f"<!-- scoring on a cpu: {mark} -->" for mark in ("begin", "end"))
    before, rest = README.read_text().split(start)
    README.write_text(f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()
