"""All that audit takes from lib, by name: the one file of audit that names lib.

A name is loaded when it is asked for, so that a command loads only what it needs.
"""

from importlib import import_module

# in a wheel, this package is reward_model_values.audit, and lib is reward_model_values
LIB = "lib" if __package__ == "audit" else __package__.rpartition(".")[0]
# name -> module of lib, and the name in it after a colon
PLACES = {
    "DATA": ":DATA",
    "InputError": ":InputError",
    "ROOT": ":ROOT",
    "concordance": ".alignment.concordance",
    "kinds": ".alignment.kinds",
    "jobs": ".apps.runner.jobs",
    "runs": ".apps.runner.runs",
    "effects": ".framing.effects",
    "io": ".io",
    "replacing": ".io:replacing",
    "shown_path": ".io:shown_path",
    "conversations": ".models.conversations",
    "hardware": ".models.hardware",
    "heads": ".models.heads",
    "language_models": ".models.language_models",
    "loading": ".models.loading",
    "reward_models": ".models.reward_models",
    "RewardModel": ".models.reward_models:RewardModel",
    "run": ".run",
    "products": ".scoring.products",
    "reader": ".scoring.reader",
    "vocabulary": ".scoring.vocabulary",
    "score_vocabulary": ".scoring.vocabulary:score_vocabulary",
    "display": ".show.display",
    "pages": ".show.pages",
    "terminal": ".show.terminal",
    "crossed": ".stats.crossed",
    "rankings": ".stats.rankings",
    "ends": ".stats.rankings:ends",
    "resampling": ".stats.resampling",
    "OWN": ".tables.collection:OWN",
    "Collection": ".tables.collection:Collection",
    "write_csv": ".tables.exports:write_csv",
    "imports": ".tables.imports",
    "lexicons": ".tables.lexicons",
    "prompts": ".tables.prompts",
    "registry": ".tables.registry",
    "scores": ".tables.scores",
    "stems": ".tables.stems",
    "tables_words": ".tables.words",
    "planting": ".trained.planting",
    "ratings": ".trained.ratings",
}


def __getattr__(name: str):
    """Return what lib calls so: a module, or a name in one."""
    if name not in PLACES:
        raise AttributeError(f"audit takes no {name!r} from lib")
    module, _, inner = PLACES[name].partition(":")
    loaded = import_module(LIB + module)
    return getattr(loaded, inner) if inner else loaded
