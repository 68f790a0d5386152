"""Does a real reward model, run here, give the scores that were published for it, and with which settings?

The paper's code fed two beginning-of-sequence tokens if a template brings its own. It dropped Gemma-2's soft-capping,
and read one model's helpfulness instead of its reward. Each of these is a setting here. A sample of EloEverything items
is scored under the three published prompts with all settings.

Two runs in half precision never agree to the last digit. The published word files hold 45 words that the authors scored
twice under 54 prompts. Differences between two such runs, as a share of the model's largest reward and without zeros:

- bfloat16 (five models): median .0084, largest .036
- float16 (three models): median .00045, largest .0022
- float32 (two models): median .0000012, largest .000006

TOLERANCES are about twice that, and eight times in float32, where another order of summing shows.

For one model there are published rewards of long answers too. JudgeBench (Tan et al. 2024) scored 350 pairs of answers
in both orders, each to a question of its own. Their median is 880 tokens, so soft-capping, precision and a second bos
token show more clearly than in a word.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    table: pd.DataFrame  # a row per setting and prompt, see `compared`, with the source of the published rewards

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

    name: nickname or hub id. sample: how many items, and how many pairs of long answers. They are spread over the
    ranking by people and over rewards, and drawn with the seed. device, dtype: see reward_models.load, which is called
    once per head and attention. InputError for another model, and for weights that cannot be had.
    """
    models = registry.reward_models()
    ten = models[models["group"] == "paper"]
    if name not in ten.index and name not in set(ten["hub_id"]):
        raise InputError(
            f"scores were published for ten reward models, and '{name}' is not one of them; "
            f"choose from {', '.join(ten.index)}"
        )
    entry = reward_models.find(name)
    if not (published := scores.path_of(ITEMS, entry["nickname"])).is_file():
        score_files.import_items()
    items = spread_sample(scores.read(published), sample, seed)
    prompts = items.attrs["metadata"]["prompts"]
    answers, notes_on_answers = _long_answers(entry["nickname"], sample, seed)
    notes: list[str] = []
    rows: list[dict] = []
    for head, attention in tqdm(readings(entry), unit=" loads", desc=entry["nickname"], disable=None):
        given = "urm_helpfulness" if head == "urm_helpfulness" else None  # any other is read from the checkpoint
        model = reward_models.load(name, device=device, dtype=dtype, attention=attention, head=given)
        modes = bos_modes(model, prompts)
        for bos in modes:
            setting = f"{'helpfulness alone, ' * (head == 'urm_helpfulness')}{attention} attention, {bos} bos"
            rows += [{"setting": setting} | row for row in _beside(model, items, answers, bos, entry["dtype"])]
        notes = [
            f"{entry['nickname']} ({entry['hub_id']}, revision {model.revision}), {model.dtype} on {model.device}: "
            f"{len(items)} EloEverything items (seed {seed}) under {len(prompts)} prompts, beside the published scores."
        ]
        if entry["attention"] != "eager":
            notes.append("Its architecture has no soft-capping, so attention is no setting here.")
        if len(modes) == 1:
            notes.append("Its template brings no bos of its own, so single and double bos are one input.")
        del model  # before the next one is loaded
        hardware.release()
    return Report(notes + notes_on_answers, pd.DataFrame(rows))


def _long_answers(nickname: str, sample: int, seed: int) -> tuple[pd.DataFrame | None, list[str]]:
    """Return long answers in the form in which `compared` takes items, both answers of a pair or none; and notes."""
    if nickname != JUDGED:
        return None, []
    try:
        answers = judged_answers()
    except downloads.Unreachable as error:
        return None, [f"Long answers are not compared: {error}."]
    by_reward = answers.groupby("pair_id")["reward"].mean().sort_values(kind="stable").index.to_frame(index=False)
    chosen = spread_sample(by_reward, min(sample, len(by_reward)), seed)["pair_id"]
    drawn = answers[answers["pair_id"].isin(chosen)].reset_index(drop=True).rename(columns={"reward": ANSWERS})
    precision = score_files.precision_of(drawn[ANSWERS].to_numpy())
    drawn.attrs["metadata"] = {"precision": {ANSWERS: precision}}
    apart = float(np.abs(drawn[ANSWERS] - drawn["again"]).max())
    return drawn, [f"{len(drawn)} long answers of {ANSWERS}, each scored twice by others, {apart:g} apart at most."]


def judged_answers() -> pd.DataFrame:
    """Return the 700 released answers, see read_answers. Unreachable if the file cannot be had."""
    return read_answers(downloads.fetch(REPOSITORY, FILE))


