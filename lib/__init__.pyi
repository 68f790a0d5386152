# For editors and type checkers: the names that the package loads when they are asked for.
from pathlib import Path

from .audit import ValueCardCallback as ValueCardCallback
from .audit import ends as ends
from .audit import load as load
from .audit import score as score
from .audit import score_vocabulary as score_vocabulary

DATA: Path
ROOT: Path
__version__: str
__all__: list[str]

class InputError(ValueError): ...
