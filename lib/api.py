"""The library in a few names, for use outside this project: `import reward_model_values as rmv`."""

from . import InputError
from .models.reward_models import load
from .scoring.engine import score_vocabulary
from .scoring.reply_files import score
from .stats.rankings import ends

__all__ = ["InputError", "ends", "load", "score", "score_vocabulary"]
