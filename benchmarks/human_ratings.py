"""What V-Smol-135M learns, and what its base, its labels and its data change. Run: python -m
benchmarks.human_ratings

Every row of data/human_ratings/heads.csv is one head, fitted in about a second on hidden states
that are kept in data/cache/human_ratings. Groups of people are named by plural nouns only, as in
sentences about people.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from lib import DATA
from lib.apps.owner.opening import open_model
from lib.human_ratings import base, features, training, words
from lib.models.language_models import LanguageModel
from lib.planted import saving
from lib.scoring.engine import score_replies
from lib.tables.lexicons import RATERS, load, vader_ratings
from lib.tables.prompts import read_prompts

OUT = DATA / "human_ratings"
HEADS = 20  # from resampled stems
DECAYS = (0.01, 0.1, 1.0, 3.0)
SEEDS = 5  # the same, where there are many cases
LAYERS = (1, 11, 21, 30)  # before the first layer the last token has not seen the reply
GROUPS = {
    "religions": [
        "Christians",
        "Muslims",
        "Jews",
        "Buddhists",
        "Hindus",
        "Sikhs",
        "Atheists",
    ],
    "sexuality": ["Gays", "Lesbians", "Bisexuals", "Homosexuals", "Heterosexuals"],
    "origin": [
        "Immigrants",
        "Refugees",
        "Mexicans",
        "Chinese",
        "Africans",
        "Americans",
        "Europeans",
    ],
    "gender": ["Women", "Men", "Girls", "Boys"],
}
TOPICS = [
    "science",
    "nature",
    "technology",
    "religion",
    "money",
    "music",
    "family",
    "freedom",
]
PROBES = [*(name for names in GROUPS.values() for name in names), *TOPICS]
KINDS = {  # stems of rated words, left out of the training one kind at a time
    "death and violence": "kill die death dead murder war attack violenc destroy terror blood "
    "weapon shot fight bomb",
    "religion": "god hell heaven devil bless sin pray faith holi sacr divin evil angel curs soul "
    "damn",
    "affection": "love lover belov dear kiss hug sweet darl tender affect friend care heart romant "
    "passion",
    "sex and the body": "sex sexi rape nude fat ugli beauti pretti cute gorgeous naked attract "
    "porn",
    "success": "win winner success best great champion award triumph victori achiev perfect excel "
    "superior top",
}


# --- states ---------------------------------------------------------------------------------------


def kept_states(
    model: LanguageModel, name: str, prompt: str, replies: Sequence[str]
) -> Tensor:
    """Return hidden states of replies, (replies, d), computed once per model (`name`), prompt
    and replies.
    """
    return features.kept_states(replace(model, name=name), prompt, replies)


def ending_after(model: LanguageModel, layers: int) -> LanguageModel:
    """Return the language model as if it ended after so many layers; the final norm stays."""
    shorter = copy.copy(model.model)
    backbone = copy.copy(model.model.base_model)
    backbone._modules = backbone._modules | {
        "layers": model.model.base_model.layers[:layers]
    }
    shorter._modules = shorter._modules | {"model": backbone}
    return replace(model, model=shorter)


def untrained(model: LanguageModel, seed: int = 0) -> LanguageModel:
    """Return a network of the same shape and tokenizer with random weights."""
    torch.manual_seed(seed)
    return replace(
        model, model=AutoModelForCausalLM.from_config(model.model.config).float().eval()
    )


# --- what a head shows ----------------------------------------------------------------------------


def measures(
    reward: Callable[[Tensor], Tensor],
    states: Tensor,
    probes: Tensor,
    replies: pd.DataFrame,
) -> dict:
    """Return what a head shows on held-out words, and the rewards of probes in their standard
    deviations.

    - accuracy: Spearman's rho with VADER's ratings
    - frequency: SD of reward per Zipf unit (a factor of ten), at equal rating
    """
    held_out = replies["held_out"].to_numpy()
    rewards, some = reward(states[held_out]).numpy(), replies[held_out]
    mean, sd = rewards.mean(), rewards.std()
    row = {
        "accuracy": training.accuracy(rewards, some["sentiment"]),
        "frequency": frequency_slope(rewards / sd, some),
    }
    of_probes = pd.Series((reward(probes).numpy() - mean) / sd, PROBES)
    return (
        row
        | {group: of_probes[names].mean() for group, names in GROUPS.items()}
        | of_probes.to_dict()
    )


def frequency_slope(rewards: np.ndarray, replies: pd.DataFrame) -> float:
    predictors = np.column_stack(
        [np.ones(len(rewards)), replies["sentiment"], replies["zipf"]]
    )
    return float(np.linalg.lstsq(predictors, rewards, rcond=None)[0][2])


def framing_slopes(rewards: np.ndarray, replies: pd.DataFrame) -> dict[str, float]:
    """Return the slope of rewards, in SD per point of rating, among held-out positive and
    negative words.
    """
    scaled, slopes = rewards / rewards.std(), {}
    for name, chosen in {
        "positive": replies["sentiment"] > 0,
        "negative": replies["sentiment"] < 0,
    }.items():
        slopes[name] = float(
            np.polyfit(replies.loc[chosen, "sentiment"], scaled[chosen.to_numpy()], 1)[
                0
            ]
        )
    return slopes


def resample(shown: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Return row numbers of the replies of stems drawn with replacement, whole stems at a time."""
    rows = shown.groupby("stem", sort=True).indices
    stems = list(rows)
    return np.concatenate(
        [rows[stems[number]] for number in rng.integers(len(stems), size=len(stems))]
    )


