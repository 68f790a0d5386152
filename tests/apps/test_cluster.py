"""Runs by Ray: what is placed where, and drills on two nodes of one machine, each ending with the same tables."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from lib import ROOT, InputError
from lib.models import reward_models
from lib.scoring.engine import score_vocabulary
from lib.tables import scores
from lib.tables.prompts import read_prompts

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -c requirements.lock -e '.[cluster]'")

from ray.cluster_utils import Cluster as Nodes  # noqa: E402

from benchmarks.calibration import measuring, plan  # noqa: E402
from lib.apps.cluster import commands, connection  # noqa: E402
from lib.apps.cluster.placement import Asks, Needs, Node, NoRoom, place  # noqa: E402
from lib.planted import planting  # noqa: E402
from lib.planted import reward_models as small_models  # noqa: E402

GB = 10**9
NAMES = {"one": "A-Gem-48", "two": "D-Lla-48", "three": "E-Gem-64"}  # folder -> whose profile; weights are random
CAN_MOUNT = bool(shutil.which("unshare")) and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0
PATIENCE = 240  # seconds, on a machine on which others compute too


# --- placement ----------------------------------------------------------------------------------------------------

CARDS = Node("cards", cpus=64, gpus=8, memory=512 * GB, card_memory=80 * GB)
HEAD = Node("head", cpus=0, gpus=0, memory=900 * GB)  # that only hands out
SERVER = Node("server", cpus=16, gpus=0, memory=64 * GB)


@pytest.mark.parametrize(
    "memory, models, gpus",
    [
        (10, 1, 1),  # alone it has a whole card
        (10, 8, 1),  # 8 cards for 8 models
        (10, 40, 0.2),  # 8 cards for 40 models, a fifth each, of 16 GB
        (10, 400, 0.15),  # 10 of 76 usable GB, in twentieths
        (65, 400, 0.9),
        (77, 1, 2),  # 77 > 0.95 * 80
        (300, 1, 4),  # 300 / 76 = 3.9
    ],
)
def test_a_model_takes_a_fraction_of_a_card_one_or_several_by_its_memory(memory, models, gpus):
    asks = place("M", Needs(memory * GB, small=False, streams=True), [CARDS, SERVER], models)
    assert (asks.gpus, asks.memory, asks.stream) == (gpus, 0, None)


def test_what_fits_nowhere_is_streamed_or_refused():
    assert place("M", Needs(700 * GB, False, streams=True), [CARDS], 1) == Asks(cpus=1, gpus=1, stream=True)
    with pytest.raises(NoRoom, match="^M takes 700.0 GB, the cards of one node hold 608.0 GB, .*larger cards$"):
        place("M", Needs(700 * GB, False, streams=False), [CARDS], 1)
    assert place("M", Needs(70 * GB, False, streams=True), [SERVER], 1) == Asks(cpus=16, stream=True)
    with pytest.raises(NoRoom, match="^M takes 71.0 GB, the largest node has 64.0 GB, .*; add a larger node$"):
        place("M", Needs(70 * GB, False, streams=False), [SERVER], 1)
    with pytest.raises(NoRoom, match="no node of the cluster has a card; leave device out"):
        place("M", Needs(GB, False, streams=True), [SERVER], 1, device="cuda")


def test_on_cpus_a_small_model_takes_one_core_and_a_large_one_its_node():
    assert place("M", Needs(GB, True, True), [SERVER], 3) == Asks(cpus=1, memory=2 * GB)  # and 1 GB beside the weights
    assert place("M", Needs(GB, False, True), [SERVER], 3) == Asks(cpus=16, memory=2 * GB)
    assert place("M", Needs(GB, False, True), [HEAD, SERVER], 3) == Asks(cpus=16, memory=2 * GB)
    assert place("M", Needs(GB, True, True), [CARDS], 1, device="cpu").gpus == 0


def test_what_is_free_is_compared_with_what_is_asked():
    asks = Asks(cpus=1, gpus=0.5)
    assert asks.fit_into({"CPU": 2, "GPU": 0.5, "memory": 1}) and not asks.fit_into({"CPU": 2})
    assert asks.options() == {"num_cpus": 1, "num_gpus": 0.5}
    assert Asks(1, memory=5).options() == {"num_cpus": 1, "num_gpus": 0, "memory": 5}


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["head", "ray://head", "head:port"])
def test_an_address_without_a_port_is_refused(address):
    with pytest.raises(InputError, match="ON= is 'auto' or the address of a Ray head"):
        connection.refuse_unreachable(address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_head_that_is_not_there_and_a_port_of_another_program_are_refused_soon(scheme, monkeypatch):
    monkeypatch.setattr(connection, "TO_CONNECT", 1)
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as other:  # takes connections, says nothing
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nothing answers
        for port in (closed.getsockname()[1], other.getsockname()[1]):
            with pytest.raises(
                InputError, match=f"^no Ray head answers at {scheme}127.0.0.1:{port}; .*ray start --head"
            ):
                connection.refuse_unreachable(f"{scheme}127.0.0.1:{port}")


def test_a_ray_that_does_not_start_ends_the_process_with_a_line():
    script = """
