"""The command line: run the notebooks over reward models, score one model, refresh the committed notebooks.

    python -m lib.run reproduce [--models NAME ...] [--collection NAME]
    python -m lib.run published
    python -m lib.run score MODEL [--prompts greatest,best | file.csv] [--reply text|ids] [--collection NAME]
    python -m lib.run verify MODEL [--sample 200] [--dtype float32]
    python -m lib.run notebooks [NAME ...]

Notebooks are found in their folder; no list of them is kept here. One whose `parameters` cell has a `model` runs once
per reward model, any other once per collection. One that is about published scores names the collections there:
`collections = "embedded published-words"`.
"""

import argparse
import ast
import hashlib
import html
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import nbconvert
import nbformat
import pandas as pd
import papermill
from papermill.exceptions import PapermillExecutionError

from lib import ROOT, InputError, downloads, lexicons, published, reward_models, scores, scoring, verify
from lib.display import show_token
from lib.figures import folder_of

TRAINING = "00_"  # the notebook that makes the embedded reward models; it comes before any score, and only they need it
EMBEDDED = "embedded"  # the collection of the embedded reward models
SCORECARD = "09_"  # the notebook that gathers the claims of the others
PUBLISHED = "published"  # all collections of published scores together
OWN = "mine"  # the collection of other reward models, unless named
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
MADE = ("scores", "models", "cache")  # the folders of data/ that runs make
QUIET = ["--IPKernelApp.log_level=50"]  # a kernel's remarks on its own transport are not for the terminal
WIDGET_TYPE = "application/vnd.jupyter.widget-view+json"


# --- one notebook -------------------------------------------------------------------------------------------------


def find_notebooks(folder: Path) -> list[Path]:
    """The numbered notebooks of a folder, in order of their numbers."""
    found = sorted(Path(folder).glob("[0-9][0-9]_*.ipynb"))
    if not found:
        raise InputError(f"no numbered notebooks in {folder}; run this in a whole copy of the project")
    return found


