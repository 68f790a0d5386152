"""Chat templates of strangers: on one day, within limits, and as transformers renders them
otherwise.
"""

import datetime
import os
import signal
import subprocess
import sys
import time

import pytest
import tiny
from conftest import refusal_of
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from lib import InputError
from lib.models import conversations, templates

TURNS = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "love"}]
LLAMA = tiny.TEMPLATES["llama3"]


def tokenizer(template: str, **options):
    """A tokenizer whose template is confined."""
    return templates.confine(tiny.make_tokenizer("llama", template=template, **options))


def render(template: str, turns=TURNS) -> str:
    return tokenizer(template).apply_chat_template(turns, tokenize=False)


def refused(template: str, *words: str) -> None:
    message = refusal_of(lambda: render(template), *words)
    assert message.startswith("the chat template of") and message.endswith(
        "give another one"
    )


# --- the same text --------------------------------------------------------------------------------

PLAIN = {
    name: tiny.make_tokenizer("llama", template=source)
    for name, source in tiny.TEMPLATES.items()
}
CONFINED = {name: tokenizer(name) for name in PLAIN}


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(sorted(PLAIN)),
    prompt=st.text(),
    replies=st.lists(st.text(), min_size=1, max_size=3),
)
def test_the_text_is_what_transformers_renders(name, prompt, replies):
    turns = [
        [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        for reply in replies
    ]
    given_ = {"tokenize": False, "date_string": conversations.DATE}
    confined = CONFINED[name].apply_chat_template(turns, **given_)
    assert confined == PLAIN[name].apply_chat_template(turns, **given_)


# --- the day --------------------------------------------------------------------------------------


def test_every_template_is_told_the_same_day():
    assert templates.DAY.strftime("%d %b %Y") == conversations.DATE
    assert render("{{ strftime_now('%d %b %Y, %H:%M') }}") == "26 Jul 2024, 00:00"
    assert (
        render("{% if strftime_now is defined %}{{ strftime_now('%A') }}{% endif %}")
        == "Friday"
    )


def test_a_template_is_told_the_same_second_in_every_time_zone(monkeypatch):
    monkeypatch.setenv("TZ", "JST-9")
    monkeypatch.setattr(templates, "_children", {})
    assert (
        render("{{ strftime_now('%s') }}")
        == f"{templates.DAY.replace(tzinfo=datetime.UTC).timestamp():.0f}"
    )


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10 ** 10 }}",
        "{% set a = 'a' %}" + "{% set a = a + a %}" * 40 + "{{ a }}",
    ],
)
def test_templates_that_fill_the_memory_are_one_line(template):
    refused(template)


def test_a_template_that_writes_too_much_is_one_line():
    refused(
        "{% for m in messages %}" + "a" * 40_000 + "{% endfor %}",
        "writes 80,000 characters",
    )


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 7 ** (10 ** 9) }}",
        LLAMA
        + "{% if messages[-1]['content'] == 'love' %}{% for i in range(99999) %}{% for j in "
        "range(99999) %}{% endfor %}{% endfor %}{% endif %}",  # for one reply only
    ],
    ids=["loops", "folded", "one reply"],
)
def test_templates_that_run_for_ever_are_ended(monkeypatch, template):
    tokenizer(template[:5])
    monkeypatch.setattr(templates, "SECONDS", 1)
    started = time.monotonic()
    refused(template, "runs for more than 1 seconds")
    assert time.monotonic() - started < 20
    assert render("{{ 'a' * 3 }}") == "aaa"  # and the next one has a child of its own


INTERRUPTED = """
import signal
from lib.models import templates
# whoever runs the tests in the background has it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
child = templates.running_child()
child.render("", [], {})  # it has started
print(child.process.pid, flush=True)
child.render("{{ 7 ** (10 ** 9) }}", [[]], {})
"""


def test_ctrl_c_ends_a_template_and_its_child():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    child = int(process.stdout.readline())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


# --- chance ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    ["([1, 2, 3] | random)", "('' if range(10000) | random else 'x')", "lipsum(n=1)"],
)
def test_a_template_that_writes_something_else_in_each_process_is_refused(expression):
    refused(
        LLAMA.replace(
            "message['content'] | trim", f"message['content'] | trim ~ {expression}"
        ),
        "fails",
    )


@pytest.mark.parametrize(
    "written",
    ["messages | map(attribute='role')", "['a'] | reverse", "cycler(1)", "'a'.upper"],
)
def test_an_address_is_not_written(written):
    refused(
        LLAMA + "{{ OBJECT }}".replace("OBJECT", written), "writes an object as text"
    )


@pytest.mark.parametrize(
    "written, text",
    [
        ("messages | map(attribute='role') | join(' ')", "user assistant"),
        ("['a', none, 1] | string", "['a', None, 1]"),
        ("['ab'] | map('upper') | map('reverse') | list", "['BA']"),
        ("cycler(1, 2).next()", "1"),
        ("messages[0].items() | list", "[('role', 'user'), ('content', 'Why?')]"),
        ("'%s' | format(true)", "True"),
        ("'at 0x7f00beef {}'.format(namespace(a=1).a)", "at 0x7f00beef 1"),
        ("messages[0]['content'] ~ '<a at home>'", "Why?<a at home>"),
    ],
)
def test_data_is_written_whatever_gave_it(written, text):
    assert render("{{ " + written + " }}") == text


@pytest.mark.parametrize(
    "source, names",
    [
        (
            "{% if tools %}{{ tools }}{% endif %}{% generation %}{{ effort }}{% endgeneration %}",
            {"tools", "effort"},
        ),
        (
            "{% set kind = kind if kind is defined else 1 %}{% set a = messages[0].b %}{{ a }}{{ "
            "loop }}",
            {"kind"},
        ),
        (
            "{% for message in messages %}{{ message.tools }}{% endfor %}{{ 10 ** 10 ** 10 }}",
            set(),
        ),
    ],
)
def test_what_a_template_reads_beside_the_conversation_is_known_without_running_it(
    source, names
):
    assert templates.names_read(source) == names


# --- one clear line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "template, word",
    [
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ messages[0].x.y }}", "no attribute 'x'"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{% include 'x' %}", "fails"),
        ("{{ torn", "fails"),
        ("{{ raise_exception('only\n\ntools') }}", "fails (only tools)"),
        ("{{ ().__class__.__mro__ }}", "__class__"),
    ],
)
def test_whatever_a_template_raises_is_one_line(template, word):
    refused(template, word)


def test_several_templates_of_which_none_is_the_usual_one_are_one_line():
    several = tiny.make_tokenizer("llama", template="llama3")
    several.chat_template = {"rag": LLAMA, "tool_use": LLAMA}
    with pytest.raises(
        InputError, match="the chat template of .* fails .ValueError.*give another one"
    ):
        templates.confine(several).apply_chat_template(TURNS, tokenize=False)


@settings(max_examples=40, deadline=None)
@given(
    template=st.text(
        st.sampled_from("{}%|()'\" a+1messages[]0for in endfor set"), max_size=40
    )
)
def test_no_template_is_a_traceback(template):
    try:
        assert isinstance(render(template or "x"), str)
    except InputError as error:
        assert "\n" not in str(error)


def test_half_of_a_surrogate_pair_is_one_line(tmp_path):
    half = "{{- '\ud800' }}" + tiny.TEMPLATES["llama3"]
    folder = tiny.make_checkpoint(tmp_path, "linear_llama")
    saved = AutoTokenizer.from_pretrained(folder)
    saved.chat_template = half
    with pytest.raises(InputError, match="writes half of a surrogate pair.*template="):
        conversations.open_conversation(saved, "Why?")
