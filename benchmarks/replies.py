"""Score replies of one's own beside a padded loop in plain transformers: python -m
benchmarks.replies.

Both read the same conversations, on one thread, in turns. The loop renders and tokenises all of
them at once, sorts them by length, and reads batches of 2,048 tokens. Ours also gives what was
read. Writes benchmarks/replies.md.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from lib import ROOT
from lib.apps.runner import api
from lib.models.conversations import DATE
from lib.models.reward_models import RewardModel, load

sys.path.insert(0, str(ROOT / "tests"))
import tiny

REPLIES, TOKENS, TURNS = 240, 2048, 2
SHAPES = {  # of Llama's kind
    "1 million parameters": {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "intermediate_size": 384,
    },
    "4 million parameters": {
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "intermediate_size": 768,
    },
}


def conversations(per_prompt: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return a prompt and a reply of 5 to 60 words each for each row."""
    random = np.random.default_rng(seed)
    words = (
        (ROOT / "data" / "real_replies.csv")
        .read_text(encoding="utf-8")
        .replace('"', " ")
        .split()
    )

    def text(low: int, high: int) -> str:
        return " ".join(random.choice(words, random.integers(low, high)))

    prompts = [text(5, 61) for _ in range(REPLIES // per_prompt)]
    return [prompt for prompt in prompts for _ in range(per_prompt)], [
        text(5, 61) for _ in range(REPLIES)
    ]


@torch.inference_mode()
def padded_loop(
    model: RewardModel, prompts: list[str], replies: list[str]
) -> np.ndarray:
    """Return the rewards, (rows,), as a competent loop in plain transformers computes them."""
    turns = [
        [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
        for prompt, reply in zip(prompts, replies, strict=True)
    ]
    texts = model.tokenizer.apply_chat_template(turns, tokenize=False, date_string=DATE)
    rows = model.tokenizer(
        [text.removeprefix(model.tokenizer.bos_token or "") for text in texts]
    )["input_ids"]
    order, rewards, start = (
        sorted(range(len(rows)), key=lambda i: -len(rows[i])),
        np.empty(len(rows)),
        0,
    )
    while start < len(rows):
        some = order[start : start + max(1, TOKENS // len(rows[order[start]]))]
        ids = pad_sequence([torch.tensor(rows[i]) for i in some], batch_first=True)
        ends = torch.tensor([len(rows[i]) - 1 for i in some])
        mask = torch.arange(ids.shape[1]) <= ends[:, None]
        states = model.backbone(
            input_ids=ids, attention_mask=mask.long(), use_cache=False
        ).last_hidden_state
        rewards[some] = model.head(
            states[torch.arange(len(some)), ends].float(), None
        ).numpy()
        start += len(some)
    return rewards


def main() -> None:
    """Time both ways and write the table."""
    torch.set_num_threads(1)
    lines = [
        "| model | replies to each prompt | ours, s | padded loop, s | ours over loop | largest "
        "difference |",
        "|---|---|---|---|---|---|",
    ]
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            heads = {
                "num_attention_heads": shape["hidden_size"] // 64,
                "num_key_value_heads": 1,
                "head_dim": 64,
            }
            model = load(
                tiny.make_checkpoint(Path(folder), "linear_llama", **shape, **heads),
                device="cpu",
            )
            for per_prompt in (1, 2, 4):
                prompts, replies = conversations(per_prompt)
                seconds: dict[str, list[float]] = {"ours": [], "loop": []}
                for _ in range(TURNS):
                    begin = time.process_time()
                    ours = api.score(model, prompts, replies)["reward"].to_numpy()
                    middle = time.process_time()
                    loop = padded_loop(model, prompts, replies)
                    seconds["ours"].append(middle - begin)
                    seconds["loop"].append(time.process_time() - middle)
                best = [min(each) for each in seconds.values()]
                off = np.abs(ours - loop).max()
                numbers = f"{best[0]:.2f} | {best[1]:.2f} | {best[0] / best[1]:.2f} | {off:.0e}"
                lines.append(f"| {name} | {per_prompt} | {numbers} |")
                print(lines[-1], flush=True)
    text = (
        f"# {REPLIES:,} replies of one's "
        f"own\n\n{__doc__.split(chr(10) * 2, 1)[1].split('Writes')[0].strip()}\n"
    )
    text += f"Seconds are processor time, the best of {TURNS} turns.\n\n"
    (Path(__file__).with_suffix(".md")).write_text(
        text + "\n".join(lines) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
