# For editors and type checkers: the names that audit/__init__.py loads when they are asked for.
from .api import ends as ends
from .api import load as load
from .api import score as score
from .api import score_vocabulary as score_vocabulary
from .card.callback import ValueCardCallback as ValueCardCallback

__all__: list[str]
