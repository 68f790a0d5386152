"""The reward of a reply, computed plainly: a second implementation to hold the library against.

Nothing here comes from the library. The folder's files are read with safetensors and
`AutoTokenizer`; the backbone is transformers' own model and forward pass, over whole sequences
padded on the right, with an attention mask and without a cache; each head is its formula written
out. Slow.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

DATE = "26 Jul 2024"
SENTINEL = "quartz"
# What stands between the end of the user's turn and the reply; a gate reads the hidden state at its
# first token.
HEADERS = {
    "llama": "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    "gemma2": "<end_of_turn>\n<start_of_turn>model\n",
}

# --- inputs ---------------------------------------------------------------------------------------


def render(tokenizer, prompt: str, reply: str) -> str:
    conversation = [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": reply},
    ]
    return tokenizer.apply_chat_template(conversation, tokenize=False, date_string=DATE)


def tokenise(tokenizer, rendered: str, bos: str) -> list[int]:
    """Ids of a rendered conversation with one bos, (`double`) with as many as template and
    tokenizer stack up, or (`none`) with those of the template alone.
    """
    if bos == "none":
        return tokenizer(rendered, add_special_tokens=False).input_ids
    if bos == "double" or tokenizer.bos_token is None:
        return tokenizer(rendered).input_ids
    ids = tokenizer(rendered).input_ids
    assert ids[0] == tokenizer.bos_token_id
    return ids[1:] if ids[1] == tokenizer.bos_token_id else ids


def input_ids(
    tokenizer,
    prompt: str,
    replies: list,
    *,
    reply_mode: str = "text",
    bos: str = "single",
) -> list[list[int]]:
    """The whole input of every reply: rendered by the template (text), or ids between those
    around a sentinel (ids).
    """
    if reply_mode == "text":
        if tokenizer.chat_template is None:
            # Lists, because a single call takes an empty reply for no reply and then leaves out its
            # closing token.
            return [tokenizer([prompt], [text]).input_ids[0] for text in replies]
        return [
            tokenise(tokenizer, render(tokenizer, prompt, text), bos)
            for text in replies
        ]
    if tokenizer.chat_template is None:
        *prefix, closing = tokenizer([prompt], [""]).input_ids[0]
        return [[*prefix, *ids, closing] for ids in replies]
    before, after = render(tokenizer, prompt, SENTINEL).split(SENTINEL)
    prefix, closing = (
        tokenise(tokenizer, before, bos),
        tokenizer(after, add_special_tokens=False).input_ids,
    )
    return [[*prefix, *ids, *closing] for ids in replies]


def comes_back(tokenizer, prompt: str, ids) -> bool:
    """Return whether a reply, written as text within the conversation, is tokenised to the same
    ids.
    """
    as_text = input_ids(
        tokenizer, prompt, [tokenizer.decode(ids, clean_up_tokenization_spaces=False)]
    )
    return as_text == input_ids(tokenizer, prompt, [list(ids)], reply_mode="ids")


def gate_index(tokenizer, model_type: str, ids: list[int]) -> int:
    """Index of the first token of the last occurrence of the reply's header."""
    pattern = tokenizer(HEADERS[model_type], add_special_tokens=False).input_ids
    starts = [i for i in range(len(ids)) if ids[i : i + len(pattern)] == pattern]
    return starts[-1]


# --- weights and backbone -------------------------------------------------------------------------


def read_tensors(folder) -> dict[str, torch.Tensor]:
    folder = Path(folder)
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    return tensors


def _read_config(folder, capped: bool):
    config = AutoConfig.from_pretrained(folder)
    if not capped:
        config.attn_logit_softcapping = None
    return config


