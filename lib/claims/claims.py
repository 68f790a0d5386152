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

NAMES = ["claim", "quantity", "prompt", "model"]
NUMBERS = ["as_published", "corrected", "ci_low", "ci_high", "n", "p"]
NUMERIC = [*NUMBERS, "p_corrected"]
# what a notebook keeps of each number, and what the scorecard has
KEPT = [*NAMES, *NUMBERS, "evidence", "population", "note"]
COLUMNS = [*NAMES, "paper", *NUMERIC, "word", "remark", "role", *KEPT[-3:]]
TEXTS = [name for name in COLUMNS if name not in NUMERIC]
# what an estimate may have beside its claim and quantity
STATED = dict.fromkeys(["prompt", "model", "remark", "evidence"], "")
STATED |= dict.fromkeys(NUMBERS)
# What a number rests on: the paper's tables and figures as printed, the rewards that the authors
# released, or rewards that a run of this project computed.
EVIDENCE = COUNTED, RELEASED, OWN_RUN = "printed tables", "released rewards", "own run"
# population of a table of the paper's models -> what it may test (`needs` of claims.csv)
MAY_TEST = {
    VOCABULARY.population: ("vocabulary", "words"),
    WORDS.population: ("words",),
    ITEMS.population: ("items",),
}
# the roles that enter a word, in the order of rules.word_of
DECISIVE = "primary", "also", "printed"
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
    table = stated(study, estimates)
    _keep(table, study, notebook)
    judged = judge(study, table)
    card = scorecard(judged)
    if study.is_published:
        return card
    counted = table[table["evidence"] == COUNTED]
    if len(counted):
        _keep(counted, PUBLISHED, notebook)
    smallest = judged[primary_tests(judged)].groupby("claim")["p"].min()
    return card.assign(**{UNCORRECTED: smallest.reindex(card.index).map(short)})


