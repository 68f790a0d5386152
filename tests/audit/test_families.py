"""Families of reward models: each as it stores its head, against its formula written out;
converted formats.
"""

import json
import re
import warnings

import numpy as np
import oracle
import pandas as pd
import peft
import pytest
import tiny
import torch
import transformers
from conftest import refusal_of
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from audit.opening import open_model, plain
from lib import ROOT, io
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "你好"]
DOCS = ROOT / "docs" / "own-models.md"
FORMATS = pd.read_csv(
    ROOT / "data" / "formats.csv", index_col="shape", keep_default_na=False
)


def by_formula(folder, stored: tiny.Stored) -> np.ndarray:
    """The rewards of REPLIES: the family's formula at the conversation's last token, or at the
    token that it adds.
    """
    tokenizer, tensors = (
        AutoTokenizer.from_pretrained(folder),
        oracle.read_tensors(folder),
    )
    added = [tokenizer.convert_tokens_to_ids(stored.adds)] if stored.adds else []
    ids = [row + added for row in oracle.input_ids(tokenizer, PROMPT, REPLIES)]
    return np.array(
        [
            float(stored.formula(tensors, hidden[-1]))
            for hidden in oracle.hidden_states(folder, ids)
        ]
    )


def rewards(folder, **options) -> np.ndarray:
    return vocabulary.score_replies(
        open_model(folder, device="cpu", **options), PROMPT, REPLIES
    )


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What is merged or renamed is written under the test's own folder."""
    monkeypatch.setattr(plain, "ROOT", tmp_path)


def family(folder, name: str):
    """A tiny checkpoint as that family stores it, and its rewards by the family's formula."""
    made = tiny.make_family(folder, name, folder.with_name("plain"))
    return made, by_formula(
        folder.with_name("plain") if tiny.FAMILIES[name].store else made,
        tiny.FAMILIES[name],
    )


@pytest.mark.parametrize(
    "name",
    [name for name in tiny.FAMILIES if name.startswith(("Starling", "saved from"))],
)
def test_what_is_stored_under_other_names_has_the_rewards_of_its_formula(
    name, tmp_path
):
    folder, expected = family(tmp_path / "model", name)
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(
        rewards(folder), expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )


def changed(family: str, config: dict, tensors: dict, make=tiny.make_family):
    """Returns what makes a checkpoint of that family with fields of config.json and tensors
    changed (None: dropped).
    """

    def build(folder):
        make(folder, family)
        held = load_file(folder / "model.safetensors") | tensors
        tiny.write_weights(
            folder, {key: tensor for key, tensor in held.items() if tensor is not None}
        )
        fields = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(fields | config))
        return folder

    return build


def files(config=None, **contents: bytes):
    """Returns what makes a folder with these files (__ stands for a dot) and perhaps
    config.json.
    """

    def build(folder):
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        if config:
            config.save_pretrained(folder)
        return folder

    return build


TWO, NO_HEAD = {"score.2.weight": torch.ones(2, 32)}, {"score.weight": None}
PROCESS = {"architectures": ["Qwen2ForProcessRewardModel"]}
LANGUAGE_MODEL = changed("OpenRLHF", {"architectures": ["LlamaForCausalLM"]}, NO_HEAD)
BY_FILE = "audit export"
REFUSED = {  # what is refused -> what makes one, and words of the line that refuses it
    "critics of OpenRLHF": (
        changed("OpenRLHF, normalised", {"architectures": ["CriticModel"]}, {}),
        ["CriticModel"],
    ),
    "two heads in one file": (
        changed("OpenRLHF", {}, {"v_head.summary.weight": torch.ones(1, 32)}),
        ["unexpected", "v_head"],
    ),
    "a layer of the head is missing": (
        changed("GRM-sftreg", {}, {"v_head.summary.2.weight": None}),
        ["lacks head tensors", "head v_head"],
    ),
    "other models that read pictures": (
        files(
            transformers.LlavaConfig(architectures=["LlavaForSequenceClassification"])
        ),
        ["reads pictures"],
    ),
}


