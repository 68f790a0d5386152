"""What do estimators find in models with known values? python -m benchmarks.calibration
[--models N] [--publish]
"""

import argparse
import os

import pandas as pd

from benchmarks.calibration import measuring, method, plan, report


def calibrate(models: int, seeds: int = plan.SEEDS, **how) -> report.Report:
    """Train and measure models of the plan and the controls, and return the report. how: as for
    measuring.measure.
    """
    measured = measuring.measure(plan.planned(models, seeds), **how)
    trainings = [one.report | {"control": one.planned.control} for one in measured]
    estimates = method.estimates(measured, measuring.words())
    return report.Report(estimates, pd.DataFrame(trainings))


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.calibration", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", type=int, default=plan.MODELS, help="of the plan")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="make it the report that the notebooks read",
    )
    asked = parser.parse_args()
    made = calibrate(asked.models, processes=os.cpu_count() or 1)
    if asked.publish:
        report.publish(made)
    else:
        report.write(made, measuring.FOLDER / "report")


if __name__ == "__main__":
    main()
