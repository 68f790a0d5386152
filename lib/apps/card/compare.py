"""Two checkpoints, or the steps of one training, compared on the texts of a card: what changed, and how surely.

A step is named by its trainings with other seeds, as in `a1,a2 b1,b2`; those of two steps are paired in their order.
All models are asked about the same words and items, so differences are taken word by word, and intervals are over words
and seeds, both drawn (lib.stats.crossed). With one training of each step they are over words alone: they speak of these
two checkpoints, and nothing is claimed about how they were trained, because another seed moves measures too.
"""

import base64
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ... import InputError
from ...alignment import concordance
from ...io import replacing
from ...models import reward_models
from ...notebooks.pages import shown_path
from ...scoring import engine
from ...show import display
from ...show.figures import Chart, model_label, new_chart, styled
from ...show.pages import template
from ...stats.crossed import Measured, crossed
from ...tables import scores
from ...tables.collection import OWN, Collection
from ...tables.exports import write_csv
from ...tables.registry import find_models, study_of
from . import making, measures, outside

MOVED = 10  # tokens, and replies of two words, that are listed at either end
ROUNDING = 1e-9  # differences below this are none, as of rewards on another scale
COLUMNS = 4  # panels beside each other in the picture of several steps


@dataclass(frozen=True)
class Rewards:
    """The rewards of one model. settings: of its score table. tokens, pairs: text -> reward under `greatest`.

    words: words x prompts. items: item -> reward under `greatest`.
    """

    name: str
    settings: dict
    tokens: pd.Series
    words: pd.DataFrame
    items: pd.Series
    pairs: pd.Series


@dataclass(frozen=True)
class Comparison:
    """Steps, each a list of the models' names, one per seed; the rewards of all by name; as from measures.of_models."""

    steps: list[list[str]]
    collection: Collection
    rewards: dict[str, Rewards]
    measured: dict[str, Measured]


def compare(models: Sequence[str], collection: str | None = None) -> None:
    """Print what changed between models, and write the page; models: as of `of_models`."""
    made = of_models(models, collection)
    print(f"From {made.steps[0][0]} to {made.steps[-1][0]}:\n{as_text(differences(made)).to_string(index=False)}")
    print(f"The comparison is {shown_path(write(made))}.")


def of_models(models: Sequence[str], collection: str | None = None) -> Comparison:
    """Return the comparison of two steps or more, each a model or several of other seeds with commas between them.

    InputError for steps of unequally many models, and for models that were not scored from the same prompts.
    """
    steps = [step.split(",") for step in models]
    names = [name for step in steps for name in step]
    if len(steps) < 2 or len(set(names)) < len(names) or len(set(map(len, steps))) > 1:
        raise InputError("compare two models at least, each named once, with equally many seeds of each: a1,a2 b1,b2")
    to_load = [name for name in names if outside.table_of(name, collection) is None]
    study = study_of(find_models(to_load), collection) if to_load else Collection(collection or OWN.name)
    rewards: list[Rewards] = []
    for name in names:  # one model in memory at a time; all are asked for the two-word replies of the first
        rewards.append(rewards_of(name, study, rewards[0].pairs.index if rewards else None))
        remedy = "only rewards of the same prompts can be compared; score one of the models again"
        scores.refuse_differing({each.name: each.settings for each in rewards}, remedy)
    return of_rewards(rewards, len(steps), study)


def of_rewards(rewards: Sequence[Rewards], steps: int, study: Collection) -> Comparison:
    """Return the comparison of rewards, in the order of this many steps and of the seeds in each."""
    words, ranked = {each.name: each.words for each in rewards}, {each.name: each.items for each in rewards}
    measured = measures.of_models(words, pd.DataFrame(ranked), measures.nouns())
    named = [list(part) for part in np.array_split([each.name for each in rewards], steps)]
    return Comparison(named, study, {each.name: each for each in rewards}, measured)


def rewards_of(name: str, study: Collection, replies: pd.Index | None = None) -> Rewards:
    """Return the rewards of a model, or those that were imported under this name.

    replies: of two words, to be scored; None combines the words at both ends of the model's own vocabulary.
    """
    greatest = measures.PROMPTS[0]
    if (table := outside.table_of(name, study.name)) is not None:
        typed, pairs = table.set_index("text")[list(measures.PROMPTS)].astype(float), pd.Series(dtype=float)
        words, ranked = typed.loc[measures.words()], typed.loc[measures.items().index, greatest]
    else:
        model = reward_models.load(name)
        name, table = model.nickname, making.vocabulary_of(model, study)
        words, ranked = measures.of_own_head(measures.type_texts(model))
        if replies is None:
            made = [making.pairs(model, making.words_at(table, end), end) for end in making.SIGN]
            replies = pd.Index(pd.concat(made).query("survives")["reply"].unique())
        rewards = engine.score_replies(model, measures.prompts()[greatest], list(replies))
        pairs = pd.Series(rewards.astype(float), replies)
    tokens = scores.unique_inputs(table).drop_duplicates("text").set_index("text")[greatest].astype(float)
    return Rewards(name, table.attrs["metadata"], tokens, words, ranked, pairs)


# --- numbers ------------------------------------------------------------------------------------------------------


