"""The wheel, installed where nothing else of this project is, with what makes cards.

An environment holds the wheel and the packages that its metadata ask for, linked from the
environment of these tests, so that nothing is downloaded. A package that the metadata forget is not
there.
"""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import lib
from lib import ROOT
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.search(r"```python\n(import reward_model_values.*?)```", README, re.DOTALL)
TRAINING = Path(__file__).with_name("wheel_training.py")


def required(lines: list[str], extras: Iterable[str], found: dict) -> None:
    """Add to `found` the packages that these requirements ask for with these extras, and what
    those ask for: name and extras -> what is installed.
    """
    for line in lines:
        requirement = Requirement(line)
        asked = [{"extra": extra} for extra in ("", *extras)]
        if requirement.marker and not any(map(requirement.marker.evaluate, asked)):
            continue
        try:
            installed = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:  # not needed on this system
            continue
        key = (installed.name, frozenset(requirement.extras))
        if key not in found:
            found[key] = installed
            required(installed.requires or [], requirement.extras, found)


def link(installed: metadata.Distribution, site: Path) -> None:
    """Link the files and folders of an installed package into an environment."""
    for top in {file.parts[0] for file in installed.files or ()} - {
        "..",
        "__pycache__",
    }:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(installed.locate_file(top)))


def environment(folder: Path, extra: str) -> Path:
    """Build the wheel, and install it with this extra; return the Python of this environment."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env", symlinks=True)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, site], check=True)
    found: dict = {}
    [about] = site.glob("reward_model_values-*.dist-info")
    required(metadata.Distribution.at(about).requires or [], [extra], found)
    for installed in found.values():
        link(installed, site)
    return folder / "env" / "bin" / "python"


@pytest.fixture(scope="module")
def run_elsewhere(tmp_path_factory):
    """Runs a program where the wheel is installed, in a folder of its own; returns this folder and
    what was printed.
    """
    python = environment(tmp_path_factory.mktemp("installed"), "card")
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }

    def run(program: str) -> tuple[Path, str]:
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        done = subprocess.run(
            [python, "-c", program, ""],
            cwd=elsewhere,
            env=clean | {"HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return elsewhere, done.stdout

    return run


def test_an_installed_wheel_scores_and_checks(run_elsewhere, checkpoint):
    folder = checkpoint("linear_llama")
    lines = SHOWN[1].replace("path/or/hub-id", str(folder))
    elsewhere, told = run_elsewhere(f"""{lines.replace("rmv.score(", "_ = rmv.score(")}
print("rewards", *_["reward"])
from reward_model_values.audit.__main__ import main
from reward_model_values.audit.card import callback, making
main(["score", "{folder}", "--prompts", "greatest", "--tokens", "50"])
main(["check", "{folder}"])
""")
    [rewards] = re.findall("(?m)^rewards (.*)", told)
    here = vocabulary.score_replies(lib.load(folder), PROMPT, ["love", "freedom"])
    assert np.array(rewards.split(), dtype=float) == pytest.approx(here, abs=1e-5)
    # random weights order some pairs, which is a note
    assert "template             ok" in told
    written = elsewhere / f"data/scores/mine-sample-50/{folder.name}.parquet"
    assert written.is_file()


@pytest.mark.nightly
def test_an_installed_wheel_makes_the_cards_of_a_model_and_a_training(
    run_elsewhere, checkpoint
):
    folder = checkpoint("linear_llama")
    elsewhere, told = run_elsewhere(f"""
from reward_model_values.audit.__main__ import main
main(["card", "{folder}"])
import runpy, sys
sys.argv[1] = "{folder}"
runpy.run_path("{TRAINING}")
""")
    assert f"What {folder.name} values" in told
    assert told.splitlines()[-1] == "0 3"  # steps with a card
    for written in (
        f"figures/mine/card-{folder.name}.html",
        "data/scores/run/run-step-000003.parquet",
        "figures/run/compare-run-step-000000-run-step-000003.html",
    ):
        assert (elsewhere / written).is_file(), written


def test_installed_with_e_every_module_is_the_projects_own_file(tmp_path):
    program = "import reward_model_values as rmv; from reward_model_values import io\n"
    program += "print(rmv.__file__, io.__file__, rmv.DATA)"
    paths = os.pathsep.join(map(str, [ROOT, ROOT / "lib" / "editable"]))
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.stdout.split() == [
        str(ROOT / name) for name in ("lib/__init__.py", "lib/io.py", "data")
    ], done.stderr
