"""Runs by Ray: what is placed where, and drills on two nodes of one machine, each ending with
the same tables.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from audit.opening import open_model
from lib import ROOT, InputError
from lib.models import reward_models
from lib.scoring.vocabulary import score_vocabulary
from lib.tables import scores
from lib.tables.prompts import read_prompts

ray = pytest.importorskip(
    "ray",
    reason="Ray is not installed: pip install -c requirements.lock -e '.[cluster]'",
)

from ray.cluster_utils import Cluster as Nodes  # noqa: E402

from audit.cluster import commands  # noqa: E402
from lib.trained import planting, small_models  # noqa: E402

GB = 10**9
# folder -> whose profile; weights are random
NAMES = {"one": "A-Gem-48", "two": "D-Lla-48", "three": "E-Gem-64"}
PATIENCE = 240  # seconds, on a machine on which others compute too

NODE = {"CPU": 16, "GPU": 8, "memory": 64 * GB}


@pytest.mark.parametrize(
    "memory, gpus",
    [
        (10, 0.15),  # 10 of 76 usable GB, in twentieths
        (77, 1),  # 77 > 0.95 * 80: layer by layer
    ],
)
def test_a_model_takes_a_fraction_of_a_card_by_its_memory(memory, gpus):
    asks = {"num_cpus": 1, "num_gpus": gpus}
    assert commands.place(memory * GB, NODE, card=80 * GB) == asks


def test_on_cpus_a_model_takes_the_cores_of_a_node():
    assert commands.place(GB, NODE, 0) == {"num_cpus": 16, "memory": GB}
    assert commands.place(70 * GB, NODE, 0) == {"num_cpus": 16}  # layer by layer


@pytest.mark.parametrize("address", ["head", "ray://head", "head:port", "127.0.0.1:1"])
def test_where_no_head_answers_one_line_says_so(address):
    with pytest.raises(
        InputError, match=f"^no Ray head answers at '{address}' .*ray start --head"
    ):
        commands.reproduce(address)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of what the commands need of the project, without notebooks; scores go into it."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(
        ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(
        ROOT / "data",
        folder / "data",
        ignore=shutil.ignore_patterns("scores", "cache", "models"),
    )
    shutil.copy(ROOT / "requirements.lock", folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Three embedded models before they are trained: name -> folder. A fourth has a head that
    holds no numbers.
    """
    folder, made = tmp_path_factory.mktemp("models"), {}
    for seed, (name, of) in enumerate(NAMES.items()):
        profile = planting.profile(of)
        model = small_models.new_model(profile, seed)
        reward_models.save(
            folder / name, model.backbone, model.head, profile.head, model.tokenizer
        )
        made[name] = str(folder / name)
    shutil.copytree(folder / "one", folder / "bad")
    tensors = load_file(folder / "bad" / "model.safetensors")
    tensors["score.weight"] = torch.full_like(tensors["score.weight"], torch.nan)
    save_file(tensors, folder / "bad" / "model.safetensors", metadata={"format": "pt"})
    return made | {"bad": str(folder / "bad")}


@pytest.fixture(scope="module")
def alone(models, tmp_path_factory) -> dict[str, pd.DataFrame]:
    """The tables of the three models, each scored in one process."""
    folder, made = tmp_path_factory.mktemp("alone"), {}
    for name in NAMES:
        model = open_model(models[name], device="cpu")
        made[name] = score_vocabulary(
            model, read_prompts(None), folder / f"{name}.parquet", progress=False
        )
    return made


def patiently(start):
    """Start a node of Ray, and again where the machine was too busy for the 30 seconds that Ray
    gives its processes.
    """
    for is_last in (False, False, True):
        try:
            return start()
        except Exception as error:
            if is_last or "timed out during startup" not in str(error):
                raise


@pytest.fixture(scope="module")
def nodes(project):
    """A head and another node, with one core each."""
    patch = pytest.MonkeyPatch()
    patch.setenv(
        "PYTHONPATH", os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])
    )
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # else whatever runs beside these tests comes first
    patch.setenv("RAY_worker_niceness", "0")
    small = {
        "num_cpus": 1,
        "object_store_memory": 100_000_000,
        "include_dashboard": False,
    }
    quick = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_failure_threshold": 5,
    }
    running = patiently(
        lambda: Nodes(
            initialize_head=True, head_node_args=small | {"_system_config": quick}
        )
    )
    patiently(lambda: running.add_node(**small))
    yield running
    running.shutdown()
    patch.undo()


def started(project: Path, *arguments: str) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, "-m", "audit", *arguments], cwd=project, **pipes
    )


def finished(process: subprocess.Popen) -> tuple[int, str, str]:
    """The exit code, and what was told on both streams."""
    try:
        out, err = process.communicate(timeout=2 * PATIENCE)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    return process.returncode, out, err


def wait_until(condition) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.05)


