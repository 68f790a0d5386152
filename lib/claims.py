"""The paper's claims, each computed as published and corrected: one row per quantity, gathered from the notebooks.

data/paper/claims.csv lists the claims and what the paper says in each; data/paper/numbers.csv lists their quantities,
what the paper prints of each, and the rule that judges ours, fixed before anything is computed. A section's claims are
made by `state`; its notebook keeps them with `keep`; the scorecard gathers all of them with `gather`.
"""

from collections.abc import Set
from dataclasses import asdict, dataclass, fields, replace
from functools import cache

import pandas as pd

from lib import ROOT, InputError
from lib.collection import ITEMS, PUBLISHED, VOCABULARY, Collection
from lib.files import replacing
from lib.rules import ONLY, OURS, UNTESTABLE, VERDICTS, Declared, Numbers, verdict

A_VOCABULARY = 10_000  # fewer shared texts are somebody's selection, not a vocabulary
THE_PAPER = frozenset({"models", "vocabulary", "items", "language models"})  # all there is: for its own figures


@dataclass(frozen=True)
class Claim:
    """One quantity of one claim. claim: its id, as `S2.tau`; quantity: what is counted, as `mean`; role: see rules.

    paper: what the paper prints. as_published: by the authors' recipe on these scores. corrected: the statistic that
    the sentence should mean, with its 95% interval and p-value; n says how many observations it rests on. None where
    there is nothing to say. prompt and model are empty where the claim is about all of them. side: on which side of
    the sentence the numbers lie, whatever they were computed on, for, against or undecided; '' where no rule asks.
    population: what they were computed on.
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
    side: str = ""
    verdict: str = UNTESTABLE
    role: str = "sensitivity"
    population: str = ""
    note: str = ""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")


COLUMNS = list(Claim.__dataclass_fields__)
NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "n", "p")


# --- stated -------------------------------------------------------------------------------------------------------


def papers_own(study: Collection, texts: int = 0) -> Set[str]:
    """What of the paper's own a collection holds, which decides what can be tested here.

    models: its ten reward models; vocabulary: these, over so many texts that they are a vocabulary; items: those of
    EloEverything; language models: those of its appendix.
    """
    models = study.holds_papers_models
    held = {"models": models, "vocabulary": models and texts >= A_VOCABULARY,
            "items": study == ITEMS, "language models": study == VOCABULARY}  # fmt: skip
    return frozenset(name for name, is_held in held.items() if is_held)


def state(
    claim: str, quantity: str, prompt: str = "", model: str = "", *, own: Set[str] = frozenset(),
    paper: float | None = None, judged: tuple[float | None, float | None] | None = None, kind: str = "", **numbers,
) -> Claim:  # fmt: skip
    """The claim with what the paper prints and the verdict, both by data/paper/numbers.csv; numbers: fields of Claim.

    own: what of the paper's own the numbers rest on, as from `papers_own`. paper: where the printed number lies in a
    table of its own. judged: the interval that is held against the rule, where it is not the one stated. kind: that of
    the models, where the rule depends on it. No verdict for a quantity that is not declared; one of a claim that we add
    is `not in the paper`.
    """
    row = declared(claim, quantity, prompt, model or kind)
    if row is None:
        return Claim(claim, quantity, prompt, model, **{"verdict": OURS} | numbers if claim in _added() else numbers)
    row = row if paper is None else replace(row, printed=paper)
    stated = Claim(claim, quantity, prompt, model, _as_number(row.printed), role=row.role, **numbers)
    ours = Numbers(**{field.name: getattr(stated, field.name) for field in fields(Numbers)})
    if judged is not None:
        ours = replace(ours, ci_low=judged[0], ci_high=judged[1])
    side, said = verdict(row, ours, own)
    return replace(stated, side=side, verdict=said)


def _as_number(printed: str | float) -> str | float | None:
    """The printed number, where it reads as printed; `0.80` stays text, because its last digit says how exact it is."""
    for kind in (int, float):
        try:
            if str(kind(printed)) == printed:
                return kind(printed)
        except ValueError:
            pass
    return printed or None


def quantities() -> pd.DataFrame:
    """What the paper prints, and how it is judged: data/paper/numbers.csv, a row per quantity; see `Declared`."""
    table = paper_table("numbers")
    return table.assign(**{name: pd.to_numeric(table[name]) for name in ("within", "limit")})


@cache
def _declared() -> tuple[Declared, ...]:
    return tuple(Declared(**row) for row in quantities().to_dict("records"))


@cache
def _added() -> frozenset[str]:
    """The claims that are ours: the paper says nothing of them, so they have numbers and no verdict on it."""
    says = listed()["says"]
    return frozenset(says.index[says.str.startswith("Not in the paper")])


def declared(claim: str, quantity: str, prompt: str = "", model: str = "") -> Declared | None:
    """How numbers.csv declares this quantity of this claim, or None."""
    return next((row for row in _declared() if row.is_about(claim, quantity, prompt, model)), None)


# --- kept and gathered --------------------------------------------------------------------------------------------


def keep(collection: Collection, notebook: str, claims: list[Claim]) -> pd.DataFrame:
    """The claims as a table, also kept for the scorecard as what this notebook (`03`) found in this collection.

    A claim that does not say what it was computed on was computed on the collection's own texts.
    """
    table = pd.DataFrame([asdict(claim) for claim in claims], columns=COLUMNS)
    table["population"] = table["population"].where(table["population"] != "", collection.population)
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

    `published` gathers all published collections, and what was stated of the paper's printed pages beside them; `note`
    then begins with the collection. A claim that no notebook stated has one row, `not testable here` (one that we add:
    `not in the paper`), whose note says what it needs. InputError if no notebook kept any.
    """
    kept = {part.name: _kept(part) for part in dict.fromkeys([*collection.parts, collection])}
    kept = {name: table for name, table in kept.items() if len(table)}
    if not kept:
        raise InputError(f"no claims for collection '{collection}' yet; run the notebooks: make {_target(collection)}")
    if collection == PUBLISHED:
        kept = {name: table.assign(note=name + ": " + table["note"]) for name, table in kept.items()}
    stated = pd.concat(kept.values(), ignore_index=True)
    absent = listed().drop(index=stated["claim"].unique())
    said = {claim: OURS if claim in _added() else UNTESTABLE for claim in absent.index}
    rows = [asdict(Claim(c, "", verdict=said[c], note=f"needs {needs}")) for c, needs in absent["needs"].items()]
    everything = pd.concat([stated, pd.DataFrame(rows, columns=COLUMNS)], ignore_index=True) if rows else stated
    order = everything["claim"].map({claim: i for i, claim in enumerate(listed().index)})
    everything = everything.astype(dict.fromkeys(NUMBERS, float)).fillna({"paper": ""})
    return everything.iloc[order.argsort(kind="stable")].reset_index(drop=True)[COLUMNS]


