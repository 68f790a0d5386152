"""Every notebook runs from a fresh kernel, and records the numbers that it should.

A notebook that is not listed in RUNS fails; so does a number that is recorded and not expected, or the reverse. What
`make reproduce` executed with the same parameters, and of which nothing has changed since, is read from there. All else
runs in a copy of the project, so that nothing of the reader's own is touched; each is executed once, and those that do
not wait for each other side by side.
"""

import functools
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
from conftest import recorded

from lib import ROOT
from lib.models import reward_models
from lib.notebooks import files
from lib.notebooks.jobs import MADE, is_unchanged, read_results
from lib.notebooks.runs import job_of
from lib.notebooks.workers import THREADS
from lib.planted import language_models as small_language_models
from lib.planted import planting
from lib.planted import reward_models as small_models
from lib.scoring import engine
from lib.tables import downloads
from lib.tables.collection import EMBEDDED
from lib.tables.prompts import read_prompts


@dataclass(frozen=True)
class Run:
    """One execution: papermill parameters (absent ones keep their defaults) and the numbers that it records."""

    parameters: dict = field(default_factory=dict)
    records: dict = field(default_factory=dict)


near = pytest.approx
GOOD, PROMPTS = ("greatest", "best"), ("greatest", "best", "worst")

# On the ten small models, whose values were planted: every tolerance is smaller than the effect that it is about.
SMALL = {"collection": "embedded"}  # some notebooks are committed with the parameters of another collection
RUNS: dict[str, list[Run]] = {
    "00_small_reward_models": [
        Run(
            {},
            {"held_out": near(0.84, abs=0.04), "gap": near(0.13, abs=0.08), "models": 10, "signs_right": 8}
            | {"larger": 162, "in_order": near(552, abs=10), "size": near(0.57, abs=0.03)}
            | {"one_sided": near(3.73, abs=0.01)},
        )
    ],
    "01_score_vocabulary": [
        Run({"model": "A-Gem-96"}, {"tokens": 16384, "distinct_inputs": 10527, "itself": 7583}),
        Run(
            {"model": "C-Lla-64", "collection": "scratch", "tokens": 300, "reply_mode": "ids", "prompts": "worst"},
            {"tokens": 300, "distinct_inputs": 300, "itself": 147},
        ),
    ],
    "02_optimal_and_pessimal_tokens": [
        Run(SMALL, {"models": 10, "shared_texts": 10040, "mean_overlap": near(0.13, abs=0.05), "n_positive": 10})
    ],
    "03_similarity": [
        Run(
            SMALL,
            {"models": 10, "mean_tau": near(0.583, abs=0.01), "fig_2a_r2": 0.8061}
            # Base and developer were planted and are found; size was not, and is not.
            | {"p_base": near(0.0079, abs=0.003), "p_developer": near(0.012, abs=0.004)}
            | {"p_parameters": near(0.65, abs=0.35)},
        )
    ],
    "04_framing_effects": [
        Run(
            SMALL,
            {"models": 10, "words": 2453, "framing_ratio": near(2.66, abs=0.3)}
            | {f"gap_{prompt}": near(0.03, abs=0.05) for prompt in GOOD}
            | {"gap_worst": near(0.2, abs=0.08)}
            | {f"n_steeper_{prompt}": near(8.5, abs=1.5) for prompt in PROMPTS},
        )
    ],
    "05_frequency_bias": [
        Run(
            SMALL,
            # The bonus was planted. At equal sentiment it is about as large as without.
            {"models": 10, "words": 2429}
            | {f"free_{prompt}": near(0.165, abs=0.05) for prompt in GOOD}
            | {f"held_{prompt}": near(0.17, abs=0.05) for prompt in GOOD}
            | {"free_worst": near(0.05, abs=0.04), "held_worst": near(0.13, abs=0.04)},
        )
    ],
    "06_human_alignment": [
        Run(
            SMALL,
            {"items": 7213, "tau_human": near(0.52, abs=0.01), "tau_models": near(0.6, abs=0.015)}
            # Raters were planted who tell apart what they like better than what they dislike.
            | {"matched": near(0.08, abs=0.02)},
        )
    ],
    "07_undervalued_items": [
        Run(
            SMALL,
            # Share of words rated alike that models rank above a planted one, mean over models; by chance 0.5.
            {"items": 8987, "above_identity": near(0.89, abs=0.04), "above_nature": near(0.78, abs=0.04)}
            | {"above_technology": near(0.78, abs=0.04)},
        )
    ],
    "08_longer_replies_with_gcg": [
        Run(
            {"model": "A-Gem-48"},
            # Ours finds the known optimum; more tokens reach further on average, in either direction.
            {"swap_spearman": near(0.155, abs=0.02), "found_of_10": near(8, abs=2)}
            | {"gain_optimal": near(0.38, abs=0.2), "gain_pessimal": near(1.65, abs=0.4)},
        )
    ],
    "09_language_model_logprobs": [
        Run(
            {},
            {"reward_models": 10, "printed_pretrained": 9.93, "printed_instruction": 2.87, "printed_reward": 0.0}
            # By chance .4 of 20; the pretrained models and the tuned ones do not overlap.
            | {f"function_words_LM-{base}": near(16, abs=5) for base in ("Gem", "Lla")}
            | {f"function_words_LM-{base}-it": near(3, abs=3) for base in ("Gem", "Lla")}
            # All nine models with a planted frequency bonus are told from the one without.
            | {f"apart_{prompt}": 9 for prompt in PROMPTS}
            | {f"rho_{prompt}": near(0.245, abs=0.08) for prompt in GOOD}
            | {f"rho_at_equal_frequency_{prompt}": near(0.13, abs=0.07) for prompt in GOOD}
            | {f"control_{prompt}": near(0.01, abs=0.06) for prompt in GOOD}
            | {"rho_worst": near(0.165, abs=0.08), "rho_at_equal_frequency_worst": near(0.06, abs=0.06)}
            | {"control_worst": near(-0.1, abs=0.08)},
        )
    ],
    "12_value_card": [
        # Framing turns the spreads, and asked for the worst thing rewards fall with sentiment: both were planted.
        Run(
            {},
            {"tokens": 16384, "typed": 9675, "framing": near(2.7, abs=0.5), "sentiment_worst": near(-0.44, abs=0.05)}
            | {"nature": near(-0.24, abs=0.1), "claimed": 1},
        )
    ],
    "10_what_training_would_change": [
        # A bonus for frequent words and a penalty on identity terms were planted; without them both would be 0 and 1.
        Run({}, {"collapse": near(7.9, abs=1.5), "twice": near(0.43, abs=0.15), "devalued": near(0.02, abs=0.02)})
    ],
}

