"""A small language model trained on planted preferences directly (DPO), so that its implicit reward has known values.

Direct preference optimisation trains a language model on pairs of replies without a reward model (Rafailov et al. 2023,
arXiv 2305.18290). The loss is the one of Bradley and Terry. The reward of a reply is beta times the log-ratio of the
policy and its reference. Replies are words that are one token here, so one forward pass gives the reward of all.
"""

import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from .. import ROOT
from ..models import checkpoints
from ..models.conversations import Inputs
from ..models.hardware import one_thread
from ..models.language_models import LanguageModel
from ..scoring import implicit
from ..scoring.implicit import ImplicitRewardModel
from . import language_models, planting, saving, training
from . import reward_models as small_models
from .saving import TRAINED

NICKNAME, REFERENCE, RATERS = "DPO-Gem", "LM-Gem-it", "A-Gem-96"  # the model, what it starts from, and whose profile
STEPS, PAIRS, RATE = 240, 1024, 2e-3
CODE = (Path(__file__), ROOT / "lib" / "models" / "conversations.py")  # decides the weights, beside saving.CODE


def train(
    reference: str = REFERENCE, raters: str = RATERS, *, seed: int = 0, steps: int = STEPS
) -> tuple[ImplicitRewardModel, dict]:
    """Return the trained policy as an implicit reward model, with beta 1, and the report of its training.

    The policy starts from the reference, a language model with a chat template, named as for language_models.load.
    `raters` is the nickname of the profile whose preferences are drawn. Words of stems that are held out are never
    shown. The same arguments give the same weights.
    """
    started, rng, profile = time.time(), np.random.default_rng(seed), planting.profile(raters)
    model = implicit.load(reference, reference, end=False)
    words, token_ids = one_token_words(model)
    values = planting.word_values(words)
    held_out = values["word"].map(planting.is_held_out).to_numpy()
    shown = np.flatnonzero(~held_out)
    prompts = {polarity: [model.inputs_for(prompt, ["love"]) for prompt, sign in planting.training_prompts().items()
                          if sign == polarity] for polarity in (1, -1)}  # fmt: skip
    utility = {polarity: planting.planted_utility(profile, values, polarity) for polarity in prompts}

    def loss_at(step: int) -> Tensor:
        losses = []
        for polarity, asked in prompts.items():
            of_words = rewards_of(model, token_ids, asked[rng.integers(len(asked))])
            preferred, rejected = planting.draw_preferences(utility[polarity][shown], PAIRS, rng)
            losses.append(planting.preference_loss(of_words[shown[preferred]], of_words[shown[rejected]]))
        return sum(losses) / len(losses)

    parameters = list(model.policy.model.parameters())
    with one_thread():
        losses = training.fit(parameters, loss_at, steps, groups=[{"params": parameters, "lr": RATE}])
        with torch.no_grad():
            after = {sign: rewards_of(model, token_ids, model.inputs_for(prompt, ["love"])).numpy()
                     for sign, prompt in small_models.ENDS.items()}  # fmt: skip
    judged = [small_models.pair_accuracy(after[sign][held_out], utility[sign][held_out]) for sign in after]
    report = {"nickname": NICKNAME, "seed": seed, "steps": steps, "loss": float(np.mean(losses[-50:])),
              "accuracy_held_out": float(np.mean(judged)),
              "tau_greatest_worst": float(pd.Series(after[1]).corr(pd.Series(after[-1]), method="kendall")),
              "seconds": round(time.time() - started, 1)}  # fmt: skip
    return model, report


def one_token_words(model: ImplicitRewardModel) -> tuple[list[str], Tensor]:
    """Return the words that the model reads as one token after a prompt, and their token ids, (words,)."""
    words = small_models.vocabulary_words(model.tokenizer)
    inputs = model.inputs_for(planting.GREATEST, words)
    read = {word: inputs.reply_ids[group] for word, group in zip(words, inputs.group, strict=True)}
    token_ids = {word: ids[0] for word, ids in read.items() if len(ids) == 1}
    return list(token_ids), torch.tensor(list(token_ids.values()))


def rewards_of(model: ImplicitRewardModel, token_ids: Tensor, inputs: Inputs) -> Tensor:
    """Return the implicit reward of each token id after a prompt, (token_ids,); gradients reach the policy."""
    ids = torch.tensor([inputs.conversation.prefix_ids])

    def log_probabilities(language_model: LanguageModel) -> Tensor:
        return language_model.model(input_ids=ids, logits_to_keep=1).logits[0, -1].log_softmax(-1)[token_ids]

    with torch.no_grad():
        before = log_probabilities(model.reference)
    return model.beta * (log_probabilities(model.policy) - before)


def train_all(*, seed: int = 0, steps: int = STEPS, folder: Path = TRAINED, progress: bool = True) -> pd.DataFrame:
    """Train and save the model, and its reference, where they are not there yet; return how its training went.

    Columns: as the report of `train`, and `trained`, whether it was trained now. InputError if it does not converge.
    """
    language_models.train_all(["gem"], folder=folder, progress=progress)
    reference = saving.report_of(REFERENCE, folder)
    settings = [asdict(planting.profile(RATERS)), seed, steps, torch.__version__, (reference or {}).get("fingerprint")]
    made_from = saving.fingerprint(settings, CODE, [planting.SHIPPED / "words.csv"])
    job = saving.Job((NICKNAME,), made_from, (str(folder / REFERENCE), RATERS, seed, steps), folder)
    return saving.train_missing([job], _train_and_save, processes=1, progress=progress)


def _train_and_save(job: saving.Job) -> None:
    reference, raters, seed, steps = job.arguments
    model, report = train(reference, raters, seed=seed, steps=steps)
    small_models.check(report)

    def write(place: Path) -> None:
        with checkpoints.quiet_transformers():
            model.policy.model.save_pretrained(place)
        model.tokenizer.save_pretrained(place)

    saving.save(report, job.fingerprint, job.folder, write)
