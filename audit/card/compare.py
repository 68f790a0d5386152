"""Compare two checkpoints, or the steps of one training, on the texts of a card: what changed, with
intervals.

Differences are taken word by word. A step may have several seeds, as in `a1,a2 b1,b2`; those of two
steps are paired in their order, and intervals are over words and seeds (lib.stats.crossed). With
one seed they are over words alone.
"""

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy import stats

from ..opening import opening
from ..paper import (
    Collection,
    InputError,
    concordance,
    crossed,
    display,
    figures,
    pages,
    registry,
    replacing,
    scores,
    shown_path,
    vocabulary,
    write_csv,
)
from ..paper import collection as tables_collection
from . import making, measures, outside
from .measures import PROMPTS

MOVED = 10  # tokens, and replies of two words, that are listed at either end
ROUNDING = 1e-9  # differences below this are none, as of rewards on another scale
COLUMNS = 4  # panels beside each other in the picture of several steps


@dataclass(frozen=True)
class Rewards:
    """The rewards of one model; those of tokens, items and pairs under `greatest`."""

    name: str
    settings: dict  # of its score table
    tokens: pd.Series
    texts: dict[str, pd.Series]  # of a card: prompt -> words, and "items"
    pairs: pd.Series  # replies of two words


@dataclass(frozen=True)
class Comparison:
    """Two steps or more, and the rewards of their models."""

    steps: list[list[str]]  # names of the models of each step, one per seed
    collection: Collection
    rewards: dict[str, Rewards]  # by name
    measured: dict[str, crossed.Measured]  # see measures.of_models


def compare(
    models: Sequence[str],
    collection: str | None = None,
    bos: str = "single",
    **options: Any,
) -> None:
    """Print what changed between models, and write the page. For the arguments see `of_models`."""
    made = of_models(models, collection, bos, **options)
    print(
        f"From {made.steps[0][0]} to "
        f"{made.steps[-1][0]}:\n{as_text(differences(made)).to_string(index=False)}"
    )
    print(f"The comparison is {shown_path(write(made))}.")


def of_models(
    models: Sequence[str],
    collection: str | None = None,
    bos: str = "single",
    **options: Any,
) -> Comparison:
    """Return the comparison of two steps or more, each a model, or several of different seeds
    separated by commas.

    The options are passed to opening.open_model for every model. InputError if steps have
    different numbers of models, or if models were scored from different prompts.
    """
    steps = [step.split(",") for step in models]
    names = [name for step in steps for name in step]
    if (
        len(steps) < 2
        or len({Path(name).resolve() for name in names}) < len(names)
        or len(set(map(len, steps))) > 1
    ):
        raise InputError(
            "compare two models at least, each named once, with equally many seeds of each: a1,a2 "
            "b1,b2"
        )
    to_load = [name for name in names if outside.table_of(name, collection) is None]
    loads: dict[str, str] = {}
    if reference := options.get("reference"):
        for name in to_load:
            loads |= opening.find(name, reference)
    elif to_load:
        loads = registry.find_models(to_load)
    study = (
        registry.study_of(loads, collection)
        if loads
        else Collection(collection or tables_collection.OWN.name)
    )
    rewards: list[Rewards] = []
    # one model in memory at a time; all are asked for the two-word replies of the first
    for name in names:
        rewards.append(
            rewards_of(
                name, study, rewards[0].pairs.index if rewards else None, bos, **options
            )
        )
        remedy = "only rewards of the same prompts can be compared; score one of the models again"
        settings = {each.name: each.settings for each in rewards}
        scores.refuse_differing(settings, remedy)
    return of_rewards(rewards, len(steps), study)


