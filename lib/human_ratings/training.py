"""V-Smol-135M: SmolLM2's hidden states, frozen, and a head trained on ten people's ratings of
English words.

Asked for something good, the better rated of two words wins, and asked for something bad, the worse
rated one. Of the paper's prompts `best` is never trained, in no wording: it shows what generalises.
"""

import hashlib
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor, nn
from transformers import PreTrainedConfig

from .. import DATA, ROOT
from ..io import hash_of_code
from ..models import reward_models
from ..models.hardware import one_thread
from ..models.heads import Head, new_head
from ..models.language_models import LanguageModel
from ..models.reward_models import RewardModel
from ..planted import saving
from ..planted.saving import TRAINED, Job
from ..scoring.engine import score_replies
from ..tables.prompts import read_prompts
from . import base, features, words

# of the training: prompt, text, polarity
PROMPTS = DATA / "human_ratings" / "prompts.csv"
# Nickname -> units between the two linear layers of the head; 0 is one linear layer, which can
# hardly turn a sign.
UNITS = {"V-Smol-135M": 32, "V-Smol-135M-linear": 0}
NICKNAME = "V-Smol-135M"
# replies to each prompt: in training, and of held-out words for the report
SHOWN = 450
ASKED = 300
# of training, and how many others each reply is compared with in a step
STEPS = 120
RIVALS = 8
# Weight decay by units. Cross-validation inside the training words
# (data/human_ratings/cross_validation.csv) is flat: from .01 to 3, rho changes by .02 at most.
DECAY = {0: 1.0, 32: 0.1}


def preference_loss(rewards: Tensor, ratings: Tensor) -> Tensor:
    """Return the cross-entropy, in nats, of preferences between replies to one prompt, given
    (prompts, replies).

    Of two replies the first is preferred with probability sigmoid(difference of ratings) (Bradley
    and Terry 1952). Each reply is compared with the RIVALS replies that follow it, so these come in
    random order.
    """
    losses = []
    for step in range(1, RIVALS + 1):
        predicted = rewards - rewards.roll(step, -1)  # (prompts, replies)
        preferred = (ratings - ratings.roll(step, -1)).sigmoid()
        losses.append(F.binary_cross_entropy_with_logits(predicted, preferred))
    return torch.stack(losses).mean()


