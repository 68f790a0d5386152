"""The two ends of one model's vocabulary, and of the two-word replies that can be typed from them."""

import itertools
from dataclasses import dataclass

import pandas as pd

from lib import InputError, rankings, scores, scoring
from lib.card.texts import PROMPTS, prompts
from lib.models.reward_models import RewardModel
from lib.words import is_word

WORDS_AT_AN_END = 30
SIGN = {"optimal": 1, "pessimal": -1}


@dataclass(frozen=True)
class Pairs:
    """Two-word replies of one end, best of that end first: columns reply, reward, survives, and what was searched.

    survives: what the model reads, decoded, is what was typed. words: those that were combined, each with each.
    """

    table: pd.DataFrame
    words: tuple[str, ...]


def ends(table: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The n tokens rewarded most and the n rewarded least under `greatest`, one per distinct input.

    Columns: end, position (1 = the outermost), token_id, text, reward.
    """
    found = rankings.ends(scores.unique_inputs(table), PROMPTS[0], n)
    positions = [*range(1, n + 1), *range(n, 0, -1)]
    shown = found.assign(position=positions, reward=found[PROMPTS[0]].astype(float))
    columns = ["end", "position", "token_id", "text", "reward"]
    return shown[columns].sort_values(["end", "position"], ignore_index=True)


def words_at(table: pd.DataFrame, end: str, n: int = WORDS_AT_AN_END) -> list[str]:
    """The n words that are rewarded most (or least) under `greatest`, of those that the model reads as one token.

    A word is one run of letters. InputError for a vocabulary without two of them.
    """
    inputs = scores.unique_inputs(table)
    itself = [len(ids) == 1 for ids in inputs["reply_ids"]]
    words = inputs[itself].assign(word=[text.strip() for text in inputs.loc[itself, "text"]])
    words = words[words["word"].map(is_word)].sort_values(PROMPTS[0], ascending=end == "pessimal", kind="stable")
    found = words["word"].drop_duplicates().head(n).tolist()
    if len(found) < 2:
        raise InputError(
            "fewer than two tokens are words, so there are no two-word replies; score the whole vocabulary"
        )
    return found


def pairs(model: RewardModel, words: list[str], end: str, bos: str = "single") -> Pairs:
    """All replies of two of these words, in either order and twice the same too, typed with a blank between them."""
    typed = [" ".join(pair) for pair in itertools.product(words, repeat=2)]
    prompt = prompts()[PROMPTS[0]]
    rewards = scoring.score_replies(model, prompt, typed, bos=bos).astype(float)
    read = model.inputs_for(prompt, typed)
    decoded = model.tokenizer.batch_decode(
        [list(ids) for ids in read.reply_ids], clean_up_tokenization_spaces=False, skip_special_tokens=False
    )
    survives = [decoded[group].strip() == text for group, text in zip(read.group, typed, strict=True)]
    table = pd.DataFrame({"reply": typed, "reward": rewards, "survives": survives})
    table = table.assign(worth=-SIGN[end] * table["reward"]).sort_values("worth", kind="stable", ignore_index=True)
    return Pairs(table.drop(columns="worth"), tuple(words))