def of_rewards(rewards: Sequence[Rewards], steps: int, study: Collection) -> Comparison:
    """Return the comparison of rewards, in the order of steps and seeds. InputError if two seeds
    are copies.
    """
    by_step = np.array_split(np.array(rewards, dtype=object), steps)
    pairs = [itertools.combinations(step, 2) for step in by_step]
    for one, other in itertools.chain(*pairs):
        near = [
            np.allclose(one.texts[key], other.texts[key], rtol=1e-6, atol=ROUNDING)
            for key in PROMPTS
        ]
        if all(near):
            raise InputError(
                f"{one.name} and {other.name} give the same rewards, so they are copies of one "
                "checkpoint and no two seeds; name trainings that differ in their seed"
            )
    tables = {}
    for key in rewards[0].texts:
        columns = {each.name: each.texts[key] for each in rewards}
        tables[key] = pd.DataFrame(columns)
    named = [[each.name for each in step] for step in by_step]
    by_name = {each.name: each for each in rewards}
    measured = measures.of_models(tables)
    return Comparison(named, study, by_name, measured)


def rewards_of(
    name: str,
    study: Collection,
    replies: pd.Index | None = None,
    bos: str = "single",
    **options: Any,
) -> Rewards:
    """Return the rewards of a model, or those that were imported under this name.

    replies: replies of two words. None combines the words that this model rewards most and least.
    """
    if (table := outside.table_of(name, study.name)) is not None:
        typed = measures.rewards_in(table.set_index("text"))
        pairs = pd.Series(dtype=float)
    else:
        model = opening.open_model(name, **options)
        name = model.nickname
        table = making.vocabulary_of(model, study, bos)
        typed = measures.type_texts(model, bos)
        if replies is None:
            made = pd.concat(making.pairs_at_ends(model, table, bos))
            replies = pd.Index(made.query("survives")["reply"].unique())
        rewards = vocabulary.score_replies(
            model, measures.prompts()[PROMPTS[0]], list(replies), bos=bos
        )
        pairs = pd.Series(rewards.astype(float), replies)
    inputs = scores.unique_inputs(table).drop_duplicates("text").set_index("text")
    texts = {key: each[0] for key, each in typed.items()}
    about = table.attrs["metadata"]
    return Rewards(name, about, inputs[PROMPTS[0]].astype(float), texts, pairs)


