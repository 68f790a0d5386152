"""Checkpoints as trainers of this year save them: read as their own class computes, or refused
by the cause's name.
"""

import json
import os

import numpy as np
import oracle
import pytest
import tiny
import torch
import transformers as t
from conftest import refusal_of
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from audit.opening import open_model, plain
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "hope"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What is converted is written under the test's own folder."""
    monkeypatch.setattr(plain, "ROOT", tmp_path)


@pytest.fixture
def folder(tmp_path):
    return tiny.make_checkpoint(tmp_path / "model", "linear_llama")


def rewards(folder, **options) -> np.ndarray:
    return vocabulary.score_replies(
        open_model(folder, device="cpu", **options), PROMPT, REPLIES
    )


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def change(folder, renamed) -> None:
    """Write the weights anew. renamed(name, tensor) gives pairs of a name and a tensor."""
    tensors = load_file(folder / "model.safetensors")
    tiny.write_weights(
        folder,
        dict(
            pair for name, tensor in tensors.items() for pair in renamed(name, tensor)
        ),
    )


# --- language models within models that also see --------------------------------------------------

TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
}
LINEAR_ATTENTION = {
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"],
}
SEES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "head_dim": 8,
}
QWEN_SEES = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 4,
    "out_hidden_size": 32,
    "deepstack_visual_indexes": [],
}
MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
COMPOSITE = {
    "Qwen3.5": lambda: t.Qwen3_5Config(
        text_config=TEXT | LINEAR_ATTENTION, vision_config=QWEN_SEES
    ),
    "Gemma-4": lambda: t.Gemma4Config(
        text_config=TEXT
        | {
            "vocab_size_per_layer_input": 600,
            "hidden_size_per_layer_input": 8,
            "global_head_dim": 16,
        },
        vision_config=SEES | {"num_key_value_heads": 4},
    ),
    "Mistral-3": lambda: t.Mistral3Config(
        text_config=TEXT | {"model_type": "mistral"},
        vision_config=SEES | {"model_type": "pixtral"},
    ),
    "Qwen3-VL": lambda: t.Qwen3VLConfig(
        text_config=TEXT | {"rope_parameters": MROPE}, vision_config=QWEN_SEES
    ),
}


