"""Compare two checkpoints on the texts of a card: what changed, with intervals.

Differences are taken word by word. Each checkpoint may have several seeds, as in `a1,a2 b1,b2`;
those are paired in their order, and intervals are over words and seeds (lib.stats.crossed). With
one seed they are over words alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy import stats

from ..opening import opening
from ..paper import (
    OWN,
    Collection,
    InputError,
    crossed,
    display,
    pages,
    registry,
    replacing,
    scores,
    shown_path,
    write_csv,
)
from . import making, measures, outside
from .measures import PROMPTS

MOVED = 10  # tokens that are listed at either end
ROUNDING = 1e-9  # differences below this are none, as of rewards on another scale


@dataclass(frozen=True)
class Rewards:
    """The rewards of one model; those of tokens and items under `greatest`."""

    name: str
    settings: dict  # of its score table
    tokens: pd.Series
    texts: dict[str, pd.Series]  # of a card: prompt -> words, and "items"


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints, and the measures of all models; one model of each per seed."""

    first: list[Rewards]
    last: list[Rewards]
    collection: Collection
    measured: dict[str, crossed.Measured]  # see measures.of_models


def compare(
    models: Sequence[str],
    collection: str | None = None,
    bos: str = "single",
    **options: Any,
) -> None:
    """Print what changed between models, and write the page. For the arguments see `of_models`."""
    made = of_models(models, collection, bos, **options)
    changes = as_text(differences(made)).to_string(index=False)
    print(f"From {made.first[0].name} to {made.last[0].name}:\n{changes}")
    print(f"The comparison is {shown_path(write(made))}.")


def of_models(
    models: Sequence[str],
    collection: str | None = None,
    bos: str = "single",
    reference: str | None = None,
    **options: Any,
) -> Comparison:
    """Return the comparison of two checkpoints, each a model, or several of different seeds
    separated by commas.

    The options are passed to opening.open_model for every model. InputError if the two have
    different numbers of models, or if models were scored from different prompts.
    """
    first, last = (each.split(",") for each in models)
    names = [*first, *last]
    nicknames = {Path(name).name for name in names}
    if len(nicknames) < len(names) or len(first) != len(last):
        raise InputError(
            "compare two models of different names, with equally many seeds of each: a1,a2 b1,b2"
        )
    own = Collection(collection or OWN.name)
    loads: dict[str, str] = {}
    for name in names:
        if outside.table_of(name, own) is None:
            loads |= opening.find(name, reference)
    study = registry.study_of(loads, collection) if loads else own
    # one model in memory at a time
    rewards = [rewards_of(name, study, bos, reference, **options) for name in names]
    scores.refuse_differing(
        {each.name: each.settings for each in rewards},
        "only rewards of the same prompts can be compared; score one of the models again",
    )
    return of_rewards(rewards[: len(first)], rewards[len(first) :], study)


def rewards_of(
    name: str, study: Collection, bos: str, reference: str | None, **options: Any
) -> Rewards:
    """Return the rewards of a model, or those that were imported under this name."""
    if (table := outside.table_of(name, study)) is not None:
        typed = measures.rewards_in(table.set_index("text"))
    else:
        model = opening.open_model(name, reference, **options)
        name = model.nickname
        table = making.vocabulary_of(model, study, bos)
        typed = measures.type_texts(model, bos)
    inputs = scores.unique_inputs(table).drop_duplicates("text").set_index("text")
    tokens = inputs[PROMPTS[0]].astype(float)
    texts = {key: each[0] for key, each in typed.items()}
    return Rewards(name, table.attrs["metadata"], tokens, texts)


def of_rewards(
    first: list[Rewards], last: list[Rewards], study: Collection
) -> Comparison:
    """Return the comparison of rewards, one of each per seed."""
    rewards = [*first, *last]
    tables = {
        key: pd.DataFrame({each.name: each.texts[key] for each in rewards})
        for key in rewards[0].texts
    }
    return Comparison(first, last, study, measures.of_models(tables))


