"""The paper's sentences: a notebook states its estimates, one rule per quantity judges them, a scorecard gathers them.

data/paper/claims.csv lists the sentences. data/paper/numbers.csv lists what the paper prints, and the rule (rules.py).
"""

from collections.abc import Iterable, Set
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from .. import DATA, InputError
from ..io import replacing
from ..tables.collection import ITEMS, PUBLISHED, VOCABULARY, WORDS, Collection
from . import rules
from .rules import BEYOND, LEVEL, NOT_TESTABLE, Declared, Numbers

NAMES = ("claim", "quantity", "prompt", "model")
NUMBERS = ("as_published", "corrected", "ci_low", "ci_high", "n", "p")
COLUMNS = [*NAMES, "paper", *NUMBERS, "p_corrected", "word", "remark", "role", "evidence", "population", "note"]
STATED = {"prompt": "", "model": "", "remark": "", "evidence": "recomputed"}
STATED |= dict.fromkeys(NUMBERS)  # what an estimate may have beside its claim and quantity
COUNTED = "counted"  # evidence from the paper's own printed tables and figures, which need no scores
OTHER_TEXTS = {WORDS: "other texts: 2,260 moral words", ITEMS: "other texts: 7,530 items"}


def estimate(claim: str, quantity: str, prompt: str = "", of=None, **fields) -> dict:
    """Return one estimate as `state` takes it.

    of: a row, dict or dataclass with some of `estimate` (which becomes `corrected`), `ci_low, ci_high, p, n`. fields:
    more of STATED, which come before those.
    """
    given = of if of is None or hasattr(of, "keys") else vars(of)
    numbers = [name for name in ("estimate", "ci_low", "ci_high", "p", "n") if given is not None and name in given]
    taken = {"corrected" if name == "estimate" else name: given[name] for name in numbers}
    return {"claim": claim, "quantity": quantity, "prompt": prompt} | taken | fields


def state(study: Collection, notebook: str, estimates: Iterable[dict]) -> pd.DataFrame:
    """Judge a notebook's estimates, keep them for the scorecard, and return one row per sentence to show.

    estimates: dicts, or a DataFrame, with `claim, quantity` and any of STATED. `as_published` is the number by the
    authors' recipe. `corrected` is the statistic that the sentence should mean; the interval, n and p belong to it.
    What was counted in the paper's printed tables is kept for the published scorecard as well, whatever the study.
    The tests of one notebook are one family, corrected by Benjamini and Hochberg (1995). InputError for an estimate
    that numbers.csv does not declare, and for one that is stated twice.
    """
    estimates = estimates.to_dict("records") if isinstance(estimates, pd.DataFrame) else list(estimates)
    table, counted = judged(study, estimates), [one for one in estimates if one.get("evidence") == COUNTED]
    for collection, rows in {study: table, PUBLISHED: judged(PUBLISHED, counted)}.items():
        if collection == study or not study.is_published and len(rows):
            with replacing(collection.claims / f"{notebook}.csv") as part:
                rows.to_csv(part, index=False)
    return scorecard(table)


def judged(study: Collection, estimates: list[dict]) -> pd.DataFrame:
    """Return the estimates as a table with COLUMNS; models other than the paper's have no word."""
    rows, own = [], papers_own(study)
    for given in estimates:
        if unknown := sorted(set(given) - {"claim", "quantity", *STATED}):
            raise InputError(f"an estimate has no field '{unknown[0]}'; choose among {', '.join(STATED)}")
        one = STATED | {name: None if pd.api.types.is_scalar(value) and pd.isna(value) else value
                        for name, value in given.items()}  # fmt: skip
        row = declared(*(one[name] or "" for name in NAMES))
        ours = Numbers(**{name: one[name] for name in NUMBERS if name != "p"})
        p = rules.p_of_interval(row, ours) if one["p"] is None else one["p"]
        has_texts = not row.needs or row.needs in own or one["evidence"] == COUNTED
        says = rules.judge(row, ours) if has_texts else None
        said = row.said or " ".join(filter(None, [row.quantity.replace("_", " "), one["prompt"], one["model"]]))
        of_row = {"paper": row.printed, "role": row.role, "said": said, "population": study.population}
        rows.append(one | of_row | {"p": p, "says": says, "has_texts": has_texts, "note": one["remark"] or ""})
    table = pd.DataFrame(rows, columns=[*COLUMNS, "said", "says", "has_texts"])
    if (twice := table.duplicated(list(NAMES))).any():
        first = table.loc[twice].iloc[0]
        raise InputError(f"{first['quantity']} of {first['claim']} is stated twice; give each row its own quantity")
    table = table.astype(object).assign(p_corrected=np.nan, word="", remark="")
    is_papers = table["claim"].map(sections()) != BEYOND
    tested = (table["role"] == "primary") & table["p"].notna() & is_papers
    if tested.any():
        table.loc[tested, "p_corrected"] = false_discovery_control(table.loc[tested, "p"].astype(float))
    for claim, of_claim in table.groupby("claim", sort=False):
        if study.holds_papers_models or (of_claim["evidence"] == COUNTED).any():
            table.loc[of_claim.index, ["word", "remark"]] = _verdict(study, claim, of_claim)
    return table[COLUMNS].astype(dict.fromkeys([*NUMBERS, "p_corrected"], float))


