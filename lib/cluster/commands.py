"""The commands with ON=: scores, notebooks and calibration by Ray, on this machine's cards or on a cluster."""

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lib import ROOT, InputError, scores
from lib.calibration import publishing
from lib.calibration.measuring import FOLDER
from lib.cluster import engine, ray, tables
from lib.cluster.notebooks import OnCluster
from lib.cluster.tables import About, Cluster, Request
from lib.collection import Collection
from lib.prompts import read_prompts
from lib.reproduce import runs
from lib.reproduce.jobs import find_models, study_of
from lib.reproduce.notebooks import cause_of
from lib.reproduce.pages import scored, shown_path


def score(
    on: str, name: str, prompts: str | None = None, collection: str | None = None, *, reply_mode: str = "text",
    bos: str = "single", tokens: int | None = None, shared: str | None = None, stream: int | None = None, **options,
) -> int:  # fmt: skip
    """Score the vocabularies of reward models; how many of them failed. on: as of engine.connected.

    name: one model, several separated by commas, or a group of the registry, as `paper`. shared: a place for shards
    that all nodes see, None for the folder of the tables. prompts: as of read_prompts; the rest is as of
    lib.reproduce.one_model.score. InputError for a model that fits nowhere, before anything is computed.
    """
    texts = read_prompts(prompts)
    options |= {"stream": None if stream is None else bool(stream)}
    models = find_models(name.split(","))
    study = study_of(models, collection)
    study = study if tokens is None else Collection(f"{study}-sample-{tokens}")
    how = {"reply_mode": reply_mode, "bos": bos, "tokens": tokens}
    with engine.connected(on), asyncio.Runner() as runner:
        nodes = engine.nodes_of(shared or str(study.scores.parent))
        cluster = Cluster(nodes, len(models), shared)
        requests = [cluster.request(nickname, load, options, **how) for nickname, load in models.items()]
        known = runner.run(_known(cluster, requests))
        found = runner.run(_score_all(cluster, study, texts, requests, known))
    failed = {one.nickname: error for one, error in zip(requests, found, strict=True) if isinstance(error, Exception)}
    if len(failed) == len(models) == 1:
        raise failed[requests[0].nickname]
    done = [nickname for nickname in models if nickname not in failed]
    lines = scored(study, done) if done else []
    lines += [f"{nickname} failed: {cause_of(error)}" for nickname, error in failed.items()]
    print("\n".join([*lines, f"The score tables are in {shown_path(study.scores)}."]))
    return len(failed)


async def _known(cluster: Cluster, requests: Sequence[Request]) -> list[About | BaseException]:
    """What is known of each model, or why nothing is. NoRoom for one that fits nowhere."""
    known = await engine.all_of([tables.describe(request) for request in requests])
    for request, about in zip(requests, known, strict=True):
        if isinstance(about, About):
            cluster.place_for(request, about.needs)
    return known


async def _score_all(
    cluster: Cluster, study: Collection, prompts: dict[str, str], requests: Sequence[Request], known: Sequence
) -> list:
    """Each model's table, or why there is none."""

    async def one(request: Request, about: About | BaseException):
        if isinstance(about, BaseException):
            raise about
        return await tables.score_table(request, prompts, scores.path_of(study, request.nickname), cluster, about)

    pairs = sorted(zip(requests, known, strict=True), key=_longest_first)
    found = await engine.all_of([one(*pair) for pair in pairs])
    by_name = {request.nickname: result for (request, _), result in zip(pairs, found, strict=True)}
    return [by_name[request.nickname] for request in requests]


def _longest_first(pair: tuple[Request, About | BaseException]) -> int:
    return -pair[1].needs.memory if isinstance(pair[1], About) else 0


def reproduce(on: str, models: Sequence[str] = (), collection: str | None = None) -> int:
    """Score the tables of these models and run the notebooks, all by Ray; the number of jobs that failed.

    As lib.reproduce.runs.reproduce, except for where it runs. on: as of engine.connected.
    """
    to_load = find_models(models)
    study = study_of(to_load, collection)
    with engine.connected(on), asyncio.Runner() as runner:
        cluster = Cluster(engine.nodes_of(str(study.scores.parent)), len(to_load))
        if not study.is_embedded:  # those are trained first, and fit anywhere
            runner.run(_known(cluster, [cluster.request(nickname, load, {}) for nickname, load in to_load.items()]))
        processes = max(len(to_load), round(sum(node.cpus for node in cluster.nodes)))
        return runs.reproduce(models, collection, ROOT / "notebooks", OnCluster(runner, cluster), processes)


def calibrate(on: str, folder: str | None = None, **given) -> None:
    """Calibrate, each model a task of Ray; as lib.calibration.publishing.run otherwise. on: as of engine.connected."""
    with engine.connected(on):
        engine.nodes_of(str(folder or FOLDER))
        publishing.run(folder=folder and str(Path(folder).resolve()), **given, each=each)


def each(function: Callable, jobs: list, processes: int) -> Iterator:
    """As lib.cores.each, by Ray: a task for each job, on one core; in the order in which they end."""
    task = ray.remote(function).options(num_cpus=1, max_retries=engine.RETRIES)
    waiting = [task.remote(job) for job in jobs]
    while waiting:
        [done], waiting = ray.wait(waiting)
        yield asyncio.run(engine.answer_of(done, "a model of the calibration"))


COMMANDS = {"score": score, "reproduce": reproduce, "calibrate": calibrate}


def run(command: str, on: str, **given) -> int:
    """Carry out a command of lib.run; its exit code. InputError for one that does not run on a cluster."""
    if command not in COMMANDS:
        raise InputError(f"ON= is for {', '.join(COMMANDS)}; leave it out for {command}")
    return int((functools.partial(COMMANDS[command], on)(**given) or 0) > 0)
