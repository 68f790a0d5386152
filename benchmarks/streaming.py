"""How little memory scoring takes when weights pass through once, and in what time. Run: python -m
benchmarks.streaming

Checkpoints have the true shapes and random weights in bf16, and are written to a temporary folder
(13 GB in all; TMPDIR names another place). Each is scored in both ways in turn, each in a process
of its own, from loading to rewards.
"""

import json
import multiprocessing
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from transformers import AutoModel, Gemma2Config, LlamaConfig

from benchmarks.scoring import (
    QUESTION,
    REPEATS,
    arguments,
    machine,
    peak_kilobytes,
    processor_seconds,
    table,
    tokenizer_of,
    write_report,
)
from benchmarks.shapes import TRUE_SHAPES
from lib.apps.owner.opening import open_model
from lib.scoring import by_layer, engine

TOKENS = 500  # a random sample of the vocabulary
FEW = 100  # tokens where only a ratio of times is asked for
GB = 1e9
# operations/s, see what_you_need
CARDS = {"24 GB card": 0.5 * 165e12, "H200": 0.5 * 989e12}
ALLOWED = 1.5 * GB  # above two layers and the rows of the embedding table that are used
ON_CPU = ("Llama-3.2-1B", "Gemma-2-2B", "Llama-3.2-3B")
ON_GPU = ("Gemma-2-2B", "Llama-3.1-8B", "Gemma-2-27B")


# --- random checkpoints ---------------------------------------------------------------------------


def write_checkpoint(
    folder: Path,
    family: str,
    size: int,
    shape: dict,
    dtype: torch.dtype = torch.bfloat16,
) -> Path:
    """The folder, now holding a reward model with a linear head and random weights; a file per
    layer.
    """
    folder.mkdir(parents=True)
    tokenizer = tokenizer_of(size, family)
    tokenizer.save_pretrained(folder)
    make = {"llama": LlamaConfig, "gemma": Gemma2Config}[family]
    config = make(
        vocab_size=size,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
        dtype=dtype,
        **shape,
    )
    config.architectures = [
        f"{make.__name__.removesuffix('Config')}ForSequenceClassification"
    ]
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {
            f"model.{name}": tensor.shape
            for name, tensor in AutoModel.from_config(config).state_dict().items()
        }
    shapes["score.weight"] = torch.Size([1, config.hidden_size])
    weight_map = {name: f"model-{_layer_of(name):05d}.safetensors" for name in shapes}
    # Drawn once and laid end to end, which is quicker than drawing billions; by its length no two
    # rows are the same
    pool = (
        torch.empty(16_777_259)
        .normal_(0, 0.02, generator=torch.Generator().manual_seed(0))
        .to(dtype)
    )
    for file in sorted(set(weight_map.values())):
        names = [name for name in shapes if weight_map[name] == file]
        tensors = {name: _from_pool(pool, name, shapes[name], family) for name in names}
        save_file(tensors, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )
    return folder


def _layer_of(name: str) -> int:
    """The number of a tensor's file: 1 for the first layer, 0 for what is in none."""
    parts = name.split(".")
    return int(parts[2]) + 1 if parts[1] == "layers" else 0