def read_answers(path: Path) -> pd.DataFrame:
    """Return the answers of a released file, two rows per pair: columns pair_id, prompt, text, reward, again.

    reward: as scored first, on the model's own scale; again: with the other answer first. InputError, naming file and
    line, for a line that is no scored pair.
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


def bos_modes(model: reward_models.RewardModel, prompts: dict[str, str]) -> list[str]:
    """Return the bos modes that give different inputs: double equals single if the template brings no bos."""
    [first, *_] = prompts.values()
    once, twice = (model.conversation(first, bos).prefix_ids for bos in ("single", "double"))
    return ["single"] if once == twice else ["single", "double"]


def compared(items: pd.DataFrame, ours: dict[str, np.ndarray], *precisions: str) -> Iterator[dict]:
    """Yield, for each prompt, how far our rewards of the items are from the published ones.

    Long answers, which all have prompts of their own, count as one prompt, ANSWERS. Each row holds:

    - largest, median: difference, on the model's own scale; item: the text with the largest difference
    - tau: Kendall's tau-b in [-1, 1]; scale: the largest published reward
    - at_most, median_at_most: the limits by TOLERANCES in the coarsest precision, of the published numbers or of
      `precisions`; within: whether both differences keep these limits
    """
    metadata = items.attrs["metadata"]
    for prompt, rewards in ours.items():
        theirs = items[prompt].to_numpy()
        difference, scale = np.abs(rewards.astype(float) - theirs), float(np.abs(theirs).max())
        coarsest = max([metadata["precision"][prompt], *precisions], key=lambda name: TOLERANCES[name])
        middle, limit = (scale * share for share in TOLERANCES[coarsest])
        median, largest = float(np.median(difference)), float(difference.max())
        yield {"prompt": prompt, "largest": largest, "item": items["text"].iloc[int(difference.argmax())],
               "median": median, "tau": float(kendalltau(rewards, theirs).statistic), "scale": scale,
               "tolerance": coarsest, "at_most": limit, "median_at_most": middle,
               "within": median <= middle and largest <= limit}  # fmt: skip


def _beside(
    model: reward_models.RewardModel, items: pd.DataFrame, answers: pd.DataFrame | None, bos: str, dtype: str
) -> Iterator[dict]:
    """Yield the rows of `compared` for the published rewards of each source, with that source."""
    prompts, texts = items.attrs["metadata"]["prompts"], items["text"].tolist()
    ours = {prompt: engine.score_replies(model, text, texts, bos=bos) for prompt, text in prompts.items()}
    yield from ({"source": "items"} | row for row in compared(items, ours, dtype, model.dtype))
    if answers is not None:
        rewards = pd.Series(np.nan, index=answers.index, dtype=np.float32)
        for prompt, rows in answers.groupby("prompt", sort=False):  # each answer belongs to a prompt of its own
            rewards[rows.index] = engine.score_replies(model, str(prompt), rows["text"].tolist(), bos=bos)
        of_answers = compared(answers, {ANSWERS: rewards.to_numpy()}, dtype, model.dtype)
        yield from ({"source": "long answers"} | row for row in of_answers)


# --- in words -----------------------------------------------------------------------------------------------------


def rows(report: Report) -> list[Row]:
    """Return a row of a check for each source: the settings that reproduce its rewards, or the nearest one.

    numbers: the rows of the report's table.
    """
    checked = []
    for source, part in report.by_source.items():
        first, *more = part.reproduced or part.nearest
        at = part.table[part.table["setting"] == first]
        worst = at["median"].max(), at["largest"].max(), at["tau"].min()
        far = "median difference {:.2g}, largest {:.2g}, tau {:.3f}".format(*worst)
        if part.reproduced:
            result = "; ".join(
                [f"reproduced with {first} ({far})", *(f"within tolerance too: {name}" for name in more)]
            )
        else:  # the published files were not all made alike, so one prompt may be reproduced by itself
            alone = part.table[part.table["within"]].groupby("prompt", sort=False)["setting"].agg(", or ".join)
            nearest = f"reproduced by no setting; the nearest is {first} ({far})"
            result = "; ".join([nearest, *(f"{prompt} alone: {settings}" for prompt, settings in alone.items())])
        status = "ok" if part.reproduced else "wrong"
        checked.append(Row(f"published {source}", status, result, "", {"settings": part.table.to_dict("records")}))
    return checked


def lines(report: Report) -> list[str]:
    """Return the report as lines of text: what was run, a row per setting and prompt, and a row per source."""
    items = [show_token(item, 30).replace("␣", " ") for item in report.table["item"]]
    table = report.table.drop(columns=["source", "scale"]).assign(item=items)
    checked = [line for row in rows(report) for line in row.lines()]
    return [*report.notes, "", *table.to_string(index=False).splitlines(), "", *checked]
