"""The heads of reward models: from the backbone's output at the last position to one reward, in fp32.

Heads that live in remote code at their source are written here from their published formulas. Their parameters carry
the names of the released checkpoints, so that loading is by key. Every head has two steps. `gate(gate_hidden)` runs
once per prompt, on the hidden state where the user's turn ends. `forward(hidden, gate)` runs for each reply.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig

from .. import InputError


class Head(nn.Module):
    """Map hidden states at the last position, (n, d) float32, to rewards on the model's own scale, (n,) float32."""

    def gate(self, gate_hidden: Tensor) -> Tensor | None:
        """Return the objectives' weights, (objectives,), from the state where the user's turn ends, (d,); or None."""
        return None


class LinearHead(Head):
    """Linear layers with ReLU between them. Most reward models have a single one, one direction: r = w . h.

    `widths` holds the outputs of all layers except the last, which has one. `bias` says whether layers have a bias. If
    the configuration says so, rewards are normalised: (r - mean) / std.
    """

    def __init__(self, config: PreTrainedConfig, widths: Sequence[int] = (), bias: bool = False):
        super().__init__()
        sizes = [config.hidden_size, *widths, 1]
        layers = [nn.Linear(before, after, bias) for before, after in pairwise(sizes)]
        hidden = [part for layer in layers[:-1] for part in (layer, nn.ReLU())]
        self.score = nn.Sequential(*hidden, layers[-1]) if hidden else layers[-1]
        self.mean, self.std = _normalisation(config)

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return (self.score(hidden).squeeze(-1) - self.mean) / self.std  # (n, d) -> (n,)


def _normalisation(config: PreTrainedConfig) -> tuple[float, float]:
    """Return the mean and the standard deviation by which a reward is normalised; 0 and 1 where it is not.

    OpenRLHF stores mean and std with the setting normalize_reward. Beaver stores mean and var with do_normalize, and
    its cost models are only divided. FAMILIES names the sources.
    """
    if getattr(config, "normalize_reward", False) and hasattr(config, "mean"):
        return float(config.mean), float(config.std)
    if getattr(config, "do_normalize", False) and hasattr(config, "var"):
        is_cost = getattr(config, "score_type", "reward") == "cost"
        return 0.0 if is_cost else float(config.mean[0]), math.sqrt(config.var[0]) + 1e-8
    return 0.0, 1.0


class ArmoHead(Head):
    """ArmoRM: 19 objectives, made independent of verbosity by a fixed matrix T, mixed by a gate that sees the prompt.

    r = sum_k g_k (R h . T)_k with g = softmax(MLP(h_gate) / temperature) * scale. (Wang et al. 2024)
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
        return self.regression_layer(hidden) @ self.reward_transform_matrix @ gate  # (n, objectives) -> (n,)


class QuantileHead(Head):
    """QRM: each objective has 19 quantiles. A gate that reads the prompt mixes the means of the objectives.

    r = sum_k g_k (q . T)_k, where q_k is the mean of objective k's quantiles; the Gemma version has no T. (Dorka 2024)
    """

    def __init__(self, config: PreTrainedConfig, *, objectives: int, transform: bool, gate: str, temperature: float):
        super().__init__()
        self.objectives = getattr(config, "num_objectives", objectives)
        quantiles = getattr(config, "num_quantiles", 19)
        self.regression_layer = nn.Linear(config.hidden_size, self.objectives * quantiles, bias=False)
        if transform:
            self.reward_transform_matrix = nn.Parameter(torch.eye(self.objectives))
        self.gating = Gate(config, self.objectives, temperature=temperature, blocks=gate)

    def gate(self, gate_hidden: Tensor) -> Tensor:
        gate = self.gating(gate_hidden)  # (d,) -> (objectives,)
        return self.reward_transform_matrix @ gate if hasattr(self, "reward_transform_matrix") else gate

    def forward(self, hidden: Tensor, gate: Tensor) -> Tensor:
        quantiles = self.regression_layer(hidden).unflatten(-1, (self.objectives, -1))  # (n, objectives, quantiles)
        return quantiles.mean(-1) @ gate  # (n, objectives) -> (n,)


class UncertaintyHead(Head):
    """URM: five attributes as (mean, log sd) pairs. Weights from the reply's own state mix the means.

    r = sum_i mu_i(h) w_i(h), weights not normalised. (Lou et al. 2024)
    """

    ATTRIBUTES = 5

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        d = config.hidden_size
        self.score = nn.Linear(d, 2 * self.ATTRIBUTES, bias=False)
        self.weights = nn.ModuleDict(
            {"fc": nn.Sequential(nn.Linear(d, d), nn.SELU(), nn.Linear(d, d), nn.SELU(), nn.Linear(d, self.ATTRIBUTES))}
        )

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        means = self.score(hidden).unflatten(-1, (self.ATTRIBUTES, 2))[..., 0]  # (n, attributes)
        return (means * self.weights["fc"](hidden)).sum(-1)


class HelpfulnessHead(UncertaintyHead):
    """What the paper's code read from URM: the mean of attribute 0, helpfulness, with the learned mixture dropped."""

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return self.score(hidden)[..., 0]


