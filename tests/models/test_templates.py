"""Chat templates of strangers: on one day, without chance, else as transformers renders them."""

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
