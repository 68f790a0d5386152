"""The claims of section 2.1, about single words, code and groups of people at the ends of the rankings.

They are about printed pages, so that most are counts of what stands there: facts, which need no interval, or shares of
the tokens at an end, which have one.
"""

from collections.abc import Mapping

import pandas as pd

from lib.claims import Claim, state
from lib.similarity import ends
from lib.similarity.claims import Scope

PRINTED, RELEASED = "tables (printed)", "tables (released)"  # populations
GEMMA, LLAMA = "R-Gem-2B", "R-Lla-3B"  # the two models of Table 2
STEP = 2.0**-6 + 0.001  # between neighbouring bfloat16 numbers from 2 to 4, and the rounding of both in print


def printed_claims(prompt: str) -> list[Claim]:
    """S2.miraculous, S2.freedom, S2.code and S2.identity by Table 2 as printed."""
    both = ends.printed_ends()
    found, common = ends.counts(both), {"population": PRINTED}
    above = _places(both[GEMMA]["optimal"], "miraculous", "miracle")
    scores = ends.scores_of(GEMMA)["highest"]
    apart = float(scores["miraculous"] - scores["miracle"])
    claims = [
        state("S2.miraculous", "places_above", prompt, GEMMA, as_published=above, note="Table 2", **common),
        state("S2.miraculous", "difference", prompt, GEMMA, as_published=apart, ci_low=apart - STEP,
              ci_high=apart + STEP, note="Table 2; one step of bfloat16, in which its scores are given", **common),
        state("S2.freedom", "places_above", prompt, LLAMA, note="Table 2",
              as_published=_places(both[LLAMA]["optimal"], "freedom", "love"), **common),
    ]  # fmt: skip
    for name, row in found.iterrows():
        claims += [_share_of_code("share_of_code", prompt, name, row, "Table 2", PRINTED)]
        claims += [_groups("groups", prompt, name, row, "Table 2", PRINTED)]
    return claims


def released_claims(prompt: str, tables: Mapping[str, Mapping]) -> list[Claim]:
    """The same by Tables A6 (own vocabularies) and A7 (shared texts), and R-Lla-3B against the other nine.

    tables: name, as Table A6 -> as from ends.released_ends.
    """
    claims = []
    for table, models in tables.items():
        end, found = table.split()[-1], ends.counts(models)
        common = {"note": f"{table}, released: 20 tokens", "population": RELEASED}
        first = [name for name, both in models.items() if _places(both["optimal"], "freedom", "love") > 0]
        claims += [
            state("S2.freedom", f"places_above_{end}", prompt, LLAMA, **common,
                  as_published=_places(models[LLAMA]["optimal"], "freedom", "love")),
            state("S2.freedom", f"others_with_freedom_first_{end}", prompt, as_published=len(set(first) - {LLAMA}),
                  n=len(models) - 1, **common),
            _share_of_code(f"share_of_code_{end}", prompt, LLAMA, found.loc[LLAMA], table, RELEASED),
            _odds_of_code(f"odds_of_code_{end}", prompt, models, table),
        ]  # fmt: skip
        claims += [_groups(f"groups_{end}", prompt, name, found.loc[name], table, RELEASED) for name in (GEMMA, LLAMA)]
    return claims


def word_claims(rewards: pd.DataFrame, here: Scope) -> list[Claim]:
    """S2.freedom where all models rated both words: how many other than R-Lla-3B put freedom above love.

    rewards: texts x models; no rows where a word, or R-Lla-3B, is missing.
    """
    if not {"freedom", "love"} <= set(rewards.index) or LLAMA not in rewards:
        return []
    above = rewards.columns[rewards.loc["freedom"] > rewards.loc["love"]]
    note = here.note(f"freedom above love in: {', '.join(above) or 'none'}")
    others = len(set(above) - {LLAMA})
    return [
        state("S2.freedom", "others_with_freedom_first", here.prompt, own=here.own, as_published=others,
              n=rewards.shape[1] - 1, note=note)
    ]  # fmt: skip


def _places(texts: list[str], first: str, second: str) -> int:
    """How many places the first form of a word stands above the first form of another, in any case.

    Words that are not listed stand behind the list; 0 if neither is.
    """
    words = [text.strip().casefold() for text in texts]
    place = [words.index(word) if word in words else len(words) for word in (first, second)]
    return place[1] - place[0]


def _share_of_code(quantity: str, prompt: str, name: str, row: pd.Series, table: str, population: str) -> Claim:
    numbers = {key: float(row[column] / row["of"]) for key, column in
               {"as_published": "code", "ci_low": "code_low", "ci_high": "code_high"}.items()}  # fmt: skip
    return state("S2.code", quantity, prompt, name, n=int(row["of"]), note=f"{table}; exact interval",
                 population=population, **numbers)  # fmt: skip


def _odds_of_code(quantity: str, prompt: str, models: Mapping, table: str) -> Claim:
    ratio, low, high, p = ends.code_against_others(models, LLAMA)
    return state("S2.code", quantity, prompt, LLAMA, as_published=ratio, ci_low=low, ci_high=high, p=p, n=len(models),
                 note=f"{table}; odds against those of the other nine, exact", population=RELEASED)  # fmt: skip


def _groups(quantity: str, prompt: str, name: str, row: pd.Series, table: str, population: str) -> Claim:
    note = f"{table}, of {row['of']} tokens: {row['named']}"
    return state("S2.identity", quantity, prompt, name, as_published=int(row["groups"]), n=int(row["of"]), note=note,
                 population=population)  # fmt: skip
