"""Families of reward models: each as it stores its head, against its formula written out or its own
class; converted formats and adapters.
"""

import json
import warnings

import numpy as np
import oracle
import pandas as pd
import peft
import pytest
import tiny
import torch
import transformers as t
from conftest import refusal_of
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from audit.opening import open_model, plain
from lib import ROOT
from lib.scoring import vocabulary

PROMPT = "What, in one word, is the greatest thing ever?"
REPLIES = ["love", " hate and war", "你好"]
FORMATS = pd.read_csv(ROOT / "data" / "formats.csv", index_col="shape")


def rewards(folder, **options) -> np.ndarray:
    model = open_model(folder, device="cpu", **options)
    return vocabulary.score_replies(model, PROMPT, REPLIES)


def assert_equal(found, expected) -> None:
    most = 1e-5 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)
    assert np.ptp(expected) > 1e-3


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What is merged or renamed is written under the test's own folder."""
    monkeypatch.setattr(plain, "ROOT", tmp_path)


def edit(file, **fields):
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def change(folder, **tensors) -> None:
    """Write these tensors (None: dropped) beside the others of a checkpoint."""
    held = load_file(folder / "model.safetensors") | tensors
    kept = {key: tensor for key, tensor in held.items() if tensor is not None}
    tiny.write_weights(folder, kept)


# --- how shapes are made: folder -> the checkpoint and its reference rewards ----------------------

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
LINEAR_ATTENTION = {
    "head_dim": 16,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "layer_types": ["linear_attention", "full_attention"],
}
QWEN_SEES = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_heads": 4,
    "out_hidden_size": 32,
    "deepstack_visual_indexes": [],
}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
}


def own_class(config, label: int = 0, **tokenizer):
    """A checkpoint that transformers has a class for: the reference is that class, on whole
    conversations.
    """

    def build(folder):
        tiny.save_other(folder, config, **tokenizer)
        return folder, oracle.own_logits(folder, PROMPT, REPLIES)[:, label]

    return build, {"label": label} if config.num_labels > 1 else {}


def decoder(config, label: int = 0, family="llama", template="llama3", **fields):
    return own_class(config(**KV | fields), label, family=family, template=template)


def encoder(config, label: int = 0, template=None, **fields):
    config = config(**SMALL | fields)
    return own_class(config, label, family="deberta", template=template)


def kind(name: str, **options):
    def build(folder):
        tiny.make_checkpoint(folder, name, **options)
        return folder, oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]

    return build, {}


def by_formula(name: str):
    """A family of tiny.py: the reference is its formula at the conversation's last token."""

    def build(folder):
        stored, own_names = tiny.FAMILIES[name], folder.with_name("plain")
        tiny.make_family(folder, name, own_names)
        at = own_names if stored.store else folder
        tokenizer, tensors = AutoTokenizer.from_pretrained(at), oracle.read_tensors(at)
        ids = oracle.input_ids(tokenizer, PROMPT, REPLIES)
        states = oracle.hidden_states(at, ids)
        found = [float(stored.formula(tensors, hidden[-1])) for hidden in states]
        return folder, np.array(found)

    return build, {}


def pickled(shards: int):
    def build(folder):
        tiny.make_checkpoint(folder, "linear_llama", shards=shards)
        expected = oracle.own_logits(folder, PROMPT, REPLIES)[:, 0]
        pickle_weights(folder)
        return folder, expected

    return build, {}


def pickle_weights(folder) -> None:
    """Save the weights as pickles, in as many files as there were, and take the safetensors
    away.
    """
    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        # two names for one tensor
        if (tied := tensors.get("model.embed_tokens.weight")) is not None:
            tensors["lm_head.weight"] = tied
        name = path.name.replace("model", "pytorch_model", 1)
        torch.save(tensors, folder / name.replace(".safetensors", ".bin"))
        path.unlink()
    if (index := folder / "model.safetensors.index.json").is_file():
        text = index.read_text().replace(".safetensors", ".bin")
        text = text.replace('"model-', '"pytorch_model-')
        (folder / "pytorch_model.bin.index.json").write_text(text)
        index.unlink()


def adapter(folder):
    base = tiny.make_checkpoint(folder.with_name("base"), "linear_llama")
    return folder, make_adapter(folder, base)


