"""Language models: registry, loading, both frames, log-probabilities against transformers,
published logits.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import refusal_of
from pinned import Mirror
from scipy.special import logsumexp
from tiny import make_checkpoint, make_tokenizer
from tiny_causal import CAUSAL, make_causal
from transformers import AutoModelForCausalLM

from lib import InputError
from lib.claims import claims
from lib.models import language_models
from lib.tables import registry, score_files, scores

PROMPT = "What, in one word, is the greatest thing ever?"
PROMPTS = {
    "greatest": PROMPT,
    "best": "What, in one word, is the best thing ever?",
    "worst": "What, in one word, is the worst thing ever?",
}


@pytest.fixture(scope="module", params=sorted(CAUSAL))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, kind):
    return make_causal(tmp_path_factory.mktemp("causal") / kind, kind, extra_rows=7)


@pytest.fixture(
    scope="module", params=[False, True], ids=["plain frame", "chat template"]
)
def model(request, folder):
    return language_models.load(folder, device="cpu", tuned=request.param)


# --- registry -------------------------------------------------------------------------------------


def test_registry_holds_the_ten_models_of_the_papers_tables():
    ten = registry.language_models().query("group == 'paper'")
    printed = claims.paper_table("tables_a1_to_a5")
    assert set(ten.index) == set(printed["model"]) and len(ten) == 10
    assert (
        ten["tuned"].sum() == 5
        and (ten.index.str.endswith("-it") == ten["tuned"]).all()
    )
    assert (ten["hub_id"] == "google/" + ten.index).all()


def test_every_reward_model_of_the_paper_and_of_the_project_has_one_base_of_its_family():
    known, models = registry.language_models(), registry.reward_models()
    assert known.index.is_unique
    for name in models.index[models["group"].isin(["paper", "human_ratings"])]:
        base = registry.base_of(name)
        assert sum(name in names.split() for names in known["reward_models"]) == 1
        assert known.loc[base, "base"] == models.loc[name, "base"]
    # the small ones were made from none
    small = models.index[models["group"] == "embedded"]
    assert len(small) == 10 and not any(map(registry.base_of, small))
    assert registry.base_of("nobody's") == ""


# --- log-probabilities ----------------------------------------------------------------------------


def test_log_probabilities_by_hand_and_of_many_large_logits():
    found = language_models.log_probabilities(np.log([1.0, 2.0, 3.0, 4.0]))
    # they add up to 10
    assert found == pytest.approx(np.log([0.1, 0.2, 0.3, 0.4]), abs=1e-6)
    logits = 100 * np.random.default_rng(0).standard_normal(50_000).astype(np.float32)
    found = language_models.log_probabilities(logits)
    assert (
        np.exp(found, dtype=float).sum() == pytest.approx(1, abs=1e-4)
        and found.dtype == np.float32
    )
    # fp32 holds seven digits
    assert language_models.log_probabilities(logits + 7) == pytest.approx(
        found, abs=3e-4
    )


def test_table_equals_a_plain_forward_of_transformers(model, folder, kind):
    table = language_models.score_vocabulary(model, PROMPTS)
    plain = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    for name, prompt in PROMPTS.items():
        ids = torch.tensor([model.encode(prompt)])
        # every position, no cache trick, float64
        logits = plain(ids).logits[0, -1].detach().numpy().astype(float)
        expected = logits - logsumexp(logits)
        assert table[name].to_numpy() == pytest.approx(
            expected[table["token_id"]], abs=1e-4
        )
    if kind == "gemma2":  # soft-capping is on, and it matters
        assert abs(logits).max() <= 2.0
        hidden = plain.model(ids).last_hidden_state[0, -1]
        assert abs(plain.lm_head(hidden)).max() > 3.0


def test_outputs_beyond_the_vocabulary_count_in_the_sum_but_have_no_row(model, kind):
    table = language_models.score_vocabulary(model, PROMPTS)
    outputs = model.model.get_output_embeddings().weight.shape[0]
    assert len(table) == len(model.tokenizer) == outputs - 7
    assert 0.1 < np.exp(table["greatest"], dtype=float).sum() < 1 - 1e-4


def test_table_keeps_the_contract_and_comes_back_from_its_file(model, tmp_path):
    path = tmp_path / "mine.parquet"
    table = language_models.score_vocabulary(model, PROMPTS, path)
    back = scores.read(path)
    pd.testing.assert_frame_equal(
        back.drop(columns="reply_ids"), table.drop(columns="reply_ids")
    )
    metadata = back.attrs["metadata"]
    assert metadata["prompts"] == PROMPTS and metadata["rendered"][
        "best"
    ] == model.render(PROMPTS["best"])


# --- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, expected",
    [
        (
            "llama",
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "gemma2",
            "<bos><start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("qwen3", "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"),
    ],
)
def test_chat_template_ends_with_the_generation_prompt(tmp_path, kind, expected):
    model = language_models.load(make_causal(tmp_path / kind, kind), device="cpu")
    assert model.tuned  # it has a template
    assert model.render("Why?") == expected
    assert model.tokenizer.decode(model.encode("Why?")) == expected


def test_the_plain_frame_ends_where_the_assistant_speaks_and_begins_once(tmp_path):
    model = language_models.load(
        make_causal(tmp_path / "llama", "llama"), device="cpu", tuned=False
    )
    assert model.render("Why?") == "User: Why?\nAssistant:"
    ids = model.encode("Why?")
    assert (
        model.tokenizer.decode(ids, skip_special_tokens=True)
        == "User: Why?\nAssistant:"
    )
    assert (
        ids.count(model.tokenizer.bos_token_id) == 1
        and ids[0] == model.tokenizer.bos_token_id
    )


# --- what is refused ------------------------------------------------------------------------------


def test_what_predicts_no_next_token_is_refused(tmp_path):
    make_checkpoint(tmp_path / "mine", "linear_qwen3")
    refusal_of(lambda: language_models.load(tmp_path / "mine"), "score.weight")
    folder = make_causal(tmp_path / "llama", "llama", tie_word_embeddings=True)
    config = json.loads((folder / "config.json").read_text())
    untied = json.dumps(config | {"tie_word_embeddings": False})
    (folder / "config.json").write_text(untied)
    refusal_of(lambda: language_models.load(folder), "lacks tensors lm_head.weight")


def test_other_mistakes_are_told_with_a_remedy(tmp_path):
    refusal_of(
        lambda: language_models.load("gemma-2-2b-itt"),
        "unknown language model 'gemma-2-2b-itt' (did you mean 'gemma-2-2b-it'",
    )
    (tmp_path / "empty").mkdir()
    refusal_of(lambda: language_models.load(tmp_path / "empty"), "config.json")
    folder = make_causal(tmp_path / "llama", "llama", tokenizer=make_tokenizer("llama"))
    model = language_models.load(folder, device="cpu")
    assert not model.tuned
    refusal_of(lambda: model.encode(" "), "the prompt is empty")


# --- published logits -----------------------------------------------------------------------------


@pytest.fixture
def published_logits(tmp_path):
    """A file in the format of the published reward scores, with logits of awkward tokens."""
    rows = ["token_id,token_name,token_decoded,greatest,best,worst"]
    for i, text in enumerate(["null", "NA", '""', '" the"', '"a,b"', "love"]):
        rows.append(f"{i},{text},{text},{i}.5,{2 * i},{-i}")
    path = tmp_path / "google--gemma-2b.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_published_logits_become_log_probabilities(published_logits):
    table = language_models.read_published(published_logits)
    assert table["text"].tolist() == ["null", "NA", "", " the", "a,b", "love"]
    logits = np.arange(6) + 0.5
    assert table["greatest"].to_numpy() == pytest.approx(
        logits - np.log(np.exp(logits).sum()), abs=1e-6
    )
    assert table["worst"].is_monotonic_decreasing  # the order is the logits'
    again = language_models.log_probabilities(table["best"].to_numpy())
    # log-probabilities come back unchanged
    assert again == pytest.approx(table["best"].to_numpy(), abs=1e-6)


def test_published_files_are_imported_by_name_and_checked(
    published_logits, tmp_path, monkeypatch
):
    mirror = Mirror(tmp_path, monkeypatch)
    for hub_id in registry.language_models().query("group == 'paper'")["hub_id"]:
        path = f"data/base_model_logits/{hub_id.replace('/', '--')}.csv"
        file = mirror.put(score_files.PAPER, path, published_logits.read_bytes())
    table = scores.read(language_models.import_published()["gemma-2b"])
    assert table.attrs["metadata"]["model"] == "google/gemma-2b"
    assert np.exp(table["best"], dtype=float).sum() == pytest.approx(1, abs=1e-6)
    file.write_bytes(published_logits.read_bytes()[:-5])
    with pytest.raises(InputError, match="corrupt"):  # it is not the pinned file
        language_models.import_published()
