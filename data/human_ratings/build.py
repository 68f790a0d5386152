"""Train V-Smol-135M's two heads anew: python data/human_ratings/build.py

It writes the heads, and how well they order words that they never saw (heads.csv). Another
processor rounds otherwise, so its heads differ slightly; the kept ones are those that every
notebook reads.
"""

import hashlib

import pandas as pd
from safetensors.torch import save_file
from scipy.stats import spearmanr

from lib.tables.prompts import read_prompts
from lib.trained import heads, ratings, smollm2, v_smol
from lib.trained.states import kept_states


def accuracy(rewards, rated) -> float:
    """Return Spearman's rho of rewards and people's ratings of the same replies, (replies,)."""
    return float(spearmanr(rewards, rated).statistic)


def judge(language_model, head, others) -> pd.DataFrame:
    """Return rho on held-out words by prompt, with the interval of one more of the other heads,
    and the spread of held-out unlisted tokens in that of these words.
    """
    tokenizer = language_model.tokenizer
    rated = ratings.replies_of(ratings.rated_words(), tokenizer)
    rated, unlisted = (
        rows[rows["held_out"]].sample(count, random_state=0)
        for rows, count in ((rated, v_smol.ASKED), (ratings.unlisted(tokenizer), 1000))
    )
    rows = []
    for prompt, text in read_prompts(None).items():
        of_rated, of_unlisted = (
            kept_states(language_model, text, list(some["reply"]))
            for some in (rated, unlisted)
        )
        rho = [accuracy(one(of_rated), rated["sentiment"]) for one in others]
        interval = heads.with_interval(pd.DataFrame([rho])).iloc[0]
        spread = float(head(of_unlisted).std() / head(of_rated).std())
        own = accuracy(head(of_rated), rated["sentiment"])
        row = {"prompt": prompt, "rho": own, "trainings": len(others), **interval}
        rows.append(row | {"spread": spread})
    return pd.DataFrame(rows).rename(columns={"estimate": "mean"}).round(3)


def main() -> None:
    language_model = smollm2.load(dtype="float32")
    data = v_smol.training_data(language_model)
    names = {v_smol.RATED_ALONE: v_smol.SHOWN, v_smol.WITH_UNLISTED: None}
    parts = {name: [each[:, :count] for each in data] for name, count in names.items()}
    for name, (states, signed, _) in parts.items():
        head = heads.fit(states, signed)
        save_file(head.state_dict(), v_smol.head_file(name))
    tables = []
    for name, part in parts.items():
        others = heads.train_heads(*part)
        table = judge(language_model, v_smol.read_head(name), others)
        table.insert(0, "head", name)
        content = v_smol.head_file(name).read_bytes()
        tables.append(table.assign(sha256=hashlib.sha256(content).hexdigest()))
    pd.concat(tables).to_csv(v_smol.FOLDER / "heads.csv", index=False)


if __name__ == "__main__":
    main()