import time
from lib.apps.cluster.connection import exit_after
with exit_after(0.5, "early"):
    pass
time.sleep(1)
with exit_after(0.5, "late"):
    time.sleep(60)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "error: late\n")


def test_a_node_of_other_versions_or_another_folder_is_refused(tmp_path):
    (tmp_path / "seen").write_text("yes")
    here = connection.look(tmp_path / "seen")
    connection.refuse_other("n1", here, here, tmp_path)  # nothing to say
    for name in ("Python", "the project", "torch"):
        with pytest.raises(InputError, match=f"^node n1 has {name} 0, this process .*; use one commit"):
            connection.refuse_other("n1", connection.Look(here.versions | {name: "0"}, True), here, tmp_path)
    with pytest.raises(InputError, match=f"^node n1 does not see what is written to {tmp_path}; "):
        connection.refuse_other("n1", connection.Look(here.versions, sees=False), here, tmp_path)


# --- what a model needs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear_gemma2", "armorm", "urm", "deberta"])
def test_what_a_model_needs_is_known_without_its_weights(kind, tmp_path):
    folder = str(tiny.make_checkpoint(tmp_path / kind, kind))
    in_file = sum(tensor.numel() for tensor in load_file(f"{folder}/model.safetensors").values())
    needs = commands.needs_of(folder, {"device": "cpu"})
    assert needs.memory == pytest.approx(in_file * 4 * 1.2, abs=1)  # float32, and a fifth beside the weights
    assert (needs.small, needs.streams) == (True, kind != "deberta")