class Gate(nn.Module):
    """Mixture weights over objectives, softmax(MLP(h) / temperature) * scale; keys as in the released checkpoints."""

    def __init__(self, config: PreTrainedConfig, objectives: int, *, temperature: float, blocks: str):
        super().__init__()
        width, depth = getattr(config, "gating_hidden_dim", 1024), getattr(config, "gating_n_hidden", 3)
        sizes = [config.hidden_size] + [width] * depth
        layers: list[nn.Module] = []
        for block, (before, after) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
            if blocks == "linear":  # ArmoRM's ReLUs are functions, so they take no number
                layers.append(nn.Linear(before, after))
                continue
            if blocks == "norm_dropout" and block:
                layers.append(nn.Dropout())
            layers += [nn.Linear(before, after, bias=False), nn.ReLU(), nn.BatchNorm1d(after)]
        layers.append(nn.Linear(width, objectives))
        self.layers = nn.ModuleList(layers)
        self.relu_between = blocks == "linear"
        self.logit_scale = nn.Parameter(torch.ones(1))
        self.temperature = float(getattr(config, "gating_temperature", temperature))

    def forward(self, gate_hidden: Tensor) -> Tensor:
        x = gate_hidden[None]  # BatchNorm wants a batch, (1, d)
        for layer in self.layers[:-1]:
            x = layer(x).relu() if self.relu_between else layer(x)
        return self.layers[-1](x)[0].div(self.temperature).softmax(-1) * self.logit_scale


# --- which head a checkpoint holds ---------------------------------------------------------------------------------


class Family(NamedTuple):
    """Reward models whose head is linear layers: under what name they store it, and where they read a conversation.

    - tensors: the start of the names of the head's tensors
    - architecture: a pattern for config.architectures[0]
    - reads: one of reward_models.READ_AT
    - adds: the token that is put after each conversation
    - source: where this is documented
    """

    tensors: str
    architecture: str
    reads: str
    used_by: str
    source: str
    adds: str = ""


