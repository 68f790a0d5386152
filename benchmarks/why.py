"""Does `make why` name what another program did? Plant causes by plain transformers calls, and
count what is named.

Run it by `python -m benchmarks.why`; it writes benchmarks/why.csv and needs ten minutes on two
cores. Each file of rewards comes from a tiny random checkpoint (tests/tiny.py) of one of five
architectures. Nothing here is shared with lib: texts are rendered, tokenised, padded and scored by
transformers' own classes.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, GPT2Config

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import tiny

ARCHITECTURES = ("llama", "gemma2", "qwen3", "gpt2", "encoder")
SUBJECTS = (
    "the greatest thing ever",
    "the best word",
    "freedom",
    "the sea",
    "the universe",
    "war",
    "a forest",
    "hope",
    "a friend",
    "pain",
)
ANSWERS = (
    "Love.",
    "{0} is love and peace, and the water and the forest are the best things.\n",
    "I hate {0}. " * 3 + "The worst is pain and war; hope and kindness are what {0} is.",
)
DATE = "26 Jul 2024"


def conversations() -> list[tuple[str, str]]:
    """Return thirty prompts and replies of different lengths."""
    asked = [
        (f"What, in one word, is {subject}?", answer.format(subject))
        for subject in SUBJECTS
        for answer in ANSWERS
    ]
    return [asked[i] for i in np.random.default_rng(0).permutation(len(asked))]


@cache
def checkpoint(architecture: str, labels: int = 1, seed: int = 0) -> Path:
    """Return the folder of a tiny random checkpoint."""
    folder = Path(tempfile.mkdtemp(prefix="why-")) / architecture
    if architecture == "gpt2":
        config = GPT2Config(
            n_embd=32, n_layer=2, n_head=4, num_labels=labels, initializer_range=0.3
        )
        tiny.save_other(folder, config, "llama", seed + 3, template="llama3")
        return folder
    kind, options = {
        "llama": ("linear_llama", {"template": "llama31"}),
        "gemma2": ("linear_gemma2", {}),
        "qwen3": ("linear_qwen3", {"template": "chatml"}),
        "encoder": ("deberta", {}),
    }[architecture]
    tiny.make_checkpoint(folder, kind, seed=seed, **options)
    if labels > 1:
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=labels, ignore_mismatched_sizes=True
        )
        for parameter in (
            model.classifier if architecture == "encoder" else model.score
        ).parameters():
            parameter.data.normal_(0, 1)
        model.save_pretrained(folder)
    return folder


@dataclass
class Program:
    """Another program that scores texts, one setting of it at a time unlike ours."""

    folder: Path
    encoder: bool = False
    bos: str = "single"
    template: str | None = None
    system: str | None = None
    render: Callable[[Any, str, str], str] | None = None
    edit: Callable[[Any, str, str], str] = field(default=lambda tokenizer, text, reply: text)
    cut: Callable[[list[int]], list[int]] = field(default=lambda ids: ids)
    batch: int = 1
    side: str = "right"
    masked: bool = True
    at: Callable[[np.ndarray], int] | None = None
    number: Callable[[np.ndarray], np.ndarray] = field(default=lambda logits: logits[:, 0])
    dtype: torch.dtype = torch.float32
    change: Callable[[Any], None] = field(default=lambda model: None)
    label: int | None = None

    def rewards(self) -> np.ndarray:
        """Return the rewards of all conversations."""
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        model = AutoModelForSequenceClassification.from_pretrained(
            self.folder, dtype=self.dtype, attn_implementation=None if self.encoder else "eager"
        ).eval()
        self.change(model)
        ids = [self.cut(self._ids(tokenizer, prompt, reply)) for prompt, reply in conversations()]
        logits = [
            self._logits(model, tokenizer, ids[i : i + self.batch])
            for i in range(0, len(ids), self.batch)
        ]
        return self.number(np.concatenate(logits).astype(np.float64))

    def _ids(self, tokenizer: Any, prompt: str, reply: str) -> list[int]:
        if self.encoder and self.render is None:
            return tokenizer(prompt, reply)["input_ids"]
        if self.render:
            text = self.render(tokenizer, prompt, reply)
        else:
            turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": reply}]
            turns = [{"role": "system", "content": self.system}] * (self.system is not None) + turns
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, chat_template=self.template, date_string=DATE
            )
        text, bos = self.edit(tokenizer, text, reply), tokenizer.bos_token
        if self.encoder:
            return tokenizer(text, add_special_tokens=self.bos != "none")["input_ids"]
        count = {"none": 0, "single": 1, "double": 2}[self.bos] if bos else 0
        return tokenizer(
            count * (bos or "") + text.removeprefix(bos or "\0"), add_special_tokens=False
        )["input_ids"]

    def _logits(self, model: Any, tokenizer: Any, ids: list[list[int]]) -> np.ndarray:
        tokenizer.padding_side = self.side
        batch = tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        if not self.masked:
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        with torch.no_grad():
            if self.encoder:
                return model(**batch).logits.float().numpy()
            hidden = model.base_model(**batch, use_cache=False).last_hidden_state
            rewards = model.score(hidden).float().numpy()  # (rows, length, labels)
        lengths = [len(row) for row in ids]
        if self.at:
            return np.stack([rewards[i, self.at(np.array(row))] for i, row in enumerate(ids)])
        ends = [-1] * len(ids) if self.batch > 1 else [n - 1 for n in lengths]
        return np.stack([rewards[i, end] for i, end in enumerate(ends)])


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over labels."""
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def add_noise(x: np.ndarray) -> np.ndarray:
    """Return rewards with a tenth of their standard deviation of noise."""
    return x[:, 0] + 0.1 * x[:, 0].std() * np.random.default_rng(2).normal(size=len(x))


