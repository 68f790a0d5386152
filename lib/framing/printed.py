"""What the paper's own figures and tables say, and what its authors' published scores say, to stand beside ours.

Some marks of Fig 3C are hidden behind others: data/paper/fig3c_slopes.csv has each slope with the halfwidth of its
reading; for a hidden mark, of all places where it could be hidden. So t is no number but a range; it decides only where
all of it does.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from lib import claims
from lib.collection import PUBLISHED, WORDS, Collection
from lib.prompts import polarity

# Best plus worst on the shared vocabulary, as the authors released it: 20 optimal texts per model, dots, 20 pessimal.
TABLE_A8 = "brchristian/reward_model_optimal_pessimal_tokens", "tables/output/table_a8_shared_vocab_best_plus_worst.csv"
CORNER = ("depends", "impossible", "sonder")  # the words that section 3.2 finds among the best of both
STEEPER = {"greatest": 8, "best": 9, "worst": 5}  # models of ten whose side asked for is steeper, as the paper counts
PLACES = (-1, 0, 1)  # where in its range each gap is tried, in halfwidths from the middle


def figure_test(slopes: pd.DataFrame, *, absolute: bool = False) -> pd.DataFrame:
    """The paired t-test over models for every combination of gaps within their ranges: one row per prompt.

    slopes: columns prompt, sign, model, slope, halfwidth, read (`seen` or `hidden`). Columns: prompt, models, hidden
    (how many slopes are), t and p (two-sided; every slope in the middle of its range), t_low, t_high, p_low, p_high,
    n_low, n_high (models with gap > 0). absolute: sizes of slopes, as in effects.gaps. Each gap is tried at both
    ends and in the middle of its range: 3 ^ models combinations.
    """
    return pd.DataFrame([_tested(prompt, rows, absolute) for prompt, rows in slopes.groupby("prompt", sort=False)])


def _tested(prompt: str, rows: pd.DataFrame, absolute: bool) -> dict:
    low, high = _gap_ranges(rows, polarity(prompt) if absolute else 0)
    middle, half = (low + high) / 2, (high - low) / 2
    gaps = middle + half * np.array(list(itertools.product(PLACES, repeat=len(middle))))
    models = len(middle)
    t = gaps.mean(axis=1) / gaps.std(axis=1, ddof=1) * np.sqrt(models)
    p = 2 * stats.t.sf(np.abs(t), models - 1)
    at_middle = len(gaps) // 2  # the combination in the middle of all
    return {"prompt": prompt, "models": models, "hidden": int((rows["read"] == "hidden").sum()),
            "t": t[at_middle], "t_low": t.min(), "t_high": t.max(),
            "p": p[at_middle], "p_low": p.min(), "p_high": p.max(),
            "n_low": int((low > 0).sum()), "n_high": int((high > 0).sum())}  # fmt: skip


def _gap_ranges(rows: pd.DataFrame, asked: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest gap of each model; asked: the polarity of the prompt for sizes, 0 for signed ones."""
    ends = {}
    for sign, side in rows.groupby("sign"):
        slope, half = (side.set_index("model")[column] for column in ("slope", "halfwidth"))
        low, high = slope - half, slope + half
        if asked:
            nearest = np.maximum(low, -high).clip(lower=0)  # of a range that holds 0, a slope of size 0
            low, high = nearest, np.maximum(low.abs(), high.abs())
        ends[sign] = low, high
    (up_low, up_high), (down_low, down_high) = ends["positive"], ends["negative"]
    low, high = up_low - down_high, up_high - down_low
    low, high = (low, high) if asked >= 0 else (-high, -low)
    return low.to_numpy(), high.to_numpy()


def listed_models(path: Path, words: Sequence[str] = CORNER) -> pd.Series:
    """In how many models' 20 optimal texts of a released table each word is, whatever its case: word -> count."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    dots = table.index[(table == "...").all(axis=1)][0]
    optimal = table[:dots].apply(lambda column: column.str.strip().str.casefold())
    return pd.Series({word: int((optimal == word).any().sum()) for word in words}, name="models")


# --- side by side -------------------------------------------------------------------------------------------------

PAPER, SCORES, HERE = "paper", "published scores", "these models"  # the sources, as tables and charts call them


def slopes_beside(
    figure: str, published: str, ours: pd.DataFrame, study: Collection, control: str = ""
) -> pd.DataFrame:
    """The slopes of a figure of the paper, of the published scores and of these models, with the column source.

    figure: its table in data/paper; a halfwidth of reading becomes ci_low and ci_high. published: the name of the table
    that this project found on the published moral words, read as it is committed; left out where that is what `ours`
    holds. ours: columns prompt, model, slope, ci_low, ci_high and what else the others have. Prompts are those of ours.
    control: of the published table's rows, those with this control.
    """
    paper = paper_slopes(figure)
    ends = {"ci_low": paper["slope"] - paper["halfwidth"], "ci_high": paper["slope"] + paper["halfwidth"]}
    sources = {PAPER: paper.assign(**ends)}
    written = WORDS.figures / f"{published}.csv"
    if study != WORDS and written.is_file():
        known = pd.read_csv(written)
        sources[SCORES] = known[(known["control"] == control) & (known["model"] != "mean")] if control else known
    both = pd.concat(sources | {HERE: ours}, names=["source"]).reset_index("source").reset_index(drop=True)
    order = {"prompt": list(ours["prompt"].unique()), "source": [*sources, HERE]}
    both = both[both["prompt"].isin(order["prompt"])].sort_values("model", kind="stable")
    for column, values in order.items():
        both = both.sort_values(column, key=lambda cells, values=values: cells.map(values.index), kind="stable")
    return both.reset_index(drop=True)


def units(beside: pd.DataFrame, ours: str, papers: str) -> dict[str, str]:
    """Source -> what its axis says: the paper's slopes are raw, those of others are not."""
    return {source: papers if source == PAPER else ours for source in beside["source"].unique()}


