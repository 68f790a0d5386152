"""The command line of a teacher: python -m course site | blank | slides | explore."""

import argparse
import sys

from lib import InputError
from lib.tables.collection import Collection

from . import blank, site, slides
from .explorer import page

COMMANDS = {
    "site": (site.build, "build data/site: pages to read without a network"),
    "blank": (blank.write, "write the blank copies in notebooks/exercises/blank"),
    "slides": (
        slides.write,
        "write ten slides for two sessions",
    ),
    "explore": (page.explore, "write a page to look words up in a collection"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status: 2 if something that it needs is missing."""
    parser = argparse.ArgumentParser("python -m course", description=__doc__)
    parsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, text) in COMMANDS.items():
        parsers.add_parser(name, help=text, description=text).set_defaults(run=run)
    parsers.choices["explore"].add_argument(
        "--collection",
        type=Collection,
        default=Collection("published"),
        help="whose scores: published (default), embedded, or your own",
    )
    given = vars(parser.parse_args(arguments))
    try:
        given.pop("run")(**given)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
