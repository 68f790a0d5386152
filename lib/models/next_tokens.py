"""Tables of the log-probability of every token as the next one: their form, sums and differences, words by spelling."""

import numpy as np
import pandas as pd

from lib import InputError


def as_score_table(tokens: pd.DataFrame) -> pd.DataFrame:
    """With reply_ids and input_group: every token is predicted as itself."""
    ids = tokens["token_id"].to_numpy()
    return tokens.assign(reply_ids=[np.array([i], dtype=np.int32) for i in ids], input_group=ids.astype(np.int32))


def with_contrasts(table: pd.DataFrame) -> pd.DataFrame:
    """The score table with columns `best + worst` and `best - worst`, sum and difference of the two columns.

    Of log-probabilities: the logarithm of the product, respectively of the ratio, of the two probabilities. Sorted by
    them, these are Tables A4 (what is likely whichever is asked) and A5 (what is likely for one rather than the other).
    """
    if missing := [prompt for prompt in ("best", "worst") if prompt not in table]:
        raise InputError(f"the table has no prompt '{missing[0]}'; score the prompts best and worst")
    total, difference = table["best"] + table["worst"], table["best"] - table["worst"]
    return table.assign(**{"best + worst": total, "best - worst": difference})


def forms(table: pd.DataFrame, words: list[str], prompts: list[str]) -> pd.DataFrame:
    """The log-probabilities of words written in several ways: one row per word, form and prompt.

    Columns: word, form (`leading space`, `bare`; each also `capitalised`), text, prompt, log_probability; missing where
    no single token is this text. Where several tokens are, the likeliest counts.
    """
    of_text = table.groupby("text", sort=False)[prompts].max()
    rows = []
    for word in words:
        for form, text in _spellings(word).items():
            for prompt in prompts:
                log_probability = float(of_text.loc[text, prompt]) if text in of_text.index else np.nan
                rows.append([word, form, text, prompt, log_probability])
    return pd.DataFrame(rows, columns=["word", "form", "text", "prompt", "log_probability"])


def _spellings(word: str) -> dict[str, str]:
    capitalised = word[:1].upper() + word[1:]
    return {
        "leading space": f" {word}",
        "bare": word,
        "leading space, capitalised": f" {capitalised}",
        "bare, capitalised": capitalised,
    }