# --- two nodes ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of what the commands need of the project, without notebooks; scores go into it."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", folder / "data", ignore=shutil.ignore_patterns("scores", "cache", "models"))
    shutil.copy(ROOT / "requirements.lock", folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Three embedded models before they are trained: name -> folder. A fourth has a head that holds no numbers."""
    folder, made = tmp_path_factory.mktemp("models"), {}
    for seed, (name, of) in enumerate(NAMES.items()):
        profile = planting.profile(of)
        model = small_models.new_model(profile, seed)
        reward_models.save(folder / name, model.backbone, model.head, profile.head, model.tokenizer)
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
        model = reward_models.load(models[name], device="cpu")
        made[name] = score_vocabulary(model, read_prompts(None), folder / f"{name}.parquet", progress=False)
    return made


def patiently(start):
    """Start a node of Ray, and again where the machine was too busy for the 30 seconds that Ray gives its processes."""
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
    patch.setenv("PYTHONPATH", os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("RAY_worker_niceness", "0")  # else whatever runs beside these tests comes first
    small = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    running = patiently(lambda: Nodes(initialize_head=True, head_node_args=small | {"_system_config": quick}))
    patiently(lambda: running.add_node(**small))
    yield running
    running.shutdown()
    patch.undo()


@pytest.fixture(scope="module")
def joined(nodes):
    """This process, taken in by the nodes once for all tests that need not begin or end a run by itself."""
    with connection.connected(nodes.address):
        yield


@pytest.fixture
def here(joined, project, place_project_in, monkeypatch):
    """Commands of this process are about the copy of the project, and use the Ray that has taken it in."""
    place_project_in(project)
    monkeypatch.setattr(commands, "ROOT", project)
    monkeypatch.setattr(connection, "connected", lambda on: contextlib.nullcontext())


def started(project: Path, *arguments: str) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "lib.run", *arguments], cwd=project, **pipes)


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
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::score_model"):
                found.append(process)
        except psutil.Error:
            continue
    return found


def shards_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.shards/*-0*.rewards"))


def test_killed_workers_and_a_killed_node_leave_the_same_tables(project, models, alone, nodes):
    mine = project / "data" / "scores" / "mine"
    asked = ["score", ",".join(models[name] for name in NAMES), "--on", nodes.address, "--device", "cpu"]
    process = started(project, *asked)
    wait_until(lambda: shards_in(mine) and scorers() or process.poll() is not None)
    killed = scorers()[0]
    os.kill(killed.pid, signal.SIGKILL)
    before = len(shards_in(mine))
    wait_until(lambda: len(shards_in(mine)) > before or list(mine.glob("*.parquet")) or process.poll() is not None)
    assert process.poll() is None and len(list(mine.glob("*.parquet"))) < len(NAMES)  # it is in the middle
    [second] = nodes.worker_nodes
    nodes.remove_node(second, allow_graceful=False)
    code, out, err = finished(process)
    assert code == 0, err
    nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
    assert not killed.is_running()
    for name, table in alone.items():
        pd.testing.assert_frame_equal(scores.read(mine / f"{name}.parquet"), table, check_exact=True)
    assert [path.name for path in mine.iterdir() if path.suffix not in (".parquet", ".lock")] == []
    # What its rewards depend on is the same too; a run of one process would take it for its own.
    held, own = (frame.attrs["metadata"] for frame in (scores.read(mine / "one.parquet"), alone["one"]))
    assert held.keys() == own.keys()
    assert {key for key in held if held[key] != own[key]} <= {"start", "seconds"}


def test_a_second_run_computes_nothing(project, models, here):
    all_three = ",".join(models[name] for name in NAMES)
    assert commands.score("here", all_three, device="cpu") == 0  # most often the drill before this one has done it
    written = {path: path.stat().st_mtime_ns for path in (project / "data" / "scores" / "mine").glob("*.parquet")}
    assert len(written) == len(NAMES) and commands.score("here", all_three, device="cpu") == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_model_that_raises_fails_alone(project, models, here, capsys):
    both = f"{models['bad']},{models['one']}"
    assert commands.run("score", "here", name=both, prompts="best", tokens=60) == 1
    [told] = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert told.startswith("bad failed: the reward of token ") and told.endswith("download the checkpoint again")
    assert len(scores.read(project / "data" / "scores" / "mine-sample-60" / "one.parquet")) == 60
    wait_until(lambda: not scorers() and ray.available_resources().get("CPU") == 2)  # and it holds nothing any more


def wait(seconds: float) -> None:
    time.sleep(seconds)


def test_a_model_for_which_no_node_is_left_is_given_up(joined):
    large, small = Asks(cpus=3), Asks(cpus=1)
    waits = connection.task(wait, large, 0)
    with pytest.raises(NoRoom, match="^M: for 0 s no node .*; add one, and run the same command again"):
        list(connection.as_they_end({"M": (waits, large)}, patience=0.2, every=0.1))
    ray.cancel(waits)
    # One that could hold it is there, though it is busy for a while.
    assert len(list(connection.as_they_end({"M": (connection.task(wait, small, 1), small)}, 0.2, 0.1))) == 1


def test_a_model_that_is_not_there_and_a_device_that_is_not_there_are_one_line_each(models, here):
    with pytest.raises(InputError, match="no/such-model"):
        commands.score("here", "no/such-model")
    with pytest.raises(NoRoom, match="no node of the cluster has a card; leave device out$"):
        commands.score("here", models["two"], device="cuda", tokens=50)
    with pytest.raises(InputError, match=r"^implicit rewards \(REFERENCE\) are scored in one process; leave ON out$"):
        commands.score("here", models["two"], reference=models["one"])


NOTEBOOK = """
from lib.tables import scores
from lib.tables.collection import Collection
len(scores.read_all(Collection(collection)))
"""
SCORING = """
from lib.models import reward_models
from lib.scoring import engine
from lib.tables import scores
from lib.tables.collection import Collection
from lib.tables.prompts import read_prompts
loaded = reward_models.load(model, device="cpu")
path = scores.path_of(Collection(collection), loaded.nickname)
ids = engine.sample(loaded, tokens)
len(engine.score_vocabulary(loaded, read_prompts(prompts), path, token_ids=ids, progress=False))
"""
PARAMETERS = 'model = "x"\ncollection = "mine"\nprompts = "best"\ntokens = 50\nreply_mode = "text"\nbos = "single"'


def test_notebooks_run_after_their_tables_and_a_failing_model_fails_alone(project, models, nodes, write_notebook):
    write_notebook(project / "notebooks" / "01_score.ipynb", SCORING, parameters=PARAMETERS)
    write_notebook(project / "notebooks" / "02_all.ipynb", NOTEBOOK)
    asked = ["reproduce", "--models", models["bad"], models["three"], "--collection", "ours", "--on", nodes.address]
    code, out, err = finished(started(project, *asked))
    assert code == 1, err
    [failed] = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert failed.startswith("failed: 01_score-bad: ") and "the reward of token " in failed
    assert "Notebooks: 2 run, 1 failed." in out.splitlines()
    assert (project / "figures" / "ours" / "02_all.html").is_file()
    code, out, err = finished(started(project, *asked))
    assert code == 1 and "Notebooks: 2 unchanged, 1 failed." in out.splitlines(), err


def test_calibration_by_ray_measures_what_one_process_measures(joined, tmp_path):
    some = plan.planned(1, seeds=1)[:2]
    assert {node.cpus for node in connection.nodes_of(tmp_path)} == {1}
    measuring.measure(some, tmp_path / "ray", steps=2, progress=False, each=commands.each)
    measuring.measure(some[:1], tmp_path / "alone", steps=2, progress=False)
    ours, alone = (measuring.read(some, tmp_path / name, steps=2) for name in ("ray", "alone"))
    assert len(ours) == 2 and np.array_equal(ours[0].rewards, alone[0].rewards)


@pytest.mark.parametrize("how, code", [(signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_whatever_ends_the_driver_nothing_of_its_own_ray_goes_on(project, models, how, code):
    """Asked to end while its Ray is starting up workers; killed in the middle of the scoring."""
    process = started(project, "score", models["one"], "--on", "auto", "--device", "cpu", "--collection", how.name)
    if how == signal.SIGTERM:
        assert process.stdout.readline().startswith("Ray's dashboard: ")
    else:
        wait_until(lambda: shards_in(project / "data" / "scores" / how.name) or process.poll() is not None)
    begun = psutil.Process(process.pid).children(recursive=True)
    assert any("raylet" in one.name() for one in begun)
    process.send_signal(how)
    sent = time.monotonic()
    ended, _, err = finished(process)
    assert ended == code and (how == signal.SIGKILL or "interrupted; the same command goes on from here" in err)
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in begun))
    assert time.monotonic() - sent < 55  # Ray's own agents would go on for a minute


@pytest.mark.skipif(not CAN_MOUNT, reason="a small disk is mounted for this, which is not allowed here")
def test_on_a_full_disk_one_line_says_so_and_the_next_run_goes_on(project, here, tmp_path):
    """In a namespace of its own, on a Ray of its own: scores on a disk of 32 kB."""
    model = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    prompts = {f"p{i}": f"Why {i}?" for i in range(12)}
    (tmp_path / "many.csv").write_text("prompt,text\n" + "".join(f"{name},{text}\n" for name, text in prompts.items()))
    asked = ["score", str(model), "--prompts", str(tmp_path / "many.csv"), "--collection", "disk", "--on", "auto"]
    script = (
        'mount -t tmpfs -o size=32k tmpfs data/scores && "$@"; code=$?; cp -a data/scores/. kept/; '
        "umount data/scores; exit $code"
    )
    (project / "kept").mkdir()
    command = ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-m", "lib.run", *asked]
    (project / "data" / "scores").mkdir(exist_ok=True)
    spoilt = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert spoilt.returncode == 2, spoilt.stderr
    assert "the disk is full" in spoilt.stderr.splitlines()[-1] and "Traceback" not in spoilt.stderr
    kept = shards_in(project / "kept" / "disk")
    assert 0 < len(kept) < len(prompts)  # what was scored is there, and goes on
    shutil.copytree(project / "kept", project / "data" / "scores", dirs_exist_ok=True)
    assert commands.score("here", str(model), str(tmp_path / "many.csv"), "disk") == 0
    alone = score_vocabulary(reward_models.load(model), prompts, tmp_path / "alone.parquet", progress=False)
    table = scores.read(project / "data" / "scores" / "disk" / "model.parquet")
    pd.testing.assert_frame_equal(table, alone, check_exact=True)
