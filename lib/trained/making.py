"""A small model from nothing: trained, and scored on its vocabulary."""

from ..models.reward_models import load
from ..scoring.vocabulary import score_vocabulary
from ..tables import scores
from ..tables.collection import EMBEDDED
from ..tables.prompts import read_prompts
from . import small_models


def make(nickname: str) -> None:
    """Train one of the ten models, and score it, unless this is done."""
    small_models.make_named(nickname)
    path = scores.path_of(EMBEDDED, nickname)
    model = load(nickname)
    prompts = read_prompts(None)
    score_vocabulary(model, prompts, path, overwrite=True, progress=False)
