"""Chat templates: programs of strangers, rendered by a child process in the sandbox of
transformers.

The child, `python -m lib.models.templates`, knows one day only and no chance, and ends if it takes
too much time or memory. Every failure becomes one line.
"""

import contextlib
import datetime
import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jinja2
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .. import InputError

if TYPE_CHECKING:  # this process starts the child before it imports transformers
    from transformers import PreTrainedTokenizerBase

# as conversations.DATE: the day that a template takes for today
DAY = datetime.datetime(2024, 7, 26)
SECONDS = 30  # that one call may take, for all of its conversations
LONGEST = 50_000  # characters that a template may add to a conversation
MEMORY = 1 << 30  # bytes that a child may take on top of what it starts with
# what Python writes for an object without a text of its own
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>")
# of jinja: they draw at random, or sort keys by their addresses
RANDOM = ("random", "lipsum", "pprint")


def confine(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """Return the same tokenizer. Its apply_chat_template then renders to text only, on one fixed
    day and within limits.

    InputError if the template fails, draws at random, writes an object, takes too long, or writes
    too much.
    """
    tokenizer.apply_chat_template = functools.partial(_apply, tokenizer)
    return tokenizer


def _apply(
    tokenizer: "PreTrainedTokenizerBase",
    conversation: list,
    *,
    tokenize: Literal[False],
    **options: object,
) -> str | list[str]:
    conversations = (
        [conversation] if isinstance(conversation[0], dict) else conversation
    )
    try:
        template = tokenizer.get_chat_template()
        texts = running_child().render(
            template, conversations, tokenizer.special_tokens_map | options
        )
    except OSError as error:  # such as too many open files
        raise InputError(
            f"no process can be started to render a chat template: {error.strerror}"
        ) from error
    # a tokenizer may hold several templates, of which none is the usual one
    except Exception as error:
        raise InputError(
            f"the chat template of {tokenizer.name_or_path} {_problem(error)}; give another one"
        ) from error
    return texts if conversations is conversation else texts[0]


def names_read(template: str) -> set[str]:
    """Return the names that a chat template reads beside the conversation. It is parsed, and not
    run.
    """
    plain = re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", template)
    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"} | {
        "messages",
        "loop",
    }
    # A name that is set in the template may come from outside too if the template asks whether it
    # is there.
    asked = {
        getattr(test.node, "name", "")
        for test in tree.find_all(nodes.Test)
        if test.name.endswith("defined")
    }
    names = {name.name for name in tree.find_all(nodes.Name)}
    return names - own | asked - {""}


def _problem(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    message = " ".join(str(error).split())[:150]
    is_clear = isinstance(error, jinja2.TemplateError) and message
    return (
        f"fails ({message})"
        if is_clear
        else f"fails ({type(error).__name__}: {message})"
    )


# --- the child process ----------------------------------------------------------------------------


class Child:
    """A process that renders templates. It ends with this one, or after SECONDS without an
    answer.
    """

    def __init__(self) -> None:
        # where this package was imported from
        place = Path(__file__).resolve().parents[__name__.count(".")]
        paths = os.pathsep.join(
            filter(None, [str(place), os.environ.get("PYTHONPATH")])
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": paths, "TZ": "UTC"},
            # else a notebook's kernel would wait for this process before it ends
            start_new_session=True,
        )
        weakref.finalize(self, _end, self.process)

    def render(
        self, template: str, conversations: list[list[dict]], variables: dict
    ) -> list[str]:
        """Return the conversations as text. InputError if it fails, or if there is no answer in
        time or none at all.
        """
        request = {
            "template": template,
            "conversations": conversations,
            "variables": variables,
            "seconds": SECONDS,
        }
        late = threading.Timer(SECONDS, self.process.kill)
        try:
            self._answer({})  # wait until it has started; this time is not counted
            late.start()
            answer = self._answer(request)
        except BaseException:  # interrupted: nobody needs the answer any more
            _end(self.process)
            raise
        finally:
            late.cancel()
        if "problem" in answer:
            raise InputError(answer["problem"])
        return answer["texts"]

    def _answer(self, request: dict) -> dict:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            # it was ended, so that nothing or half an answer came
            _end(self.process)
            late = f"runs for more than {SECONDS} seconds, or needs too much memory"
            return {"problem": late}


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]  # both are pipes


# by the process that started it, since a fork must not talk to its parent's
_children: dict[int, Child] = {}


def running_child() -> Child:
    """Return the child of this process; start a new one if it has ended. It gets ready by
    itself.
    """
    child = _children.get(os.getpid())
    if child is None or child.process.poll() is not None:
        child = _children[os.getpid()] = Child()
    return child


# --- in the child ---------------------------------------------------------------------------------


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of transformers, on the day DAY and without chance."""

    def from_string(self, *given: Any, **named: Any) -> Any:
        self.globals["strftime_now"] = DAY.strftime
        for name in RANDOM:
            self.globals.pop(name, None)
        self.filters = {
            name: made for name, made in self.filters.items() if name not in RANDOM
        }
        return super().from_string(*given, **named)


def _serve() -> None:
    """Render what each line of JSON on standard input asks for, until standard input ends."""
    from transformers.utils import chat_template_utils

    answers = sys.stdout
    sys.stdout = sys.stderr
    chat_template_utils.ImmutableSandboxedEnvironment = _Environment
    set_alarm = getattr(signal, "alarm", lambda _: None)  # Windows has none
    # where the system can limit memory
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        held = (
            int(Path("/proc/self/statm").read_text().split()[0])
            * resource.getpagesize()
        )
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    for line in sys.stdin:
        answer: dict = {}
        if request := json.loads(line):
            # ends this process in the midst of anything, even if its parent is gone
            set_alarm(request["seconds"] + 1)
            try:
                given = (
                    request["template"],
                    request["conversations"],
                    request["variables"],
                )
                answer["texts"] = _render(
                    chat_template_utils.render_jinja_template, *given
                )
            except Exception as error:  # a template can raise anything
                answer["problem"] = _problem(error)
            set_alarm(0)
        print(json.dumps(answer), file=answers, flush=True)


def _render(
    render: Callable, template: str, conversations: list[list[dict]], variables: dict
) -> list[str]:
    texts = list(render(conversations, chat_template=template, **variables)[0])
    for turns, text in zip(conversations, texts, strict=True):
        characters = sum(len(part) for turn in turns for part in turn.values())
        problem = ""
        if len(text) > characters + LONGEST:
            problem = f"writes {len(text):,} characters around a conversation of {characters:,}"
        elif ADDRESS.search(text) and not ADDRESS.search(str(turns)):
            problem = "writes an object as text, which is another text in each process"
        if problem:
            raise InputError(problem)
    return texts


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve()
