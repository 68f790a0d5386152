"""The command line: run the notebooks over reward models, score one model, refresh the committed notebooks.

    python -m lib.run reproduce [--models NAME ...] [--collection NAME]
    python -m lib.run published
    python -m lib.run score MODEL [--prompts greatest,best | file.csv] [--reply-mode text|ids] [--collection NAME]
    python -m lib.run verify MODEL [--sample 200] [--dtype float32]
    python -m lib.run notebooks [NAME ...]

Notebooks are found in their folder; no list of them is kept here. One whose `parameters` cell has a `model` runs once
per reward model, any other once per collection. One that is about published scores names the collections there:
`collections = "embedded published-words"`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lib import InputError, scores, scoring
from lib.collection import Collection
from lib.models import reward_models
from lib.prompts import read_prompts
from lib.published import verify
from lib.reproduce.jobs import find_models, usual_collection
from lib.reproduce.notebooks import refresh
from lib.reproduce.pages import scored, shown_path
from lib.reproduce.runs import reproduce, reproduce_published

# --- score --------------------------------------------------------------------------------------------------------


def score(
    name: str, prompts: dict[str, str], collection: str | None = None, *, reply_mode: str = "text", bos: str = "single",
    **options,
) -> Path:  # fmt: skip
    """Score the whole vocabulary of a reward model; the path of the score table. options: as of reward_models.load."""
    if len(found := find_models([name])) != 1:
        raise InputError(f"'{name}' names {len(found)} reward models; score one, or run: make reproduce MODELS={name}")
    [(nickname, load)] = found.items()
    collection = collection or usual_collection([nickname])
    path = scores.path_of(Collection(collection), nickname)
    model = reward_models.load(load, **options)
    scoring.score_vocabulary(model, prompts, path, reply_mode=reply_mode, bos=bos)
    print("\n".join([*scored(collection, [nickname]), f"The score table is {shown_path(path)}."]))
    return path


# --- verify -------------------------------------------------------------------------------------------------------


def verify_model(name: str, **options) -> bool:
    """Print how a real model, run here, compares with its published scores; whether a setting reproduces them.

    options: as of lib.verify.verify.
    """
    report = verify.verify(name, **options)
    print("\n".join(verify.lines(report)))
    return bool(report.reproduced)


# --- command line -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lib.run", description="See what reward models value.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("reproduce", help="run the notebooks for reward models, write pages and figures")
    one.add_argument("--models", nargs="+", default=[], metavar="MODEL", help="nicknames, hub ids, folders; or: paper")
    one.add_argument("--collection", help="where scores and figures go (default: embedded, or mine for other models)")
    one = commands.add_parser("score", help="score every token of one reward model's vocabulary")
    one.add_argument("model", help="nickname, hub id or folder")
    one.add_argument("--prompts", help="names from data/prompts.csv, or a csv with columns prompt,text (default: all)")
    one.add_argument(
        "--reply-mode", choices=["text", "ids"], default="text", help="through the template, or spliced in"
    )
    one.add_argument("--bos", choices=["single", "double"], default="single", help="double: as the paper's code did")
    one.add_argument("--collection", help="where the scores go (default: embedded, or mine for other models)")
    for option in ("dtype", "attention", "head", "device"):
        one.add_argument(f"--{option}", help="as of lib.reward_models.load")
    one = commands.add_parser("verify", help="compare a real model, run here, with the scores published for it")
    one.add_argument("model", help="nickname or hub id of one of the paper's ten")
    one.add_argument("--sample", type=int, default=200, help="how many EloEverything items (default: 200)")
    one.add_argument("--seed", type=int, default=0, help="draws the items (default: 0)")
    for option in ("dtype", "device"):
        one.add_argument(f"--{option}", help="as of lib.reward_models.load")
    commands.add_parser("published", help="import published scores and run the notebooks that are about them")
    one = commands.add_parser("notebooks", help="execute the committed notebooks again, without run-time metadata")
    one.add_argument("names", nargs="*", metavar="NAME", help="how their names start (default: all)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 something failed and the rest went on, 2 bad input."""
    given = vars(_parser().parse_args(arguments))
    try:
        match given.pop("command"):
            case "reproduce":
                return int(reproduce(**given) > 0)
            case "published":
                return int(reproduce_published(**given) > 0)
            case "notebooks":
                return int(refresh(**given) > 0)
            case "score":
                given["prompts"] = read_prompts(given["prompts"])
                score(given.pop("model"), given.pop("prompts"), **given)
                return 0
            case "verify":
                return int(not verify_model(given.pop("model"), **given))
    except (InputError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