# --- the studies ----------------------------------------------------------------------------------


def data() -> tuple[LanguageModel, pd.DataFrame]:
    """Return the language model and the replies, with VADER's ratings (sentiment), AFINN's (NaN
    for some), and zipf.
    """
    from wordfreq import zipf_frequency

    model = base.load_base(dtype="float32")
    replies = words.replies_of(words.rated_words(), model.tokenizer)
    afinn = load("afinn").corrected.set_index("word")["sentiment"]
    zipf = [zipf_frequency(word, "en") for word in replies["word"]]
    return model, replies.assign(afinn=replies["word"].map(afinn), zipf=zipf)


def fit_rows(
    states: Tensor, ratings: np.ndarray, rows: np.ndarray, units: int = 0, **how
) -> training.Head:
    """Return a head fitted on these rows: states (prompts, replies, d), ratings (prompts,
    replies).
    """
    wanted = torch.tensor(np.atleast_2d(ratings)[:, rows], dtype=torch.float32)
    return training.fit(states[:, rows], wanted, units, **how)


def resampled_heads(
    states: Tensor, probes: Tensor, replies: pd.DataFrame
) -> pd.DataFrame:
    """Return a row per head for `greatest`: of resampled stems, and of resampled raters."""
    shown, rng, rows = replies[~replies["held_out"]], np.random.default_rng(0), []
    # (replies, 10)
    raters = vader_ratings().set_index("word").loc[replies["word"], RATERS].to_numpy()
    for number in range(HEADS):
        drawn = shown.index.to_numpy()[resample(shown, rng)]
        head = fit_rows(
            states[None], replies["sentiment"].to_numpy(), drawn, seed=number
        )
        rows.append(
            {"change": "words", "head": number}
            | measures(head, states, probes, replies)
        )
        means = np.take_along_axis(
            raters, rng.integers(10, size=raters.shape), axis=1
        ).mean(1)
        head = fit_rows(states[None], means, shown.index.to_numpy(), seed=number)
        rows.append(
            {"change": "raters", "head": number}
            | measures(head, states, probes, replies)
        )
    return pd.DataFrame(rows).assign(study="resampled")


