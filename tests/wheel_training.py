"""A tiny training with the callback as docs/training.md prints it; prints the steps that have a
card in its log.
"""

import sys

import pandas as pd
import reward_model_values as rmv
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1])
read = tokenizer(["I love hope.", "I hate war."], padding=True)
data = pd.DataFrame({**read, "labels": [1.0, -1.0]}).to_dict("records")
how = {"max_steps": 3, "use_cpu": True, "report_to": [], "save_strategy": "no"}
arguments = TrainingArguments("run", **how)
trainer = Trainer(model, arguments, train_dataset=data, processing_class=tokenizer)
trainer.add_callback(rmv.ValueCardCallback(trainer, every=3))
trainer.train()
log = pd.DataFrame(trainer.state.log_history).dropna(subset="value_card/framing")
print(*log["step"])
