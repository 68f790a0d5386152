"""A small model from nothing: trained, and scored on its vocabulary."""

from ..models.reward_models import load
from ..scoring.vocabulary import score_vocabulary
from ..tables import scores
from ..tables.collection import EMBEDDED
from ..tables.prompts import read_prompts
from . import language_models, planting, reward_models, saving


def make(nickname: str) -> None:
    """Train a small reward or language model unless it is there. Score a reward model, unless its
    table is there.
    """
    trainings = [*reward_models.jobs(), *language_models.jobs()]
    these = [training for training in trainings if nickname in training.nicknames]
    saving.train_missing(these, progress=False)
    if nickname in planting.profiles().index:
        path = scores.path_of(EMBEDDED, nickname)
        model = load(nickname)
        prompts = read_prompts(None)
        score_vocabulary(model, prompts, path, overwrite=True, progress=False)
