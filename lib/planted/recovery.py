"""Recover planted values from a score table, and compare them with the values that were planted."""

import numpy as np
import pandas as pd
from scipy.stats import skew
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant

from ..tables.words import is_nonword, is_word
from .planting import (
    COMMON_ZIPF,
    PENALTIES,
    Profile,
    planted_utility,
    sentiment,
    word_kinds,
    word_values,
    zipf,
)

CONTROL_TOKEN = r"^<\|.*\|>$|_of_turn>$|^<(?:pad|eos|bos|unk)>$"


def planted_table(table: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Return the rows of a score table whose planted utility is known, one per distinct input, with
    its components.

    Adds the columns of word_values, and `planted <prompt>` for greatest, best and worst. Capitals
    do not matter. Rows that are neither English words nor code (fragments, other scripts, control
    tokens) are left out.
    """
    inputs = table.drop_duplicates("input_group")
    text = inputs["text"].str.strip()
    is_code = (
        text.map(is_nonword) & text.map(str.isascii) & ~text.str.contains(CONTROL_TOKEN)
    )
    word = text.mask(~is_code, text.str.lower())
    is_known = is_code | word.isin(sentiment().index)
    is_known |= word.isin(word_kinds().index)
    is_known |= text.map(
        lambda text: text.isascii() and is_word(text) and zipf(text) > COMMON_ZIPF
    )
    rows = inputs[is_known].join(
        word_values(word[is_known]).set_index(inputs.index[is_known])
    )
    planted = {
        name: planted_utility(profile, rows, polarity)
        for name, polarity in polarities(table).items()
    }
    return rows.assign(
        **{f"planted {name}": utility for name, utility in planted.items()}
    )


def polarities(table: pd.DataFrame) -> dict[str, int]:
    """Return +1 for each of the prompts greatest and best that the score table holds, -1 for
    worst.
    """
    return {
        name: polarity
        for name, polarity in {"greatest": 1, "best": 1, "worst": -1}.items()
        if name in table
    }


def recover(table: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Return the planted values of a model and those recovered from its score table, indexed by
    (prompt, value).

    A value is one of the profile's, `gap` (k_hi - k_lo), or `skew` of the distribution. `ci_low`
    and `ci_high` are the 95% interval of least squares with robust errors, in utility; skew has
    none. All are estimated together.
    """
    rows = planted_table(table, profile)
    parts = {}
    for prompt, polarity in polarities(table).items():
        terms = _terms(rows, polarity)
        rewards = rows[prompt] / profile.scale
        fit = OLS(rewards, add_constant(terms)).fit(cov_type="HC1")
        gap = fit.t_test("k_hi - k_lo = 0")
        interval = fit.conf_int().loc[terms.columns]
        values = pd.DataFrame(
            {
                "recovered": fit.params[terms.columns],
                "ci_low": interval[0],
                "ci_high": interval[1],
            }
        )
        planted = [getattr(profile, value) for value in terms]
        values.insert(0, "planted", planted)
        values.loc["gap"] = [
            profile.k_hi - profile.k_lo,
            gap.effect.item(),
            *gap.conf_int()[0],
        ]
        values.loc["skew"] = [
            skew(rows[f"planted {prompt}"]),
            skew(rewards),
            np.nan,
            np.nan,
        ]
        parts[prompt] = values.assign(n=len(rows))
    return pd.concat(parts, names=["prompt", "value"])


def _terms(rows: pd.DataFrame, polarity: int) -> pd.DataFrame:
    """Return the factor of each planted value in the utility of each word, see
    planting.planted_utility.
    """
    asked = polarity * rows["valence"]
    terms = asked.clip(lower=0).to_frame("k_hi")
    terms["k_lo"] = asked.clip(upper=0)
    terms["frequency"] = rows["zipf"] - COMMON_ZIPF
    for kind in PENALTIES:
        terms[kind] = -(rows["kind"] == kind).astype(float)
    return terms
