"""The heads of reward models: from the backbone's output at the last position to one reward, in
fp32.

Their formulas are written here from their publications, their parameters named as in the released
checkpoints.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig

from .. import InputError
from .loading import Files, refusing


class Head(nn.Module):
    """Map hidden states at the last position, (n, d) float32, to rewards on the model's own scale,
    (n,) float32.

    `gate` runs once per prompt, on the state where the user's turn ends; `forward(hidden, gate)`
    for each reply.
    """

    def gate(self, gate_hidden: Tensor) -> Tensor | None:
        """Return the objectives' weights, (objectives,), from the state where the user's turn
        ends, (d,); or None.
        """
        return None


class LinearHead(Head):
    """Linear layers with ReLU between them. Most reward models have a single one, one direction: r
    = w . h.

    `shapes` gives the shapes of its tensors, by name; None means a single layer without bias.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ):
        super().__init__()
        own = shapes or {}
        weights = [key for key in own if key.endswith(".weight")]
        weights.sort(key=lambda key: (len(key), key))
        sizes = [config.hidden_size, *(own[key][0] for key in weights[:-1]), 1]
        has_bias = any(key.endswith(".bias") for key in own)
        layers = [
            nn.Linear(before, after, has_bias) for before, after in pairwise(sizes)
        ]
        hidden = [part for layer in layers[:-1] for part in (layer, nn.ReLU())]
        self.score = nn.Sequential(*hidden, layers[-1]) if hidden else layers[-1]

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return self.score(hidden).squeeze(-1)  # (n, d) -> (n,)


class ArmoHead(Head):
    """ArmoRM: 19 objectives, made independent of verbosity by a fixed matrix T, mixed by a gate
    that sees the prompt.

    r = sum_k g_k (R h . T)_k with g = softmax(MLP(h_gate) / temperature) * scale. (Wang et al.
    2024)
    """

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        objectives = getattr(config, "num_objectives", 19)
        self.regression_layer = nn.Linear(config.hidden_size, objectives, bias=False)
        self.reward_transform_matrix = nn.Parameter(torch.eye(objectives))
        self.gating = Gate(config, objectives, temperature=10.0, blocks="linear")

    def gate(self, gate_hidden: Tensor) -> Tensor:
        return self.gating(gate_hidden)  # (d,) -> (objectives,)

    def forward(self, hidden: Tensor, gate: Tensor) -> Tensor:
        # (n, objectives) -> (n,)
        return self.regression_layer(hidden) @ self.reward_transform_matrix @ gate


