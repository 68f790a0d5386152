"""What a run tells: what was scored, what failed, and where to look, in words."""

from collections import Counter
from pathlib import Path

import pandas as pd

from lib import ROOT, scores
from lib.collection import Collection
from lib.display import show_token
from lib.reproduce.jobs import Job
from lib.reproduce.record import Result


def summary(collection: Collection, models: list[str], jobs: list[Job], results: dict[str, Result]) -> str:
    """One screen in words: what was scored, the top and bottom tokens of each model, what failed, where to look."""
    lines = ["", *scored(collection, models), ""]
    lines += outcome(jobs, results)
    lines.append(f"Look at {shown_path(collection.figures / 'index.html')}: questions, answers, pages and figures.")
    return "\n".join(lines)


def outcome(jobs: list[Job], results: dict[str, Result]) -> list[str]:
    """What failed and why, a line each, and how many notebooks ran."""
    causes = [(results[job.name].status, job.name, results[job.name].cause) for job in jobs]
    counts = Counter(result.status for result in results.values())
    counted = ", ".join(f"{n} {status}" for status, n in counts.most_common()) or "none"
    return [*(": ".join(line) for line in causes if line[2]), f"Notebooks: {counted}."]


def shown_path(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def scored(collection: Collection, models: list[str]) -> list[str]:
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
        f"{counts}: tokens of the vocabulary as the reply (prompts: {', '.join(prompts)}).",
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