def _target(collection: Collection) -> str:
    return "published" if collection.is_published else "reproduce"


def _kept(collection: Collection) -> pd.DataFrame:
    paths = sorted(collection.claims.glob("*.csv"))
    texts = {column: str for column in COLUMNS if column not in NUMBERS}  # `paper` too: some numbers have a relation
    blank = {column: [""] for column in NUMBERS}
    tables = []
    for path in paths:
        try:
            table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=blank)[COLUMNS]
            tables += [table.astype(dict.fromkeys(NUMBERS, float))] if len(table) else []
        except (OSError, ValueError, KeyError) as error:
            again = f"to have its notebook write them again: make {_target(collection)}"
            raise InputError(f"{path} holds no claims; {again}") from error
    return pd.concat(tables, ignore_index=True)[COLUMNS] if tables else pd.DataFrame(columns=COLUMNS)


# --- shown --------------------------------------------------------------------------------------------------------


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
    """The rows on whose side a rule was asked, that hold as published only, or are ours, of claims that begin so."""
    asked = (gathered["side"] != "") | gathered["verdict"].isin([ONLY, OURS])
    return gathered[asked & gathered["claim"].str.startswith(start)]


# --- the paper's tables ---------------------------------------------------------------------------------------


def paper_table(name: str) -> pd.DataFrame:
    """A table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay strings."""
    path = ROOT / "data" / "paper" / f"{name}.csv"
    if not path.is_file():
        tables = ", ".join(sorted(table.stem for table in path.parent.glob("*.csv")))
        raise InputError(f"no table '{name}' of the paper in data/paper; there are {tables}")
    return pd.read_csv(path, keep_default_na=False)
