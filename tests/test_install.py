"""environment.yml, which conda and Binder read, in an environment that holds nothing."""

import shlex
import subprocess
import venv

import pytest

from lib import ROOT

OPENED = "import lib, jupyterlab; from lib.show import charts, notebook"


@pytest.mark.nightly
def test_the_install_line_of_environment_yml_brings_what_a_notebook_needs(tmp_path):
    """pip gets the line that conda would give it, and downloads about 2 GB from the registry."""
    _, lines = (ROOT / "environment.yml").read_text("utf-8").split("- pip:\n")
    asked = shlex.split(lines.replace("      - ", ""), comments=True)
    assert asked == ["-c", "requirements.lock", "-e", ".[dev]"]
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    for command in (
        ["-m", "pip", "install", "-q", *asked],
        ["-c", OPENED],
        ["-m", "lib.run", "--help"],
    ):
        run = subprocess.run(
            [python, *command], cwd=ROOT, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
    assert "published" in run.stdout