def refusal(make, folder, *words: str, **options) -> str:
    """The one line that refuses such a checkpoint, checked to hold these words."""
    return refusal_of(lambda: open_model(make(folder), device="cpu", **options), *words)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(name, tmp_path):
    make, words = REFUSED[name]
    refusal(make, tmp_path / "model", *words)


# --- the shapes that people use -------------------------------------------------------------------

SMALL = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_size": 32,
    "num_labels": 1,
    "intermediate_size": 64,
}
KV = SMALL | {"num_key_value_heads": 2}
MOE = {
    "num_experts": 4,
    "num_local_experts": 4,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 2,
}
GENERATION = tiny.TEMPLATES["chatml"].replace(
    "{%- for", "{% generation %}{% endgeneration %}{%- for"
)
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
}


def own_class(config, label: int | None = None, kind: str = "", **tokenizer_options):
    """A checkpoint that transformers has a class for: the reference is that class, on whole
    conversations.
    """

    def build(folder):
        if kind:
            tiny.make_checkpoint(folder, kind, **tokenizer_options)
        else:
            tiny.save_other(folder, config(), **tokenizer_options)
        return folder, oracle.own_logits(folder, PROMPT, REPLIES)[:, label or 0]

    return build, {} if label is None else {"label": label}


def decoder(
    config,
    label: int | None = None,
    template: str = "llama3",
    family: str = "llama",
    **fields,
):
    return own_class(
        lambda: config(**KV | fields), label, family=family, template=template
    )


def encoder(config, label: int | None = None, template=None, **fields):
    return own_class(
        lambda: config(**SMALL | fields), label, family="deberta", template=template
    )


def kind(name: str, **options):
    return own_class(None, None, name, **options)


def by_name(name: str):
    return (lambda folder: family(folder, name)), {}


def pickled(shards: int):
    def build(folder):
        tiny.make_checkpoint(folder, "linear_llama", shards=shards)
        expected = oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]
        pickle_weights(folder)
        return folder, expected

    return build, {}


def adapter(folder):
    return folder, make_adapter(
        folder, tiny.make_checkpoint(folder.with_name("base"), "linear_llama")
    )


def with_bias(folder):
    changed("no architecture", {}, {"score.bias": torch.tensor([0.7])})(folder)
    plain = by_formula(folder, tiny.FAMILIES["no architecture"])
    return folder, plain + 0.7


def refused(make, *words: str):
    return (lambda folder: (make(folder), None)), {"words": words}


def quantised(method: str):
    fields = {"quantization_config": {"quant_method": method, "bits": 4}}
    return refused(changed("OpenRLHF", fields, {}), "full precision")


def other_class(name: str, tensors=None, base: str = "OpenRLHF"):
    return refused(
        changed(base, {"architectures": [name]}, tensors or NO_HEAD), BY_FILE
    )


ASK = "Question: {}\nAnswer: {}\nIs this answer good?"
OPEN_USER, OPEN_ASSISTANT = (
    f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ("user", "assistant")
)
SHEPHERD = "{} {} ки"


def template_of(text: str) -> str:
    """A chat template that writes this text, with prompt and reply in its two gaps; jinja drops
    a last line break.
    """
    return (
        text.format("{{ messages[0]['content'] }}", "{{ messages[1]['content'] }}")
        + "{{ '' }}"
    )


def judge(
    head: str, text: str = "", at: int = -1, config=None, inputs=None, **tokenizer
):
    """A language model whose answer, one token or another, is the reward, by its own class. `text`:
    see template_of.

    inputs(tokenizer): the ids that the family feeds for REPLIES, of which `at` is the place that is
    read.
    """

    def build(folder):
        made = config or t.LlamaConfig(**KV)
        tiny.save_other(
            folder,
            made,
            **{"auto": t.AutoModelForCausalLM, "vocabulary": ["yes", "no"]} | tokenizer,
        )
        if text:
            (folder.parent / "judge.jinja").write_text(template_of(text))
            options["template"] = folder.parent / "judge.jinja"
        own = AutoTokenizer.from_pretrained(folder)
        fed = (
            inputs(own)
            if inputs
            else [own(text.format(PROMPT, reply))["input_ids"] for reply in REPLIES]
        )
        logits = (
            oracle.next_logits(folder, fed, at)[
                :, own.convert_tokens_to_ids(head.split(","))
            ]
            .double()
            .numpy()
        )
        return folder, logits[:, 0] - logits[:, 1:].sum(1)

    options = {"head": head}
    return build, options


