"""The paper's claims: rows that the notebooks compute, judged in one place and gathered for the scorecard.

data/paper/claims.csv lists the claims in our words. data/paper/numbers.csv lists their quantities: what the paper
prints, and the rule that judges our number (see rules.py). A section states rows, and its notebook keeps them:

    rows = [claims.row("S2.tau", "mean", prompt, as_published=0.61, corrected=0.58, ci_low=0.55, ci_high=0.61, n=10)]
    table = claims.keep(study, "03", rows, own=claims.papers_own(study, len(rewards)))

"""

from collections.abc import Iterable, Set
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from functools import cache

import pandas as pd

from .. import ROOT, InputError
from ..io import replacing
from ..tables.collection import EMBEDDED, ITEMS, PUBLISHED, VOCABULARY, WORDS, Collection
from .rules import CENSUS, OURS, UNTESTABLE, Declared, Numbers, p_of_interval, verdict

A_VOCABULARY = 10_000  # fewer shared texts are somebody's selection, not a vocabulary
THE_PAPER = frozenset({"models", "vocabulary", "items", "language models"})  # all there is: for its own figures

NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "n", "p")
COLUMNS = ["claim", "quantity", "prompt", "model", "paper", *NUMBERS, "side", "verdict", "role", "evidence",
           "population", "note"]  # fmt: skip
FIELDS = (*NUMBERS, "note", "population", "evidence", "own", "judged", "paper", "kind")  # of a row, beyond its names

# What a verdict rests on, the strongest first (sections.MEANS says what each is).
EVIDENCE = RECOMPUTED, COUNTED, OTHER_TEXTS, PLANTED = ("recomputed", "counted", "other texts", "planted")
TABLES_OF_THE_PAPER = frozenset({"tables (printed)", "tables (released)", "printed tables", "figures (printed)",
                                 "printed figures", "vocabulary (released table)"})  # fmt: skip


# --- stated and judged --------------------------------------------------------------------------------------------


def papers_own(study: Collection, texts: int = 0) -> Set[str]:
    """Return what of the paper's own data a collection holds (of THE_PAPER), which decides what can be tested there."""
    models = study.holds_papers_models
    held = {"models": models, "vocabulary": models and texts >= A_VOCABULARY,
            "items": study == ITEMS, "language models": study == VOCABULARY}  # fmt: skip
    return frozenset(name for name, is_held in held.items() if is_held)


def row(claim: str, quantity: str, prompt: str = "", model: str = "", **fields) -> dict:
    """Return one row: a quantity of a claim, for one prompt and model, or for all of them (empty).

    as_published is the number by the authors' recipe. corrected is the statistic that the paper's sentence should mean,
    to which the interval, p and n belong. population and evidence are given where they do not follow from the
    collection. Four fields change how the row is judged, and are not kept: `own`, what of the paper's own data it rests
    on; `judged`, another interval for the rule; `paper`, a printed number that is not in numbers.csv; `kind`, the kind
    of models.
    """
    if unknown := sorted(set(fields) - set(FIELDS)):
        raise TypeError(f"a claim's row has no field '{unknown[0]}'; choose among {', '.join(FIELDS)}")
    return {"claim": claim, "quantity": quantity, "prompt": prompt, "model": model} | fields


def judged(rows: Iterable[dict], own: Set[str] = frozenset(), population: str = "") -> pd.DataFrame:
    """Return the rows as a table, with what the paper prints, role, side, verdict and evidence.

    own and population are those of rows that name none. A quantity that numbers.csv does not declare has no verdict. A
    row with an interval and without a p gets the p that the interval implies (rules.p_of_interval).
    """
    return pd.DataFrame([_judged(each, own, population) for each in rows], columns=COLUMNS)


