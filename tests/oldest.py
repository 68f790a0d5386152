"""Run the tests of models, scoring and search with the oldest versions that pyproject.toml allows.

Run: python tests/oldest.py (make nightly does). The oldest torch is not installed: it is a download
of several gigabytes. The other packages are put in front of the installed ones, for one run and in
a temporary folder.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTED = ["tests/models", "tests/scoring", "tests/search"]
BESIDE = ["huggingface_hub<2"]  # what older versions of transformers ask for


def oldest() -> list[str]:
    """Return the packages with a lower bound, each as a requirement of that version; without
    torch.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    bounds = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in project["dependencies"]]
    return [
        f"{found[1]}=={found[2]}" for found in bounds if found and found[1] != "torch"
    ]


def main() -> int:
    """Return the exit status of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            folder,
        ]
        subprocess.run([*pip, *oldest(), *BESIDE], check=True)
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        tests = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not nightly and not slow",
            *TESTED,
        ]
        return subprocess.run(tests, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
