"""The paper's claims, each computed as published and corrected: one row per quantity, gathered from the notebooks.

A notebook states what it found with `keep`; the scorecard gathers all of it with `gather`. The list of claims, and what
the paper says in each, is data/paper/claims.csv.
"""

from dataclasses import asdict, dataclass

import pandas as pd

from lib import ROOT, InputError
from lib.collection import PUBLISHED, Collection
from lib.files import replacing

VERDICTS = ("reproduced", "only as published", "not reproduced", "not testable here")


@dataclass(frozen=True)
class Claim:
    """One quantity of one claim. claim: its id, as `S2.tau`; quantity: what is counted, as `mean`.

    paper: what the paper prints. as_published: by the authors' recipe on these scores. corrected: the statistic that
    the sentence should mean, with its 95% interval and p-value; n says how many observations it rests on. None where
    there is nothing to say. prompt and model are empty where the claim is about all of them.
    """

    claim: str
    quantity: str
    prompt: str = ""
    model: str = ""
    paper: float | str | None = None
    as_published: float | None = None
    corrected: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    p: float | None = None
    verdict: str = "not testable here"
    note: str = ""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")


COLUMNS = list(Claim.__dataclass_fields__)
NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "n", "p")


def judge(paper: float, as_published: float | None, corrected: float | None = None, *, within: float) -> str:
    """The verdict on a number: which of ours comes within so much of what the paper prints.

    reproduced: the corrected one does, or the published recipe's where there is none to correct. only as published: the
    published recipe's does and the corrected one does not. within: half a unit of the last digit printed means that
    ours rounds to the same. None or NaN agrees with nothing.
    """

    def agrees(number: float | None) -> bool:  # a hair more than `within`, since .285 is no exact number
        return number is not None and abs(number - paper) <= within * (1 + 1e-9)

    if agrees(corrected) or (corrected is None and agrees(as_published)):
        return "reproduced"
    return "only as published" if agrees(as_published) else "not reproduced"


# --- kept and gathered --------------------------------------------------------------------------------------------


def keep(collection: Collection, notebook: str, claims: list[Claim]) -> pd.DataFrame:
    """The claims as a table, also kept for the scorecard as what this notebook (`03`) found in this collection."""
    table = pd.DataFrame([asdict(claim) for claim in claims], columns=COLUMNS)
    if (twice := table.duplicated(["claim", "quantity", "prompt", "model", "note"])).any():
        raise InputError(f"claim {table.loc[twice, 'claim'].iloc[0]} is stated twice; give each row its own quantity")
    if unknown := sorted(set(table["claim"]) - set(listed().index)):
        raise InputError(
            f"'{unknown[0]}' is no claim of data/paper/claims.csv; choose one of {', '.join(listed().index)}"
        )
    with replacing(collection.claims / f"{notebook}.csv") as part:
        table.to_csv(part, index=False)
    return table


def listed() -> pd.DataFrame:
    """The paper's claims, in its order: claim (index), section, says (in our words), needs (what a test needs)."""
    return paper_table("claims").set_index("claim")


def gather(collection: Collection) -> pd.DataFrame:
    """Every claim of data/paper/claims.csv, in its order, as the notebooks kept it for this collection.

    `published` gathers all published collections; `note` then begins with the collection. A claim that no
    notebook stated has one row, `not testable here`, whose note says what it needs. InputError if no notebook kept any.
    """
    found = {part.name: _kept(part) for part in collection.parts}
    found = {name: table for name, table in found.items() if len(table)}
    if not found:
        raise InputError(f"no claims for collection '{collection}' yet; run the notebooks: make {_target(collection)}")
    if collection == PUBLISHED:
        found = {name: table.assign(note=name + ": " + table["note"]) for name, table in found.items()}
    stated = pd.concat(found.values(), ignore_index=True)
    absent = listed().drop(index=stated["claim"].unique())
    rows = [asdict(Claim(claim, "", note=f"needs {needs}")) for claim, needs in absent["needs"].items()]
    everything = pd.concat([stated, pd.DataFrame(rows, columns=COLUMNS)], ignore_index=True) if rows else stated
    order = everything["claim"].map({claim: i for i, claim in enumerate(listed().index)})
    everything = everything.astype(dict.fromkeys(NUMBERS, float)).fillna({"paper": ""})
    return everything.iloc[order.argsort(kind="stable")].reset_index(drop=True)[COLUMNS]


