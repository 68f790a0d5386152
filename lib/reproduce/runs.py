"""Runs: a collection reproduced, notebook after notebook; what is unchanged is not run again."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat

from lib import ROOT, InputError, downloads, lexicons, scores
from lib.collection import ITEMS, VOCABULARY, WORDS
from lib.files import lock, replacing
from lib.published import score_files
from lib.reproduce.jobs import (
    PUBLISHED,
    Job,
    Places,
    Result,
    find_models,
    hash_of,
    key_of,
    plan,
    plan_published,
    project_files,
    usual_collection,
)
from lib.reproduce.notebooks import cause_of, execute, opening, stripped
from lib.reproduce.pages import outcome, shown_path, summary, write_index, write_page

# --- reproduce ----------------------------------------------------------------------------------------------------


def reproduce(models: Sequence[str] = (), collection: str | None = None, folder: Path = ROOT / "notebooks") -> int:
    """Run the notebooks for these reward models; the number of jobs that failed. Unchanged jobs are not run again.

    collection: None takes `embedded` for the embedded reward models and `mine` for others. A notebook that fails is
    named at the end, and the others still run.
    """
    found = find_models(models)
    collection = collection or usual_collection(found)
    jobs, places = plan(folder, found, collection), Places(collection)
    with lock(places.state):
        results = run_all(jobs, places)
        write_index(collection, jobs, results, places)
    print(summary(collection, list(found), jobs, results, places))
    return sum(result.status in ("failed", "skipped") for result in results.values())


def reproduce_published(folder: Path = ROOT / "notebooks") -> int:
    """Import the published scores that can be had, and run the notebooks that are about them; how many jobs failed.

    What cannot be had is told in a line, and the rest goes on. InputError if nothing can be had, or a file is corrupt.
    """
    had = _import_published()
    values = {"signs": _first_of("bing", "bing stand-in"), "frequencies": _first_of("bnc", "wordfreq")}
    prompts = {ITEMS.name: {"prompt": "GW"}}  # there it is what `greatest` is in the others, word for word
    failed, told = 0, []
    for collection in [*had, PUBLISHED]:
        jobs = plan_published(folder, collection, values | prompts.get(collection, {}))
        places = Places(collection)
        with lock(places.state):
            results = run_all(jobs, places)
            write_index(collection, jobs, results, places)
        told += [f"{collection}: {had.get(collection, 'the claims of all of them')}.", *outcome(jobs, results)]
        failed += sum(result.status == "failed" for result in results.values())
    told.append(f"Look at {shown_path(Places(PUBLISHED).figures)}: figures, executed notebooks, claims.csv.")
    print("\n".join(["", *told]))
    return failed


def _import_published() -> dict[str, str]:
    """Collection -> what it holds, in words, for the collections that can be had."""
    importers = {WORDS.name: score_files.import_words, ITEMS.name: score_files.import_items,
                 VOCABULARY.name: score_files.import_vocabulary}  # fmt: skip
    had, missing = {}, []
    for collection, importer in importers.items():
        try:
            paths = list(importer().values())
            table = scores.read(paths[0])
            prompts = scores.prompt_names(table)
            had[collection] = f"{len(paths)} reward models, {len(table):,} replies, {len(prompts)} prompts"
        except downloads.Unreachable as error:
            missing.append(f"not to be had: {collection}: {error}")
    if not had:
        raise InputError(missing[0].removeprefix("not to be had: "))
    print(*missing, sep="\n", end="\n" if missing else "", flush=True)
    return had


def _first_of(name: str, instead: str) -> str:
    """The lexicon's name if it can be had, else that of the one to take instead, which is told."""
    try:
        lexicons.load(name)
        return name
    except downloads.Unreachable as error:
        print(f"not to be had, so {lexicons.load(instead).name} instead: {error}", flush=True)
        return instead


def run_all(jobs: list[Job], places: Places) -> dict[str, Result]:
    known, results, project = places.known(), {}, hash_of(project_files())
    failed_models = {}
    for number, job in enumerate(jobs, start=1):
        print(f"[{number}/{len(jobs)}] {job.name} ...", end="\n" if sys.stderr.isatty() else " ", flush=True)
        if job.model in failed_models:
            result = Result("skipped", cause=f"{failed_models[job.model]} failed for it")
        else:
            result = _run(job, places, known.get(job.name), project)
        if result.status == "failed" and job.model:
            failed_models[job.model] = job.notebook.stem
        results[job.name] = result
        # A job that failed must run next time, so only the others are remembered.
        known = {name: one for name, one in (known | {job.name: result}).items() if one.key}
        places.keep(known)
        print(_told(result), flush=True)
    return results


def _told(result: Result) -> str:
    done = f"{result.seconds:.0f} s" if result.status == "run" else result.status
    return f"{done}: {result.cause}" if result.cause else done


def _run(job: Job, places: Places, known: Result | None, project: str) -> Result:
    if known and _is_unchanged(job, places, known, project):
        return Result("unchanged", known.seconds, key=known.key, wrote=tuple(known.wrote))
    before, start = places.written(), time.monotonic()
    status, cause, key = "run", "", ""
    places.executed(job).unlink(missing_ok=True)
    try:
        execute(job.notebook, places.executed(job), job.parameters)
        key = key_of(job, project)
    except Exception as error:  # whatever stops one notebook, the others still run, and the cause is told
        status, cause = "failed", cause_of(error)
    if places.executed(job).is_file():  # a failed notebook is shown as far as it got
        write_page(places.executed(job), places.page(job), opening(job.notebook)[0])
        if status == "run" and places.shows_notebooks:
            _keep_notebook(places.executed(job), places.figures / f"{job.name}.ipynb")
    wrote = tuple(name for name, when in places.written().items() if before.get(name) != when)
    return Result(status, round(time.monotonic() - start, 1), cause, key, wrote)


def _keep_notebook(executed: Path, path: Path) -> None:
    with replacing(path) as part:
        nbformat.write(stripped(nbformat.read(executed, 4)), part)


def _is_unchanged(job: Job, places: Places, known: Result, project: str) -> bool:
    there = places.page(job).is_file() and all((places.figures / name).is_file() for name in known.wrote)
    return there and known.key == key_of(job, project)
