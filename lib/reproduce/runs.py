"""Runs: a collection reproduced, notebooks side by side; what is unchanged is not run again."""

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from lib import ROOT, InputError, downloads, lexicons, scores
from lib.collection import ITEMS, PUBLISHED, VOCABULARY, WORDS, Collection
from lib.files import lock
from lib.published import score_files
from lib.reproduce import side_by_side
from lib.reproduce.front_page import write_index
from lib.reproduce.jobs import CARD, Job, find_models, plan, study_of
from lib.reproduce.notebooks import NUMBER
from lib.reproduce.pages import outcome, shown_path, summary
from lib.reproduce.progress import Progress
from lib.reproduce.record import Result, is_unchanged, keep_results, key_of, read_results, state_of, written
from lib.reproduce.side_by_side import Running

# --- reproduce ----------------------------------------------------------------------------------------------------


def reproduce(
    models: Sequence[str] = (), collection: str | None = None, folder: Path = ROOT / "notebooks", where=side_by_side,
    processes: int | None = None,
) -> int:  # fmt: skip
    """Run the notebooks for these reward models; the number of jobs that failed. Unchanged jobs are not run again.

    collection: None takes `embedded` for the embedded reward models and `mine` for others. A notebook that fails is
    named at the end, and those that do not need it still run. where, processes: as of run_all.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    jobs, results = _run_collection(study, plan(folder, study, to_load), where, processes)
    print(summary(study, list(to_load), jobs, results))
    return sum(result.status in ("failed", "skipped") for result in results.values())


def reproduce_published(folder: Path = ROOT / "notebooks") -> int:
    """Import the published scores that can be had, and run the notebooks that are about them; how many jobs failed.

    What cannot be had, a collection or a model in it, is told in a line, and the rest goes on. InputError if nothing
    can be had, or a file is corrupt.
    """
    imported, missing = _import_published()
    values = {"signs": _first_of("bing", "bing stand-in"), "frequency": _first_of("bnc", "wordfreq")}
    prompts = {ITEMS: {"prompt": "GW"}}  # there it is what `greatest` is in the others, word for word
    failed, lines, outcomes = 0, [], []
    for study in [*imported, PUBLISHED]:
        jobs, results = _run_collection(study, plan(folder, study, values=values | prompts.get(study, {})))
        outcomes += [(job, results[job.name]) for job in jobs]
        lines += [f"{study}: {imported.get(study, 'the claims of all of them')}.", *outcome(jobs, results)]
        failed += sum(result.status == "failed" for result in results.values())
    _told(functools.partial(write_index, PUBLISHED, outcomes))
    lines += [*missing, *_measure_for_cards(imported)]
    lines.append(f"Look at {shown_path(PUBLISHED.figures / 'index.html')}: every notebook, its figures, claims.csv.")
    print("\n".join(["", *lines]))
    return failed


def _run_collection(
    study: Collection, jobs: list[Job], where=side_by_side, processes: int | None = None
) -> tuple[list[Job], dict[str, Result]]:
    with lock(state_of(study)):
        results = run_all(study, jobs, processes, where)
        _told(functools.partial(write_index, study, [(job, results[job.name]) for job in jobs]))
    return jobs, results


def _told(write: Callable[[], None]) -> None:
    """Write what is beside the results; where that cannot be, as on a full disk, say so, and the run goes on."""
    try:
        write()
    except InputError as error:
        print(error, flush=True)


def _import_published() -> tuple[dict[Collection, str], list[str]]:
    """Collection -> what it holds, in words, for the collections that can be had; and a line for what cannot."""
    without: dict[Collection, score_files.Missing] = {WORDS: {}, ITEMS: {}, VOCABULARY: {}}
    importers: dict[Collection, Callable[[], dict[str, Path]]] = {
        WORDS: functools.partial(score_files.import_words, missing=without[WORDS]),
        ITEMS: score_files.import_items,  # each file is about all models
        VOCABULARY: functools.partial(score_files.import_vocabulary, missing=without[VOCABULARY]),
    }
    imported, missing = {}, []
    for study, importer in importers.items():
        try:
            paths = list(importer().values())
            table = scores.read(paths[0])
            prompts = scores.prompt_names(table)
            imported[study] = f"{len(paths)} reward models, {len(table):,} replies, {len(prompts)} prompts"
            missing += [f"not to be had: {name} of {study}: {error}" for name, error in without[study].items()]
        except downloads.Unreachable as error:
            missing.append(f"not to be had: {study}: {error}")
    if not imported:
        raise InputError(missing[0].removeprefix("not to be had: "))
    print(*missing, sep="\n", end="\n" if missing else "", flush=True)
    return imported, missing


def _measure_for_cards(imported: dict[Collection, str]) -> list[str]:
    """Keep the published models' numbers, which cards compare a model with; a line where they cannot be had."""
    if not {WORDS, ITEMS} <= set(imported):
        return []
    from lib.card import others  # here, because it draws, and most runs need nothing of it

    try:
        others.publish()
    except InputError as error:
        return [f"not to be had: the published values of cards: {error}"]
    return []


