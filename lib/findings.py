"""What the claims of a collection come to, in sentences made of their numbers: nothing here is true of one collection.

A sentence gives the corrected number and its 95% interval, the number as published where it differs, and the paper's
where the two can be compared.
"""

import pandas as pd

from lib import claims

STEEPER = {"n_steeper": "models steeper among {} words", "gap": "mean gap in slope"}
FREQUENCY = {"n_positive_significant": "models that reward frequent words more"}

# What is said about each claim: its quantities, in the words in which they are said.
PHRASES = {
    "S2.skew": {"n_positive": "models with positive skewness"},
    "S2.tau": {"mean": "mean tau of two models", "min": "lowest tau of two models"},
    "S2.rsa.final": {"r2": "share of the variance of agreement explained by base and rank"},
    "S3.sentiment": {
        "n_positive_significant": "models whose rewards rise with sentiment",
        "n_negative_significant": "models whose rewards fall with sentiment",
    },
    "S3.spread": {"ratio": "spread of positive words over that of negative ones"},
    "S3.slope.greatest": {name: phrase.format("positive") for name, phrase in STEEPER.items()},
    "S3.slope.best": {name: phrase.format("positive") for name, phrase in STEEPER.items()},
    "S3.slope.worst": {name: phrase.format("negative") for name, phrase in STEEPER.items()}
    | {"gap_without_offensive": "the gap without offensive words"},
    "S3.framing.corr": {"mean": "mean tau with another prompt (best with greatest, worst with best)"},
    "S3.freq.raw": FREQUENCY,
    "S3.freq.controlled": FREQUENCY,
    "S4.data": {"items": "items"},
    "S4.tau.human": {"mean": "mean tau of models with people"},
    "S4.tau.models": {"mean": "mean tau of two models"},
    "S4.tops": {"n_unconditional_love": "models that rank Unconditional love first"},
    "S4.asymmetry": {"difference": "tau in the upper half less tau in the lower half"},
    "S4.undervalued": {
        "above_identity": "identity undervalued (.5 by chance)",
        "above_nature": "nature",
        "above_technology": "technology",
        "above_sexual_content": "sexual content",
        "position_black_people": "place of Black people",
    },
    "S4.holocaust": {"n_models_outside_worst_tenth": "models that do not have The Holocaust in their worst tenth"},
    "A1.correlations": {"r_spearman_tau": "Spearman's correlation with tau", "r_rbo_tau": "overlap of tops with tau"},
}


def told(gathered: pd.DataFrame) -> pd.DataFrame:
    """A row per claim that has numbers, in the paper's order: claim (index), verdict (claims.scorecard), found.

    gathered: as from claims.gather. Of a quantity that several inputs give for one prompt, the first is told.
    """
    card = claims.scorecard(gathered)
    found = {claim: _sentence(gathered[gathered["claim"] == claim], PHRASES.get(claim, {})) for claim in card.index}
    table = card[["verdict"]].assign(found=pd.Series(found)).rename_axis("claim")
    return table[table["found"] != ""]


def _sentence(rows: pd.DataFrame, phrases: dict[str, str]) -> str:
    """The phrases, each with its numbers; '' where there are none."""
    parts = []
    for quantity, phrase in phrases.items():
        stated = rows[rows["quantity"] == quantity]
        if not quantity.startswith("position"):  # a place has a row per aggregate
            stated = stated.drop_duplicates("prompt")
        if numbers := [text for row in stated.to_dict("records") if (text := _numbers(row))]:
            parts.append(f"{phrase}: {'; '.join(numbers)}")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _numbers(row: dict) -> str:
    corrected, published = row["corrected"], row["as_published"]
    main = published if pd.isna(corrected) else corrected
    if pd.isna(main):
        return ""
    interval = "" if pd.isna(row["ci_low"]) else f" [{_short(row['ci_low'])}, {_short(row['ci_high'])}]"
    differs = not pd.isna(published) and _short(published) != _short(main)
    compared = row["paper"] and row["verdict"] != "not testable here"
    beside = [f"as published {_short(published)}"] if differs else []
    beside += [f"paper {row['paper'].removesuffix('.0')}"] if compared else []
    where = f"{row['prompt']} " if row["prompt"] else ""
    return f"{where}{_short(main)}{interval}" + (f" ({', '.join(beside)})" if beside else "")


def _short(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() or abs(number) >= 10 else f"{number:.2f}"
