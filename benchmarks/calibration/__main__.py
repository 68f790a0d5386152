"""What do estimators find in models with known values? python -m benchmarks.calibration
[--models N] [--publish]
"""

import argparse
import os
import sys
from pathlib import Path

from benchmarks.calibration import measuring, plan, report
from lib import InputError


def run(models: int, folder: Path, publish: bool) -> None:
    """Calibrate on every core; make it the committed report if asked to."""
    given = {
        "models": models,
        "folder": folder.resolve(),
        "processes": os.cpu_count() or 1,
    }
    made = report.calibrate(**given)
    print(f"The tables of {made.n_models} models are in {folder / 'report'}.")
    if publish:
        report.publish(made)
        print(
            f"The report that notebooks read is in {report.TABLES}, its page is {report.PAGE}."
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.calibration", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--models",
        type=int,
        default=plan.MODELS,
        help=f"of the plan (default: all {plan.MODELS})",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=measuring.FOLDER,
        help="where rewards and report go",
    )
    parser.add_argument(
        "--method",
        action="store_true",
        help="write method.csv and the page again from the committed estimates",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="make it the report that the notebooks read",
    )
    try:
        given = vars(parser.parse_args(arguments))
        if given.pop("method"):
            report.publish(report.read())
        else:
            run(**given)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
