"""V-Smol-135M: SmolLM2's hidden states, frozen, and a head trained on ten people's ratings of
English words.

Asked for something good, the better rated of two words wins, and asked for something bad, the worse
rated one. VADER gives each word that it does not list 0, so tokens without a rated word stand
beside the rated words, with 0. Of the paper's prompts `best` is never trained, in no wording: it
shows what generalises.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from scipy.stats import spearmanr
from torch import Tensor
from transformers import PreTrainedConfig

from .. import DATA, ROOT
from ..models import reward_models
from ..models.hardware import one_thread
from ..models.heads import Head, new_head
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from ..planted import saving
from ..planted.saving import TRAINED, Job
from . import base, features, words

NICKNAME = "V-Smol-135M"
# The two heads that the project keeps: with tokens that VADER does not list, and without them.
# data/human_ratings/build.py trains them and writes heads.csv.
FOLDER = DATA / "human_ratings"
WITH_UNLISTED = "with_unlisted_tokens"
RATED_ALONE = "rated_words_alone"
# of the training: prompt, text, polarity
PROMPTS = FOLDER / "prompts.csv"
# units between the two linear layers: one layer alone can hardly turn a sign
UNITS = 32
# replies to each prompt: rated words and unlisted tokens of the training, and held-out words
SHOWN = 450
UNLISTED = 450  # chosen by cross-validation (data/human_ratings/cross_validation.csv)
ASKED = 300
# of training, and how many others each reply is compared with in a step
STEPS = 120
RIVALS = 8
DECAY = 0.1  # of weights


def preference_loss(
    rewards: Tensor, ratings: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the cross-entropy, in nats, of preferences between replies to one prompt, given
    (prompts, replies).

    Of two replies the first is preferred with probability sigmoid(difference of ratings) (Bradley
    and Terry 1952). Each reply is compared with the RIVALS replies that follow it, so these come in
    random order. A comparison counts the product of its replies' weights.
    """
    losses = []
    for step in range(1, RIVALS + 1):
        predicted = rewards - rewards.roll(step, -1)  # (prompts, replies)
        preferred = (ratings - ratings.roll(step, -1)).sigmoid()
        counts = None if weights is None else weights * weights.roll(step, -1)
        losses.append(F.binary_cross_entropy_with_logits(predicted, preferred, counts))
    return torch.stack(losses).mean()


def fit(
    states: Tensor, ratings: Tensor, weights: Tensor | None = None, *, seed: int = 0
) -> Head:
    """Return a head trained on states, (prompts, replies, d), and ratings, (prompts, replies), on
    one thread.

    Ratings have the other sign where a prompt asks for something bad. weights: as ratings; without
    them, all count the same. The head's weights on standardised states decay.
    """
    mean = states.mean((0, 1))
    scale = states.std((0, 1))
    rng = torch.Generator().manual_seed(seed)
    if weights is None:
        weights = torch.ones_like(ratings)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = untrained_head(len(mean))
        optimiser = torch.optim.AdamW(head.parameters(), weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, STEPS)
        for _ in range(STEPS):
            order = torch.randperm(states.shape[1], generator=rng)
            optimiser.zero_grad()
            rewards = head((states - mean) / scale)
            of_step = (one[:, order] for one in (rewards, ratings, weights))
            preference_loss(*of_step).backward()
            optimiser.step()
            schedule.step()
    read_unstandardised(head, mean, scale)
    return head.requires_grad_(False)


def untrained_head(width: int) -> Head:
    """Return a head of two linear layers, with UNITS between them."""
    shapes = {
        "score.0.weight": (UNITS, width),
        "score.0.bias": (UNITS,),
        "score.2.weight": (1, UNITS),
    }
    return new_head("linear", PreTrainedConfig(hidden_size=width), shapes)


def read_unstandardised(head: Head, mean: Tensor, scale: Tensor) -> None:
    """Change a head that reads (state - mean) / scale so that it reads states."""
    first = head.score[0]
    with torch.no_grad():
        first.weight /= scale
        first.bias -= first.weight @ mean


