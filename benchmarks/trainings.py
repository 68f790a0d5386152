"""Two kinds of raters, three seeds each. Run: python -m benchmarks.trainings

The raters of A-Gem-48 give words about nature a penalty. It is trained with seeds 0, 1 and 2, and once more with each
seed and with raters that treat nature like any other word. The measures of the six value cards go to
data/card/trainings.csv, which notebook 12 reads. A training takes about a minute of one processor.
"""

from dataclasses import replace

import pandas as pd

from lib.apps.card import measures, others
from lib.models import reward_models
from lib.planted import planting
from lib.planted import reward_models as small_models
from lib.tables.exports import write_csv

RATERS, SEEDS = "A-Gem-48", (0, 1, 2)


def main() -> None:
    """Train what is missing, and write the measures of every model."""
    base, rows = planting.profile(RATERS), []
    for seed in SEEDS:
        of_seed = {base.nature: f"{RATERS}-seed-{seed}" if seed else RATERS, 0.0: f"{RATERS}-nature-{seed}"}
        for nature, name in of_seed.items():
            small_models.train_all([replace(base, nickname=name, nature=nature)], seed=seed, progress=False)
            model = reward_models.load(str(small_models.TRAINED / name))
            words, ranked = measures.of_own_head(measures.type_texts(model))
            table = measures.of_model(words, ranked, others.share_read_as_itself(model))
            rows.append(table.assign(seed=seed, nature=nature).reset_index())
    columns = ["seed", "nature", "measure", *measures.COLUMNS]
    write_csv(pd.concat(rows, ignore_index=True)[columns], measures.FOLDER / "trainings.csv")


if __name__ == "__main__":
    main()