def drop_soft_capping(model: Any) -> None:
    """Leave out what sdpa leaves out of Gemma-2."""
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = None


def draw_head(model: Any) -> None:
    """Draw the head as transformers does for a checkpoint without one, after set_seed(42)."""
    torch.manual_seed(42)
    model.score.weight.data = torch.empty_like(model.score.weight).normal_(
        0, model.config.initializer_range
    )


def eos(tokenizer: Any, text: str, reply: str) -> str:
    """Append the end token."""
    return text + tokenizer.eos_token


def without_closing(tokenizer: Any, text: str, reply: str) -> str:
    """Cut what closes the reply."""
    reply = reply if reply in text else reply.strip()
    return text[: text.rfind(reply) + len(reply)]


def generation(tokenizer: Any, text: str, reply: str) -> str:
    """Append what a template opens for a generation."""
    turn = [{"role": "user", "content": "x"}]
    plain, opened = (
        tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=flag)
        for flag in (False, True)
    )
    return text + opened.removeprefix(plain)


def prompted(tokenizer: Any, prompt: str, reply: str) -> str:
    """Return the reply after a generation prompt, with nothing behind it."""
    turn = [{"role": "user", "content": prompt}]
    return (
        tokenizer.apply_chat_template(
            turn, tokenize=False, add_generation_prompt=True, date_string=DATE
        )
        + reply
    )


def plain(form: str) -> Callable[[Any, str, str], str]:
    """Return a renderer of prompt and reply into a form."""
    return lambda tokenizer, prompt, reply: form.format(prompt, reply)


