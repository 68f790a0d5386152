"""Plant the faults of tests/faults.md one at a time in a copy of lib, and show that the named tests
fail.

python tests/faults.py              all faults
python tests/faults.py 3 17         only these
python tests/faults.py --quick      whether the quick tests alone catch each: with -m "not slow"
"""

import argparse
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


def plant(fault: Fault, lib: Path) -> Path:
    """Write the fault into the one file of lib that holds its code; return the file."""
    files = [
        path
        for path in lib.rglob("*.py")
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


def is_caught(fault: Fault, project: Path, quick: bool) -> bool:
    """Return whether a named test fails with the fault in place. SystemExit where none was run."""
    names = [
        str(path)
        for name in fault.tests
        if name.endswith(".py")
        for path in (project / "tests").rglob(name)
    ]
    options = [word for word in fault.tests if not word.endswith(".py")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *names,
        *options,
    ]
    command += ["-m", "not slow"] if quick else []
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(project),
    }
    ran = subprocess.run(
        command,
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode not in (0, 1) and not (quick and ran.returncode == 5):
        raise SystemExit(
            f"fault {fault.number}: pytest ended with "
            f"{ran.returncode}\n{ran.stdout[-2000:]}{ran.stderr[-500:]}"
        )
    return ran.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, help="only these faults")
    parser.add_argument("--quick", action="store_true", help="by the quick tests alone")
    options = parser.parse_args()
    chosen = [
        fault
        for fault in faults()
        if not options.numbers or fault.number in options.numbers
    ]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        made = [
            ROOT / "data" / name
            for name in ("scores", "models", "cache")
            if (ROOT / "data" / name).is_dir()
        ]
        apart = {".venv", ".git", "__pycache__", *map(str, made)}
        shutil.copytree(
            ROOT,
            project,
            ignore=lambda place, names: {
                n for n in names if {n, f"{place}/{n}"} & apart
            },
        )
        for path in made:  # large, and only read
            (project / "data" / path.name).symlink_to(path)
        for fault in chosen:
            file = plant(fault, project / "lib")
            caught = is_caught(fault, project, options.quick)
            shutil.copyfile(ROOT / file.relative_to(project), file)
            print(
                f"{'caught' if caught else 'MISSED'}: {fault.number} {fault.name}",
                flush=True,
            )
            missed += [] if caught else [fault.number]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults are caught.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
