"""What a notebook says of its own run, in a shell of IPython as a kernel has it."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from lib import InputError
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
    run(shell, "from lib.show import notebook")
    return shell


def run(shell, *cells: str):
    """The result of the last of these cells."""
    return [shell.run_cell(cell, store_history=True) for cell in cells][-1]


def test_parameters_that_are_as_declared_give_the_collection(shell):
    assert (
        run(shell, DEFAULTS, BEGIN).success
        and shell.user_ns["study"].name == "embedded"
    )


def test_a_choice_lists_what_can_be_chosen():
    names = {"collection": "mine", "base": "gemma", "x": 1}
    with pytest.raises(InputError, match="base is 'gemma'; .* one of: 'gem', 'lla'"):
        notebook.begin(names, base=("gem", "lla"))
    assert notebook.begin(names, x=float) == OWN


def test_a_notebook_that_lacks_something_ends(capsys):
    notebook.needs(True, "two reward models")
    with pytest.raises(SystemExit):
        notebook.needs(False, "two reward models")
    said = "The rest of this notebook needs two reward models. It ends here.\n"
    assert capsys.readouterr().out == said


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
    with pytest.raises(InputError, match="no prompt 'gratest'; choose from: best"):
        notebook.check_prompts("gratest", tables)
