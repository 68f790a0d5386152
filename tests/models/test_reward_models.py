"""Reward models through the public path, against a second implementation; what is refused, in
one line with remedy.
"""

import functools
import json
import shutil
from pathlib import Path

import httpx2
import huggingface_hub
import numpy as np
import oracle
import pytest
import tiny
import torch
import transformers
from conftest import refusal_of
from huggingface_hub import errors
from safetensors.torch import load_file, save_file

from audit.opening import open_model as load
from lib import InputError
from lib.models import reward_models
from lib.models.heads import new_head
from lib.scoring import vocabulary
from lib.tables import registry

PROMPT = "What, in one word, is the greatest thing ever?"
PROMPTS = [PROMPT, "  Two lines,\n\nand blanks around.  ", "Émile et le café? 你好 😀"]
PROMPTS += ["a"]  # which every header holds too
LINEAR = ["linear_llama", "linear_gemma2", "linear_qwen3"]
GATED = ["armorm", "qrm_llama", "qrm_gemma"]
CAUSAL = [*LINEAR, *GATED, "urm"]
REMOTE = [*GATED, "urm"]
WORDS = ["", " ", "\n", "\n\nlove", "love", " love", "Love", "love ", "freedom and war"]
WORDS += ["\ufffd", "你好", "😀", "e\u0301"]


def cpu(folder, **options):
    """The model in this folder; loaded once for each set of options, so not to be changed."""
    return _loaded(str(folder), **options)


@functools.cache
def _loaded(folder, **options):
    return load(folder, device="cpu", **options)


def awkward_replies(tokenizer) -> dict[str, list]:
    """Replies of both modes: awkward tokens one by one, and replies of no, two and many tokens."""
    ids = tiny.awkward_ids(tokenizer)
    texts = [tokenizer.decode([i], clean_up_tokenization_spaces=False) for i in ids]
    return {
        "text": [*texts, *WORDS],
        "ids": [[], *([i] for i in ids), ids[:2], ids[::-1]],
    }


def assert_same(rewards, expected, tolerance=1e-5):
    assert rewards.dtype == np.float32
    np.testing.assert_allclose(
        rewards, expected, atol=tolerance * max(1, np.abs(expected).max()), rtol=0
    )


# --- the oracle and its models --------------------------------------------------------------------


@pytest.mark.parametrize("kind", LINEAR)
def test_oracle_is_the_models_own_classification(checkpoint, kind):
    folder = checkpoint(kind)
    own = oracle.own_logits(folder, PROMPT, WORDS)[:, 0]
    np.testing.assert_allclose(oracle.rewards(folder, PROMPT, WORDS), own, atol=1e-5)


def layers(indices, parts=("weight",)):
    return {f"gating.layers.{i}.{part}" for i in indices for part in parts}


NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
KEYS = {
    "linear_llama": {"score.weight"},
    "armorm": {
        "regression_layer.weight",
        "reward_transform_matrix",
        "gating.logit_scale",
    }
    | layers(range(4), ("weight", "bias")),
    "qrm_llama": {
        "regression_layer.weight",
        "reward_transform_matrix",
        "gating.logit_scale",
        "gating.layers.9.bias",
    }
    | layers([0, 3, 6, 9])
    | layers([2, 5, 8], NORM),
    "qrm_gemma": {
        "regression_layer.weight",
        "gating.logit_scale",
        "gating.layers.11.bias",
    }
    | layers([0, 4, 8, 11])
    | layers([2, 6, 10], NORM),
    "urm": {"score.weight"}
    | {f"weights.fc.{i}.{part}" for i in (0, 2, 4) for part in ("weight", "bias")},
}


@pytest.mark.parametrize("kind", KEYS)
def test_checkpoints_and_heads_use_the_released_key_names(checkpoint, kind):
    held = {
        key
        for key in oracle.read_tensors(checkpoint(kind))
        if not key.startswith("model.")
    }
    assert held == KEYS[kind]
    assert set(cpu(checkpoint(kind)).head.state_dict()) == KEYS[kind]


