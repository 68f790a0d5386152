"""The command line, `python -m lib.run COMMAND`. What a command calls is loaded when it runs."""

import argparse
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import NamedTuple

from . import InputError, io


class Command(NamedTuple):
    """A command: its help, the function that it calls as "module:name", and that function's
    arguments.

    The function may return the number of things that went wrong.
    """

    help: str
    function: str
    arguments: tuple[tuple[tuple, dict], ...] = ()
    returns_code: bool = False  # the function returns the exit code itself


def argument(*names: str, **options) -> tuple[tuple, dict]:
    """Return an argument of a command, as argparse's add_argument takes it."""
    return names, options


MODELS = argument(
    "--models",
    nargs="+",
    default=[],
    metavar="MODEL",
    help="nicknames, hub ids, folders, or: paper",
)
COLLECTION = argument(
    "--collection",
    help="where scores and figures go (default: embedded, or mine for other models)",
)
NAMES = argument(
    "names",
    nargs="*",
    metavar="NAME",
    help="how their names start, as 04 or exercises/04 (default: all)",
)
COMMANDS = {
    "reproduce": Command(
        "run the notebooks for reward models, write pages and figures",
        ".apps.runner.runs:reproduce",
        (MODELS, COLLECTION),
    ),
    "published": Command(
        "import published scores and run the notebooks that are about them",
        ".apps.runner.runs:published",
    ),
    "notebooks": Command(
        "execute the committed notebooks again, without run-time metadata",
        ".apps.runner.runs:refresh",
        (NAMES,),
    ),
    "numbers": Command(
        "write figures/index.html and its pictures, from the committed claims",
        ".apps.runner.front:write",
    ),
    "human_ratings": Command(
        "join V-Smol-135M, a reward model of people's ratings of words: head and SmolLM2-135M",
        ".trained.v_smol:load_and_report",
    ),
    "smollm2": Command(
        "fetch and unpack SmolLM2-135M-Instruct, which V-Smol-135M is trained on",
        ".trained.smollm2:fetch",
    ),
}


def main(
    arguments: Sequence[str] | None = None,
    commands: Mapping[str, Command] = COMMANDS,
    program: str = f"{__package__}.run",
) -> int:
    """Run one command and return its exit code: 0 (done), 1 (a part failed and the rest went on) or
    2 (bad input).

    program: as python -m takes it; functions of commands are inside its package. Whatever is
    printed meanwhile, an error's message or a traceback too, goes to the terminal through
    `Visible`.
    """
    parser = argparse.ArgumentParser(f"python -m {program}")
    parsers = parser.add_subparsers(dest="command", required=True)
    for name, declared in commands.items():
        parsed = parsers.add_parser(name, help=declared.help)
        for names, options in declared.arguments:
            parsed.add_argument(*names, **options)
    with (
        redirect_stdout(io.Visible(sys.stdout)),
        redirect_stderr(io.Visible(sys.stderr, bars=True)),
    ):
        given = vars(parser.parse_args(arguments))
        name = given.pop("command")
        module, function = commands[name].function.split(":")
        # as Ctrl-C: what was started ends too
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if "MAKELEVEL" in os.environ:
            end = threading.Thread(target=_end_with, args=[os.getppid()], daemon=True)
            end.start()
        try:
            package = program.removesuffix(".run")
            wrong = getattr(import_module(module, package), function)(**given)
        except KeyboardInterrupt:
            print("\ninterrupted; the same command goes on from here", file=sys.stderr)
            return 130
        except Exception as error:
            return _tell(error, name)
        sys.stdout.flush()
        return int(wrong or 0) if commands[name].returns_code else int(bool(wrong))


def _tell(error: Exception, command: str) -> int:
    """Print an error that the reader can mend as one line, and any other whole; return the exit
    code.
    """
    message = io.describe_shortage(error, command)
    if isinstance(error, ModuleNotFoundError):  # as torch in the light installation
        package = (error.name or __package__).partition(".")[0]
        if package != __package__:
            message = f"{package} is not installed; run: {io.command_to_install()}"
    elif isinstance(error, InputError | OSError):
        message = message or str(error)
    if message is None:
        # a mistake of ours, by way of the stream on which nothing acts
        traceback.print_exc()
        return 1
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _end_with(make: int) -> None:
    """End this process, as Ctrl-C does, when the `make` that started it is killed."""
    while os.getppid() == make:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