def fit(
    states: Tensor,
    ratings: Tensor,
    units: int,
    *,
    decay: float | None = None,
    seed: int = 0,
    pairs: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Head:
    """Return a head trained on states, (prompts, replies, d), and ratings, (prompts, replies), on
    one thread.

    The rating's sign is turned where a prompt asks for something bad. units: see UNITS. decay: see
    DECAY. It shrinks the weights of standardised states. pairs: states of two replies each, (pairs,
    d), and the probability that the first is preferred, (pairs,); they count as much as all
    ratings.
    """
    mean = states.mean((0, 1))
    scale = states.std((0, 1))
    rng = torch.Generator().manual_seed(seed)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = untrained_head(len(mean), units)
        optimiser = torch.optim.AdamW(
            head.parameters(),
            weight_decay=decay or DECAY[units],
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            3e-3 if units else 1e-2,
            STEPS,
        )
        for _ in range(STEPS):
            order = torch.randperm(states.shape[1], generator=rng)
            optimiser.zero_grad()
            loss = preference_loss(
                head((states - mean) / scale)[:, order], ratings[:, order]
            )
            if pairs is not None:
                first, second = (
                    head((of_pairs - mean) / scale) for of_pairs in pairs[:2]
                )
                loss = loss + F.binary_cross_entropy_with_logits(
                    first - second, pairs[2]
                )
            loss.backward()
            optimiser.step()
            schedule.step()
    read_unstandardised(head, mean, scale)
    return head.requires_grad_(False)


def untrained_head(width: int, units: int) -> Head:
    """Return a head of one linear layer without bias, or of two with so many units between them."""
    shapes = {
        "score.0.weight": (units, width),
        "score.0.bias": (units,),
        "score.2.weight": (1, units),
    }
    return new_head(
        "linear",
        PreTrainedConfig(hidden_size=width),
        shapes if units else None,
    )


def read_unstandardised(head: Head, mean: Tensor, scale: Tensor) -> None:
    """Change a head that reads (state - mean) / scale so that it reads states, up to a constant
    without a bias.
    """
    first, *later = (
        head.score if isinstance(head.score, nn.Sequential) else [head.score]
    )
    with torch.no_grad():
        first.weight /= scale
        if later:
            first.bias -= first.weight @ mean


def accuracy(rewards: Tensor, ratings: Tensor) -> float:
    """Return Spearman's rho of rewards and people's ratings of the same replies, (replies,), in
    [-1, 1].
    """
    return float(spearmanr(rewards, ratings).statistic)


def train(
    nickname: str = NICKNAME,
    lexicon: str = "vader",
    seed: int = 0,
) -> tuple[RewardModel, dict]:
    """Return one of the models of UNITS, trained on a lexicon's words, and the report of its
    training.

    Each prompt of PROMPTS is read with a random sample of SHOWN replies. The report holds
    Spearman's rho of rewards and ratings of held-out words for the paper's prompts: negative is
    right for one that asks for something bad.
    """
    started = time.time()
    rng = np.random.default_rng(seed)
    language_model = base.load_base(dtype="float32")
    replies = words.replies_of(words.rated_words(lexicon), language_model.tokenizer)
    shown, held_out = (replies[replies["held_out"] == kept] for kept in (False, True))
    states, ratings, _ = training_data(language_model, shown, rng)
    head = fit(states, ratings, UNITS[nickname], seed=seed)
    model = features.with_head(language_model, head)
    report = {
        "nickname": nickname,
        "lexicon": lexicon,
        "base": language_model.revision,
        "dtype": language_model.dtype,
        "words": int(shown["word"].nunique()),
        "spearman_held_out": accuracies(
            model, held_out.sample(ASKED, random_state=rng)
        ),
        "seconds": round(time.time() - started, 1),
    }
    return model, report


def training_data(
    language_model: LanguageModel,
    shown: pd.DataFrame,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Return a random sample of SHOWN replies to each prompt of PROMPTS: states, ratings, and the
    words' stems.

    Shapes: (prompts, SHOWN, d), (prompts, SHOWN) and (prompts, SHOWN). The rating's sign is turned
    where a prompt asks for something bad.
    """
    states = []
    ratings = []
    stems = []
    for _, text, polarity in pd.read_csv(PROMPTS).itertuples(index=False):
        some = shown.sample(SHOWN, random_state=rng)
        states.append(features.kept_states(language_model, text, list(some["reply"])))
        ratings.append(
            polarity * torch.tensor(some["sentiment"].to_numpy(dtype="float32"))
        )
        stems.append(some["stem"].to_numpy())
    return torch.stack(states), torch.stack(ratings), np.stack(stems)


def accuracies(model: RewardModel, replies: pd.DataFrame) -> dict[str, float]:
    """Return Spearman's rho of rewards and ratings of these replies to each of the paper's
    prompts, by prompt.
    """
    texts = list(replies["reply"])
    ratings = replies["sentiment"]
    prompts = read_prompts(None)
    return {
        name: accuracy(score_replies(model, text, texts), ratings)
        for name, text in prompts.items()
    }


def job(nickname: str = NICKNAME, folder: Path = TRAINED) -> Job:
    """Return the training of one of the models of UNITS, saved in `folder`; nothing is done if
    it is there.
    """
    code = [
        Path(__file__).with_name(f"{name}.py")
        for name in ("words", "features", "training")
    ]
    settings = [
        nickname,
        base.GGUF_SHA256,
        PROMPTS.read_text(),
        torch.__version__,
        hash_of_code(code),
    ]
    made_from = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    return Job(
        (nickname,),
        made_from,
        folder,
        lambda: save(*train(nickname), made_from, folder),
    )


def save(
    model: RewardModel,
    report: dict,
    made_from: str,
    folder: Path = TRAINED,
) -> Path:
    """Save a trained model in `folder`/nickname as an ordinary reward model, and return that
    folder.
    """

    def write(place: Path) -> None:
        reward_models.save(place, model.backbone, model.head, "linear", model.tokenizer)

    return saving.save(report, made_from, folder, write)


def load(nickname: str = NICKNAME, **options: str) -> RewardModel:
    """Return one of the models of UNITS, ready to score; it is trained first if need be, in about a
    minute.

    options: see reward_models.Options.
    """
    saving.train_missing([base.job()], progress=False)
    saving.train_missing([job(nickname)], progress=False)
    return reward_models.load(nickname, **options)


def train_and_report() -> None:
    """Train V-Smol-135M unless it is there, and print how well it orders words that it has not
    seen.
    """
    model = load()
    rho = saving.report_of(NICKNAME)["spearman_held_out"]
    shown = ", ".join(f"{prompt} {value:+.2f}" for prompt, value in rho.items())
    print(
        f"{model.name} is in {(TRAINED / NICKNAME).relative_to(ROOT)}. It orders words that were "
        "not in its training"
    )
    print(
        f"as people rated them (Spearman's rho by prompt): {shown}. Now run: make score "
        f"MODEL={NICKNAME}"
    )
