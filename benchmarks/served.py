"""Rewards of a real vLLM against ours, and the cost of both. Run: python -m benchmarks.served
--vllm path/to/bin/vllm

Random checkpoints of two shapes are served by vLLM and loaded here, in float32. It writes
benchmarks/served.md.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.scoring import QUESTION, machine, processor_seconds, table, write_report
from lib.apps.owner.opening import open_model
from lib.models import conversations
from lib.scoring import engine

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import tiny

PAGE = Path(__file__).with_suffix(".md")
# vLLM for CPU knows heads of 32 and more dimensions
_SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
SHAPES = {"Llama": ("linear_llama", _SMALL), "Gemma-2": ("linear_gemma2", _SMALL)}
# 63 million parameters
LARGE = {
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 10,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
}
REPLIES, SECONDS = 1024, 300  # replies whose cost is measured; until a server answers


def checkpoint(shape: str, place: Path, **sizes: int) -> Path:
    """Return the folder of a random checkpoint of one of SHAPES, with other sizes if these are
    given.
    """
    kind, usual = SHAPES[shape]
    return tiny.make_checkpoint(
        place / f"{shape}-{len(sizes)}", kind, **(usual | sizes)
    )


@contextmanager
def vllm(program: str, folder: Path, *more: str) -> Iterator[str]:
    """Serve a checkpoint by `vllm serve` on one thread; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--runner",
        "pooling",
        "--dtype",
        "float32",
        "--max-model-len",
        "2048",
        *more,
    ]
    one_thread = {
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    process = subprocess.Popen(
        [
            program,
            "serve",
            str(folder),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            *options,
        ],
        env=os.environ | one_thread,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(
                        f"vLLM does not serve {folder}; start it by hand to see why"
                    ) from None
                time.sleep(1)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def differences(folder: Path, url: str) -> dict[str, float]:
    """Return how far the served rewards of the whole vocabulary are from those of the loaded
    checkpoint.
    """
    here, served = open_model(folder, device="cpu"), open_model(url)
    texts = conversations.vocabulary(here.tokenizer)["text"].tolist()
    ours, theirs = (
        engine.score_replies(model, QUESTION, texts) for model in (here, served)
    )
    apart, inputs = np.abs(ours - theirs), here.inputs_for(QUESTION, texts)
    return {
        "inputs": len(inputs.suffixes),
        "largest difference": float(apart.max()),
        "largest reward": float(np.abs(ours).max()),
        "sd of rewards": float(ours.std()),
    }


def cost(folder: Path, url: str) -> dict[str, float]:
    """Return how many replies of two words a second of one core scores: loaded here, and served."""
    here, served = open_model(folder, device="cpu"), open_model(url)
    words = conversations.vocabulary(here.tokenizer)["text"].str.strip()
    words = words[words.str.isalpha()].drop_duplicates().to_numpy()
    drawn = np.random.default_rng(0).choice(words, (REPLIES, 2))
    replies = [" ".join(pair) for pair in drawn]
    inputs = here.inputs_for(QUESTION, replies)
    ours, _ = processor_seconds(lambda: engine.score_inputs(here, inputs))
    # the server is a child of this process
    both, _ = processor_seconds(lambda: engine.score_inputs(served, inputs))
    number = len(inputs.suffixes)
    return {
        "parameters, millions": here.backbone.num_parameters() / 1e6,
        "inputs": number,
        "tokens of the prompt": len(inputs.prefix_ids),
        "ours, replies per core-second": number / ours,
        "vLLM, replies per core-second": number / both,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--vllm", default="vllm", help="the program, in an environment of its own"
    )
    program, rows, costs = parser.parse_args().vllm, [], []
    with tempfile.TemporaryDirectory() as place:
        for shape in SHAPES:
            folder = checkpoint(shape, Path(place))
            with vllm(program, folder, "--enforce-eager") as url:
                rows.append({"shape": shape, **differences(folder, url)})
        folder = checkpoint("Llama", Path(place), **LARGE)
        # the least, so that prefixes are kept
        with vllm(program, folder, "--block-size", "32") as url:
            costs.append({"shape": "Llama", **cost(folder, url)})
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True
    ).stdout.split()[-1]
    parts = [
        f"vLLM {version}; {machine('cpu')}",
        table(pd.DataFrame(rows)),
        table(pd.DataFrame(costs)),
    ]
    write_report("served", "\n\n".join(parts), PAGE)


if __name__ == "__main__":
    main()
