"""The rule for names that become files, folders and columns: those of prompts, collections, models and figures."""

from lib import InputError

LONGEST = 100  # bytes; file names are made of several names and at most 255 bytes long
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}  # of Windows


def checked(name: str, what: str, longest: int = LONGEST) -> str:
    """The name itself, if `what` (`a prompt`, `a collection`, `a model`) may be called so on every system.

    InputError for a name that is empty, starts with a dot, could lead out of its folder or holds what cannot be
    printed; for one longer than that in bytes, with a space or dot at an end, or that Windows keeps for a device.
    """
    plain = name.isprintable() and not any(character in '/\\:*?"<>|' for character in name)
    ends = name != "" and not name.startswith(".") and name == name.strip(" .")
    # Whatever is printable can be encoded; half of a surrogate pair, which cannot, is not printable.
    if not (plain and ends and len(name.encode()) <= longest) or name.split(".")[0].lower() in DEVICES:
        shown = name if len(name) <= 40 else f"{name[:40]}..."
        raise InputError(f"{shown!r} cannot name {what}; use up to {longest} letters, digits, '-', '.' and '_'")
    return name
