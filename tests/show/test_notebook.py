"""What a notebook says of its own run, in a shell of IPython as a kernel has it."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from lib import ROOT, InputError
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


@pytest.mark.parametrize(
    "value, kind, told",
    [
        (float("nan"), float, "x is nan; it has to be a finite number"),
        (True, int, "of type int"),
        (1, bool, "of type bool"),
        # as papermill's -p gives them
        (2026, str, "x is 2026; it has to be of type str, which -r x 2026 gives"),
    ],
)
def test_what_only_looks_like_the_kind_asked_for_is_refused(value, kind, told):
    with pytest.raises(InputError, match=told):
        notebook.begin({"collection": "mine", "x": value}, x=kind)
    with pytest.raises(InputError, match="which -r collection 2026 gives"):
        notebook.begin({"collection": 2026})


def test_another_copy_of_the_project_than_the_librarys_is_refused(
    tmp_path, monkeypatch
):
    names = {"collection": "mine"}
    monkeypatch.chdir(tmp_path)
    assert notebook.begin(names) == OWN  # in no copy at all
    (tmp_path / "lib" / "show").mkdir(parents=True)
    (tmp_path / "lib" / "show" / "notebook.py").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    told = (
        f"is in {tmp_path}, but .* library is in {ROOT}; run make install in {tmp_path}"
    )
    with pytest.raises(InputError, match=told):
        notebook.begin(names)
    monkeypatch.chdir(ROOT / "notebooks")
    assert notebook.begin(names) == OWN


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
    assert notebook.check_prompts(["best", " worst"], tables) == ["best"]
    assert (
        capsys.readouterr().out
        == "These scores hold no prompt worst, so it is left out; they hold best.\n"
    )
    with pytest.raises(InputError, match="no prompt 'gratest'; choose from: best"):
        notebook.check_prompts(["gratest"], tables)
    with pytest.raises(InputError, match="no prompt 'best,worst'; choose from: best"):
        notebook.check_prompts(["best,worst"], tables)
