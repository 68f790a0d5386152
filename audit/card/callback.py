"""A value card while a reward model is trained: a callback for transformers.Trainer and what
extends it.
"""

import contextlib
import copy
import random
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
)

from ..paper import (
    Collection,
    InputError,
    RewardModel,
    conversations,
    heads,
    io,
    registry,
    templates,
    vocabulary,
)
from . import compare, measures, outside, random_heads

LOGGED = "value_card/"  # what the names of the measures begin with in the log


class ValueCardCallback(TrainerCallback):
    """Score a card's texts before the first step, after every `every` steps and after the last
    step.

    The measures go to the trainer's log, and the rewards to score tables `<name>-step-<step>`. At
    the end the steps are compared as `make compare` does. Without a name, that of the trainer's
    output folder is taken. Without a collection, the tables of a training have one of their own,
    with the training's name. quick: score a sample of the texts, see outside.replies. InputError at
    the start of the training if the model or its tokenizer cannot be used. Every later problem, of
    any kind, is a warning, because a training is worth more than its card.
    """

    def __init__(
        self,
        trainer: Trainer,
        every: int = 500,
        *,
        name: str | None = None,
        collection: str | None = None,
        quick: bool = False,
    ):
        if type(every) is not int or every < 1:
            raise InputError(
                f"a card every {every!r} steps is impossible; give a whole number of steps from 1"
            )
        self.trainer = trainer
        self.every = every
        self.quick = quick
        self.name = io.checked(
            name or Path(str(trainer.args.output_dir)).name, "a model"
        )
        self.study = Collection(collection or self.name)
        registry.refuse_foreign(self.study, {self.name: self.name})
        self.steps: list[str] = []  # names of the tables of this training

    def on_train_begin(self, args, state, control, **others):
        """Score the model before its first step."""
        self.steps = []
        self.read = in_training(
            others["model"], others.get("processing_class"), self.name
        )
        if state.is_world_process_zero:
            self.replies = outside.replies(self.quick)
            # What is read does not depend on the weights, so the texts are tokenised once.
            self.inputs = [
                self.read.inputs_for(prompt, list(self.replies))
                for prompt in measures.prompts().values()
            ]
            self.score(others["model"], state, control)

    def on_step_end(self, args, state, control, **others):
        """Score the model if a card is due. A model that cannot be scored any more gives a
        warning.
        """
        is_last = control.should_training_stop or state.global_step >= state.max_steps
        if state.is_world_process_zero and (
            is_last or state.global_step % self.every == 0
        ):
            self.score(others["model"], state, control)

    def on_train_end(self, args, state, control, **others):
        """Score the last step if the training ended early, and write the page that compares the
        steps.
        """
        if not state.is_world_process_zero:
            return
        if self._name_of(state) not in self.steps:
            self.score(others["model"], state, control)
        if len(self.steps) > 1:
            with _warning_only("the steps are not compared"):
                made = compare.of_models(self.steps, self.study.name)
                print(
                    f"The comparison of {len(self.steps)} steps is "
                    f"{io.shown_path(compare.write(made))}."
                )

    def _name_of(self, state):
        return f"{self.name}-step-{state.global_step:06d}"

    def score(self, model, state, control):
        """Write the score table of this step, and log its measures; a problem is a warning."""
        name = self._name_of(state)
        with _warning_only(f"no value card of step {state.global_step}"):
            with as_found(model):
                read = self.read
                if read.head is not None:
                    output = OwnOutput(without_adapter(model).score)
                    read = replace(read, head=output)
                scored = vocabulary.score_inputs(read, self.inputs)
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
    """The output layer of a decoder in training, copied to float32 as it is now."""

    def __init__(self, score: nn.Module):
        super().__init__()
        self.score = copy.deepcopy(score).float().eval()

    def forward(self, hidden: Tensor, gate: None = None) -> Tensor:
        return self.score(hidden).squeeze(-1)  # (n, d) -> (n,)


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
    for config in getattr(model, "peft_config", {}).values():
        if config.is_prompt_learning:
            raise InputError(
                f"{config.peft_type.value} puts tokens before each text, which a card does not "
                "read; leave the callback out, or compare its checkpoints: make compare"
            )
    whole = without_adapter(model)
    is_decoder = hasattr(whole, "score")
    is_encoder = hasattr(whole, "classifier")
    if (
        not isinstance(whole, PreTrainedModel)
        or not (is_decoder or is_encoder)
        or whole.config.num_labels != 1
    ):
        raise InputError(
            f"{type(whole).__name__} in training has no output of one reward; train an "
            "AutoModelForSequenceClassification with num_labels=1, or compare its checkpoints: "
            "make compare"
        )
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or (
        is_decoder and not tokenizer.chat_template
    ):
        raise InputError(
            "the trainer has no tokenizer with a chat template; give it one: "
            "processing_class=tokenizer"
        )
    tokenizer = templates.confine(copy.deepcopy(tokenizer))
    opened = conversations.leave_out_opened_turn(tokenizer) if is_decoder else None
    head_name = "linear" if is_decoder else "classifier"
    config = whole.config
    return RewardModel(
        name,
        name,
        name,
        "in training",
        head_name,
        str(whole.dtype).removeprefix("torch."),
        config._attn_implementation,
        str(whole.device),
        tokenizer,
        whole.base_model if is_decoder else whole,
        OwnOutput(whole.score) if is_decoder else None,
        heads.read_at_for(head_name, config),
        opened=opened,
    )


def without_adapter(model):
    """Return the transformers model inside a peft model, with its adapter at work; any other
    model unchanged.
    """
    # a transformers model with an adapter of its own has no base model
    is_inside = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    return model.get_base_model() if is_inside else model


@contextlib.contextmanager
def as_found(model: nn.Module) -> Iterator[None]:
    """Put a model into eval mode; at the end, the mode of each of its modules and all random
    states are as before.
    """
    modes = {module: module.training for module in model.modules()}
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (what others may draw from)
    cards = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(cards):
        model.eval()
        try:
            yield
        finally:
            for module, mode in modes.items():
                module.training = mode
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


@contextlib.contextmanager
def _warning_only(what: str) -> Iterator[None]:
    """Turn an error of any kind into a warning; a training is worth more than its card."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"{what} ({type(error).__name__}: {error})", stacklevel=2)