def _verdict(study: Collection, claim: str, rows: pd.DataFrame) -> tuple[str, str]:
    """Return the word of a sentence and the remark on it."""
    says = rows["says"].where((rows["p_corrected"].isna()) | (rows["p_corrected"] < LEVEL), False)
    rows = rows.assign(says=says.where(rows["says"].notna(), None))
    primary, also, printed = (rows[rows["role"] == role] for role in ("primary", "also", "printed"))
    notes = [note for note in dict.fromkeys(primary["note"]) if note]
    if sections()[claim] == BEYOND:
        return BEYOND, "; ".join(notes)
    if not primary["has_texts"].all():
        return NOT_TESTABLE, "; ".join([OTHER_TEXTS.get(study, "other texts"), *notes])
    if not primary["says"].notna().any():
        return NOT_TESTABLE, "; ".join(notes or ["no data"])
    word = rules.word_of(*(part["says"].dropna() for part in (primary, also, printed)))
    disagree = primary["says"].eq(False).any() and primary["says"].eq(True).any()
    told = [*(primary.itertuples() if disagree else ()), *also[also["says"].notna()].itertuples()]
    shown = [f"{row.said}: {'yes' if row.says else 'no'}" for row in told]
    differ = [f"printed {row.paper}, ours {short(row.corrected if pd.isna(row.as_published) else row.as_published)}"
              for row in printed.itertuples() if row.says is False]  # fmt: skip
    of_words = ["on 2,260 moral words"] if study == WORDS and COUNTED not in set(primary["evidence"]) else []
    return word, "; ".join([*shown, *differ, *notes, *of_words])


def papers_own(study: Collection) -> Set[str]:
    """Return what of the paper's own data a collection holds: its models, vocabulary, items; nothing for others."""
    texts = {ITEMS: "items", WORDS: "words"}.get(study, "vocabulary")
    return frozenset({"models", texts}) if study.holds_papers_models else frozenset()


def gather(collection: Collection) -> pd.DataFrame:
    """Return the rows of every sentence, in the paper's order, that notebooks kept for this collection.

    `published` gathers all published collections; a sentence has the rows of the first that can test it. What was
    counted in printed tables stays as it is committed until a notebook counts it again. A sentence without rows is not
    testable here, and its remark says what it needs. InputError if no notebook kept any row.
    """
    parts = [VOCABULARY, ITEMS, WORDS, PUBLISHED] if collection == PUBLISHED else [collection]
    kept = [table for part in parts for path in sorted(part.claims.glob("*.csv")) if len(table := read_claims(path))]
    if kept and collection == PUBLISHED and len(committed := published_table("claims")):
        kept.append(committed[committed["evidence"] == COUNTED])
    if not kept:
        target = "published" if collection.is_published else "reproduce"
        raise InputError(f"no claims for collection '{collection}' yet; run the notebooks: make {target}")
    chosen = {}
    for table in kept:
        for claim, rows in table.groupby("claim", sort=False):
            if claim not in chosen or chosen[claim]["word"].iloc[0] == NOT_TESTABLE != rows["word"].iloc[0]:
                chosen[claim] = rows
    of_paper = listed()[listed()["section"] != BEYOND]
    for claim, needs in of_paper.drop(index=[name for name in chosen if name in of_paper.index])["needs"].items():
        absent = {"claim": claim, "word": NOT_TESTABLE if collection.is_published else "", "remark": f"needs {needs}"}
        chosen[claim] = pd.DataFrame([absent], columns=COLUMNS)
    everything = pd.concat([chosen[claim].astype(object) for claim in listed().index if claim in chosen])
    texts, numbers = set(COLUMNS) - {*NUMBERS, "p_corrected"}, [*NUMBERS, "p_corrected"]
    everything = everything.fillna(dict.fromkeys(texts, "")).astype(dict.fromkeys(numbers, float))
    return everything.reset_index(drop=True)


def read_claims(path) -> pd.DataFrame:
    """Return a table of claims as it was written. InputError names a file that is none, and how to have it again."""
    numbers = [*NUMBERS, "p_corrected"]
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=dict.fromkeys(numbers, ""),
                            dtype=dict.fromkeys(set(COLUMNS) - set(numbers), str))[COLUMNS]  # fmt: skip
        return table.astype(dict.fromkeys(numbers, float))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} holds no claims; to have them written again, run: make published") from error


