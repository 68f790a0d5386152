"""V-Smol-135M: SmolLM2's hidden states, frozen, and a head trained on ten people's ratings of
English words.

Asked for something good, the better rated of two words wins, and asked for something bad, the worse
rated one. VADER gives each word that it does not list 0, so tokens without a rated word stand
beside the rated words, with 0. Of the paper's prompts `best` is never trained, in no wording: it
shows what generalises.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor

from ..models import reward_models
from ..models.heads import Head
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from ..tables.prompts import read_prompts
from . import heads, ratings, smollm2
from .saving import fingerprint, make
from .smollm2 import FOLDER
from .states import kept_states, with_head

NICKNAME = "V-Smol-135M"
# The two heads that the project keeps: with tokens that VADER does not list, and without them.
# data/human_ratings/build.py trains them and writes heads.csv.
WITH_UNLISTED = "with_unlisted_tokens"
RATED_ALONE = "rated_words_alone"
# replies to each prompt: rated words of the training, and held-out words
SHOWN = 450
ASKED = 300


def training_data(
    language_model: LanguageModel,
    shown: int = SHOWN,
    *,
    without: Collection[str] = (),
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Return a random sample of replies to each prompt of data/human_ratings/prompts.csv: states,
    ratings, and stems.

    `shown` rated words come first, then as many unlisted tokens, which cross-validation chose
    (data/human_ratings/cross_validation.csv). Shapes: (prompts, replies, d), (prompts, replies) and
    (prompts, replies). The rating's sign is turned where a prompt asks for something bad.
    without: stems that are left out.
    """
    rng = np.random.default_rng(0)
    tokenizer = language_model.tokenizer
    rated = ratings.replies_of(ratings.rated_words(), tokenizer)
    pools = [
        rows[~rows["held_out"] & ~rows["stem"].isin(list(without))]
        for rows in (rated, ratings.unlisted(tokenizer))
    ]
    states, signed, stems = [], [], []
    prompts = pd.read_csv(FOLDER / "prompts.csv")  # prompt, text, polarity
    for _, text, polarity in prompts.itertuples(index=False):
        some = pd.concat([rows.sample(shown, random_state=rng) for rows in pools])
        states.append(kept_states(language_model, text, list(some["reply"])))
        sentiment = torch.tensor(some["sentiment"].to_numpy(dtype="float32"))
        signed.append(polarity * sentiment)
        stems.append(some["stem"].to_numpy())
    return torch.stack(states), torch.stack(signed), np.stack(stems)


def rewards_by_heads(
    model: LanguageModel,
    some: Sequence[Head],
    texts: Sequence[str],
    prompt: str = "greatest",
) -> pd.DataFrame:
    """Return the reward of each text by each head, texts x heads, as replies to one of the paper's
    prompts.

    The unit is the standard deviation of the head's rewards of held-out rated words, and zero is
    their mean.
    """
    asked = read_prompts(prompt)[prompt]
    replies = ratings.replies_of(ratings.rated_words(), model.tokenizer)
    held_out = replies[replies["held_out"]].sample(ASKED, random_state=0)
    states = kept_states(model, asked, list(texts))
    of_rated = kept_states(model, asked, list(held_out["reply"]))
    rewards = {}
    for number, head in enumerate(some):
        rated = head(of_rated)
        rewards[number] = (head(states) - rated.mean()) / rated.std()
    return pd.DataFrame(rewards, list(texts))


def head_file(name: str = WITH_UNLISTED) -> Path:
    """Return the file of one of the two kept heads."""
    return FOLDER / f"{name}.safetensors"


def read_head(name: str = WITH_UNLISTED) -> Head:
    """Return one of the two kept heads, the same on every machine."""
    tensors = load_file(head_file(name))
    head = heads.untrained(tensors["score.0.weight"].shape[1])
    head.load_state_dict(tensors)
    return head.requires_grad_(False)


def load(**options: str) -> RewardModel:
    """Return V-Smol-135M, ready to score; its head is joined to its language model first if need
    be. options: see reward_models.Options.
    """
    made_from = fingerprint(smollm2.made_from(), head_file().read_bytes())
    make(NICKNAME, made_from, write)
    return reward_models.load(NICKNAME, **options)


def write(place: Path) -> dict:
    """Write V-Smol-135M into a folder as an ordinary reward model, and return a report."""
    base = smollm2.load(dtype="float32")
    model = with_head(base, read_head())
    reward_models.save(place, model.backbone, model.head, "linear", model.tokenizer)
    return {"base": base.revision}