def _judged(given: dict, own: Set[str], population: str) -> dict:

    stated = {"note": "", "evidence": ""} | dict.fromkeys(NUMBERS) | given
    stated["population"] = given.get("population") or population
    own = given.get("own", own)
    how = declared(stated["claim"], stated["quantity"], stated["prompt"], stated["model"] or given.get("kind", ""))
    is_own = how is None or not how.needs or how.needs in own
    known = {EMBEDDED.population: PLANTED} | dict.fromkeys(TABLES_OF_THE_PAPER, COUNTED)
    of_texts = known.get(stated["population"], RECOMPUTED if is_own else OTHER_TEXTS)
    stated["evidence"] = stated["evidence"] or of_texts
    if how is None:
        decided = OURS if stated["claim"] in _added() else UNTESTABLE
        return stated | {"paper": None, "role": "sensitivity", "side": "", "verdict": decided}
    how = how if given.get("paper") is None else replace(how, printed=given["paper"])
    ours = Numbers(**{field.name: stated[field.name] for field in fields(Numbers)})
    if how.rule in CENSUS:  # all there is was counted, so nothing was sampled
        stated |= dict.fromkeys(["ci_low", "ci_high", "p"])
    elif pd.isna(stated["p"]):
        stated["p"] = p_of_interval(how, ours)
    low, high = given.get("judged") or (ours.ci_low, ours.ci_high)
    side, decided = verdict(how, replace(ours, ci_low=low, ci_high=high), own)
    return stated | {"paper": _as_number(how.printed), "role": how.role, "side": side, "verdict": decided}


def _as_number(printed: str | float) -> str | float | None:
    """Return the printed number if it reads as printed; `0.80` stays text, as its last digit says how exact it is."""
    for kind in (int, float):
        try:
            if str(kind(printed)) == printed:
                return kind(printed)
        except ValueError:
            pass
    return printed or None


def quantities() -> pd.DataFrame:
    """Return what the paper prints and how it is judged, a row per quantity (data/paper/numbers.csv, `Declared`)."""
    table = paper_table("numbers")
    return table.assign(**{name: pd.to_numeric(table[name]) for name in ("within", "limit")})


@cache
def _declared() -> tuple[Declared, ...]:
    return tuple(Declared(**row) for row in quantities().to_dict("records"))


@cache
def _added() -> frozenset[str]:
    """Return the claims that we added: they have numbers, and no verdict on the paper."""
    says = listed()["says"]
    return frozenset(says.index[says.str.startswith("Not in the paper")])


def declared(claim: str, quantity: str, prompt: str = "", model: str = "") -> Declared | None:
    """Return how numbers.csv declares this quantity of this claim, or None."""
    return next((row for row in _declared() if row.is_about(claim, quantity, prompt, model)), None)


# --- kept and gathered --------------------------------------------------------------------------------------------


def keep(study: Collection, notebook: str, rows: Iterable[dict], own: Set[str] = frozenset()) -> pd.DataFrame:
    """Judge the rows of a notebook (`03`), write them for the scorecard, and return them as from `judged`.

    InputError for a claim that data/paper/claims.csv does not list, and for two rows of one name and note.
    """
    table = judged(rows, own, study.population)
    if (twice := table.duplicated(["claim", "quantity", "prompt", "model", "note"])).any():
        raise InputError(f"claim {table.loc[twice, 'claim'].iloc[0]} is stated twice; give each row its own quantity")
    if unknown := sorted(set(table["claim"]) - set(listed().index)):
        known = ", ".join(listed().index)
        raise InputError(f"'{unknown[0]}' is no claim of data/paper/claims.csv; choose one of {known}")
    with replacing(study.claims / f"{notebook}.csv") as part:
        table.to_csv(part, index=False)
    return table


def undecided_rows(starts: tuple[str, ...], reason: str) -> list[dict]:
    """Return the primary rows of the claims whose ids begin so, without numbers and with the reason as their note."""
    return [
        row(each.claim, each.quantity, prompt, each.model, n=0, note=reason)
        for each in _declared() if each.role == "primary" and each.claim.startswith(starts)
        for prompt in each.prompt.split() or [""]
    ]  # fmt: skip


def undecided(study: Collection, notebook: str, starts: tuple[str, ...], reason: str, own: Set[str]) -> InputError:
    """Keep these claims as undecided (see `undecided_rows`), and return the error with which a notebook ends."""
    keep(study, notebook, undecided_rows(starts, reason), own)
    return InputError(f"{reason} The sentences of this notebook are kept as undecided.")


def listed() -> pd.DataFrame:
    """Return data/paper/claims.csv by claim, in the paper's order."""
    return paper_table("claims").set_index("claim")


def families() -> pd.Series:
    """Return the family of tests of each claim, '' for those that we add: data/paper/families.csv, patterns of ids."""
    family = pd.Series("", listed().index, name="family")
    for row in paper_table("families").itertuples():
        family[[any(fnmatchcase(claim, each) for each in row.claims.split()) for claim in family.index]] = row.family
    return family.where(~family.index.isin(_added()), "")