def scorecard(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence: what it says, the paper's number, both of ours, one word and a remark.

    table: of `judged` or `gather`. Index: claim. A sentence shows its first primary quantity; the paper's number is
    that of its first quantity that has one. Where nothing is remarked, the remark says what the number is.
    """
    rows = {}
    for claim, of_claim in table.groupby("claim", sort=False):
        ordered = of_claim.sort_values("role", key=lambda role: role.map({"primary": 0, "printed": 1}).fillna(2),
                                       kind="stable")  # fmt: skip
        first, with_print = ordered.iloc[0], ordered[ordered["paper"].fillna("") != ""]
        recipe = with_print.iloc[0] if len(with_print) else first
        rows[claim] = {
            "sentence": listed()["says"][claim],
            "paper": str(recipe["paper"]) if len(with_print) else "",
            "by the paper's recipe": "" if pd.isna(recipe["as_published"]) else _of_all(recipe, recipe["as_published"]),
            "corrected": "" if pd.isna(first["corrected"]) else _of_all(first, number_text(first)),
            "n": "" if pd.isna(first["n"]) else f"{first['n']:.0f}",
            "word": first["word"],
            "remark": first["remark"] or (declared(*first[list(NAMES)]).said if first["quantity"] else ""),
        }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("claim")


def _of_all(row: pd.Series, number: float | str) -> str:
    """Return a number as text; a count of models, lists or cells with how many there are, `8 of 10`."""
    text = number if isinstance(number, str) else short(number)
    is_count = row["quantity"] and declared(*row[list(NAMES)]).rule in rules.COUNTS and pd.notna(row["n"])
    return f"{text} of {row['n']:.0f}" if is_count else text


def number_text(row: pd.Series) -> str:
    """Return a number with its interval, `-0.02 [-0.05, 0.01]`; '' where nothing was computed."""
    number = row["as_published"] if pd.isna(row["corrected"]) else row["corrected"]
    if pd.isna(number):
        return ""
    has_interval = row["ci_low"] < row["ci_high"]  # a count of all there is has none
    return short(number) + (f" [{short(row['ci_low'])}, {short(row['ci_high'])}]" if has_interval else "")


def short(number: float) -> str:
    """Return a number to two digits, a large or whole one without decimals."""
    return f"{number:.0f}" if float(number).is_integer() or abs(number) >= 100 else f"{number:.2g}"


def listed() -> pd.DataFrame:
    """Return data/paper/claims.csv by claim, in the paper's order."""
    return paper_table("claims").set_index("claim")


@cache
def sections() -> dict[str, str]:
    """Return claim -> section of the paper, or `beyond the paper`."""
    return listed()["section"].to_dict()


@cache
def _declared() -> tuple[Declared, ...]:
    table = paper_table("numbers")
    table = table.assign(**{name: pd.to_numeric(table[name]) for name in ("within", "limit")})
    return tuple(Declared(**row) for row in table.to_dict("records"))


def declared(claim: str, quantity: str, prompt: str = "", model: str = "") -> Declared:
    """Return how numbers.csv declares this quantity of this claim. Raise InputError if it does not."""
    for row in _declared():
        is_named = (row.claim, row.quantity) == (claim, quantity) and claim in sections()
        if is_named and (not row.prompt or prompt in row.prompt.split()) and row.model in ("", model):
            return row
    name = " ".join(filter(None, [quantity, prompt, model]))
    raise InputError(f"'{name}' of '{claim}' is not declared; add it to data/paper/numbers.csv and claims.csv")


def method_check(*claims: str) -> pd.DataFrame:
    """Return what planted models say about the estimators of these sentences (data/calibration/method.csv)."""
    table = pd.read_csv(DATA / "calibration" / "method.csv", keep_default_na=False, na_values="")
    return table[table["claim"].isin(claims)].set_index("claim")


def paper_table(name: str) -> pd.DataFrame:
    """Return a table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay strings."""
    path = DATA / "paper" / f"{name}.csv"
    if not path.is_file():
        tables = ", ".join(sorted(table.stem for table in path.parent.glob("*.csv")))
        raise InputError(f"no table '{name}' of the paper in data/paper; there are {tables}")
    return pd.read_csv(path, keep_default_na=False)


def published_table(name: str) -> pd.DataFrame:
    """Return the committed claims of the published scores, figures/published/<name>.csv; empty if there is no file."""
    path = PUBLISHED.figures / f"{name}.csv"
    return read_claims(path) if path.is_file() else pd.DataFrame()
