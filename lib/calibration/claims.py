"""What the calibration puts beside the paper's claims: the bias of slope gaps, and how often intervals are right."""

import pandas as pd

from lib.calibration.estimators import ESTIMATORS
from lib.calibration.findings import AFTER, BEFORE
from lib.calibration.report import Report
from lib.claims import Claim, state

POPULATION = "small models"
SAYS = {estimator.name: f"{estimator.says}, {estimator.unit}" for estimator in ESTIMATORS}
PROMPT = {estimator.name: " and ".join(estimator.prompts) for estimator in ESTIMATORS}
FRAMING = ("gap", "spread", "framing")  # estimators of what is 0 where raters are as sensitive to both sides


def calibration_claims(made: Report) -> list[Claim]:
    """C.gap_control: what estimators of framing find, with its interval over models, where no gap was planted; and
    C.coverage: the share of studies of ten models whose crossed interval holds the truth, and of false positives before
    and after the control's bias is taken off (Wilson's intervals; n: studies)."""
    single = made.models.drop_duplicates("estimator").set_index("estimator")
    controls = [_control(name, row) for name, row in single.iterrows() if name.split()[0] in FRAMING]
    groups = made.groups.set_index(["method", "estimator"])
    shares = [("coverage", "coverage", BEFORE), ("false_positives", "size", BEFORE)]
    shares.append(("false_positives_control_off", "size", AFTER))
    return controls + [
        _share(quantity, column, name, row)
        for quantity, column, method in shares
        for name, row in groups.loc[method].iterrows()
    ]


def _control(name: str, row: pd.Series) -> Claim:
    numbers = {"corrected": row["bias"], "ci_low": row["bias_low"], "ci_high": row["bias_high"]}
    return state("C.gap_control", "gap_control", PROMPT[name], n=int(row["n_null"]), population=POPULATION,
                 note=SAYS[name], **numbers)  # fmt: skip


def _share(quantity: str, column: str, name: str, row: pd.Series) -> Claim:
    numbers = {"corrected": row[column], "ci_low": row[f"{column}_low"], "ci_high": row[f"{column}_high"]}
    return state("C.coverage", quantity, PROMPT[name], n=int(row["groups"]), population=POPULATION, note=SAYS[name],
                 **numbers)  # fmt: skip
