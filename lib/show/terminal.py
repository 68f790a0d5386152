"""What a terminal shows of score tables."""

from collections.abc import Iterable

from ..tables import scores
from ..tables.collection import Collection
from .display import show_token


def score_lines(collection: Collection, models: Iterable[str]) -> list[str]:
    """Return, in lines, what was scored, and per model the three best and worst replies to the
    first prompt.
    """
    tables = {
        name: scores.read(path)
        for name in models
        if (path := scores.path_of(collection, name)).is_file()
    }
    if not tables:
        return [f"No reward model of collection '{collection}' was scored."]
    first = next(iter(tables.values()))
    prompts = scores.shared_prompts(tables)
    width = max(map(len, ["model", *tables]))
    lines = [
        f"{len(tables)} reward model{'s' * (len(tables) > 1)} scored in collection '{collection}': "
        f"tokens of the vocabulary as the reply (prompts: {', '.join(prompts)}).",
        f'"{first.attrs["metadata"].get("prompts", {}).get(prompts[0], prompts[0])}"',
        f"{'model':{width}}   tokens  distinct  {'optimal':36}  pessimal",
    ]
    for name, table in tables.items():
        inputs = scores.unique_inputs(table)
        ranked = inputs.iloc[(-inputs[prompts[0]]).argsort(kind="stable")][
            "text"
        ].tolist()
        shown = [
            [show_token(text) for text in some] for some in (ranked[:3], ranked[:-4:-1])
        ]
        best, worst = (
            ", ".join(t if len(t) <= 10 else t[:9] + "…" for t in some)
            for some in shown
        )
        if inputs[prompts[0]].nunique() < 2:
            best = "none: all rewards are equal"
            worst = "none"
        lines.append(
            f"{name:{width}}  {len(table):7,}  {len(inputs):8,}  {best:36}  {worst}"
        )
    return lines