def hidden_states(
    folder,
    sequences: list[list[int]],
    *,
    batch: int = 64,
    dtype=torch.float32,
    capped: bool = True,
) -> list[torch.Tensor]:
    """Per sequence the backbone's output after its final norm, (length, d), fp32."""
    tensors = read_tensors(folder)
    model = (
        AutoModel.from_config(_read_config(folder, capped), attn_implementation="eager")
        .to(dtype)
        .eval()
    )
    backbone = {
        name.removeprefix("model."): tensor
        for name, tensor in tensors.items()
        if name.startswith("model.")
    }
    model.load_state_dict(
        {name: tensor.to(dtype) for name, tensor in backbone.items()}, strict=True
    )
    hidden = []
    for start in range(0, len(sequences), batch):
        ids, mask = padded(sequences[start : start + batch])
        with torch.no_grad():
            output = model(
                input_ids=ids, attention_mask=mask, use_cache=False
            ).last_hidden_state
        hidden += [
            row[: int(length)].float()
            for row, length in zip(output, mask.sum(1), strict=True)
        ]
    return hidden


def padded(sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, sequences))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in sequences])
    mask = torch.tensor(
        [[1] * len(row) + [0] * (width - len(row)) for row in sequences]
    )
    return ids, mask


# --- heads, one vector at a time ------------------------------------------------------------------


def _affine(tensors: dict, name: str, x: torch.Tensor) -> torch.Tensor:
    y = tensors[f"{name}.weight"] @ x
    return y + tensors[f"{name}.bias"] if f"{name}.bias" in tensors else y


def _batch_norm(tensors: dict, name: str, x: torch.Tensor) -> torch.Tensor:
    """With the statistics of training: no other row of any batch has a say."""
    centred = (x - tensors[f"{name}.running_mean"]) / torch.sqrt(
        tensors[f"{name}.running_var"] + 1e-5
    )
    return centred * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def _objective_weights(
    tensors: dict, logits: torch.Tensor, temperature: float
) -> torch.Tensor:
    shares = torch.exp(logits / temperature) / torch.exp(logits / temperature).sum()
    return shares * tensors["gating.logit_scale"]


def armorm_reward(
    tensors: dict, config: dict, last: torch.Tensor, gate: torch.Tensor
) -> float:
    for index in (0, 1, 2):
        gate = torch.relu(_affine(tensors, f"gating.layers.{index}", gate))
    weights = _objective_weights(
        tensors, _affine(tensors, "gating.layers.3", gate), config["gating_temperature"]
    )
    objectives = tensors["regression_layer.weight"] @ last
    return float(sum(weights * (objectives @ tensors["reward_transform_matrix"])))


def _quantile_objectives(tensors: dict, count: int, last: torch.Tensor) -> torch.Tensor:
    return (tensors["regression_layer.weight"] @ last).reshape(count, 19).mean(1)


def _weights_by_norms(
    tensors: dict, config: dict, gate: torch.Tensor, places: list, last: int
) -> torch.Tensor:
    """The weights of objectives by a gate with batch norms. places: of its linear layers and their
    norms; last: of its last layer.
    """
    for linear, norm in places:
        gate = torch.relu(_affine(tensors, f"gating.layers.{linear}", gate))
        gate = _batch_norm(tensors, f"gating.layers.{norm}", gate)
    logits = _affine(tensors, f"gating.layers.{last}", gate)
    return _objective_weights(tensors, logits, config.get("gating_temperature", 1))


def qrm_llama_reward(
    tensors: dict, config: dict, last: torch.Tensor, gate: torch.Tensor
) -> float:
    places = [(0, 2), (3, 5), (6, 8)]
    weights = _weights_by_norms(tensors, config, gate, places, 9)
    objectives = _quantile_objectives(tensors, 19, last)
    return float(sum(weights * (objectives @ tensors["reward_transform_matrix"])))


def qrm_gemma_reward(
    tensors: dict, config: dict, last: torch.Tensor, gate: torch.Tensor
) -> float:
    places = [(0, 2), (4, 6), (8, 10)]
    weights = _weights_by_norms(tensors, config, gate, places, 11)
    return float(sum(weights * _quantile_objectives(tensors, 5, last)))


