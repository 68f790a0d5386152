"""Make a card: score the vocabulary and the typed texts of a model, measure them, and place the
measures among the ten published models.
"""

import itertools
from dataclasses import dataclass, field, replace

import pandas as pd

from ..paper import Collection, RewardModel, rankings, scores, vocabulary
from . import exploits, measures, random_heads, replies
from .measures import ENDS

GREY = ("undecided", measures.RANDOM)  # directions of measures that are no findings


@dataclass(frozen=True)
class Card:
    """All numbers that a card shows about one model."""

    nickname: str
    collection: Collection
    settings: dict  # how it was scored: metadata of its score table, and its tokens
    ends: pd.DataFrame  # see the function `ends`
    # measure -> COLUMNS of measures, BAND of random_heads, direction, and the columns of `places`
    measured: pd.DataFrame
    published: pd.DataFrame  # measures x models, without this one
    pairs: dict[str, pd.DataFrame] = field(default_factory=dict)  # end -> see `pairs`
    swaps: pd.DataFrame = field(default_factory=pd.DataFrame)  # see replies.swaps
    spam: pd.DataFrame = field(default_factory=pd.DataFrame)  # see exploits.slopes
    failed: tuple[str, ...] = ()  # rows of its check that are wrong

    def outside(self) -> pd.DataFrame:
        """Return how far the model is from the published ones, for each measure with an interval.

        `is_outside` says whether its whole interval is outside their range. `away` is the distance
        of the estimate from their mean, in their standard deviations.
        """
        compared = self.measured.dropna(subset="ci_low")
        published = self.published.loc[compared.index]
        is_above = compared["ci_low"] > published.max(axis=1)
        is_below = compared["ci_high"] < published.min(axis=1)
        apart = compared["estimate"] - published.mean(axis=1)
        away = apart.abs() / published.std(axis=1)
        return pd.DataFrame({"is_outside": is_above | is_below, "away": away})


def of_model(
    model: RewardModel,
    study: Collection,
    bos: str = "single",
    spam: bool = False,
    failed: tuple[str, ...] = (),
) -> Card:
    """Return the card of a loaded model. Its vocabulary is scored unless the collection has its
    score table.

    Measures of a model that was trained on VADER's ratings use the words that its training left
    out.

    spam: whether the card says what a policy would spam, which reads thousands of long replies;
    failed: the rows of its check that are wrong
    """
    table = vocabulary_of(model, study, bos)
    wide = random_heads.with_random_heads(model)
    rewards = measures.type_texts(wide, bos)
    rewards = measures.without_labels(rewards, model.nickname)
    own = measures.of_model(rewards, scores.read_as(table).eq("itself").mean())
    heads = random_heads.estimates(rewards)
    card = _placed_card(model.nickname, table, study, own, heads)
    words = {end: measures.words_at(table, end) for end in ENDS}
    return replace(
        card,
        pairs={end: pairs(model, words[end], end, bos) for end in ENDS},
        swaps=replies.swaps(replies.score(wide, bos)),
        spam=exploits.of_model(model, table, bos) if spam else pd.DataFrame(),
        failed=failed,
    )


def of_table(name: str, table: pd.DataFrame, study: Collection) -> Card:
    """Return the card of imported rewards (see outside.py), without two-word replies, random
    heads and a check.
    """
    rewards = measures.rewards_in(table.set_index("text"))
    own = measures.of_model(rewards, float("nan")).drop(index="read_as_itself")
    only = own[["estimate"]].set_axis([0], axis=1)  # no random heads
    return _placed_card(name, table, study, own, only)


def _placed_card(
    name: str,
    table: pd.DataFrame,
    study: Collection,
    own: pd.DataFrame,
    heads: pd.DataFrame,
) -> Card:
    """Return a card with what a score table and typed texts give. own: from measures.of_model;
    heads: measures x heads, own first.
    """
    measured = directed(own.join(random_heads.band(heads)))
    published = measures.published().drop(columns=name, errors="ignore")
    published = published.reindex(measured.index)
    measured = measured.join(places(measured, published))
    settings = table.attrs["metadata"] | {"tokens": len(table)}
    return Card(name, study, settings, ends(table), measured, published)


