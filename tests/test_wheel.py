"""The wheel, installed where nothing else of this project is: the light installation, and the one
that makes cards.

An environment holds the wheel and the packages that its metadata ask for, linked from the
environment of these tests, so that nothing is downloaded. A package that the metadata forget is not
there.
"""

import json
import os
import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import audit
import lib
from lib import ROOT
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.search(r"```python\n(import reward_model_values.*?)```", README, re.DOTALL)
TRAINING = Path(__file__).with_name("wheel_training.py")


def required(
    lines: list[str], extras: frozenset[str], found: dict[str, frozenset[str]]
) -> None:
    """Add to `found` the packages that these requirements ask for with these extras, and what
    those ask for.
    """
    for line in lines:
        requirement = Requirement(line)
        asked = {"extra": ""}, *({"extra": extra} for extra in extras)
        if requirement.marker and not any(
            requirement.marker.evaluate(each) for each in asked
        ):
            continue
        other, wanted = (
            canonicalize_name(requirement.name),
            frozenset(requirement.extras),
        )
        if not wanted <= found.get(other, frozenset()) or other not in found:
            found[other] = found.get(other, frozenset()) | wanted
            required(requirements_of(other), found[other], found)


def requirements_of(name: str) -> list[str]:
    """Return what an installed package asks for; nothing for one that this system does not need."""
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def link(name: str, site: Path) -> None:
    """Link the files and folders of an installed package into an environment."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:  # not needed on this system
        return
    for top in {
        file.parts[0]
        for file in distribution.files or ()
        if file.parts[0] not in ("..", "__pycache__")
    }:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(distribution.locate_file(top)))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def environment(folder: Path, wheel: Path, *extras: str):
    """Install the wheel with these extras; return a function that runs this environment's Python
    in a new folder.
    """
    venv.create(folder / "env", symlinks=True)
    [site] = (folder / "env").glob("lib/python*/site-packages")
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, site], check=True)
    found: dict[str, frozenset[str]] = {}
    [about] = site.glob("reward_model_values-*.dist-info")
    required(metadata.Distribution.at(about).requires or [], frozenset(extras), found)
    for name in found:
        link(name, site)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }

    def run(*command, code: int = 0) -> str:
        python = folder / "env" / "bin" / "python"
        done = subprocess.run(
            [python, *map(str, command)],
            cwd=elsewhere,
            env=clean | {"HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr * (code != 0)

    return run, elsewhere


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny.make_checkpoint(
        tmp_path_factory.mktemp("model") / "tiny", "linear_llama"
    )


@pytest.fixture(scope="module")
def light(tmp_path_factory, wheel):
    return environment(tmp_path_factory.mktemp("light"), wheel)


@pytest.fixture(scope="module")
def with_cards(tmp_path_factory, wheel):
    return environment(tmp_path_factory.mktemp("cards"), wheel, "card")


def test_the_readmes_lines_score_as_here(light, folder):
    run, _ = light
    assert SHOWN
    program = (
        SHOWN[1]
        .replace("path/or/hub-id", str(folder))
        .replace("rmv.score(", "_ = rmv.score(")
    )
    said = run("-c", f"{program}\nprint(*_['reward'])")
    here = vocabulary.score_replies(lib.load(folder), PROMPT, ["love", "freedom"])
    assert np.array(said.split(), dtype=float) == pytest.approx(here, abs=1e-5)


def test_the_light_installation_scores_checks_and_keeps_its_files_in_the_folder_of_the_user(
    light, folder, tmp_path
):
    run, elsewhere = light
    said = run(
        "-m",
        "reward_model_values.audit",
        "score",
        folder,
        "--prompts",
        "greatest",
        "--tokens",
        50,
    )
    assert "data/scores/mine-sample-50/tiny.parquet" in said
    assert (elsewhere / "data/scores/mine-sample-50/tiny.parquet").is_file()
    replies = tmp_path / "replies.csv"
    replies.write_text("prompt,reply\nWhy?,love\nWhy?,hope\n")
    run(
        "-m",
        "reward_model_values.audit",
        "score",
        folder,
        "--replies",
        replies,
        "--out",
        tmp_path / "rewards.csv",
    )
    assert list(pd.read_csv(tmp_path / "rewards.csv")["reply"]) == ["love", "hope"]
    # random weights order some pairs, which is a note
    checked = run("-m", "reward_model_values.audit", "check", folder)
    assert "template             ok" in checked and "Traceback" not in checked
    assert 'pip install "reward-model-values[card]"' in run(
        "-m", "reward_model_values.audit", "card", folder, code=2
    )


def test_with_the_extra_a_model_gets_its_card_and_a_training_its_comparison(
    with_cards, folder
):
    run, elsewhere = with_cards
    said = run("-m", "reward_model_values.audit", "card", folder)
    assert (
        "What tiny values" in said
        and (elsewhere / "figures/mine/card-tiny.html").is_file()
    )
    steps = json.loads(run(TRAINING, folder).splitlines()[-1])
    assert steps == [0, 3]
    assert len(list((elsewhere / "data/scores/run").glob("run-step-*.parquet"))) == 2
    assert list((elsewhere / "figures/run").glob("compare-*.html"))


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


def test_the_readmes_table_shows_replies_and_rewards_at_the_width_of_a_terminal(folder):
    printed = str(audit.score(audit.load(folder), PROMPT, ["love", "freedom"]))
    assert max(map(len, printed.splitlines())) <= 80 and printed.splitlines()[
        0
    ].split()[:2] == [
        "reply",
        "reward",
    ]