def scorers() -> list[psutil.Process]:
    """Return the processes in which models are scored: of nodes that this process has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith(
                "ray::score_model"
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def shards_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.shards/*-0*.rewards"))


def test_killed_workers_and_a_killed_node_leave_the_same_tables(
    project, models, alone, nodes
):
    mine = project / "data" / "scores" / "mine"
    asked = [
        "score",
        ",".join(models[name] for name in NAMES),
        "--on",
        nodes.address,
        "--device",
        "cpu",
    ]
    process = started(project, *asked)
    wait_until(lambda: shards_in(mine) and scorers() or process.poll() is not None)
    killed = scorers()[0]
    os.kill(killed.pid, signal.SIGKILL)
    before = len(shards_in(mine))
    wait_until(
        lambda: (
            len(shards_in(mine)) > before
            or list(mine.glob("*.parquet"))
            or process.poll() is not None
        )
    )
    # it is in the middle
    assert process.poll() is None and len(list(mine.glob("*.parquet"))) < len(NAMES)
    [second] = nodes.worker_nodes
    nodes.remove_node(second, allow_graceful=False)
    code, out, err = finished(process)
    assert code == 0, err
    nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
    assert not killed.is_running()
    for name, table in alone.items():
        pd.testing.assert_frame_equal(
            scores.read(mine / f"{name}.parquet"), table, check_exact=True
        )
    assert [
        path.name for path in mine.iterdir() if path.suffix not in (".parquet", ".lock")
    ] == []
    # What its rewards depend on is the same too; a run of one process would take it for its own.
    held, own = (
        frame.attrs["metadata"]
        for frame in (scores.read(mine / "one.parquet"), alone["one"])
    )
    assert held.keys() == own.keys()
    assert {key for key in held if held[key] != own[key]} <= {"start", "seconds"}


def test_a_model_that_raises_fails_alone(project, models, nodes):
    """A second run computes nothing again."""
    asked = [
        "score",
        ",".join([models["bad"], models["one"]]),
        "--prompts",
        "best",
        "--tokens",
        "60",
    ]
    code, out, err = finished(started(project, *asked, "--on", nodes.address))
    assert code == 1, err
    [told] = [line for line in out.splitlines() if "failed" in line]
    assert told.startswith("bad failed: the reward of the reply ") and told.endswith(
        "download the checkpoint again"
    )
    path = project / "data" / "scores" / "mine-sample-60" / "one.parquet"
    written = path.stat().st_mtime_ns
    assert len(scores.read(path)) == 60
    assert finished(started(project, *asked, "--on", nodes.address))[0] == 1
    assert path.stat().st_mtime_ns == written


NOTEBOOK = """
from lib.tables import scores
from lib.tables.collection import Collection
len(scores.read_all(Collection(collection)))
"""
SCORING = """
from lib.models import conversations, reward_models
from lib.scoring import vocabulary
from lib.tables import scores
from lib.tables.collection import Collection
from lib.tables.prompts import read_prompts
loaded = open_model(model, device="cpu")
path = scores.path_of(Collection(collection), loaded.nickname)
known = conversations.vocabulary(loaded.tokenizer)["token_id"]
ids = known.sample(tokens, random_state=0).tolist()
len(vocabulary.score_vocabulary(loaded, read_prompts(prompts), path, token_ids=ids, progress=False))
"""
PARAMETERS = (
    'model = "x"\ncollection = "mine"\nprompts = "best"\ntokens = 50\nreply_mode = '
    '"text"\nbos = "single"'
)


def test_notebooks_run_after_their_tables_and_a_failing_model_fails_alone(
    project, models, nodes, write_notebook
):
    write_notebook(
        project / "notebooks" / "01_score.ipynb", SCORING, parameters=PARAMETERS
    )
    write_notebook(project / "notebooks" / "02_all.ipynb", NOTEBOOK)
    asked = [
        "reproduce",
        "--models",
        models["bad"],
        models["three"],
        "--collection",
        "ours",
        "--on",
        nodes.address,
    ]
    code, out, err = finished(started(project, *asked))
    assert code == 1, err
    [failed] = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert (
        failed.startswith("failed: 01_score-bad: ")
        and "the reward of the reply " in failed
    )
    assert "Notebooks: 2 run, 1 failed." in out.splitlines()
    assert (project / "figures" / "ours" / "02_all.html").is_file()
    code, out, err = finished(started(project, *asked))
    assert code == 1 and "Notebooks: 2 unchanged, 1 failed." in out.splitlines(), err


def test_a_killed_driver_leaves_nothing_behind_and_the_next_run_the_same_table(
    project, models, alone
):
    """On a Ray of its own, in the middle of the scoring."""
    asked = [
        "score",
        models["one"],
        "--on",
        "auto",
        "--device",
        "cpu",
        "--collection",
        "killed",
    ]
    process = started(project, *asked)
    wait_until(
        lambda: (
            shards_in(project / "data" / "scores" / "killed")
            or process.poll() is not None
        )
    )
    begun = psutil.Process(process.pid).children(recursive=True)
    assert any("raylet" in one.name() for one in begun)
    process.kill()
    assert finished(process)[0] == -signal.SIGKILL
    wait_until(
        lambda: (
            not any(
                one.is_running() and one.status() != psutil.STATUS_ZOMBIE
                for one in begun
            )
        )
    )
    assert finished(started(project, *asked))[0] == 0
    table = scores.read(project / "data" / "scores" / "killed" / "one.parquet")
    pd.testing.assert_frame_equal(table, alone["one"], check_exact=True)
