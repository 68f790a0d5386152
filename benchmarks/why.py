"""Does `make why` name what another program did? Plant causes by plain transformers calls, and
count what is named.

Run it by `python -m benchmarks.why`; it writes benchmarks/why.csv and needs ten minutes on two
cores. Each file of rewards comes from a tiny random checkpoint (tests/tiny.py) of one of five
architectures. Nothing here is shared with lib: texts are rendered, tokenised, padded and scored by
transformers' own classes.
"""

import json
import os
import shutil
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
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    ModernBertConfig,
)

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
    "I hate {0}. " * 3
    + "The worst is pain and war; hope and kindness are what {0} is.",
)
DATE = "26 Jul 2024"
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


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
    if architecture == "modernbert":
        config = ModernBertConfig(
            **SMALL, num_labels=labels, global_attn_every_n_layers=2
        )
        tiny.save_other(folder, config, "deberta", seed, template=None)
        return folder
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
    edit: Callable[[Any, str, str], str] = field(
        default=lambda tokenizer, text, reply: text
    )
    cut: Callable[[list[int]], list[int]] = field(default=lambda ids: ids)
    reply: Callable[[Any, str], str] = field(default=lambda tokenizer, reply: reply)
    turns: Callable[[Any, list[dict]], list[dict]] = field(
        default=lambda tokenizer, turns: turns
    )
    batch: int = 1
    # length -> length with padding, one text at a time
    width: Callable[[int], int] | None = None
    side: str = "right"
    masked: bool = True
    at: Callable[[np.ndarray], int] | None = None
    number: Callable[[np.ndarray], np.ndarray] = field(
        default=lambda logits: logits[:, 0]
    )
    state: Callable[[torch.Tensor], torch.Tensor] = field(default=lambda hidden: hidden)
    dtype: torch.dtype = torch.float32
    configure: Callable[[Any], None] = field(default=lambda config: None)
    change: Callable[[Any], None] = field(default=lambda model: None)
    label: int | None = None

    def rewards(self) -> np.ndarray:
        """Return the rewards of all conversations."""
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        config = AutoConfig.from_pretrained(self.folder)
        self.configure(config)
        model = AutoModelForSequenceClassification.from_pretrained(
            self.folder,
            config=config,
            dtype=self.dtype,
            attn_implementation=None if self.encoder else "eager",
        ).eval()
        self.change(model)
        ids = [
            self.cut(self._ids(tokenizer, prompt, reply))
            for prompt, reply in conversations()
        ]
        logits = [
            self._logits(model, tokenizer, ids[i : i + self.batch])
            for i in range(0, len(ids), self.batch)
        ]
        return self.number(np.concatenate(logits).astype(np.float64))

    def _ids(self, tokenizer: Any, prompt: str, reply: str) -> list[int]:
        reply = self.reply(tokenizer, reply)
        if self.encoder and self.render is None:
            return tokenizer(prompt, reply)["input_ids"]
        if self.render:
            text = self.render(tokenizer, prompt, reply)
        else:
            turns = [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": reply},
            ]
            turns = [{"role": "system", "content": self.system}] * (
                self.system is not None
            ) + turns
            turns = self.turns(tokenizer, turns)
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, chat_template=self.template, date_string=DATE
            )
        text, bos = self.edit(tokenizer, text, reply), tokenizer.bos_token
        if self.encoder:
            return tokenizer(text, add_special_tokens=self.bos != "none")["input_ids"]
        count = {"none": 0, "single": 1, "double": 2}[self.bos] if bos else 0
        return tokenizer(
            count * (bos or "") + text.removeprefix(bos or "\0"),
            add_special_tokens=False,
        )["input_ids"]

    def _logits(self, model: Any, tokenizer: Any, ids: list[list[int]]) -> np.ndarray:
        tokenizer.padding_side = self.side
        padding: dict[str, Any] = {}
        if self.width:
            padding = {"padding": "max_length", "max_length": self.width(len(ids[0]))}
        batch = tokenizer.pad({"input_ids": ids}, return_tensors="pt", **padding)
        if not self.masked:
            batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        with torch.no_grad():
            if self.encoder:
                return model(**batch).logits.float().numpy()
            hidden = model.base_model(**batch, use_cache=False).last_hidden_state
            # (rows, length, labels)
            rewards = model.score(self.state(hidden)).float().numpy()
        lengths = [len(row) for row in ids]
        if self.at:
            return np.stack(
                [rewards[i, self.at(np.array(row))] for i, row in enumerate(ids)]
            )
        ends = (
            [-1] * len(ids)
            if self.batch > 1 or self.width
            else [n - 1 for n in lengths]
        )
        return np.stack([rewards[i, end] for i, end in enumerate(ends)])


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return the logistic function."""
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax over labels."""
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


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


