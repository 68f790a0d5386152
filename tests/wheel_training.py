"""A tiny training with the callback as docs/training.md prints it; prints the steps that have a
card in its log.
"""

import json
import sys

import reward_model_values as rmv
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)


class RewardTrainer(Trainer):
    """The Bradley-Terry loss of chosen and rejected replies, which stand below each other in a
    batch.
    """

    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):
        read = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        )
        rewards = read.logits[:, 0]
        return -torch.nn.functional.logsigmoid(rewards[::2] - rewards[1::2]).mean()


tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
texts = ["I love hope.", "I hate war.", "peace", "pain"] * 4
ids = [
    tokenizer(text, padding="max_length", max_length=12, truncation=True)
    for text in texts
]
data = [
    {
        "input_ids": row["input_ids"],
        "attention_mask": row["attention_mask"],
        "labels": 0,
    }
    for row in ids
]
arguments = TrainingArguments(
    output_dir="run",
    max_steps=3,
    per_device_train_batch_size=4,
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
)
trainer = RewardTrainer(
    model, arguments, train_dataset=data, processing_class=tokenizer
)
trainer.add_callback(rmv.ValueCardCallback(trainer, every=3))
trainer.train()
print(
    json.dumps(
        [
            row["step"]
            for row in trainer.state.log_history
            if "value_card/framing" in row
        ]
    )
)
