# For editors and type checkers: the names that lib/__init__.py loads when they are asked for.
from pathlib import Path

from .apps.owner.card.callback import ValueCardCallback as ValueCardCallback
from .apps.runner.api import ends as ends
from .apps.runner.api import load as load
from .apps.runner.api import score as score
from .apps.runner.api import score_vocabulary as score_vocabulary

DATA: Path
ROOT: Path
__version__: str
__all__: list[str]

class InputError(ValueError): ...
