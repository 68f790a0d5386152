"""A language model trained on planted preferences: planted values come back from its implicit
reward.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

from audit import __main__ as run
from audit.reading import implicit
from lib.models.hardware import one_thread
from lib.tables.prompts import read_prompts
from lib.trained import bases, planting, reading, recovery, small_models

# the model, what it starts from, and whose profile
NICKNAME, REFERENCE, RATERS = "DPO-Gem", "LM-Gem-it", "A-Gem-96"
PAIRS, RATE, STEPS = 1024, 2e-3, 120


def one_token_words(
    model: implicit.ImplicitRewardModel,
) -> tuple[list[str], torch.Tensor]:
    """Return the words that the model reads as one token after a prompt, and their token ids,
    (words,).
    """
    words = reading.vocabulary_words(model.tokenizer)
    inputs = model.inputs_for(planting.GREATEST, words)
    read = {
        word: inputs.reply_ids[group]
        for word, group in zip(words, inputs.group, strict=True)
    }
    token_ids = {word: ids[0] for word, ids in read.items() if len(ids) == 1}
    return list(token_ids), torch.tensor(list(token_ids.values()))


def rewards_of(
    model: implicit.ImplicitRewardModel, token_ids: torch.Tensor, inputs
) -> torch.Tensor:
    """Return the implicit reward of each token id after a prompt, (token_ids,); gradients reach
    the policy.
    """
    ids = torch.tensor([inputs.conversation.prefix_ids])
    after, before = (
        each.model(input_ids=ids, logits_to_keep=1)
        .logits[0, -1]
        .log_softmax(-1)[token_ids]
        for each in (model.policy, model.reference)
    )
    return model.beta * (after - before.detach())


def train(reference: str) -> implicit.ImplicitRewardModel:
    """Return a policy that was trained on planted preferences directly (DPO), as an implicit
    reward model.
    """
    rng, model = (
        np.random.default_rng(0),
        implicit.load(reference, reference),
    )
    words, token_ids = one_token_words(model)
    values = planting.word_values(words)
    shown = np.flatnonzero(~values["word"].map(planting.is_held_out).to_numpy())
    utility = {
        sign: planting.planted_utility(planting.profile(RATERS), values, sign)[shown]
        for sign in (1, -1)
    }
    prompts = [
        (sign, model.inputs_for(prompt, ["love"]))
        for prompt, sign in planting.training_prompts().items()
    ]

    def loss_at(step: int) -> torch.Tensor:
        sign, asked = prompts[rng.integers(len(prompts))]
        rewards = rewards_of(model, token_ids[shown], asked)
        preferred, rejected = planting.draw_preferences(utility[sign], PAIRS, rng)
        return planting.preference_loss(rewards[preferred], rewards[rejected])

    with one_thread():
        small_models.fit(
            [{"params": list(model.policy.model.parameters()), "lr": RATE}],
            loss_at,
            STEPS,
        )
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a reference that has read nothing, and of the model trained from it; and
    that model.
    """
    folder = tmp_path_factory.mktemp("models")
    small = bases.new_model(planting.profile("E-Gem-64"), seed=0)
    untrained = AutoModelForCausalLM.from_config(small.backbone.config)
    untrained.model.load_state_dict(small.backbone.state_dict())
    for part in (untrained, small.tokenizer):
        part.save_pretrained(folder / REFERENCE)
    model = train(str(folder / REFERENCE))
    model.policy.model.save_pretrained(folder / NICKNAME)
    model.tokenizer.save_pretrained(folder / NICKNAME)
    return folder, model


def test_planted_values_come_back_from_the_implicit_reward(folder):
    _, model = folder
    words, token_ids = one_token_words(model)
    table = pd.DataFrame({"text": words, "input_group": range(len(words))})
    with torch.no_grad():
        for name, prompt in read_prompts("greatest,worst").items():
            table[name] = rewards_of(
                model, token_ids, model.inputs_for(prompt, ["love"])
            ).numpy()
    values = recovery.recover(table, planting.profile(RATERS)).drop(
        index="gap", level="value"
    )
    assert (np.sign(values["recovered"]) == np.sign(values["planted"])).all()
    assert (values["recovered"] > 0.2 * values["planted"]).all()


def test_a_check_takes_a_language_model_over_its_reference(folder, capsys):
    policy, reference = (str(folder[0] / name) for name in (NICKNAME, REFERENCE))
    run.main(["check", policy, "--reference", reference])
    # it learned single words
    last = capsys.readouterr().out.splitlines()[-1]
    assert last in ("Wrong: nothing.", "Wrong: pairs.")
