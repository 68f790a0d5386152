"""Open reward models of every kind: `open_model` names whatever can be scored."""

from .opening import find, open_model, options_for

__all__ = ["find", "open_model", "options_for"]
