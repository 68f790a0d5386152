"""The share of a training's time that value cards take: python -m benchmarks.callback. Writes
benchmarks/callback.md.

A Trainer trains two random models on replies of 300 tokens, 32 conversations a step, with and
without the callback. Cards are made before the first step and after the last. Seconds are processor
time on one thread.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import logsigmoid
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from lib import ROOT
from lib.apps.owner.card.callback import ValueCardCallback
from lib.tables import collection

STEPS, CONVERSATIONS, TOKENS, INTERVALS = 3, 32, 300, (100, 500, 1000)
TOKENIZER = ROOT / "data" / "models" / "A-Lla-64"
# hidden size, layers
SHAPES = {"3 million parameters": (128, 4), "6 million parameters": (192, 6)}


class PairTrainer(Trainer):
    """Chosen and rejected replies stand below each other in a batch (Bradley and Terry 1952)."""

    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):
        rewards = model(input_ids=inputs["input_ids"]).logits[:, 0]
        return -logsigmoid(rewards[::2] - rewards[1::2]).mean()


class TimedCallback(ValueCardCallback):
    """Notes the processor seconds of each card."""

    def score(self, *given) -> None:
        start = time.process_time()
        super().score(*given)
        self.last = time.process_time() - start


def training(
    width: int, layers: int, folder: str, with_cards: bool
) -> tuple[float, float]:
    """Return the processor seconds of a training, and those of its last card."""
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
    )
    ids = (
        np.random.default_rng(0)
        .integers(10, len(tokenizer), (STEPS * CONVERSATIONS, TOKENS))
        .tolist()
    )
    arguments = TrainingArguments(
        output_dir=f"{folder}/run",
        max_steps=STEPS,
        per_device_train_batch_size=CONVERSATIONS,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    data = [{"input_ids": row, "labels": 0} for row in ids]
    trainer = PairTrainer(
        LlamaForSequenceClassification(config),
        arguments,
        train_dataset=data,
        processing_class=tokenizer,
    )
    card = TimedCallback(trainer, every=STEPS)
    if with_cards:
        trainer.add_callback(card)
    start = time.process_time()
    trainer.train()
    return time.process_time() - start, card.last if with_cards else 0.0


def main() -> None:
    """Time both trainings of each model and write the table."""
    torch.set_num_threads(1)
    lines = [
        f"| model | {STEPS} steps, s | with 2 cards, s | a step, s | a card, s |"
        + "".join(f" share, every {every} steps |" for every in INTERVALS),
        "|---" * (5 + len(INTERVALS)) + "|",
    ]
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            # where the cards' tables and the comparison go
            collection.ROOT = Path(folder)
            without, (total, card) = (
                training(*shape, folder, False)[0],
                training(*shape, folder, True),
            )
        step = without / STEPS
        shares = [card / (card + every * step) for every in INTERVALS]
        numbers = [f"{value:.1f}" for value in (without, total, step, card)] + [
            f"{share:.1%}" for share in shares
        ]
        lines.append(f"| {' | '.join([name, *numbers])} |")
        print(lines[-1], flush=True)
    beside = (
        f"{os.getloadavg()[0]:.1f} processes ran or waited on {os.cpu_count()} cores."
    )
    text = (
        "# Value cards during a "
        f"training\n\n{__doc__.split(chr(10) * 2, 1)[1].strip()}\nMeanwhile {beside}\n\n"
    )
    Path(__file__).with_suffix(".md").write_text(
        text + "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
