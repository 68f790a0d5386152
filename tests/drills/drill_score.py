"""Drills of `score`, on demand (make drills): killed, on a full disk, out of memory, the table ends
up the same.

Each drill spoils runs on a tiny model, then runs once more undisturbed; the table is the one of a
run that nothing disturbed, and between the two there was no table, or a whole one.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import tiny

from lib import ROOT
from lib.tables import scores

pytestmark = pytest.mark.drill
ONE = 'prompt,text\np0,"What, in one word, is thing number 0?"\n'
PROMPTS = "prompt,text\n" + "".join(
    f'p{i},"What, in one word, is thing number {i}?"\n' for i in range(60)
)
CAN_MOUNT = (
    bool(shutil.which("unshare"))
    and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0
)
MB = 2**20


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny.make_checkpoint(tmp_path_factory.mktemp("model"), "linear_llama")


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of what `score` needs of the project; scores go into it."""
    shutil.copytree(
        ROOT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "data" / "scores").mkdir(parents=True)
    for name in ("prompts", "reward_models", "tensor_names"):
        shutil.copy(ROOT / "data" / f"{name}.csv", tmp_path / "data")
    shutil.copy(ROOT / "data" / "offensive.txt", tmp_path / "data")
    (tmp_path / "many.csv").write_text(PROMPTS)
    return tmp_path


def command(model: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "audit",
        "score",
        str(model),
        "--prompts",
        "many.csv",
    ]


def run(project: Path, model: Path, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(model),
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def table_in(project: Path) -> pd.DataFrame | None:
    """The score table in a project, None if there is none; a half one is an InputError."""
    paths = list((project / "data" / "scores" / "mine").glob("*.parquet"))
    return scores.read(paths[0]) if paths else None


def ran_alone(folder: Path, model: Path, prompts: str) -> pd.DataFrame:
    """The table of a run that nothing disturbed."""
    shutil.copytree(
        ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(
        ROOT / "data",
        folder / "data",
        ignore=shutil.ignore_patterns("scores", "cache", "models"),
    )
    (folder / "many.csv").write_text(prompts)
    assert run(folder, model).returncode == 0
    return table_in(folder)


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory) -> tuple[pd.DataFrame, float]:
    """The table of a run that nothing disturbed, and how many seconds it took."""
    started = time.monotonic()
    table = ran_alone(tmp_path_factory.mktemp("undisturbed"), model, PROMPTS)
    return table, time.monotonic() - started


def assert_ends_the_same(project: Path, model: Path, undisturbed: pd.DataFrame) -> None:
    last = run(project, model)
    assert last.returncode == 0, last.stderr
    pd.testing.assert_frame_equal(table_in(project), undisturbed, check_exact=True)
    left = [
        path.name
        for path in (project / "data" / "scores" / "mine").iterdir()
        if path.suffix != ".lock"
    ]
    assert [name for name in left if not name.endswith(".parquet")] == []


def test_killed_at_any_moment(project, model, undisturbed):
    table, seconds = undisturbed
    moments = random.Random(0)
    for _ in range(5):
        process = subprocess.Popen(
            command(model),
            cwd=project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(seconds * moments.uniform(0.4, 1))
        process.kill()
        process.wait()
        assert table_in(project) is None or len(table_in(project)) == len(table)
    assert_ends_the_same(project, model, table)


@pytest.mark.skipif(
    not CAN_MOUNT, reason="a small disk is mounted for this, which is not allowed here"
)
def test_on_a_full_disk(project, model, undisturbed):
    """In a namespace of its own: scores on a disk of 160 kB; what it holds is taken out again
    afterwards.
    """
    kept = project / "kept"
    kept.mkdir()
    script = (
        'mount -t tmpfs -o size=160k tmpfs data/scores && "$@"; code=$?; cp -a data/scores/. '
        "kept/; "
        "umount data/scores; exit $code"
    )
    spoilt = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *command(model)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert spoilt.returncode == 2, spoilt.stderr
    [told] = [line for line in spoilt.stderr.splitlines() if line.startswith("error: ")]
    assert "was not written" in told and "Traceback" not in spoilt.stderr
    shutil.copytree(kept, project / "data" / "scores", dirs_exist_ok=True)
    # what was computed is there
    assert list(kept.rglob("*.rewards")) and table_in(project) is None
    assert_ends_the_same(project, model, undisturbed[0])


# `score` with so many bytes more than it has once the model is there, until all is scored (what
# writes the table reserves address space that it does not use).
LIMITED = """
import resource, sys
from audit import __main__ as run; from lib.scoring import vocabulary

with_rewards = vocabulary._with_rewards
allowance = int(sys.argv.pop(1))

def limited(*given):
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    free = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + allowance, free[1]))
    try:
        return with_rewards(*given)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, free)

vocabulary._with_rewards = limited
sys.exit(run.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """A model that needs some 100 MB for a single row of 128 tokens: each takes three times 256 kB
    in a layer. A thread that ends gives back much less.
    """
    folder = tmp_path_factory.mktemp("wide")
    words = [f"word{i}" for i in range(600)]
    return tiny.make_checkpoint(
        folder, "linear_llama", intermediate_size=2**16, vocabulary=words
    )


@pytest.fixture(scope="module")
def undisturbed_wide(wide, tmp_path_factory) -> pd.DataFrame:
    return ran_alone(tmp_path_factory.mktemp("undisturbed"), wide, ONE)


@pytest.mark.skipif(
    not Path("/proc/self/statm").is_file(), reason="reads there how much memory it has"
)
def test_with_too_little_memory(project, wide, undisturbed_wide):
    """Where not even one reply fits, one line says so; what was done is kept."""
    (project / "many.csv").write_text(ONE)
    # each tensor takes new pages, none that an earlier one left; a thread's stack counts as well
    pages = {"MALLOC_MMAP_THRESHOLD_": "131072", "OMP_NUM_THREADS": "1"}
    alone = os.environ | pages | {"TOKENIZERS_PARALLELISM": "false"}
    given = [sys.executable, "-c", LIMITED, str(4 * MB), *command(wide)[3:]]
    spoilt = subprocess.run(
        given, cwd=project, capture_output=True, text=True, env=alone
    )
    assert spoilt.returncode == 2 and "Traceback" not in spoilt.stderr, spoilt.stderr
    assert "too little memory" in spoilt.stderr.splitlines()[-1]
    assert table_in(project) is None
    assert_ends_the_same(project, wide, undisturbed_wide)
