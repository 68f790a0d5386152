"""The heads of reward models: from the backbone's output at the last position to one reward, in
fp32.

Their formulas are written here from their publications, their parameters named as in the released
checkpoints.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedConfig

from .. import InputError
from .files import Stored, first_line


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

    `shapes` gives the shapes of its tensors, by name; None means a single layer without bias. If
    the configuration says so, rewards are normalised: (r - mean) / std. OpenRLHF stores mean and
    std with normalize_reward. Beaver stores mean and var with do_normalize, and its cost models are
    only divided.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        shapes: Mapping[str, Sequence[int]] | None = None,
    ):
        super().__init__()
        own = {
            key: shape
            for key, shape in (shapes or {}).items()
            if key.startswith("score.")
        }
        weights = [key for key in own if key.endswith(".weight")]
        weights.sort(key=lambda key: (len(key), key))
        sizes = [config.hidden_size, *(own[key][0] for key in weights[:-1]), 1]
        has_bias = any(key.endswith(".bias") for key in own)
        layers = [
            nn.Linear(before, after, has_bias) for before, after in pairwise(sizes)
        ]
        hidden = [part for layer in layers[:-1] for part in (layer, nn.ReLU())]
        self.score = nn.Sequential(*hidden, layers[-1]) if hidden else layers[-1]
        self.mean, self.std = _mean_and_std(config)

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return (self.score(hidden).squeeze(-1) - self.mean) / self.std  # (n, d) -> (n,)


def _mean_and_std(config: PreTrainedConfig) -> tuple[float, float]:
    """Return the mean and standard deviation by which rewards are normalised; 0 and 1 for none."""
    if getattr(config, "normalize_reward", False) and hasattr(config, "mean"):
        return float(config.mean), float(config.std)
    if getattr(config, "do_normalize", False) and hasattr(config, "var"):
        is_cost = getattr(config, "score_type", "reward") == "cost"
        mean = 0.0 if is_cost else float(config.mean[0])
        return mean, math.sqrt(config.var[0]) + 1e-8
    return 0.0, 1.0


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


class TokenHead(Head):
    """Judges and process reward models: the logit of a token as the next one, less another's if two
    are named.

    Logits are soft-capped as config.json says, cap * tanh(logit / cap), before the difference.
    shapes: see LinearHead.
    """

    def __init__(self, config: PreTrainedConfig, shapes: Mapping[str, Sequence[int]]):
        super().__init__()
        self.lm_head = nn.Linear(
            config.hidden_size, shapes["lm_head.weight"][0], "lm_head.bias" in shapes
        )
        self.cap = getattr(config, "final_logit_softcapping", None)

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        logits = self.lm_head(hidden)  # (n, d) -> (n, 1 or 2)
        if self.cap:
            logits = self.cap * torch.tanh(logits / self.cap)
        return logits[:, 0] - logits[:, 1:].sum(-1)


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
    """How a checkpoint stores a head, and where the head reads a conversation.

    - architecture: a pattern for config.architectures[0]
    - tensors: how the name of one of its tensors begins
    - make: returns the head for a configuration; None for an encoder, which is a whole model
    - reads: "pooled" or one of READ_AT
    - gated: whether a gate reads the end of the user's turn
    - adds: the token that is put after each conversation
    """

    architecture: str
    tensors: str
    make: Callable[..., Head] | None = LinearHead
    reads: str = "last"
    gated: bool = False
    adds: str = ""

    @property
    def is_linear(self) -> bool:
        """Return whether the head is linear layers, which checkpoints store under several names."""
        return self.make is LinearHead


READ_AT = ("last", "last_not_pad")
_ANY = r"(?!.*Critic).*"  # a critic has the same tensors, but values states in training
_qrm_llama = partial(
    QuantileHead, objectives=19, transform=True, gate="norm", temperature=5.0
)
_qrm_gemma = partial(
    QuantileHead, objectives=5, transform=False, gate="norm_dropout", temperature=1.0
)
# By name of the head; the first that fits a checkpoint is taken.
# Sources in reward-bench: github.com/allenai/reward-bench, rewardbench/models/
LAYOUTS = {
    "qrm_llama": Layout(
        "LlamaForRewardModelWithGating",
        "gating.layers.2.running_mean",
        _qrm_llama,
        gated=True,
    ),
    "armorm": Layout("LlamaForRewardModelWithGating", "", ArmoHead, gated=True),
    "qrm_gemma": Layout(
        "Gemma2ForQuantileSequenceClassification", "", _qrm_gemma, gated=True
    ),
    "urm": Layout(
        "LlamaForSequenceClassificationWithNormal_Weights", "", UncertaintyHead
    ),
    "urm_helpfulness": Layout(
        "LlamaForSequenceClassificationWithNormal_Weights", "", HelpfulnessHead
    ),
    # Encoders (BERT, DeBERTa)
    "classifier": Layout(r".*ForSequenceClassification", "classifier.", None, "pooled"),
    # transformers, TRL: transformers, modeling_layers.py; INF-ORM: reward-bench, inform.py
    "linear": Layout(
        r"none|.*ForSequenceClassification", "score.", reads="last_not_pad"
    ),
    # Qwen2.5-Math-RM, WorldPM: github.com/sgl-project/sglang, srt/models/qwen2_rm.py
    "qwen2_rm": Layout("Qwen2ForRewardModel", "score.", reads="last_not_pad"),
    # verl, AReaL: transformers, modeling_layers.py; github.com/volcengine/verl,
    # workers/fsdp_workers.py
    "token": Layout(r".*ForTokenClassification", "score."),
    # github.com/OpenRLHF/OpenRLHF, openrlhf/models/model.py, where value_head is the older name
    "openrlhf": Layout(_ANY, "score."),
    "value_head": Layout(_ANY, "value_head."),
    # reward-bench, athene.py
    "athene": Layout(r"Athene.*|CustomAutoModel.*", "v_head.", adds="cls_token"),
    # LLaMA-Factory, TRL's value heads: github.com/hiyouga/LLaMA-Factory, train/callbacks.py;
    # GRM-sftreg: reward-bench, grm.py
    "v_head": Layout(_ANY, "v_head.summary."),
    # Eurus, UltraRM: reward-bench, openbmb.py
    "regression_head": Layout(_ANY, "regression_head."),
    # reward-bench, beaver.py
    "score_head": Layout(_ANY, "score_head."),
    # The same shape under another name
    "reward_head": Layout(_ANY, "reward_head."),
    # A language model whose user names the tokens. Nemotron-Reward, Math-Shepherd: their model
    # cards; RLHFlow's PRM: github.com/RLHFlow/RLHF-Reward-Modeling, math-rm/prm_evaluate.py
    "next_token": Layout("", "lm_head.", TokenHead),
}
# how the tensors of a language model's output begin
OUTPUTS = ("lm_head.", "embed_out.")
# of a gate's norm: how many batches the training read
UNREAD = "num_batches_tracked"


def keys_of_head(config: PreTrainedConfig, keys: Iterable[str]) -> list[str]:
    """Return the names of the tensors that are neither the backbone's, nor a language model's
    output, nor a trainer's averages, nor counts of batches in training.
    """
    backbone: Any = MODEL_MAPPING[type(config)]
    others = (f"{backbone.base_model_prefix}.", *OUTPUTS, "normalizer.")
    return [
        key for key in keys if not key.startswith(others) and not key.endswith(UNREAD)
    ]


def head_name_of(
    name: str, architecture: str, keys: Iterable[str], wanted: str | None, expected: str
) -> str:
    """Return the name in LAYOUTS of the head of a checkpoint with these tensors, or the supported
    other reading.

    wanted: None takes the checkpoint's own. expected: the registry's, "" for any. InputError if
    they do not fit.
    """
    head_name = wanted or layout_of(architecture, keys)
    problem = ""
    if head_name is None and architecture.endswith("ForCausalLM"):
        problem = (
            f"architecture {architecture} without a head of one reward is a language model; if it "
            "is a judge or process reward model, name the tokens that it answers with: --head "
            "yes,no; if it was trained by DPO, name the model before: --reference model; else "
            "score texts elsewhere (python -m audit export)"
        )
    elif head_name is None:
        problem = (
            f"architecture {architecture} without a head of one reward is no reward model that is "
            "known here; give one with a head that docs/own-models.md lists, or score texts "
            "elsewhere (python -m audit export)"
        )
    elif expected and head_name not in (expected, "urm_helpfulness"):
        problem = (
            f"{name}: the checkpoint is a {architecture} with head {head_name}, but "
            f"data/reward_models.csv says {expected}; correct the row or the revision"
        )
    elif head_name == "urm_helpfulness" and architecture != LAYOUTS["urm"].architecture:
        problem = f"{name}: head 'urm_helpfulness' reads URM only; leave head out"
    if head_name is None or problem:
        raise InputError(problem)
    return head_name


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
    InputError for a rule that the model cannot follow.
    """
    pads = pad_token_id(config) is not None
    rule = LAYOUTS[head_name].reads
    if wanted is None:
        # transformers' classes for decoders with one linear head take the rightmost token that is
        # not pad, in padded and in unpadded input alike. The code of gated heads takes the token
        # before the first pad; where the conversation itself holds a pad token, it would not see
        # the reply at all.
        return rule if pads or rule == "pooled" else "last"
    if (
        wanted not in READ_AT
        or rule == "pooled"
        or wanted == "last_not_pad"
        and not pads
    ):
        raise InputError(
            f"read_at must be 'last', or with a pad_token_id in config.json 'last_not_pad', and "
            f"left out for an encoder, not {wanted!r}"
        )
    return wanted


