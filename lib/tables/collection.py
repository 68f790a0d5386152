"""Collections: the score tables of one study, its folders, and the notice that its notebooks
print.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .. import DATA, ROOT, io

NOTICES = {
    "embedded": "These small reward models ship with the project. Their values were planted:\n"
    "what follows checks the method and says nothing about real reward models.",
    "published": "These are the rewards of ten real models as the paper's authors published them;\n"
    "no model was run for this notebook.",
    "own": "",
}
POPULATIONS = {
    "embedded": "small models",
    "published-words": "moral words",
    "published-items": "items",
    "published-vocabulary": "vocabulary",
    "published": "printed tables",
}
TEXTS = {"published-words": "words", "published-items": "items that people ranked"}


@dataclass(frozen=True)
class Collection:
    """The score tables of one study, known by its name; InputError for a name that no folder can
    have.

    `embedded` holds this project's small models, `published-...` the authors' scores, and any other
    name is the reader's own. `published` stands for words, items and vocabularies.
    """

    name: str

    def __post_init__(self):
        io.checked(self.name, "a collection")

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        """Return embedded, published or own."""
        first = self.name.partition("-")[0]
        return first if first == "published" or self.name == "embedded" else "own"

    @property
    def is_embedded(self) -> bool:
        return self.kind == "embedded"  # so the values of its models were planted

    @property
    def is_published(self) -> bool:
        # so its scores are the authors', and no model was run for it
        return self.kind == "published"

    @property
    def parts(self) -> "tuple[Collection, ...]":
        """Return the collections that it stands for: all published ones for `published`, else
        only itself.
        """
        return (ITEMS, VOCABULARY, WORDS) if self == PUBLISHED else (self,)

    @property
    def notice(self) -> str:
        """Return what a notebook says first about these scores; '' for the reader's own."""
        return NOTICES[self.kind]

    @property
    def texts(self) -> str:
        """Return the name of its replies, in the plural, such as words, texts, or items that
        people ranked.
        """
        return TEXTS.get(self.name, "texts")

    @property
    def population(self) -> str:
        """Return the population of its numbers, as the scorecard names it."""
        return POPULATIONS.get(self.name, f"texts of {self.name}")

    @property
    def scores(self) -> Path:
        """Return the folder of its score tables."""
        return ROOT / "data" / "scores" / self.name

    @property
    def figures(self) -> Path:
        """Return the folder of its figures, tables and claims. Published collections share one,
        as published/words.
        """
        place = self.name
        if self.is_published:
            place = self.name.replace("published-", "published/")
        return ROOT / "figures" / place

    @property
    def claims(self) -> Path:
        """Return the folder in which its notebooks leave their claims for the scorecard."""
        return ROOT / "data" / "cache" / "claims" / self.name

    @property
    def runs(self) -> Path:
        """Return the folder of its executed notebooks and of the record of what ran."""
        return ROOT / "data" / "cache" / "runs" / self.name

    @property
    def logprobs(self) -> "Collection":
        """Return the collection of the language models' log-probabilities that belongs to these
        rewards.
        """
        return Collection(f"{self.name}-logprobs")

    @property
    def models(self) -> tuple[str, ...]:
        """Return the nicknames of the models with a score table here, in the order of the file
        names.
        """
        # resampling goes by this order
        return tuple(path.stem for path in sorted(self.scores.glob("*.parquet")))

    @property
    def holds_papers_models(self) -> bool:
        """Return whether its models are exactly the ten models of the paper."""
        registry = pd.read_csv(DATA / "reward_models.csv", keep_default_na=False)
        return {*self.models} == {*registry.query("group == 'paper'")["nickname"]}


EMBEDDED = Collection("embedded")
PUBLISHED = Collection("published")
OWN = Collection("mine")
HUMAN_RATINGS = Collection("human_ratings")  # of V-Smol-135M
# a sample of it, which a first run takes
FIRST_RUN = Collection("human_ratings-first-run")
WORDS, ITEMS, VOCABULARY = (
    Collection(f"published-{texts}") for texts in ("words", "items", "vocabulary")
)
LOGPROBS = Collection("published-logprobs")
