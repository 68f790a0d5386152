"""How fast and how lean scoring is, against the paper's way of doing it. Run: python -m
benchmarks.scoring

All models have random weights, whose arithmetic costs what that of trained ones costs. Both ways
run in turn within one process, so their ratio holds on a busy machine where seconds do not. The
report replaces its part of benchmarks/README.md; where there is a GPU, the true shapes of
Gemma-2-2B and Llama-3.1-8B are measured as well.
"""

import argparse
import copy
import json
import multiprocessing
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
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

from benchmarks.shapes import TRUE_SHAPES
from benchmarks.tokenizers import open_tokenizer
from lib.models import conversations
from lib.models.conversations import Inputs
from lib.models.heads import new_head
from lib.models.reward_models import RewardModel
from lib.scoring import stages, vocabulary

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
TRUE_TOKENIZERS = {"Llama 3.1": "llama", "Gemma 2": "gemma"}  # base -> family
SMALL = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
}
WIDTHS = {
    "512": SMALL,
    "2048 (Llama-3.2-1B), two layers": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
    },
}
ON_GPU = ("Gemma-2-2B", "Llama-3.1-8B")


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


def prompt_of(model: RewardModel, tokens: int) -> str:
    """A prompt whose rendered prefix is `tokens` ids long."""
    for count in range(200):
        prompt = QUESTION + " Really?" * count
        if len(model.conversation(prompt).prefix_ids) >= tokens:
            return prompt
    raise ValueError(f"no prompt reaches {tokens} tokens")


# --- the two ways ---------------------------------------------------------------------------------


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


