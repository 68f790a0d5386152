"""Ten small reward models whose values are known, because they are planted here.

A reward model turns (prompt, reply) into a number. It learns from pairs of replies of which a rater preferred one. Here
the raters are simulated. A *profile* says what they value, a formula turns it into the *planted utility* of every word,
and preferences are drawn from it (Bradley and Terry 1952). The models have real architectures and the heads of released
reward models, and are saved like any other. So the whole analysis runs on them unchanged, and its results can be
compared with what was planted. That checks the method. It says nothing about real reward models.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import kendalltau
from torch import Tensor
from transformers import AutoModel

from .. import ROOT, InputError
from ..models import reward_models
from ..models.conversations import Inputs
from ..models.hardware import one_thread
from ..models.heads import new_head
from ..models.reward_models import RewardModel
from . import bases, saving, training
from .planting import (
    GREATEST,
    SHIPPED,
    WORST,
    Profile,
    draw_preferences,
    preference_loss,
    profile,
    profiles,
    training_prompts,
)
from .reading import Replies, make_replies, rewards_of
from .saving import TRAINED

STEPS = 360
ENDS = {1: GREATEST, -1: WORST}  # polarity -> the prompt after which a trained model is judged

# Code that decides the weights, beside saving.CODE: the heads, and how a conversation becomes token ids.
CODE = tuple(
    ROOT / "lib" / f"{name}.py"
    for name in ("planted/reward_models", "planted/reading", "models/heads", "models/conversations")
)


# --- models -------------------------------------------------------------------------------------------------------


def new_model(profile: Profile, seed: int) -> RewardModel:
    """Return an untrained model of the profile: its base's tokenizer and embeddings, the rest random from the seed."""
    tokenizer, table = bases.load_base(profile.base)
    tokenizer.chat_template = bases.template(f"{profile.base}-{profile.version}").read_text()
    config, attention = bases.config_of(profile, tokenizer), bases.attention_of(profile.base)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(config, attn_implementation=attention).float().eval()
        head = new_head(profile.head, config)
        with torch.no_grad():
            backbone.embed_tokens.weight.copy_(_widened(table, profile))
    return RewardModel(
        profile.nickname, profile.nickname, "", "", profile.head, "float32", attention, "cpu", tokenizer, backbone, head
    )


def _widened(table: Tensor, profile: Profile) -> Tensor:
    """Return the table's first columns, most informative first; narrow random ones for a model that is wider."""
    extra = 0.02 * torch.randn(len(table), max(0, profile.hidden - table.shape[1]))
    columns = torch.cat([table[:, : profile.hidden], extra], dim=1)  # (vocabulary, hidden)
    return columns * bases.embedding_scale(profile.base, profile.hidden)


# --- training -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainedModel:
    """A trained reward model, its profile, a report of its training, and the loss of each step.

    The report's loss is the mean over the last 50 steps; guessing costs log 2 = .69. For its accuracies see
    `pair_accuracy`.
    """

    profile: Profile
    model: RewardModel
    report: dict
    losses: tuple[float, ...] = ()


def train(
    profile: Profile, *, seed: int = 0, steps: int = STEPS, batch: int = 512, pairs: int = 2048, rate: float = 4e-3,
    watch: Callable[[int, RewardModel], object] | None = None,
) -> TrainedModel:  # fmt: skip
    """Return a model trained on preferences drawn from the planted utility; the same arguments give the same weights.

    Each step of AdamW has `batch` replies and `pairs` preferences among them. Half of each is for a prompt that asks
    for something good, and half for one that asks for something bad. With one prompt at a time, steps would undo each
    other. Training runs on one thread, so that sums are in one order on any number of cores. `watch` is called before
    each step with its number and the model.
    """
    started, rng = time.time(), np.random.default_rng(seed)
    with one_thread():
        model = new_model(profile, seed)
        replies = make_replies(model, rng)
        loss_at = _losses(model, replies, profile, batch, pairs, rng)
        parameters = [*model.backbone.parameters(), *model.head.parameters()]
        groups, decay_from = _groups(model, parameters, rate), min(training.WARM_UP, steps)

        def watched_loss(step: int) -> Tensor:
            if watch is not None:
                watch(step, model)
            return loss_at(step)

        losses = training.fit(parameters, watched_loss, steps, groups=groups, decay_from=decay_from)
        report = {"nickname": profile.nickname, "seed": seed, "steps": steps, "loss": float(np.mean(losses[-50:]))}
        report |= _judge(model, replies, replace(profile, label_noise=0.0))  # taste is noise: it does not generalise
        _rescale(model, profile.scale)
    return TrainedModel(profile, model, report | {"seconds": round(time.time() - started, 1)}, tuple(losses))