class QuantileHead(Head):
    """QRM: each objective has 19 quantiles. A gate that reads the prompt mixes the means of the
    objectives.

    r = sum_k g_k (q . T)_k, where q_k is the mean of objective k's quantiles; the Gemma version has
    no T. (Dorka 2024)
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        *,
        objectives: int,
        transform: bool,
        gate: str,
        temperature: float,
    ):
        super().__init__()
        self.objectives = getattr(config, "num_objectives", objectives)
        quantiles = getattr(config, "num_quantiles", 19)
        self.regression_layer = nn.Linear(
            config.hidden_size, self.objectives * quantiles, bias=False
        )
        if transform:
            self.reward_transform_matrix = nn.Parameter(torch.eye(self.objectives))
        self.gating = Gate(
            config, self.objectives, temperature=temperature, blocks=gate
        )

    def gate(self, gate_hidden: Tensor) -> Tensor:
        gate = self.gating(gate_hidden)  # (d,) -> (objectives,)
        return (
            self.reward_transform_matrix @ gate
            if hasattr(self, "reward_transform_matrix")
            else gate
        )

    def forward(self, hidden: Tensor, gate: Tensor) -> Tensor:
        # (n, objectives, quantiles)
        quantiles = self.regression_layer(hidden).unflatten(-1, (self.objectives, -1))
        return quantiles.mean(-1) @ gate  # (n, objectives) -> (n,)


class UncertaintyHead(Head):
    """URM: five attributes as (mean, log sd) pairs. Weights from the reply's own state mix the
    means.

    r = sum_i mu_i(h) w_i(h), weights not normalised. (Lou et al. 2024)
    """

    ATTRIBUTES = 5

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        d = config.hidden_size
        self.score = nn.Linear(d, 2 * self.ATTRIBUTES, bias=False)
        self.weights = nn.ModuleDict(
            {
                "fc": nn.Sequential(
                    nn.Linear(d, d),
                    nn.SELU(),
                    nn.Linear(d, d),
                    nn.SELU(),
                    nn.Linear(d, self.ATTRIBUTES),
                )
            }
        )

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        # a mean and a log standard deviation of each attribute
        pairs = self.score(hidden).unflatten(-1, (self.ATTRIBUTES, 2))
        means = pairs[..., 0]  # (n, attributes)
        return (means * self.weights["fc"](hidden)).sum(-1)


class HelpfulnessHead(UncertaintyHead):
    """What the paper's code read from URM: the mean of attribute 0, helpfulness, with the
    learned mixture dropped.
    """

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return self.score(hidden)[..., 0]


class Gate(nn.Module):
    """Mixture weights over objectives, softmax(MLP(h) / temperature) * scale; keys as in the
    released checkpoints.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        objectives: int,
        *,
        temperature: float,
        blocks: str,
    ):
        super().__init__()
        width = getattr(config, "gating_hidden_dim", 1024)
        depth = getattr(config, "gating_n_hidden", 3)
        sizes = [config.hidden_size] + [width] * depth
        layers: list[nn.Module] = []
        for block, (before, after) in enumerate(
            zip(sizes[:-1], sizes[1:], strict=True)
        ):
            # ArmoRM's ReLUs are functions, so they take no number
            if blocks == "linear":
                layers.append(nn.Linear(before, after))
                continue
            if blocks == "norm_dropout" and block:
                layers.append(nn.Dropout())
            layers += [
                nn.Linear(before, after, bias=False),
                nn.ReLU(),
                nn.BatchNorm1d(after),
            ]
        layers.append(nn.Linear(width, objectives))
        self.layers = nn.ModuleList(layers)
        self.relu_between = blocks == "linear"
        self.logit_scale = nn.Parameter(torch.ones(1))
        self.temperature = float(getattr(config, "gating_temperature", temperature))

    def forward(self, gate_hidden: Tensor) -> Tensor:
        x = gate_hidden[None]  # BatchNorm wants a batch, (1, d)
        for layer in self.layers[:-1]:
            x = layer(x).relu() if self.relu_between else layer(x)
        logits = self.layers[-1](x)[0]
        return logits.div(self.temperature).softmax(-1) * self.logit_scale


# --- which head a checkpoint holds ----------------------------------------------------------------


class Layout(NamedTuple):
    """How to make a head for a configuration, and the class of its checkpoints. make: None for an
    encoder, which is a whole model. gated: whether a gate reads the end of the user's turn.
    """

    make: Callable[..., Head] | None
    architecture: str = ""
    gated: bool = False


READ_AT = ("last", "last_not_pad")
GATED_LLAMA = "LlamaForRewardModelWithGating"
NORMAL_LLAMA = "LlamaForSequenceClassificationWithNormal_Weights"
QUANTILE_GEMMA = "Gemma2ForQuantileSequenceClassification"
_qrm_llama = partial(
    QuantileHead, objectives=19, transform=True, gate="norm", temperature=5.0
)
_qrm_gemma = partial(
    QuantileHead, objectives=5, transform=False, gate="norm_dropout", temperature=1.0
)
# by name of the head; for each class, the one that counts unless its user names another comes first
LAYOUTS = {
    "armorm": Layout(ArmoHead, GATED_LLAMA, gated=True),
    "qrm_llama": Layout(_qrm_llama, GATED_LLAMA, gated=True),
    "qrm_gemma": Layout(_qrm_gemma, QUANTILE_GEMMA, gated=True),
    "urm": Layout(UncertaintyHead, NORMAL_LLAMA),
    "urm_helpfulness": Layout(HelpfulnessHead, NORMAL_LLAMA),
    "classifier": Layout(None),
    "linear": Layout(LinearHead),
}
# How the names of linear layers begin: transformers, TRL, OpenRLHF, verl (score); OpenRLHF before
# (value_head); LLaMA-Factory, GRM-sftreg (v_head.summary); Eurus, UltraRM (regression_head); Beaver
# (score_head); others (reward_head)
LINEAR: tuple[str, ...]
LINEAR = ("score.", "value_head.", "v_head.summary.", "regression_head.")
LINEAR += ("score_head.", "reward_head.")
# how those of a language model's output, and of a trainer's averages, begin
OUTPUTS = ("lm_head.", "embed_out.")
AVERAGES = "normalizer."