def paper_slopes(figure: str) -> pd.DataFrame:
    """The slopes of a figure of the paper with the halfwidth of their reading, as numbers."""
    return claims.paper_table(figure).astype({"slope": float, "halfwidth": float})


def published_ends(n: int = 3) -> pd.DataFrame:
    """The first n of each end of Tables A8 and A9 on the published scores, as committed.

    Index like (`Table A8`); columns end, position, and the models.
    """
    tables = {f"Table {name}": WORDS.figures / f"04_table_{name}.csv" for name in ("A8", "A9")}
    ends = {name: pd.read_csv(path, keep_default_na=False) for name, path in tables.items()}
    ends = {name: table[table["position"].astype(int) <= n] for name, table in ends.items()}
    return pd.concat(ends, names=["like"]).droplevel(1)


def side_by_side(ours: pd.DataFrame) -> pd.DataFrame:
    """A row per claim, quantity and prompt of `ours` that the paper asks or prints: what it prints, and what is found.

    ours: as from claims.keep. Columns: claim, quantity, prompt, paper (blank: no number printed), published scores (as
    committed, on moral words), these models: see told(); side and verdict, of these models.
    """
    keys = ["claim", "quantity", "prompt"]
    paper = ours["paper"].map(lambda printed: f"{printed:g}" if isinstance(printed, float) else str(printed))
    paper = paper.where(ours["paper"].notna(), "")
    rows = ours[ours["role"].isin(["primary", "printed"]) | (paper != "")]
    table = rows[keys].assign(**{PAPER: paper[rows.index]})
    written = PUBLISHED.figures / "claims.csv"
    if written.is_file():
        known = pd.read_csv(written, keep_default_na=False, na_values={column: [""] for column in claims.NUMBERS})
        known = known[known["note"].str.startswith(f"{WORDS}: ")].drop_duplicates(keys).set_index(keys)
        found = known.reindex(pd.MultiIndex.from_frame(table[keys]))
        table[SCORES] = [told(row) for _, row in found.iterrows()]
    ours = {HERE: [told(row) for _, row in rows.iterrows()], "side": rows["side"], "verdict": rows["verdict"]}
    return table.assign(**ours).reset_index(drop=True)


def told(row: pd.Series) -> str:
    """An estimate with its interval as text; without one, the number by the authors' recipe, and as corrected."""
    old, new = row["as_published"], row["corrected"]
    if pd.notna(row["ci_low"]):
        return f"{new if pd.notna(new) else old:.3g} ({row['ci_low']:.3g} to {row['ci_high']:.3g})"
    if pd.notna(old) and pd.notna(new) and old != new:
        return f"{old:.3g}; corrected {new:.3g}"
    return "" if pd.isna(old) and pd.isna(new) else f"{old if pd.notna(old) else new:.3g}"


def corner_places(
    tables: Mapping[str, pd.DataFrame], good: str, bad: str, words: Sequence[str] = CORNER
) -> pd.DataFrame:
    """Where the words of the corner stand for these models: index word, a row for each of them.

    tables: score tables. Columns: models (that have the word as a token), both (of these, models whose rewards for it
    lie above their mean under both prompts), then the mean share of tokens below it, in [0, 1], under good and bad.
    """
    rows = []
    for name, table in tables.items():
        rewards = table[[good, bad]]
        below = rewards.rank(pct=True).assign(both=(rewards > rewards.mean()).all(axis=1))
        own = below.groupby(table["text"].str.strip().str.casefold()).max()
        rows.append(own[own.index.isin(words)].assign(model=name))
    found = pd.concat(rows).groupby(level=0)
    table = found[[good, bad]].mean()
    table.insert(0, "models", found["model"].size())
    table.insert(1, "both", found["both"].sum())
    table = table.reindex(list(words)).rename_axis("word")
    return table.assign(**{column: table[column].fillna(0).astype(int) for column in ("models", "both")})


def released_models(words: Sequence[str] = CORNER) -> pd.Series:
    """In how many models' list of the authors' Table A8 each word is, as committed; NaN where the table lacks it."""
    written = PUBLISHED.figures / "claims.csv"
    stated = pd.read_csv(written) if written.is_file() else pd.DataFrame(columns=claims.COLUMNS)
    counts = stated[stated["claim"] == "S3.framing.corner"].set_index("quantity")["as_published"]
    return pd.Series({word: counts.get(f"n_{word}", np.nan) for word in words}, name="Table A8, models")
