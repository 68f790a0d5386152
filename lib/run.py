"""The command line: what each command does is in lib/reproduce; `python -m lib.run --help` shows examples."""

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from lib import InputError, shortage
from lib.terminal import Visible

EXAMPLES = """examples:
  python -m lib.run reproduce                                        everything on the small models that ship
  python -m lib.run reproduce --models R-Gem-2B R-Lla-3B --collection mine
  python -m lib.run score path/to/model --prompts greatest,best --reply-mode ids
  python -m lib.run score S-Gem-27B --tokens 500 --prompts greatest   a model of any size, in little memory
  python -m lib.run check path/to/model                              is it scored as its makers meant?
  python -m lib.run card path/to/model                               what it values, beside ten published models
  python -m lib.run verify R-Gem-2B --sample 200 --dtype float32
  python -m lib.run tokenizers path/to/tokenizers                    what the paper's tokens are read as; no weights
  python -m lib.run published                                        the notebooks on the authors' released scores
  python -m lib.run score A-Gem-96,B-Gem-64 --on auto                by Ray, on all cards or cores of this machine
  python -m lib.run calibrate --models 40                            do the intervals hold what was planted?
  python -m lib.run explore --collection published-words             all of its rewards on one page, for a browser
  python -m lib.run book                                             notebooks, glossary, teaching plan as pages
  python -m lib.run students                                         notebooks with exercises to solve, and answers
  python -m lib.run class                                            all that a laptop needs in a class, in one folder
  python -m lib.run notebooks 04 05                                  execute these committed notebooks again
  python -m lib.run ls models                                        models, collections, prompts or notebooks
"""
WHERE = "where scores and figures go (default: embedded, or mine for other models)"
ON = "run by Ray (CLUSTER.md): auto, for all cards of this machine, or the address of a head; default: without Ray"
LISTS = ("models", "collections", "prompts", "notebooks")


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m lib.run", None, "See what reward models value.", EXAMPLES,
                                     formatter_class=plain)  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    _add_about_many_models(commands)
    _add_about_one_model(commands)
    _add_about_the_project(commands)
    return parser


def _add_about_many_models(commands) -> None:
    added = commands.add_parser("reproduce", help="run the notebooks for reward models, write pages and figures")
    added.add_argument(
        "--models", nargs="+", default=[], metavar="MODEL", help="nicknames, hub ids, folders, or: paper"
    )
    added.add_argument("--collection", help=WHERE)
    added.add_argument("--on", metavar="WHERE", help=ON)
    commands.add_parser("published", help="import published scores and run the notebooks that are about them")
    added = commands.add_parser("calibrate", help="train small models on known values and see what intervals hold")
    added.add_argument("--models", type=int, default=400, help="how many of the plan (default: all 400)")
    added.add_argument("--folder", help="where rewards and report go (default: data/cache/calibration)")
    added.add_argument("--publish", action="store_true", help="make it the report that the notebooks read")
    added.add_argument("--on", metavar="WHERE", help=ON)
    commands.add_parser("book", help="write the executed notebooks as pages that open from a folder")
    added = commands.add_parser("explore", help="write the page on which a collection's rewards can be searched")
    added.add_argument("--collection", default="embedded", help="which scores (default: embedded)")


def _add_about_one_model(commands) -> None:
    loading = argparse.ArgumentParser(add_help=False)  # what several of these commands take
    loading.add_argument("name", metavar="MODEL", help="nickname, hub id or folder")
    loading.add_argument("--bos", choices=["single", "double"], default="single", help="double: as the paper's code")
    for option in ("dtype", "attention", "head", "read-at", "closing", "device"):
        loading.add_argument(f"--{option}", help="as of lib.models.reward_models.load")
    added = commands.add_parser("score", parents=[loading], help="score every token of one reward model's vocabulary")
    added.add_argument("--prompts", help="names from data/prompts.csv, or a csv with columns prompt,text; default: all")
    added.add_argument("--reply-mode", choices=["text", "ids"], default="text", help="by the template, or spliced in")
    added.add_argument("--tokens", type=int, metavar="N", help="a random sample of N tokens; default: the vocabulary")
    added.add_argument("--collection", help=WHERE)
    added.add_argument("--stream", type=int, choices=[0, 1], help="1: read weights layer by layer, with little memory; "
                       "0: hold them; default: what fits")  # fmt: skip
    added.add_argument("--on", metavar="WHERE", help=f"{ON}; MODEL may then be several, by commas, or: paper")
    added.add_argument("--shared", metavar="PLACE", help="with --on: a folder or URI that all nodes see, for shards")
    added = commands.add_parser("check", parents=[loading], help="tell whether a model is scored as its makers meant")
    added.add_argument("--json", action="store_true", dest="as_json", help="the same for machines")
    added = commands.add_parser("card", parents=[loading], help="one page on what it values, beside published models")
    added.add_argument("--collection", help=WHERE)


