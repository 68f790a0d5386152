"""Ten small reward models whose values are known, because they are planted here.

A *profile* says what simulated raters value, a formula turns it into the *planted utility* of every
word, and preferences are drawn from it (Bradley and Terry 1952). That checks the method and says
nothing about real models.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import kendalltau
from torch import Tensor

from .. import ROOT, InputError
from ..io import hash_of_code
from ..models import reward_models
from ..models.hardware import each, one_thread
from ..models.reward_models import RewardModel
from . import bases, planting, saving
from .bases import new_model
from .planting import Profile
from .reading import Replies, make_replies, rewards_of
from .saving import TRAINED

STEPS = 360
JUDGED = 4000  # replies by which a trained model is judged
RATE = 4e-3  # of learning, for a model of width 64
WARM_UP = 20  # steps over which the learning rate rises
BETAS, WEIGHT_DECAY = (0.9, 0.98), 0.01  # of AdamW
# norm over all parameters to which longer gradients are shortened
LONGEST_GRADIENT = 1.0
# Code that decides the weights. Of what else they are computed with, lib.scoring and the bodies of
# transformers are left out: they give what any implementation of the architecture gives, up to the
# order of sums, and tests hold them to each other; faster scoring is no reason to train anew.
CODE = tuple(
    ROOT / "lib" / f"{name}.py"
    for name in (
        "trained/planting",
        "trained/bases",
        "trained/reading",
        "trained/small_models",
        "tables/words",
        "models/heads",
        "models/conversations",
    )
)


class TrainedModel(NamedTuple):
    """A trained reward model, a report of its training, and the loss of each step.

    The report's loss is the mean over the last 50 steps; guessing costs log 2. For accuracies see
    `pair_accuracy`.
    """

    model: RewardModel
    report: dict
    losses: list[float]


def train(
    profile: Profile,
    *,
    seed: int = 0,
    steps: int = STEPS,
    batch: int = 512,
    pairs: int = 2048,
) -> TrainedModel:
    """Return a model trained on preferences drawn from the planted utility; the same arguments give
    the same weights.

    Each step of AdamW has `batch` replies and `pairs` preferences among them, half of them for a
    prompt that asks for something good, and half for something bad: with one prompt at a time,
    steps would undo each other. Training runs on one thread, so that sums are in one order on any
    number of cores.
    """
    started = time.time()
    rng = np.random.default_rng(seed)
    with one_thread():
        model = new_model(profile, seed)
        replies = make_replies(model, rng)
        loss_at = _losses(model, replies, profile, batch, pairs, rng)
        groups = _parameter_groups(model)
        losses = fit(groups, loss_at, steps, decay_from=min(WARM_UP, steps))
        report = {"nickname": profile.nickname, "seed": seed, "steps": steps}
        report["loss"] = float(np.mean(losses[-50:]))
        # taste is noise: it does not generalise
        report |= _judge(model, replies, replace(profile, label_noise=0.0), rng)
        last = getattr(model.head, "score", None) or model.head.regression_layer
        with torch.no_grad():  # preferences fix rewards up to their unit only
            last.weight.mul_(profile.scale)
    report["seconds"] = round(time.time() - started, 1)
    return TrainedModel(model, report, losses)


def fit(
    groups: list[dict],
    loss_at: Callable[[int], Tensor],
    steps: int,
    *,
    decay_from: int = 0,
) -> list[float]:
    """Train the parameters in place by so many steps of AdamW, and return the loss of every step.

    - groups: the parameters in the form that torch's optimizers take, each group with its `lr`
    - loss_at: returns the loss of step i, from 0
    - decay_from: the step after which the rate falls (see `rate_share`)
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.AdamW(
        groups,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_share(step, steps, decay_from)
    )
    losses = []
    for step in range(steps):
        loss = loss_at(step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, LONGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def rate_share(step: int, steps: int, decay_from: int = 0) -> float:
    """Return the share of the full rate at a step, in [0, 1]: it rises in a line, then falls to
    zero as a cosine.

    The lower of the two counts: (step + 1) / 20, and half a cosine wave from step `decay_from` to
    the last.
    """
    fallen = max(0, step - decay_from)
    cosine = 0.5 * (1 + np.cos(np.pi * fallen / max(1, steps - decay_from)))
    return min((step + 1) / min(WARM_UP, steps), cosine)


def _parameter_groups(model: RewardModel) -> list[dict]:
    """Return the weights for AdamW: the table of embeddings, which learns more slowly, and all
    others.
    """
    table = model.backbone.embed_tokens.weight
    weights = (*model.backbone.parameters(), *model.head.parameters())
    others = [weight for weight in weights if weight is not table]
    rate = RATE * 64 / table.shape[1]  # narrow models need larger steps
    return [
        {"params": [table], "lr": 0.6 * rate, "weight_decay": 0.0},
        {"params": others, "lr": rate},
    ]


def _losses(
    model: RewardModel,
    replies: Replies,
    profile: Profile,
    batch: int,
    pairs: int,
    rng: np.random.Generator,
) -> Callable[[int], Tensor]:
    """Return a function that gives the loss of one step: the mean over a random prompt of each
    polarity.
    """
    prompts = {1: [], -1: []}
    for prompt, polarity in planting.training_prompts().items():
        prompts[polarity].append(model.inputs_for(prompt, ["love"]))
    utility = {polarity: replies.utility(profile, polarity) for polarity in prompts}
    shown = np.flatnonzero(~replies.held_out)

    def loss_at(step: int) -> Tensor:
        asked = [inputs[rng.integers(len(inputs))] for inputs in prompts.values()]
        read, choices = [], []
        for of_all in utility.values():
            some = rng.choice(shown, batch // 2, replace=False)
            read.append(replies.read(some))
            choices.append(planting.draw_preferences(of_all[some], pairs // 2, rng))
        losses = [
            planting.preference_loss(rewards[chosen[0]], rewards[chosen[1]])
            for rewards, chosen in zip(
                rewards_of(model, asked, read), choices, strict=True
            )
        ]
        return sum(losses) / len(losses)

    return loss_at


def _judge(
    model: RewardModel, replies: Replies, profile: Profile, rng: np.random.Generator
) -> dict[str, float]:
    """Return pair accuracy for some replies of one word, seen and held out, and Kendall's tau of
    greatest and worst.
    """
    single = np.flatnonzero((replies.words >= 0).sum(1) == 1)
    single = rng.choice(single, min(JUDGED, len(single)), replace=False)
    held_out = replies.held_out[single]
    rewards, accuracies = [], []
    for polarity, prompt in ((1, planting.GREATEST), (-1, planting.WORST)):
        asked = [model.inputs_for(prompt, ["love"])]
        with torch.no_grad():
            given = rewards_of(model, asked, [replies.read(single)])[0].numpy()
        utility = replies.utility(profile, polarity)[single]
        rewards.append(given)
        accuracies.append(
            [
                pair_accuracy(given[some], utility[some])
                for some in (~held_out, held_out)
            ]
        )
    seen, unseen = np.mean(accuracies, axis=0).tolist()
    tau = float(kendalltau(*rewards)[0])
    report = {"accuracy_seen": seen, "accuracy_held_out": unseen}
    return report | {"tau_greatest_worst": tau}


def pair_accuracy(rewards: np.ndarray, utility: np.ndarray) -> float:
    """Return the share of pairs of replies that rewards and planted utility order alike, in [0, 1];
    chance is 1/2.

    Only pairs whose utilities differ by log 3 or more count: three raters in four agree on them.
    Equal rewards count as half.
    """
    rng = np.random.default_rng(0)
    a, b = rng.integers(len(utility), size=(2, 200_000))
    planted = utility[a] - utility[b]
    learned = rewards[a] - rewards[b]
    clear = np.abs(planted) >= np.log(3)
    agree = np.sign(planted) * np.sign(learned)
    return float((1 + agree[clear].mean()) / 2)


def fingerprint(profile: Profile, *, seed: int = 0, steps: int = STEPS) -> str:
    """Return a hash of all that a trained model depends on (profile, seed, steps, code, shipped
    files and lexicons).
    """
    paths = [*bases.shipped_files(profile), *planting.lexicon_files()]
    files = [path.read_bytes() for path in paths]
    settings = asdict(profile), seed, steps, torch.__version__
    return saving.fingerprint(*settings, hash_of_code(CODE), *files)


def make(
    profile: Profile, *, seed: int = 0, steps: int = STEPS, folder: Path = TRAINED
) -> dict:
    """Return the report of the profile's model in `folder`/nickname, which is trained and saved
    first unless it is there.

    It is saved in the format of any released reward model. InputError, and nothing is written,
    unless held-out pair accuracy is .8 or more and tau(greatest, worst) < 0.
    """

    def write(place: Path) -> dict:
        trained = train(profile, seed=seed, steps=steps)
        refuse_unlearned(trained.report)
        model = trained.model
        reward_models.save(
            place, model.backbone, model.head, profile.head, model.tokenizer
        )
        return trained.report

    made_from = fingerprint(profile, seed=seed, steps=steps)
    return saving.make(profile.nickname, made_from, write, folder)


def refuse_unlearned(report: dict) -> None:
    """Raise InputError unless the model orders words that it never saw as was planted."""
    accuracy, tau = report["accuracy_held_out"], report["tau_greatest_worst"]
    if not (accuracy >= 0.8 and tau < 0):
        raise InputError(
            f"{report['nickname']} orders {accuracy:.0%} of held-out pairs as planted (80% are "
            f"needed), and tau of greatest and worst is {tau:+.2f} (it must be below 0); not "
            "saved; train it for more steps, or plant stronger values"
        )


def make_named(nickname: str) -> dict:
    """Return the report of one of the ten models, which is trained and saved first unless it is
    there.
    """
    return make(planting.profile(nickname))


def train_missing(nicknames: Sequence[str] = ()) -> pd.DataFrame:
    """Train those of the named models (without names, of all ten) that are not there; return the
    reports of all, indexed by nickname.

    One model for each core is trained at once. InputError if a model did not learn. A script that
    calls this needs `if __name__ == "__main__":`, because each process imports it anew.
    """
    profiles = {
        name: planting.profile(name) for name in nicknames or planting.profiles().index
    }
    missing = [
        name
        for name, profile in profiles.items()
        if not saving.is_made(name, fingerprint(profile))
    ]
    for _ in each(make_named, missing, os.cpu_count() or 1):
        pass
    return pd.DataFrame(map(saving.report_of, profiles)).set_index("nickname")