def accuracy(rewards: Tensor, ratings: Tensor) -> float:
    """Return Spearman's rho of rewards and people's ratings of the same replies, (replies,), in
    [-1, 1].
    """
    return float(spearmanr(rewards, ratings).statistic)


def training_data(
    language_model: LanguageModel,
    *,
    without: Collection[str] = (),
    unlisted: int = UNLISTED,
    seed: int = 0,
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Return a random sample of replies to each prompt of PROMPTS: states, ratings, and stems.

    SHOWN rated words come first, then so many unlisted tokens. Shapes: (prompts, replies, d),
    (prompts, replies) and (prompts, replies). The rating's sign is turned where a prompt asks for
    something bad. without: stems that are left out.
    """
    rng = np.random.default_rng(seed)
    tokenizer = language_model.tokenizer
    rated = words.replies_of(words.rated_words(), tokenizer)
    pools = [(rated, SHOWN), (words.unlisted(tokenizer), unlisted)]
    pools = [
        (rows[~rows["held_out"] & ~rows["stem"].isin(list(without))], count)
        for rows, count in pools
    ]
    states = []
    ratings = []
    stems = []
    for _, text, polarity in pd.read_csv(PROMPTS).itertuples(index=False):
        some = pd.concat([rows.sample(n, random_state=rng) for rows, n in pools])
        states.append(features.kept_states(language_model, text, list(some["reply"])))
        sentiment = torch.tensor(some["sentiment"].to_numpy(dtype="float32"))
        ratings.append(polarity * sentiment)
        stems.append(some["stem"].to_numpy())
    return torch.stack(states), torch.stack(ratings), np.stack(stems)


def head_file(name: str = WITH_UNLISTED) -> Path:
    """Return the file of one of the two kept heads."""
    return FOLDER / f"{name}.safetensors"


def read_head(name: str = WITH_UNLISTED) -> Head:
    """Return one of the two kept heads, the same on every machine."""
    tensors = load_file(head_file(name))
    head = untrained_head(tensors["score.0.weight"].shape[1])
    head.load_state_dict(tensors)
    return head.requires_grad_(False)


def job(folder: Path = TRAINED) -> Job:
    """Return the work of joining V-Smol-135M's head to its language model in `folder`; nothing is
    done if that was done.
    """
    head = head_file().read_bytes()
    made_from = hashlib.sha256(base.GGUF_SHA256.encode() + head).hexdigest()[:16]
    return Job((NICKNAME,), made_from, folder, lambda: save(made_from, folder))


def save(made_from: str, folder: Path = TRAINED) -> Path:
    """Save V-Smol-135M in `folder` as an ordinary reward model, and return its folder."""
    language_model = base.load_base(dtype="float32")
    model = features.with_head(language_model, read_head())
    report = {"nickname": NICKNAME, "base": language_model.revision}

    def write(place: Path) -> None:
        reward_models.save(place, model.backbone, model.head, "linear", model.tokenizer)

    return saving.save(report, made_from, folder, write)


def load(**options: str) -> RewardModel:
    """Return V-Smol-135M, ready to score. options: see reward_models.Options."""
    for work in (base.job(), job()):
        saving.train_missing([work], progress=False)
    return reward_models.load(NICKNAME, **options)


def load_and_report() -> None:
    """Load V-Smol-135M, and print how well it orders words that it has not seen."""
    model = load()
    kept = pd.read_csv(FOLDER / "heads.csv").query("head == @WITH_UNLISTED")
    shown = ", ".join(f"{row.prompt} {row.rho:+.2f}" for row in kept.itertuples())
    print(
        f"{model.name} is in {(TRAINED / NICKNAME).relative_to(ROOT)}. It orders words that were "
        "not in its training"
    )
    print(
        f"as people rated them (Spearman's rho by prompt): {shown}. Now run: make score "
        f"MODEL={NICKNAME}"
    )