# --- rewards against the oracle -------------------------------------------------------------------


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
@pytest.mark.parametrize("kind", [*CAUSAL, "deberta"])
def test_rewards_equal_the_oracle_for_every_prompt(checkpoint, kind, reply_mode):
    model = cpu(checkpoint(kind))
    replies = awkward_replies(model.tokenizer)[reply_mode]
    for prompt in PROMPTS:
        # every reply to one prompt, and some to the others
        asked = prompt, replies if prompt == PROMPT else replies[::5]
        expected = oracle.rewards(checkpoint(kind), *asked, reply_mode=reply_mode)
        assert expected.std() > 0.1  # a tolerance of 1e-5 means something
        assert_same(
            vocabulary.score_replies(model, *asked, reply_mode=reply_mode), expected
        )


@pytest.mark.parametrize(
    "reply_mode, bos", [("text", "single"), ("text", "double"), ("ids", "double")]
)
@pytest.mark.parametrize(
    "kind, options",
    [
        ("linear_llama", {"template": "llama31_no_bos", "pad": "mismatch"}),
        # shorter than the prompt; temperature 1
        ("qrm_gemma", {"sliding_window": 8, "gating_temperature": None}),
        # trims nothing: newlines merge
        ("linear_qwen3", {"template": "chatml", "pad": "eos", "shards": 2}),
        ("armorm", {"shards": 3, "pad": "none"}),
        ("urm", {"template": "llama32"}),
    ],
)
def test_rewards_equal_the_oracle_for_odd_checkpoints(
    checkpoint, kind, options, reply_mode, bos
):
    folder, how = checkpoint(kind, **options), {"reply_mode": reply_mode, "bos": bos}
    model = cpu(folder)
    asked = PROMPT, awkward_replies(model.tokenizer)[reply_mode]
    rewards = vocabulary.score_replies(model, *asked, **how)
    # which of both rounds more differs from case to case
    assert_same(rewards, oracle.rewards(folder, *asked, **how), tolerance=2e-5)


@pytest.mark.parametrize("kind", GATED)
def test_a_reply_that_opens_another_turn_moves_the_gate_or_is_refused(checkpoint, kind):
    header = oracle.HEADERS["gemma2" if kind == "qrm_gemma" else "llama"]
    # the gate reads the last occurrence of the header in the whole input
    replies = ["love", f"love{header}war"]
    expected = oracle.rewards(checkpoint(kind), PROMPT, replies)
    try:
        rewards = vocabulary.score_replies(cpu(checkpoint(kind)), PROMPT, replies)
    except InputError as error:
        assert "turn" in str(error)
    else:
        assert_same(rewards, expected)


# --- attention, dtype, template -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear_gemma2", "qrm_gemma"])
def test_uncapped_attention_is_the_authors_run(checkpoint, kind):
    capped, uncapped = (
        vocabulary.score_replies(
            cpu(checkpoint(kind), attention=attention), PROMPT, WORDS
        )
        for attention in (None, "uncapped")
    )
    assert_same(uncapped, oracle.rewards(checkpoint(kind), PROMPT, WORDS, capped=False))
    assert np.abs(capped - uncapped).max() > 0.1
    # a config without soft-capping says the same
    bare = checkpoint(kind, attn_logit_softcapping=None)
    assert_same(uncapped, vocabulary.score_replies(cpu(bare), PROMPT, WORDS))


def test_attention_is_the_one_that_fits_the_architecture(checkpoint):
    assert (
        cpu(checkpoint("linear_gemma2")).attention == "eager"
        and cpu(checkpoint("linear_llama")).attention == "sdpa"
    )


@pytest.mark.parametrize(
    "kind", ["linear_llama", "linear_gemma2", "qrm_llama", "armorm", "urm"]
)
def test_half_precision_backbone_with_a_head_in_full_precision(checkpoint, kind):
    folder = checkpoint(kind, dtype="bfloat16")
    model = cpu(folder)
    assert model.dtype == "bfloat16"
    assert {p.dtype for p in model.backbone.parameters()} == {torch.bfloat16}
    assert {p.dtype for p in model.head.parameters()} == {torch.float32}
    rewards = vocabulary.score_replies(model, PROMPT, WORDS)
    expected = oracle.rewards(folder, PROMPT, WORDS, dtype=torch.bfloat16)
    assert np.corrcoef(rewards, expected)[0, 1] > 0.99
    in_bfloat16 = torch.tensor(rewards).bfloat16().float().numpy()
    # a head in bfloat16 would leave 8 significant bits
    assert (rewards != in_bfloat16).mean() > 0.8


