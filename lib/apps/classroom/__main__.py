"""What a teacher does: `python -m lib.apps.classroom site`, and so on."""

import sys
from pathlib import Path

from ... import ROOT
from ...run import Command, argument, main

COMMANDS = {
    "explore": Command(
        "write the page on which a collection's rewards can be searched",
        ".explorer.page:explore",
        (
            argument(
                "--collection",
                default="published",
                help="which scores (default: published)",
            ),
        ),
    ),
    "book": Command(
        "write the executed notebooks as pages that open from a folder",
        ".book.building:make",
    ),
    "site": Command(
        "build explorer, course and book, and gather them with the front page in data/site",
        ".site.gathering:make",
    ),
    "course": Command(
        "write students' copies, the answer key, slides and a folder for a class",
        ".course.making:make",
        (
            argument(
                "folder",
                nargs="?",
                type=Path,
                default=ROOT / "data" / "course",
                help="where they go (default: data/course)",
            ),
        ),
    ),
}


if __name__ == "__main__":
    sys.exit(main(commands=COMMANDS, program=__package__))
