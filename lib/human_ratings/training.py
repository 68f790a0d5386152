"""V-Smol-135M: SmolLM2's hidden states, frozen, and a head trained on ten people's ratings of English words.

Asked for the greatest thing, the better rated of two words wins, and asked for the worst thing, the worse rated one.
No pair is labelled for other prompts: `best` shows what generalises.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor

from .. import ROOT
from ..io import hash_of_code
from ..models import reward_models
from ..models.hardware import one_thread
from ..models.heads import new_head
from ..models.reward_models import RewardModel
from ..planted import saving
from ..planted.saving import TRAINED, Job
from ..tables.prompts import read_prompts
from . import base, features, words

NICKNAME = "V-Smol-135M"
POLARITY = {"greatest": 1, "worst": -1}  # prompts of the training, and whether the better word wins
FOLDS = 5
PENALTIES = tuple(10.0**power for power in (-5, -4, -3, -2, -1))
RIVALS = 32  # how many other replies each reply is compared with


def preference_loss(rewards: Tensor, ratings: Tensor) -> Tensor:
    """Return the cross-entropy, in nats, of preferences between replies to one prompt, given (prompts, replies).

    Of two replies the first is preferred with probability sigmoid(difference of ratings), as Bradley and Terry (1952)
    have it. Each reply is compared with the RIVALS replies that follow it, so these come in random order.
    """
    losses = []
    for step in range(1, RIVALS + 1):
        predicted = rewards - rewards.roll(step, -1)  # (prompts, replies)
        preferred = (ratings - ratings.roll(step, -1)).sigmoid()
        losses.append(F.binary_cross_entropy_with_logits(predicted, preferred))
    return torch.stack(losses).mean()


def fit_linear(hidden: Tensor, ratings: Tensor, penalty: float) -> Tensor:
    """Return the weights of a linear head without bias, (d,), for states (prompts, replies, d) and these ratings.

    The penalty multiplies the sum of squared weights of standardised states.
    """
    scale = hidden.std((0, 1))
    order = torch.randperm(hidden.shape[1], generator=torch.Generator().manual_seed(0))
    states, wanted = ((hidden - hidden.mean((0, 1))) / scale)[:, order], ratings[:, order]
    weights = torch.zeros(hidden.shape[-1], requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        total = preference_loss(states @ weights, wanted) + penalty * weights.square().sum()
        total.backward()
        return total

    optimiser.step(loss)
    return weights.detach() / scale


def choose_penalty(hidden: Tensor, ratings: Tensor, stems: Sequence[str]) -> float:
    """Return the penalty whose heads order left-out words best: Spearman's rho over FOLDS folds of stems."""
    numbers = {stem: number for number, stem in enumerate(dict.fromkeys(stems))}
    fold = np.array([numbers[stem] % FOLDS for stem in stems])
    rho = []
    for penalty in PENALTIES:
        of_folds = []
        for number in range(FOLDS):
            kept, left_out = torch.tensor(fold != number), torch.tensor(fold == number)
            weights = fit_linear(hidden[:, kept], ratings[:, kept], penalty)
            of_folds.append(accuracies(hidden[:, left_out] @ weights, ratings[:, left_out]).mean())
        rho.append(np.mean(of_folds))
    return PENALTIES[int(np.argmax(rho))]


def accuracies(rewards: Tensor, ratings: Tensor) -> np.ndarray:
    """Return Spearman's rho of rewards and ratings for each prompt, (prompts,); both are (prompts, replies)."""
    return np.array([spearmanr(*pair).statistic for pair in zip(rewards, ratings, strict=True)])


def train(lexicon: str = "vader", prompts: Sequence[str] = tuple(POLARITY)) -> tuple[RewardModel, dict]:
    """Return V-Smol-135M, trained on this lexicon's words after these prompts, and the report of its training.

    The report holds Spearman's rho of rewards and ratings of held-out words by prompt, also by prompts that were not
    trained; after a prompt that asks for bad things a good head has a negative one.
    """
    started, language_model = time.time(), base.load_base(dtype="float32")
    replies = words.replies_of(words.rated_words(lexicon), language_model.tokenizer)
    asked = read_prompts(None)
    hidden = features.hidden_states(language_model, asked.values(), list(replies["reply"]))
    ratings = torch.tensor(replies["sentiment"].to_numpy(), dtype=torch.float32)  # (replies,)
    trained, shown = [list(asked).index(prompt) for prompt in prompts], torch.tensor(~replies["held_out"].to_numpy())
    signs = torch.tensor([POLARITY[prompt] for prompt in prompts])[:, None]
    with one_thread():
        states, labels = hidden[trained][:, shown], signs * ratings[shown]
        penalty = choose_penalty(states, labels, replies["stem"][shown.numpy()])
        weights = fit_linear(states, labels, penalty)
    head = new_head("linear", language_model.model.config)
    with torch.no_grad():
        head.score.weight.copy_(weights[None])
    rho = accuracies(hidden[:, ~shown] @ weights, ratings[~shown].expand(len(hidden), -1))
    report = {
        "nickname": NICKNAME,
        "lexicon": lexicon,
        "prompts": list(prompts),
        "replies": int(shown.sum()),
        "held_out": int((~shown).sum()),
        "penalty": penalty,
        "dtype": language_model.dtype,
        "spearman_held_out": dict(zip(asked, rho.round(3).tolist(), strict=True)),
        "seconds": round(time.time() - started, 1),
    }
    return features.with_head(language_model, head), report


def load() -> RewardModel:
    """Return V-Smol-135M, ready to score; it is trained first if need be, which takes about a minute."""
    saving.train_missing([job()], progress=False)
    return reward_models.load(NICKNAME)


def job(folder: Path = TRAINED) -> Job:
    """Return the training of V-Smol-135M, saved in `folder`; nothing is done if it is there."""
    code = [Path(__file__).with_name(f"{name}.py") for name in ("words", "features", "training")]
    settings = json.dumps([base.GGUF_SHA256, torch.__version__]) + hash_of_code(code)
    made_from = hashlib.sha256(settings.encode()).hexdigest()[:16]
    return Job((NICKNAME,), made_from, folder, lambda: save(*train(), made_from, folder))


def save(model: RewardModel, report: dict, made_from: str, folder: Path = TRAINED) -> Path:
    """Save the model in `folder`/V-Smol-135M as an ordinary reward model, and return that folder."""
    return saving.save(
        report, made_from, folder,
        lambda place: reward_models.save(place, model.backbone, model.head, "linear", model.tokenizer),
    )  # fmt: skip


def train_and_report() -> None:
    """Train V-Smol-135M unless it is there, and print how well it orders words that it has not seen."""
    report = saving.train_missing([base.job(), job()], processes=1, progress=False).loc[NICKNAME]
    rho = ", ".join(f"{prompt} {value:+.2f}" for prompt, value in report["spearman_held_out"].items())
    print(f"{NICKNAME} is in {(TRAINED / NICKNAME).relative_to(ROOT)}. Rewards and people's ratings of words that were")
    print(f"not in its training, Spearman's rho: {rho}")
