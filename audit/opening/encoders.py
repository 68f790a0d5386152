"""Encoders (BERT, DeBERTa): classifiers whose head is part of the backbone."""

from torch import nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ..paper import RewardModel, loading, reward_models
from ..reading import encoders
from .labels import row_of
from .options import Options


def load(checkpoint: reward_models.Checkpoint, options: Options) -> RewardModel:
    """Return the reward model of an encoder's checkpoint, with one output. InputError as for
    open_model.
    """
    config = checkpoint.config
    row = row_of(config.num_labels, options.label, "its classifier", config)
    model, report = loading.from_safetensors(
        AutoModelForSequenceClassification,
        checkpoint.files,
        config,
        checkpoint.dtype,
        None,
    )
    loading.refuse_unloaded(checkpoint.folder, report)
    # what its class feeds, such as token types, which tokenizer.json does not say
    problem = f"{checkpoint.folder}: the tokenizer's class cannot be opened"
    remedy = "save the tokenizer again (save_pretrained)"
    with loading.refusing(problem, remedy), loading.quiet_transformers():
        own = AutoTokenizer.from_pretrained(checkpoint.folder, trust_remote_code=False)
    checkpoint.tokenizer.model_input_names = own.model_input_names
    linear = [part for part in model.modules() if isinstance(part, nn.Linear)]
    last = [part for part in linear if part.out_features == config.num_labels][-1]
    # it gets one output
    last.weight = nn.Parameter(last.weight[row])
    if last.bias is not None:
        last.bias = nn.Parameter(last.bias[row])
    ready = loading.ready(model, checkpoint.device)
    return reward_models.complete(
        checkpoint, ready, None, reader=encoders.WholeConversations
    )