def differences(made: Comparison) -> pd.DataFrame:
    """Return the last checkpoint minus the first, a row per measure; framing as logarithms.

    p_corrected is adjusted for all measures (Benjamini and Hochberg). changed is "no" or, where
    p_corrected < .05, "yes"; with one seed "seeds?", because another seed changes the measures too.
    """
    first, last = ([each.name for each in step] for step in (made.first, made.last))
    rows = {}
    for key, measured in made.measured.items():
        rows[key] = difference(key, measured, first, last)
    columns = ["first", "last", "estimate", "ci_low", "ci_high", "p"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    p_corrected = stats.false_discovery_control(table["p"].fillna(1.0))
    yes = "yes" if len(first) > 1 else "seeds?"
    changed = np.where(p_corrected < 0.05, yes, "no")
    table = table.assign(p_corrected=p_corrected, changed=changed)
    return table.rename_axis("measure")


def difference(
    key: str, measured: crossed.Measured, first: list[str], last: list[str]
) -> list[float]:
    """Return a measure's mean at both checkpoints, the difference with its interval, and p."""
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


def p_value(p: float) -> str:
    """Return a p-value of four decimals, `< .0001` where these would be zeros, '' where there is
    none.
    """
    if pd.isna(p):
        return ""
    return "< .0001" if p < 0.0001 else f"{p:.4f}"


def rank_correlations(first: Rewards, last: Rewards) -> pd.DataFrame:
    """Return Kendall's tau between the rewards of two models, texts -> COLUMNS. Over tokens it
    has no interval.
    """
    rows = {}
    for key, before in first.texts.items():
        after = last.texts[key].to_frame(last.name)
        tau = measures.with_people(before, after)
        name = "items (greatest)" if key == "items" else f"words ({key})"
        rows[name] = tau.by_model().loc[last.name, measures.COLUMNS]
    shared = pd.concat([first.tokens, last.tokens], axis=1, join="inner").to_numpy()
    of_tokens = [stats.kendalltau(*shared.T).statistic, np.nan, np.nan, len(shared)]
    rows["tokens (greatest)"] = pd.Series(of_tokens, measures.COLUMNS)
    return pd.DataFrame(rows).T


def moved_most(first: Rewards, last: Rewards) -> pd.DataFrame:
    """Return the tokens whose rewards moved most, up and down, in standard deviations over the
    vocabulary.
    """
    both = pd.DataFrame({"first": first.tokens, "last": last.tokens})
    # before tokens that only one of them reads are left out
    both = ((both - both.mean()) / both.std()).dropna()
    both["moved"] = both["last"] - both["first"]
    both = both[both["moved"].abs() > ROUNDING].rename_axis("text").reset_index()
    both["end"] = np.where(both["moved"] > 0, "up", "down")
    both = both.sort_values("moved", key=abs, ascending=False, kind="stable")
    most = both.groupby("end", sort=False).head(MOVED)
    return most.sort_values("end", ascending=False, kind="stable", ignore_index=True)


def as_text(changes: pd.DataFrame) -> pd.DataFrame:
    """Return differences as texts to print."""
    means = changes[["first", "last"]].map("{:.2f}".format)
    texts = {
        "measure": measures.MEASURES.loc[changes.index, "label"],
        **means.replace("-", "−", regex=True),
        "difference": changes.apply(making.value, axis=1),
        "p (corrected)": changes["p_corrected"].map(p_value),
        "changed": changes["changed"],
    }
    return pd.DataFrame(texts).reset_index(drop=True)


def write(made: Comparison, blur: bool = True) -> Path:
    """Write figures/<collection>/compare-<first>-<last>.html and its differences as .csv; return
    the page.
    """
    first, last = made.first[0], made.last[0]
    path = made.collection.figures / f"compare-{first.name}-{last.name}.html"
    changes = differences(made)
    write_csv(changes.reset_index(), path.with_suffix(".csv"))
    tables = []
    for end, rows in moved_most(first, last).groupby("end", sort=False):
        shown = rows.drop(columns="end")
        caption = f"Tokens that went {end}"
        tables.append(display.table_html(shown, ["text"], blur, caption, 34))
    page = pages.template("compare", Path(__file__).parent).render(
        title=f"What changed from {first.name} to {last.name}",
        made=made,
        first=first,
        last=last,
        rows=as_text(changes).to_dict("records"),
        ranks=rank_correlations(first, last),
        making=making,
        tables=[Markup(table.html) for table in tables],
        warning=display.content_warning(blur).text,
    )
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path