def end_of_turn(tokenizer: Any) -> tuple[str, str]:
    """Return the token that ends a turn, and another end token."""
    known = tokenizer.get_added_vocab()
    return next(
        pair
        for pair in (("<end_of_turn>", "<eos>"), ("<|eot_id|>", "<|end_of_text|>"))
        if set(pair) <= set(known)
    )


def other_end(tokenizer: Any, text: str, reply: str) -> str:
    """End the last turn with another end token."""
    end, other = end_of_turn(tokenizer)
    start, _, after = text.rpartition(end)
    return start + other + after


def other_ends(tokenizer: Any, text: str, reply: str) -> str:
    """End every turn with another end token."""
    return text.replace(*end_of_turn(tokenizer))


def second_end(tokenizer: Any, text: str, reply: str) -> str:
    """Append the end token right after the first one."""
    return text.rstrip() + tokenizer.eos_token


def rendered_again(tokenizer: Any, text: str, reply: str) -> str:
    """Apply the chat template to a text that was rendered already."""
    turn = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(turn, tokenize=False, date_string=DATE)


def rendered_prompt(tokenizer: Any, turns: list[dict]) -> list[dict]:
    """Render the prompt before the conversation is rendered."""
    prompt = tokenizer.apply_chat_template(
        turns[:-1], tokenize=False, add_generation_prompt=True, date_string=DATE
    )
    return [{"role": "user", "content": prompt}, turns[-1]]


def swapped(tokenizer: Any, turns: list[dict]) -> list[dict]:
    """Swap the roles of user and assistant."""
    roles = {"user": "assistant", "assistant": "user"}
    return [turn | {"role": roles[turn["role"]]} for turn in turns]


def first_tokens(tokenizer: Any, reply: str) -> str:
    """Cut a reply to 12 tokens."""
    return tokenizer.decode(
        tokenizer(reply, add_special_tokens=False)["input_ids"][:12]
    )


def layers_of(model: Any) -> Iterator[tuple[Any, int]]:
    """Yield the layers with weights, but embeddings and the head; and which axis is the output."""
    for name, module in model.base_model.named_modules():
        weight = getattr(module, "weight", None)
        is_embedding = any(part in name for part in ("emb", "wte", "wpe"))
        if weight is not None and weight.ndim == 2 and not is_embedding:
            yield module, 1 if type(module).__name__ == "Conv1D" else 0


def to_int8(model: Any) -> None:
    """Keep the weights in int8, with one scale for each output."""
    for module, output in layers_of(model):
        weight = module.weight.data
        scale = weight.abs().amax(dim=1 - output, keepdim=True) / 127
        module.weight.data = (weight / scale).round().to(torch.int8).float() * scale


def to_fp8(model: Any) -> None:
    """Keep the weights in fp8, with one scale for each layer."""
    for module, _ in layers_of(model):
        scale = module.weight.data.abs().max() / 448
        module.weight.data = (module.weight.data / scale).to(
            torch.float8_e4m3fn
        ).float() * scale


def usual_base(config: Any) -> None:
    """Take the base of rotary positions that a program takes which does not find it."""
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}


def other_pooling(config: Any) -> None:
    """Pool ModernBERT in the other way."""
    config.classifier_pooling = "mean" if config.classifier_pooling == "cls" else "cls"


def number_of_tokens() -> np.ndarray:
    """Return about how long each reply is."""
    return np.array([len(reply) for _, reply in conversations()])


INLINE = (
    "{% for m in messages %}{{ '[' + m.role + '] ' + m.content + '\n' }}{% endfor %}"
)