def in_llama31(tokenizer) -> list[list[int]]:
    return oracle.input_ids(tokenizer, PROMPT, REPLIES)


def step_as_user_turn(tokenizer) -> list[list[int]]:
    """RLHFlow's process models: the step ends the user's turn, and the assistant says "+"."""
    turns = [
        [
            {"role": "user", "content": f"{PROMPT} {reply}"},
            {"role": "assistant", "content": "+"},
        ]
        for reply in REPLIES
    ]
    return [
        tokenizer(
            tokenizer.apply_chat_template(turn, tokenize=False),
            add_special_tokens=False,
        )["input_ids"]
        for turn in turns
    ]


t = transformers
LORA = (adapter, {})
# the shapes of reward models, 2024 to 2026: how one is made with its reference rewards, and options
SHAPES = {
    "Skywork v0.1 and v0.2 (Llama 3.1)": kind("linear_llama", template="llama31"),
    "Skywork v0.1 and v0.2 (Gemma 2)": kind("linear_gemma2"),
    "Skywork V2 (Qwen3)": kind("linear_qwen3"),
    "GRM-ft (Llama 3.2)": kind("linear_llama"),
    "AceMath-RM (Qwen2)": decoder(t.Qwen2Config, template="chatml", family="qwen"),
    "BTRM (Qwen2)": decoder(
        t.Qwen2Config, template="qwen3", family="qwen", tie_word_embeddings=True
    ),
    "RM-Gemma (Gemma 1)": own_class(
        lambda: t.GemmaConfig(**KV, head_dim=16), family="gemma", template="gemma"
    ),
    "RM-Mistral": decoder(t.MistralConfig, sliding_window=None),
    "Unified-Feedback (Mistral)": decoder(t.MistralConfig, sliding_window=4096),
    "FsfairX (Llama 3)": kind("linear_llama", template="llama3"),
    "distilled from R1 (Qwen2)": decoder(
        t.Qwen2Config, template="llama3_no_bos", family="qwen"
    ),
    "saved by TRL's trainer": kind("linear_qwen3", pad="eos", template="chatml"),
    "weights in bfloat16": kind("linear_llama", dtype="bfloat16", template="llama3"),
    "a template with {% generation %}": kind("linear_qwen3", template=GENERATION),
    "Gemma-3, text": own_class(
        lambda: t.Gemma3TextConfig(**KV, head_dim=16), family="gemma", template="gemma"
    ),
    "Pythia (GPT-NeoX)": decoder(t.GPTNeoXConfig),
    "GPT-2": own_class(
        lambda: t.GPT2Config(n_embd=32, n_layer=2, n_head=4, num_labels=1),
        template="llama3",
    ),
    "Phi-3": decoder(t.Phi3Config),
    "OLMo-2": decoder(t.Olmo2Config),
    "Tulu-3-RM (.bin)": pickled(1),
    "RewardBench 2's own suite (.bin in parts)": pickled(2),
    "Mixtral": decoder(t.MixtralConfig, **MOE),
    "Qwen3-MoE": decoder(t.Qwen3MoeConfig, head_dim=16, **MOE),
    "OpenAssistant (DeBERTa, pairs)": kind("deberta"),
    "ModernBERT, pairs": encoder(t.ModernBertConfig, global_attn_every_n_layers=2),
    "DeBERTa with a chat template": kind("deberta", template="chatml"),
    "ModernBERT with a chat template": encoder(t.ModernBertConfig, template="chatml"),
    "RoBERTa, two labels": encoder(t.RobertaConfig, 1, num_labels=2, type_vocab_size=1),
    "DistilBERT, five labels": own_class(
        lambda: t.DistilBertConfig(
            dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=5
        ),
        4,
        family="deberta",
    ),
    "Llama, two labels": decoder(t.LlamaConfig, 1, num_labels=2),
    "HelpSteer (Llama, five attributes)": decoder(t.LlamaConfig, 0, num_labels=5),
    "Gemma-3 with pictures": own_class(
        lambda: t.Gemma3Config(
            text_config=KV | {"head_dim": 16},
            vision_config=VISION,
            mm_tokens_per_image=4,
            num_labels=1,
        ),
        family="gemma",
        template="gemma",
    ),
    **{
        name: by_name(of)
        for name, of in {
            "INF-ORM": "INF-ORM",
            "Qwen2.5-Math-RM": "Qwen2.5-Math-RM, WorldPM",
            "WorldPM": "Qwen2.5-Math-RM, WorldPM",
            "Athene": "Athene",
            "InternLM2": "InternLM2",
            "Eurus": "Eurus, UltraRM",
            "UltraRM": "Eurus, UltraRM",
            "beaver": "beaver",
            "OpenRLHF": "OpenRLHF",
            "OpenRLHF, normalised": "OpenRLHF, normalised",
            "GRM-sftreg": "GRM-sftreg",
            "LLaMA-Factory": "LLaMA-Factory",
            "verl, AReaL": "verl, AReaL",
        }.items()
    },
    "LoRA adapter": LORA,
    "saved from FSDP": by_name("saved from FSDP"),
    "architectures: null": by_name("no architecture"),
    "a bias in the head": (with_bias, {}),
    "shards of DeepSpeed": refused(
        files(t.LlamaConfig(), mp_rank_00_model_states__pt=b"x"), "zero_to_fp32"
    ),
    "bitsandbytes": quantised("bitsandbytes"),
    "GPTQ": quantised("gptq"),
    "GGUF": refused(files(model__gguf=b"GGUF"), "in safetensors"),
    "Nemotron-70B-Reward-HF": judge("!", inputs=in_llama31, template="llama31"),
    "generative judges": judge("yes,no", f"{OPEN_USER}{ASK}<|eot_id|>{OPEN_ASSISTANT}"),
    "Math-Shepherd": judge("+,-", SHEPHERD),
    "RLHFlow's process models": judge(
        "+,-",
        OPEN_USER + "{} {}<|eot_id|>" + OPEN_ASSISTANT,
        -3,
        inputs=step_as_user_turn,
        template="llama3",
    ),
    "Qwen2.5-Math-PRM": refused(changed("INF-ORM", PROCESS, TWO), BY_FILE),
    "LDL": other_class("LDLRewardModel27B"),
    "GPM": refused(
        changed(
            "OpenRLHF",
            {"architectures": ["CustomRewardModel"]},
            {"score.weight": torch.ones(6, 32)},
        ),
        BY_FILE,
    ),
    "PairRM": other_class("DebertaV2PairRM"),
    "SteamSHP": other_class("T5ForConditionalGeneration"),
    "DPO policies": refused(LANGUAGE_MODEL, "--reference ", "--head yes,no"),
}