def head_name_of(architecture: str, keys: Iterable[str]) -> str | None:
    """Return the name in LAYOUTS of the head of a checkpoint with these tensors; None if there
    is none.
    """
    keys = list(keys)
    if architecture == GATED_LLAMA and "gating.layers.2.running_mean" in keys:
        return "qrm_llama"
    for name, layout in LAYOUTS.items():
        if layout.architecture == architecture:
            return name
    if any(key.startswith("classifier.") for key in keys):
        return "classifier"
    return "linear" if any(key.startswith(LINEAR) for key in keys) else None


def pad_token_id(config: PreTrainedConfig) -> int | None:
    """Return the id of the padding token as transformers' classes for decoders look it up; None
    if there is none.
    """
    return getattr(config.get_text_config(), "pad_token_id", None)


def read_at_for(
    head_name: str, config: PreTrainedConfig, wanted: str | None = None
) -> str:
    """Return where a model with this head reads a conversation: "last", "last_not_pad" or "pooled".

    `wanted` is one of READ_AT, or None for the rule that the checkpoint was trained with.
    InputError for another rule.
    """
    if head_name == "classifier":
        return "pooled"
    pooling = getattr(config, "pooling", None)
    if pooling not in (None, "eos"):
        raise InputError(
            f"config.json says pooling {pooling!r}, and one token is read here; score the texts "
            "with transformers' own class"
        )
    if wanted not in (None, *READ_AT):
        raise InputError(f"read_at must be one of {', '.join(READ_AT)}, not {wanted!r}")
    # transformers' classes for decoders with one linear head take the rightmost token that is not
    # pad, in padded and in unpadded input alike. The code of gated heads takes the token before the
    # first pad; where the conversation itself holds a pad token, it would not see the reply at all.
    own = (config.architectures or ["ForSequenceClassification"])[0]
    skips = own.endswith(("ForSequenceClassification", "Qwen2ForRewardModel"))
    usual = "last_not_pad" if head_name == "linear" and skips else "last"
    return (wanted or usual) if pad_token_id(config) is not None else "last"


def new_head(
    head_name: str,
    config: PreTrainedConfig,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Head:
    """Return a freshly initialised head, one of LAYOUTS, shaped for the config, in fp32 and eval
    mode. `shapes`: see LinearHead.
    """
    make: Any = LAYOUTS[head_name].make
    head = make(config, shapes) if make is LinearHead else make(config)
    return head.float().eval()


def head_keys(files: Files, config: PreTrainedConfig) -> list[str]:
    """Return the keys of a checkpoint's tensors that are neither the backbone's nor a language
    model's output.
    """
    backbone: Any = MODEL_MAPPING[type(config)]
    others = (f"{backbone.base_model_prefix}.", *OUTPUTS, AVERAGES)
    return [key for key in files.tensors if not key.startswith(others)]


def head_tensors(files: Files, config: PreTrainedConfig) -> dict[str, Tensor]:
    """Return a checkpoint's tensors that are neither the backbone's nor a language model's output,
    by their names in the head, in fp32.
    """
    keys = head_keys(files, config)
    linear = re.compile(f"^({'|'.join(map(re.escape, LINEAR))})")
    named = {linear.sub("score.", key): key for key in keys}
    if len(named) < len(keys):
        raise InputError(f"{files.folder} holds two heads: {', '.join(keys)}")
    held = files.read(keys)
    return {name: held[key] for name, key in named.items()}


def load_head(
    head_name: str, config: PreTrainedConfig, tensors: dict[str, Tensor]
) -> Head:
    """Return the head with these tensors. InputError if one is missing, misshapen or left over."""
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    problem = f"{config.name_or_path}: its tensors are not those of a {head_name} head"
    remedy = "check config.json, or score its texts elsewhere (python -m audit export)"
    with refusing(problem, remedy):
        head = new_head(head_name, config, shapes)
        head.load_state_dict(tensors)
    return head