def _from_pool(
    pool: torch.Tensor, name: str, shape: torch.Size, family: str
) -> torch.Tensor:
    if "norm" in name:  # Gemma's multiply by 1 + weight
        return torch.full(shape, 0.0 if family == "gemma" else 1.0, dtype=pool.dtype)
    offset = zlib.crc32(name.encode()) % len(pool)
    return (
        pool.roll(offset)
        .repeat(shape.numel() // len(pool) + 1)[: shape.numel()]
        .view(shape)
        .clone()
    )


# --- both ways ------------------------------------------------------------------------------------


def score_one_way(
    folder: Path,
    stream: bool,
    device: str,
    tokens: int,
    prompts: int,
    gigabytes: float,
    report,
) -> None:
    """Put on the queue what loading and scoring took: seconds, bytes, rewards, peaks of memory."""
    if gigabytes:
        torch.cuda.set_per_process_memory_fraction(
            gigabytes * GB / torch.cuda.mem_get_info()[1]
        )
    # forget the peak of importing (Linux)
    Path("/proc/self/clear_refs").write_text("5")
    before, started, computed = (
        peak_kilobytes(),
        time.perf_counter(),
        time.process_time(),
    )
    model = open_model(folder, device=device, stream=stream)
    path = folder.parent / f"{folder.name}-{stream}.parquet"
    questions = {
        f"p{number}": QUESTION + " Really?" * number for number in range(prompts)
    }
    rows = engine.score_vocabulary(
        model, questions, path, token_ids=engine.sample(model, tokens), progress=False
    )
    row = {
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - computed,
        "peak": (peak_kilobytes() - before) * 1024,
        "device peak": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
        "rewards": rows[list(questions)].to_numpy(),
        "inputs": rows["input_group"].nunique() * prompts,
    }
    distinct = rows.drop_duplicates("input_group")["reply_ids"].map(len)
    closing = len(model.conversation(QUESTION).closing_ids)  # two for Gemma
    read = distinct.sum() + closing * len(distinct)
    row["operations"] = (
        2
        * prompts
        * int(read)
        * sum(p.numel() for p in model.backbone.layers.parameters())
    )
    if stream:
        row |= {
            "read": model.layers.read_bytes,
            "layers": model.layers.bytes,
            "largest": model.layers.largest,
            "waited": model.layers.waited,
        }
    path.unlink()
    report.put(row)


def one_way(*arguments) -> dict:
    """What score_one_way puts on its queue, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    report = context.Queue()
    process = context.Process(target=score_one_way, args=(*arguments, report))
    process.start()
    row = report.get()
    process.join()
    return row


def compare(name: str, folder: Path, device: str = "cpu") -> dict:
    """One row of the report: a model in memory and streamed."""
    held, streamed = (
        one_way(folder, stream, device, TOKENS, 1, 0) for stream in (False, True)
    )
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    used = streamed["read"] - streamed["layers"]
    return {
        "model": name,
        "weights, GB": weights / GB,
        "inputs": streamed["inputs"],
        "in memory: peak, GB": held["peak"] / GB,
        "streamed: peak, GB": streamed["peak"] / GB,
        "two layers + used rows + 1.5 GB": (2 * streamed["largest"] + used + ALLOWED)
        / GB,
        "in memory, s": held["seconds"],
        "streamed, s": streamed["seconds"],
        "in memory, processor s": held["processor"],
        "streamed, processor s": streamed["processor"],
        "streamed / in memory": streamed["processor"] / held["processor"],
        "waiting for weights, s": streamed["waited"],
        "streamed, GFLOP/s": streamed["operations"] / streamed["processor"] / 1e9,
        "layers read / their bytes": (streamed["read"] - used) / streamed["layers"],
        "largest difference": float(
            np.abs(held["rewards"] - streamed["rewards"]).max()
        ),
        "sd of rewards": float(held["rewards"].std()),
    }


def several_prompts(name: str, folder: Path) -> pd.DataFrame:
    """What 1 and 8 prompts about 100 tokens read and take, streamed."""
    rows = []
    for prompts in (1, 8):
        row = one_way(folder, True, "cpu", 100, prompts, 0)
        rows.append(
            {
                "model": name,
                "prompts": prompts,
                "inputs": row["inputs"],
                "streamed, s": row["seconds"],
                "read, GB": row["read"] / GB,
                "waiting for weights, s": row["waited"],
            }
        )
    return pd.DataFrame(rows)


def on_cpu(folder: Path) -> list[pd.DataFrame]:
    rows, prompts = [], pd.DataFrame()
    for name in ON_CPU:
        family, size, shape = TRUE_SHAPES[name]
        checkpoint = write_checkpoint(folder / name, family, size, shape)
        rows.append(compare(name, checkpoint))
        if name == "Llama-3.2-1B":
            prompts = several_prompts(name, checkpoint)
        for file in checkpoint.iterdir():
            file.unlink()
    return [
        pd.DataFrame(rows),
        prompts,
        what_you_need(rows[-1]["streamed, GFLOP/s"] * 1e9),
    ]


def what_you_need(rate: float) -> pd.DataFrame:
    """Computed, not measured: memory in both ways, and minutes for one prompt at the given
    operations/s on a cpu.

    For cards half of what their data sheets promise for dense products in bf16, or 25 GB/s for what
    is copied to them.
    """
    rows = []
    for name, (family, vocabulary, shape) in TRUE_SHAPES.items():
        make = {"llama": LlamaConfig, "gemma": Gemma2Config}[family]
        with torch.device("meta"):
            backbone = AutoModel.from_config(make(vocab_size=vocabulary, **shape))
        weights = 2 * sum(p.numel() for p in backbone.parameters())
        layers = sum(p.numel() for p in backbone.layers.parameters())
        largest, tokens = (
            2 * layers / len(backbone.layers),
            {"llama": 2, "gemma": 3}[family],
        )
        operations = 2 * layers * tokens * vocabulary
        waiting = tokens * vocabulary * shape["hidden_size"] * 2
        minutes = {
            card: max(operations / speed, 2 * layers / 25e9) / 60
            for card, speed in CARDS.items()
        }
        rows.append(
            {
                "model": name,
                "weights, GB": weights / GB,
                "in memory, GB": (weights + GB) / GB,
                "streamed, GB": (2 * largest + ALLOWED) / GB,
                "hidden states of a prompt, GB": waiting / GB,
                "500 tokens, CPU, min": operations / rate / 60 * 500 / vocabulary,
                "vocabulary, CPU, h": operations / rate / 3600,
            }
            | {f"vocabulary, {card}, min": value for card, value in minutes.items()}
        )
    return pd.DataFrame(rows)


def on_gpu(folder: Path) -> list[pd.DataFrame]:
    """Whole vocabularies under three prompts, with 8 GB of the device's memory."""
    rows = []
    for name in ON_GPU:
        family, size, shape = TRUE_SHAPES[name]
        checkpoint = write_checkpoint(folder / name, family, size, shape)
        row = one_way(checkpoint, True, "cuda", size, 3, 8)
        rows.append(
            {
                "model": name,
                "inputs": row["inputs"],
                "streamed, s": row["seconds"],
                "waiting for weights, s": row["waited"],
                "read / layers": row["read"] / row["layers"],
                "device peak, GB": row["device peak"] / GB,
                "host peak, GB": row["peak"] / GB,
            }
        )
        for file in checkpoint.iterdir():
            file.unlink()
    return [pd.DataFrame(rows)]


def each_layer(folder: Path, name: str = "Llama-3.2-1B") -> pd.DataFrame:
    """What rewards after each layer cost beyond those after the last one: the processor's
    seconds, medians in turn.
    """
    family, size, shape = TRUE_SHAPES[name]
    model = open_model(
        write_checkpoint(folder / name, family, size, shape), device="cpu", stream=True
    )
    replies = engine.tokens_of(model, engine.sample(model, FEW))["text"].tolist()
    ways = [
        partial(way, model, QUESTION, replies)
        for way in (engine.score_replies, by_layer.rewards_by_layer)
    ]
    took = [[processor_seconds(way)[0] for way in ways] for _ in range(REPEATS)]
    last, each = np.median(took, axis=0)
    return pd.DataFrame(
        [
            {
                "model": name,
                "replies": len(replies),
                "layers": model.layers.count,
                "rewards after the last layer, s": last,
                "after each layer, s": each,
                "each / last": each / last,
            }
        ]
    )


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--layers",
        action="store_true",
        help="only what rewards after each layer cost, on the CPU",
    )
    asked = parser.parse_args()
    device = "cpu" if asked.layers else asked.device
    with tempfile.TemporaryDirectory() as folder:
        if asked.layers:
            write_report(
                "rewards by layer",
                f"{machine('cpu')}\n\n{table(each_layer(Path(folder)))}",
            )
            return
        parts = {"cpu": on_cpu, "cuda": on_gpu}[device](Path(folder))
    name = {"cpu": "cpu", "cuda": "gpu"}[device]
    write_report(
        f"streaming on a {name}", "\n\n".join([machine(device), *map(table, parts)])
    )


if __name__ == "__main__":
    main()
