"""Chat templates: programs that come with a checkpoint, rendered on one fixed day and within limits.

A template is written by strangers. The sandbox of transformers keeps it from files and from Python; here it is kept
from today's date, from running for ever and from filling the memory, and whatever goes wrong in it is one line. What
cannot run away, as its source shows, is rendered in this process; anything else in a child process, which is ended when
it takes too long. `python -m lib.models.templates` is that child.
"""

import contextlib
import datetime
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Literal

import jinja2
from jinja2 import nodes
from transformers import PreTrainedTokenizerBase
from transformers.utils import chat_template_utils

from lib import ROOT, InputError

DAY = datetime.datetime(2024, 7, 26)  # as conversations.DATE: what a template is told that it is today
SECONDS = 30  # for all conversations that are rendered at once
LONGEST = 50_000  # characters that a template may add to a conversation
MEMORY = 1 << 30  # bytes that a child may take on top of what it starts with

Turns = list[dict[str, str]]


def confine(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The same tokenizer; from now on its apply_chat_template renders to text only, on one day and within limits.

    It gives what transformers gives, or an InputError in one line: where the template fails, takes more than SECONDS,
    or writes more than LONGEST characters around a conversation.
    """
    tokenizer.apply_chat_template = partial(_apply, tokenizer)  # type: ignore[method-assign]
    return tokenizer


def _apply(
    tokenizer: PreTrainedTokenizerBase, conversation: list, *, tokenize: Literal[False], **options: object
) -> str | list[str]:
    conversations = [conversation] if isinstance(conversation[0], dict) else conversation
    try:
        template = tokenizer.get_chat_template()
        given = tokenizer.special_tokens_map | options
        render = _rendered if _cannot_run_away(template) else _child().rendered
        texts = render(template, conversations, given)
    except InputError as error:
        raise InputError(f"the chat template of {tokenizer.name_or_path} {error}; give another one") from error
    except Exception as error:  # a template can raise anything
        raise InputError(
            f"the chat template of {tokenizer.name_or_path} fails ({_in_words(error)}); give another one"
        ) from error
    return texts if conversations is conversation else texts[0]


def _in_words(error: Exception) -> str:
    said = " ".join(str(error).split())[:150]
    return said if isinstance(error, jinja2.TemplateError) and said else f"{type(error).__name__}: {said}"


def _rendered(template: str, conversations: list[Turns], given: dict) -> list[str]:
    """The conversations as text, as transformers renders them but for the date."""
    with _on_one_day(template):
        rendered = chat_template_utils.render_jinja_template(conversations, chat_template=template, **given)
    texts = list(rendered[0])  # beside what it does not tell of: where the assistant speaks
    for turns, text in zip(conversations, texts, strict=True):
        held = sum(len(part) for turn in turns for part in turn.values())
        if len(text) > held + LONGEST:
            raise InputError(f"writes {len(text):,} characters around a conversation of {held:,}")
    return texts


@contextlib.contextmanager
def _on_one_day(template: str) -> Iterator[None]:
    """While this lasts, the template's strftime_now gives DAY."""
    names = chat_template_utils._compile_jinja_template(template).environment.globals
    today = names["strftime_now"]
    names["strftime_now"] = DAY.strftime
    try:
        yield
    finally:
        names["strftime_now"] = today


# --- which templates cannot run away ------------------------------------------------------------------------------

FUNCTIONS = {"raise_exception", "strftime_now", "namespace"}
METHODS = {"split", "rsplit", "strip", "lstrip", "rstrip", "startswith", "endswith", "items", "keys", "values", "get",
           "upper", "lower", "title", "capitalize"}  # fmt: skip
FILTERS = {"trim", "length", "count", "upper", "lower", "capitalize", "title", "first", "last", "default", "d", "list",
           "string", "int", "tojson", "items", "select", "selectattr", "reject", "rejectattr", "safe"}  # fmt: skip
STEPS = (nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign, nodes.Scope, nodes.Const,
         nodes.Name, nodes.NSRef, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.List, nodes.Tuple,
         nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or,
         nodes.Not, nodes.Neg, nodes.Add, nodes.Sub, nodes.Concat, nodes.Test, nodes.Filter, nodes.Call)  # fmt: skip
JOINED_AND_KEPT = 8  # how often a template may join texts and keep the result; each may double what it holds
LARGEST = 1000  # number that may stand in a template


@cache
def _cannot_run_away(template: str) -> bool:
    """Whether the source shows that time and length grow with the conversation at most as its square.

    So it is without loops within loops, macros, multiplication and calls that are not known here, and where texts are
    joined and kept no more than a few times. Many a harmless template is not of this kind; it is rendered in a child.
    """
    try:
        tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(template)
        return all(_is_small_step(node) for node in _all_in(tree)) and _keeps_little(tree)
    except (jinja2.TemplateError, RecursionError):
        return False


def _all_in(tree: nodes.Node) -> Iterator[nodes.Node]:
    return tree.find_all(nodes.Node)


def _is_small_step(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Call):
        of = node.node
        return of.name in FUNCTIONS if isinstance(of, nodes.Name) else getattr(of, "attr", None) in METHODS
    if isinstance(node, nodes.Const) and isinstance(node.value, int | float):
        return abs(node.value) <= LARGEST
    if isinstance(node, nodes.Filter):
        return node.name in FILTERS
    if isinstance(node, nodes.For):
        return not node.recursive and not any(node.find_all(nodes.For))
    return isinstance(node, STEPS)


def _keeps_little(tree: nodes.Node) -> bool:
    """Whether texts are joined and kept a few times only, and never in a loop."""
    joined = (nodes.Add, nodes.Concat)
    in_loops = [kept for loop in tree.find_all(nodes.For) for kept in loop.find_all(nodes.Assign)]
    if any(next(kept.find_all(joined), None) for kept in in_loops):
        return False
    return sum(len(list(kept.find_all(joined))) for kept in tree.find_all(nodes.Assign)) <= JOINED_AND_KEPT


# --- a child process for the others -------------------------------------------------------------------------------


class Child:
    """A process that renders what may run away; it ends with this one, or when it has taken SECONDS for its answer."""

    def __init__(self) -> None:
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lib.models.templates"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=os.environ | {"PYTHONPATH": paths},
        )  # fmt: skip
        weakref.finalize(self, _end, self.process)
        self._answer({})  # it has started, which takes a while that is not counted

    def rendered(self, template: str, conversations: list[Turns], given: dict) -> list[str]:
        """As _rendered. InputError also if there is no answer in time, or none at all."""
        asked = {"template": template, "conversations": conversations, "given": given, "seconds": SECONDS}
        late = threading.Timer(SECONDS, self.process.kill)
        late.start()
        try:
            answer = self._answer(asked)
        except BaseException:  # interrupted: what it is doing is of no use any more
            _end(self.process)
            raise
        finally:
            late.cancel()
        if answer is None:
            raise InputError(f"runs for more than {SECONDS} seconds, or needs too much memory")
        if "fails" in answer:
            raise InputError(answer["fails"])
        return answer["texts"]

    def _answer(self, asked: dict) -> dict | None:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
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


_children: dict[int, Child] = {}  # by the process that started it: a fork must not talk to its parent's


def _child() -> Child:
    """The child of this process; a new one if it was ended."""
    child = _children.get(os.getpid())
    if child is None or child.process.poll() is not None:
        child = _children[os.getpid()] = Child()
    return child


def _serve() -> None:
    """Render what is asked for on standard input, a line of JSON each, until that ends."""
    answers, sys.stdout = sys.stdout, sys.stderr
    _limit_memory()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_answer_to(asked) if asked else {}), file=answers, flush=True)


def _answer_to(asked: dict) -> dict:
    _limit_time(asked["seconds"])
    try:
        return {"texts": _rendered(asked["template"], asked["conversations"], asked["given"])}
    except InputError as error:
        return {"fails": str(error)}
    except Exception as error:  # a template can raise anything
        return {"fails": f"fails ({_in_words(error)})"}


def _limit_memory() -> None:
    """At most MEMORY on top of what is held now, where the system can see to that."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))


def _limit_time(seconds: float) -> None:
    """So much more time of the processor, so that it ends even if nobody is left to end it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 1, most))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _serve()