def save_composite(folder, config, prefix: str = "model.language_model.") -> np.ndarray:
    """Write a reward model of which one part sees; return the rewards of REPLIES by transformers'
    whole class.

    num_labels and pad stand in text_config, as trainers leave them. prefix: of the language model's
    tensors.
    """
    tokenizer = tiny.make_tokenizer("qwen", template="chatml")
    text = config.get_text_config()
    text.vocab_size, text.pad_token_id, text.num_labels = (
        len(tokenizer),
        tokenizer.pad_token_id,
        1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = AutoModel.from_config(config, dtype=torch.float32).eval()
        for parameter in whole.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape)
        score = torch.randn(1, text.hidden_size)
    tensors = {
        f"model.{name}".replace(
            "model.language_model.", prefix
        ): tensor.contiguous().clone()
        for name, tensor in whole.state_dict().items()
    }
    tokenizer.save_pretrained(folder)
    save_file(
        tensors | {"score.weight": score},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    name = type(whole).__name__.removesuffix("Model") + "ForSequenceClassification"
    (folder / "config.json").write_text(
        json.dumps(config.to_dict() | {"architectures": [name], "dtype": "float32"})
    )
    with torch.no_grad():
        ids = oracle.input_ids(tokenizer, PROMPT, REPLIES)
        hidden = [
            whole(input_ids=torch.tensor([row])).last_hidden_state[0, -1] for row in ids
        ]
    return (torch.stack(hidden) @ score[0]).numpy()


@pytest.mark.parametrize("name", COMPOSITE)
def test_the_language_model_within_another_gives_the_rewards_of_the_whole_class(
    name, tmp_path, capsys
):
    expected = save_composite(tmp_path / "model", COMPOSITE[name]())
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(
        rewards(tmp_path / "model"),
        expected,
        rtol=0,
        atol=1e-5 * np.abs(expected).max(),
    )
    assert "its language model is taken out" in "".join(capsys.readouterr())
    assert open_model(tmp_path / "model", device="cpu").read_at == "last_not_pad"


@pytest.mark.parametrize("prefix", ["language_model.model.", "language_model."])
def test_older_names_of_the_language_model_are_known(prefix, tmp_path):
    expected = save_composite(tmp_path / "model", COMPOSITE["Mistral-3"](), prefix)
    np.testing.assert_allclose(
        rewards(tmp_path / "model"),
        expected,
        rtol=0,
        atol=1e-5 * np.abs(expected).max(),
    )


# --- numbers that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_weights_in_eight_bits_are_refused_with_and_without_their_scale(folder, scaled):
    def in_eight_bits(name, tensor):
        if "q_proj" not in name:
            return [(name, tensor)]
        scale = [(f"{name}_scale", torch.ones(1))] if scaled else []
        return [(name, tensor.to(torch.float8_e4m3fn)), *scale]

    change(folder, in_eight_bits)
    words = (
        "with scales (model.layers.0.self_attn.q_proj.weight_scale)"
        if scaled
        else "without a scale"
    )
    refusal_of(lambda: rewards(folder), "q_proj.weight: F8_E4M3", words)


def test_tensors_that_zero_3_left_empty_are_refused_by_that_name(folder):
    change(
        folder, lambda name, tensor: [(name, tensor[:0] if "embed" in name else tensor)]
    )
    refusal_of(
        lambda: rewards(folder),
        "model.embed_tokens.weight is empty",
        "ZeRO-3",
        "zero_to_fp32.py",
    )


def test_a_shard_that_is_missing_is_named_by_its_number(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama", shards=4)
    third = sorted(folder.glob("model-*.safetensors"))[2]
    third.unlink()
    refusal_of(
        lambda: rewards(folder),
        f"shard 3 of 4 is missing ({third.name})",
        "download it",
    )


# --- heads under other names ----------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2])
def test_an_lm_head_of_one_or_two_rows_is_a_reward_head(folder, rows):
    score = load_file(folder / "model.safetensors")["score.weight"]
    expected = rewards(folder)
    other = torch.ones_like(score) / 10
    head = torch.cat([other, score])[2 - rows :]
    change(
        folder,
        lambda name, tensor: [
            ("lm_head.weight", head) if name == "score.weight" else (name, tensor)
        ],
    )
    edit(folder / "config.json", architectures=["LlamaForCausalLM"], num_labels=2)
    options = {} if rows == 1 else {"label": 1}
    assert rewards(folder, **options).tolist() == expected.tolist()
    if rows == 2:
        refusal_of(lambda: rewards(folder), "2 outputs", "--label ")


@pytest.mark.parametrize("nested", [None, "model_state_dict"])
def test_a_module_around_a_language_model_is_read_from_a_dictionary(folder, nested):
    expected = rewards(folder, read_at="last")
    tensors = load_file(folder / "model.safetensors")
    names = {
        name: "head.weight" if name == "score.weight" else f"model.{name}"
        for name in tensors
    }
    saved = {names[name]: tensor for name, tensor in tensors.items()}
    saved["model.lm_head.weight"] = torch.zeros_like(
        tensors["model.embed_tokens.weight"]
    )
    (folder / "model.safetensors").unlink()
    torch.save({nested: saved, "step": 3} if nested else saved, folder / "model.pt")
    edit(folder / "config.json", architectures=["LlamaForCausalLM"])
    refusal_of(
        lambda: rewards(folder), "model.pt, a file of torch.save", "pytorch_model.bin"
    )
    os.rename(folder / "model.pt", folder / "pytorch_model.bin")
    assert rewards(folder).tolist() == expected.tolist()


@pytest.mark.parametrize("shards", [1, 3])
def test_the_head_that_was_trained_counts_beside_the_one_that_it_replaces(
    tmp_path, shards
):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama", shards=shards)
    expected = rewards(folder)
    file = next(
        path
        for path in folder.glob("*.safetensors")
        if "score.weight" in load_file(path)
    )
    tensors = load_file(file)
    trained, untrained = (
        tensors["score.weight"],
        torch.randn(tensors["score.weight"].shape),
    )
    extra = {
        "score.modules_to_save.default.weight": trained,
        "score.original_module.weight": untrained + 1,
    }
    save_file(
        tensors | {"score.weight": untrained} | extra, file, metadata={"format": "pt"}
    )
    if shards > 1:
        index = folder / "model.safetensors.index.json"
        weight_map = json.loads(index.read_text())["weight_map"]
        edit(index, weight_map=weight_map | dict.fromkeys(extra, file.name))
    assert rewards(folder).tolist() == expected.tolist()


# --- what config.json and the template say twice --------------------------------------------------


def test_two_bases_of_rotary_positions_are_refused_and_one_is_read(folder):
    expected = rewards(folder)
    edit(
        folder / "config.json",
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )
    assert json.loads((folder / "config.json").read_text())["rope_theta"] == 500000
    assert rewards(folder).tolist() == expected.tolist()
    edit(
        folder / "config.json",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    refusal_of(
        lambda: rewards(folder), "rope_theta is 500000", "rope_parameters says 10000"
    )


def test_the_attention_that_a_checkpoint_declares_counts_and_is_told(tmp_path, capsys):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_gemma2")
    uncapped, capped = rewards(folder, attention="uncapped"), rewards(folder)
    edit(folder / "config.json", _attn_implementation="sdpa")
    capsys.readouterr()
    assert rewards(folder).tolist() == uncapped.tolist() != capped.tolist()
    assert "declares attention 'sdpa', which counts here" in "".join(
        capsys.readouterr()
    )
    assert rewards(folder, attention="eager").tolist() == capped.tolist()
    llama = tiny.make_checkpoint(tmp_path / "llama", "linear_llama")
    assert open_model(llama, device="cpu").attention == "sdpa"
    edit(llama / "config.json", attn_implementation="eager")
    assert open_model(llama, device="cpu").attention == "eager"


def test_another_template_inline_is_told_and_the_same_one_is_not(folder, capsys):
    expected = rewards(folder)
    template = AutoTokenizer.from_pretrained(folder).chat_template
    for inline, told in ((template, False), (tiny.TEMPLATES["llama3"], True)):
        (folder / "chat_template.jinja").write_text(template)
        edit(folder / "tokenizer_config.json", chat_template=inline)
        capsys.readouterr()
        assert rewards(folder).tolist() == expected.tolist()
        assert ("hold two chat templates" in "".join(capsys.readouterr())) == told


REASONS = tiny.TEMPLATES["chatml"].replace(
    "message['content'] + '<|im_end|>",
    "message['content'].split('</think>')[-1] + '<|im_end|>",
)


@pytest.mark.parametrize(
    "template, cuts", [(REASONS, True), ("qwen3", True), ("chatml", False)]
)
def test_a_template_that_cuts_replies_at_the_end_of_a_thought_is_told_once(
    tmp_path, capsys, template, cuts
):
    model = open_model(
        tiny.make_checkpoint(tmp_path, "linear_qwen3", template=template), device="cpu"
    )
    replies = ["</think>", "", "x</think>love", "love"]
    scored = vocabulary.score_replies(model, PROMPT, replies)
    assert (scored[0] == scored[1]) == cuts
    assert (scored[2] == scored[3]) == (template == REASONS)
    said = "".join(capsys.readouterr())
    assert (
        "takes a reply apart at </think>, so that </think> alone is read as an empty reply"
        in said
    ) == cuts
    vocabulary.score_replies(model, PROMPT, replies)
    assert "takes a reply apart" not in "".join(capsys.readouterr())
    # as score tables say
    assert len(model.inputs_for(PROMPT, ["</think>"]).reply_ids[0]) == (
        0 if cuts else 1
    )