def differences(made: Comparison) -> pd.DataFrame:
    """Return the last step minus the first, a row per measure; framing as logarithms.

    p_corrected is adjusted for all measures (Benjamini and Hochberg). changed is "no" or, where
    p_corrected < .05, "yes"; with one seed "seeds?", because another seed changes the measures too.
    """
    first = made.steps[0]
    last = made.steps[-1]
    rows = {}
    for key, measured in made.measured.items():
        rows[key] = difference(key, measured, first, last)
    columns = ["first", "last", "estimate", "ci_low", "ci_high", "p"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(
        "measure"
    )
    p_corrected = stats.false_discovery_control(table["p"].fillna(1.0))
    yes = "yes" if len(first) > 1 else "seeds?"
    return table.assign(
        p_corrected=p_corrected, changed=np.where(p_corrected < 0.05, yes, "no")
    )


def difference(
    key: str, measured: crossed.Measured, first: list[str], last: list[str]
) -> list[float]:
    """Return a measure's mean at both steps, the difference with its interval, and p."""
    before, after = (
        crossed.Measured(
            measured.values[step].set_axis(first),
            measured.influence[step].set_axis(first, axis=1),
        )
        for step in (first, last)
    )
    apart = after - before
    mean = vars(apart.mean) if len(first) > 1 else apart.by_model().iloc[0]
    p = mean["p"] if abs(mean["estimate"]) >= ROUNDING else 1.0
    scale = np.exp if key in measures.LOGARITHMS else float
    means = [scale(each.values.mean()) for each in (before, after)]
    return [*means, mean["estimate"], mean["ci_low"], mean["ci_high"], p]


def rank_correlations(first: Rewards, last: Rewards) -> pd.DataFrame:
    """Return Kendall's tau between the rewards of two models, texts -> COLUMNS. Over tokens it
    has no interval.
    """
    rows = {}
    for key, before in first.texts.items():
        after = last.texts[key].to_frame(last.name)
        tau = concordance.with_people(before, after)
        name = "items (greatest)" if key == "items" else f"words ({key})"
        rows[name] = tau.by_model().loc[last.name, measures.COLUMNS]
    shared = pd.concat([first.tokens, last.tokens], axis=1, join="inner").to_numpy()
    of_tokens = [stats.kendalltau(*shared.T).statistic, np.nan, np.nan, len(shared)]
    rows["tokens (greatest)"] = pd.Series(of_tokens, measures.COLUMNS)
    return pd.DataFrame(rows).T


def moved_most(first: Rewards, last: Rewards, kind: str) -> pd.DataFrame:
    """Return the tokens or pairs whose rewards moved most, up and down, in standard deviations
    over the vocabulary.
    """
    both = pd.DataFrame(
        {
            name: (getattr(model, kind) - model.tokens.mean()) / model.tokens.std()
            for name, model in {"first": first, "last": last}.items()
        }
    ).dropna()
    both["moved"] = both["last"] - both["first"]
    both = both[both["moved"].abs() > ROUNDING].rename_axis("text").reset_index()
    both["end"] = np.where(both["moved"] > 0, "up", "down")
    both = both.sort_values("moved", key=abs, ascending=False, kind="stable")
    most = both.groupby("end", sort=False).head(MOVED)
    return most.sort_values("end", ascending=False, kind="stable", ignore_index=True)


def as_text(changes: pd.DataFrame) -> pd.DataFrame:
    """Return differences as texts to print."""
    return pd.DataFrame(
        {
            "measure": measures.MEASURES.loc[changes.index, "label"],
            **changes[["first", "last"]].map(
                lambda value: f"{value:.2f}".replace("-", "−")
            ),
            "difference": changes.apply(making.value, axis=1),
            "p (corrected)": changes["p_corrected"].map(display.p_value),
            "changed": changes["changed"],
        }
    ).reset_index(drop=True)


@figures.styled
def draw_steps(made: Comparison) -> figures.Chart:
    """Draw each measure over the steps, a line for each seed, with 95% intervals over words."""
    lines = -(-len(made.measured) // COLUMNS)
    figure = figures.new_chart(3.2 * COLUMNS, 2.6 * lines)
    for number, (key, measure) in enumerate(made.measured.items(), start=1):
        axes = figure.add_subplot(
            lines, COLUMNS, number, title=fill(measures.MEASURES.loc[key, "label"], 26)
        )
        table = measures.with_intervals(key, measure)
        for names in zip(*made.steps, strict=True):
            rows = table.loc[list(names)].to_numpy()
            value, low, high, _ = rows.T
            axes.errorbar(
                range(len(names)),
                value,
                [value - low, high - value],
                color="black",
                marker="o",
            )
        # of its column: the panels share their steps
        is_lowest = number + COLUMNS > len(made.measured)
        labels = [
            figures.model_label(step[0]) if is_lowest else "" for step in made.steps
        ]
        axes.set_xticks(
            range(len(labels)), labels, rotation=30, ha="right", fontsize=10
        )
    return figure


def write(made: Comparison, blur: bool = True) -> Path:
    """Write figures/<collection>/compare-<first>-<last>.html and its differences as .csv; return
    the page.
    """
    first = made.rewards[made.steps[0][0]]
    last = made.rewards[made.steps[-1][0]]
    path = made.collection.figures / f"compare-{first.name}-{last.name}.html"
    changes = differences(made)
    write_csv(changes.reset_index(), path.with_suffix(".csv"))
    tables = []
    for title, kind in (("Tokens", "tokens"), ("Replies of two words", "pairs")):
        moved = moved_most(first, last, kind)
        for end, rows in moved.groupby("end", sort=False):
            shown = rows.drop(columns="end")
            caption = f"{title} that went {end}"
            tables.append(display.table_html(shown, ["text"], blur, caption, 34))
    page = pages.template("compare", Path(__file__).parent).render(
        title=f"What changed from {first.name} to {last.name}",
        made=made,
        first=first,
        last=last,
        rows=as_text(changes).to_dict("records"),
        ranks=rank_correlations(first, last),
        making=making,
        picture=base64.b64encode(draw_steps(made)._repr_png_()[0]).decode()
        if len(made.steps) > 2
        else "",
        tables=[Markup(table.html) for table in tables],
        warning=display.content_warning(blur).text,
    )
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path