def seconds(work) -> tuple[float, object]:
    """How long work() takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def processor_seconds(work) -> tuple[float, object]:
    """How many seconds of the processor work() takes, which other work does not lengthen, and what
    it returns.

    Those of processes that this one has started count too: one of them renders chat templates.
    """
    start = _processor_time()
    result = work()
    return _processor_time() - start, result


def _processor_time() -> float:
    children = (
        child.cpu_times() for child in psutil.Process().children(recursive=True)
    )
    return time.process_time() + sum(took.user + took.system for took in children)


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


def compare(model: RewardModel, prefix: int, replies: int, paper_replies: int) -> dict:
    """One row of the report: our way on `replies` tokens, the paper's on the first
    `paper_replies`.
    """
    prompt = prompt_of(model, prefix)
    texts = (
        conversations.vocabulary(model.tokenizer)["text"]
        .sample(replies, random_state=0)
        .tolist()
    )
    # warm up
    (
        the_papers_way(model, prompt, texts[:128]),
        vocabulary.score_replies(model, prompt, texts[:1024]),
    )
    runs = [
        (
            seconds(lambda: vocabulary.score_replies(model, prompt, texts)),
            seconds(lambda: the_papers_way(model, prompt, texts[:paper_replies])),
        )
        for _ in range(REPEATS)
    ]
    (_, rewards), (_, expected) = runs[0]
    ours, theirs = (float(np.median([run[way][0] for run in runs])) for way in (0, 1))
    inputs = model.inputs_for(prompt, texts)
    read = sum(map(len, inputs.suffixes))
    fed = sum(len(inputs.suffixes[group]) + prefix for group in inputs.group)
    return {
        "model": model.name.removeprefix("random-"),
        "dtype": model.dtype,
        "prefix": prefix,
        "replies": replies,
        "ours, s": ours,
        "ours, replies/s": replies / ours,
        "paper's way, replies/s": paper_replies / theirs,
        "speed-up": (theirs / paper_replies) / (ours / replies),
        "token-count bound": fed / (read + prefix),
        "of matmul rate": operations(model, read, prefix + 2)
        / ours
        / matmul_rate(model.backbone.dtype, model.device),
        "largest difference": float(np.abs(rewards[:paper_replies] - expected).max()),
        "sd of rewards": float(rewards.std()),
    }


# --- the reports ----------------------------------------------------------------------------------


def speed_on_cpu() -> pd.DataFrame:
    rows = []
    for family in ("llama", "gemma"):
        tokenizer = tokenizer_of(16_384, family)
        for dtype in (torch.float32, torch.bfloat16):
            model = random_model(family, tokenizer, dtype, SMALL)
            rows += [compare(model, prefix, 4_096, 512) for prefix in (25, 50)]
    return pd.DataFrame(rows)


def speed_on_gpu() -> pd.DataFrame:
    rows = []
    for name in ON_GPU:
        family, size, shape = TRUE_SHAPES[name]
        model = random_model(
            family, tokenizer_of(size, family), torch.bfloat16, shape, "cuda"
        )
        replies = len(model.tokenizer)
        rows += [
            compare(model, prefix, replies, 8_192) | {"model": name}
            for prefix in (22, 25, 50)
        ]
    return pd.DataFrame(rows)


def preparing_inputs(
    of: dict[str, tuple[str, PreTrainedTokenizerFast]],
) -> pd.DataFrame:
    """Processor's seconds to prepare a whole vocabulary: each prompt by itself, and all of them
    together.

    of: name -> family and tokenizer. The three prompts that are prepared by themselves stand for
    all 54.
    """
    rows, prompts = [], [f"{QUESTION} {number}" for number in range(54)]
    for name, (family, tokenizer) in of.items():
        model = random_model(
            family,
            tokenizer,
            torch.float32,
            SMALL | {"hidden_size": 64, "num_hidden_layers": 1},
        )
        decode, tokens = processor_seconds(
            lambda model=model: vocabulary.tokens_of(model)
        )
        some, _ = processor_seconds(
            lambda model=model: vocabulary.tokens_of(
                model, vocabulary.sample(model, 1000)
            )
        )
        texts = tokens["text"].tolist()
        apart = [
            processor_seconds(partial(model.inputs_for, prompt, texts))[0]
            for prompt in prompts[:3]
        ]
        together = vocabulary.prepare(model, prompts, texts)
        prepared = [processor_seconds(partial(next, together)) for _ in prompts]
        took, inputs = [seconds for seconds, _ in prepared], prepared[0][1]
        rows.append(
            {
                "tokenizer": name,
                "tokens": len(tokens),
                "distinct inputs": len(inputs.suffixes),
                "decode, s": decode,
                "decode a sample of 1,000, s": some,
                "one prompt, s": decode + took[0],
                "54 prompts, s": decode + sum(took),
                "54 / one": (decode + sum(took)) / (decode + took[0]),
                "before: 54 prompts, s (18 x 3)": decode + 18 * sum(apart),
            }
        )
    return pd.DataFrame(rows)


# --- rivals: the same inputs, read by others' means -----------------------------------------------


def ours(model: RewardModel, blocks: list[stages.Block]) -> np.ndarray:
    """Rewards by lib.scoring, block after block."""
    return np.concatenate([rewards for _, rewards in stages.score(model, blocks)])


@torch.inference_mode()
def with_one_cache(
    model: RewardModel, inputs: Inputs, pieces: list[torch.Tensor]
) -> np.ndarray:
    """Rewards by transformers alone: the prefix's keys and values are computed once and copied
    for each batch.
    """
    prefix, rewards = _cache_of(model, inputs), []
    for piece in pieces:
        for ids in piece.split(2048 // piece.shape[1]):
            cache = copy.deepcopy(prefix)
            cache.batch_repeat_interleave(len(ids))
            hidden = model.backbone(
                ids.to(model.device), past_key_values=cache, use_cache=True
            ).last_hidden_state
            rewards.append(model.head(hidden[:, -1].float()))
    return torch.cat(rewards).cpu().numpy()


@torch.inference_mode()
def packed(
    model: RewardModel, inputs: Inputs, pieces: list[torch.Tensor], tokens: int = 256
) -> np.ndarray:
    """Rewards of replies that stand behind each other in one sequence, under a mask that hides
    them from each other.
    """
    prefix, length, rewards = _cache_of(model, inputs), len(inputs.prefix_ids), []
    for piece in pieces:
        for ids in piece.split(tokens // piece.shape[1]):
            reply = torch.arange(len(ids)).repeat_interleave(ids.shape[1])
            own = (reply[:, None] == reply) & torch.ones(
                len(reply), len(reply), dtype=torch.bool
            ).tril()
            seen = torch.cat(
                [torch.ones(len(reply), length, dtype=torch.bool), own], dim=1
            )
            mask = torch.zeros(seen.shape, dtype=model.backbone.dtype).masked_fill_(
                ~seen, -torch.inf
            )[None, None]
            positions = length + torch.arange(ids.shape[1]).repeat(len(ids))
            given = {
                "input_ids": ids.reshape(1, -1),
                "attention_mask": mask,
                "position_ids": positions[None],
            }
            given = {name: tensor.to(model.device) for name, tensor in given.items()}
            cache = copy.deepcopy(prefix)
            hidden = model.backbone(
                **given, past_key_values=cache, use_cache=True
            ).last_hidden_state
            rewards.append(
                model.head(hidden[0, ids.shape[1] - 1 :: ids.shape[1]].float())
            )
    return torch.cat(rewards).cpu().numpy()


def _cache_of(model: RewardModel, inputs: Inputs) -> DynamicCache:
    ids = torch.tensor([inputs.prefix_ids], device=model.device)
    return model.backbone(
        ids, past_key_values=DynamicCache(), use_cache=True
    ).past_key_values


RIVALS = {"one cache": with_one_cache, "packed": packed}


def against_rivals(of: dict[str, tuple[str, PreTrainedTokenizerFast]]) -> pd.DataFrame:
    """Ours and the rivals on the same prepared inputs, in turn: the processor's seconds, medians of
    REPEATS.

    of: as for preparing_inputs. Replies: all that begin with one of some random first tokens, as a
    whole vocabulary has them together, and 512 random ones, which share few.
    """
    rows = []
    for name, (family, tokenizer) in of.items():
        model = random_model(family, tokenizer, torch.float32, SMALL)
        whole = model.inputs_for(QUESTION, vocabulary.tokens_of(model)["text"].tolist())
        rng = np.random.default_rng(0)
        firsts = sorted({suffix[0] for suffix in whole.suffixes})
        some = set(
            rng.choice(
                firsts, round(2048 * len(firsts) / len(whole.suffixes)), replace=False
            ).tolist()
        )
        subtrees = [suffix for suffix in whole.suffixes if suffix[0] in some]
        alone = [
            whole.suffixes[i]
            for i in rng.choice(len(whole.suffixes), 512, replace=False)
        ]
        for what, suffixes in {"subtrees": subtrees, "random": alone}.items():
            inputs = replace(whole, suffixes=suffixes, reply_ids=[])
            blocks = vocabulary.blocks_of(inputs)
            pieces = [piece for block in blocks for piece in block.ids()]
            ways = {"ours": partial(ours, model, blocks)}
            ways |= {
                rival: partial(way, model, inputs, pieces)
                for rival, way in RIVALS.items()
            }
            runs = [
                {way: processor_seconds(work) for way, work in ways.items()}
                for _ in range(REPEATS)
            ]
            took = {
                way: float(np.median([run[way][0] for run in runs])) for way in ways
            }
            rewards = {way: runs[0][way][1] for way in ways}
            nodes = len(
                {suffix[: k + 1] for suffix in suffixes for k in range(len(suffix))}
            )
            row = {
                "tokenizer": name,
                "replies": f"{len(suffixes)} {what}",
                "tokens": sum(map(len, suffixes)),
                "nodes": nodes,
                "tokens / nodes": sum(map(len, suffixes)) / nodes,
            }
            row |= {f"{way}, s": value for way, value in took.items()}
            row |= {f"{rival} / ours": took[rival] / took["ours"] for rival in RIVALS}
            differ = max(
                float(np.abs(rewards[rival] - rewards["ours"]).max())
                for rival in RIVALS
            )
            rows.append(
                row
                | {
                    "largest difference": differ,
                    "sd of rewards": float(rewards["ours"].std()),
                }
            )
    return pd.DataFrame(rows)


def joining_prompts() -> pd.DataFrame:
    """What reading several prompts together could save: the same number of replies, to eight
    prompts and to one.

    The processor's seconds, medians of REPEATS, both in turn. With one prompt everything is joined,
    its attention too, so the ratio is the most that linear layers joined over prompts could bring.
    """
    rows, tokenizer, rng = [], tokenizer_of(16_384, "llama"), np.random.default_rng(0)
    for name, shape in WIDTHS.items():
        model = random_model("llama", tokenizer, torch.float32, shape)
        prompts = [
            model.inputs_for(f"{QUESTION} {number}", ["love"]) for number in range(8)
        ]
        for replies in (25, 50, 100, 200):
            ids = [
                torch.from_numpy(rng.integers(1000, 16_000, (replies, 2)))
                for _ in prompts
            ]
            apart = [
                _block(inputs, piece)
                for inputs, piece in zip(prompts, ids, strict=True)
            ]
            joined = [_block(prompts[0], torch.cat(ids))]
            runs = [
                [
                    processor_seconds(partial(ours, model, blocks))[0]
                    for blocks in (apart, joined)
                ]
                for _ in range(REPEATS)
            ]
            eight, one = np.median(runs, axis=0)
            rows.append(
                {
                    "width": name,
                    "replies per prompt": replies,
                    "eight prompts, s": eight,
                    "one prompt, s": one,
                    "eight / one": eight / one,
                }
            )
    return pd.DataFrame(rows)


def _block(inputs: Inputs, ids: torch.Tensor) -> stages.Block:
    given = replace(inputs, suffixes=list(map(tuple, ids.tolist())), reply_ids=[])
    return stages.Block(given, [np.arange(len(ids))])


def _memory_of_one(size: int, report) -> None:
    model = random_model(
        "llama",
        tokenizer_of(size, "llama"),
        torch.float32,
        SMALL | {"hidden_size": 128},
    )
    vocabulary.score_replies(model, "Why?", ["a", "b"])
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading (Linux)
    before = peak_kilobytes()
    with tempfile.TemporaryDirectory() as folder:
        prompts = {"greatest": QUESTION}
        vocabulary.score_vocabulary(
            model, prompts, Path(folder) / "table.parquet", progress=False
        )
    report.put(
        {
            "vocabulary": len(model.tokenizer),
            "above the loaded model, MB": (peak_kilobytes() - before) / 1024,
        }
    )


def peak_kilobytes() -> int:
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def peak_memory(memory_of_one: Callable, cases: Sequence) -> pd.DataFrame:
    """Peak memory above the loaded model and tokenizer, a row per case, each in its own process.

    memory_of_one: called with a case and a queue, on which it puts its row.
    """
    context, rows = multiprocessing.get_context("spawn"), []
    for case in cases:
        report = context.Queue()
        process = context.Process(target=memory_of_one, args=(case, report))
        process.start()
        rows.append(report.get())
        process.join()
    return pd.DataFrame(rows)


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
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--tokenizers",
        type=Path,
        help="folder with one per base, such as gemma-2: only what needs them",
    )
    parser.add_argument(
        "--prompts",
        action="store_true",
        help="only what joining several prompts could save",
    )
    asked = parser.parse_args()
    if asked.prompts:
        write_report(
            "joining prompts", f"{machine('cpu')}\n\n{table(joining_prompts())}"
        )
    elif asked.device == "cuda":
        write_report(
            "scoring on a gpu", f"{machine('cuda')}\n\n{table(speed_on_gpu())}"
        )
    elif asked.tokenizers:
        of = {
            base: (family, open_tokenizer(base, asked.tokenizers)[0])
            for base, family in TRUE_TOKENIZERS.items()
        }
        beside = (
            f"{machine('cpu')}; load of the machine's {os.cpu_count()} cores meanwhile: "
            f"{os.getloadavg()[0]:.1f}"
        )
        write_report(
            "scoring against rivals", f"{beside}\n\n{table(against_rivals(of))}"
        )
        write_report("preparation", f"{beside}\n\n{table(preparing_inputs(of))}")
    else:
        memory = peak_memory(_memory_of_one, (16_384, 256_000))
        write_report(
            "scoring on a cpu",
            "\n\n".join([machine("cpu"), table(speed_on_cpu()), table(memory)]),
        )


if __name__ == "__main__":
    main()
