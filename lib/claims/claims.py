"""The paper's sentences: notebooks state estimates, rules judge them, a scorecard gathers them.

data/paper/claims.csv lists the sentences. data/paper/numbers.csv lists what the paper prints, and
the rule for each quantity (rules.py). A word depends on the p-values of all primary tests of the
scorecard, which are corrected together. So a word is never stored for later use: `gather` judges
the numbers again.
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
NUMERIC = [*NUMBERS, "p_corrected"]
COLUMNS = [
    *NAMES,
    "paper",
    *NUMERIC,
    "word",
    "remark",
    "role",
    "evidence",
    "population",
    "note",
]
TEXTS = [name for name in COLUMNS if name not in NUMERIC]
# what an estimate may have beside its claim and quantity
STATED = dict.fromkeys(["prompt", "model", "remark", "evidence"], "")
STATED |= dict.fromkeys(NUMBERS)
# What a number rests on: the paper's tables and figures as printed, the rewards that the authors
# released, or rewards that a run of this project computed.
EVIDENCE = COUNTED, RELEASED, OWN_RUN = "printed tables", "released rewards", "own run"
DECISIVE = (
    "primary",
    "also",
    "printed",
)  # the roles that enter a word, as word_of takes them
# how a remark says what a number says
ANSWERS = "The opposite", "Supported", "Not supported"
# a column of the scorecard of one notebook on other models
UNCORRECTED = "p, not corrected"


def estimate(claim: str, quantity: str, prompt: str = "", of=None, **fields) -> dict:
    """Return one estimate as `state` takes it.

    of: a row, dict or dataclass with some of `estimate` (which becomes `corrected`), `ci_low,
    ci_high, p, n`. fields: more of STATED, which come before those.
    """
    stated = {"claim": claim, "quantity": quantity, "prompt": prompt}
    if of is not None:
        given = of if hasattr(of, "keys") else vars(of)
        for name in ("estimate", "ci_low", "ci_high", "p", "n"):
            if name in given:
                ours = "corrected" if name == "estimate" else name
                stated[ours] = given[name]
    return stated | fields


def state(study: Collection, notebook: str, estimates: Iterable[dict]) -> pd.DataFrame:
    """Judge a notebook's estimates, keep them for the scorecard, and return one row per sentence to
    show.

    estimates: dicts, or a DataFrame, with `claim, quantity` and any of STATED. `as_published` is
    the number by the authors' recipe. `corrected` is the statistic that the sentence should mean;
    the interval, n and p belong to it. What was counted in the paper's printed tables is kept for
    the published scorecard as well, whatever the study.

    For a published collection, p-values are corrected together with the other primary tests of the
    committed scorecard (figures/published/claims.csv), so a word is that of the scorecard. For
    another collection, the rows have the smallest p-value of their sentence without a correction;
    notebook 11 corrects them.

    InputError for an estimate that numbers.csv does not declare, and for one that is stated twice.
    """
    if isinstance(estimates, pd.DataFrame):
        estimates = estimates.to_dict("records")
    estimates = list(estimates)
    table = judged(study, estimates)
    if study.is_published:
        committed = published_table("claims")
        others = other_tests(committed, set(table["claim"]))
        table = with_words(table, others)
        _keep(table, study, notebook)
        return scorecard(table)
    table = with_words(table, corrected=False)
    _keep(table, study, notebook)
    counted = [one for one in estimates if one.get("evidence") == COUNTED]
    if counted:
        _keep(with_words(judged(PUBLISHED, counted)), PUBLISHED, notebook)
    card = scorecard(table)
    is_test = table["role"].eq("primary") & table["p"].notna()
    smallest = table[is_test].groupby("claim")["p"].min()
    smallest = smallest.reindex(card.index)
    return card.assign(**{UNCORRECTED: smallest.map(short)})


def _keep(table: pd.DataFrame, collection: Collection, notebook: str) -> None:
    with replacing(collection.claims / f"{notebook}.csv") as part:
        table.to_csv(part, index=False)


def judged(study: Collection, estimates: Iterable[dict]) -> pd.DataFrame:
    """Return the estimates as rows with COLUMNS but without words, and what `with_words` needs.

    Further columns: `said` (the quantity in words), `says` (whether the number supports the
    sentence; None where it cannot tell), `is_opposite`, `has_texts` (whether the study holds what
    claims.csv says that a test needs), `has_word` (whether the row is about the paper's models).
    A number that cannot test its sentence has no p-value, and so belongs to no correction.
    """
    rows = []
    own = papers_own(study)
    for given in estimates:
        unknown = sorted(set(given) - {"claim", "quantity", *STATED})
        if unknown:
            raise InputError(
                f"an estimate has no field '{unknown[0]}'; choose among {', '.join(STATED)}"
            )
        one = dict(STATED)
        for name, value in given.items():
            one[name] = value
            if pd.api.types.is_scalar(value) and pd.isna(value):
                one[name] = None
        rows.append(one | _judged(study, one, own))
    extra = ["said", "says", "is_opposite", "has_texts", "has_word"]
    table = pd.DataFrame(rows, columns=[*COLUMNS, *extra])
    table = table.astype(object)
    twice = table[table.duplicated(list(NAMES))]
    if len(twice):
        first = twice.iloc[0]
        raise InputError(
            f"{first['quantity']} of {first['claim']} is stated twice; give each row its own "
            "quantity"
        )
    return table.assign(p_corrected=np.nan, word="", remark="")


def _judged(study: Collection, one: dict, own: Set[str]) -> dict:
    """Return what the declaration of an estimate says about it."""
    row = declared(*(one[name] or "" for name in NAMES))
    numbers = {name: one[name] for name in NUMBERS if name != "p"}
    ours = Numbers(**numbers)
    is_counted = one["evidence"] == COUNTED
    has_word = study.holds_papers_models or is_counted
    enough = {listed().loc[row.claim, "needs"]}
    if enough == {"words"}:
        # the paper computed what it prints on whole vocabularies
        enough = {"vocabulary"} if row.role == "printed" else {"words", "vocabulary"}
    has_texts = is_counted or not enough.isdisjoint(own)
    population = study.population
    if is_counted:
        is_about_replies = sections()[row.claim] == "5"
        population = "printed replies" if is_about_replies else "whole vocabularies"
    words = row.quantity.replace("_", " ")
    named = filter(None, [words, one["prompt"], one["model"]])
    evidence = RELEASED if study.is_published else OWN_RUN
    p = one["p"]
    if p is None:
        p = rules.p_of_interval(row, ours)
    return {
        "paper": row.printed,
        "role": row.role,
        "said": row.said or " ".join(named),
        "p": p if has_texts or not has_word else None,
        "evidence": one["evidence"] or evidence,
        "population": population,
        "says": rules.judge(row, ours) if has_texts else None,
        "is_opposite": rules.is_opposite(row, ours),
        "has_texts": has_texts,
        "has_word": has_word,
        "note": one["remark"] or "",
    }


def with_words(
    table: pd.DataFrame,
    others: Iterable[float] = (),
    corrected: bool = True,
) -> pd.DataFrame:
    """Return rows of `judged` with corrected p-values, and the word and remark of each sentence;
    columns: COLUMNS.

    others: p-values of the primary tests of other sentences, which belong to the same correction
    (Benjamini and Hochberg 1995). corrected: whether p-values are corrected; if not, each is
    compared with .05 as it is.
    """
    table = table.copy()
    tested = primary_tests(table)
    if corrected and tested.any():
        own = table.loc[tested, "p"].astype(float)
        p = false_discovery_control([*own, *others])
        table.loc[tested, "p_corrected"] = p[: len(own)]
    for claim, of_claim in table.groupby("claim", sort=False):
        if of_claim["has_word"].any():
            word, remark = _verdict(claim, of_claim)
            table.loc[of_claim.index, "word"] = word
            table.loc[of_claim.index, "remark"] = remark
    return table[COLUMNS].astype(dict.fromkeys(NUMERIC, float))


def primary_tests(table: pd.DataFrame) -> pd.Series:
    """Return which rows are primary tests of the paper's sentences: those with a p-value."""
    is_papers = table["claim"].map(sections()) != BEYOND
    is_primary = table["role"].eq("primary")
    return is_primary & is_papers & table["p"].notna()


def other_tests(table: pd.DataFrame, claims_here: Set[str]) -> list[float]:
    """Return the p-values of a table's primary tests of other sentences than these."""
    if table.empty:
        return []
    tests = table[primary_tests(table)]
    is_here = tests["claim"].isin(claims_here)
    return tests.loc[~is_here, "p"].tolist()


def _verdict(claim: str, rows: pd.DataFrame) -> tuple[str, str]:
    """Return the word of a sentence and the remark on it."""
    notes = [note for note in dict.fromkeys(rows["note"]) if note]
    if sections()[claim] == BEYOND:
        return BEYOND, ". ".join(notes)
    primary = rows[rows["role"] == "primary"]
    if not primary["has_texts"].all():
        return NOT_TESTABLE, ". ".join([listed().loc[claim, "why"].rstrip("."), *notes])
    if not primary["says"].notna().any():
        return NOT_TESTABLE, ". ".join(notes or ["no data"])
    # a number that is not significant does not support its sentence
    p = rows["p_corrected"].astype(float).fillna(rows["p"].astype(float))
    is_weak = rows["says"].eq(True) & (p >= LEVEL)
    rows = rows.assign(says=rows["says"].mask(is_weak, False), p=p.where(is_weak))
    rows = rows.dropna(subset="says")
    of_role = [rows.loc[rows["role"] == role, "says"] for role in DECISIVE]
    return rules.word_of(*of_role), ". ".join([*_described(rows), *notes])


def _described(rows: pd.DataFrame) -> list[str]:
    """Return what the numbers say, those on the other side first. Printed numbers that come out
    are left out, and so are primary ones that agree, because the scorecard shows them.
    """
    role = rows["role"]
    is_left_out = role.eq("shown") | role.eq("printed") & rows["says"].eq(True)
    if rows.loc[role == "primary", "says"].nunique() < 2:
        is_plain = ~rows["is_opposite"].astype(bool) & rows["p"].isna()
        is_left_out |= role.eq("primary") & is_plain
    said: dict[str, list[str]] = {name: [] for name in ANSWERS}
    for _, row in rows[~is_left_out].iterrows():
        answer = 0 if row["is_opposite"] else 1 if row["says"] else 2
        said[ANSWERS[answer]].append(_in_words(row))
    return [
        f"{name}: {'; '.join(numbers)}" for name, numbers in said.items() if numbers
    ]


def _in_words(row: pd.Series) -> str:
    """Return a quantity in words with its number, `under best (0.056 [0.0089, 0.1])`."""
    numbers = []
    if pd.notna(row["ci_low"]):
        numbers.append(number_text(row))
    elif row["paper"] and not row["says"]:
        ours = row["corrected"] if pd.isna(row["as_published"]) else row["as_published"]
        numbers.append(f"printed {row['paper']}, ours {short(ours)}")
    if pd.notna(row["p"]):
        numbers.append(f"p = {short(row['p'])}")
    return f"{row['said']} ({', '.join(numbers)})" if numbers else row["said"]


def papers_own(study: Collection) -> Set[str]:
    """Return what of the paper's own data a collection holds: vocabulary, words or items; nothing
    for others.
    """
    if not study.holds_papers_models:
        return frozenset()
    return frozenset({{ITEMS: "items", WORDS: "words"}.get(study, "vocabulary")})


def gather(collection: Collection) -> pd.DataFrame:
    """Return the rows of every sentence, in the paper's order, that notebooks kept for this
    collection.

    `published` gathers all published collections; a sentence has the rows of the first that can
    test it. What was counted in printed tables stays as it is committed until a notebook counts it
    again. The primary tests of all sentences are corrected together. A sentence without rows is not
    testable here, and its remark says why. InputError if no notebook kept any row.
    """
    chosen: dict[str, pd.DataFrame] = {}
    for part, table in _kept_rows(collection):
        rows_of_part = judged(part, as_estimates(table))
        for claim, rows in rows_of_part.groupby("claim", sort=False):
            if claim in chosen and _can_be_tested(chosen[claim]):
                continue
            if claim not in chosen or _can_be_tested(rows):
                chosen[claim] = rows
    words = pd.concat(chosen.values(), ignore_index=True)
    words = with_words(words)
    without_rows = _rows_of_absent(set(chosen), collection)
    rows = pd.concat([words.astype(object), without_rows])
    place = listed().index.get_indexer
    rows = rows.sort_values("claim", key=place, kind="stable")
    rows = rows.fillna(dict.fromkeys(TEXTS, ""))
    rows = rows.astype(dict.fromkeys(NUMERIC, float))
    return rows.reset_index(drop=True)


def _rows_of_absent(chosen: Set[str], collection: Collection) -> pd.DataFrame:
    """Return a row for each of the paper's sentences that is not among these."""
    papers = listed()
    papers = papers[papers["section"] != BEYOND]
    absent = papers[~papers.index.isin(chosen)]
    places = range(len(absent))
    rows = pd.DataFrame(index=places, columns=COLUMNS, dtype=object)
    rows["claim"] = absent.index
    rows["word"] = NOT_TESTABLE if collection.is_published else ""
    rows["remark"] = absent["why"].tolist()
    return rows


def _kept_rows(collection: Collection) -> list[tuple[Collection, pd.DataFrame]]:
    """Return what notebooks kept for a collection: tables with COLUMNS, and the collection that
    each is about.
    """
    is_published = collection == PUBLISHED
    parts = [VOCABULARY, ITEMS, WORDS, PUBLISHED] if is_published else [collection]
    kept = []
    for part in parts:
        for path in sorted(part.claims.glob("*.csv")):
            table = read_claims(path)
            if len(table):
                kept.append((part, table))
    if not kept:
        target = "published" if collection.is_published else "reproduce"
        raise InputError(
            f"no claims for collection '{collection}' yet; run the notebooks: make {target}"
        )
    committed = published_table("claims")
    if is_published and len(committed):
        counted = committed.loc[committed["evidence"] == COUNTED, "claim"]
        is_counted = committed["claim"].isin(counted)
        kept.append((PUBLISHED, committed[is_counted]))
    return kept


def as_estimates(table: pd.DataFrame) -> list[dict]:
    """Return the rows of a table with COLUMNS as estimates, so that they can be judged again."""
    is_stated = table["quantity"] != ""
    rows = table.loc[is_stated, ["claim", "quantity", *STATED]]
    return rows.assign(remark=table["note"]).to_dict("records")


def _can_be_tested(rows: pd.DataFrame) -> bool:
    """Return whether a sentence with these rows of `judged` gets another word than `not testable
    here`.
    """
    primary = rows[rows["role"] == "primary"]
    has_texts = primary["has_texts"].all()
    return bool(has_texts and primary["says"].notna().any())


def read_claims(path) -> pd.DataFrame:
    """Return a table of claims as it was written. InputError names a file that is none, and how
    to have it again.
    """
    texts = dict.fromkeys(TEXTS, str)
    empty = dict.fromkeys(NUMERIC, "")
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=empty, dtype=texts)
        return table[COLUMNS].astype(dict.fromkeys(NUMERIC, float))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{path} holds no claims; to have them written again, run: make published"
        ) from error