def make_adapter(folder, base, **fields) -> np.ndarray:
    """Write a LoRA adapter as peft does; return the rewards of REPLIES by base and adapter side
    by side.
    """
    how = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"]} | fields
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore"):
        torch.manual_seed(1)
        plain = t.AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
        model = peft.get_peft_model(plain, peft.LoraConfig("SEQ_CLS", **how)).eval()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data += torch.randn(parameter.shape) / 8
        model.save_pretrained(folder)
    ids = oracle.input_ids(AutoTokenizer.from_pretrained(base), PROMPT, REPLIES)
    with torch.no_grad():
        rows = [model(input_ids=torch.tensor([row])).logits.item() for row in ids]
    return np.array(rows)


def with_bias(folder):
    made, plain = by_formula("no architecture")[0](folder)
    change(made, **{"score.bias": torch.tensor([0.7])})
    return made, plain + 0.7


def refused(family: str, architecture: str, tensors=None, **fields):
    """A family's checkpoint with another architecture, and other tensors and fields."""

    def build(folder):
        tiny.make_family(folder, family)
        change(folder, **tensors or {})
        edit(folder / "config.json", **{"architectures": [architecture]} | fields)
        return folder, None

    return build, {}


def quantised(method: str):
    fields = {"quantization_config": {"quant_method": method, "bits": 4}}
    return refused("OpenRLHF", "RewardModel", **fields)


def one_file(name: str):
    def build(folder):
        t.LlamaConfig().save_pretrained(folder)
        (folder / name).write_bytes(b"x")
        return folder, None

    return build, {}


ASK = "Question: {}\nAnswer: {}\nIs this answer good?"
OPEN_USER, OPEN_ASSISTANT = (
    f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ("user", "assistant")
)


def judge(head: str, text: str = "", at: int = -1, inputs=None, **tokenizer):
    """A language model whose answer, one token or another, is the reward, by its own class. `text`:
    what its template writes, with prompt and reply in the two gaps.

    inputs(tokenizer): the ids that the family feeds for REPLIES, of which `at` is the place that is
    read.
    """
    options = {"head": head}

    def build(folder):
        auto = {"auto": t.AutoModelForCausalLM, "vocabulary": ["yes", "no"]}
        tiny.save_other(folder, t.LlamaConfig(**KV), **auto | tokenizer)
        if text:
            turns = (f"{{{{ messages[{i}]['content'] }}}}" for i in (0, 1))
            options["template"] = folder.parent / "judge.jinja"
            # jinja drops a last line break
            options["template"].write_text(text.format(*turns) + "{{ '' }}")
        own = AutoTokenizer.from_pretrained(folder)
        whole = [own(text.format(PROMPT, reply))["input_ids"] for reply in REPLIES]
        logits = oracle.next_logits(folder, inputs(own) if inputs else whole, at)
        named = logits[:, own.convert_tokens_to_ids(head.split(","))].double().numpy()
        return folder, named[:, 0] - named[:, 1:].sum(1)

    return build, options


def in_llama31(tokenizer) -> list[list[int]]:
    return oracle.input_ids(tokenizer, PROMPT, REPLIES)


def step_as_user_turn(tokenizer) -> list[list[int]]:
    """RLHFlow's process models: the step ends the user's turn, and the assistant says "+"."""
    return [
        oracle.tokenise(tokenizer, oracle.render(tokenizer, asked, "+"), "single")
        for asked in (f"{PROMPT} {reply}" for reply in REPLIES)
    ]


