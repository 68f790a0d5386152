"""Verify whether a real reward model, run here, gives its published scores, and with which settings.

The paper's code fed two beginning-of-sequence tokens if a template brings its own. It dropped Gemma-2's soft-capping,
and read one model's helpfulness instead of its reward. Each of these is a setting here. A sample of EloEverything items
is scored under the three published prompts with all settings. For one model, rewards of long answers were published
too. JudgeBench (Tan et al. 2024) scored 350 pairs of answers in both orders, each pair to a different question. Their
median length is 880 tokens, so soft-capping, precision and a second bos token show more clearly than in a word.

Two runs in half precision never agree to the last digit. The published word files hold 45 words that the authors scored
twice under 54 prompts. Differences between two such runs, as a share of the model's largest reward and without zeros:

- bfloat16 (five models): median .0084, largest .036
- float16 (three models): median .00045, largest .0022
- float32 (two models): median .0000012, largest .000006

TOLERANCES are about twice that, and eight times in float32, where the order of summation matters.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau
from tqdm import tqdm

from ... import InputError
from ...models import hardware, reward_models
from ...scoring import engine
from ...show.display import show_token
from ...tables import downloads, registry, score_files, scores
from ...tables.collection import ITEMS
from .report import Row

TOLERANCES = {  # precision -> the median and the largest difference allowed, as shares of the largest published reward
    "bfloat16": (0.016, 0.07),
    "float16": (0.0009, 0.0045),
    "float32": (0.00001, 0.00005),
    "float64": (0.00001, 0.00005),  # what it is compared with was made in float32 at best
}
ANSWERS = "JudgeBench"  # under what name rewards of long answers stand among those of prompts
REPOSITORY = "ScalerLab/JudgeBench"
JUDGED = "S-Gem-27B"  # the only one of the paper's ten models whose rewards were released there
FILE = ("outputs/dataset=judgebench,response_model=gpt-4o-2024-05-13,judge_name=reward_model,"
        "judge_model=Skywork_Skywork-Reward-Gemma-2-27B.jsonl")  # fmt: skip


@dataclass(frozen=True)
class Report:
    """How the settings of one model compare with the published rewards.

    Each source was made by other people with other settings, so each has its own verdict.
    """

    notes: list[str]  # what was run, in lines
    table: pd.DataFrame  # a row per setting, source and prompt, see `compared`

    @property
    def by_source(self) -> dict[str, "Report"]:
        """Return a report for each source."""
        return {str(name): Report([], rows) for name, rows in self.table.groupby("source", sort=False)}

    @property
    def is_reproduced(self) -> bool:
        """Return whether some setting reproduces each source."""
        return all(report.reproduced for report in self.by_source.values())

    @property
    def reproduced(self) -> list[str]:
        """Return the settings within the tolerance under every prompt of every source, the nearest first."""
        within = self.table.groupby("setting")["within"].all()
        return [setting for setting in self.nearest if within[setting]]

    @property
    def nearest(self) -> list[str]:
        """Return all settings, ordered by the mean over prompts of: median difference / largest reward."""
        shares = self.table["median"] / self.table["scale"]
        return list(shares.groupby(self.table["setting"], sort=False).mean().sort_values(kind="stable").index)


# --- what is compared ---------------------------------------------------------------------------------------------


def verify(
    name: str, *, sample: int = 200, seed: int = 0, device: str | None = None, dtype: str | None = None
) -> Report:
    """Run one of the paper's ten models with every setting, and compare it with its published scores.

    `name` is a nickname or hub id. `sample` is the number of items, and of pairs of long answers. Both are spread over
    their ranking and drawn with the seed. See reward_models.Options for device and dtype; the model is loaded once per
    head and attention. InputError for another model, and for weights that are not available.
    """
    models = registry.reward_models()
    ten = models[models["group"] == "paper"]
    if name not in ten.index and name not in set(ten["hub_id"]):
        raise InputError(
            f"scores were published for ten reward models, and '{name}' is not one of them; "
            f"choose from {', '.join(ten.index)}"
        )
    entry = reward_models.find(name)
    items = published_items(entry["nickname"], sample, seed)
    answers, notes_on_answers = long_answers(entry["nickname"], sample, seed)
    published = pd.concat([items, answers], ignore_index=True)
    notes: list[str] = []
    tables = []
    for head, attention in tqdm(readings(entry), unit=" loads", desc=entry["nickname"], disable=None):
        given = "urm_helpfulness" if head == "urm_helpfulness" else None  # any other is read from the checkpoint
        model = reward_models.load(name, device=device, dtype=dtype, attention=attention, head=given)
        modes = bos_modes(model, items["question"].iloc[0])
        for bos in modes:
            setting = f"{'helpfulness alone, ' * (head == 'urm_helpfulness')}{attention} attention, {bos} bos"
            table = compared(published, score(model, published, bos), entry["dtype"], model.dtype)
            table.insert(0, "setting", setting)
            tables.append(table)
        notes = [
            f"{entry['nickname']} ({entry['hub_id']}, revision {model.revision}), {model.dtype} on {model.device}: "
            f"{sample} EloEverything items (seed {seed}) under {items['prompt'].nunique()} prompts, beside the "
            "published scores."
        ]
        if entry["attention"] != "eager":
            notes.append("Its architecture has no soft-capping, so attention is no setting here.")
        if len(modes) == 1:
            notes.append("Its template brings no bos of its own, so single and double bos are one input.")
        del model  # before the next one is loaded
        hardware.release()
    return Report(notes + notes_on_answers, pd.concat(tables, ignore_index=True))


def published_items(nickname: str, sample: int, seed: int) -> pd.DataFrame:
    """Return a sample of items with published rewards, in columns text, prompt, reward, source, question, precision."""
    if not (path := scores.path_of(ITEMS, nickname)).is_file():
        score_files.import_items()
    items = spread_sample(scores.read(path), sample, seed)
    prompts, precision = (items.attrs["metadata"][key] for key in ("prompts", "precision"))
    rows = items.melt("text", list(prompts), "prompt", "reward")
    return rows.assign(source="items", question=rows["prompt"].map(prompts), precision=rows["prompt"].map(precision))


def long_answers(nickname: str, sample: int, seed: int) -> tuple[pd.DataFrame | None, list[str]]:
    """Return published rewards of both long answers of a sample of pairs, as `published_items` does, and notes on them.

    None for models without such rewards.
    """
    if nickname != JUDGED:
        return None, []
    try:
        answers = judged_answers()
    except downloads.Unreachable as error:
        return None, [f"Long answers are not compared: {error}."]
    by_reward = answers.groupby("pair_id")["reward"].mean().sort_values(kind="stable").index.to_frame(index=False)
    chosen = spread_sample(by_reward, min(sample, len(by_reward)), seed)["pair_id"]
    answers = answers[answers["pair_id"].isin(chosen)]
    apart = float(np.abs(answers["reward"] - answers["again"]).max())
    rows = answers.rename(columns={"prompt": "question"}).drop(columns="again")
    precision = score_files.precision_of(rows["reward"].to_numpy())
    note = f"{len(rows)} long answers of {ANSWERS}, each scored twice by others, {apart:g} apart at most."
    return rows.assign(source="long answers", prompt=ANSWERS, precision=precision), [note]


def judged_answers() -> pd.DataFrame:
    """Return the 700 released answers, see read_answers. Unreachable if the file is not available."""
    return read_answers(downloads.fetch(REPOSITORY, FILE))


def read_answers(path: Path) -> pd.DataFrame:
    """Return the answers of a released file, two rows per pair, in columns pair_id, prompt, text, reward, again.

    `reward` was scored with the pair in its first order, and `again` in reverse order, both on the model's own scale.
    InputError, which names file and line, for a line that is no scored pair.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n"), start=1):
        try:
            pair = json.loads(line)
            (first, second), (second_again, first_again) = (each["judgment"]["scores"] for each in pair["judgments"])
            about = {"pair_id": str(pair["pair_id"]), "prompt": str(pair["question"])}
            for letter, reward, again in (("A", first, first_again), ("B", second, second_again)):
                text = str(pair[f"response_{letter}"])
                rows.append(about | {"text": text, "reward": float(reward), "again": float(again)})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number} holds no pair with two scores; fetch it again") from error
    table = pd.DataFrame(rows)
    if not np.isfinite(table[["reward", "again"]].to_numpy()).all():
        raise InputError(f"{path} holds rewards that are not finite; fetch it again")
    return table