def outcome_of(name: str, folder) -> tuple[str, str]:
    """What becomes of a shape: loads, by file, with a reference, or refused; and how it loads or
    the line.
    """
    build, options = SHAPES[name]
    made, expected = build(folder)
    if expected is None:
        words = options["words"]
        line = refusal(lambda folder: made, folder, *words)
        kinds = {BY_FILE: "by file", "--reference ": "with REFERENCE="}
        return next(
            (kind for word, kind in kinds.items() if word in words), "refused"
        ), line.replace(str(folder), "it")
    if "head" in options:  # told by the line that refuses it without
        refusal(
            lambda folder: made,
            folder,
            "--head yes,no",
            template=options.get("template"),
        )
    model = open_model(made, device="cpu", **options | {"dtype": "float32"})
    scored = vocabulary.score_replies(model, PROMPT, REPLIES)
    np.testing.assert_allclose(
        scored, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max())
    )
    assert np.ptp(expected) > 1e-3
    given = {
        "label": "LABEL={}",
        "head": "HEAD={}",
        "template": "a template of its own as TEMPLATE=",
    }
    said = "".join(
        f", {text.format(options[option])}"
        for option, text in given.items()
        if option in options
    )
    return "loads", f"as `{model.head_name}`, read at `{model.read_at}`{said}"


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_loads_and_equals_its_reference_or_is_refused_with_the_way(
    name, tmp_path
):
    outcome, how = outcome_of(name, tmp_path / "model")
    assert FORMATS.loc[name].tolist() == [outcome, how]


