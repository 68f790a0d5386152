"""Jobs: which notebooks are to run for which models, and what each of them waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lib import ROOT, InputError, scores
from lib.collection import EMBEDDED, ITEMS, OWN, PUBLISHED, WORDS, Collection
from lib.models import registry, reward_models
from lib.names import checked
from lib.reproduce.notebooks import find_notebooks, parameters_of

TRAINING = "00_"  # makes the embedded reward models, on all cores; it comes before any score, and only they need it
SCORING = "01_"  # makes a model's score table, which every later notebook reads
SEARCH = "07_"  # its first run keeps what all the others, and LANGUAGE, find again: a comparison and language models
LANGUAGE = "08_"
SCORECARD = "09_"  # gathers the claims of the others
CARD = "10_"  # one page about one model, which needs its scores only
CARD_OF = "A-Gem-96"  # the embedded model that a card is made of; of a reader's own, each has one
CARD_READS = {  # tables of the texts that a card types, and of other models
    WORDS: ("06_discrepancies.csv", "card.csv"),
    ITEMS: ("06_discrepancies.csv",),
    EMBEDDED: ("card.csv",),
}
NAMED_LIKE = {"embedded": EMBEDDED.name, "own": EMBEDDED.name}  # a reader's own are studied as the embedded ones are
GROUP = EMBEDDED.name  # of the registry: the embedded reward models


@dataclass(frozen=True)
class Job:
    """One notebook to execute. model: its nickname, '' for a notebook about the whole collection.

    artefacts: files and folders that it reads or makes, besides the project's own sources. needs: names of the jobs
    that must succeed before it. after: of those that must have ended. alone: nothing else runs meanwhile.
    """

    notebook: Path
    collection: Collection
    model: str
    parameters: dict
    artefacts: tuple[Path, ...]
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    alone: bool = False

    @property
    def name(self) -> str:
        return f"{self.notebook.stem}-{self.model}" if self.model else self.notebook.stem

    @property
    def number(self) -> str:
        """The start of the notebook's name, as 04_ or 04b_; the names of its figures start so too."""
        return self.notebook.name.partition("_")[0] + "_"

    @property
    def page(self) -> Path:
        return self.collection.figures / f"{self.name}.html"

    @property
    def executed(self) -> Path:
        return self.collection.runs / f"{self.name}.ipynb"

    @property
    def claims(self) -> tuple[Path, ...]:
        """Where it leaves its claims for the scorecard, if it states any: those on one model beside the others."""
        number = self.number.rstrip("_")
        names = [number, *([f"{number}-{self.model}"] if self.model else [])]
        return tuple(self.collection.claims / f"{name}.csv" for name in names)

    @property
    def shown(self) -> Path | None:
        """Where the executed notebook is kept for whoever cannot run it: beside the figures, on published scores."""
        return self.collection.figures / f"{self.name}.ipynb" if self.collection.is_published else None


# --- models -------------------------------------------------------------------------------------------------------


def find_models(names: Sequence[str]) -> dict[str, str]:
    """Nickname -> what to load, for nicknames, hub ids, folders, and `paper` for the ten of the paper.

    No names: the embedded reward models. Raises InputError for a name that is nothing of this.
    """
    groups = registry.reward_models()["group"]
    names = names or [GROUP]
    wanted = [model for name in names for model in (groups.index[groups == name] if name in groups.values else [name])]
    models = {}
    for name in dict.fromkeys(wanted):
        nickname = checked(reward_models.find(name)["nickname"] or name, "a model")
        local = name not in groups.index and Path(name).is_dir()
        load = str(Path(name).resolve()) if local else name
        if models.setdefault(nickname, load) != load:
            raise InputError(f"two models are called {nickname}; score them into two collections")
    return models


def study_of(models: Mapping[str, str], collection: str | None = None) -> Collection:
    """The collection that is named, else the embedded models' own or `mine`, as these models (as of find_models) ask.

    InputError for models that do not belong there, as of registry.refuse_foreign.
    """
    foreign = [nickname for nickname, load in models.items() if not registry.ships(nickname, load)]
    study = Collection(collection) if collection else OWN if foreign else EMBEDDED
    registry.refuse_foreign(study, models)
    return study


