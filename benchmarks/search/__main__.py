"""The studies of searches: python -m benchmarks.search page | optimality | rivals | momentum |
speed.
"""

import argparse

import torch

from benchmarks.scoring import write_report
from benchmarks.search import comparison, exhaustive, momentum, optimality, speed


def write_page() -> None:
    """Write the tables of search.md again from the committed results."""
    write_report(
        "optimality on a cpu", optimality.tables(optimality.read()), optimality.PAGE
    )
    comparison.write_tables()
    momentum.write_tables()


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.search", description=__doc__.splitlines()[0]
    )
    studies = parser.add_subparsers(dest="study", required=True)
    studies.add_parser(
        "page",
        help="write the tables of benchmarks/search.md from the committed results",
    )
    studies.add_parser(
        "optimality",
        help="how often searches find the optimum, where every reply was scored (1 hour)",
    )
    rivals = studies.add_parser(
        "rivals", help="our search and its rivals at equal cost"
    )
    rivals.add_argument(
        "--modes", nargs="+", choices=["text", "ids"], default=["text", "ids"]
    )
    rivals.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        choices=comparison.LENGTHS,
        default=comparison.LENGTHS,
    )
    rivals.add_argument(
        "--finished",
        action="store_true",
        help="report what is finished, and search nothing",
    )
    studies.add_parser(
        "momentum", help="gains averaged over steps, and MAC, ACG and evolution"
    )
    added = studies.add_parser(
        "speed", help="how fast and how lean a search scores its candidates"
    )
    added.add_argument(
        "--device",
        choices=["cpu", "cuda"],
        default="cuda" if torch.cuda.is_available() else "cpu",
    )
    options = vars(parser.parse_args())
    reports = {
        "page": write_page,
        "optimality": exhaustive.report,
        "rivals": comparison.report,
        "momentum": momentum.report,
        "speed": speed.report,
    }
    reports[options.pop("study")](**options)


if __name__ == "__main__":
    main()
