"""Chat templates: programs that come with a checkpoint, rendered on one fixed day and within limits.

A template is written by strangers. The sandbox of transformers keeps it from files and from Python. Here a child
process renders it. This process knows one day only, and is ended if it takes too much time or memory. Every failure
becomes one line. `python -m lib.models.templates` is that child.
"""

import contextlib
import datetime
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Literal

import jinja2
from jinja2 import nodes
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from .. import ROOT, InputError
from ..io import replacing

DAY = datetime.datetime(2024, 7, 26)  # as conversations.DATE: the day that a template takes for today
SECONDS = 30  # that one call may take, for all of its conversations
LONGEST = 50_000  # characters that a template may add to a conversation
MEMORY = 1 << 30  # bytes that a child may take on top of what it starts with
TIMES = 16  # that a conversation is rendered in each of two processes, so that a rare difference shows
ADDRESS = re.compile(r" at 0x[0-9a-f]{6}")  # of an object in memory, as Python prints it

Turns = list[dict[str, str]]


def confine(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the same tokenizer. Its apply_chat_template then renders to text only, on one fixed day and within limits.

    The text is the one that transformers gives. Raises InputError, in one line, if the template fails or takes more
    than SECONDS. It also does if the template writes more than LONGEST characters around a conversation, or other text
    in each process.
    """
    tokenizer.apply_chat_template = partial(_apply, tokenizer)
    return tokenizer


def _apply(
    tokenizer: PreTrainedTokenizerBase, conversation: list, *, tokenize: Literal[False], **options: object
) -> str | list[str]:
    conversations = [conversation] if isinstance(conversation[0], dict) else conversation
    try:
        template = tokenizer.get_chat_template()
        variables = tokenizer.special_tokens_map | options
        _refuse_unsteady(template, conversations[:4], variables)
        texts = _child().render(template, conversations, variables)
    except Exception as error:  # a tokenizer may hold several templates, of which none is the usual one
        raise InputError(
            f"the chat template of {tokenizer.name_or_path} {_problem(error)}; give another one"
        ) from error
    return texts if conversations is conversation else texts[0]


def _problem(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    message = " ".join(str(error).split())[:150]
    is_said = isinstance(error, jinja2.TemplateError) and message
    return f"fails ({message})" if is_said else f"fails ({type(error).__name__}: {message})"


# --- which templates write the same in every process ----------------------------------------------------------------

_STEADY: set[str] = set()  # hashes of templates, and of what they may use, that this process knows to be steady


def _refuse_unsteady(template: str, conversations: list[Turns], variables: dict) -> None:
    """Raise InputError if the template draws at random, or if two processes render the conversations differently.

    The second process is started once for each template; that it agreed is kept in data/cache.
    """
    key = hashlib.sha256(json.dumps([template, variables], sort_keys=True).encode()).hexdigest()
    mark = ROOT / "data" / "cache" / "templates" / key
    if key not in _STEADY and not mark.is_file():
        with contextlib.suppress(jinja2.TemplateError, RecursionError):  # rendering says what is wrong with it
            tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)
            names = {node.name for node in tree.find_all((nodes.Filter, nodes.Name))}  # type: ignore[attr-defined]
            if names & {"random", "lipsum"}:
                raise InputError("draws at random, so that each rendering is another text")
        several = conversations * TIMES
        first, second = (_child(which).render(template, several, variables) for which in ("first", "second"))
        if first != second:
            raise InputError("gives another text in another process")
        with contextlib.suppress(InputError), replacing(mark, durable=False) as part:
            part.touch()
    _STEADY.add(key)


# --- the child process ----------------------------------------------------------------------------------------------


class Child:
    """A process that renders templates. It ends with this one, or after SECONDS without an answer."""

    def __init__(self) -> None:
        place = Path(__file__).resolve().parents[__name__.count(".")]  # where this package was imported from
        paths = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=os.environ | {"PYTHONPATH": paths},
            start_new_session=True,  # else a notebook's kernel would wait for this process before it ends
        )  # fmt: skip
        weakref.finalize(self, _end, self.process)
        self._answer({})  # wait until it has started; this time is not counted

    def render(self, template: str, conversations: list[Turns], variables: dict) -> list[str]:
        """Return the conversations as text. InputError if it fails, or if there is no answer in time or none at all."""
        request = {"template": template, "conversations": conversations, "variables": variables, "seconds": SECONDS}
        late = threading.Timer(SECONDS, self.process.kill)
        late.start()
        try:
            answer = self._answer(request)
        except BaseException:  # interrupted: nobody needs the answer any more
            _end(self.process)
            raise
        finally:
            late.cancel()
        if answer is None:
            raise InputError(f"runs for more than {SECONDS} seconds, or needs too much memory")
        if "problem" in answer:
            raise InputError(answer["problem"])
        return answer["texts"]

    def _answer(self, request: dict) -> dict | None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):  # it was ended, so that nothing or half an answer came
            _end(self.process)
            return None


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]  # both are pipes


# By the process that started it, since a fork must not talk to its parent's, and by what it is for.
_children: dict[tuple[int, str], Child] = {}


def _child(which: str = "first") -> Child:
    """Return a child of this process; start a new one if it has ended."""
    child = _children.get((os.getpid(), which))
    if child is None or child.process.poll() is not None:
        child = _children[os.getpid(), which] = Child()
    return child


# --- in the child -----------------------------------------------------------------------------------------------------


def _serve() -> None:
    """Render what each line of JSON on standard input asks for, until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    _limit_memory()
    for line in sys.stdin:
        answer: dict = {}
        if request := json.loads(line):
            _set_alarm(request["seconds"] + 1)  # ends this process in the midst of anything, even if its parent is gone
            try:
                answer["texts"] = _render(request["template"], request["conversations"], request["variables"])
            except Exception as error:  # a template can raise anything
                answer["problem"] = _problem(error)
            _set_alarm(0)
        print(json.dumps(answer), file=answers, flush=True)


def _render(template: str, conversations: list[Turns], variables: dict) -> list[str]:
    """Return the conversations as text, as transformers renders them on the day DAY.

    variables: what the template may use besides the conversation. InputError for a text that is too long.
    """
    chat_template_utils._compile_jinja_template(template).environment.globals["strftime_now"] = DAY.strftime
    texts = list(chat_template_utils.render_jinja_template(conversations, chat_template=template, **variables)[0])
    for turns, text in zip(conversations, texts, strict=True):
        parts = [part for turn in turns for part in turn.values()]
        characters = sum(map(len, parts))
        if ADDRESS.search(text) and not any(map(ADDRESS.search, parts)):
            raise InputError("writes the address of an object, which is another one in each process")
        if len(text) > characters + LONGEST:
            raise InputError(f"writes {len(text):,} characters around a conversation of {characters:,}")
    return texts


def _set_alarm(seconds: int) -> None:
    if hasattr(signal, "alarm"):  # Windows has none
        signal.alarm(seconds)


def _limit_memory() -> None:
    """Limit this process to MEMORY on top of what it holds now, where the system can do that."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve()
