# For editors and type checkers: the names that lib/__init__.py loads when they are asked for.
from pathlib import Path

from .audit.api import ends as ends
from .audit.api import load as load
from .audit.api import score as score
from .audit.api import score_vocabulary as score_vocabulary
from .audit.card.callback import ValueCardCallback as ValueCardCallback

DATA: Path
ROOT: Path
__version__: str
__all__: list[str]

class InputError(ValueError): ...
