"""The one command for a machine with a GPU runs here on the CPU, with none of the packages that
it lacks there.
"""

import subprocess
import sys

from lib import ROOT

WITHOUT = ("wordfreq", "nbformat", "papermill", "pingouin", "vaderSentiment")
START = f"""
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {WITHOUT}:
            raise ImportError(name)

sys.meta_path.insert(0, Refusing())
"""


def started(code: str) -> subprocess.CompletedProcess:
    """Run code in a process that refuses to import these packages."""
    return subprocess.run(
        [sys.executable, "-c", START + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_section_runs_small_on_the_cpu(tmp_path):
    out = tmp_path / "table.md"
    given = ["--device", "cpu", "--small", "--out", str(out)]
    done = started(f"from benchmarks import gpu\nsys.exit(gpu.main({given}))")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in out.read_text().splitlines()[2:]]
    took = [section for section, what, _ in rows if what == "took, s"]
    assert took == [
        "machine",
        "both-devices",
        "llama",
        "search",
        "gemma",
        "tests",
    ]
    values = {what: value for _, what, value in rows}
    assert (
        values["Llama-3.1-8B: shares its prefix"]
        == values["Gemma-2-27B: shares its prefix"]
        == "yes"
    )
    assert "passed" in values["tests"] and "failed" not in values["tests"]


def test_other_benchmarks_that_a_card_runs_start_without_these_packages_too():
    names = "benchmarks.scoring"
    done = started(f"import {names}")
    assert done.returncode == 0, done.stderr


def test_a_section_that_fails_leaves_a_line_and_the_next_one_runs(
    monkeypatch, tmp_path, capsys
):
    from benchmarks import gpu

    monkeypatch.setitem(
        gpu.SECTIONS, "both-devices", lambda asked: iter([("half", 1 / len([]))])
    )
    monkeypatch.setitem(gpu.SECTIONS, "machine", lambda asked: iter([("rate", 3.0)]))
    out = tmp_path / "table.md"
    assert (
        gpu.main(
            ["both-devices", "machine", "--device", "cpu", "--small", "--out", str(out)]
        )
        == 1
    )
    assert "ZeroDivisionError" in out.read_text() and "rate | 3" in out.read_text()