def judge(study: Collection, table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `stated` with COLUMNS: their words, among the tests that `state` names."""
    committed = _committed() if study.is_published else table.head(0)
    is_other = ~committed["claim"].isin(table["claim"])
    judged = with_words(answers(pd.concat([table, committed[is_other]])))
    return judged[judged["claim"].isin(table["claim"])]


def _keep(table: pd.DataFrame, collection: Collection, notebook: str) -> None:
    with replacing(collection.claims / f"{notebook}.csv") as part:
        table.to_csv(part, index=False)


def stated(study: Collection, estimates: Iterable[dict]) -> pd.DataFrame:
    """Return estimates, as `state` takes them, as rows with KEPT."""
    table = pd.DataFrame(estimates)
    unknown = sorted(set(table) - {"claim", "quantity", *STATED})
    if unknown:
        raise InputError(
            f"an estimate has no field '{unknown[0]}'; choose among {', '.join(STATED)}"
        )
    table = table.reindex(columns=["claim", "quantity", *STATED])
    table = table.rename(columns={"remark": "note"})
    texts = [*NAMES, "note", "evidence"]
    table[texts] = table[texts].astype(object).fillna("")
    twice = table[table.duplicated(NAMES)]
    if len(twice):
        first = twice.iloc[0]
        raise InputError(
            f"{first['quantity']} of {first['claim']} is stated twice; give each row its own "
            "quantity"
        )
    is_counted = table["evidence"].eq(COUNTED)
    on_replies = table["claim"].map(sections()).eq("5")
    counted_in = on_replies.map({True: "printed replies", False: "whole vocabularies"})
    evidence = RELEASED if study.is_published else OWN_RUN
    return table.assign(
        population=counted_in.where(is_counted, _population(study)),
        evidence=table["evidence"].replace("", evidence),
    )[KEPT].astype(dict.fromkeys(NUMBERS, float))


def answers(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with KEPT with what numbers.csv declares, and what each number says.

    Further columns: `paper`, `role`, `said` (the quantity in words), `says` (whether the number
    supports the sentence; None where it cannot tell), `is_opposite`, `has_texts` (whether
    claims.csv says that this population may test it), `has_word` (whether it is about the paper's
    models). A number that cannot test its sentence has no p-value, and so belongs to no correction.
    """
    rows = []
    for one in table.to_dict("records"):
        row = declared(*(one[name] for name in NAMES))
        ours = Numbers(*(one[name] for name in NUMBERS[:-1]))
        needs = listed().loc[row.claim, "needs"]
        if row.role == "printed" and needs == "words":
            needs = "vocabulary"  # the paper computed what it prints there
        is_counted = one["evidence"] == COUNTED
        has_texts = is_counted or needs in MAY_TEST.get(one["population"], ())
        has_word = is_counted or one["population"] in MAY_TEST
        p = rules.p_of_interval(row, ours) if pd.isna(one["p"]) else one["p"]
        words = filter(
            None, [row.quantity.replace("_", " "), one["prompt"], one["model"]]
        )
        answer = {
            "paper": row.printed,
            "role": row.role,
            "said": row.said or " ".join(words),
            "p": p if has_texts or not has_word else None,
            "says": rules.judge(row, ours) if has_texts else None,
            "is_opposite": rules.is_opposite(row, ours),
            "has_texts": has_texts,
            "has_word": has_word,
        }
        rows.append(one | answer)
    columns = [
        *KEPT,
        "paper",
        "role",
        "said",
        "says",
        "is_opposite",
        "has_texts",
        "has_word",
    ]
    found = pd.DataFrame(rows, columns=columns)
    return found.astype(dict.fromkeys(NUMBERS, float) | {"says": object})


def with_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `answers` with corrected p-values (Benjamini and Hochberg 1995), and the word
    and remark of each sentence; columns: COLUMNS.
    """
    table = table.reset_index(drop=True)
    table = table.assign(p_corrected=np.nan, word="", remark="")
    tests = primary_tests(table)
    if tests.any():
        table.loc[tests, "p_corrected"] = false_discovery_control(table.loc[tests, "p"])
    for claim, of_claim in table.groupby("claim", sort=False):
        if of_claim["has_word"].any():
            word, remark = _verdict(claim, of_claim)
            table.loc[of_claim.index, ["word", "remark"]] = word, remark
    return table[COLUMNS]


def primary_tests(table: pd.DataFrame) -> pd.Series:
    """Return which rows are primary tests of the paper's sentences: those with a p-value."""
    is_papers = table["claim"].map(sections()) != BEYOND
    is_primary = table["role"].eq("primary")
    return is_primary & is_papers & table["p"].notna()


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
    p = rows["p_corrected"].fillna(rows["p"])
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
    number = _of_all(row, number_text(row))
    if row["paper"] and not row["says"] and pd.isna(row["ci_low"]):
        ours = row["corrected"] if pd.isna(row["as_published"]) else row["as_published"]
        number = f"printed {row['paper']}, ours {short(ours)}"
    if pd.notna(row["p"]):
        number += f", p = {short(row['p'])}"
    return f"{row['said']} ({number})"


def _population(study: Collection) -> str:
    """Return the population of a study's numbers: of MAY_TEST for all of the paper's models."""
    if not study.holds_papers_models:
        return f"texts of {study}"
    return study.population if study.is_published else VOCABULARY.population


def papers_own(study: Collection) -> Set[str]:
    """Return what of the paper's own data a collection holds: vocabulary, words or items; nothing
    for others.
    """
    return frozenset(MAY_TEST.get(_population(study), ())[:1])


def gather(collection: Collection) -> pd.DataFrame:
    """Return the rows of every sentence, in the paper's order, that notebooks kept for this
    collection.

    `published` gathers all published collections; a sentence has the rows of the first that can
    test it. What was counted in printed tables stays as it is committed until a notebook counts it
    again. The primary tests of all sentences are corrected together. A sentence without rows is not
    testable here, and its remark says why. InputError if no notebook kept any row.
    """
    chosen: dict[str, pd.DataFrame] = {}
    for table in _kept_rows(collection):
        for claim, rows in answers(table).groupby("claim", sort=False):
            if claim in chosen and _can_be_tested(chosen[claim]):
                continue
            if claim not in chosen or _can_be_tested(rows):
                chosen[claim] = rows
    papers = listed()[sections() != BEYOND]
    absent = papers[~papers.index.isin(list(chosen))]
    word = NOT_TESTABLE if collection.is_published else ""
    columns = {"claim": absent.index, "word": word, "remark": absent["why"].to_numpy()}
    words = with_words(pd.concat(chosen.values()))
    rows = pd.concat([words.astype(object), pd.DataFrame(columns)])
    place = listed().index.get_indexer
    rows = rows.sort_values("claim", key=place, kind="stable", ignore_index=True)
    rows = rows.fillna(dict.fromkeys(TEXTS, ""))
    return rows.astype(dict.fromkeys(NUMERIC, float))


def _kept_rows(collection: Collection) -> list[pd.DataFrame]:
    """Return the tables with KEPT that notebooks kept for a collection."""
    is_published = collection == PUBLISHED
    parts = [VOCABULARY, ITEMS, WORDS, PUBLISHED] if is_published else [collection]
    paths = [path for part in parts for path in sorted(part.claims.glob("*.csv"))]
    if not paths:
        target = "published" if collection.is_published else "reproduce"
        raise InputError(
            f"no claims for collection '{collection}' yet; run the notebooks: make {target}"
        )
    kept = [read_claims(path, KEPT) for path in paths]
    if is_published:
        committed = _committed()
        counted = committed.loc[committed["evidence"] == COUNTED, "claim"]
        kept.append(committed[committed["claim"].isin(counted)])
    return kept


def _committed() -> pd.DataFrame:
    """Return the rows of the committed scorecard whose quantities are still declared."""
    table = published_table("claims").reindex(columns=KEPT)
    names = zip(*(table[name] for name in NAMES), strict=True)
    is_declared = [_declaration(*one) is not None for one in names]
    return table[np.array(is_declared, dtype=bool)]


def _can_be_tested(rows: pd.DataFrame) -> bool:
    """Return whether a sentence with these rows of `judged` gets another word than `not testable
    here`.
    """
    primary = rows[rows["role"] == "primary"]
    return bool(primary["has_texts"].all() and primary["says"].notna().any())


def read_claims(path, columns: Iterable[str] = COLUMNS) -> pd.DataFrame:
    """Return a table of claims as it was written. InputError names a file that is none, and how
    to have it again.
    """
    texts = dict.fromkeys(TEXTS, str)
    empty = dict.fromkeys(NUMERIC, "")
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=empty, dtype=texts)
        numeric = [name for name in columns if name in NUMERIC]
        return table[columns].astype(dict.fromkeys(numeric, float))
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


def _declaration(
    claim: str, quantity: str, prompt: str = "", model: str = ""
) -> Declared | None:
    for row in _declared():
        is_named = row.claim == claim and row.quantity == quantity
        is_asked = not row.prompt or prompt in row.prompt.split()
        if is_named and is_asked and row.model in ("", model):
            return row
    return None


def declared(claim: str, quantity: str, prompt: str = "", model: str = "") -> Declared:
    """Return how numbers.csv declares this quantity of this claim. Raise InputError if it does
    not.
    """
    row = _declaration(claim, quantity, prompt, model)
    if row is None:
        name = " ".join(filter(None, [quantity, prompt, model]))
        raise InputError(
            f"'{name}' of '{claim}' is not declared; add it to data/paper/numbers.csv and "
            "claims.csv"
        )
    return row


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
