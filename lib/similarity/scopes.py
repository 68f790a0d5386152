"""What a number of section 2 is about: a prompt, and the texts that it was computed on.

Numbers of the paper's printed pages and released tables are about its vocabularies. They are judged where the
collection holds the paper's models and asks as the paper does.
"""

from collections.abc import Set
from dataclasses import dataclass

import pandas as pd

from ..claims import claims
from ..claims.claims import A_VOCABULARY, THE_PAPER, papers_own
from ..tables.collection import Collection

FIGURES, TABLES = "figures (printed)", "vocabulary (released table)"  # populations
PAGES, RELEASED = "tables (printed)", "tables (released)"
PROMPTS = ("greatest", "GW")  # the paper's wording of section 2, by its names in the collections
GEMMA, LLAMA = "R-Gem-2B", "R-Lla-3B"  # the two models of Table 2


@dataclass(frozen=True)
class Scope:
    """Say what numbers are about: a prompt, and how many texts the models share, of what kind."""

    prompt: str
    texts: int
    own: Set[str]  # what of the paper's own the numbers rest on, as from papers_own
    kind: str = "texts"  # in the plural
    population: str = ""  # what the numbers were computed on; empty: the collection's own texts

    @property
    def asks_as_the_paper(self) -> bool:
        """Return whether numbers of the paper's own figures belong beside the numbers of this collection."""
        return self.prompt == PROMPTS[0] and "models" in self.own

    @property
    def is_the_papers(self) -> bool:
        """Return whether the paper's own tables can be recomputed: its models, vocabularies and question."""
        return self.asks_as_the_paper and "vocabulary" in self.own

    def row(self, claim: str, quantity: str, model: str = "", note: str = "", **numbers) -> dict:
        """Return one row of claims of this scope; its note says if the texts are no vocabulary, as the paper's are."""
        over = f"over {self.texts:,} {self.kind}, not over a vocabulary" if self.texts < A_VOCABULARY else ""
        note = "; ".join(filter(None, [note, over]))
        about = {"own": self.own, "population": self.population, "note": note}
        return claims.row(claim, quantity, self.prompt, model, **about, **numbers)

    def rows(self, claim: str, table: pd.DataFrame, quantity: str = "{}", model: str = "", **same) -> list[dict]:
        """Return a row of claims per row of a table, from its columns that are fields of claims (claims.FIELDS).

        quantity, model: in these names, {} stands for the table's index. same: fields that are the same in all rows.
        """
        table = table[[name for name in table if name in claims.FIELDS]]
        return [self.row(claim, quantity.format(name), model.format(name), **same, **numbers)
                for name, numbers in table.iterrows()]  # fmt: skip


def scope(study: Collection, prompt: str, texts: int) -> Scope:
    """Return the scope of a collection whose models share so many texts."""
    return Scope(prompt, texts, papers_own(study, texts), study.texts)


def papers_scope(population: str, prompt: str = PROMPTS[0]) -> Scope:
    """Return the scope of the paper's own pages and released tables."""
    return Scope(prompt, A_VOCABULARY, THE_PAPER, population=population)
