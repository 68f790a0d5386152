"""Ten small reward models whose values are known, because they are planted here.

A *profile* says what simulated raters value, a formula turns it into the *planted utility* of every
word, and preferences are drawn from it (Bradley and Terry 1952). That checks the method and says
nothing about real models.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
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
from . import bases, planting, saving, training
from .planting import Profile, profile
from .reading import Replies, make_replies, rewards_of
from .saving import TRAINED

STEPS = 360
# polarity -> the prompt after which a trained model is judged
ENDS = {1: planting.GREATEST, -1: planting.WORST}

# Code that decides the weights, beside saving.CODE: the heads, and how a conversation becomes token
# ids.
CODE = tuple(
    ROOT / "lib" / f"{name}.py"
    for name in (
        "planted/reward_models",
        "planted/reading",
        "models/heads",
        "models/conversations",
    )
)


def new_model(profile: Profile, seed: int) -> RewardModel:
    """Return an untrained model of the profile: its base's tokenizer and embeddings, the rest
    random from the seed.
    """
    tokenizer, table = bases.load_base(profile.base)
    tokenizer.chat_template = bases.template(
        f"{profile.base}-{profile.version}"
    ).read_text()
    config = bases.config_of(profile, tokenizer)
    attention = bases.attention_of(profile.base)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = (
            AutoModel.from_config(config, attn_implementation=attention).float().eval()
        )
        head = new_head(profile.head, config)
        # The table's first columns, most informative first; narrow random ones for a model that is
        # wider.
        extra = 0.02 * torch.randn(len(table), max(0, profile.hidden - table.shape[1]))
        # (vocabulary, hidden)
        columns = torch.cat([table[:, : profile.hidden], extra], dim=1)
        with torch.no_grad():
            backbone.embed_tokens.weight.copy_(
                columns * bases.embedding_scale(profile.base, profile.hidden)
            )
    return RewardModel(
        profile.nickname,
        profile.nickname,
        "",
        "",
        profile.head,
        "float32",
        attention,
        "cpu",
        tokenizer,
        backbone,
        head,
    )


@dataclass(frozen=True)
class TrainedModel:
    """A trained reward model, its profile, a report of its training, and the loss of each step.

    The report's loss is the mean over the last 50 steps; guessing costs log 2. For accuracies see
    `pair_accuracy`.
    """

    profile: Profile
    model: RewardModel
    report: dict
    losses: tuple[float, ...] = ()


def train(
    profile: Profile,
    *,
    seed: int = 0,
    steps: int = STEPS,
    batch: int = 512,
    pairs: int = 2048,
    rate: float = 4e-3,
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
        # narrow models need larger steps
        groups = _parameter_groups(model, rate * 64 / profile.hidden)
        losses = training.fit(
            groups,
            loss_at,
            steps,
            decay_from=min(training.WARM_UP, steps),
        )
        report = {
            "nickname": profile.nickname,
            "seed": seed,
            "steps": steps,
            "loss": float(np.mean(losses[-50:])),
        }
        # taste is noise: it does not generalise
        report |= _judge(model, replies, replace(profile, label_noise=0.0))
        last = (
            model.head.score
            if hasattr(model.head, "score")
            else model.head.regression_layer
        )
        with torch.no_grad():  # preferences fix rewards up to their unit only
            last.weight.mul_(profile.scale)
    report["seconds"] = round(time.time() - started, 1)
    return TrainedModel(profile, model, report, tuple(losses))


def _parameter_groups(model: RewardModel, rate: float) -> list[dict]:
    """Return the weights for AdamW: the table of embeddings, which learns more slowly, and all
    others.
    """
    table = model.backbone.embed_tokens.weight
    weights = (*model.backbone.parameters(), *model.head.parameters())
    others = [weight for weight in weights if weight is not table]
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
    prompts: dict[int, list[Inputs]] = {1: [], -1: []}
    for prompt, polarity in planting.training_prompts().items():
        prompts[polarity].append(model.inputs_for(prompt, ["love"]))
    utility = {polarity: replies.utility(profile, polarity) for polarity in prompts}
    shown = np.flatnonzero(~replies.held_out)

    def loss_at(step: int) -> Tensor:
        asked = [inputs[rng.integers(len(inputs))] for inputs in prompts.values()]
        read = []
        choices = []
        for polarity in prompts:
            some = rng.choice(shown, batch // 2, replace=False)
            read.append(replies.read(some))
            choices.append(
                planting.draw_preferences(utility[polarity][some], pairs // 2, rng)
            )
        return _mean_loss(rewards_of(model, asked, read), choices)

    return loss_at


def _mean_loss(
    rewards: list[Tensor],
    choices: list[tuple[np.ndarray, np.ndarray]],
) -> Tensor:
    """Return the mean loss over prompts; choices: the indices of preferred and rejected replies."""
    losses = [
        planting.preference_loss(of_prompt[preferred], of_prompt[rejected])
        for of_prompt, (preferred, rejected) in zip(rewards, choices, strict=True)
    ]
    return sum(losses) / len(losses)


def _judge(model: RewardModel, replies: Replies, profile: Profile) -> dict[str, float]:
    """Return pair accuracy for replies of one word, seen and held out, and Kendall's tau of
    greatest and worst.
    """
    single = np.flatnonzero((replies.words >= 0).sum(1) == 1)
    held_out = replies.held_out[single]
    accuracy = {"seen": [], "held_out": []}
    rewards = {}
    for polarity, prompt in ENDS.items():
        asked = [model.inputs_for(prompt, ["love"])]
        with torch.no_grad():
            parts = [
                rewards_of(model, asked, [replies.read(part)])[0]
                for part in np.array_split(single, 8)
            ]
        rewards[polarity] = torch.cat(parts).numpy()
        utility = replies.utility(profile, polarity)[single]
        for name, which in (("seen", ~held_out), ("held_out", held_out)):
            accuracy[name].append(
                pair_accuracy(rewards[polarity][which], utility[which])
            )
    report = {
        f"accuracy_{name}": float(np.mean(values)) for name, values in accuracy.items()
    }
    return report | {
        "tau_greatest_worst": float(kendalltau(rewards[1], rewards[-1])[0])
    }


def pair_accuracy(
    rewards: np.ndarray,
    utility: np.ndarray,
    pairs: int = 200_000,
) -> float:
    """Return the share of pairs of replies that rewards and planted utility order alike, in [0, 1];
    chance is 1/2.

    Only pairs whose utilities differ by log 3 or more count: three raters in four agree on them.
    Equal rewards count as half.
    """
    rng = np.random.default_rng(0)
    a, b = rng.integers(len(utility), size=(2, pairs))
    planted = utility[a] - utility[b]
    learned = rewards[a] - rewards[b]
    clear = np.abs(planted) >= np.log(3)
    agree = np.sign(planted) * np.sign(learned)
    return float((1 + agree[clear].mean()) / 2)


def fingerprint(profile: Profile, *, seed: int = 0, steps: int = STEPS) -> str:
    """Return a hash of all that a trained model depends on (profile, seed, steps, code and
    shipped files).
    """
    settings = [asdict(profile), seed, steps, torch.__version__]
    shipped = [planting.SHIPPED / name for name in ("files.csv", "words.csv")]
    shipped += [bases.template(f"{profile.base}-{profile.version}")]
    return saving.fingerprint(settings, CODE, shipped)


def save(trained: TrainedModel, folder: Path = TRAINED) -> Path:
    """Save the model in `folder`/nickname, in the format of any released reward model, and return
    that folder.

    Raise InputError, and write nothing, unless held-out pair accuracy is .8 or more and
    tau(greatest, worst) < 0.
    """
    model = trained.model
    report = trained.report
    name = report["nickname"]
    accuracy = report["accuracy_held_out"]
    tau = report["tau_greatest_worst"]
    remedy = "not saved; train it for more steps, or plant stronger values"
    if not accuracy >= 0.8:
        raise InputError(
            f"{name} orders {accuracy:.0%} of held-out pairs as planted, and 80% are needed; "
            f"{remedy}"
        )
    if not tau < 0:
        raise InputError(
            f"{name} ranks replies alike as greatest and as worst (tau {tau:+.2f}); {remedy}"
        )
    made_from = fingerprint(trained.profile, seed=report["seed"], steps=report["steps"])

    def write(place: Path) -> None:
        reward_models.save(
            place,
            model.backbone,
            model.head,
            trained.profile.head,
            model.tokenizer,
        )

    return saving.save(report, made_from, folder, write)


def jobs(
    some: Iterable[Profile] | None = None,
    *,
    seed: int = 0,
    steps: int = STEPS,
    folder: Path = TRAINED,
) -> list[saving.Job]:
    """Return the trainings of some profiles' models (of all that ship without); see
    `saving.train_missing`.
    """
    some = (
        [profile(nickname) for nickname in planting.profiles().index]
        if some is None
        else some
    )
    return [
        saving.Job(
            (planted.nickname,),
            fingerprint(planted, seed=seed, steps=steps),
            folder,
            partial(_train_and_save, planted, seed, steps, folder),
            planted.layers * planted.hidden,
        )
        for planted in some
    ]


def _train_and_save(planted: Profile, seed: int, steps: int, folder: Path) -> None:
    save(train(planted, seed=seed, steps=steps), folder)