def spread_sample(table: pd.DataFrame, n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of a score table: one drawn from each of n stretches of nearly equal length, in order."""
    if not 2 <= n <= len(table):
        raise InputError(f"a sample of {n} items cannot be drawn; choose 2 to {len(table)}")
    edges = np.linspace(0, len(table), n + 1).astype(int)
    return table.iloc[np.random.default_rng(seed).integers(edges[:-1], edges[1:])].reset_index(drop=True)


def readings(entry: dict) -> list[tuple[str, str]]:
    """Return the (head, attention) pairs in which a model of the registry can be run."""
    heads = ["urm", "urm_helpfulness"] if entry["head"] == "urm" else [entry["head"]]
    attentions = ["eager", "uncapped"] if entry["attention"] == "eager" else [entry["attention"]]
    return [(head, attention) for head in heads for attention in attentions]


def bos_modes(model: reward_models.RewardModel, prompt: str) -> list[str]:
    """Return the bos modes that give different inputs: double equals single if the template brings no bos."""
    once, twice = (model.conversation(prompt, bos).prefix_ids for bos in ("single", "double"))
    return ["single"] if once == twice else ["single", "double"]


def score(model: reward_models.RewardModel, published: pd.DataFrame, bos: str) -> pd.Series:
    """Return our rewards of published texts, each as the reply to its question."""
    ours = pd.Series(np.nan, index=published.index, dtype=np.float32)
    for question, rows in published.groupby("question", sort=False):
        ours[rows.index] = engine.score_replies(model, str(question), rows["text"].tolist(), bos=bos)
    return ours


def compared(published: pd.DataFrame, ours: pd.Series, *precisions: str) -> pd.DataFrame:
    """Return how far our rewards are from the published ones: a row for each source and prompt.

    - largest, median: difference, on the model's own scale
    - item: the text with the largest difference
    - tau: Kendall's tau-b in [-1, 1]
    - scale: the largest published reward
    - at_most, median_at_most: the limits by TOLERANCES in the coarsest precision, of the published numbers or of
      `precisions`
    - within: whether both differences keep these limits
    """
    rows = []
    for (source, prompt), theirs in published.groupby(["source", "prompt"], sort=False):
        difference = (ours[theirs.index].astype(float) - theirs["reward"]).abs()
        scale = float(theirs["reward"].abs().max())
        coarsest = max([theirs["precision"].iloc[0], *precisions], key=lambda name: TOLERANCES[name])
        middle, limit = (scale * share for share in TOLERANCES[coarsest])
        median, largest = float(difference.median()), float(difference.max())
        tau = float(kendalltau(ours[theirs.index], theirs["reward"]).statistic)
        rows.append({"source": source, "prompt": prompt, "largest": largest,
                     "item": theirs.loc[difference.idxmax(), "text"], "median": median, "tau": tau, "scale": scale,
                     "tolerance": coarsest, "at_most": limit, "median_at_most": middle,
                     "within": median <= middle and largest <= limit})  # fmt: skip
    return pd.DataFrame(rows)


# --- in words -----------------------------------------------------------------------------------------------------


def rows(report: Report) -> list[Row]:
    """Return a row of a check for each source: the settings that reproduce its rewards, or the nearest one.

    The field `numbers` holds the rows of the report's table.
    """
    checked = []
    for source, part in report.by_source.items():
        first, *more = part.reproduced or part.nearest
        at = part.table[part.table["setting"] == first]
        worst = at["median"].max(), at["largest"].max(), at["tau"].min()
        far = "median difference {:.2g}, largest {:.2g}, tau {:.3f}".format(*worst)
        if part.reproduced:
            result = [f"reproduced with {first} ({far})", *(f"within tolerance too: {name}" for name in more)]
        else:  # the published files were not all made alike, so one prompt may be reproduced by itself
            alone = part.table[part.table["within"]].groupby("prompt", sort=False)["setting"].agg(", or ".join)
            result = [f"reproduced by no setting; the nearest is {first} ({far})"]
            result += [f"{prompt} alone: {settings}" for prompt, settings in alone.items()]
        status, numbers = "ok" if part.reproduced else "wrong", {"settings": part.table.to_dict("records")}
        checked.append(Row(f"published {source}", status, "; ".join(result), "", numbers))
    return checked


def print_report(name: str, **options: Any) -> bool:
    """Print how a model compares with its published scores; return whether no setting reproduces them.

    See `verify` for the options.
    """
    report = verify(name, **options)
    items = [show_token(item, 30).replace("␣", " ") for item in report.table["item"]]
    table = report.table.drop(columns=["source", "scale"]).assign(item=items).to_string(index=False)
    print(*report.notes, "", table, "", *(line for row in rows(report) for line in row.lines()), sep="\n")
    return not report.is_reproduced