def differences(made: Comparison) -> pd.DataFrame:
    """Return measure -> the last step less the first, over the same words; framing as logarithms.

    Columns: first, last (means over seeds), estimate, ci_low, ci_high (95%, over words and seeds; of one seed, over
    words), p, p_holm (over all measures), changed: "yes" (p_holm < .05), "no", or "seeds?" (yes, but of one seed).
    """
    rows, (first, *_, last) = {}, made.steps
    for key, one in made.measured.items():
        apart = pd.Series(one.values[last].to_numpy() - one.values[first].to_numpy())
        moved = pd.DataFrame(one.influence[last].to_numpy() - one.influence[first].to_numpy())
        mean = crossed(apart, moved)
        ends = mean.ci_low, mean.ci_high, mean.p
        if len(first) == 1:
            error = np.sqrt((moved**2).sum().sum())
            ends = (
                mean.these_low,
                mean.these_high,
                2 * stats.t.sf(abs(mean.estimate) / max(error, ROUNDING), mean.n - 1),
            )
        if abs(mean.estimate) < ROUNDING:
            ends = (*ends[:2], 1.0)
        scale = np.exp if key in measures.LOGARITHMS else float
        rows[key] = (scale(one.values[first].mean()), scale(one.values[last].mean()), mean.estimate, *ends)
    columns = ["first", "last", "estimate", "ci_low", "ci_high", "p"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("measure")
    differ, p_holm, *_ = multipletests(table["p"].fillna(1.0), method="holm")
    return table.assign(p_holm=p_holm, changed=np.where(differ, "yes" if len(first) > 1 else "seeds?", "no"))


def rank_correlations(first: Rewards, last: Rewards) -> pd.DataFrame:
    """Return Kendall's tau between the rewards of two models: texts -> COLUMNS; over tokens without an interval."""
    asked = {f"words ({prompt})": (first.words[prompt], last.words[prompt]) for prompt in first.words}
    rows = {}
    for name, (before, after) in (asked | {"items (greatest)": (first.items, last.items)}).items():
        tau = concordance.with_people(before, after.to_frame(last.name))
        rows[name] = measures.with_interval(name, tau.values[last.name], tau.influence[last.name])
    shared = pd.concat([first.tokens, last.tokens], axis=1, join="inner").to_numpy()
    rows["tokens (greatest)"] = [stats.kendalltau(*shared.T).statistic, np.nan, np.nan, len(shared)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=measures.COLUMNS)


def moved_most(first: Rewards, last: Rewards, kind: str) -> pd.DataFrame:
    """Return the texts that moved most between two models: columns end (up, down), text, first, last, moved.

    kind: tokens or pairs. Rewards are in standard deviations of a model's rewards over its vocabulary, from their mean.
    """
    texts = {
        name: (getattr(model, kind) - model.tokens.mean()) / model.tokens.std()
        for name, model in (("first", first), ("last", last))
    }
    both = pd.concat(texts, axis=1, join="inner").rename_axis("text").reset_index()
    both = both.assign(moved=both["last"] - both["first"]).sort_values("moved", ascending=False, kind="stable")
    n = min(MOVED, len(both) // 2)
    return pd.concat([both.head(n).assign(end="up"), both.tail(n)[::-1].assign(end="down")], ignore_index=True)


# --- the page -----------------------------------------------------------------------------------------------------


def as_text(changes: pd.DataFrame) -> pd.DataFrame:
    """Return differences as texts to print: columns measure, first, last, difference, p (Holm), changed."""
    texts = {"difference": [making.value(row) for _, row in changes.iterrows()],
             "p (Holm)": changes["p_holm"].map(display.p_value), "changed": changes["changed"]}  # fmt: skip
    labels = measures.MEASURES.loc[changes.index, "label"].rename("measure")
    both = changes[["first", "last"]].map(lambda value: f"{value:.2f}".replace("-", "−"))
    return both.assign(**texts).set_index(labels).reset_index()


@styled
def draw_steps(made: Comparison) -> Chart:
    """Draw each measure over the steps, a line for each seed, with 95% intervals over words."""
    lines = -(-len(made.measured) // COLUMNS)
    figure = new_chart(3.2 * COLUMNS, 2.6 * lines)
    for number, (key, one) in enumerate(made.measured.items(), start=1):
        axes = figure.add_subplot(lines, COLUMNS, number, title=textwrap.fill(measures.MEASURES.loc[key, "label"], 26))
        for names in zip(*made.steps, strict=True):
            rows = [measures.with_interval(key, one.values[name], one.influence[name]) for name in names]
            value, low, high, _ = np.array(rows).T
            axes.errorbar(range(len(names)), value, [value - low, high - value], color="black", marker="o")
        first_seeds = [model_label(step[0]) for step in made.steps]
        axes.set_xticks(range(len(first_seeds)), first_seeds, rotation=30, ha="right", fontsize=10)
    return figure


def write(made: Comparison, blur: bool = True) -> Path:
    """Write figures/<collection>/compare-<first>-<last>.html and its differences as .csv; the path of the page."""
    first, last = (made.rewards[step[0]] for step in (made.steps[0], made.steps[-1]))
    path, changes = made.collection.figures / f"compare-{first.name}-{last.name}.html", differences(made)
    write_csv(changes.reset_index(), path.with_suffix(".csv"))
    tables = [
        display.table_html(rows.drop(columns="end"), ["text"], blur, f"{title} that went {end}", 34)
        for title, kind in (("Tokens", "tokens"), ("Replies of two words", "pairs"))
        for end, rows in moved_most(first, last, kind).groupby("end", sort=False)
    ]
    page = template("compare", Path(__file__).parent).render(
        title=f"What changed from {first.name} to {last.name}", made=made, first=first, last=last,
        rows=as_text(changes).to_dict("records"), ranks=rank_correlations(first, last), text_of=making.value,
        picture=base64.b64encode(draw_steps(made)._repr_png_()[0]).decode() if len(made.steps) > 2 else "",
        tables=[Markup(table.html) for table in tables], warning=display.content_warning(blur).text,
    )  # fmt: skip
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path