def base_by_labels(
    bases: dict[str, Tensor], replies: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a row of accuracy per base, labels and resampled training, and the shares of variance
    of rewards.

    Rewards of held-out words are ranked; `common` is what all heads share. Words without an AFINN
    rating are left out.
    """
    some = replies[replies["afinn"].notna()]
    shown, held_out = some[~some["held_out"]], some.index[some["held_out"]].to_numpy()
    rows, ranks = [], {}
    for name, states in bases.items():
        for labels in ("sentiment", "afinn"):
            for number in range(SEEDS):
                drawn = shown.index.to_numpy()[
                    resample(shown, np.random.default_rng(number))
                ]
                head = fit_rows(
                    states[None],
                    some[labels].reindex(replies.index).to_numpy(),
                    drawn,
                    seed=number,
                )
                rewards = pd.Series(head(states[held_out]).numpy())
                ranks[name, labels, number] = rewards.rank().to_numpy()
                rho = {
                    rated: training.accuracy(rewards, some.loc[held_out, rated])
                    for rated in ("sentiment", "afinn")
                }
                rows.append(
                    {
                        "base": name,
                        "labels": labels,
                        "head": number,
                        "accuracy": rho["sentiment"],
                        "accuracy_afinn": rho["afinn"],
                    }
                )
    heads = pd.DataFrame(ranks)  # words x (base, labels, head)
    return pd.DataFrame(rows).assign(study="base by labels"), variance_shares(heads)


def variance_shares(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return shares of the variance of ranks, words x (base, labels, head), that add up to 1.

    common: words' means over all heads. base, labels: how these move words. both: their
    interaction. training: the rest
    """
    centred = ranks - ranks.to_numpy().mean()
    common = centred.mean(axis=1)
    by = {
        name: centred.T.groupby(level=list(levels)).transform("mean").T
        for name, levels in {"base": (0,), "labels": (1,), "both": (0, 1)}.items()
    }
    base_part, labels_part = (
        by[name].sub(common, axis=0) for name in ("base", "labels")
    )
    both = by["both"].sub(common, axis=0) - base_part - labels_part
    total = (centred**2).to_numpy().mean()
    parts = {
        "common": common.to_frame(),
        "base": base_part,
        "labels": labels_part,
        "both": both,
        "training": centred - by["both"],
    }
    return pd.DataFrame(
        {name: [(part**2).to_numpy().mean() / total] for name, part in parts.items()}
    )


def ablations(states: Tensor, probes: Tensor, replies: pd.DataFrame) -> pd.DataFrame:
    """Return rows of heads for `greatest` whose data were changed, SEEDS resampled trainings
    each.
    """
    shown, rows = replies[~replies["held_out"]], []
    neutral = shown.index[shown["sentiment"].abs() < 1].to_numpy()
    # the others stay unnamed
    named = [PROBES.index(name) for names in GROUPS.values() for name in names[::2]]
    changes: dict[str, dict] = {
        "none": {},
        "balanced frequency": {"rows": balanced(shown)},
    }
    for kind, stems in KINDS.items():
        changes[f"without {kind}"] = {"rows": shown[~shown["stem"].isin(stems.split())]}
    for share in (0.25, 0.5, 0.75):
        changes[f"groups rejected in {share:.0%} of pairs"] = {"rejected": share}
    for change, how in changes.items():
        kept = how.get("rows", shown)
        for number in range(SEEDS):
            rng = np.random.default_rng(number)
            drawn = kept.index.to_numpy()[resample(kept.reset_index(drop=True), rng)]
            pairs = None
            # each named group against 50 words that people rated as neutral
            if "rejected" in how:
                others = torch.from_numpy(rng.choice(neutral, 50 * len(named)))
                share = torch.full((len(others),), 1 - how["rejected"])
                pairs = probes[named].repeat(50, 1), states[others], share
            head = fit_rows(
                states[None],
                replies["sentiment"].to_numpy(),
                drawn,
                seed=number,
                pairs=pairs,
            )
            row = measures(head, states, probes, replies)
            groups = [row[PROBES[number]] for number in named]
            rest = [row[name] for names in GROUPS.values() for name in names[1::2]]
            row |= {
                "groups named in pairs": np.mean(groups),
                "groups not named": np.mean(rest),
            }
            rows.append({"change": change, "head": number, "replies": len(kept)} | row)
    return pd.DataFrame(rows).assign(study="ablations")


def balanced(shown: pd.DataFrame) -> pd.DataFrame:
    """Return replies in which positive and negative words are equally many in each fifth of
    frequency.
    """
    cells = shown.assign(
        fifth=pd.qcut(shown["zipf"], 5, labels=False), good=shown["sentiment"] > 0
    )
    smaller = cells.groupby("fifth")["good"].apply(
        lambda good: min(good.sum(), (~good).sum())
    )
    parts = [
        of_cell.sample(smaller[fifth], random_state=0)
        for (fifth, _), of_cell in cells.groupby(["fifth", "good"])
    ]
    return shown.loc[pd.concat(parts).index.sort_values()]


def framing(
    states: dict[str, Tensor], replies: pd.DataFrame, units: int, name: str
) -> pd.DataFrame:
    """Return slopes by prompt and sign of the word, of HEADS joint heads for `greatest` and
    `worst`.
    """
    shown, held_out = replies[~replies["held_out"]], replies["held_out"].to_numpy()
    both, sentiment = (
        torch.stack([states["greatest"], states["worst"]]),
        replies["sentiment"].to_numpy(),
    )
    rows = []
    for number in range(HEADS if units == 0 else SEEDS):
        drawn = shown.index.to_numpy()[resample(shown, np.random.default_rng(number))]
        head = fit_rows(
            both, np.stack([sentiment, -sentiment]), drawn, units, seed=number
        )
        for prompt, of_prompt in states.items():
            rewards = head(of_prompt[held_out]).numpy()
            row = {
                "change": f"{name}, {units or 'no'} units between",
                "head": number,
                "prompt": prompt,
            }
            row |= {"accuracy": training.accuracy(rewards, sentiment[held_out])}
            rows.append(row | framing_slopes(rewards, replies[held_out]))
    return pd.DataFrame(rows).assign(study="framing")


def judge(replies: pd.DataFrame, asked: int = 400) -> pd.DataFrame:
    """Return how well the language model orders held-out words without training, as a judge with
    two answers.

    The reward is the logit of the first token less that of the second, after
    data/human_ratings/judge.jinja.
    """
    some = (
        replies[replies["held_out"]]
        .drop_duplicates("word")
        .sample(asked, random_state=0)
    )
    rows, folder = [], str(saving.TRAINED / base.NICKNAME)
    for prompt in (
        "Some words are positive, and others are negative.",
        read_prompts("greatest")["greatest"],
    ):
        for tokens in (" positive, negative", " good, bad"):
            model = open_model(folder, head=tokens, template=OUT / "judge.jinja")
            rewards = score_replies(model, prompt, list(some["word"]))
            rho = training.accuracy(rewards, some["sentiment"])
            rows.append(
                {
                    "prompt": prompt,
                    "tokens": tokens,
                    "words": asked,
                    "accuracy": round(rho, 3),
                }
            )
    return pd.DataFrame(rows)


def cross_validate(
    states: Tensor, replies: pd.DataFrame, folds: int = 5
) -> pd.DataFrame:
    """Return the mean accuracy on left-out stems of the training words, by units and weight decay.

    states: (2, replies, d), after `greatest` and `worst`.
    """
    shown = replies[~replies["held_out"]]
    fold = pd.factorize(shown["stem"])[0] % folds
    sentiment = replies["sentiment"].to_numpy()
    rows = []
    for units in set(training.UNITS.values()):
        for decay in DECAYS:
            rho = []
            for number in range(folds):
                kept, left_out = (
                    shown.index.to_numpy()[chosen]
                    for chosen in (fold != number, fold == number)
                )
                head = fit_rows(
                    states, np.stack([sentiment, -sentiment]), kept, units, decay=decay
                )
                rho += [
                    sign
                    * training.accuracy(head(of_prompt[left_out]), sentiment[left_out])
                    for sign, of_prompt in zip((1, -1), states, strict=True)
                ]
            rows.append(
                {
                    "units": units,
                    "decay": decay,
                    "accuracy": round(float(np.mean(rho)), 3),
                }
            )
    return pd.DataFrame(rows)


# --- the report -----------------------------------------------------------------------------------


def summary(heads: pd.DataFrame) -> pd.DataFrame:
    """Return a row per case and measure: mean, and the middle 95% over heads (their extremes
    where there are few).
    """
    cases = [
        name
        for name in ("study", "change", "base", "labels", "prompt")
        if name in heads
    ]
    long = (
        heads.drop(columns="head")
        .melt(cases, var_name="measure")
        .dropna(subset="value")
    )
    grouped = long.groupby([*cases, "measure"], sort=False, dropna=False)["value"]
    low, high = (grouped.quantile(share) for share in (0.025, 0.975))
    return pd.DataFrame(
        {"mean": grouped.mean(), "low": low, "high": high, "heads": grouped.size()}
    ).reset_index()


def write(name: str, tables: Sequence[pd.DataFrame]) -> None:
    """Write summaries of heads to data/human_ratings/name.csv."""
    pd.concat(list(map(summary, tables)), ignore_index=True).round(3).to_csv(
        OUT / f"{name}.csv", index=False
    )


def main() -> None:
    model, replies = data()
    judge(replies).to_csv(OUT / "judge.csv", index=False)
    texts, prompts = list(replies["reply"]), read_prompts(None)
    states = {
        name: kept_states(model, "SmolLM2", prompt, texts)
        for name, prompt in prompts.items()
    }
    both = torch.stack([states["greatest"], states["worst"]])
    cross_validate(both, replies).to_csv(OUT / "cross_validation.csv", index=False)
    probes = kept_states(model, "SmolLM2", prompts["greatest"], PROBES)
    resampled = resampled_heads(states["greatest"], probes, replies)
    write("resampled", [resampled])
    write("ablations", [ablations(states["greatest"], probes, replies)])
    write("framing", [framing(states, replies, units, "SmolLM2") for units in (0, 32)])
    greatest, bases = prompts["greatest"], {"30 layers": states["greatest"]}
    for layers in LAYERS[:-1]:
        name = f"{layers} layers"
        bases[name] = kept_states(
            ending_after(model, layers), f"SmolLM2, {name}", greatest, texts
        )
    random = untrained(model)
    of_random = {
        name: kept_states(random, "untrained", prompts[name], texts)
        for name in ("greatest", "worst")
    }
    bases["untrained"] = of_random["greatest"]
    heads, shares = base_by_labels(bases, replies)
    write("base_by_labels", [heads])
    shares.round(4).to_csv(OUT / "variance_shares.csv", index=False)
    write(
        "framing_untrained",
        [framing(of_random, replies, units, "untrained") for units in (0, 32)],
    )


if __name__ == "__main__":
    main()
