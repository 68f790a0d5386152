"""Plant the faults of tests/faults.md one at a time in a clone of what is committed, and show that
the named tests fail.

python tests/faults.py              all faults
python tests/faults.py 3 17         only these
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
FAULT = re.compile(
    r"^## (\d+) (.+?)\n```diff\n(.+?)\n```\ntests: (.+?)$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Fault:
    """One fault. before, after: lines of code; tests: files of tests, and options of pytest."""

    number: int
    name: str
    before: str
    after: str
    tests: list[str]


def faults() -> list[Fault]:
    """Return the faults of tests/faults.md, in order."""
    found = []
    for number, name, diff, tests in FAULT.findall(
        (TESTS / "faults.md").read_text(encoding="utf-8")
    ):
        lines = diff.splitlines()
        before, after = (
            "\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+"
        )
        found.append(Fault(int(number), name, before, after, tests.split()))
    return found


def plant(fault: Fault, project: Path) -> Path:
    """Write the fault into the one file of lib or audit that holds its code; return the file."""
    files = [
        path
        for package in ("lib", "audit")
        for path in (project / package).rglob("*.py")
        if fault.before in path.read_text(encoding="utf-8")
    ]
    if len(files) != 1:
        raise SystemExit(
            f"fault {fault.number}: {len(files)} files hold {fault.before!r}; bring "
            "tests/faults.md up to date"
        )
    text = files[0].read_text(encoding="utf-8")
    files[0].write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    return files[0]


def is_caught(fault: Fault, project: Path) -> bool:
    """Return whether a named test fails with the fault in place. SystemExit where none was run."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    for word in fault.tests:
        found = [*map(str, (project / "tests").rglob(word))]
        command += found if word.endswith(".py") else [word]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(project)}
    ran = subprocess.run(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True
    )
    if ran.returncode not in (0, 1):
        raise SystemExit(f"fault {fault.number}: {ran.stdout[-2000:]}")
    return ran.returncode == 1


def main() -> int:
    numbers = [int(word) for word in sys.argv[1:]]
    chosen = [each for each in faults() if not numbers or each.number in numbers]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        subprocess.run(["git", "clone", "--quiet", ROOT, project], check=True)
        for name in ("scores", "models", "cache"):  # large, and only read
            (project / "data" / name).symlink_to(ROOT / "data" / name)
        for fault in chosen:
            file = plant(fault, project)
            caught = is_caught(fault, project)
            shutil.copyfile(ROOT / file.relative_to(project), file)
            print("caught:" if caught else "MISSED:", fault.number, fault.name)
            missed += [] if caught else [fault.number]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults are caught.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
