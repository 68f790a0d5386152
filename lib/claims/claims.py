"""The paper's sentences: notebooks state estimates, rules judge them, a scorecard gathers them.

data/paper/claims.csv lists the sentences. data/paper/numbers.csv lists what the paper prints, and
the rule for each quantity (rules.py). A word depends on the p-values of all primary tests of the
scorecard, which are corrected together. So a word is never stored for later use: `gather` judges
the numbers again.
"""

from collections.abc import Iterable
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from .. import DATA, InputError
from ..io import replacing
from ..tables.collection import ITEMS, PUBLISHED, VOCABULARY, WORDS, Collection
from . import rules
from .rules import BEYOND, LEVEL, NOT_TESTABLE

NAMES = ["claim", "quantity", "prompt", "model"]
NUMBERS = ["as_published", "corrected", "ci_low", "ci_high", "n", "p"]
NUMERIC = [*NUMBERS, "p_corrected"]
# what a notebook keeps of each number, and what the scorecard has
KEPT = [*NAMES, *NUMBERS, "evidence", "population", "note"]
COLUMNS = [*NAMES, "paper", *NUMERIC, "word", "remark", "role", *KEPT[-3:]]
TEXTS = [name for name in COLUMNS if name not in NUMERIC]
# what an estimate may have beside its claim and quantity
STATED = ["prompt", "model", "remark", "evidence", *NUMBERS]
# what numbers.csv says of a quantity; `paper`: what is printed
DECLARED = ["paper", "role", "rule", "within", "limit", "said"]
# What a number rests on: the paper's tables and figures as printed, the rewards that the authors
# released, or rewards that a run of this project computed.
EVIDENCE = COUNTED, RELEASED, OWN_RUN = "printed tables", "released rewards", "own run"
# population of a table of the paper's models -> what it tests (`needs` of claims.csv); a vocabulary
# tests what words do
TESTS = {
    VOCABULARY.population: "vocabulary",
    WORDS.population: "words",
    ITEMS.population: "items",
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
    given = {} if of is None else of if hasattr(of, "keys") else vars(of)
    names = {name: name for name in ("ci_low", "ci_high", "p", "n")}
    names["estimate"] = "corrected"
    ours = {names[name]: given[name] for name in names if name in given}
    return {"claim": claim, "quantity": quantity, "prompt": prompt} | ours | fields


def state(study: Collection, notebook: str, estimates: Iterable[dict]) -> pd.DataFrame:
    """Keep a notebook's estimates for the scorecard, and return one row per sentence to show.

    estimates: dicts, or a DataFrame, with `claim, quantity` and any of STATED. `as_published` is
    the number by the authors' recipe. `corrected` is the statistic that the sentence should mean;
    the interval, n and p belong to it. What was counted in the paper's printed tables is kept for
    the published scorecard as well, whatever the study.

    For a published collection, p-values are corrected together with the other primary tests of the
    committed scorecard (figures/published/claims.csv), so a word is that of the scorecard. For
    another collection, the rows have the smallest p-value of their sentence without a correction;
    notebook 11 corrects them.

    InputError for an estimate that numbers.csv does not declare.
    """
    table = stated(study, estimates)
    kept = {study: table}
    if not study.is_published:
        kept[PUBLISHED] = table[table["evidence"] == COUNTED]
    for collection, rows in kept.items():
        if len(rows) or collection == study:
            with replacing(collection.claims / f"{notebook}.csv") as part:
                rows.to_csv(part, index=False)
    judged = judge(study, estimates)
    card = scorecard(judged)
    smallest = judged[primary_tests(judged)].groupby("claim")["p"].min()
    if study.is_published or smallest.empty:
        return card
    return card.assign(**{UNCORRECTED: smallest.reindex(card.index).map(short)})


def judge(study: Collection, estimates: Iterable[dict]) -> pd.DataFrame:
    """Return the rows of estimates with their words, among the tests that `state` names."""
    table = stated(study, estimates)
    others = _committed() if study.is_published else table.head(0)
    others = others[~others["claim"].isin(table["claim"])]
    judged = with_words(answers(pd.concat([table, others])))
    return judged[judged["claim"].isin(table["claim"])]


def stated(study: Collection, estimates: Iterable[dict]) -> pd.DataFrame:
    """Return estimates, as `state` takes them, as rows with KEPT."""
    table = pd.DataFrame(estimates)
    fields = ["claim", "quantity", *STATED]
    assert {*table} <= {*fields}, f"an estimate has other fields than {fields}"
    table = table.reindex(columns=fields).rename(columns={"remark": "note"})
    texts = [*NAMES, "note", "evidence"]
    table[texts] = table[texts].astype(object).fillna("")
    assert not table.duplicated(NAMES).any(), "a quantity is stated twice"
    is_counted = table["evidence"].eq(COUNTED)
    on_replies = table["claim"].map(sections()).eq("5")
    counted_in = on_replies.map({True: "printed replies", False: "whole vocabularies"})
    evidence = RELEASED if study.is_published else OWN_RUN
    return table.assign(
        population=counted_in.where(is_counted, _population(study)),
        evidence=table["evidence"].replace("", evidence),
    )[KEPT].astype(dict.fromkeys(NUMBERS, float))


def declared(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with NAMES with DECLARED, what numbers.csv declares of each number: NaN for those
    that it does not declare. The index is new.
    """
    numbers = paper_table("numbers").rename(
        columns={"printed": "paper", "prompt": "prompts", "model": "models"}
    )
    names = table[NAMES].reset_index(drop=True).reset_index(names="row")
    both = names.merge(numbers, on=["claim", "quantity"])
    prompts = zip(both["prompt"], both["prompts"].str.split(), strict=True)
    is_asked = np.array([not some or one in some for one, some in prompts], dtype=bool)
    is_of = both["models"].eq("") | both["models"].eq(both["model"])
    found = both[is_asked & is_of].drop_duplicates("row").set_index("row")[DECLARED]
    for name in ("within", "limit"):
        found[name] = pd.to_numeric(found[name]).astype(float)
    return table.reset_index(drop=True).join(found)


def answers(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with KEPT with DECLARED, and what each number says.

    Further columns: `says` (whether the number supports the sentence; None where it cannot tell),
    `is_opposite`, `has_texts` (whether claims.csv says that this population may test it),
    `has_word` (whether it is about the paper's models). A number that cannot test its sentence has
    no p-value, and so belongs to no correction. InputError for a number that numbers.csv does not
    declare.
    """
    table = declared(table)
    for row in table[table["role"].isna()].itertuples():
        raise InputError(
            f"{row.quantity} {row.prompt} of {row.claim} is not declared; add it to "
            "data/paper/numbers.csv and claims.csv"
        )
    table = rules.judge(table)
    own = table["population"].map(TESTS)
    is_counted = table["evidence"].eq(COUNTED)
    has_word = is_counted | own.notna()
    needs = table["claim"].map(listed()["needs"])
    of_words = needs.eq("words")
    # a vocabulary has the words, and the paper computed on it what it prints of them
    needs = needs.mask(of_words & table["role"].eq("printed"), "vocabulary")
    has_texts = is_counted | own.eq(needs) | of_words & own.eq("vocabulary")
    p = list(map(rules.p_of_interval, table.itertuples()))
    p = table["p"].fillna(pd.Series(p, table.index, float))
    return table.assign(
        p=p.where(has_texts | ~has_word),
        says=table["says"].where(has_texts, None),
        has_texts=has_texts,
        has_word=has_word,
    )


def with_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `answers` with corrected p-values (Benjamini and Hochberg 1995), and the word
    and remark of each sentence.
    """
    table = table.reset_index(drop=True)
    table = table.assign(p_corrected=np.nan, word="", remark="")
    tests = primary_tests(table)
    if tests.any():
        table.loc[tests, "p_corrected"] = false_discovery_control(table.loc[tests, "p"])
    for claim, rows in table.groupby("claim", sort=False):
        if rows["has_word"].any():
            table.loc[rows.index, ["word", "remark"]] = _verdict(claim, rows)
    return table


def primary_tests(table: pd.DataFrame) -> pd.Series:
    """Return which rows are primary tests of the paper's sentences: those with a p-value."""
    is_papers = table["claim"].map(sections()) != BEYOND
    return table["role"].eq("primary") & is_papers & table["p"].notna()


def _can_be_tested(rows: pd.DataFrame) -> bool:
    """Return whether a sentence with these rows of `answers` gets another word than `not testable
    here`.
    """
    primary = rows[rows["role"] == "primary"]
    return primary["has_texts"].all() and primary["says"].notna().any()


def _verdict(claim: str, rows: pd.DataFrame) -> tuple[str, str]:
    """Return the word of a sentence and the remark on it."""
    notes = [note for note in rows["note"].unique() if note]
    if sections()[claim] == BEYOND:
        return BEYOND, ". ".join(notes)
    if not rows.loc[rows["role"] == "primary", "has_texts"].all():
        return NOT_TESTABLE, ". ".join([listed().loc[claim, "why"].rstrip("."), *notes])
    if not _can_be_tested(rows):
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
    role, says = rows["role"], rows["says"].eq(True)
    is_left_out = role.eq("shown") | role.eq("printed") & says
    if says[role == "primary"].nunique() < 2:
        is_left_out |= role.eq("primary") & ~rows["is_opposite"] & rows["p"].isna()
    answer = np.select([rows["is_opposite"], says], ANSWERS[:2], ANSWERS[2])
    said = []
    for name in ANSWERS:
        numbers = map(_in_words, rows[~is_left_out & (answer == name)].itertuples())
        said.append(f"{name}: {'; '.join(numbers)}")
    return [text for text in said if not text.endswith(": ")]


def _in_words(row: pd.Series) -> str:
    """Return a quantity in words with its number, `under best (0.056 [0.0089, 0.1])`."""
    words = row.quantity.replace("_", " "), row.prompt, row.model
    number = _of_all(row, number_text(row))
    if row.paper and not row.says and pd.isna(row.ci_low):
        number = f"printed {row.paper}, ours {short(row.recipe)}"
    if pd.notna(row.p):
        number += f", p = {short(row.p)}"
    return f"{row.said or ' '.join(filter(None, words))} ({number})"


def _population(study: Collection) -> str:
    """Return the population of a study's numbers: of TESTS for all of the paper's models."""
    if not study.holds_papers_models:
        return f"texts of {study}"
    return study.population if study.is_published else VOCABULARY.population


def papers_own(study: Collection) -> str:
    """Return what of the paper's own data a collection holds: vocabulary, words or items; '' for
    others.
    """
    return TESTS.get(_population(study), "")


def gather(collection: Collection) -> pd.DataFrame:
    """Return the rows of every sentence, in the paper's order, that notebooks kept for this
    collection.

    `published` gathers all published collections; a sentence has the rows of the first that can
    test it. What was counted in printed tables stays as it is committed until a notebook counts it
    again. The primary tests of all sentences are corrected together. A sentence without rows is not
    testable here, and its remark says why. InputError if no notebook kept any row.
    """
    parts = dict(enumerate(_kept_rows(collection)))
    table = pd.concat(parts, names=["part", None]).reset_index("part")
    chosen = []
    for _, rows in answers(table).groupby("claim"):
        own = [of_part for _, of_part in rows.groupby("part")]
        chosen.append(next(filter(_can_be_tested, own), own[0]))
    words = with_words(pd.concat(chosen))
    sentences = listed().reset_index()[["claim", "section", "why"]]
    is_shown = (sentences["section"] != BEYOND) | sentences["claim"].isin(
        words["claim"]
    )
    rows = sentences[is_shown].merge(words, "left", on="claim")
    absent = NOT_TESTABLE if collection.is_published else ""
    rows = rows.fillna({"word": absent, "remark": rows["why"]})
    return rows.fillna(dict.fromkeys([*TEXTS, "said"], ""))


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
    table = declared(published_table("claims").reindex(columns=KEPT))
    return table.loc[table["role"].notna(), KEPT]


def read_claims(path, columns: Iterable[str] = COLUMNS) -> pd.DataFrame:
    """Return a table of claims as it was written."""
    texts = dict.fromkeys(TEXTS, str)
    empty = dict.fromkeys(NUMERIC, "")
    table = pd.read_csv(path, keep_default_na=False, na_values=empty, dtype=texts)
    numeric = [name for name in columns if name in NUMERIC]
    return table[columns].astype(dict.fromkeys(numeric, float))


def scorecard(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per sentence: what it says, the paper's number, both of ours, one word and a
    remark.

    table: of `judge` or `gather`. Index: claim. A sentence shows its first primary quantity; the
    paper's number is that of its first quantity that has one. Where nothing is remarked, the remark
    says what the number is.
    """
    cards = {}
    places = table["role"].map({"primary": 0, "printed": 1}).fillna(2)
    for claim, own in table.assign(place=places).groupby("claim", sort=False):
        own = own.sort_values("place", kind="stable")
        first = own.iloc[0]
        recipe = own.loc[own["paper"].ne("").idxmax()]  # the first if none is printed
        ours = number_text(first) if pd.notna(first["corrected"]) else ""
        cards[claim] = {
            "sentence": listed().loc[claim, "says"],
            "paper": recipe["paper"],
            "by the paper's recipe": _of_all(recipe, short(recipe["as_published"])),
            "corrected": _of_all(first, ours),
            "n": short(first["n"]),
            "evidence": first["evidence"] if first["word"] != NOT_TESTABLE else "",
            "word": first["word"],
            "remark": first["remark"] or first["said"],
        }
    return pd.DataFrame.from_dict(cards, orient="index").rename_axis("claim")


def _of_all(row: pd.Series, number: str) -> str:
    """Return the text of a number; a count of models, lists or cells gets how many there are, `8 of
    10`.
    """
    is_count = row.rule in rules.COUNTS and pd.notna(row.n)
    return f"{number} of {row.n:.0f}" if number and is_count else number


def number_text(row: pd.Series) -> str:
    """Return a number with its interval, `-0.02 [-0.05, 0.01]`; '' where nothing was computed."""
    text = short(row.as_published if pd.isna(row.corrected) else row.corrected)
    if text and row.ci_low < row.ci_high:  # a count of all there is has none
        text += f" [{end_text(row.ci_low)}, {end_text(row.ci_high)}]"
    return text


def end_text(number: float) -> str:
    """Return an end of an interval as `short` does; close to zero, one digit and no exponent."""
    if 0 < abs(number) < 1e-4:
        return np.format_float_positional(number, 1, fractional=False, trim="-")
    return short(number)


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
    return read_claims(path) if path.is_file() else pd.DataFrame()
