"""What a notebook says of its own run, in a shell of IPython as a kernel has it."""

import pytest
from conftest import refusal_of
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from lib.show import notebook
from lib.tables.collection import OWN

DEFAULTS = 'collection = "embedded"  # which\nn = 22\nblur = True'
BEGIN = "study = notebook.begin(globals(), n=int, blur=bool)"


@pytest.fixture
def shell(monkeypatch):
    """A shell whose cells know `notebook`; it has executed a cell of imports."""
    config = Config(
        {
            "HistoryManager": {"enabled": False},
            "InteractiveShell": {"colors": "NoColor"},
        }
    )
    shell = InteractiveShell(config=config)
    monkeypatch.setattr(notebook, "get_ipython", lambda: shell)
    run(
        shell,
        "from lib.show import notebook\nfrom lib.tables.collection import FIRST_RUN, OWN",
    )
    return shell


def run(shell, *cells: str):
    """The result of the last of these cells."""
    return [shell.run_cell(cell, store_history=True) for cell in cells][-1]


def test_parameters_that_are_as_declared_give_the_collection(shell):
    assert (
        run(shell, DEFAULTS, BEGIN).success
        and shell.user_ns["study"].name == "embedded"
    )
    assert run(shell, DEFAULTS, '# Parameters\ncollection = "mine"', BEGIN).success
    assert shell.user_ns["study"] == OWN


@pytest.mark.parametrize(
    "injected, words",
    [
        (
            'colection = "mine"',
            [
                "unknown parameter 'colection'",
                "did you mean 'collection'",
                "has collection, n, blur",
            ],
        ),
        ('n = "many"', ["n is 'many'", "a whole number"]),
        ("n = True", ["n is True", "a whole number"]),
        ("blur = 1", ["blur is 1", "True or False"]),
        ("collection = 3", ["collection is 3", "a text"]),
    ],
)
def test_a_wrong_name_or_value_is_told_in_one_line(shell, capsys, injected, words):
    result = run(shell, DEFAULTS, f"# Parameters\n{injected}", BEGIN)
    assert not result.success and "\n" not in str(result.error_in_exec)
    [line] = capsys.readouterr().out.strip().splitlines()[-1:]
    assert line.startswith("error: ") and all(word in line for word in words), line


def test_a_name_that_a_reader_mistyped_in_the_parameters_cell_is_told(shell, capsys):
    assert not run(shell, DEFAULTS.replace("collection", "colection"), BEGIN).success
    assert (
        "unknown parameter 'colection' (did you mean 'collection'?)"
        in capsys.readouterr().out
    )
    assert not run(
        shell,
        "n = 22",
        "print(n)",
        "del blur" if "blur" in shell.user_ns else "",
        BEGIN,
    ).success
    assert "the parameter collection is not set" in capsys.readouterr().out


def test_literals_of_other_cells_are_no_parameters(shell):
    assert run(shell, DEFAULTS, BEGIN, "title = 'a title'", "print(n)", BEGIN).success


def test_a_choice_lists_what_can_be_chosen():
    names = {"collection": "mine", "base": "gemma"}
    refusal_of(
        lambda: notebook.begin(names, base=("gem", "lla")),
        "base is 'gemma'",
        "one of: 'gem', 'lla'",
    )
    assert notebook.begin(names | {"base": "lla"}, base=("gem", "lla")) == OWN
    assert notebook.begin({"collection": "mine", "x": 1}, x=float) == OWN


def test_a_section_that_lacks_something_does_nothing_until_the_next_one(shell, capsys):
    cells = [
        "notebook.needs(False, 'two reward models')",
        "a = 1",
        "b = 1 / 0",
        "notebook.needs(True, '')",
        "c = 3",
    ]
    assert run(shell, *cells).success
    assert (
        capsys.readouterr().out
        == "This section needs two reward models. Its cells are not executed.\n"
    )
    assert "a" not in shell.user_ns and shell.user_ns["c"] == 3


def test_without_a_kernel_a_missing_thing_is_an_error():
    refusal_of(
        lambda: notebook.needs(False, "two reward models"),
        "this section needs two reward models",
    )
    notebook.needs(True, "two reward models")


def test_a_small_model_goes_into_a_readers_collection_only_by_name(shell, capsys):
    defaults, refuse = 'model = "A-Gem-96"', "notebook.refuse_default_model(model, OWN)"
    assert not run(shell, defaults, '# Parameters\ncollection = "mine"', refuse).success
    assert "name your model: -p model FOLDER" in capsys.readouterr().out
    assert run(shell, defaults, '# Parameters\nmodel = "A-Gem-96"', refuse).success
    assert run(shell, 'model = "somebody/a-model"', refuse).success
    assert not run(
        shell, 'model = "V-Smol-135M"', '# Parameters\ncollection = "mine"', refuse
    ).success
    assert run(
        shell, 'model = "V-Smol-135M"', refuse.replace("OWN", "FIRST_RUN")
    ).success


def test_prompts_that_are_not_scored_are_left_out_and_told(score_table, capsys):
    tables = {
        "a": score_table(best=range(15), worst=range(15)),
        "b": score_table(best=range(15)),
    }
    assert notebook.check_prompts("best,worst", tables) == ["best"]
    assert (
        capsys.readouterr().out
        == "These scores hold no prompt worst, so it is left out; they hold best.\n"
    )
    refusal_of(
        lambda: notebook.check_prompts("gratest", tables),
        "no prompt 'gratest'",
        "choose from: best",
    )