TWO, NO_HEAD = {"score.2.weight": torch.ones(2, 32)}, {"score.weight": None}
SIX = {"score.weight": torch.ones(6, 32)}
# the shapes of reward models, 2024 to 2026, in data/formats.csv: how one is made, and the options
SHAPES = {
    "Skywork v0.1 and v0.2 (Llama 3.1)": kind("linear_llama", template="llama31"),
    "Skywork v0.1 and v0.2 (Gemma 2)": kind("linear_gemma2"),
    "Skywork V2 (Qwen3)": kind("linear_qwen3"),
    "GRM-ft (Llama 3.2)": kind("linear_llama"),
    "AceMath-RM (Qwen2)": decoder(t.Qwen2Config, template="chatml", family="qwen"),
    "BTRM (Qwen2)": decoder(
        t.Qwen2Config, template="qwen3", family="qwen", tie_word_embeddings=True
    ),
    "RM-Gemma (Gemma 1)": decoder(
        t.GemmaConfig, template="gemma", family="gemma", head_dim=16
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
    "Gemma-3, text": decoder(
        t.Gemma3TextConfig, template="gemma", family="gemma", head_dim=16
    ),
    "Pythia (GPT-NeoX)": decoder(t.GPTNeoXConfig),
    "GPT-2": own_class(
        t.GPT2Config(n_embd=32, n_layer=2, n_head=4, num_labels=1), template="llama3"
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
        t.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, num_labels=5),
        4,
        family="deberta",
    ),
    "Llama, two labels": decoder(t.LlamaConfig, 1, num_labels=2),
    "HelpSteer (Llama, five attributes)": decoder(t.LlamaConfig, 0, num_labels=5),
    "Gemma-3 with pictures": own_class(
        t.Gemma3Config(
            text_config=KV | {"head_dim": 16},
            vision_config=VISION,
            mm_tokens_per_image=4,
            num_labels=1,
        ),
        family="gemma",
        template="gemma",
    ),
    "INF-ORM": by_formula("INF-ORM"),
    "Qwen2.5-Math-RM": by_formula("Qwen2.5-Math-RM, WorldPM"),
    "WorldPM": by_formula("Qwen2.5-Math-RM, WorldPM"),
    "Athene": refused("OpenRLHF", "AtheneForSequenceClassification", NO_HEAD),
    "InternLM2": refused("OpenRLHF", "InternLM2ForRewardModel", model_type="internlm2"),
    "Eurus": by_formula("Eurus, UltraRM"),
    "UltraRM": by_formula("Eurus, UltraRM"),
    "beaver": refused("OpenRLHF", "LlamaModelForScore", do_normalize=True),
    "OpenRLHF": by_formula("OpenRLHF"),
    "OpenRLHF, normalised": refused("OpenRLHF", "RewardModel", normalize_reward=True),
    "GRM-sftreg": by_formula("GRM-sftreg"),
    "LLaMA-Factory": by_formula("LLaMA-Factory"),
    "verl, AReaL": by_formula("verl, AReaL"),
    "LoRA adapter": (adapter, {}),
    "saved from FSDP": by_formula("saved from FSDP"),
    "architectures: null": by_formula("no architecture"),
    "a bias in the head": (with_bias, {}),
    "shards of DeepSpeed": one_file("mp_rank_00_model_states.pt"),
    "bitsandbytes": quantised("bitsandbytes"),
    "GPTQ": quantised("gptq"),
    "GGUF": one_file("model.gguf"),
    "Nemotron-70B-Reward-HF": judge("!", inputs=in_llama31, template="llama31"),
    "generative judges": judge("yes,no", f"{OPEN_USER}{ASK}<|eot_id|>{OPEN_ASSISTANT}"),
    "Math-Shepherd": judge("+,-", "{} {} ки"),
    "RLHFlow's process models": judge(
        "+,-",
        OPEN_USER + "{} {}<|eot_id|>" + OPEN_ASSISTANT,
        -3,
        inputs=step_as_user_turn,
        template="llama3",
    ),
    "Qwen2.5-Math-PRM": refused("INF-ORM", "Qwen2ForProcessRewardModel", TWO),
    "LDL": refused("OpenRLHF", "LDLRewardModel27B", NO_HEAD),
    "GPM": refused("OpenRLHF", "CustomRewardModel", SIX),
    "PairRM": refused("OpenRLHF", "DebertaV2PairRM", NO_HEAD),
    "SteamSHP": refused("OpenRLHF", "T5ForConditionalGeneration", NO_HEAD),
    "DPO policies": refused("OpenRLHF", "LlamaForCausalLM", NO_HEAD, id2label=None),
}
OTHERS = {
    name: by_formula(name)
    for name in tiny.FAMILIES
    if name.startswith(("Starling", "saved from"))
}
OTHERS["Qwen3.5"] = own_class(
    t.Qwen3_5Config(
        text_config=KV | LINEAR_ATTENTION, vision_config=QWEN_SEES, num_labels=1
    ),
    family="qwen",
    template="chatml",
)


def test_the_table_holds_the_shapes_and_the_page_counts_those_that_load():
    assert list(FORMATS.index) == list(SHAPES)
    loading = (FORMATS["outcome"] == "loads").sum()
    page = (ROOT / "docs" / "own-models.md").read_text(encoding="utf-8")
    assert f"{loading} of the 63 load" in page


@pytest.mark.parametrize("name", [*SHAPES, *OTHERS])
def test_each_shape_equals_its_reference_or_is_refused_with_the_way(name, tmp_path):
    build, options = (SHAPES | OTHERS)[name]
    folder, expected = build(tmp_path / "model")
    outcome, how = FORMATS.loc[name, ["outcome", "how"]] if name in SHAPES else (0, 0)
    if expected is None:
        refusal_of(lambda: rewards(folder), how)
        assert outcome != "loads"
        return
    model = open_model(folder, device="cpu", **options | {"dtype": "float32"})
    assert_equal(vocabulary.score_replies(model, PROMPT, REPLIES), expected)
    if name in SHAPES:
        assert outcome == "loads"
        assert how.startswith(f"as `{model.head_name}`, read at `{model.read_at}`")


