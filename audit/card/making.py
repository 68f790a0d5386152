"""Make a card: score the vocabulary and the typed texts of a model, measure them, and place the
measures.
"""

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..check import checking
from ..check.report import Report
from ..paper import Collection, RewardModel, rankings, registry, scores, vocabulary
from ..reading import implicit
from . import exploits, measures, others, random_heads, replies
from .measures import ENDS

# what a score table says of how its rewards were computed
KNOWN = (
    "revision",
    "head",
    "dtype",
    "attention",
    "read_at",
    "reply_mode",
    "bos",
    "versions",
)


@dataclass(frozen=True)
class Card:
    """All numbers that a card shows about one model."""

    nickname: str
    model: str  # what to type after MODEL=
    collection: Collection
    settings: dict  # how it was scored
    ends: pd.DataFrame  # see the function `ends`
    pairs: dict[str, pd.DataFrame]  # end -> see the function `pairs`
    # measure -> COLUMNS of measures, BAND of random_heads, and the columns of `placed`
    measured: pd.DataFrame
    # "published", and for an embedded model "planted" -> measures x models
    others: dict[str, pd.DataFrame]
    typed_words: int
    typed_items: int
    failed: tuple[str, ...] = ()  # rows of its check that are wrong
    swaps: pd.DataFrame = field(default_factory=pd.DataFrame)  # see replies.swaps
    lists: pd.DataFrame = field(default_factory=pd.DataFrame)  # see replies.own_lists
    spam: pd.DataFrame = field(default_factory=pd.DataFrame)  # see exploits.slopes

    @property
    def command(self) -> str:
        """Return the command that makes this card again."""
        return f"make card MODEL={self.model} COLLECTION={self.collection}"

    def outside(self) -> pd.DataFrame:
        """Return how far the model is from the published ones, for each measure with an interval.

        `is_outside` says whether its whole interval is outside their range. `away` is the distance
        of the estimate from their mean, in their standard deviations.
        """
        compared = self.measured.query("of > 1 and ci_low.notna()")
        published = self.others["published"]
        values = published.drop(columns=self.nickname, errors="ignore")
        values = values.reindex(compared.index)
        is_above = compared["ci_low"] > values.max(axis=1)
        is_below = compared["ci_high"] < values.min(axis=1)
        apart = compared["estimate"] - values.mean(axis=1)
        away = apart.abs() / values.std(axis=1)
        return pd.DataFrame({"is_outside": is_above | is_below, "away": away})


def of_model(
    model: RewardModel,
    study: Collection,
    bos: str = "single",
    report: Report | None = None,
    lists: pd.DataFrame | None = None,
    spam: bool = False,
) -> Card:
    """Return the card of a loaded model. Its vocabulary is scored unless the collection has its
    score table.

    Measures of a model that was trained on VADER's ratings use the words that its training left
    out.

    report: the result of its check, None checks it now; lists: from replies.read_lists; spam:
    whether the card says what a policy would spam, which reads thousands of long replies
    """
    registry.refuse_foreign(study, {model.nickname: model.hub_id})
    report = report or checking.check_loaded(model, bos)
    table = vocabulary_of(model, study, bos)
    wide = random_heads.with_random_heads(model)
    rewards = measures.type_texts(wide, bos)
    texts = measures.without_labels(rewards, model.nickname)
    fed = scores.what_was_fed(table)
    own = measures.of_model(texts, fed["itself"] / fed["tokens"])
    heads = random_heads.estimates(texts)
    card = _placed_card(model.nickname, table, study, rewards, own, heads)
    nothing = pd.DataFrame()
    words = rewards[measures.PROMPTS[0]]
    return replace(
        card,
        model=what_to_name(model),
        settings=card.settings | {"closing": model.closing},
        pairs=pairs_at_ends(model, table, bos),
        failed=tuple(report.wrong),
        swaps=replies.swaps(replies.score(wide, bos)),
        lists=nothing if lists is None else replies.own_lists(wide, words, lists, bos),
        spam=exploits.of_model(model, table, bos) if spam else nothing,
    )


def of_table(name: str, table: pd.DataFrame, study: Collection) -> Card:
    """Return the card of imported rewards (see outside.py), without two-word replies, random
    heads and a check.
    """
    rewards = measures.rewards_in(table.set_index("text"))
    own = measures.of_model(rewards, np.nan).drop(index="read_as_itself")
    only = own[["estimate"]].set_axis([0], axis=1)  # no random heads
    return _placed_card(name, table, study, rewards, own, only)


