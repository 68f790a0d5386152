"""The command line, `python -m lib.run COMMAND`."""

import argparse
import sys
from collections.abc import Callable, Sequence

from . import InputError, io
from .apps.runner import runs

COLLECTION = "where scores and figures go (default: embedded, or mine for other models)"
MODELS = "nicknames, hub ids, folders, or: paper"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see carry_out."""
    parser = argparse.ArgumentParser("python -m lib.run", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for function in (runs.reproduce, runs.published):
        command = commands.add_parser(function.__name__, help=function.__doc__)
        command.set_defaults(function=function)
    command = commands.choices["reproduce"]
    command.add_argument(
        "--models", nargs="+", default=[], metavar="MODEL", help=MODELS
    )
    command.add_argument("--collection", help=COLLECTION)
    given = vars(parser.parse_args(arguments))
    return carry_out(given.pop("function"), given)


def carry_out(function: Callable, given: dict) -> int:
    """Call a command's function and return the exit code: what the function returns, or 0; 2 if
    something is wrong that the reader can mend, which is told in one line.
    """
    try:
        return int(function(**given) or 0)
    except (InputError, OSError, ModuleNotFoundError) as error:
        print(f"error: {io.visible(' '.join(str(error).split()))}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