def parameters_of(notebook: Path) -> dict:
    """The parameters of a notebook and their defaults: the literals of its one cell tagged `parameters`."""
    cells = [c for c in nbformat.read(notebook, 4).cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        raise InputError(f"{notebook} has {len(cells)} cells tagged 'parameters'; tag one")
    try:
        return {line.targets[0].id: ast.literal_eval(line.value) for line in ast.parse(cells[0].source).body}
    except (SyntaxError, ValueError, AttributeError) as error:
        raise InputError(f"{notebook}: the parameters cell may only set names to literals ({error})") from error


def opening(notebook: Path) -> tuple[str, str]:
    """The title and the question of a notebook: the first heading and the first sentence that ends with `?`."""
    texts = [cell.source for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "markdown"]
    first_line, _, rest = (texts or [""])[0].partition("\n")
    prose = " ".join(rest.replace("*", "").split())
    question = re.search(r"[^.!?:]*\?", prose)
    return first_line.lstrip("# ").strip() or notebook.stem, question[0].strip() if question else ""


def execute(notebook: Path, output: Path, parameters: dict) -> nbformat.NotebookNode:
    """The notebook as executed with these parameters, from a fresh kernel in the notebook's folder; kept in `output`.

    Raises what papermill raises when a cell fails; `output` then holds the notebook as far as it got.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    log = sys.stderr if sys.stderr.isatty() else None  # progress bars inside the notebook, where somebody watches
    return papermill.execute_notebook(
        notebook, output, parameters, kernel_name="python3", cwd=notebook.parent, progress_bar=False, stderr_file=log,
        extra_arguments=QUIET,
    )  # fmt: skip


def write_page(executed: Path, page: Path, title: str) -> None:
    """Write an executed notebook as one HTML file."""
    notebook = nbformat.read(executed, 4)
    body, _ = nbconvert.HTMLExporter().from_notebook_node(notebook, {"metadata": {"name": title}})
    with scores.replacing(page) as part:
        part.write_text(body, encoding="utf-8")


def cause_of(error: BaseException) -> str:
    """Why a notebook failed, in one line."""
    if isinstance(error, PapermillExecutionError):
        lines = str(error.evalue).strip().splitlines() or ["no message"]
        return lines[0] if error.ename == "InputError" else f"{error.ename}: {lines[0]}"
    lines = str(error).strip().splitlines() or ["no message"]
    return lines[0] if isinstance(error, InputError) else f"{type(error).__name__}: {lines[0]}"


# --- what is to run -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One notebook to execute. model: its nickname, '' for a notebook about the whole collection.

    artefacts: files and folders that it reads or makes, besides the project's own sources.
    """

    notebook: Path
    collection: str
    model: str
    parameters: dict
    artefacts: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"{self.notebook.stem}-{self.model}" if self.model else self.notebook.stem


@dataclass(frozen=True)
class Result:
    """How a job went. status: run, unchanged, failed or skipped; wrote: names of the figures and tables it wrote."""

    status: str
    seconds: float = 0.0
    cause: str = ""
    key: str = ""
    wrote: tuple[str, ...] = ()


def find_models(names: Sequence[str]) -> dict[str, str]:
    """Nickname -> what to load, for nicknames, hub ids, folders, and `paper` for the ten of the paper.

    No names: the embedded reward models. Raises InputError for a name that is nothing of this.
    """
    groups = reward_models.registry()["group"]
    names = names or [EMBEDDED]
    wanted = [one for name in names for one in (groups.index[groups == name] if name in groups.values else [name])]
    found = {}
    for name in dict.fromkeys(wanted):
        entry = reward_models.find(name)
        local = name not in groups.index and Path(name).is_dir()
        load = str(Path(name).resolve()) if local else name
        if found.setdefault(entry["nickname"], load) != load:
            raise InputError(f"two models are called {entry['nickname']}; score them into two collections")
    return found


def plan(folder: Path, models: dict[str, str], collection: str) -> list[Job]:
    """The jobs that reproduce a collection, in order: notebook after notebook, each for every model it is about."""
    jobs = []
    for notebook in find_notebooks(folder):
        has = parameters_of(notebook)
        if notebook.name.startswith(TRAINING) and collection != EMBEDDED:
            continue
        if EMBEDDED not in has.get("collections", EMBEDDED).split():  # it is about published scores only
            continue
        for nickname, load in models.items() if "model" in has else [("", "")]:
            values = {"collection": collection, "model": load}
            given = {name: value for name, value in values.items() if name in has}
            jobs.append(Job(notebook, collection, nickname, given, _artefacts(notebook, collection, nickname, load)))
    return jobs


def plan_published(folder: Path, collection: str, values: dict) -> list[Job]:
    """The jobs on one published collection: the notebooks whose `collections` name it. values: parameters to give."""
    jobs = []
    for notebook in find_notebooks(folder):
        has = parameters_of(notebook)
        if collection in has.get("collections", EMBEDDED).split():
            given = {name: value for name, value in (values | {"collection": collection}).items() if name in has}
            jobs.append(Job(notebook, collection, "", given, _artefacts(notebook, collection, "", "")))
    return jobs


def _artefacts(notebook: Path, collection: str, nickname: str, load: str) -> tuple[Path, ...]:
    table = scores.path_of(collection, nickname or "any")
    models = reward_models.registry()  # what else lies beside them, as language models, is no artefact of these
    trained = tuple(ROOT / place for place in models.loc[models["group"] == EMBEDDED, "hub_id"])
    if notebook.name.startswith(TRAINING):
        return trained
    if notebook.name.startswith(SCORECARD):
        gathered = f"{PUBLISHED}-*" if collection == PUBLISHED else collection
        return (table.parent, *sorted((ROOT / "data" / "cache" / "claims").glob(gathered)))
    if nickname:
        return table, ROOT / "data" / "models" / nickname, *([Path(load)] if Path(load).is_dir() else [])
    return (table.parent, *trained) if collection == EMBEDDED else (table.parent,)


# --- what is unchanged --------------------------------------------------------------------------------------------


def project_files() -> list[Path]:
    """The sources and tables that any notebook may depend on."""
    own = [path for path in (ROOT / "data").rglob("*") if path.relative_to(ROOT / "data").parts[0] not in MADE]
    return sorted([*(ROOT / "lib").glob("*.py"), ROOT / "requirements.lock", *filter(Path.is_file, own)])


def hash_of(paths: Iterable[Path]) -> str:
    """A hash of the names and contents of files, and of the files in folders; whatever is absent is left out."""
    digest = hashlib.sha256()
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if file.is_file() and not file.name.startswith(".") and file.suffix != ".lock":
                digest.update(f"{file.relative_to(path.parent)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def key_of(job: Job, project: str) -> str:
    """A hash of all that a job depends on and all that it made; project: the hash of the project's own files."""
    cells = [[c.cell_type, c.source, c.metadata.get("tags", [])] for c in nbformat.read(job.notebook, 4).cells]
    told = json.dumps([cells, job.parameters, project], sort_keys=True)
    return hashlib.sha256((told + hash_of(job.artefacts)).encode()).hexdigest()


class Places:
    """Where a collection's run keeps what it makes. figures: pages, figures and tables; cache: executed notebooks.

    On published scores, the executed notebooks are kept beside the figures too, for whoever cannot run them.
    """

    def __init__(self, collection: str):
        self.figures = ROOT / "figures" / folder_of(collection)
        self.shows_notebooks = collection.startswith(PUBLISHED)
        self.cache = ROOT / "data" / "cache" / "runs" / collection
        self.state = self.cache / "state.json"

    def page(self, job: Job) -> Path:
        return self.figures / f"{job.name}.html"

    def executed(self, job: Job) -> Path:
        return self.cache / f"{job.name}.ipynb"

    def known(self) -> dict[str, Result]:
        """How the jobs of earlier runs went, by job name; nothing where the record cannot be read."""
        try:
            return {name: Result(**result) for name, result in json.loads(self.state.read_text()).items()}
        except (OSError, ValueError, TypeError):
            return {}

    def keep(self, results: dict[str, Result]) -> None:
        with scores.replacing(self.state) as part:
            part.write_text(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))

    def written(self) -> dict[str, int]:
        """The figures and tables now there, with the time each was written."""
        files = [path for path in self.figures.rglob("*") if path.is_file() and path.suffix != ".html"]
        return {path.relative_to(self.figures).as_posix(): path.stat().st_mtime_ns for path in sorted(files)}


# --- reproduce ----------------------------------------------------------------------------------------------------


def reproduce(models: Sequence[str] = (), collection: str | None = None, folder: Path = ROOT / "notebooks") -> int:
    """Run the notebooks for these reward models; the number of jobs that failed. Unchanged jobs are not run again.

    collection: None takes `embedded` for the embedded reward models and `mine` for others. A notebook that fails is
    named at the end, and the others still run.
    """
    found = find_models(models)
    collection = collection or _usual_collection(found)
    jobs, places = plan(folder, found, collection), Places(collection)
    with scores.lock(places.state):
        results = _run_all(jobs, places)
        _write_index(collection, jobs, results, places)
    print(summary(collection, list(found), jobs, results, places))
    return sum(result.status in ("failed", "skipped") for result in results.values())


def reproduce_published(folder: Path = ROOT / "notebooks") -> int:
    """Import the published scores that can be had, and run the notebooks that are about them; how many jobs failed.

    What cannot be had is told in a line, and the rest goes on. InputError if nothing can be had, or a file is corrupt.
    """
    had = _import_published()
    values = {"signs": _first_of("bing", "bing stand-in"), "frequencies": _first_of("bnc", "wordfreq")}
    prompts = {published.ITEMS: {"prompt": "GW"}}  # there it is what `greatest` is in the others, word for word
    failed, told = 0, []
    for collection in [*had, PUBLISHED]:
        jobs = plan_published(folder, collection, values | prompts.get(collection, {}))
        places = Places(collection)
        with scores.lock(places.state):
            results = _run_all(jobs, places)
            _write_index(collection, jobs, results, places)
        told += [f"{collection}: {had.get(collection, 'the claims of all of them')}.", *_outcome(jobs, results)]
        failed += sum(result.status == "failed" for result in results.values())
    told.append(f"Look at {_shown(Places(PUBLISHED).figures)}: figures, executed notebooks, claims.csv.")
    print("\n".join(["", *told]))
    return failed


def _import_published() -> dict[str, str]:
    """Collection -> what it holds, in words, for the collections that can be had."""
    importers = {published.WORDS: published.import_words, published.ITEMS: published.import_items,
                 published.VOCABULARY: published.import_vocabulary}  # fmt: skip
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


def _usual_collection(found: Iterable[str]) -> str:
    models = reward_models.registry()
    return EMBEDDED if set(found) <= set(models.index[models["group"] == EMBEDDED]) else OWN


def _run_all(jobs: list[Job], places: Places) -> dict[str, Result]:
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
    with scores.replacing(path) as part:
        nbformat.write(stripped(nbformat.read(executed, 4)), part)


def _is_unchanged(job: Job, places: Places, known: Result, project: str) -> bool:
    there = places.page(job).is_file() and all((places.figures / name).is_file() for name in known.wrote)
    return there and known.key == key_of(job, project)


# --- what was found -----------------------------------------------------------------------------------------------


def summary(collection: str, models: list[str], jobs: list[Job], results: dict[str, Result], places: Places) -> str:
    """One screen in words: what was scored, the top and bottom tokens of each model, what failed, where to look."""
    lines = ["", *_scored(collection, models), ""]
    lines += _outcome(jobs, results)
    lines.append(f"Look at {_shown(places.figures / 'index.html')}: every notebook as a page, with its figures.")
    return "\n".join(lines)


def _outcome(jobs: list[Job], results: dict[str, Result]) -> list[str]:
    """What failed and why, a line each, and how many notebooks ran."""
    causes = [(results[job.name].status, job.name, results[job.name].cause) for job in jobs]
    count = Counter(result.status for result in results.values())
    ran = ", ".join(f"{n} {status}" for status, n in count.most_common()) or "none"
    return [*(": ".join(line) for line in causes if line[2]), f"Notebooks: {ran}."]


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _scored(collection: str, models: list[str]) -> list[str]:
    """What was scored, and per model the three best and worst replies to the first prompt."""
    paths = {name: scores.path_of(collection, name) for name in models}
    tables = {name: scores.read(path) for name, path in paths.items() if path.is_file()}
    if not tables:
        return [f"No reward model of collection '{collection}' was scored."]
    prompts = scores.prompt_names(next(iter(tables.values())))
    asked = next(iter(tables.values())).attrs["metadata"].get("prompts", {}).get(prompts[0], prompts[0])
    width = max(map(len, ["model", *tables]))
    counts = f"{len(tables)} reward model{'s' * (len(tables) > 1)} scored in collection '{collection}'"
    return [
        f"{counts}: every token of the vocabulary as the reply (prompts: {', '.join(prompts)}).",
        f'"{asked}"',
        f"{'model':{width}}   tokens  distinct  {'optimal':36}  pessimal",
        *(f"{name:{width}}  {_ends(table, prompts[0])}" for name, table in tables.items()),
    ]


def _ends(table: pd.DataFrame, prompt: str) -> str:
    inputs = scores.unique_inputs(table)
    ranked = inputs.iloc[(-inputs[prompt]).argsort(kind="stable")]["text"].tolist()
    best, worst = (", ".join(_short(show_token(text)) for text in some) for some in (ranked[:3], ranked[:-4:-1]))
    return f"{len(table):7,}  {len(inputs):8,}  {best:36}  {worst}"


def _short(token: str) -> str:
    return token if len(token) <= 10 else token[:9] + "…"


INDEX = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
td, th {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd; }}
figure {{ display: inline-block; margin: 0 1rem 1rem 0; }} img {{ max-width: 30rem; height: auto; display: block; }}
.failed, .skipped {{ color: #b00020; }}
</style>
<h1>{title}</h1>
<table><tr><th>notebook<th>question<th>model<th>status<th>seconds</tr>
{rows}
</table>
<h2>Figures and tables</h2>
{figures}
</html>
"""


def _write_index(collection: str, jobs: list[Job], results: dict[str, Result], places: Places) -> None:
    title = html.escape(f"What reward models value: collection {collection}")
    rows = "\n".join(_row(job, results[job.name], places) for job in jobs)
    figures = "\n".join(map(_figure, places.written()))
    with scores.replacing(places.figures / "index.html") as part:
        part.write_text(INDEX.format(title=title, rows=rows, figures=figures), encoding="utf-8")


def _row(job: Job, result: Result, places: Places) -> str:
    title, question = map(html.escape, opening(job.notebook))
    page = places.page(job)
    linked = f'<a href="{quote(page.name)}">{title}</a>' if page.is_file() else title
    status = html.escape(": ".join(filter(None, [result.status, result.cause])))
    cells = [linked, question, html.escape(job.model), f'<span class="{result.status}">{status}</span>']
    return "<tr><td>" + "<td>".join([*cells, f"{result.seconds:.0f}"]) + "</tr>"


def _figure(name: str) -> str:
    link, shown = quote(name), html.escape(name)
    if Path(name).suffix in (".png", ".svg"):
        return f'<figure><a href="{link}"><img src="{link}" alt="{shown}"></a><figcaption>{shown}</figcaption></figure>'
    return f'<p><a href="{link}">{shown}</a></p>'


# --- score --------------------------------------------------------------------------------------------------------


def score(
    name: str, prompts: dict[str, str], collection: str | None = None, *, reply: str = "text", bos: str = "single",
    **options,
) -> Path:  # fmt: skip
    """Score the whole vocabulary of a reward model; the path of the score table. options: as of reward_models.load."""
    if len(found := find_models([name])) != 1:
        raise InputError(f"'{name}' names {len(found)} reward models; score one, or run: make reproduce MODELS={name}")
    [(nickname, load)] = found.items()
    collection = collection or _usual_collection([nickname])
    path = scores.path_of(collection, nickname)
    model = reward_models.load(load, **options)
    scoring.score_vocabulary(model, prompts, path, reply=reply, bos=bos)
    print("\n".join([*_scored(collection, [nickname]), f"The score table is {_shown(path)}."]))
    return path


# --- verify -------------------------------------------------------------------------------------------------------


def verify_model(name: str, **options) -> bool:
    """Print how a real model, run here, compares with its published scores; whether a setting reproduces them.

    options: as of lib.verify.verify.
    """
    report = verify.verify(name, **options)
    print("\n".join(verify.lines(report)))
    return bool(report.reproduced)


# --- the committed notebooks --------------------------------------------------------------------------------------


def refresh(names: Sequence[str] = (), folder: Path = ROOT / "notebooks") -> int:
    """Execute the committed notebooks (those whose names start so) again, in place; the number that failed.

    One that fails stays as it was.
    """
    chosen = [path for path in find_notebooks(folder) if not names or path.name.startswith(tuple(names))]
    failed = 0
    for number, path in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {path.name} ...", end=" ", flush=True)
        try:
            executed = execute(path, ROOT / "data" / "cache" / "runs" / "committed" / path.name, {})
            with scores.replacing(path) as part:
                nbformat.write(stripped(executed), part)
            print("done", flush=True)
        except Exception as error:  # whatever stops one notebook, the others are still refreshed
            failed += 1
            print(f"failed: {cause_of(error)}", flush=True)
    return failed


def stripped(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with its outputs but without what differs from run to run or from machine to machine.

    Dropped: times, papermill's notes, the kernel's and language's details, widgets, and progress bars.
    """
    plain = nbformat.from_dict({**notebook, "metadata": KERNEL | {"language_info": {"name": "python"}}})
    for cell in plain.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_without_run_time, cell.outputs) if output]
    return plain


