"""Train V-Smol-135M's two heads anew: python data/human_ratings/build.py, about twenty minutes.

It writes the heads, how well they order words that they never saw (heads.csv), and how many
unlisted tokens help (cross_validation.csv). Another processor rounds otherwise, so its heads differ
slightly; the kept ones are those that every notebook reads.
"""

import hashlib
import itertools

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from lib.human_ratings import base, features, resampled, training, words
from lib.tables.prompts import read_prompts

FOLDS = 5
NUMBERS = (0, 0.5, 1, 2, 4)  # unlisted tokens for each rated word
WEIGHTS = (0.5, 1, 2)  # of an unlisted token, where a rated word has 1


def cross_validate(language_model) -> pd.DataFrame:
    """Return means over folds of the stems of training words, by number and weight of tokens.

    rho: of rewards and ratings of the words left out. spread: the standard deviation of rewards of
    tokens that were not trained, in that of the words left out. loss: of preferences between as
    many of both. Standard errors are those of the folds.
    """
    most = int(max(NUMBERS) * training.SHOWN)
    states, ratings, stems = training.training_data(
        language_model, unlisted=most + training.SHOWN
    )
    numbers = np.unique(stems, return_inverse=True)[1].reshape(stems.shape)
    fold = np.random.default_rng(0).permutation(numbers.max() + 1)[numbers] % FOLDS
    rows = []
    for number, weight in itertools.product(NUMBERS, WEIGHTS):
        if not number and weight != 1:
            continue
        kept = slice(training.SHOWN + int(number * training.SHOWN))
        found = []
        for left_out in range(FOLDS):
            weights = torch.from_numpy((fold != left_out).astype("float32"))
            weights[:, training.SHOWN :] *= weight
            head = training.fit(states[:, kept], ratings[:, kept], weights[:, kept])
            found.append(of_left_out(head, states, ratings, fold == left_out))
        found = pd.DataFrame(found)
        errors = (found.std() / FOLDS**0.5).add_suffix("_error")
        rows.append({"number": number, "weight": weight, **found.mean(), **errors})
    return pd.DataFrame(rows).round(4)


def of_left_out(head, states, ratings, is_left_out) -> dict[str, float]:
    """Return rho, spread and loss on the words left out, and on tokens that no fold trains."""
    found = []
    for of_prompt, rated, chosen in zip(states, ratings, is_left_out, strict=True):
        place = np.flatnonzero(chosen[: training.SHOWN])
        others = np.arange(len(rated) - len(place), len(rated))
        both = np.random.default_rng(0).permutation(np.r_[place, others])
        rewards = head(of_prompt)
        loss = training.preference_loss(rewards[None, both], rated[None, both])
        spread = rewards[-training.SHOWN :].std() / rewards[place].std()
        rho = training.accuracy(rewards[place], rated[place])
        found.append({"rho": rho, "spread": float(spread), "loss": float(loss)})
    return pd.DataFrame(found).mean().to_dict()


def judge(language_model, head, others) -> pd.DataFrame:
    """Return rho on held-out words by prompt, with the interval of one more of the other heads,
    and the spread of held-out unlisted tokens in that of these words.
    """
    tokenizer = language_model.tokenizer
    rated = words.replies_of(words.rated_words(), tokenizer)
    rated, unlisted = (
        rows[rows["held_out"]].sample(count, random_state=0)
        for rows, count in ((rated, training.ASKED), (words.unlisted(tokenizer), 1000))
    )
    rows = []
    for prompt, text in read_prompts(None).items():
        of_rated, of_unlisted = (
            features.kept_states(language_model, text, list(some["reply"]))
            for some in (rated, unlisted)
        )
        rho = [training.accuracy(one(of_rated), rated["sentiment"]) for one in others]
        interval = resampled.with_interval(pd.DataFrame([rho])).iloc[0]
        spread = float(head(of_unlisted).std() / head(of_rated).std())
        own = training.accuracy(head(of_rated), rated["sentiment"])
        row = {"prompt": prompt, "rho": own, "trainings": len(others), **interval}
        rows.append(row | {"spread": spread})
    return pd.DataFrame(rows).rename(columns={"estimate": "mean"}).round(3)


def main() -> None:
    language_model = base.load_base(dtype="float32")
    data = training.training_data(language_model)
    names = {training.RATED_ALONE: training.SHOWN, training.WITH_UNLISTED: None}
    parts = {name: [each[:, :count] for each in data] for name, count in names.items()}
    for name, (states, ratings, _) in parts.items():
        head = training.fit(states, ratings)
        save_file(head.state_dict(), training.head_file(name))
    tables = []
    for name, part in parts.items():
        others = resampled.train_heads(*part)
        table = judge(language_model, training.read_head(name), others)
        table.insert(0, "head", name)
        content = training.head_file(name).read_bytes()
        tables.append(table.assign(sha256=hashlib.sha256(content).hexdigest()))
    pd.concat(tables).to_csv(training.FOLDER / "heads.csv", index=False)
    table = cross_validate(language_model)
    table.to_csv(training.FOLDER / "cross_validation.csv", index=False)


if __name__ == "__main__":
    main()