def test_a_template_from_a_file_takes_the_place_of_the_checkpoints_own(
    checkpoint, tmp_path
):
    file = tmp_path / "mine.jinja"
    file.write_text(tiny.TEMPLATES["llama3"], encoding="utf-8-sig")
    own = cpu(checkpoint("linear_llama", template="llama3"))
    model = cpu(checkpoint("linear_llama", template="llama31"), template=file)
    expected = vocabulary.score_replies(own, PROMPT, WORDS)
    assert_same(vocabulary.score_replies(model, PROMPT, WORDS), expected)
    refused(checkpoint("linear_llama"), "cannot be read", template=tmp_path / "none")


# --- heads by themselves --------------------------------------------------------------------------


def test_helpfulness_is_the_first_of_what_transformers_reads_without_the_gate(
    checkpoint,
):
    folder = checkpoint("urm")
    official, helpfulness = cpu(folder), cpu(folder, head="urm_helpfulness")
    read = vocabulary.score_replies(helpfulness, PROMPT, WORDS)
    assert_same(read, oracle.rewards(folder, PROMPT, WORDS, head="urm_helpfulness"))
    own = oracle.own_logits(folder, PROMPT, WORDS)
    # five means and five uncertainties: what the paper's code read the first column of
    assert own.shape[1] == 10
    assert_same(read, own[:, 0])
    assert np.abs(read - vocabulary.score_replies(official, PROMPT, WORDS)).max() > 0.1


def test_half_floats_become_floats_on_a_cpu(checkpoint):
    folder = checkpoint("linear_llama", dtype="float16")
    assert cpu(folder).dtype == "float32"
    assert cpu(folder, dtype="bfloat16").dtype == "bfloat16"


# --- saving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CAUSAL)
def test_saved_models_load_as_they_were(checkpoint, kind, tmp_path):
    model = cpu(checkpoint(kind))
    reward_models.save(
        tmp_path / "copy", model.backbone, model.head, model.head_name, model.tokenizer
    )
    assert set(oracle.read_tensors(tmp_path / "copy")) == set(
        oracle.read_tensors(checkpoint(kind))
    )
    again = cpu(tmp_path / "copy")
    assert again.head_name == model.head_name
    rewards = vocabulary.score_replies(again, PROMPT, WORDS)
    assert_same(rewards, vocabulary.score_replies(model, PROMPT, WORDS), tolerance=1e-7)
    assert_same(rewards, oracle.rewards(tmp_path / "copy", PROMPT, WORDS))
    if kind in LINEAR:
        assert_same(rewards, oracle.own_logits(tmp_path / "copy", PROMPT, WORDS)[:, 0])


def test_a_saved_model_is_the_same_wherever_its_parts_lay(checkpoint, tmp_path):
    model = cpu(checkpoint("linear_llama"))
    revisions = set()
    for name, is_offline in (("here", True), ("there", False)):
        model.backbone.config._name_or_path = f"/{name}"
        model.tokenizer.init_kwargs["local_files_only"] = is_offline
        folder = tmp_path / name
        reward_models.save(
            folder, model.backbone, model.head, model.head_name, model.tokenizer
        )
        revisions.add(cpu(folder).revision)
    assert len(revisions) == 1


@pytest.mark.parametrize(
    "name, layer, rows",
    [
        ("linear", "score", 1),
        ("armorm", "regression_layer", 19),
        ("qrm_llama", "regression_layer", 19 * 19),
        ("qrm_gemma", "regression_layer", 5 * 19),
        ("urm", "score", 10),
        ("urm_helpfulness", "score", 10),
    ],
)
def test_new_heads_have_the_shapes_of_the_released_ones(name, layer, rows):
    # objectives and quantiles by default
    config = transformers.LlamaConfig(hidden_size=32, gating_hidden_dim=16)
    weight = new_head(name, config).state_dict()[f"{layer}.weight"]
    assert weight.shape == (rows, 32)


# --- refused --------------------------------------------------------------------------------------


def refused(folder, *words: str, **options) -> str:
    return refusal_of(lambda: cpu(folder, **options), *words)


@pytest.fixture
def spoiled(checkpoint, tmp_path):
    """A private copy of a tiny checkpoint, its tensors and config changed."""

    def spoil(kind, *, drop=(), change=None, config=None, **options) -> Path:
        folder = shutil.copytree(checkpoint(kind, **options), tmp_path / "spoiled")
        if drop or change:
            tensors = {
                k: v
                for k, v in load_file(folder / "model.safetensors").items()
                if k not in drop
            }
            save_file(
                tensors | (change or {}),
                folder / "model.safetensors",
                metadata={"format": "pt"},
            )
        if config:
            fields = json.loads((folder / "config.json").read_text()) | config
            (folder / "config.json").write_text(json.dumps(fields))
        return folder

    return spoil