def _without_run_time(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    if output.output_type == "stream" and output.name == "stderr" and "\r" in output.text:
        return None
    if WIDGET_TYPE in output.get("data", {}):
        return None
    if "metadata" in output:
        output.metadata.pop("papermill", None)
    return output


# --- command line -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lib.run", description="See what reward models value.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("reproduce", help="run the notebooks for reward models, write pages and figures")
    one.add_argument("--models", nargs="+", default=[], metavar="MODEL", help="nicknames, hub ids, folders; or: paper")
    one.add_argument("--collection", help="where scores and figures go (default: embedded, or mine for other models)")
    one = commands.add_parser("score", help="score every token of one reward model's vocabulary")
    one.add_argument("model", help="nickname, hub id or folder")
    one.add_argument("--prompts", help="names from data/prompts.csv, or a csv with columns prompt,text (default: all)")
    one.add_argument("--reply", choices=["text", "ids"], default="text", help="through the template, or spliced in")
    one.add_argument("--bos", choices=["single", "double"], default="single", help="double: as the paper's code did")
    one.add_argument("--collection", help="where the scores go (default: embedded, or mine for other models)")
    for option in ("dtype", "attention", "head", "device"):
        one.add_argument(f"--{option}", help="as of lib.reward_models.load")
    one = commands.add_parser("verify", help="compare a real model, run here, with the scores published for it")
    one.add_argument("model", help="nickname or hub id of one of the paper's ten")
    one.add_argument("--sample", type=int, default=200, help="how many EloEverything items (default: 200)")
    one.add_argument("--seed", type=int, default=0, help="draws the items (default: 0)")
    for option in ("dtype", "device"):
        one.add_argument(f"--{option}", help="as of lib.reward_models.load")
    commands.add_parser("published", help="import published scores and run the notebooks that are about them")
    one = commands.add_parser("notebooks", help="execute the committed notebooks again, without run-time metadata")
    one.add_argument("names", nargs="*", metavar="NAME", help="how their names start (default: all)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 something failed and the rest went on, 2 bad input."""
    given = vars(_parser().parse_args(arguments))
    try:
        match given.pop("command"):
            case "reproduce":
                return int(reproduce(**given) > 0)
            case "published":
                return int(reproduce_published(**given) > 0)
            case "notebooks":
                return int(refresh(**given) > 0)
            case "score":
                given["prompts"] = scores.read_prompts(given["prompts"])
                score(given.pop("model"), given.pop("prompts"), **given)
                return 0
            case "verify":
                return int(not verify_model(given.pop("model"), **given))
    except (InputError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
