"""The record of runs: whatever stands in its file, what is read are results, and a line says
when it is none.
"""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.apps.runner.jobs import Result, keep_results, read_results, state_of
from lib.tables.collection import OWN

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"))
)
JSON = st.recursive(
    SIMPLE,
    lambda inside: st.lists(inside) | st.dictionaries(st.text(max_size=5), inside),
)
RESULTS = st.dictionaries(
    st.sampled_from(["status", "seconds", "cause", "key", "wrote", "more"]), JSON
)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lib.tables.collection.ROOT", folder)
        state_of(OWN).parent.mkdir(parents=True)
        yield state_of(OWN)


@given(record=JSON | st.dictionaries(st.text(max_size=5), RESULTS))
def test_whatever_the_file_holds_what_is_read_are_results(state, record):
    state.write_text(json.dumps(record))
    for result in read_results(OWN).values():
        assert 0 <= result.seconds < 1e8 and isinstance(
            result.key + result.status + result.cause, str
        )
        assert all(
            not name.startswith("/") and ".." not in name for name in result.wrote
        )
        json.dumps(asdict(result))


NO_LIST = b'{"a": {"status": "run", "wrote": 3}}'
OUTSIDE = b'{"a": {"status": "run", "wrote": ["../../x"]}}'


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}x", b"\xff", b"[" * 100_000, NO_LIST, OUTSIDE]
)
def test_a_wrong_record_is_told_and_everything_runs_again(state, capsys, content):
    state.write_bytes(content)
    assert read_results(OWN) == {}
    assert (
        "state.json is no record of runs, so every notebook of 'mine' runs again"
        in capsys.readouterr().out
    )


def test_a_record_is_read_as_it_was_kept(state, capsys):
    kept = {"a": Result("run", 1.5, "", "k", ("x.png", "b/y.csv"))}
    keep_results(OWN, kept)
    assert read_results(OWN) == kept
    state.unlink()
    assert read_results(OWN) == {} and capsys.readouterr().out == ""