@pytest.mark.parametrize(
    "kind, key",
    [
        ("armorm", "reward_transform_matrix"),
        ("qrm_gemma", "gating.layers.11.bias"),
        ("deberta", "classifier.weight"),
        ("linear_llama", "layers.1.self_attn.q_proj.weight"),
    ],
)
def test_a_missing_tensor_is_named(spoiled, kind, key):
    refused(spoiled(kind, drop=[key, f"model.{key}"]), key)


@pytest.mark.parametrize(
    "kind, key, shape",
    [
        ("linear_llama", "score.bias", (5,)),
        ("armorm", "gating.layers.4.weight", (5,)),  # unexpected
        # has three
        ("deberta", "classifier.extra", (5,)),
        ("linear_qwen3", "model.layers.3.mlp.up_proj.weight", (5,)),
        # it has none: the Llama version does
        ("qrm_gemma", "reward_transform_matrix", (5,)),
        # misshapen
        ("linear_gemma2", "score.weight", (2, 48)),
        ("qrm_llama", "regression_layer.weight", (360, 32)),
        ("qrm_llama", "gating.layers.2.running_mean", (17,)),
        ("urm", "score.weight", (5, 32)),
        ("deberta", "classifier.weight", (2, 32)),
        ("linear_llama", "model.layers.0.mlp.up_proj.weight", (3, 32)),
    ],
)
def test_an_unexpected_or_misshapen_tensor_is_named(spoiled, kind, key, shape):
    refused(spoiled(kind, change={key: torch.zeros(shape)}), key.removeprefix("model."))


LACKS = {  # architecture -> how many labels config.json says, and words of what to do
    "LlamaForCausalLM": (2, "a judge (--head yes,no)"),
    "LlamaModel": (1, "a judge (--head yes,no)"),
    # as a merge of language models leaves it
    "MistralForCausalLM": (1, "its head (score.weight) was lost"),
}


@pytest.mark.parametrize("architecture", LACKS)
def test_models_without_a_head_of_one_reward_are_refused(spoiled, architecture):
    count, words = LACKS[architecture]
    labels = {str(number): f"LABEL_{number}" for number in range(count)}
    config = {"architectures": [architecture], "id2label": labels}
    folder = spoiled("linear_llama", config=config, drop=["score.weight"])
    refused(folder, architecture, words)
    refusal_of(lambda: reward_models.load(folder), architecture, "audit.load")


def test_a_causal_model_without_chat_template_is_refused(checkpoint):
    refused(checkpoint("linear_llama", template=None), "chat template")


