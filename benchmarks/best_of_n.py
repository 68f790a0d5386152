"""What the best of n answers of SmolLM2 is like by V-Smol-135M: python -m benchmarks.best_of_n.

Sixteen answers to each of twenty questions were drawn once by SmolLM2-135M-Instruct (the packaged
4-bit copy), and are kept in data/smollm2_answers.csv; without this file they are drawn again.
Writes benchmarks/best_of_n.md and best_of_n.csv.
"""

import time
from pathlib import Path

import pandas as pd
import torch

from benchmarks.scoring import machine, table, write_report
from lib import DATA
from lib.apps.owner.card import best_of_n
from lib.models import language_models, reward_models
from lib.scoring import reply_files
from lib.tables.exports import write_csv

PAGE = Path(__file__).with_suffix(".md")
ANSWERS = DATA / "smollm2_answers.csv"
LANGUAGE_MODEL, REWARD_MODEL = "SmolLM2-135M-Instruct", "V-Smol-135M"
POOL, LONGEST = 16, 96  # answers to a question, tokens of an answer


def draw() -> pd.DataFrame:
    """Return the answers, drawn at temperature 1: columns prompt and reply."""
    model = language_models.load(LANGUAGE_MODEL, device="cpu", dtype="float32")
    questions = pd.read_csv(DATA / "real_replies.csv")["prompt"].drop_duplicates()
    torch.manual_seed(0)
    rows = []
    for question in questions:
        ids = torch.tensor([model.encode(question)])
        drawn = model.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            use_cache=True,
            num_return_sequences=POOL,
            max_new_tokens=LONGEST,
        )
        replies = model.tokenizer.batch_decode(
            drawn[:, ids.shape[1] :], skip_special_tokens=True
        )
        rows += [(question, reply.strip()) for reply in replies]
    return pd.DataFrame(rows, columns=["prompt", "reply"])


def main() -> None:
    if not ANSWERS.exists():
        write_csv(draw(), ANSWERS)
    given = reply_files.read_replies(ANSWERS)
    counted = best_of_n.features(given)
    model = reward_models.load(REWARD_MODEL, dtype="float32")
    start = time.process_time()
    rewards = best_of_n.rewards_of(model, given)
    seconds = time.process_time() - start
    of_n = best_of_n.means(rewards, counted, given["context"])
    measured = best_of_n.measured(of_n)
    write_csv(measured.reset_index(), PAGE.with_suffix(".csv"))
    of_best = measured.xs(POOL, level="n")
    of_one = measured.xs(1, level="n")
    shown = pd.DataFrame(
        {
            "feature": of_best.index,
            "one reply": of_one["mean"].to_numpy(),
            f"best of {POOL}": of_best["mean"],
            "change": of_best["change"],
            "95% interval": _interval(of_best, "ci_low", "ci_high"),
            "random heads": _interval(of_best, "random_low", "random_high"),
            "p, corrected": of_best["p_corrected"],
        }
    )
    is_word = shown["feature"].str.startswith(best_of_n.SINGLE_WORD)
    clear = shown[is_word & (shown["p, corrected"] < 0.05)]
    write_report(
        "best of n",
        f"{machine('cpu')}\n\n{len(given)} answers were scored with {rewards.shape[1] - 1} random "
        f"heads in {seconds:.0f} s of processor time. Of {is_word.sum()} single words, "
        f"{len(clear)} are clearly more or less frequent.\n\n"
        f"{table(pd.concat([shown[~is_word], clear]))}",
        PAGE,
    )


def _interval(rows: pd.DataFrame, low: str, high: str) -> list[str]:
    ends = zip(rows[low], rows[high], strict=True)
    return [f"{one:.3g} to {other:.3g}" for one, other in ends]


if __name__ == "__main__":
    main()