FIRST = ("00_", "01_")  # what these make, every later notebook reads
TABLES, READS_TABLES = "09_", "10_"  # the one writes log-probabilities, which the other reads
SCORECARD = "11_scorecard"  # it runs on published scores only; tests/claims judges its sentences again


class Project:
    """A copy of the project, and what its notebooks recorded there.

    make: what else to do before the later notebooks, beside the first ones: functions without arguments.
    """

    def __init__(self, folder: Path, notebooks: Path, runs: dict[str, list[Run]], make: Iterable[Callable] = ()):
        self.folder, self.notebooks, self.runs, self.make, self.done = folder, notebooks, runs, make, {}
        shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / "data", folder / "data", ignore=shutil.ignore_patterns(*MADE))
        shutil.copytree(notebooks, folder / "notebooks")
        shown = (ROOT / "figures").glob("calibration/*")  # what notebooks show of the study, and beside a reader's own
        for file in [*shown, *(ROOT / "figures").glob("published/**/*.csv")]:
            copied = folder / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copied)

    def execute(self, names: Iterable[str]) -> None:
        """Execute these notebooks and those that they build on; of each, what its runs recorded or why they failed."""
        before = {name: self._executed_before(name) for name in names}
        self.done |= {
            name: [recorded(nbformat.read(path, 4)) for path in before[name]] for name in names if all(before[name])
        }
        names = {name for name in names if name not in self.done}
        if any(name.startswith(READS_TABLES) for name in names):
            names |= {name for name in self.runs if name.startswith(TABLES)}
        alone = all(name.startswith(FIRST) for name in names)
        names |= set() if alone else {name for name in self.runs if name.startswith(FIRST)}
        first, later = ({name for name in names if name.startswith(start)} for start in (FIRST, READS_TABLES))
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(os.cpu_count(), spawn, _on_one_thread, (str(self.folder),)) as pool:
            made = [] if alone else [pool.submit(function) for function in self.make]
            self._execute(pool, first)
            for future in made:
                future.result()
            self._execute(pool, names - first - later)
            self._execute(pool, later)

    def _executed_before(self, name: str) -> list[Path | None]:
        """What `reproduce` executed with the parameters of these runs; None where it did not, or anything changed."""
        results, executed = read_results(EMBEDDED), []
        for run in self.runs[name]:
            job = job_of(self.notebooks / f"{name}.ipynb", run.parameters)
            known = job and job.executed.is_file() and job.name in results
            executed.append(job.executed if known and is_unchanged(job, results[job.name]) else None)
        return executed

    def _execute(self, pool: ProcessPoolExecutor, names: set[str]) -> None:
        for name, futures in {name: self._submitted(pool, name) for name in sorted(names)}.items():
            self.done[name] = [future.exception() or future.result() for future in futures]

    def _submitted(self, pool: ProcessPoolExecutor, name: str) -> list[Future]:
        notebook, futures = self.folder / "notebooks" / f"{name}.ipynb", []
        for number, one in enumerate(self.runs[name]):
            unknown = set(one.parameters) - set(files.parameters_of(notebook))
            assert not unknown, f"{name} has no parameters {unknown}"
            output = self.folder / "executed" / f"{name}-{number}.ipynb"
            futures.append(pool.submit(_recorded_by, notebook, output, one.parameters))
        return futures