def test_the_docs_count_the_shapes_that_load_and_those_that_need_another_way():
    outcomes = FORMATS["outcome"].value_counts()
    assert (
        set(FORMATS.index) == set(SHAPES)
        and len(SHAPES) == 63 == outcomes.sum()
        and outcomes["loads"] >= 38
    )
    told = (
        f"{outcomes['loads']} of the 63 load, {outcomes['by file']} are scored by file, "
        f"{outcomes['with REFERENCE=']} with a reference, and {outcomes['refused']} are refused."
    )
    assert told in DOCS.read_text(encoding="utf-8"), told
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    loading = re.search(r"Of 63 published \[formats\]\S+\D* (\d+) load", readme)
    assert loading and int(loading[1]) == outcomes["loads"]


def test_a_policy_and_the_model_before_it_have_implicit_rewards_as_the_line_says(
    tmp_path,
):
    policy, before = (
        tiny.save_other(
            tmp_path / name,
            t.LlamaConfig(**KV),
            seed=seed,
            template="llama3",
            auto=t.AutoModelForCausalLM,
        )
        for seed, name in enumerate(("policy", "before"))
    )
    refusal(lambda folder: policy, policy, "--reference model")
    model = open_model(str(policy), str(before), device="cpu")
    assert np.ptp(vocabulary.score_replies(model, PROMPT, REPLIES)) > 1e-3


def test_every_name_of_a_tensor_has_its_source():
    table = pd.read_csv(ROOT / "data" / "tensor_names.csv", keep_default_na=False)
    assert (table[["used_by", "applies_to", "pattern", "source"]] != "").all(axis=None)


# --- formats --------------------------------------------------------------------------------------


def pickle_weights(folder) -> None:
    """Save the weights as pickles, in as many files as there were, and take the safetensors
    away.
    """
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        # two names for one tensor
        if (tied := tensors.get("model.embed_tokens.weight")) is not None:
            tensors["lm_head.weight"] = tied
        torch.save(tensors, folder / _pickled(path.name))
        path.unlink()
    if (index := folder / "model.safetensors.index.json").is_file():
        (folder / "pytorch_model.bin.index.json").write_text(
            index.read_text()
            .replace(".safetensors", ".bin")
            .replace('"model-', '"pytorch_model-')
        )
        index.unlink()


def _pickled(name: str) -> str:
    return name.replace("model", "pytorch_model", 1).replace(".safetensors", ".bin")


@pytest.mark.parametrize("shards", [1, 2])
def test_pickled_weights_are_converted_once_and_again_if_they_or_the_code_change(
    shards, tmp_path, capsys, monkeypatch
):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama", shards=shards)
    before, expected = set(folder.iterdir()), rewards(folder)
    pickle_weights(folder)
    for told in (True, False):
        assert (
            rewards(folder).tolist() == expected.tolist()
            and ("pickled" in "".join(capsys.readouterr())) == told
        )
    file = sorted(folder.glob("*.bin"))[0]
    torch.save({name: 1.5 * tensor for name, tensor in torch.load(file).items()}, file)
    saved_anew = rewards(folder)
    assert np.abs(saved_anew - expected).max() > 0.1 and "pickled" in "".join(
        capsys.readouterr()
    )
    monkeypatch.setattr(plain.lib_io, "hash_of_code", lambda paths: "other code")
    assert rewards(folder).tolist() == saved_anew.tolist() and "pickled" in "".join(
        capsys.readouterr()
    )
    assert not list(folder.glob("*.safetensors")) and len(set(folder.iterdir())) == len(
        before
    )


def test_a_head_beside_pickled_weights_and_a_conversion_that_was_stopped_are_read(
    tmp_path,
):
    folder = tiny.make_family(tmp_path / "head", "LLaMA-Factory")
    expected = rewards(folder)
    pickle_weights(folder)
    assert {path.name for path in folder.glob("*.bin")} == {
        "pytorch_model.bin",
        "value_head.bin",
    }
    assert rewards(folder).tolist() == expected.tolist()
    (converted,) = (tmp_path / "data" / "cache" / "converted").iterdir()
    (converted / "config.json").unlink()  # it is written last
    next(converted.glob("*.safetensors")).write_bytes(b"torn")
    assert rewards(folder).tolist() == expected.tolist()