def scorecard(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence: what it says, the paper's number, both of ours, one word and a
    remark.

    table: of `judged` or `gather`. Index: claim. A sentence shows its first primary quantity; the
    paper's number is that of its first quantity that has one. Where nothing is remarked, the remark
    says what the number is.
    """
    rows = {}
    sentences = listed()["says"]
    for claim, of_claim in table.groupby("claim", sort=False):
        place = of_claim["role"].map({"primary": 0, "printed": 1})
        order = place.fillna(2).sort_values(kind="stable").index
        ordered = of_claim.loc[order]
        first = ordered.iloc[0]
        with_print = ordered[ordered["paper"].fillna("") != ""]
        recipe = with_print.iloc[0] if len(with_print) else first
        ours = said = ""
        if pd.notna(first["corrected"]):
            ours = number_text(first)
        if first["quantity"]:
            said = declared(*first[list(NAMES)]).said
        rows[claim] = {
            "sentence": sentences[claim],
            "paper": recipe["paper"] if len(with_print) else "",
            "by the paper's recipe": _of_all(recipe, short(recipe["as_published"])),
            "corrected": _of_all(first, ours),
            "n": short(first["n"]),
            "evidence": first["evidence"] if first["word"] != NOT_TESTABLE else "",
            "word": first["word"],
            "remark": first["remark"] or said,
        }
    card = pd.DataFrame.from_dict(rows, orient="index")
    return card.rename_axis("claim")


def _of_all(row: pd.Series, number: str) -> str:
    """Return the text of a number; a count of models, lists or cells gets how many there are, `8 of
    10`.
    """
    if not number or not row["quantity"] or pd.isna(row["n"]):
        return number
    rule = declared(*row[list(NAMES)]).rule
    return f"{number} of {row['n']:.0f}" if rule in rules.COUNTS else number


def number_text(row: pd.Series) -> str:
    """Return a number with its interval, `-0.02 [-0.05, 0.01]`; '' where nothing was computed."""
    number = row["corrected"]
    if pd.isna(number):
        number = row["as_published"]
    text = short(number)
    if text and row["ci_low"] < row["ci_high"]:  # a count of all there is has none
        text += f" [{short(row['ci_low'])}, {short(row['ci_high'])}]"
    return text


def short(number: float) -> str:
    """Return a number to two digits, a large or whole one without decimals; '' for none."""
    if pd.isna(number):
        return ""
    is_whole = float(number).is_integer() or abs(number) >= 100
    return f"{number:.0f}" if is_whole else f"{number:.2g}"


@cache
def listed() -> pd.DataFrame:
    """Return data/paper/claims.csv by claim, in the paper's order."""
    return paper_table("claims").set_index("claim")


def sections() -> pd.Series:
    """Return claim -> section of the paper, or `beyond the paper`."""
    return listed()["section"]


@cache
def _declared() -> tuple[Declared, ...]:
    table = paper_table("numbers")
    for name in ("within", "limit"):
        table[name] = pd.to_numeric(table[name])
    return tuple(Declared(**row) for row in table.to_dict("records"))


def declared(claim: str, quantity: str, prompt: str = "", model: str = "") -> Declared:
    """Return how numbers.csv declares this quantity of this claim. Raise InputError if it does
    not.
    """
    rows = _declared() if claim in sections() else ()
    for row in rows:
        is_named = row.claim == claim and row.quantity == quantity
        is_asked = not row.prompt or prompt in row.prompt.split()
        if is_named and is_asked and row.model in ("", model):
            return row
    name = " ".join(filter(None, [quantity, prompt, model]))
    raise InputError(
        f"'{name}' of '{claim}' is not declared; add it to data/paper/numbers.csv and claims.csv"
    )


def method_check(*claims: str) -> pd.DataFrame:
    """Return what planted models say about the estimators of these sentences
    (data/calibration/method.csv).
    """
    path = DATA / "calibration" / "method.csv"
    table = pd.read_csv(path, keep_default_na=False, na_values="")
    return table[table["claim"].isin(claims)].set_index("claim")


def paper_table(name: str) -> pd.DataFrame:
    """Return a table printed in the paper, data/paper/<name>.csv; tokens such as `null` stay
    strings.
    """
    return pd.read_csv(DATA / "paper" / f"{name}.csv", keep_default_na=False)


def published_table(name: str) -> pd.DataFrame:
    """Return the committed claims of the published scores, figures/published/<name>.csv; empty
    if there is no file.
    """
    path = PUBLISHED.figures / f"{name}.csv"
    if path.is_file():
        return read_claims(path)
    return pd.DataFrame()