_BENCH = "github.com/allenai/reward-bench, rewardbench/models/"
_ANY = r"(?!.*Critic).*"  # a critic has the same tensors, but values states in training
# By name of the head; the first that fits is taken.
FAMILIES = {
    "linear": Family("score", r"none|.*ForSequenceClassification", "last_not_pad", "transformers, TRL, INF-ORM",
                     f"transformers, modeling_layers.py; {_BENCH}inform.py"),
    "qwen2_rm": Family("score", "Qwen2ForRewardModel", "last_not_pad", "Qwen2.5-Math-RM, WorldPM",
                       "github.com/sgl-project/sglang, srt/models/qwen2_rm.py"),
    "token": Family("score", r".*ForTokenClassification", "last", "verl, AReaL",
                    "transformers, modeling_layers.py; github.com/volcengine/verl, workers/fsdp_workers.py"),
    "openrlhf": Family("score", _ANY, "last", "OpenRLHF", "github.com/OpenRLHF/OpenRLHF, openrlhf/models/model.py"),
    "value_head": Family("value_head", _ANY, "last", "OpenRLHF", "as openrlhf; the older name"),
    "athene": Family("v_head", r"Athene.*|CustomAutoModel.*", "last", "Athene", f"{_BENCH}athene.py", "cls_token"),
    "v_head": Family("v_head.summary", _ANY, "last", "LLaMA-Factory, TRL's value heads, GRM-sftreg",
                     f"github.com/hiyouga/LLaMA-Factory, train/callbacks.py; {_BENCH}grm.py"),
    "regression_head": Family("regression_head", _ANY, "last", "Eurus, UltraRM", f"{_BENCH}openbmb.py"),
    "score_head": Family("score_head", _ANY, "last", "beaver", f"{_BENCH}beaver.py"),
    "reward_head": Family("reward_head", _ANY, "last", "", "the same shape under another name"),
}  # fmt: skip
_LAYER = re.compile(r"((?:\.\d+)?)\.(weight|bias)")


def tensors_of_head(config: PreTrainedConfig, keys: Mapping[str, Path]) -> dict[str, Path]:
    """Return the tensors that are neither the backbone's, nor a language model's output, nor a trainer's averages."""
    backbone: Any = MODEL_MAPPING[type(config)]
    others = (f"{backbone.base_model_prefix}.", "lm_head.", "embed_out.", "normalizer.")
    return {key: path for key, path in keys.items() if not key.startswith(others)}


def family_of(architecture: str, keys: Iterable[str]) -> str | None:
    """Return the name in FAMILIES of a checkpoint with these tensors; None if its head has other than linear layers."""
    keys = list(keys)
    for name, family in FAMILIES.items():
        is_named = re.fullmatch(family.architecture, architecture)
        if is_named and any(_LAYER.fullmatch(key.removeprefix(family.tensors)) for key in keys):
            return name
    return None


def own_name(head_name: str, key: str) -> str:
    """Return what a tensor of the checkpoint is called in the head here."""
    tensors = FAMILIES[head_name].tensors if head_name in FAMILIES else "score"
    rest = key.removeprefix(tensors)
    return f"score{rest}" if rest != key and _LAYER.fullmatch(rest) else key


def new_head(head_name: str, config: PreTrainedConfig, shapes: Mapping[str, Sequence[int]] | None = None) -> Head:
    """Return a freshly initialised head of the given name, shaped for the config, in fp32 and eval mode.

    `head_name` is a name in FAMILIES (such as linear), armorm, qrm_llama, qrm_gemma, urm or urm_helpfulness. InputError
    for any other name. `shapes` gives the shapes of a linear head's tensors, by name; None means a single layer without
    bias.
    """
    makers = {
        "armorm": ArmoHead,
        "qrm_llama": lambda c: QuantileHead(c, objectives=19, transform=True, gate="norm", temperature=5.0),
        "qrm_gemma": lambda c: QuantileHead(c, objectives=5, transform=False, gate="norm_dropout", temperature=1.0),
        "urm": UncertaintyHead,
        "urm_helpfulness": HelpfulnessHead,
    }
    if head_name in FAMILIES:
        own = {key: shape for key, shape in (shapes or {}).items() if key.startswith("score.")}
        layers = sorted((key for key in own if key.endswith(".weight")), key=lambda key: (len(key), key))
        widths = [own[key][0] for key in layers[:-1]]
        return LinearHead(config, widths, bias=any(key.endswith(".bias") for key in own)).float().eval()
    if head_name not in makers:
        raise InputError(f"unknown head '{head_name}'; known heads: {', '.join([*FAMILIES, *makers])}, classifier")
    return makers[head_name](config).float().eval()