def gather(collection: Collection) -> pd.DataFrame:
    """Return the rows of every claim of data/paper/claims.csv, in its order, that notebooks kept for this collection.

    `published` gathers all published collections, and `note` then begins with the collection. A claim without rows gets
    one without a verdict, whose note says what it needs. InputError if no notebook kept any row.
    """
    target = "published" if collection.is_published else "reproduce"
    kept = {part.name: _kept(part, target) for part in dict.fromkeys([*collection.parts, collection])}
    kept = {name: table for name, table in kept.items() if len(table)}
    if not kept:
        raise InputError(f"no claims for collection '{collection}' yet; run the notebooks: make {target}")
    if collection == PUBLISHED:
        kept = {name: table.assign(note=name + ": " + table["note"]) for name, table in kept.items()}
    stated = pd.concat(kept.values(), ignore_index=True)
    absent = listed().drop(index=stated["claim"].unique())["needs"]
    rows = pd.DataFrame({"claim": absent.index, "note": "needs " + absent.to_numpy()}, columns=COLUMNS)
    rows["verdict"] = rows["claim"].isin(_added()).map({True: OURS, False: UNTESTABLE})
    everything = pd.concat([stated, rows.astype(stated.dtypes)], ignore_index=True)
    everything = everything.fillna(dict.fromkeys(set(COLUMNS) - set(NUMBERS), ""))
    return everything.sort_values("claim", key=listed().index.get_indexer, kind="stable", ignore_index=True)


def _kept(collection: Collection, target: str) -> pd.DataFrame:
    texts = {column: str for column in COLUMNS if column not in NUMBERS}  # `paper` too: some numbers have a relation
    tables = []
    for path in sorted(collection.claims.glob("*.csv")):
        try:
            table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=dict.fromkeys(NUMBERS, ""))[COLUMNS]
            tables += [table.astype(dict.fromkeys(NUMBERS, float))] if len(table) else []
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{path} holds no claims; to have them written again, run: make {target}") from error
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


# --- shown --------------------------------------------------------------------------------------------------------


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its numbers as text of four significant digits, blank where missing."""

    def as_text(value: float) -> str:
        return "" if pd.isna(value) else f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"

    return table.assign(**{column: table[column].map(as_text).astype(object) for column in NUMBERS if column in table})


def beside_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that the paper asks or prints as text, with the committed number of the published words.

    table: as from `keep`. The column `published scores` has what we computed from the scores that the authors released.
    """
    keys = ["claim", "quantity", "prompt"]
    rows = table[table["role"].isin(["primary", "printed"]) | table["paper"].notna()]
    known = published_table("claims").reindex(columns=[*keys, "as_published", "corrected", "note"]).fillna({"note": ""})
    known = known[known["note"].astype(str).str.startswith(f"{WORDS}: ")].drop_duplicates(keys)
    known = known[keys].assign(corrected=known["corrected"].fillna(known["as_published"]))
    published = readable(rows[keys].merge(known, "left", keys))["corrected"].to_numpy()
    shown = readable(rows)[[*keys, "paper", "as_published", "corrected", "ci_low", "ci_high", "n", "side", "verdict"]]
    return shown.assign(paper=shown["paper"].fillna("")).assign(**{"published scores": published})


# --- the paper's tables ---------------------------------------------------------------------------------------


def paper_table(name: str) -> pd.DataFrame:
    """Return a table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay strings."""
    path = ROOT / "data" / "paper" / f"{name}.csv"
    if not path.is_file():
        tables = ", ".join(sorted(table.stem for table in path.parent.glob("*.csv")))
        raise InputError(f"no table '{name}' of the paper in data/paper; there are {tables}")
    return pd.read_csv(path, keep_default_na=False)


def published_table(name: str, index: str | list[str] | None = None) -> pd.DataFrame:
    """Return a committed table of the published scores, figures/published/<name>.csv, as `words/03_tau` or `claims`.

    index: the columns that become the index. Tokens such as `null` stay strings; blank numbers of claims are NaN. The
    table is empty if the file is not there.
    """
    path = PUBLISHED.figures / f"{name}.csv"
    if not path.is_file():
        return pd.DataFrame()
    table = pd.read_csv(path, keep_default_na=False, na_values=dict.fromkeys(NUMBERS, ""))
    return table if index is None else table.set_index(index)
