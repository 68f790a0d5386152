"""How fast scoring is, beside one cache by transformers alone and beside oneDNN's products. Run:
python -m benchmarks.scoring

Models have random weights, whose arithmetic costs what that of trained ones costs. Ways run in turn
within one process, and seconds are the processor's, so that ratios hold on a busy machine. The
report replaces its part of benchmarks/README.md. For a GPU: benchmarks.gpu.
"""

import argparse
import json
import platform
import time
from collections.abc import Sequence
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
from lib.models.reward_models import RewardModel
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
SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
}

# --- random models --------------------------------------------------------------------------------


def tokenizer_of(
    size: int, family: str, words: Sequence[str] | None = None
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of `size` ids: merges learnt from common words, then whole words
    until it is full.

    words: by default the 300,000 most frequent ones of English.
    """
    if words is None:
        import wordfreq  # here, because a machine with a GPU may not have it

        words = wordfreq.top_n_list("en", 300_000)
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
def the_papers_way(
    model: RewardModel, prompt: str, texts: list[str], batch: int = 128
) -> np.ndarray:
    """Rewards as the paper's code computes them: template each reply, tokenise, pad, read
    everything whole.
    """
    rewards = []
    for start in range(0, len(texts), batch):
        rendered = [
            conversations.render(model.tokenizer, prompt, [text])[0]
            for text in texts[start : start + batch]
        ]
        encoded = model.tokenizer(rendered, padding=True, return_tensors="pt").to(
            model.device
        )
        hidden = model.backbone(
            encoded["input_ids"], attention_mask=encoded["attention_mask"]
        ).last_hidden_state
        last = encoded["attention_mask"].sum(1) - 1
        rewards.append(model.head(hidden[torch.arange(len(last)), last].float()).cpu())
    return torch.cat(rewards).numpy()


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
            rewards[some] = model.head(states[:, -1].float())
    return rewards


def in_turn(ways: dict, clock=time.process_time) -> tuple[dict, dict]:
    """The median seconds of each way, one after the other REPEATS times, and its result."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(REPEATS):
        for name, work in ways.items():
            start = clock()
            results[name] = work()
            took[name].append(clock() - start)
    return {name: float(np.median(all_)) for name, all_ in took.items()}, results


def report(replies: int = 2000) -> pd.DataFrame:
    """A row for replies that are drawn, and one for a part of the vocabulary in which they begin
    alike.
    """
    tokenizer = tokenizer_of(16_384, "llama")
    model = random_model("llama", tokenizer, torch.float32, SMALL)
    texts = conversations.vocabulary(tokenizer)["text"].tolist()
    whole = model.inputs_for(QUESTION, texts)
    drawn = np.random.default_rng(0).permutation(len(whole.suffixes))[:replies]
    parts = {
        "random": [whole.suffixes[i] for i in drawn],
        "beginning alike": sorted(whole.suffixes)[:replies],
    }
    rows = []
    for name, suffixes in parts.items():
        inputs = replace(whole, suffixes=suffixes)
        read = {
            onednn: Reader(replace(model, onednn=onednn), inputs)
            for onednn in (False, True)
        }
        took, found = in_turn(
            {
                "torch's products, s": partial(read[False].rewards, suffixes),
                "oneDNN's, s": partial(read[True].rewards, suffixes),
                "one cache, s": partial(with_one_cache, model, inputs),
            }
        )
        usual, quick, rival = found.values()
        rows.append(
            {
                "replies": f"{len(suffixes)} {name}",
                "tokens": sum(map(len, suffixes)),
                **took,
                "oneDNN's / torch's": took["oneDNN's, s"] / took["torch's products, s"],
                "one cache / ours": took["one cache, s"] / took["torch's products, s"],
                "largest difference": float(np.abs(usual - rival).max()),
                "of oneDNN": float(np.abs(usual - quick).max()),
                "sd of rewards": float(usual.std()),
            }
        )
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


def operations(model: RewardModel, tokens: int, context: int) -> float:
    """Floating-point operations of the backbone for `tokens` new tokens that each attend to
    about `context` others.
    """
    config = model.backbone.config
    in_layers = sum(p.numel() for p in model.backbone.layers.parameters())
    attention = (
        4
        * config.num_hidden_layers
        * config.num_attention_heads
        * config.head_dim
        * context
    )
    return tokens * (2 * in_layers + attention)


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


def table(frame: pd.DataFrame) -> str:
    """Return a table as Markdown, with numbers to three digits."""
    rows = [
        [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in frame.to_numpy(object)
    ]
    return "\n".join(
        f"| {' | '.join(line)} |"
        for line in [list(frame.columns), ["---"] * frame.shape[1], *rows]
    )


def write_report(section: str, text: str, page: Path = README) -> None:
    """Replace what stands between the section's two marks in a page, by default
    benchmarks/README.md.
    """
    start, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, rest = page.read_text().split(start)
    page.write_text(f"{before}{start}\n{text.strip()}\n{end}{rest.split(end)[1]}")


def arguments(description: str) -> argparse.ArgumentParser:
    """A command line with --device: cpu or cuda, by default the best there is."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cuda" if torch.cuda.is_available() else "cpu",
    )
    return parser


def main() -> None:
    torch.set_num_threads(1)
    pays = "pays" if products.onednn_pays() else "is not taken for its products"
    lines = f"{machine('cpu')}; oneDNN {pays} here"
    write_report("scoring on a cpu", f"{lines}\n\n{table(report())}")


if __name__ == "__main__":
    main()