def urm_reward(
    tensors: dict, config: dict, last: torch.Tensor, gate: None = None
) -> float:
    """Attribute means times their weights; mean and uncertainty alternate in the ten rows of
    `score`.
    """
    weights = last
    for index in (0, 2):
        weights = torch.selu(_affine(tensors, f"weights.fc.{index}", weights))
    weights = _affine(tensors, "weights.fc.4", weights)
    means = (tensors["score.weight"] @ last)[0::2]
    return float(sum(means * weights))


def first_score_reward(
    tensors: dict, config: dict, last: torch.Tensor, gate: None = None
) -> float:
    """The first row of `score`: a linear head's reward; for URM, helpfulness, which is what the
    paper's code read.
    """
    return float(tensors["score.weight"][0] @ last)


HEADS = {
    "linear": first_score_reward,
    "urm_helpfulness": first_score_reward,
    "urm": urm_reward,
    "armorm": armorm_reward,
    "qrm_llama": qrm_llama_reward,
    "qrm_gemma": qrm_gemma_reward,
}


def head_name(config: dict) -> str:
    architecture = config["architectures"][0]
    if architecture == "LlamaForRewardModelWithGating":
        return "qrm_llama" if "num_quantiles" in config else "armorm"
    names = {
        "Gemma2ForQuantileSequenceClassification": "qrm_gemma",
        "LlamaForSequenceClassificationWithNormal_Weights": "urm",
    }
    return names.get(architecture, "linear")


# --- the whole ------------------------------------------------------------------------------------


def _encoder_rewards(folder, sequences: list[list[int]], batch: int) -> torch.Tensor:
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    rewards = []
    for start in range(0, len(sequences), batch):
        ids, mask = padded(sequences[start : start + batch])
        with torch.no_grad():
            rewards.append(model(input_ids=ids, attention_mask=mask).logits[:, 0])
    return torch.cat(rewards)


def rewards(
    folder,
    prompt: str,
    replies: list,
    *,
    reply_mode: str = "text",
    bos: str = "single",
    batch: int = 64,
    dtype=torch.float32,
    capped: bool = True,
    head: str | None = None,
):
    """float32 array with the reward of every reply to `prompt`, by the checkpoint in `folder`.

    replies: texts, or (`reply_mode="ids"`) lists of ids. dtype: of the backbone; the head is always
    fp32. capped: if Gemma-2's attention caps its logits. head: a key of HEADS, else what
    config.json says.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = json.loads((Path(folder) / "config.json").read_text())
    sequences = input_ids(tokenizer, prompt, replies, reply_mode=reply_mode, bos=bos)
    if config["model_type"] == "deberta-v2":
        return _encoder_rewards(folder, sequences, batch).numpy()
    tensors = {name: tensor.float() for name, tensor in read_tensors(folder).items()}
    reward_of = HEADS[head or head_name(config)]
    states = hidden_states(folder, sequences, batch=batch, dtype=dtype, capped=capped)
    values = []
    for ids, hidden in zip(sequences, states, strict=True):
        gate = None
        if "gating.logit_scale" in tensors:
            gate = hidden[gate_index(tokenizer, config["model_type"], ids)]
        values.append(reward_of(tensors, config, hidden[-1], gate))
    return torch.tensor(values, dtype=torch.float32).numpy()


def next_logits(folder, sequences: list[list[int]], position: int = -1) -> torch.Tensor:
    """A language model's logits for what follows this position, by its own class, (n,
    vocabulary).
    """
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        return torch.stack(
            [
                model(input_ids=torch.tensor([ids])).logits[0, position]
                for ids in sequences
            ]
        )


def own_logits(folder, prompt: str, replies: list[str]):
    """transformers' own sequence-classification logits, (n, labels), one sequence at a time:
    checks the oracle.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        logits = [
            model(input_ids=torch.tensor([ids])).logits[0]
            for ids in input_ids(tokenizer, prompt, replies)
        ]
    return torch.stack(logits).numpy()