def _add_about_the_project(commands) -> None:
    added = commands.add_parser("verify", help="compare a real model, run here, with the scores published for it")
    added.add_argument("name", metavar="MODEL", help="nickname or hub id of one of the paper's ten")
    added.add_argument("--sample", type=int, default=200, help="how many EloEverything items (default: 200)")
    added.add_argument("--seed", type=int, default=0, help="draws the items (default: 0)")
    for option in ("dtype", "device"):
        added.add_argument(f"--{option}", help="as of lib.models.reward_models.load")
    added = commands.add_parser("tokenizers", help="count what the tokens of the paper's models are read as")
    added.add_argument("folder", nargs="?", help="holds gemma-2/, llama-3/, ... each with tokenizer.json; default: hub")
    added.add_argument("--write", action="store_true", help="keep the counts in data/tokenizers")
    added = commands.add_parser("students", help="write copies of the notebooks with stubs, and the answer key")
    added.add_argument("folder", nargs="?", help="where students/ and answers/ go (default: data/course)")
    added = commands.add_parser("class", help="write a folder with all that a laptop needs in a class, without torch")
    added.add_argument("folder", nargs="?", help="where it goes (default: data/course/class)")
    added.add_argument("--wheels", action="store_true", help="with the packages, for laptops like this machine")
    added = commands.add_parser("notebooks", help="execute the committed notebooks again, without run-time metadata")
    added.add_argument("names", nargs="*", metavar="NAME", help="how their names start (default: all)")
    added = commands.add_parser("ls", help="list models, collections, prompts and notebooks")
    added.add_argument("what", nargs="?", choices=LISTS, help="default: all")


def _run(command: str, on: str | None = None, **given) -> int:
    """The exit code of a command. Each imports what it needs, so that none waits for models or charts of another."""
    if on:
        from lib.cluster import commands

        return commands.run(command, on, **given)
    if given.pop("shared", None):
        raise InputError("--shared is for runs of Ray; say --on auto too, or leave it out")
    match command:
        case "reproduce":
            from lib.reproduce import runs

            return int(runs.reproduce(**given) > 0)
        case "published":
            from lib.reproduce import runs

            return int(runs.reproduce_published(**given) > 0)
        case "score":
            from lib.prompts import read_prompts
            from lib.reproduce import one_model

            stream = None if given["stream"] is None else bool(given["stream"])
            one_model.score(**given | {"prompts": read_prompts(given["prompts"]), "stream": stream})
        case "check":
            from lib.reproduce import one_model

            return int(not one_model.check_model(**given))
        case "card":
            from lib.reproduce import value_cards

            value_cards.make(**given)
        case "tokenizers":
            from lib.reproduce import one_model

            one_model.count_tokens(**given)
        case "verify":
            from lib.reproduce import one_model

            return int(not one_model.verify_model(**given))
        case "calibrate":
            from lib.calibration import publishing

            publishing.run(**given)
        case "book":
            from lib.book import building

            building.make(**given)
        case "explore":
            from lib.explorer import page

            page.explore(**given)
        case "students":
            from lib.course import students

            students.make(Path(given["folder"] or students.COURSE))
        case "class":
            from lib.course import classroom

            classroom.make(Path(given["folder"] or classroom.CLASS), wheels=given["wheels"])
        case "notebooks":
            from lib.reproduce import committed

            return int(committed.refresh(**given) > 0)
        case "ls":
            from lib.reproduce import listings

            listings.show(**given)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 something failed and the rest went on, 2 bad input.

    Whatever is printed meanwhile, an error's message or a traceback too, goes to the terminal through `Visible`.
    """
    with redirect_stdout(Visible(sys.stdout)), redirect_stderr(Visible(sys.stderr, bars=True)):
        return _exit_code(arguments)


def _exit_code(arguments: Sequence[str] | None) -> int:
    given = vars(_parser().parse_args(arguments))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was started ends too
    try:
        return _run(**given)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except Exception as error:
        line = shortage.told(error, given["command"]) or _not_installed(error)
        if not line and not isinstance(error, InputError | OSError):
            traceback.print_exc()  # a mistake of ours: told whole, but by way of the stream on which nothing acts
            return 1
        print(f"error: {' '.join((line or str(error)).split())}", file=sys.stderr)
        return 2


def _not_installed(error: Exception) -> str | None:
    """The line for a package that is not there, as torch in the light installation; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "lib").partition(".")[0] == "lib":
        return None
    return f"{error.name} is not installed; run: {sys.executable} -m pip install -c requirements.lock -e '.[dev]'"


if __name__ == "__main__":
    sys.exit(main())