def give_inline_template(folder: Path) -> None:
    """Write a second chat template into tokenizer_config.json."""
    path = folder / "tokenizer_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"chat_template": INLINE})
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
    "raw concatenation": (
        {"render": plain("{}{}")},
        ("nothing between",),
        ARCHITECTURES,
    ),
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
    "scaled": (
        {"number": lambda x: x[:, 0] * 0.1},
        ("multiplied by 0",),
        ARCHITECTURES,
    ),
    "shifted": ({"number": lambda x: x[:, 0] - 2.5}, ("added -2",), ARCHITECTURES),
    "standardised": (
        {"number": lambda x: (x[:, 0] - x[:, 0].mean()) / x[:, 0].std()},
        ("rescaled",),
        ARCHITECTURES,
    ),
    "sign changed": (
        {"number": lambda x: -x[:, 0]},
        ("sign", "multiplied by -1"),
        ARCHITECTURES,
    ),
    "bfloat16": ({"dtype": torch.bfloat16}, ("bfloat16",), ARCHITECTURES),
    "float16": ({"dtype": torch.float16}, ("float16",), ARCHITECTURES),
    "random head": ({"change": draw_head}, ("head at random",), DECODERS),
    "soft-capping dropped": (
        {"change": drop_soft_capping},
        ("soft-capping",),
        ("gemma2",),
    ),
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
    "int8 weights": ({"change": to_int8}, ("int8",), ARCHITECTURES),
    "fp8 weights": ({"change": to_fp8}, ("fp8",), ARCHITECTURES),
    "cut on the left to 37": (
        {"cut": lambda ids: ids[-37:]},
        ("beginning to 37",),
        DECODERS,
    ),
    "cut on the left to 45 but for bos": (
        {"cut": lambda ids: ids if len(ids) < 46 else ids[:1] + ids[-44:]},
        ("beginning to 45",),
        WITH_BOS,
    ),
    "another end token": (
        {"edit": other_end},
        ("in place of", "alone"),
        ("llama", "gemma2", "gpt2"),
    ),
    "other end tokens": (
        {"edit": other_ends},
        ("every turn",),
        ("llama", "gemma2", "gpt2"),
    ),
    "second end token": (
        {"edit": second_end},
        ("in place of the line break", "appended the end token"),
        DECODERS,
    ),
    "template applied twice": ({"edit": rendered_again}, ("template twice",), DECODERS),
    "prompt rendered twice": ({"turns": rendered_prompt}, ("twice",), DECODERS),
    "padded to 211": (
        {"width": lambda length: 211},
        ("padded texts to 211",),
        DECODERS,
    ),
    "padded on the left to 203 without a mask": (
        {"width": lambda length: 203, "side": "left", "masked": False},
        ("padded texts to 203",),
        DECODERS,
    ),
    "padded to multiples of 64": (
        {"width": lambda length: -(-length // 64) * 64},
        ("multiple of 64",),
        DECODERS,
    ),
    "clipped at one end": (
        {"number": lambda x: np.minimum(x[:, 0], np.sort(x[:, 0])[-2] + 0.01)},
        ("cut rewards",),
        ARCHITECTURES,
    ),
    "clipped": (
        {"number": lambda x: np.clip(x[:, 0], *np.quantile(x[:, 0], [0.2, 0.8]))},
        ("cut rewards",),
        ARCHITECTURES,
    ),
    "reply cut to 40 characters": (
        {"reply": lambda tokenizer, reply: reply[:40]},
        ("cut replies to 40",),
        ARCHITECTURES,
    ),
    "reply cut to 12 tokens": (
        {"reply": first_tokens},
        ("cut replies to 12",),
        ARCHITECTURES,
    ),
    "length penalty": (
        {"number": lambda x: x[:, 0] - 0.01 * number_of_tokens()},
        ("for each of the reply's",),
        ARCHITECTURES,
    ),
    "roles swapped": ({"turns": swapped}, ("swapped the roles",), DECODERS),
    "rotary base": (
        {"configure": usual_base},
        ("rotary positions",),
        ("llama", "qwen3"),
    ),
    "inline template": (
        {"template": INLINE, "prepare": give_inline_template},
        ("tokenizer_config.json",),
        ("llama", "gemma2", "gpt2"),
    ),
    "state of length 1": (
        {"state": lambda hidden: torch.nn.functional.normalize(hidden, dim=-1)},
        ("to length 1",),
        DECODERS,
    ),
    "other pooling": ({"configure": other_pooling}, ("pooled",), ("modernbert",)),
}
# one cause in a program that also computes in half precision
WITH_HALF: Planted = {
    "two bos, bfloat16": (
        {"bos": "double", "dtype": torch.bfloat16},
        ("two beg", "bfloat16"),
        WITH_BOS,
    ),
}


def moved_head(share: float) -> Callable[[Any], None]:
    """Move the head by a share of its weights, as further training does."""

    def change(model: Any) -> None:
        torch.manual_seed(7)
        head = getattr(model, "score", None) or model.classifier
        head.weight.data += (
            share * head.weight.data.std() * torch.randn_like(head.weight)
        )

    return change


def add_noise(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Add noise, as a share of the standard deviation of rewards."""

    def number(x: np.ndarray) -> np.ndarray:
        return x[:, 0] + share * x[:, 0].std() * np.random.default_rng(2).normal(
            size=len(x)
        )

    return number


UNKNOWN: Planted = {
    **{
        f"head moved by {share:.0%}": (
            {"change": moved_head(share)},
            ("None fits",),
            ARCHITECTURES,
        )
        for share in (0.01, 0.03, 0.2)
    },
    "shuffled rows": (
        {"number": lambda x: np.random.default_rng(1).permutation(x[:, 0])},
        ("None fits",),
        ARCHITECTURES,
    ),
    **{
        f"noise of {share:g}": (
            {"number": add_noise(share)},
            ("None fits",),
            ARCHITECTURES,
        )
        for share in (0.003, 0.013, 0.1)
    },
    "every second reward higher": (
        {"number": lambda x: x[:, 0] + 0.04 * (np.arange(len(x)) % 2) * x[:, 0].std()},
        ("None fits",),
        ARCHITECTURES,
    ),
    "another model": ({}, ("None fits",), ARCHITECTURES),
    "half of the rows without bos": ({}, ("None fits",), WITH_BOS),
}


def planted(only: str = "") -> Iterator[dict]:
    """Yield, for each cause and architecture, the checkpoint, the label, and the rewards as the
    program printed them.

    They are printed to 3, 4, 5 or 6 decimals in turn. `only` is a part of "architecture cause".
    """
    number = 0
    for kind, table in (("cause", CAUSES), ("half", WITH_HALF), ("unknown", UNKNOWN)):
        for name, (settings, words, architectures) in table.items():
            for architecture in architectures:
                number += 1
                if only and only not in f"{architecture} {name}":
                    continue
                own = dict(settings)
                label, decimals = own.get("label"), 3 + number % 4
                folder = checkpoint(architecture, 1 if label is None else 3)
                source = (
                    checkpoint(architecture, seed=5)
                    if name == "another model"
                    else folder
                )
                if prepare := own.pop("prepare", None):
                    folder = source = Path(
                        shutil.copytree(folder, f"{folder}-{number}")
                    )
                    prepare(folder)
                is_encoder = architecture in ("encoder", "modernbert")
                rewards = Program(source, is_encoder, **own).rewards()
                if name.startswith("half of"):
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
    if line.startswith("None fits"):
        return case["kind"] == "unknown"
    first = line.partition(" -> ")[0]
    named = (all if case["kind"] == "half" else any)(
        word in first for word in case["words"]
    )
    return named and (case["kind"] == "half" or ", and it " not in first)


def ask(case: dict) -> dict:
    """Return what is answered about a case."""
    from audit.check import why

    file = write(case, Path(tempfile.mkdtemp()) / "rewards.csv")
    answer = why.explain(
        str(case["folder"]), why.read_rewards(file), label=case["label"], device="cpu"
    )
    about = {
        name: case[name] for name in ("kind", "planted", "architecture", "decimals")
    }
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
    causes = table.query("kind == 'cause'").groupby("planted")["named"]
    print(
        f"{causes.all().sum()} of {causes.ngroups} causes are named on every architecture."
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
