"""The rule for names that become files, folders and columns: those of prompts, collections and models."""

from lib import InputError
from lib.files import plain_name

LONGEST = 100  # bytes; file names are made of several names and at most 255 bytes long
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}  # of Windows


def checked(name: str, what: str) -> str:
    """The name itself, if `what` (`a prompt`, `a collection`, `a model`) may be called so on every system.

    InputError for a name that lib.files.plain_name refuses, as one that could lead out of its folder; for one of over
    100 bytes, with a space or dot at an end, or that Windows keeps for a device.
    """
    try:
        plain_name(name)
        fits = len(name.encode()) <= LONGEST
    except ValueError:  # an InputError, or half of a surrogate pair
        fits = False
    if not fits or name != name.strip(" .") or name.split(".")[0].lower() in DEVICES:
        shown = name if len(name) <= 40 else f"{name[:40]}..."
        raise InputError(f"{shown!r} cannot name {what}; use up to {LONGEST} letters, digits, '-', '.' and '_'")
    return name