def _first_of(name: str, instead: str) -> str:
    """The lexicon's name if it can be had, else that of the one to take instead, which is told."""
    try:
        lexicons.load(name)
        return name
    except downloads.Unreachable as error:
        print(f"not to be had, so {lexicons.load(instead).name} instead: {error}", flush=True)
        return instead


# --- all jobs of a collection -------------------------------------------------------------------------------------


def run_all(
    study: Collection, jobs: list[Job], processes: int | None = None, where=side_by_side
) -> dict[str, Result]:  # fmt: skip
    """Run the jobs, side by side where they do not wait for each other; how each went, by name, in their order.

    processes: how many at once, None for as many as there are cores. where: what they are started by, with the
    functions of lib.reproduce.side_by_side. The record is written as each job ends.
    """
    record, results, running = read_results(study), {}, []
    progress = Progress(jobs, record, processes or os.cpu_count() or 1)
    waiting = progress.longest_first(jobs)
    with where.ending(running):
        while waiting or running:
            job = where.next_of(waiting, running, results, progress.processes)
            if job:
                waiting.remove(job)
                result = _without_running(job, record.get(job.name), results)
                if not result:
                    running.append(where.start(job, written(study)))
                    continue
            else:
                one = where.first_to_end(running)
                running.remove(one)
                job, result = one.job, _result_of(one, jobs)
            results[job.name] = result
            # A job that failed must run next time, so only the others are remembered.
            record = {name: known for name, known in (record | {job.name: result}).items() if known.key}
            _told(functools.partial(keep_results, study, record))
            progress.tell(job, result, waiting, running)
    return {job.name: results[job.name] for job in jobs}


def _without_running(job: Job, earlier: Result | None, results: dict[str, Result]) -> Result | None:
    """How a job ends that need not or cannot run; None for one that has to."""
    for name in job.needs:
        if results[name].status in ("failed", "skipped"):
            return Result("skipped", cause=f"{name} {results[name].status}")
    if earlier and is_unchanged(job, earlier):
        return Result("unchanged", earlier.seconds, key=earlier.key, wrote=tuple(earlier.wrote))
    return None


def _result_of(one: Running, jobs: list[Job]) -> Result:
    status, cause = one.ended()
    wrote = [name for name, when in written(one.job.collection).items() if one.before.get(name) != when]
    others = {job.model for job in jobs} - {one.job.model, ""}
    wrote = tuple(name for name in wrote if _may_be_of(one.job, name, others))
    return Result(status, round(one.seconds, 1), cause, key_of(one.job, wrote) if status == "run" else "", wrote)


def _may_be_of(job: Job, name: str, others: set[str]) -> bool:
    """Whether a file that appeared while the job ran may be its own, and not that of a job beside it.

    Names of figures begin with their notebook's number; those about one model end with its nickname.
    """
    stem = Path(name).stem
    if re.match(NUMBER, stem) and not stem.startswith(job.number):
        return False
    if stem.startswith("card"):
        return job.number == CARD
    return not job.model or stem.endswith(f"_{job.model}") or not stem.endswith(tuple(f"_{other}" for other in others))
