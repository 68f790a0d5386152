"""The one command for a machine with a GPU runs here on the CPU, with none of the packages that
it lacks there.
"""

import subprocess
import sys

import pytest

from lib import ROOT

START = """
import sys
for name in ("wordfreq", "nbformat", "papermill", "pingouin", "vaderSentiment"):
    sys.modules[name] = None  # as if it were not installed
from benchmarks import gpu
gpu.main(["--device", "cpu", "--small", "--out", sys.argv[1]])
"""


@pytest.mark.nightly
def test_every_section_runs_small_on_the_cpu(tmp_path):
    out = tmp_path / "table.md"
    command = [sys.executable, "-c", START, str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = out.read_text().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    values = {(section, what): value for section, what, value in rows}
    for name in ("Llama-3.1-8B", "Gemma-2-27B"):
        apart = values[name, "largest difference from whole conversations, sd"]
        assert float(apart) < 0.3  # small random models, in bfloat16
