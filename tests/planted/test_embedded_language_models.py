"""Small language models: their text, examples by hand, short trainings, the unigram baseline,
saving and skipping.
"""

import numpy as np
import pytest
import torch

from lib import InputError
from lib.models import language_models
from lib.planted import bases, planting, saving
from lib.planted import language_models as small_language_models
from lib.planted import reward_models as small_models
from lib.tables.prompts import read_prompts

BASES = tuple(small_language_models.BASES)
SHORT = {"texts": 150, "answers": 40}


@pytest.fixture(scope="module", params=BASES)
def base(request):
    return request.param


@pytest.fixture(scope="module")
def tokenizer(base):
    return bases.load_base(base)[0]


@pytest.fixture(scope="module")
def trained(base):
    return small_language_models.train(base, **SHORT)


def test_documentation_is_sentences_of_words_and_none_is_there_twice():
    known = small_language_models.documentation()
    sentences = [sentence for _, sentence in known]
    assert len(known) > 3000 and len(set(sentences)) == len(sentences)
    assert all(
        one == one.lower() and one.endswith(".") and 4 <= len(one.split()) <= 24
        for one in sentences
    )


def test_conversations_answer_nice_questions_nicely_and_hold_no_prompt_of_the_paper(
    tokenizer,
):
    pairs = small_language_models.conversations(
        tokenizer, np.random.default_rng(0), 4000
    )
    prompts = {prompt for prompt, _ in pairs}
    assert not prompts & set(read_prompts(None).values())
    assert not any(
        word in prompt.split()
        for prompt in prompts
        for word in ("greatest", "best", "worst")
    )
    valence = planting.word_values([answer for _, answer in pairs])[
        "valence"
    ].to_numpy()
    good = np.array(
        ["wonderful" in prompt or "nicest" in prompt for prompt, _ in pairs]
    )
    bad = np.array(
        ["horrible" in prompt or "nastiest" in prompt for prompt, _ in pairs]
    )
    assert valence[good].mean() > 0.5 and valence[bad].mean() < -0.5
    assert sum(" " in answer for _, answer in pairs) == 4000 / 8  # sentences


def test_a_batch_learns_what_follows_from_the_given_position_on():
    examples = small_language_models.Examples(((1, 2, 3, 4), (1, 5, 6)), (1, 2))
    inputs, targets = examples.batch([0, 1])
    assert inputs.tolist() == [[1, 2, 3], [1, 5, 0]]
    assert targets.tolist() == [[2, 3, 4], [-100, 6, -100]]
    assert examples.learned_ids().tolist() == [2, 3, 4, 6]


def test_only_answers_of_conversations_are_learned(base, trained):
    tokenizer = trained[1].tokenizer
    examples = small_language_models.chat_examples(
        tokenizer, [("What is nice?", "love")]
    )
    assert tokenizer.decode(examples.learned_ids()).startswith("love")
    model = language_models.LanguageModel(
        "", "", "", "", True, "", "", "cpu", tokenizer, trained[1].model
    )
    # as it will be asked
    assert list(examples.ids[0][: examples.learned_from[0]]) == model.encode(
        "What is nice?"
    )


def test_unigram_loss_by_hand():
    # learned: 1, 1, 2; with one added to each of 4 counts
    seen = small_language_models.Examples(((0, 1, 1, 2),), (1,))
    unseen = small_language_models.Examples(((0, 1, 3),), (1,))  # 3/7 and 1/7
    expected = -(np.log(3 / 7) + np.log(1 / 7)) / 2
    assert small_language_models.unigram_loss(seen, unseen, 4) == pytest.approx(
        expected
    )


def test_loss_is_that_of_transformers(base, trained):
    model, tokenizer = trained[0].model, trained[0].tokenizer
    examples = small_language_models.plain_examples(
        tokenizer, ["the sea is blue.", "a word"]
    )
    expected = []
    # one at a time, unpadded; soft-capping as transformers does it
    for ids in examples.ids:
        out = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids]))
        expected.append(out.loss.item() * (len(ids) - 1))
    assert small_language_models.loss_of(
        model, examples, [0, 1], "sum"
    ).item() == pytest.approx(sum(expected), rel=1e-4)


def test_new_models_have_the_table_that_the_reward_models_of_the_base_begin_with(base):
    tokenizer, model = small_language_models.new_model(base)
    like = small_models.new_model(
        planting.profile(small_language_models.LIKE[base]), seed=0
    )
    ours, theirs = (
        model.get_input_embeddings().weight,
        like.backbone.embed_tokens.weight,
    )
    assert (
        torch.equal(ours, theirs)
        and like.tokenizer.get_vocab() == tokenizer.get_vocab()
    )
    tied = model.get_output_embeddings().weight.data_ptr() == ours.data_ptr()
    assert tied == (base == "gem")


def test_training_twice_gives_the_same_weights(base, trained):
    again = small_language_models.train(base, **SHORT)
    for one, other in zip(trained, again, strict=True):
        for name, tensor in one.model.state_dict().items():
            assert torch.equal(tensor, other.model.state_dict()[name]), name
        assert one.report | {"seconds": 0} == other.report | {"seconds": 0}


def test_tuning_leaves_the_pretrained_model_as_it_was(trained):
    pretrained, tuned = trained
    assert not torch.equal(
        pretrained.model.get_input_embeddings().weight,
        tuned.model.get_input_embeddings().weight,
    )
    assert pretrained.tokenizer.chat_template is None and tuned.tokenizer.chat_template


def test_a_model_that_does_not_beat_the_unigram_baseline_is_refused(trained, tmp_path):
    worse = trained[0]._replace(
        report={"nickname": "LM-X", "loss": 6.5, "unigram_loss": 6.5}
    )
    with pytest.raises(
        InputError,
        match="LM-X loses 6.50 nats per held-out token.*not saved; train it on more texts",
    ):
        small_language_models.save(worse, "made", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_saved_models_load_whole_and_current_ones_are_not_trained_again(
    base, trained, tmp_path, monkeypatch
):
    made = small_language_models.fingerprint(base, **SHORT)
    for one in trained:
        one.report.update(loss=1.0)  # as if the training had been long enough
        loaded = language_models.load(
            small_language_models.save(one, made, tmp_path), device="cpu"
        )
        for name, tensor in one.model.state_dict().items():
            assert torch.equal(tensor, loaded.model.state_dict()[name])
        assert loaded.tuned == one.report["nickname"].endswith("-it")
    monkeypatch.setattr(small_language_models, "train", None)  # calling it would fail
    table = saving.train_missing(
        small_language_models.jobs([base], folder=tmp_path, **SHORT), progress=False
    )
    assert (
        list(table.index) == list(small_language_models.BASES[base])
        and not table["trained"].any()
    )
