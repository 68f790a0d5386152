"""A value card during a training: the training stays the same, its log has the measures, and the
steps are compared.
"""

import random

import numpy as np
import pandas as pd
import peft
import pytest
import tiny
import torch
from conftest import refusal_of
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

from audit.card import callback, compare, measures
from audit.opening import open_model
from lib.scoring import vocabulary
from lib.tables import scores
from lib.tables.collection import Collection

STEPS, STUDY = 3, Collection("trial")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make_checkpoint(
        tmp_path_factory.mktemp("model") / "tiny", "linear_llama", attention_dropout=0.2
    )


@pytest.fixture(autouse=True)
def fewer(monkeypatch, tmp_path):
    """Few texts, and files in a folder of the test."""
    patch_fewer(monkeypatch)
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)


def patch_fewer(monkeypatch):
    """Ask about fewer words, and fewer items of no kind."""
    words, items = measures.words()[::4], measures.items()
    known = measures.planting.word_kinds()
    kind = measures.kinds.kinds_of(items.index, known, titles=True)
    items = items[(kind != "") | (np.arange(len(items)) % 12 == 0)]
    monkeypatch.setattr(measures, "words", lambda: words)
    monkeypatch.setattr(measures, "items", lambda: items)


def trainer_of(folder, where) -> Trainer:
    """A trainer of a model whose reward shall be 1 for liked texts, and -1 for others."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    texts = ["I love hope.", "I hate war.", "peace", "pain"] * 8
    read = tokenizer(texts, padding=True)
    data = pd.DataFrame({**read, "labels": [1.0, -1.0] * 16}).to_dict("records")
    arguments = TrainingArguments(
        output_dir=str(where / "run"),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        learning_rate=3e-3,
        seed=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    return Trainer(model, arguments, train_dataset=data, processing_class=tokenizer)


def trained(trainer: Trainer) -> list[float]:
    """What a training leaves: weights, losses, and the next random numbers."""
    trainer.train()
    assert trainer.model.training and trainer.model.dtype == torch.float32
    weights = torch.cat([each.flatten() for each in trainer.model.parameters()])
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == STEPS
    drawn = [random.random(), np.random.rand(), *torch.rand(3)]  # noqa: NPY002
    return [*weights.tolist(), *losses, *drawn]


def test_a_training_with_cards_stays_the_same_and_its_log_and_tables_hold_the_models_measures(
    folder, tmp_path
):
    plain = trained(trainer_of(folder, tmp_path))
    trainer = trainer_of(folder, tmp_path)
    trainer.add_callback(
        callback.ValueCardCallback(trainer, every=2, collection="trial", name="mine")
    )
    assert trained(trainer) == plain

    logged = {
        row["step"]: row
        for row in trainer.state.log_history
        if callback.LOGGED + "framing" in row
    }
    assert list(logged) == [0, 2, STEPS]
    names = [f"mine-step-{step:06d}" for step in logged]
    # of the tables, as `make compare` reads them
    made = compare.of_models([names[0], names[-1]], "trial")
    for key, row in compare.differences(made).iterrows():
        in_log = [logged[step][callback.LOGGED + key] for step in (0, STEPS)]
        assert in_log == pytest.approx([row["first"], row["last"]], rel=1e-5)

    trainer.model.save_pretrained(tmp_path / "saved")
    trainer.processing_class.save_pretrained(tmp_path / "saved")
    model = open_model(tmp_path / "saved", device="cpu")
    table = scores.read(scores.path_of(STUDY, names[-1]))
    for prompt, text in measures.prompts().items():
        rewards = vocabulary.score_replies(model, text, table["text"].tolist()[:50])
        assert table[prompt].to_numpy()[:50] == pytest.approx(rewards, abs=5e-5)


def test_an_adapter_in_training_is_scored_with_its_weights(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = peft.LoraConfig(
        task_type="SEQ_CLS", target_modules=["q_proj"], init_lora_weights=False
    )
    model = peft.get_peft_model(
        AutoModelForSequenceClassification.from_pretrained(folder), config
    ).eval()
    read = callback.in_training(model, tokenizer, "adapter")
    rewards = vocabulary.score_replies(read, "Why?", ["love"])
    inputs = read.inputs_for("Why?", ["love"])
    ids = torch.tensor([[*inputs.prefix_ids, *inputs.suffixes[0]]])
    expected = model(input_ids=ids).logits[:, 0].detach().numpy()
    assert rewards == pytest.approx(expected, abs=1e-5)


def test_an_encoder_in_training_is_scored_by_its_own_class(checkpoint):
    folder = checkpoint("deberta")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    read = callback.in_training(model, tokenizer, "encoder")
    rewards = vocabulary.score_replies(read, "Why?", ["love", "war and pain"])
    pairs = [("Why?", "love"), ("Why?", "war and pain")]
    for reward, pair in zip(rewards, pairs, strict=True):
        given = tokenizer(*pair, return_tensors="pt")
        assert reward == pytest.approx(model(**given).logits.item(), abs=1e-5)


def test_what_cannot_be_scored_is_refused(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    refusal_of(lambda: callback.in_training(model, None, "x"), "no tokenizer")
    two = AutoModelForSequenceClassification.from_config(model.config)
    two.config.num_labels = 2
    refusal_of(lambda: callback.in_training(two, tokenizer, "x"), "num_labels=1")


def test_whatever_fails_in_a_card_the_training_goes_on(folder, tmp_path, monkeypatch):
    def fail(*given, **named):
        raise MemoryError

    monkeypatch.setattr(callback.vocabulary, "score_inputs", fail)
    trainer = trainer_of(folder, tmp_path)
    trainer.add_callback(
        callback.ValueCardCallback(trainer, every=2, collection="trial")
    )
    with pytest.warns(UserWarning, match="no value card of step 0"):
        trainer.train()
    assert trainer.state.global_step == STEPS