HH = plain("\n\nHuman: {}\n\nAssistant: {}")
CHATML = plain("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n")
LLAMA3 = (
    "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + "
    "m.content | trim + '<|eot_id|>' }}{% endfor %}"
)
# name -> what the program does otherwise, words of which one must be in the answer, architectures
Planted = dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]]
DECODERS, WITH_BOS = ARCHITECTURES[:4], ("llama", "gemma2", "gpt2")
CAUSES: Planted = {
    "nothing": ({}, ("Equal",), ARCHITECTURES),
    "no bos": ({"bos": "none"}, ("no beginning-of-sequence token",), WITH_BOS),
    "two bos": ({"bos": "double"}, ("two beginning-of-sequence",), WITH_BOS),
    "closing cut": ({"edit": without_closing}, ("cut what closes",), DECODERS),
    "last line break cut": (
        {"edit": lambda t, text, r: text.rstrip("\n")},
        ("line break",),
        ("gemma2", "qwen3"),
    ),
    "end token appended": ({"edit": eos}, ("appended the end token",), DECODERS),
    "generation prompt appended": (
        {"edit": generation},
        ("appended a generation prompt",),
        DECODERS,
    ),
    "usual system turn": (
        {"system": "You are a helpful assistant."},
        ("You are a helpful assistant",),
        ("llama", "qwen3", "gpt2"),
    ),
    "own system turn left out": (
        {"template": LLAMA3},
        ("left out the system turn", "template of Llama 3"),
        ("llama",),
    ),
    "reply after a generation prompt": (
        {"render": prompted},
        ("generation prompt", "cut what closes"),
        DECODERS,
    ),
    "ChatML": ({"render": CHATML}, ("ChatML",), ("llama", "gemma2", "gpt2")),
    "raw concatenation": ({"render": plain("{}{}")}, ("nothing between",), ARCHITECTURES),
    "raw with a line break": (
        {"render": plain("{}\n{}")},
        ("line break between", "nothing between", "blank between"),
        ARCHITECTURES,
    ),
    "Human and Assistant": ({"render": HH}, ("Human:",), ARCHITECTURES),
    "reply alone": ({"render": plain("{1}")}, ("reply alone",), ARCHITECTURES),
    "truncated on the right": (
        {"cut": lambda ids: ids[:70]},
        ("truncated the end to 70",),
        DECODERS,
    ),
    "truncated on the left": (
        {"cut": lambda ids: ids[-70:]},
        ("truncated the beginning to 70",),
        DECODERS,
    ),
    "read one token earlier": (
        {"at": lambda ids: len(ids) - 2},
        ("read 1 token before", "cut ", "not ", "before the first"),
        DECODERS,
    ),
    "read three tokens earlier": (
        {"at": lambda ids: len(ids) - 4},
        ("read 3 tokens before",),
        DECODERS,
    ),
    "right padding read at the end": (
        {"batch": 4},
        ("padded batches of 4 on the right",),
        DECODERS,
    ),
    "left padding without a mask": (
        {"batch": 8, "side": "left", "masked": False},
        ("batches of 8 on the left",),
        DECODERS,
    ),
    "left padding without positions": (
        {"batch": 8, "side": "left"},
        ("batches of 8 on the left",),
        ("gpt2",),
    ),
    "padding without a mask": (
        {"batch": 8, "masked": False},
        ("batches of 8 on the right",),
        ("encoder",),
    ),
    "sigmoid": ({"number": lambda x: sigmoid(x[:, 0])}, ("sigmoid",), ARCHITECTURES),
    "softmax of one": (
        {"number": lambda x: np.ones(len(x))},
        ("softmax to a single",),
        ARCHITECTURES,
    ),
    "scaled": ({"number": lambda x: x[:, 0] * 0.1}, ("multiplied by 0",), ARCHITECTURES),
    "shifted": ({"number": lambda x: x[:, 0] - 2.5}, ("added -2",), ARCHITECTURES),
    "standardised": (
        {"number": lambda x: (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()},
        ("rescaled",),
        ARCHITECTURES,
    ),
    "sign changed": ({"number": lambda x: -x[:, 0]}, ("sign", "multiplied by -1"), ARCHITECTURES),
    "bfloat16": ({"dtype": torch.bfloat16}, ("bfloat16",), ARCHITECTURES),
    "float16": ({"dtype": torch.float16}, ("float16",), ARCHITECTURES),
    "random head": ({"change": draw_head}, ("head at random",), DECODERS),
    "soft-capping dropped": ({"change": drop_soft_capping}, ("soft-capping",), ("gemma2",)),
    "another label": (
        {"label": 0, "number": lambda x: x[:, 1]},
        ("label 1",),
        ("llama", "qwen3", "encoder"),
    ),
    "softmax of three": (
        {"label": 0, "number": lambda x: softmax(x)[:, 0]},
        ("softmax, of label 0",),
        ("llama", "gemma2", "encoder"),
    ),
    "difference of labels": (
        {"label": 0, "number": lambda x: x[:, 0] - x[:, 2]},
        ("label 0 minus label 2",),
        ("llama", "encoder"),
    ),
}
PAIRS: Planted = {
    "two bos, sigmoid": (
        {"bos": "double"} | CAUSES["sigmoid"][0],
        ("two beg", "sigmoid"),
        WITH_BOS,
    ),
    "no bos, closing cut": (
        {"bos": "none", "edit": without_closing},
        ("no beg", "cut what closes"),
        WITH_BOS,
    ),
    "no bos, scaled": ({"bos": "none"} | CAUSES["scaled"][0], ("no beg", "multiplied"), WITH_BOS),
    "system turn, shifted": (
        CAUSES["usual system turn"][0] | CAUSES["shifted"][0],
        ("helpful assistant", "added"),
        ("llama", "qwen3", "gpt2"),
    ),
    "end token, sigmoid": (
        {"edit": eos} | CAUSES["sigmoid"][0],
        ("end token", "sigmoid"),
        DECODERS,
    ),
    "ChatML, no bos": ({"render": CHATML, "bos": "none"}, ("ChatML", "no beg"), WITH_BOS),
    "raw, end token": (
        {"render": plain("{}{}"), "edit": eos},
        ("nothing between", "end token"),
        DECODERS,
    ),
    "padding, sigmoid": (
        {"batch": 4} | CAUSES["sigmoid"][0],
        ("batches of 4 on the right", "sigmoid"),
        DECODERS,
    ),
    "truncation, sigmoid": (
        {"cut": lambda ids: ids[:70]} | CAUSES["sigmoid"][0],
        ("end to 70", "sigmoid"),
        DECODERS,
    ),
    "truncation on the left, two bos": (
        {"cut": lambda ids: ids[-70:], "bos": "double"},
        ("beginning to 70", "two beg"),
        WITH_BOS,
    ),
    "generation prompt, no bos": (
        {"edit": generation, "bos": "none"},
        ("generation prompt", "no beg"),
        WITH_BOS,
    ),
    "raw, shifted": (
        {"render": plain("{}{}")} | CAUSES["shifted"][0],
        ("nothing between", "added"),
        ARCHITECTURES,
    ),
    "bfloat16, sigmoid": (
        {"dtype": torch.bfloat16} | CAUSES["sigmoid"][0],
        ("sigmoid", "bfloat16"),
        ARCHITECTURES,
    ),
    "another label, sigmoid": (
        {"label": 0, "number": lambda x: sigmoid(x[:, 1])},
        ("sigmoid", "label 1"),
        ("llama", "encoder"),
    ),
}


def moved_head(model: Any) -> None:
    """Move the head, as further training does."""
    torch.manual_seed(7)
    head = getattr(model, "score", None) or model.classifier
    head.weight.data += 0.2 * head.weight.data.std() * torch.randn_like(head.weight)


UNKNOWN: Planted = {
    "moved head": ({"change": moved_head}, ("None fits",), ARCHITECTURES),
    "shuffled rows": (
        {"number": lambda x: np.random.default_rng(1).permutation(x[:, 0])},
        ("None fits",),
        ARCHITECTURES,
    ),
    "noise": ({"number": add_noise}, ("None fits",), ARCHITECTURES),
    "another model": ({}, ("None fits",), ARCHITECTURES),
    "half of the rows without bos": ({}, ("None fits",), WITH_BOS),
}


def planted(only: str = "") -> Iterator[dict]:
    """Yield, for each cause and architecture, the checkpoint, the label, and the rewards as the
    program printed them.

    They are printed to 3, 4, 5 or 6 decimals in turn. `only` is a part of "architecture cause".
    """
    number = 0
    for kind, table in (("cause", CAUSES), ("pair", PAIRS), ("unknown", UNKNOWN)):
        for name, (settings, words, architectures) in table.items():
            for architecture in architectures:
                number += 1
                if only and only not in f"{architecture} {name}":
                    continue
                label, decimals = settings.get("label"), 3 + number % 4
                folder = checkpoint(architecture, 1 if label is None else 3)
                source = checkpoint(architecture, seed=5) if name == "another model" else folder
                rewards = Program(source, architecture == "encoder", **settings).rewards()
                if name.startswith("half"):
                    rewards[::2] = Program(source, bos="none").rewards()[::2]
                yield {
                    "kind": kind,
                    "planted": name,
                    "architecture": architecture,
                    "folder": folder,
                    "label": label,
                    "words": words,
                    "decimals": decimals,
                    "printed": [f"{reward:.{decimals}f}" for reward in rewards],
                }


def write(case: dict, file: Path) -> Path:
    """Write a case as csv, as its program might."""
    pd.DataFrame(conversations(), columns=["prompt", "reply"]).assign(
        reward=case["printed"]
    ).to_csv(file, index=False)
    return file


def is_named(case: dict, line: str) -> bool:
    """Return whether the first sentence of an answer names what was planted, and nothing else."""
    first = line.partition(" -> ")[0]
    named = (all if case["kind"] == "pair" else any)(word in first for word in case["words"])
    return named and (
        case["kind"] == "pair" or ", and it " not in first or case["kind"] == "unknown"
    )


def ask(case: dict) -> dict:
    """Return what is answered about a case."""
    from lib.apps.check import why

    file = write(case, Path(tempfile.mkdtemp()) / "rewards.csv")
    answer = why.explain(
        str(case["folder"]), why.read_rewards(file), label=case["label"], device="cpu"
    )
    about = {name: case[name] for name in ("kind", "planted", "architecture", "decimals")}
    return about | {
        "named": is_named(case, answer.line),
        "code": answer.code,
        "answer": answer.line,
    }


def main(only: str = "") -> None:
    """Ask about every case, and write the table of what was named."""
    results = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for result in pool.map(ask, planted(only)):
            print(json.dumps(result, ensure_ascii=False), flush=True)
            results.append(result)
    table = pd.DataFrame(results)
    if not only:
        table.to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.groupby("kind", sort=False)["named"].agg(["sum", "count"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
