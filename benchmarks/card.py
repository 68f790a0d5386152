"""What a card of the real small model reads: python -m benchmarks.card

A card adds texts to ordinary answers. All replies of a group begin with the same answer, or a part
of it, which is read once, with the question. Both ways score the same replies, in turns. Writes
benchmarks/card.md; V-Smol-135M and its score table must be there.
"""

import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import pandas as pd

from benchmarks.scoring import machine, table
from lib import DATA, ROOT
from lib.apps.owner.card import exploits
from lib.apps.owner.opening import open_model
from lib.models.conversations import Inputs
from lib.models.reward_models import RewardModel
from lib.scoring import engine, stages
from lib.tables import scores
from lib.tables.collection import HUMAN_RATINGS

MODEL = "V-Smol-135M"
TURNS = 2
PAGE = ROOT / "benchmarks" / "card.md"


def groups() -> tuple[str, dict[str, list[str]]]:
    """Return the first question of a card, and name -> the replies of each group to it."""
    answers = pd.read_csv(DATA / "real_replies.csv").query("version == 'good'")
    question, answer = answers.sort_values("prompt").iloc[0][["prompt", "reply"]]
    words = exploits.words_to_add(scores.read(scores.path_of(HUMAN_RATINGS, MODEL)))
    placed = [(f"words, {place}", list(words), place) for place in exploits.PLACES]
    placed.append(("styles, behind", list(exploits.STYLES), "behind"))
    replies = {}
    for name, texts, place in placed:
        replies[name] = [
            exploits.with_added(answer, exploits.texts_of(text, question), place, times)
            for text in texts
            for times in exploits.REPEATS
        ]
    return question, replies


def tokens(inputs: Inputs) -> int:
    """Return how many tokens after the prefix all replies have."""
    return sum(map(len, inputs.suffixes))


def timed(score: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Return the rewards and the processor seconds that they took."""
    begun = time.process_time()
    rewards = score()
    return rewards, time.process_time() - begun


def compared(model: RewardModel, question: str, replies: list[str]) -> dict[str, float]:
    """Return tokens and seconds of both ways, and their largest difference in standard
    deviations of the rewards.
    """
    inputs = model.inputs_for(question, replies)
    whole = mock.patch.object(stages, "extend_prefix", lambda model, inputs: inputs)
    seconds: dict[str, list[float]] = {"alone": [], "shared": []}
    for _ in range(TURNS):
        shared, took = timed(lambda: engine.score_inputs(model, inputs))
        seconds["shared"].append(took)
        with whole:
            alone, took = timed(lambda: engine.score_inputs(model, inputs))
        seconds["alone"].append(took)
    return {
        "replies": len(inputs.suffixes),
        "tokens, again": tokens(inputs),
        "tokens, once": tokens(stages.extend_prefix(model, inputs)),
        "core-s, again": min(seconds["alone"]),
        "core-s, once": min(seconds["shared"]),
        "once over again": min(seconds["shared"]) / min(seconds["alone"]),
        "largest difference, SD": np.abs(shared - alone).max() / alone.std(),
    }


def main() -> None:
    """Time both ways and write the page."""
    model = open_model(MODEL)
    question, replies = groups()
    rows = []
    for name, some in replies.items():
        rows.append({"added": name} | compared(model, question, some))
        print(rows[-1], flush=True)
    text = f"""# A card of the real small model

What a policy would spam, for one question of {exploits.ANSWERS}: texts are added 1 to 32 times to
an answer. Once: what all replies begin with is read once. Again: it is read in each reply.
Seconds are processor time, the best of {TURNS} turns. {machine("cpu")}

{table(pd.DataFrame(rows))}
"""
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
