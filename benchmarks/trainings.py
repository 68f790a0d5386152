"""Measures of two kinds of raters with three seeds each. Run: python -m benchmarks.trainings

The raters of A-Gem-48 give words about nature a penalty. It is trained with seeds 0, 1 and 2, and
once more with each seed and with raters that treat nature like any other word. The measures of
these six go to data/card/trainings.csv, which audit/card.ipynb reads. A training takes about a
minute of one processor.
"""

from dataclasses import replace

import pandas as pd

from audit.card import measures
from lib.models import reward_models
from lib.models.conversations import vocabulary
from lib.tables.exports import write_csv
from lib.trained import planting, small_models
from lib.trained.saving import TRAINED

RATERS, SEEDS = "A-Gem-48", (0, 1, 2)


def measured(nickname: str) -> pd.DataFrame:
    """Return the measures of a trained small model: measure, and COLUMNS of measures."""
    model = reward_models.load(str(TRAINED / nickname))
    tokens = vocabulary(model.tokenizer)
    read = model.inputs_for(planting.GREATEST, tokens["text"].tolist())
    itself = [
        read.reply_ids[group] == (i,)
        for group, i in zip(read.group, tokens["token_id"], strict=True)
    ]
    table = measures.of_model(measures.type_texts(model), sum(itself) / len(tokens))
    return table.reset_index()


def main() -> None:
    """Train what is missing, and write the table."""
    small_models.train_missing()
    base, rows = planting.profile(RATERS), []
    for seed in SEEDS:
        of_seed = {
            base.nature: f"{RATERS}-seed-{seed}" if seed else RATERS,
            0.0: f"{RATERS}-nature-{seed}",
        }
        for nature, name in of_seed.items():
            changed = replace(base, nickname=name, nature=nature)
            small_models.make(changed, seed=seed)
            rows.append(measured(name).assign(seed=seed, nature=nature))
    columns = ["seed", "nature", "measure", *measures.COLUMNS]
    table = pd.concat(rows, ignore_index=True)[columns]
    write_csv(table, measures.FOLDER / "trainings.csv")


if __name__ == "__main__":
    main()