def _target(collection: Collection) -> str:
    return "published" if collection == PUBLISHED else "reproduce"


def _kept(collection: Collection) -> pd.DataFrame:
    paths = sorted(collection.claims.glob("*.csv"))
    texts = {column: str for column in COLUMNS if column not in NUMBERS}  # `paper` too: some numbers have a relation
    blank = {column: [""] for column in NUMBERS}
    tables = [pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=blank) for path in paths]
    tables = [table for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True)[COLUMNS] if tables else pd.DataFrame(columns=COLUMNS)


# --- what it comes to ---------------------------------------------------------------------------------------------


def scorecard(gathered: pd.DataFrame) -> pd.DataFrame:
    """One row per claim: says (the paper), rows by verdict, and `verdict`, what they come to.

    If all rows that could be tested have one verdict it is the claim's; if they differ, it is `in part`.
    """
    counts = pd.crosstab(gathered["claim"], gathered["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    counts = counts.reindex(pd.unique(gathered["claim"]))
    verdicts = [_overall(row) for row in counts.to_dict("records")]
    return counts.assign(verdict=verdicts, says=listed()["says"].reindex(counts.index)).rename_axis(columns=None)


def _overall(counts: dict[str, int]) -> str:
    tested = {verdict for verdict in VERDICTS[:3] if counts[verdict]}
    if len(tested) > 1:
        return "in part"
    return tested.pop() if tested else "not testable here"


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its numbers as text of four significant digits, blank where missing.

    One column holds counts, shares and p-values, so no number of decimals suits all of it.
    """
    numbers = [column for column in table.columns if column in NUMBERS]
    return table.assign(**{column: [_number(value) for value in table[column]] for column in numbers})


def _number(value: float) -> str:
    if pd.isna(value):
        return ""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def tested(gathered: pd.DataFrame, start: str | tuple[str, ...] = "") -> pd.DataFrame:
    """The rows that have a verdict other than `not testable here`, of claims that begin so.

    Of a quantity that several inputs give, the first row.
    """
    rows = gathered[(gathered["verdict"] != "not testable here") & gathered["claim"].str.startswith(start)]
    return rows.drop_duplicates(["claim", "quantity", "prompt", "model", "paper"])


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


def sentences(gathered: pd.DataFrame) -> pd.DataFrame:
    """A row per claim that has numbers, in the paper's order: claim (index), verdict (claims.scorecard), found.

    gathered: as from claims.gather. Of a quantity that several inputs give for one prompt, the first is told.
    """
    card = scorecard(gathered)
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
        if numbers := [text for row in stated.to_dict("records") if (text := _said_numbers(row))]:
            parts.append(f"{phrase}: {'; '.join(numbers)}")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _said_numbers(row: dict) -> str:
    corrected, published = row["corrected"], row["as_published"]
    main = published if pd.isna(corrected) else corrected
    if pd.isna(main):
        return ""
    interval = "" if pd.isna(row["ci_low"]) else f" [{_said(row['ci_low'])}, {_said(row['ci_high'])}]"
    differs = not pd.isna(published) and _said(published) != _said(main)
    compared = row["paper"] and row["verdict"] != "not testable here"
    beside = [f"as published {_said(published)}"] if differs else []
    beside += [f"paper {row['paper'].removesuffix('.0')}"] if compared else []
    where = f"{row['prompt']} " if row["prompt"] else ""
    return f"{where}{_said(main)}{interval}" + (f" ({', '.join(beside)})" if beside else "")


def _said(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() or abs(number) >= 10 else f"{number:.2f}"


# --- prompts and the paper's tables -------------------------------------------------------------------------------


def paper_table(name: str) -> pd.DataFrame:
    """A table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay strings."""
    path = ROOT / "data" / "paper" / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in path.parent.glob("*.csv")))
        raise InputError(f"no table '{name}' of the paper in data/paper; there are {known}")
    return pd.read_csv(path, keep_default_na=False)
