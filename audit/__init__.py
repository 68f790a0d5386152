"""For whoever owns a reward model: open any form of it, check it, and see what it values.

- opening/: every form of a reward model: adapters, judges, encoders, served ones
- reading/: layer by layer, whole conversations, implicit rewards, replies from files
- check/: is it read as its makers meant, and why do another program's rewards differ
- card/: one page on what it values; two of them compared; best of n; during a training
- cluster/: many models, by Ray
- paper: all that is taken from lib
"""

from importlib import import_module

__all__ = ["ValueCardCallback", "ends", "load", "score", "score_vocabulary"]


def __getattr__(name: str):
    """Load these names when they are asked for, so that a command loads only what it needs."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = ".card.callback" if name == "ValueCardCallback" else ".api"
    return getattr(import_module(home, __name__), name)
