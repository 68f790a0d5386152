"""What the paper prints of section 2 beside what is computed here: Tables 2 and 3, and the published scores.

The third column of every such table are the same ten models on the scores that their authors released, of 2,260 moral
words; it is read from the tables that are kept in figures/published/words, so that it needs no download.
"""

import pandas as pd

from lib import ROOT, rankings
from lib.claims import paper_table
from lib.similarity import ends

KEPT = ROOT / "figures" / "published" / "words"
MOMENTS = ["mean", "variance", "skewness"]


def on_moral_words(name: str, index: str = "model") -> pd.DataFrame:
    """The kept table of the published scores of that name, as 03_tau, indexed by a column; empty if it is not there."""
    path = KEPT / f"{name}.csv"
    if not path.is_file():
        return pd.DataFrame()
    return pd.read_csv(path, keep_default_na=False).set_index(index)


def table_2(nickname: str, table: pd.DataFrame, prompt: str, beside: str) -> pd.DataFrame:
    """Table 2 of one of its two models, whole, beside this model's ends: 44 rows, the highest reward first.

    nickname: R-Gem-2B or R-Lla-3B. table: a score table, whose ends stand in the column `beside` with their rewards.
    Columns: end, position, paper (the printed token), paper's reward, published words (the ends of the same model over
    moral words; left out where that table is not kept, or is the same), the column `beside`, its reward. The middle is
    blank beside a table of fewer than 44 tokens.
    """
    rows = paper_table("table_2").query("nickname == @nickname").set_index(["end", "position"])
    shown = rows[["decoded", "score"]].set_axis(["paper", "paper's reward"], axis=1)
    shown["paper's reward"] = shown["paper's reward"].map("{:.3f}".format)  # as printed
    n = min(22, len(table) // 2)
    ours = rankings.ends(table, prompt, n)
    ours.index = pd.MultiIndex.from_arrays([ours["end"], [*range(1, n + 1), *range(n, 0, -1)]])
    ours = ours.reindex(shown.index)
    words = on_moral_words("02_table_A6", ["end", "position"])
    if nickname in words and not words[nickname].equals(ours["text"]):
        shown["published words"] = words[nickname].reindex(shown.index)
    return shown.assign(**{beside: ours["text"], "its reward": ours[prompt]})


def table_3(moments: pd.DataFrame, collection: str) -> pd.DataFrame:
    """Table 3 beside the published scores and, of the same models, a collection: columns `<moment>, <of what>`, text.

    moments: as from agreement.moments, indexed by model. Of what: paper (as printed), published-words (where that table
    is kept) and the collection, which is left out where it holds none of the paper's models. A row per model, three
    decimals as printed, blank where a model was not measured.
    """
    printed = paper_table("table_3").set_index("nickname")
    parts = {"paper": printed, "published-words": on_moral_words("03_moments"), collection: moments}
    tables = {}
    for name, part in parts.items():
        if part.index.isin(printed.index).any():
            text = part[MOMENTS].reindex(printed.index).map(lambda value: "" if pd.isna(value) else f"{value:.3f}")
            tables |= {f"{moment}, {name}": text[moment] for moment in MOMENTS}
    bound = printed["variance_relation"] == "<"
    tables["variance, paper"] = tables["variance, paper"].mask(bound, "<" + tables["variance, paper"])
    both = pd.DataFrame(tables).rename_axis("model")
    return both[[column for moment in MOMENTS for column in both if column.startswith(moment)]]


def released_side_by_side(table: str, n: int) -> pd.DataFrame:
    """The n optimal and n pessimal texts of Table A6 or A7, a column per model in the order of Table 1.

    Index: (end, position), as of rankings.side_by_side: the last row is the least rewarded.
    """
    both = ends.released_ends(table)
    listed = {name: both[name]["optimal"][:n] + both[name]["pessimal"][:n][::-1] for name in both}
    positions = [*range(1, n + 1), *range(n, 0, -1)]
    index = pd.MultiIndex.from_arrays([["optimal"] * n + ["pessimal"] * n, positions], names=["end", "position"])
    return pd.DataFrame(listed, index)[paper_table("table_1")["nickname"].tolist()]