LLAMA = tiny.TEMPLATES["llama3"]
UNFIT = {  # templates of Llama that cannot be used
    "ignores the reply": tiny.TEMPLATES["ignores_reply"],
    "upper case": tiny.TEMPLATES["upper_case"],
    "repeats the reply": tiny.TEMPLATES["repeats_reply"],
    "cuts": LLAMA.replace(
        "message['content'] | trim", "(message['content'] | trim)[:3]"
    ),
    "drops the prompt": LLAMA.replace(
        "for message in messages", "for message in messages[1:]"
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_templates_that_leave_no_place_for_the_reply_are_refused(checkpoint, name):
    model = cpu(checkpoint("linear_llama", template=UNFIT[name]))
    refusal_of(lambda: model.conversation(PROMPT), "the chat template of")


@pytest.mark.parametrize("between", [" ", "\\n", "\\n\\n"])
def test_white_space_alone_between_prompt_and_reply_is_a_place_for_the_reply(
    checkpoint, between
):
    template = (
        "{{ messages[0]['content'] + '"
        + between
        + "' + messages[1]['content'] }}<|eot_id|>"
    )
    folder = checkpoint("linear_llama", template=template)
    assert_same(
        vocabulary.score_replies(cpu(folder), PROMPT, WORDS[4:8]),
        oracle.rewards(folder, PROMPT, WORDS[4:8]),
    )


def test_options_that_do_not_fit_a_checkpoint_are_refused(checkpoint):
    refused(checkpoint("linear_gemma2"), "uncapped", attention="sdpa")
    for word, options in (
        ("attention", {"attention": "uncapped"}),
        ("has no revision", {"revision": "main"}),
        ("urm_helpfulness", {"head": "urm_helpfulness"}),
        ("read_at", {"read_at": "first"}),
        ("dtype", {"dtype": "int8"}),
        ("device", {"device": "warp-drive"}),
    ):
        chosen = {"device": "cpu"} | options
        refusal_of(functools.partial(load, checkpoint("linear_llama"), **chosen), word)


@pytest.mark.parametrize("kind", REMOTE)
def test_remote_code_never_runs(checkpoint, kind, tmp_path):
    folder = shutil.copytree(checkpoint(kind), tmp_path / kind)
    assert "auto_map" in json.loads((folder / "config.json").read_text())
    vocabulary.score_replies(cpu(folder), PROMPT, ["love"])
    assert not (folder / "remote_code_ran").exists()
    file = folder / "modeling_custom.py"
    # the trap is set
    with pytest.raises(RuntimeError, match="remote code was executed"):
        exec(compile(file.read_text(), file, "exec"), {"__file__": file})
    assert (folder / "remote_code_ran").exists()


# --- names and the hub ----------------------------------------------------------------------------


def test_a_name_that_cannot_be_anything_is_refused_and_an_unknown_nickname_suggests_the_nearest():
    for name in (
        "owner/model/extra",
        "./no/such/folder",
        "/no/such/folder",
        "owner/mo del",
        "",
    ):
        refused(name)
    refused("models/mine", "has no folder models/mine")
    refused("R-Gem2-B", "'R-Gem-2B'", "hub id")


@pytest.fixture
def hub(monkeypatch):
    """Answers every download with a folder or an error; remembers what was asked for."""
    asked = []

    def answer_with(answer):
        def download(repo_id, **options):
            asked.append((repo_id, options))
            if isinstance(answer, Exception):
                raise answer
            return str(answer)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        return asked

    return answer_with


def test_what_the_hub_says_is_passed_on_in_one_line(hub):
    request = httpx2.Request("GET", "https://hub.example/owner/model")
    gated = httpx2.Response(403, request=request)
    for error in (
        errors.GatedRepoError("gated\nlong", response=gated),
        httpx2.ConnectError("no route"),
    ):
        hub(error)
        refused("owner/model", "owner/model", type(error).__name__, "hf auth login")


def test_a_nickname_asks_for_its_pinned_revision_and_no_code(hub, checkpoint):
    asked = hub(checkpoint("armorm"))
    model = load("F-Lla-8B-v0.1", device="cpu")
    (repo_id, options), *more = asked
    assert not more
    assert repo_id == "RLHFlow/ArmoRM-Llama3-8B-v0.1"
    assert options["revision"] == "39aadadd6d1b66ab358f0b4ce8899624c35c7434"
    assert not any(
        pattern.endswith((".py", ".bin", "*")) for pattern in options["allow_patterns"]
    )
    assert (model.nickname, model.head_name, model.dtype) == (
        "F-Lla-8B-v0.1",
        "armorm",
        "bfloat16",
    )
    commit, files = model.revision.split(" ")
    # the snapshot folder is named for the commit
    assert commit == checkpoint("armorm").name
    # what is read is hashed as in a folder
    assert files == load(str(checkpoint("armorm")), device="cpu").revision


def test_pickled_weights_are_asked_for_only_where_there_are_no_others(hub, spoiled):
    folder = spoiled("linear_llama")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    asked = hub(folder)
    assert load("owner/model", device="cpu").revision.startswith(folder.name)
    assert [
        any(".bin" in pattern for pattern in options["allow_patterns"])
        for _, options in asked
    ] == [False, True]


def test_registry_lists_the_papers_models_and_current_ones():
    known = registry.reward_models()
    assert known.index.is_unique
    counts = known["group"].value_counts()
    assert (counts["paper"], counts["current"]) == (10, 3)
    real = known[known["group"].isin(["paper", "current"])]
    assert real["hub_id"].is_unique and (real["hub_id"].str.count("/") == 1).all()
    assert real["revision"].str.fullmatch("([0-9a-f]{40})?").all()
    gemma = real["base"].str.contains("Gemma")
    assert (real.loc[gemma, "attention"] == "eager").all() and gemma.sum() == 4
