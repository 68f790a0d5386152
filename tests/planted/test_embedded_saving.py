"""Trained models as folders: what makes them stale, who trains them, and that no half of one is
ever seen.
"""

import ast
import pickle
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from plain_profile import PLAIN

from lib import ROOT
from lib.planted import language_models, reward_models, saving

CODE = {
    "reward": [*saving.CODE, *reward_models.CODE],
    "language": [*saving.CODE, *language_models.CODE],
}

# What the hashed code imports, and what is not hashed itself: the reason stands beside saving.CODE,
# or here.
LEFT_OUT = {
    "lib": "the project's folder and its error",
    "lib.scoring.reader": "see saving.CODE",
    "lib.models.reward_models": "holds a model, loads and saves one",
    "lib.models.checkpoints": "opens and saves checkpoints",
    "lib.models.tokenizers": "opens and refuses the tokenizers of others; bases.py opens those "
    "that ship",
    "lib.models.hardware": "one thread",
    "lib.models.files": "finds and opens the files of checkpoints",
    "lib.planted.saving": "what is done with weights that are there",
}


def imports_of(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = ".".join(
                [
                    *path.relative_to(ROOT).parts[: -node.level],
                    *([node.module] if node.module else []),
                ]
            )
            deeper = {f"{start}.{alias.name}" for alias in node.names}
            modules = {
                name
                for name in deeper
                if ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()
            }
            names |= modules | ({start} if deeper - modules else set())
    return names


@pytest.mark.parametrize("kind", CODE)
def test_all_code_that_decides_weights_is_hashed(kind):
    hashed = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in CODE[kind]
    }
    imported = set().union(*map(imports_of, CODE[kind]))
    # a new import: add it to CODE, or here with its reason
    assert imported - hashed - set(LEFT_OUT) == set()


@pytest.fixture
def code(tmp_path, monkeypatch) -> dict[str, Path]:
    """Copies of the files whose code decides the weights, by name; the fingerprints are taken of
    these.
    """
    paths = {
        path: tmp_path / f"{path.parent.name}-{path.name}"
        for path in {*CODE["reward"], *CODE["language"]}
    }
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


@pytest.mark.parametrize(
    ("name", "old", "new", "stale"),
    [
        ("planted/planting.py", "COMMON_ZIPF = 3.5", "COMMON_ZIPF = 3.6", (True, True)),
        (
            "planted/training.py",
            "share of the full rate",
            "part of the full rate",
            (False, False),
        ),
        (
            "planted/reward_models.py",
            "rate: float = 4e-3",
            "rate: float = 4.1e-3",
            (True, False),
        ),
        (
            "planted/language_models.py",
            "ANSWERS = 12_000",
            "ANSWERS = 12_001",
            (False, True),
        ),
    ],
)
def test_edited_code_trains_anew_what_it_decides_and_no_edited_comment_does(
    code, name, old, new, stale
):
    before = fingerprints()
    replace_once(code[name], old, new)
    assert (
        tuple(one != other for one, other in zip(fingerprints(), before, strict=True))
        == stale
    )


def write_reports(folder: Path, *nicknames: str) -> None:
    for nickname in nicknames:
        saving.save(
            {"nickname": nickname}, "made-from-this", folder, lambda part: part.mkdir()
        )


def train_nothing() -> None:
    pytest.fail("trained again")


def job(folder: Path, *nicknames: str) -> saving.Job:
    return saving.Job(
        nicknames, "made-from-this", folder, partial(write_reports, folder, *nicknames)
    )


def test_a_job_is_done_when_all_its_models_are_there(tmp_path):
    pair = job(tmp_path, "LM", "LM-it")
    write_reports(tmp_path, "LM")
    assert not pair.is_done()
    write_reports(tmp_path, "LM-it")
    # it can be given to another process
    assert pair.is_done() and pickle.loads(pickle.dumps(pair)).is_done()
    assert not replace(pair, fingerprint="made-from-that").is_done()


def test_a_model_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path):
    write_reports(tmp_path, "A")

    def fail(folder: Path) -> None:
        folder.mkdir()
        (folder / "model.safetensors").touch()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        saving.save({"nickname": "A"}, "made-from-that", tmp_path, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["A"]
    assert saving.report_of("A", tmp_path)["fingerprint"] == "made-from-this"


@pytest.mark.parametrize(
    "damage",
    [
        b'{"nickname": "A", "finger',
        b'{"nickname": "B", "fingerprint": "made-from-this"}',
    ],
)
def test_a_damaged_report_is_told_and_the_model_trained_again(tmp_path, capsys, damage):
    whole, spoilt = job(tmp_path, "W"), job(tmp_path, "A")
    write_reports(tmp_path, "W", "A")
    (tmp_path / "A" / "training.json").write_bytes(damage)
    assert saving.report_of("A", tmp_path) is None
    table = saving.train_missing([whole, spoilt], processes=1, progress=False)
    assert table["trained"].to_dict() == {"W": False, "A": True}
    [told] = capsys.readouterr().out.splitlines()
    assert (
        told == f"{tmp_path / 'A' / 'training.json'} is damaged, so A is trained again"
    )
    current = [replace(one, train=train_nothing) for one in (whole, spoilt)]
    again = saving.train_missing(current, processes=1, progress=False)
    assert not again["trained"].any() and capsys.readouterr().out == ""


def test_what_another_process_trained_meanwhile_is_taken(tmp_path):
    wanted = replace(job(tmp_path, "A"), train=train_nothing)
    waited = threading.Event()
    with FileLock(tmp_path / ".A.lock", thread_local=False):
        thread = threading.Thread(target=lambda: (wanted.run(), waited.set()))
        thread.start()
        assert not waited.wait(0.2)
        write_reports(tmp_path, "A")
    thread.join(10)
    assert waited.is_set() and wanted.is_done()