# --- plan ---------------------------------------------------------------------------------------------------------


def plan(
    folder: Path, collection: Collection, models: Mapping[str, str] | None = None, values: dict | None = None
) -> list[Job]:
    """The jobs that reproduce a collection: each notebook that is about it, for every model or once for them all.

    models: nickname -> what to load. values: further parameters, given to the notebooks that have them.
    """
    jobs = []
    for notebook in find_notebooks(folder):
        has = parameters_of(notebook)
        if not _is_about(notebook, has, collection):
            continue
        for nickname, load in _models_of(notebook, collection, models or {}) if "model" in has else [("", "")]:
            given = (values or {}) | {"collection": collection.name, "model": load}
            given = {name: value for name, value in given.items() if name in has}
            artefacts = _artefacts(notebook, collection, nickname, load)
            alone = notebook.name.startswith(TRAINING) or bool(nickname) and not collection.is_embedded
            job = Job(notebook, collection, nickname, given, artefacts, alone=alone)
            jobs.append(_in_order(job, jobs))
    return jobs


def _is_about(notebook: Path, parameters: dict, collection: Collection) -> bool:
    """Whether its parameter `collections` names this one; without such a parameter it is about whole vocabularies."""
    if notebook.name.startswith(TRAINING) and not collection.is_embedded:
        return False
    collections = parameters.get("collections", EMBEDDED.name).split()
    return NAMED_LIKE.get(collection.kind, collection.name) in collections


def _models_of(notebook: Path, collection: Collection, models: Mapping[str, str]) -> list[tuple[str, str]]:
    """The models that a notebook about one model is run for, as (nickname, what to load)."""
    one = notebook.name.startswith(CARD) and collection.is_embedded and CARD_OF in models
    return [(CARD_OF, models[CARD_OF])] if one else list(models.items())


def _in_order(job: Job, earlier: list[Job]) -> Job:
    """The job with what it waits for among the earlier ones."""
    needs = [other for other in earlier if other.number == TRAINING or job.model and other.model == job.model]
    if job.number == CARD:
        needs = [other for other in needs if other.number in (TRAINING, SCORING)]
    first_search = [other for other in earlier if other.number == SEARCH][:1]
    if job.number == SCORECARD:
        after = earlier
    elif job.model:
        after = first_search if job.number == SEARCH else []
    else:
        after = [other for other in earlier if other.number == SCORING] + first_search * (job.number == LANGUAGE)
    values = vars(job) | {"needs": tuple(other.name for other in needs), "after": tuple(other.name for other in after)}
    return Job(**values)


def _artefacts(notebook: Path, collection: Collection, nickname: str, load: str) -> tuple[Path, ...]:
    models = registry.reward_models()  # what else lies beside them, as language models, is no artefact of these
    trained = tuple(ROOT / place for place in models.loc[models["group"] == GROUP, "hub_id"])
    if notebook.name.startswith(TRAINING):
        return trained
    if notebook.name.startswith(SCORECARD):
        tried = (path for part in collection.parts for path in sorted(part.figures.glob("*_paths.csv")))
        beside = () if collection.is_published else [_published_claims()]  # about which its exercises ask
        return collection.scores, *(part.claims for part in collection.parts), *tried, *beside
    if nickname:
        own = [Path(load)] if Path(load).is_dir() else []
        read = (study.figures / name for study, names in CARD_READS.items() for name in names)
        beside = read if notebook.name.startswith(CARD) else ()
        return scores.path_of(collection, nickname), ROOT / "data" / "models" / nickname, *own, *beside
    beside = () if collection.is_published else _kept_of_published()
    return collection.scores, *(trained if collection.is_embedded else ()), *beside


def _kept_of_published() -> list[Path]:
    """The tables of the published scores that are kept beside the figures: "paper | published | ours" reads them."""
    tables = (path for part in (WORDS, ITEMS) for path in part.figures.glob("*.csv"))
    return [_published_claims(), *sorted(path for path in tables if "_paths" not in path.name)]


def _published_claims() -> Path:
    return PUBLISHED.figures / "claims.csv"
