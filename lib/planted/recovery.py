"""Recover planted values from a score table, and compare them with the values that were planted."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.stats import skew

from .. import ROOT, InputError
from ..tables.words import is_nonword, is_word
from . import planting
from .planting import COMMON_ZIPF, PENALTIES, Profile, planted_utility, sentiment, word_kinds, word_values, zipf

CALIBRATION = ROOT / "data" / "calibration"  # what `python -m benchmarks.calibration PUBLISH=1` writes
CONTROL_TOKEN = r"^<\|.*\|>$|_of_turn>$|^<(?:pad|eos|bos|unk)>$"


def planted_table(table: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Return the rows of a score table whose planted utility is known, one per distinct input, with its components.

    Adds the columns of word_values, and `planted <prompt>` for greatest, best and worst. Capitals do not matter. Rows
    that are neither English words nor code (fragments, other scripts, control tokens) are left out.
    """
    inputs = table.drop_duplicates("input_group")
    text = inputs["text"].str.strip()
    is_code = text.map(is_nonword) & text.map(str.isascii) & ~text.str.contains(CONTROL_TOKEN)
    word = text.mask(~is_code, text.str.lower())
    is_known = is_code | word.isin(sentiment().index) | word.isin(word_kinds().index)
    is_known |= text.map(lambda text: text.isascii() and is_word(text) and zipf(text) > COMMON_ZIPF)
    rows = inputs[is_known].join(word_values(word[is_known]).set_index(inputs.index[is_known]))
    planted = {name: planted_utility(profile, rows, polarity) for name, polarity in polarities(table).items()}
    return rows.assign(**{f"planted {name}": utility for name, utility in planted.items()})


def polarities(table: pd.DataFrame) -> dict[str, int]:
    """Return +1 for each of the prompts greatest and best that the score table holds, -1 for worst."""
    return {name: polarity for name, polarity in {"greatest": 1, "best": 1, "worst": -1}.items() if name in table}


def recover(table: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Return the planted values of a model and the values recovered from its score table, by prompt and value.

    The index is (prompt, value). A value is one of the profile's, `gap` (k_hi - k_lo), or `skew` of the distribution.
    `ci_low` and `ci_high` are the 95% interval of least squares with robust errors; skew has none. Rewards are divided
    by the profile's scale. All values are estimated together.
    """
    rows = planted_table(table, profile)
    parts = {name: _recover_one(rows, profile, name, polarity) for name, polarity in polarities(table).items()}
    return pd.concat(parts, names=["prompt", "value"])


def count_recovered(tables: Mapping[str, pd.DataFrame]) -> dict[str, int]:
    """Return how many planted effects come back from the score tables of models that ship with the project.

    An effect is one planted value of one model under one prompt; skew is left out. It is `recovered` if its 95%
    interval lies on the side of zero on which it was planted. `absent` counts values that were planted as zero, and
    `false` those of them whose interval leaves zero out.
    """
    found = [recover(table, planting.profile(name)).drop(index="skew", level=1) for name, table in tables.items()]
    values = pd.concat(found)
    sign, planted = np.sign(values["planted"].round(9)), values["planted"].round(9) != 0
    is_on_side = (values[["ci_low", "ci_high"]].mul(sign, axis=0) > 0).all(axis=1)
    leaves_zero_out = values["ci_low"] * values["ci_high"] > 0
    counted = {"recovered": is_on_side, "planted": planted, "false": leaves_zero_out & ~planted, "absent": ~planted}
    return {name: int(each.sum()) for name, each in counted.items()}


def _recover_one(rows: pd.DataFrame, profile: Profile, prompt: str, polarity: int) -> pd.DataFrame:
    rewards, terms = rows[prompt] / profile.scale, _terms(rows, polarity)
    fit = sm.OLS(rewards, sm.add_constant(terms)).fit(cov_type="HC1")
    gap = fit.t_test("k_hi - k_lo = 0")
    interval = fit.conf_int().loc[terms.columns]
    values = pd.DataFrame({"recovered": fit.params[terms.columns], "ci_low": interval[0], "ci_high": interval[1]})
    values.insert(0, "planted", [getattr(profile, value) for value in terms])
    values.loc["gap"] = [profile.k_hi - profile.k_lo, gap.effect.item(), *gap.conf_int()[0]]
    values.loc["skew"] = [skew(rows[f"planted {prompt}"]), skew(rewards), np.nan, np.nan]
    return values.assign(n=len(rows)).rename_axis("value")


def _terms(rows: pd.DataFrame, polarity: int) -> pd.DataFrame:
    """Return the factor of each planted value in the utility of each word (see planting.planted_utility)."""
    asked = polarity * rows["valence"]
    terms = {"k_hi": asked.clip(lower=0), "k_lo": asked.clip(upper=0), "frequency": rows["zipf"] - COMMON_ZIPF}
    return pd.DataFrame(terms | {kind: -(rows["kind"] == kind).astype(float) for kind in PENALTIES})


# --- many models of known values ----------------------------------------------------------------------------------


def calibration(name: str) -> pd.DataFrame:
    """Return a table of the committed calibration, such as estimates, models or claims.

    Many small models were trained on known values, to test the intervals; see benchmarks/calibration.md. Raise
    InputError if the table is not there.
    """
    path = CALIBRATION / f"{name}.csv"
    if not path.is_file():
        raise InputError(f"{path} is missing; restore it with: git checkout {path}")
    return pd.read_csv(path, keep_default_na=False, na_values={"corrected": [""]})


def calibration_claims() -> list[dict]:
    """Return C.gap_control and C.coverage: estimates where no gap was planted, and how often intervals are right."""
    return [row(**fields) for fields in calibration("claims").to_dict("records")]