def _placed_card(
    name: str,
    table: pd.DataFrame,
    study: Collection,
    rewards: dict[str, pd.DataFrame],
    own: pd.DataFrame,
    heads: pd.DataFrame,
) -> Card:
    """Return a card with what a score table and typed texts give. own: from measures.of_model;
    heads: measures x heads, own first.
    """
    measured, compared = placed(own.join(random_heads.band(heads)), study, name)
    held = table.attrs["metadata"]
    settings = {"hub_id": held["model"], "tokens": len(table)}
    settings |= {key: held.get(key) for key in KNOWN}
    settings["prompts"] = measures.prompts()
    typed = (len(rewards[measures.PROMPTS[0]]), len(rewards["items"]))
    return Card(
        name, name, study, settings, ends(table), {}, measured, compared, *typed
    )


def what_to_name(model: RewardModel) -> str:
    """Return what MODEL= must be for this model. A folder outside the project is not named, only
    the model.
    """

    if model.nickname in registry.reward_models().index:
        return model.nickname

    def shared_name(one) -> str:
        is_folder = Path(one.hub_id).is_dir()
        return f"<folder of {one.nickname}>" if is_folder else one.hub_id

    named = shared_name(model)
    if isinstance(model, implicit.ImplicitRewardModel):
        named += f" REFERENCE={shared_name(model.reference)}"
        named += f" BETA={model.beta}" * (model.beta != 1)
    return named


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


def placed(
    measured: pd.DataFrame, study: Collection, nickname: str
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the measures with direction and place among other models, and the values of these:
    group -> table.

    The columns of the place are below, equal, within and of; among planted models they end in
    _planted.
    """
    placed = measured.assign(p_corrected=measures.corrected(measured))
    placed["direction"] = [
        measures.direction(key, row) for key, row in placed.iterrows()
    ]
    compared = {}
    for group in others.GROUPS[: 1 + study.is_embedded]:
        compared[group] = others.read(group)
        found = others.places(measured, compared[group], nickname)
        placed = placed.join(found.add_suffix(others.ENDINGS[group]))
    return placed, compared


def ends(table: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """Return the n tokens rewarded most and the n rewarded least under `greatest`, one per distinct
    input.

    Columns: end, position (1 is the outermost), token_id, text, reward.
    """
    inputs = scores.unique_inputs(table)
    scores.refuse_few(inputs, 2 * n, "tokens that a model reads as different ones")
    tokens = rankings.ends(inputs, measures.PROMPTS[0], n)
    positions = [*range(1, n + 1), *range(n, 0, -1)]
    tokens = tokens.assign(
        position=positions, reward=tokens[measures.PROMPTS[0]].astype(float)
    )
    columns = ["end", "position", "token_id", "text", "reward"]
    return tokens[columns].sort_values(["end", "position"], ignore_index=True)


def pairs_at_ends(
    model: RewardModel, table: pd.DataFrame, bos: str
) -> dict[str, pd.DataFrame]:
    """Return the pairs of the words at each end of the score table: end -> as from `pairs`."""
    words = {end: measures.words_at(table, end) for end in ENDS}
    return {end: pairs(model, words[end], end, bos) for end in ENDS}


def pairs(
    model: RewardModel, words: list[str], end: str, bos: str = "single"
) -> pd.DataFrame:
    """Return rewards of all replies of two of these words, in both orders and with the same word
    twice.

    Columns: reply, reward, survives (what the model reads decodes to what was typed). The most
    extreme comes first.
    """
    two_words = itertools.product(words, repeat=2)
    typed = [" ".join(pair) for pair in two_words]
    prompt = measures.prompts()[measures.PROMPTS[0]]
    scored = vocabulary.score_replies(model, prompt, typed, bos=bos)
    rewards = scored.astype(float)
    read = model.inputs_for(prompt, typed)
    decoded = model.tokenizer.batch_decode(
        [list(read.reply_ids[group]) for group in read.group],
        clean_up_tokenization_spaces=False,
        skip_special_tokens=False,
    )
    survives = [
        text.strip() == asked for text, asked in zip(decoded, typed, strict=True)
    ]
    table = pd.DataFrame({"reply": typed, "reward": rewards, "survives": survives})
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
    direction = measures.direction(measure, row)
    if direction == measures.RANDOM:
        return "not distinguishable from a random head"
    if not direction:
        return about["above"].replace("this share", f"{row['estimate']:.0%}")
    if direction == "undecided":
        return f"undecided whether it {about['above']}"
    return about["below"] if direction == "against" else about["above"]


def place(row: pd.Series) -> str:
    """Return the place among the published models, such as `above 8 of 10 (its interval holds 2
    of the 10)`.
    """
    below, equal, within, of = map(int, row[list(others.PLACES)])
    if not of:
        return "none to compare with"
    ties = f", equal to {equal}" * (equal > 0)
    return (
        f"above {below} of {of}{ties}"
        + f" (its interval holds {within} of the {of})" * (within > 0)
    )
