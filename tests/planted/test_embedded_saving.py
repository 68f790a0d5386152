"""Trained models as folders: what makes them stale, who trains them, and that no half of one is ever seen."""

import ast
import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from plain_profile import PLAIN

from lib import ROOT
from lib.planted import language_models, reward_models, saving

CODE = {"reward": [*saving.CODE, *reward_models.CODE], "language": [*saving.CODE, *language_models.CODE]}

# What the hashed code imports, and what is not hashed itself: the reason stands beside saving.CODE, or here.
LEFT_OUT = {
    "lib": "the project's folder and its error",
    "lib.models.shared_prefix": "see saving.CODE",
    "lib.models.reward_models": "holds a model, loads and saves one",
    "lib.models.checkpoints": "opens and saves checkpoints",
    "lib.models.tokenizers": "opens and refuses the tokenizers of others; bases.py opens those that ship",
    "lib.models.hardware": "one thread",
    "lib.models.files": "finds and opens the files of checkpoints",
    "lib.planted.saving": "what is done with weights that are there",
}


def imports_of(path: Path) -> set[str]:
    """The modules of this project that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            parents = path.relative_to(ROOT).parts[: -node.level]
            module = ".".join([*parents, node.module] if node.module else parents)
            is_file = (ROOT / module.replace(".", "/")).with_suffix(".py").is_file()
            names |= {module} if is_file else {submodule_or(module, alias.name) for alias in node.names}
    return names


def submodule_or(package: str, name: str) -> str:
    path = ROOT / package.replace(".", "/") / f"{name}.py"
    return f"{package}.{name}" if path.is_file() else package


@pytest.mark.parametrize("kind", CODE)
def test_all_code_that_decides_weights_is_hashed(kind):
    hashed = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CODE[kind]}
    imported = set().union(*(imports_of(path) for path in CODE[kind]))
    assert imported - hashed - set(LEFT_OUT) == set()  # a new import: add it to CODE, or here with its reason


@pytest.fixture
def code(tmp_path, monkeypatch) -> dict[str, Path]:
    """Copies of the files whose code decides the weights, by name; the fingerprints are taken of these."""
    paths = {path: tmp_path / f"{path.parent.name}-{path.name}" for path in {*CODE["reward"], *CODE["language"]}}
    for path, copied in paths.items():
        shutil.copy(path, copied)
    for module in (saving, reward_models, language_models):
        monkeypatch.setattr(module, "CODE", tuple(paths[path] for path in module.CODE))
    return {"/".join(path.parts[-2:]): copied for path, copied in paths.items()}


def fingerprints() -> tuple[str, str]:
    return reward_models.fingerprint(PLAIN), language_models.fingerprint("lla")


def replace_once(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path} does not hold {old!r} once"
    path.write_text(text.replace(old, new))


def test_edited_docstrings_and_comments_train_nothing_anew(code):
    before = fingerprints()
    for path in code.values():
        lines = path.read_text().split("\n")
        assert lines[0].startswith('"""')
        lines[0] = '"""Better said: ' + lines[0][3:]
        path.write_text("\n".join(lines) + "\n# and with another comment\n")
    replace_once(code["planted/training.py"], "Return the share of the full rate", "Return how much of the full rate")
    assert fingerprints() == before


@pytest.mark.parametrize(
    ("name", "old", "new", "stale"),
    [
        ("planted/planting.py", "COMMON_ZIPF = 3.5", "COMMON_ZIPF = 3.6", (True, True)),
        ("planted/reward_models.py", "rate: float = 4e-3", "rate: float = 4.1e-3", (True, False)),
        ("models/heads.py", "temperature=10.0", "temperature=11.0", (True, False)),
        ("planted/language_models.py", "ANSWERS = 12_000", "ANSWERS = 12_001", (False, True)),
    ],
)
def test_edited_code_trains_anew_what_it_decides(code, name, old, new, stale):
    before = fingerprints()
    replace_once(code[name], old, new)
    assert tuple(one != other for one, other in zip(fingerprints(), before, strict=True)) == stale


# --- folders ------------------------------------------------------------------------------------------------------


def write_reports(job: saving.Job) -> None:
    for nickname in job.nicknames:
        saving.save({"nickname": nickname}, job.fingerprint, job.folder, lambda folder: folder.mkdir())


def train_nothing(job: saving.Job) -> None:
    pytest.fail("trained again")


def job(folder: Path, *nicknames: str, train=write_reports) -> saving.Job:
    return saving.Job(nicknames, "made-from-this", ("settings",), folder, train)


def test_a_job_is_done_when_all_its_models_are_there(tmp_path):
    pair = job(tmp_path, "LM", "LM-it")
    write_reports(job(tmp_path, "LM"))
    assert not pair.is_done()
    write_reports(job(tmp_path, "LM-it"))
    assert pair.is_done()
    assert not saving.Job(pair.nicknames, "made-from-that", (), tmp_path, write_reports).is_done()
    assert pickle.loads(pickle.dumps(pair)) == pair  # it can be given to another process


def test_a_model_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path):
    write_reports(job(tmp_path, "A"))

    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").touch()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        saving.save({"nickname": "A"}, "made-from-that", tmp_path, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["A"]
    assert saving.report_of("A", tmp_path)["fingerprint"] == "made-from-this"


DAMAGED = {"cut": b'{"nickname": "A", "finger', "bytes": b"\xff",
           "another's": b'{"nickname": "B", "fingerprint": "made-from-this"}'}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_report_is_told_and_the_model_trained_again(tmp_path, capsys, damage):
    whole, spoilt = job(tmp_path, "W"), job(tmp_path, "A")
    write_reports(whole)
    write_reports(spoilt)
    (tmp_path / "A" / "training.json").write_bytes(DAMAGED[damage])
    assert saving.report_of("A", tmp_path) is None
    table = saving.train_missing([whole, spoilt], processes=1, progress=False)
    assert table["trained"].to_dict() == {"W": False, "A": True}
    [told] = capsys.readouterr().out.splitlines()
    assert told == f"{tmp_path / 'A' / 'training.json'} is damaged, so A is trained again"
    current = [replace(one, train=train_nothing) for one in (whole, spoilt)]
    again = saving.train_missing(current, processes=1, progress=False)
    assert not again["trained"].any() and capsys.readouterr().out == ""


def test_what_another_process_trained_meanwhile_is_taken(tmp_path):
    wanted = job(tmp_path, "A", train=train_nothing)
    waited = threading.Event()
    with FileLock(tmp_path / ".A.lock", thread_local=False):
        thread = threading.Thread(target=lambda: (wanted.run(), waited.set()))
        thread.start()
        assert not waited.wait(0.2)
        write_reports(wanted)
    thread.join(10)
    assert waited.is_set() and wanted.is_done()


def test_one_model_is_trained_first_and_then_the_largest(tmp_path):
    order = []

    def train(job: saving.Job) -> None:
        order.append(job.nicknames[0])
        write_reports(job)

    sizes = {"small": 1, "large": 3, saving.FIRST: 2}
    jobs = [saving.Job((name,), "made", (), tmp_path, train, size) for name, size in sizes.items()]
    assert saving.train_missing(jobs, processes=1, progress=False)["trained"].all()
    assert order == [saving.FIRST, "large", "small"]