def directed(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the measures of a card with p_corrected and direction, see measures.py."""
    measured = measured.assign(p_corrected=measures.corrected(measured))
    directions = [measures.direction(key, row) for key, row in measured.iterrows()]
    return measured.assign(direction=directions)


def places(measured: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return the place of each measure among the published models (measures x models).

    Columns count models: `below` those with a lower value, `within` those in the interval, and
    `of` all models.
    """
    is_above = published.ge(measured["ci_low"], axis=0)
    counted = {
        "below": published.lt(measured["estimate"], axis=0),
        "within": is_above & published.le(measured["ci_high"], axis=0),
        "of": published.notna(),
    }
    return pd.DataFrame({name: each.sum(axis=1) for name, each in counted.items()})


def vocabulary_of(
    model: RewardModel, study: Collection, bos: str = "single"
) -> pd.DataFrame:
    """Return the model's score table with the prompts of a card; missing ones are scored.
    InputError if it differs.
    """
    path = scores.path_of(study, model.nickname)
    table = scores.read(path) if path.is_file() else None
    if table is None or not set(measures.PROMPTS) <= set(scores.prompt_names(table)):
        return vocabulary.score_vocabulary(model, measures.prompts(), path, bos=bos)
    settings = vocabulary.settings_of(model, table, bos=bos)
    a_card = settings | {"prompts": measures.prompts()}
    remedy = "delete it, or make the card in another collection"
    scores.refuse_differing(
        {str(path): table.attrs["metadata"], "this card": a_card}, remedy
    )
    return table


def ends(table: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """Return the n tokens rewarded most and the n rewarded least under `greatest`, one per distinct
    input.

    Columns: end, position (1 is the outermost), token_id, text, reward.
    """
    inputs = scores.unique_inputs(table)
    scores.refuse_few(inputs, 2 * n, "tokens that a model reads as different ones")
    tokens = rankings.ends(inputs, measures.PROMPTS[0], n)
    tokens = tokens.assign(
        position=[*range(1, n + 1), *range(n, 0, -1)],
        reward=tokens[measures.PROMPTS[0]].astype(float),
    )
    columns = ["end", "position", "token_id", "text", "reward"]
    return tokens[columns].sort_values(["end", "position"], ignore_index=True)


def pairs(
    model: RewardModel, words: list[str], end: str, bos: str = "single"
) -> pd.DataFrame:
    """Return the reward of each reply of two of these words, in both orders and with the same
    word twice; the outermost of this end of the vocabulary comes first.
    """
    typed = [" ".join(pair) for pair in itertools.product(words, repeat=2)]
    prompt = measures.prompts()[measures.PROMPTS[0]]
    rewards = vocabulary.score_replies(model, prompt, typed, bos=bos)
    table = pd.DataFrame({"reply": typed, "reward": rewards.astype(float)})
    return table.sort_values(
        "reward", ascending=end == "pessimal", kind="stable", ignore_index=True
    )


def value(row: pd.Series) -> str:
    """Return the estimate with two decimals, and with its 95% interval if it has one."""
    own = "" if pd.isna(row["ci_low"]) else f" [{interval(row, 'ci')}]"
    return f"{row['estimate']:.2f}".replace("-", "−") + own


def interval(row: pd.Series, name: str) -> str:
    """Return both ends of an interval, such as `ci` or `random`, with two decimals."""
    return f"{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}".replace("-", "−")


def reading(measure: str, row: pd.Series) -> str:
    """Return what the direction of a measure means, behind the word "it"."""
    about = measures.MEASURES.loc[measure]
    meanings = {
        "for": about["above"],
        "against": about["below"],
        "undecided": f"undecided whether it {about['above']}",
        measures.RANDOM: "not distinguishable from a random head",
        # a share that is only counted
        "": about["above"].replace("this share", f"{row['estimate']:.0%}"),
    }
    return meanings[row["direction"]]


def place(row: pd.Series) -> str:
    """Return the place among the published models, such as `above 8 of 10 (its interval holds 2
    of the 10)`.
    """
    told = f"above {row['below']} of {row['of']}"
    if row["within"]:
        told += f" (its interval holds {row['within']} of the {row['of']})"
    return told