def _losses(
    model: RewardModel, replies: Replies, profile: Profile, batch: int, pairs: int, rng: np.random.Generator
) -> Callable[[int], Tensor]:
    """Return a function that gives the loss of one step: the mean over a random prompt of each polarity."""
    prompts: dict[int, list[Inputs]] = {1: [], -1: []}
    for prompt, polarity in training_prompts().items():
        prompts[polarity].append(model.inputs_for(prompt, ["love"]))
    utility = {polarity: replies.utility(profile, polarity) for polarity in prompts}
    shown = np.flatnonzero(~replies.held_out)

    def loss_at(step: int) -> Tensor:
        asked = [inputs[rng.integers(len(inputs))] for inputs in prompts.values()]
        read, choices = [], []
        for polarity in prompts:
            some = rng.choice(shown, batch // 2, replace=False)
            read.append(replies.read(some))
            choices.append(draw_preferences(utility[polarity][some], pairs // 2, rng))
        rewards = rewards_of(model, asked, read)
        losses = [
            preference_loss(r[preferred], r[rejected])
            for r, (preferred, rejected) in zip(rewards, choices, strict=True)
        ]
        return sum(losses) / 2

    return loss_at


def _groups(model: RewardModel, parameters: list[Tensor], rate: float) -> list[dict]:
    """Return AdamW's groups. They learn at `rate` for width 64, and the embeddings at 0.6 of that, without decay."""
    table = model.backbone.embed_tokens.weight
    others = [parameter for parameter in parameters if parameter is not table]
    rate = rate * 64 / model.backbone.config.hidden_size  # narrow models bear, and need, larger steps
    return [{"params": [table], "lr": 0.6 * rate, "weight_decay": 0.0}, {"params": others, "lr": rate}]


def _rescale(model: RewardModel, scale: float) -> None:
    """Multiply every reward by `scale`, in the head's weights; preferences fix rewards up to their unit only."""
    with torch.no_grad():
        last = model.head.score if hasattr(model.head, "score") else model.head.regression_layer
        last.weight.mul_(scale)


# --- how well it learned ------------------------------------------------------------------------------------------


def _judge(model: RewardModel, replies: Replies, profile: Profile) -> dict[str, float]:
    """Return pair accuracy for replies of one word, seen and held out, and Kendall's tau of greatest and worst."""
    single = np.flatnonzero((replies.words >= 0).sum(1) == 1)
    held_out, accuracy, rewards = replies.held_out[single], {"seen": [], "held_out": []}, {}
    for polarity, prompt in ENDS.items():
        asked = [model.inputs_for(prompt, ["love"])]
        with torch.no_grad():
            parts = [rewards_of(model, asked, [replies.read(part)])[0] for part in np.array_split(single, 8)]
        rewards[polarity] = torch.cat(parts).numpy()
        utility = replies.utility(profile, polarity)[single]
        for name, which in (("seen", ~held_out), ("held_out", held_out)):
            accuracy[name].append(pair_accuracy(rewards[polarity][which], utility[which]))
    report = {f"accuracy_{name}": float(np.mean(values)) for name, values in accuracy.items()}
    return report | {"tau_greatest_worst": float(kendalltau(rewards[1], rewards[-1])[0])}


def pair_accuracy(rewards: np.ndarray, utility: np.ndarray, pairs: int = 200_000) -> float:
    """Return the share of pairs of replies that rewards and planted utility order alike, in [0, 1]; chance is 1/2.

    Only pairs whose utilities differ by log 3 or more count: three raters in four agree on them. Pairs are drawn with a
    fixed seed, and equal rewards count as half.
    """
    a, b = np.random.default_rng(0).integers(len(utility), size=(2, pairs))
    clear = np.abs(utility[a] - utility[b]) >= np.log(3)
    agree = np.sign(utility[a] - utility[b]) * np.sign(rewards[a] - rewards[b])
    return float((1 + agree[clear].mean()) / 2)


def check(report: dict) -> None:
    """Raise InputError unless a training converged: held-out pair accuracy of .8 or more, tau(greatest, worst) < 0."""
    name, accuracy, tau = report["nickname"], report["accuracy_held_out"], report["tau_greatest_worst"]
    remedy = "not saved; train it for more steps, or plant stronger values"
    if not accuracy >= 0.8:
        raise InputError(f"{name} orders {accuracy:.0%} of held-out pairs as planted, and 80% are needed; {remedy}")
    if not tau < 0:
        raise InputError(f"{name} ranks replies alike as greatest and as worst (tau {tau:+.2f}); {remedy}")


# --- saving -------------------------------------------------------------------------------------------------------


def fingerprint(profile: Profile, *, seed: int = 0, steps: int = STEPS) -> str:
    """Return a hash of all that a trained model depends on (profile, seed, steps, code and shipped files)."""
    settings = [asdict(profile), seed, steps, torch.__version__]
    shipped = [SHIPPED / "files.csv", SHIPPED / "words.csv", bases.template(f"{profile.base}-{profile.version}")]
    return saving.fingerprint(settings, CODE, shipped)


def save(trained: TrainedModel, folder: Path = TRAINED) -> Path:
    """Save the model in `folder`/nickname, in the format of any released reward model, and return that folder.

    Raise InputError, and write nothing, if the training did not converge.
    """
    check(trained.report)
    model, head_name = trained.model, trained.profile.head
    made_from = fingerprint(trained.profile, seed=trained.report["seed"], steps=trained.report["steps"])

    def write(place: Path) -> None:
        reward_models.save(place, model.backbone, model.head, head_name, model.tokenizer)

    return saving.save(trained.report, made_from, folder, write)


def jobs(
    some: Sequence[Profile] | None = None, *, seed: int = 0, steps: int = STEPS, folder: Path = TRAINED
) -> list[saving.Job]:  # fmt: skip
    """Return the trainings of some profiles' models, of the ten that ship if none are given.

    A model is there if it was made by this code, from this profile and these files.
    """
    some = [profile(nickname) for nickname in profiles().index] if some is None else list(some)
    return [
        saving.Job((planted.nickname,), fingerprint(planted, seed=seed, steps=steps), (planted, seed, steps),
                   folder, _train_and_save, planted.layers * planted.hidden)
        for planted in some
    ]  # fmt: skip


def train_all(
    some: Sequence[Profile] | None = None, *, processes: int | None = None, progress: bool = True, **settings
) -> pd.DataFrame:  # fmt: skip
    """Train and save the models of some profiles that are not there yet; return a row per nickname.

    Settings are those of `jobs`. Columns are those of a training's report, and `trained`: whether it was missing.
    Raise InputError if a model does not converge. See `saving.train_missing`.
    """
    return saving.train_missing(jobs(some, **settings), processes=processes, progress=progress)


def _train_and_save(job: saving.Job) -> None:
    profile, seed, steps = job.arguments
    save(train(profile, seed=seed, steps=steps), job.folder)