@pytest.mark.parametrize("content", [{1: torch.ones(2)}, {"a": 3}, [1]], ids=str)
def test_a_pickle_that_holds_no_named_tensors_is_one_line(content, tmp_path):
    folder = tiny.make_checkpoint(tmp_path, "linear_llama")
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    refusal_of(
        lambda: rewards(folder), "pytorch_model.bin cannot be read as weights alone"
    )


class Harmful:
    """What a pickle can hold: a call that is made when it is read."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return self.trace.touch, ()


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    pickle_weights(folder)
    torch.save(
        {"score.weight": Harmful(tmp_path / "ran")}, folder / "pytorch_model.bin"
    )
    refusal_of(lambda: rewards(folder), "cannot be read as weights alone")
    assert not (tmp_path / "ran").exists() and not list(folder.glob("*.safetensors"))


def make_adapter(folder, base, **fields) -> np.ndarray:
    """Write a LoRA adapter as peft does; return the rewards of REPLIES by base and adapter side
    by side.
    """
    settings = {
        "r": 4,
        "lora_alpha": 16,
        "target_modules": ["q_proj", "down_proj"],
    } | fields
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(1)
        plain = transformers.AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=1
        )
        model = peft.get_peft_model(
            plain, peft.LoraConfig(task_type="SEQ_CLS", **settings)
        ).eval()
        for parameter in (
            parameter for parameter in model.parameters() if parameter.requires_grad
        ):
            parameter.data += torch.randn(parameter.shape) / 8
        model.save_pretrained(folder)
    ids = oracle.input_ids(AutoTokenizer.from_pretrained(base), PROMPT, REPLIES)
    with torch.no_grad():
        return np.array(
            [model(input_ids=torch.tensor([row])).logits.item() for row in ids]
        )


MERGED = {
    "lora": {},
    "rslora, other ranks": {
        "use_rslora": True,
        "rank_pattern": {"q_proj": 2},
        "alpha_pattern": {"down_proj": 3},
    },
    "magnitudes": {"use_dora": True},
    "biases": {"bias": "all"},
    "the embedding table": {"target_modules": ["embed_tokens", "v_proj"]},
    "a norm of its own": {"modules_to_save": ["score", "norm"]},
}


@pytest.mark.parametrize("name", MERGED)
def test_an_adapter_is_merged_into_its_base(name, tmp_path, monkeypatch):
    base = tiny.make_checkpoint(
        tmp_path / "base", "linear_llama", shards=2 if name == "lora" else 1
    )
    expected = make_adapter(tmp_path / "adapter", base, **MERGED[name])
    # as a newer peft writes what is not used
    edit(tmp_path / "adapter" / "adapter_config.json", new_scale=None)
    assert np.abs(expected - rewards(base)).max() > 0.1
    np.testing.assert_allclose(
        rewards(tmp_path / "adapter"), expected, rtol=0, atol=1e-4
    )
    merged = plain.open_files(str(tmp_path / "adapter"), "").folder
    with monkeypatch.context() as patch:
        patch.setattr(io, "versions", lambda: {"torch": "0.1"})
        assert plain.open_files(str(tmp_path / "adapter"), "").folder != merged
    elsewhere = base.rename(tmp_path / "elsewhere")
    refusal_of(lambda: rewards(tmp_path / "adapter"), f"adapter of {base}", "--base ")
    np.testing.assert_allclose(
        rewards(tmp_path / "adapter", base=elsewhere), expected, rtol=0, atol=1e-4
    )
    refusal_of(
        lambda: rewards(elsewhere, base=elsewhere), "is no adapter", "leave base out"
    )


def test_of_a_head_that_an_adapter_stores_twice_the_trained_one_is_read(
    tmp_path, capsys
):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    expected = make_adapter(tmp_path / "adapter", base)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(file)
    head = "base_model.model.score"
    trained = tensors[f"{head}.weight"]
    tensors[f"{head}.weight"] = trained + 1
    tensors[f"{head}.modules_to_save.default.weight"] = trained
    tensors[f"{head}.original_module.weight"] = trained + 2
    save_file(tensors, file, metadata={"format": "pt"})
    found = rewards(tmp_path / "adapter")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert f"{head}.weight is stored twice" in capsys.readouterr().err


def test_an_adapter_of_a_language_model_brings_the_head_and_may_be_pickled(tmp_path):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    expected = make_adapter(tmp_path / "adapter", base)
    tensors = load_file(base / "model.safetensors")
    del tensors["score.weight"]
    tiny.write_weights(base, tensors)
    edit(base / "config.json", architectures=["LlamaForCausalLM"])
    np.testing.assert_allclose(
        rewards(tmp_path / "adapter"), expected, rtol=0, atol=1e-4
    )
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    torch.save(load_file(file), file.with_suffix(".bin"))
    file.unlink()
    np.testing.assert_allclose(
        rewards(tmp_path / "adapter"), expected, rtol=0, atol=1e-4
    )


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def of_tensors(change):
    """Returns what changes an adapter's tensors: change(name, tensor) gives the new pair, or
    None to leave it out.
    """

    def spoil(folder):
        file = folder / "adapter_model.safetensors"
        pairs = [
            pair
            for name, tensor in load_file(file).items()
            if (pair := change(name, tensor))
        ]
        save_file({name: tensor.contiguous() for name, tensor in pairs}, file)

    return spoil


def of_config(**fields):
    return lambda folder: edit(folder / "adapter_config.json", **fields)


NOT_MERGED = {  # options of peft, what is changed afterwards, and words of the line
    "PiSSA": ({"init_lora_weights": "pissa"}, None, "init_lora_weights 'pissa'"),
    "a bias that the base lacks": ({"lora_bias": True}, None, "does not merge"),
    "names of a running model": (
        {},
        of_tensors(
            lambda n, t: (n.replace("lora_A.weight", "lora_A.default.weight"), t)
        ),
        "does not take up",
    ),
    "tensors of another rank": (
        {},
        of_tensors(lambda n, t: (n, t[:2] if "lora_A" in n else t)),
        "does not merge",
    ),
    "half of a pair": (
        {},
        of_tensors(lambda n, t: None if "0.mlp.down_proj.lora_B" in n else (n, t)),
        "take up",
    ),
    "no head": (
        {},
        of_tensors(lambda n, t: None if "score" in n else (n, t)),
        "score.weight",
    ),
    "magnitudes that are not there": ({}, of_config(use_dora=True), "magnitude"),
    "a field of a newer peft": ({}, of_config(new_scale=3), "not know its new_scale"),
    "another kind": ({}, of_config(peft_type="IA3"), "peft_type 'IA3'"),
    "no rank": ({}, of_config(r=None), "does not merge"),
    "no base": ({}, of_config(base_model_name_or_path=None), "--base "),
    "no object": (
        {},
        lambda folder: (folder / "adapter_config.json").write_text("[]"),
        "adapter_config.json",
    ),
    "torn": (
        {},
        lambda folder: (folder / "adapter_model.safetensors").write_bytes(b"12"),
        "adapter_model.safetensors",
    ),
    "no weights": (
        {},
        lambda folder: (folder / "adapter_model.safetensors").unlink(),
        "no weights",
    ),
}


@pytest.mark.parametrize("name", NOT_MERGED)
def test_an_adapter_that_is_not_merged_as_it_is_there_is_refused(name, tmp_path):
    options, spoil, words = NOT_MERGED[name]
    make_adapter(
        tmp_path / "adapter",
        tiny.make_checkpoint(tmp_path / "base", "linear_llama"),
        **options,
    )
    if spoil:
        spoil(tmp_path / "adapter")
    refusal_of(lambda: rewards(tmp_path / "adapter"), "adapter", words)


def test_an_adapter_of_another_base_is_refused(tmp_path):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    make_adapter(tmp_path / "adapter", base)
    tiny.make_checkpoint(base, "linear_gemma2")
    refusal_of(lambda: rewards(tmp_path / "adapter"), "own base")