def _on_one_thread(folder: str) -> None:
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ["PYTHONPATH"] = folder  # so that a notebook's kernel imports the copied lib
    if mirror := os.environ.get(downloads.MIRROR):
        os.environ[downloads.MIRROR] = str(ROOT / mirror)  # a relative one is relative to the project, not to the copy


def _recorded_by(notebook: Path, output: Path, parameters: dict) -> dict:
    try:
        files.execute(notebook, output, parameters)
    except Exception as error:  # what papermill raises cannot be sent from one process to another
        raise AssertionError(f"{notebook.name}: {files.cause_of(error)}") from None
    return recorded(nbformat.read(output, 4))


def _score(nickname: str, path: Path) -> None:
    model = reward_models.load(nickname, device="cpu")
    engine.score_vocabulary(model, read_prompts(None), path, progress=False)


@pytest.fixture(scope="module")
def project(request, tmp_path_factory):
    """The copy with the small models, which are trained in place if they are not current, and all their scores.

    Of the notebooks, those were executed that this run of the tests is about.
    """
    small_models.train_all(progress=False)
    small_language_models.train_all(progress=False)
    folder = tmp_path_factory.mktemp("project")
    scores = folder / "data" / "scores" / "embedded"
    others = [nickname for nickname in planting.profiles().index if nickname != "A-Gem-96"]  # which notebook 01 scores
    made = [functools.partial(_score, nickname, scores / f"{nickname}.parquet") for nickname in others]
    project = Project(folder, ROOT / "notebooks", RUNS, made)
    (folder / "data" / "models").symlink_to(ROOT / "data" / "models")
    project.execute({item.callspec.params["name"] for item in request.session.items if _is_about_a_notebook(item)})
    return project


def _is_about_a_notebook(item) -> bool:
    return getattr(item, "originalname", "") == test_a_notebook_records_what_it_should.__name__


def test_every_notebook_is_listed_and_every_listed_one_exists():
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == {*RUNS, SCORECARD}
    assert all(RUNS.values())


@pytest.mark.parametrize("name", sorted(RUNS))
def test_a_notebook_records_what_it_should(project, name):
    expected = [one.records for one in RUNS[name]]
    assert all(expected), f"{name} should record at least one number"
    assert project.done[name] == expected


# --- the mechanism itself -----------------------------------------------------------------------------------------


def test_recorded_numbers_are_compared_after_the_notebooks_that_come_first(tmp_path, write_notebook):
    folder = tmp_path / "notebooks"
    make = "from lib import ROOT\n(ROOT / 'made').write_text(str(n))"
    write_notebook(folder / "01_make.ipynb", make, parameters="n = 1")
    read = "import numpy as np\nfrom lib import ROOT\nfrom lib.show import display\n"
    read += "display.record(made=int((ROOT / 'made').read_text()), third=1 / 3)\ndisplay.record(third=np.float32(0.5))"
    write_notebook(folder / "02_read.ipynb", read)
    write_notebook(folder / "03_fail.ipynb", "1 / 0")
    runs = {"01_make": [Run({"n": 7})], "02_read": [Run({}, {"made": 7, "third": near(0.5)})], "03_fail": [Run()]}
    project = Project(tmp_path / "copy", folder, runs)
    project.execute(["02_read", "03_fail"])
    assert project.done["02_read"] == [one.records for one in runs["02_read"]]
    assert project.done["02_read"] != [{"made": 7, "third": near(0.4)}]
    assert not (ROOT / "made").exists()
    assert str(project.done["03_fail"][0]) == "03_fail.ipynb: ZeroDivisionError: division by zero"


def test_a_parameter_that_the_notebook_does_not_have_is_refused(tmp_path, write_notebook):
    write_notebook(tmp_path / "notebooks" / "02_a.ipynb")
    project = Project(tmp_path / "copy", tmp_path / "notebooks", {"02_a": [Run({"typo": 1})]})
    with pytest.raises(AssertionError, match="has no parameters {'typo'}"):
        project.execute(["02_a"])
