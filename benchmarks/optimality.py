"""How often searches find the optimum, where every reply was scored. Run: python benchmarks/optimality.py

All 262,144 replies of two tokens over 512 ids and of three tokens over 64, over ids and as text, in both directions,
on five small models. An instance that is finished is kept in data/cache and found again. Writes data/search, which
notebook 07 reads, and a section of benchmarks/README.md.
"""

import pandas as pd
from scoring import machine, table, write_report

from lib.embedded import planting
from lib.embedded import reward_models as small_models
from lib.search import optimality

SEEDS = 3  # random starts per method and instance


def shares(compared: pd.DataFrame) -> pd.DataFrame:
    """The share of searches at the optimum after the whole budget, in percent, and the interval of it."""
    last = compared[compared["budget"] == compared["budget"].max()]
    summary = optimality.summarise(last, ["method", "tokens", "reply_mode"])
    cells = {key: f"{100 * row.share:.0f} ({100 * row.ci_low:.0f} to {100 * row.ci_high:.0f})"
             for key, row in zip(summary.index, summary.itertuples(), strict=True)}  # fmt: skip
    return pd.Series(cells).unstack([1, 2]).loc[list(optimality.COMPARED)]  # noqa: PD010


def main() -> None:
    small_models.train_all([planting.profile(name) for name, _ in optimality.INSTANCES], progress=False)
    compared = optimality.compare(processes=1, seeds=SEEDS)
    optimality.write(compared)
    at_the_end = shares(compared)
    at_the_end.columns = [f"{tokens} tokens, {mode}, %" for tokens, mode in at_the_end.columns]
    won = optimality.wins(compared).assign(p=lambda wins: wins["p"].map("{:.2g}".format))
    parts = [machine("cpu"), table(at_the_end.rename_axis("method").reset_index()), table(won.reset_index())]
    write_report("optimality on a cpu", "\n\n".join(parts))


if __name__ == "__main__":
    main()