# of an encoder with two token types: the class of its tokenizer, if its file does not say what it
# feeds
TYPED = {
    "a pair": "",
    "a chat template": "",
    "by its class": "DebertaV2Tokenizer",
    "none": "PreTrainedTokenizerFast",
    "one of both texts": "",
}


@pytest.mark.parametrize("name", TYPED)
def test_token_types_are_those_of_the_tokenizer(name, tmp_path):
    template = "chatml" if name == "a chat template" else None
    folder = tiny.make_checkpoint(
        tmp_path / "model", "deberta", template=template, type_vocab_size=2
    )
    if name == "one of both texts":
        file = folder / "tokenizer.json"
        file.write_text(file.read_text().replace('"type_id": 1', '"type_id": 0'))
    if TYPED[name]:
        file = folder / "tokenizer_config.json"
        file.write_text(file.read_text().replace("model_input_names", "unread"))
        edit(file, tokenizer_class=TYPED[name])
    names = AutoTokenizer.from_pretrained(folder).model_input_names
    tokenizer = t.PreTrainedTokenizerFast.from_pretrained(
        folder, model_input_names=names
    )
    own = t.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    replies = [*REPLIES, ""]
    expected = []
    for reply in replies:
        texts = [[PROMPT], [reply]]
        if template:
            texts = [[oracle.render(tokenizer, PROMPT, reply)]]
        with torch.no_grad():
            logits = own(**tokenizer(*texts, return_tensors="pt")).logits
        expected.append(logits.item())
    model = open_model(folder, device="cpu")
    found = vocabulary.score_replies(model, PROMPT, replies)
    assert_equal(found, np.array(expected))
    [alone] = vocabulary.score_replies(model, PROMPT, [""])
    assert abs(alone - found[-1]) < 1e-5


def test_a_prompt_that_sentence_transformers_puts_before_texts_is_refused(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "deberta")
    expected = rewards(folder)
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps({"prompts": {}, "default_prompt_name": None}))
    assert rewards(folder).tolist() == expected.tolist()
    edit(file, prompts={"query": "Rate this: "}, default_prompt_name="query")
    refusal_of(lambda: rewards(folder), "'Rate this: '", "take default_prompt_name out")


NORM = {"score.0.weight": torch.ones(32), "score.1.weight": torch.ones(1, 32)}
OUT = {f"score.{part}.weight": torch.ones(1, 32) for part in ("dense", "out_proj")}
# heads of other kinds, which nothing here reads, and part of what is said of each
OTHER_HEADS = {
    "BART": (t.BartConfig(d_model=32, num_labels=1), "holds classification_head."),
    "T5": (t.T5Config(d_model=32, num_labels=1), "holds classification_head."),
    "XLNet": (t.XLNetConfig(d_model=32, n_head=4, n_layer=1), "holds logits_proj"),
    "a norm": (NO_HEAD | NORM, "linear head"),
    "out_proj": (NO_HEAD | OUT, "linear head"),
}


@pytest.mark.parametrize("name", OTHER_HEADS)
def test_a_head_of_another_kind_is_named_and_nothing_is_to_be_downloaded(
    name, tmp_path
):
    held, words = OTHER_HEADS[name]
    if isinstance(held, dict):
        folder = tiny.make_family(tmp_path, "OpenRLHF")
        change(folder, **held)
    else:
        folder = tiny.save_other(tmp_path, held)
    line = refusal_of(lambda: rewards(folder), words, "audit export")
    assert "download" not in line


def test_an_output_is_chosen_by_its_number_and_told_by_its_name(tmp_path):
    folder = tiny.make_family(tmp_path / "model", "OpenRLHF")
    change(folder, **{"score.weight": torch.ones(2, 32)})
    edit(folder / "config.json", id2label={"0": "bad", "1": "good"})
    edit(folder / "config.json", architectures=["LlamaForSequenceClassification"])
    refusal_of(lambda: rewards(folder), "--label 0 (bad) or 1 (good)")
    edit(folder / "config.json", architectures=["LlamaForTokenClassification"])
    for label in (None, 1):
        words = ("gives each token 2 labels", "PRMTrainer")
        refusal_of(lambda label=label: rewards(folder, label=label), *words)