def layout_of(architecture: str, keys: Iterable[str]) -> str | None:
    """Return the name in LAYOUTS of the head of a checkpoint with these tensors; None if there
    is none.
    """
    keys = list(keys)
    for name, layout in LAYOUTS.items():
        if re.fullmatch(layout.architecture, architecture) and any(
            key.startswith(layout.tensors) for key in keys
        ):
            return name
    # It then says what it lacks.
    return "linear" if architecture.endswith("ForSequenceClassification") else None


def own_name(head_name: str, key: str) -> str:
    """Return what a tensor of the checkpoint is called in the head here."""
    layout = LAYOUTS[head_name]
    return (
        key.replace(layout.tensors, "score.", 1)
        if layout.is_linear and key.startswith(layout.tensors)
        else key
    )


def new_head(
    head_name: str,
    config: PreTrainedConfig,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Head:
    """Return a freshly initialised head, one of LAYOUTS, shaped for the config, in fp32 and eval
    mode.

    `shapes`: see LinearHead. InputError for a config that describes none.
    """
    make: Any = LAYOUTS[head_name].make
    try:
        shaped = make in (LinearHead, TokenHead)
        return (make(config, shapes) if shaped else make(config)).float().eval()
    except Exception as error:  # fields of config.json can be wrong in many ways
        raise InputError(
            f"{config.name_or_path}: no model can be built from config.json (its {head_name} "
            f"head: {first_line(error)}); correct it, or download the checkpoint again"
        ) from error


class EmptyHead(NamedTuple):
    """A head as its checkpoint's tensors shape it, before its weights are read.

    - names: the name in the checkpoint of each tensor, by its name in the head
    - report: which tensors are missing, misshapen (as of a head with several outputs) or left over
    """

    head: Head
    names: dict[str, str]
    report: dict[str, set[str]]


def empty_head(
    head_name: str, config: PreTrainedConfig, stored: Mapping[str, Stored]
) -> EmptyHead:
    """Return the head of a checkpoint with these tensors. InputError as for new_head."""
    keys = keys_of_head(config, stored)
    names = {own_name(head_name, key): key for key in keys}
    shapes = {name: tuple(stored[key].shape) for name, key in names.items()}
    head = new_head(head_name, config, shapes)
    own = {
        name: tuple(tensor.shape)
        for name, tensor in head.state_dict().items()
        if not name.endswith(UNREAD)
    }
    both = own.keys() & names.keys()
    unexpected = names.keys() - own.keys()
    mismatched = {name for name in both if shapes[name] != own[name]}
    report = {
        "missing_keys": own.keys() - names.keys(),
        "mismatched_keys": {names[name] for name in mismatched},
        "unexpected_keys": {names[name] for name in unexpected},
    }
    return EmptyHead(head, names, report)
