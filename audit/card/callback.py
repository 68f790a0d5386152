"""A value card while a reward model is trained: a callback for transformers.Trainer and what
extends it.
"""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

from ..paper import (
    Collection,
    InputError,
    RewardModel,
    heads,
    io,
    vocabulary,
)
from ..reading import encoders
from . import compare, measures, outside, random_heads

LOGGED = "value_card/"  # what the names of the measures begin with in the log


class ValueCardCallback(TrainerCallback):
    """Score a card's texts before the first step, after every `every` steps and at the end.

    The measures go to the trainer's log, and the rewards to score tables `<name>-step-<step>`. At
    the end, the last step is compared with the first as `make compare` does. Without a name, that
    of the trainer's output folder is taken. Without a collection, the tables of a training have one
    of their own, with the training's name. InputError at the start of the training if the model or
    its tokenizer cannot be used. Every later problem, of any kind, is a warning, because a training
    is worth more than its card.
    """

    def __init__(
        self,
        trainer: Trainer,
        every: int = 500,
        *,
        name: str | None = None,
        collection: str | None = None,
    ):
        self.trainer = trainer
        self.every = every
        self.name = name or Path(trainer.args.output_dir).name
        self.study = Collection(collection or self.name)

    def on_train_begin(self, args, state, control, **others):
        """Score the model before its first step."""
        self.steps: list[str] = []  # names of the tables of this training
        self.read = in_training(
            others["model"], others.get("processing_class"), self.name
        )
        if state.is_world_process_zero:
            self.replies = outside.replies()
            # What is read does not depend on the weights, so the texts are tokenised once.
            self.inputs = [
                self.read.inputs_for(prompt, list(self.replies))
                for prompt in measures.prompts().values()
            ]
            self.score(others["model"], state, control)

    def on_step_end(self, args, state, control, **others):
        """Score the model if a card is due."""
        if state.is_world_process_zero and state.global_step % self.every == 0:
            self.score(others["model"], state, control)

    def on_train_end(self, args, state, control, **others):
        """Score the last step, and write the page that compares it with the first."""
        if not state.is_world_process_zero:
            return
        if self._name_of(state) not in self.steps:
            self.score(others["model"], state, control)
        with _warning_only("the steps are not compared"):
            ends = [self.steps[0], self.steps[-1]]
            page = compare.write(compare.of_models(ends, self.study.name))
            print(f"The comparison of both ends is {io.shown_path(page)}.")

    def _name_of(self, state):
        return f"{self.name}-step-{state.global_step:06d}"

    def score(self, model, state, control):
        """Write the score table of this step, and log its measures; a problem is a warning."""
        name = self._name_of(state)
        with _warning_only(f"no value card of step {state.global_step}"):
            with as_found(model):
                scored = vocabulary.score_inputs(self.read, self.inputs)
                rewards = dict(zip(measures.prompts(), scored, strict=True))
                table = pd.DataFrame(rewards, self.replies)
                outside.write_table(table, name, self.study)
                values = random_heads.estimates(measures.rewards_in(table))[0]
            self.steps.append(name)
            # a log resets it, and the trainer's own log of this step is still to come
            should_log = control.should_log
            # Not the method of an extended trainer, which may empty averages that it collects
            Trainer.log(self.trainer, values.add_prefix(LOGGED).to_dict())
            control.should_log = should_log


class OwnOutput(heads.Head):
    """The output layer of a decoder in training, read in float32 as it is now."""

    def __init__(self, score: nn.Module):
        super().__init__()
        self.score = score

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        score = copy.deepcopy(self.score).float()
        return score(hidden).squeeze(-1)  # (n, d) -> (n,)


def in_training(model: Any, tokenizer: Any, name: str) -> RewardModel:
    """Return a model in training, with the trainer's tokenizer, as one that can be scored while it
    is in eval mode.

    Both share the backbone's weights. InputError if the model is no transformers model for sequence
    classification with one output (or a peft model around one), or if the tokenizer has no chat
    template.
    """
    if any(
        hasattr(weight, "ds_id") or hasattr(weight, "device_mesh")
        for weight in model.parameters()
    ):
        raise InputError(
            "a card needs all weights in one process (no ZeRO-3, no FSDP); leave the callback out"
        )
    adapters = getattr(model, "peft_config", {}).values()
    # the transformers model inside a peft model, with its adapter at work
    is_inside = hasattr(model, "get_base_model")
    whole = model.get_base_model() if is_inside else model
    is_decoder = hasattr(whole, "score")
    if (
        not (is_decoder or hasattr(whole, "classifier"))
        or whole.config.num_labels != 1
        or any(config.is_prompt_learning for config in adapters)
    ):
        raise InputError(
            f"a card reads no {type(whole).__name__} in training; train an "
            "AutoModelForSequenceClassification with num_labels=1 and without tokens that a prompt "
            "learns, or compare its checkpoints: make compare"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(
            "the trainer has no tokenizer; give it one: processing_class=tokenizer"
        )
    head_name = "linear" if is_decoder else "classifier"
    return RewardModel(
        name,
        name,
        name,
        "in training",
        head_name,
        str(whole.dtype).removeprefix("torch."),
        whole.config._attn_implementation,
        str(whole.device),
        copy.deepcopy(tokenizer),
        whole.base_model if is_decoder else whole,
        OwnOutput(whole.score) if is_decoder else None,
        heads.read_at_for(head_name, whole.config),
        reader=None if is_decoder else encoders.WholeConversations,
    )


@contextlib.contextmanager
def as_found(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode; at the end, the mode of each of its modules and torch's random
    states are as before. Nothing else is drawn from while a model is scored.
    """
    modes = {module: module.training for module in model.modules()}
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode


@contextlib.contextmanager
def _warning_only(what: str) -> Iterator[None]:
    """Turn an error of any kind into a warning; a training is worth more than its card."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"{what} ({type(error).__name__}: {error})", stacklevel=2)