def test_a_head_under_two_names_is_refused_unless_both_are_one(tmp_path):
    folder = tiny.make_family(tmp_path / "model", "OpenRLHF")
    head = load_file(folder / "model.safetensors")["score.weight"]
    change(folder, **{"module.score.weight": head})
    assert rewards(folder).size
    change(folder, **{"module.score.weight": head + 1})
    refusal_of(lambda: rewards(folder), "score.weight twice")


# --- converted formats ----------------------------------------------------------------------------


def test_a_head_that_peft_trained_in_full_counts(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    expected = rewards(folder)
    head = load_file(folder / "model.safetensors")["score.weight"]
    trained = "score.modules_to_save.default.weight"
    replaced = {"score.weight": None, "score.original_module.weight": head + 1}
    change(folder, **replaced | {trained: head})
    assert rewards(folder).tolist() == expected.tolist()


def test_pickled_weights_are_converted_once_and_again_if_they_change(tmp_path, capsys):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama", shards=2)
    expected = rewards(folder)
    pickle_weights(folder)
    for told in (True, False):
        assert rewards(folder).tolist() == expected.tolist()
        assert ("pickled" in "".join(capsys.readouterr())) == told
    file = sorted(folder.glob("*.bin"))[0]
    torch.save({name: 1.5 * tensor for name, tensor in torch.load(file).items()}, file)
    assert np.abs(rewards(folder) - expected).max() > 0.1


class Harmful:
    """What a pickle can hold: a call that is made when it is read."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return self.trace.touch, ()


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path):
    folder = tiny.make_checkpoint(tmp_path / "model", "linear_llama")
    pickle_weights(folder)
    harmful = {"score.weight": Harmful(tmp_path / "ran")}
    torch.save(harmful, folder / "pytorch_model.bin")
    refusal_of(lambda: rewards(folder), "cannot be read as weights alone")
    assert not (tmp_path / "ran").exists()


# --- adapters -------------------------------------------------------------------------------------

MERGED = {
    "rslora, other ranks": {
        "use_rslora": True,
        "rank_pattern": {"q_proj": 2},
        "alpha_pattern": {"down_proj": 3},
    },
    "a norm of its own": {"modules_to_save": ["score", "norm"]},
}


@pytest.mark.parametrize("name", MERGED)
def test_an_adapter_is_merged_into_its_base(name, tmp_path):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama", shards=2)
    expected = make_adapter(tmp_path / "adapter", base, **MERGED[name])
    assert np.abs(expected - rewards(base)).max() > 0.1
    assert_equal(rewards(tmp_path / "adapter"), expected)
    elsewhere = base.rename(tmp_path / "elsewhere")
    refusal_of(lambda: rewards(tmp_path / "adapter"), f"adapter of {base}", "--base ")
    assert_equal(rewards(tmp_path / "adapter", base=elsewhere), expected)


def test_an_adapters_own_tokenizer_and_template_count_whole(tmp_path):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    make_adapter(tmp_path / "adapter", base)
    by_base = rewards(tmp_path / "adapter")
    own = tmp_path / "own.jinja"
    own.write_text(tiny.TEMPLATES["llama3"])
    expected = rewards(tmp_path / "adapter", template=own)
    tiny.make_tokenizer("llama").save_pretrained(tmp_path / "adapter")
    fields = {"chat_template": own.read_text()}
    edit(tmp_path / "adapter" / "tokenizer_config.json", **fields)
    assert (base / "chat_template.jinja").is_file()
    assert_equal(rewards(tmp_path / "adapter"), expected)
    assert np.abs(expected - by_base).max() > 0.01


def test_an_adapter_of_a_language_model_brings_the_head_and_may_be_pickled(tmp_path):
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    expected = make_adapter(tmp_path / "adapter", base)
    change(base, **NO_HEAD)
    edit(base / "config.json", architectures=["LlamaForCausalLM"])
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    torch.save(load_file(file), file.with_suffix(".bin"))
    file.unlink()
    assert_equal(rewards(tmp_path / "adapter"), expected)


# what the names of the tensors hold that are left out, and part of the line
NOT_MERGED = {
    "half of a pair": ("0.mlp.down_proj.lora_B", "does not take up"),
    "no head": ("score", "score.weight"),
}


@pytest.mark.parametrize("name", NOT_MERGED)
def test_an_adapter_that_is_not_merged_as_it_is_there_is_refused(name, tmp_path):
    lost, words = NOT_MERGED[name]
    base = tiny.make_checkpoint(tmp_path / "base", "linear_llama")
    make_adapter(tmp_path / "adapter", base)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    kept = {key: held for key, held in load_file(file).items() if lost not in key}
    save_file(kept, file)
    refusal_of(lambda: rewards(tmp_path / "adapter"), words)
