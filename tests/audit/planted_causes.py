"""Causes of other rewards, planted by plain transformers calls on tiny random checkpoints.

Nothing here is shared with audit or lib: texts are rendered, tokenised, padded and scored by
transformers' own classes.
"""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import tiny
import torch
from scipy.special import expit, softmax
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GPT2Config,
    ModernBertConfig,
)

SUBJECTS = ("the greatest thing", "freedom", "the universe", "war", "a friend")
ANSWERS = (
    "Love.",
    "What a lovely morning. ",
    "{0} is love and peace, and the water and the forest are the best things.\n",
    "  No, never: think of {0}, and not of pain, water or stone.",
    "I hate {0}. I hate {0}. "
    + "The worst is pain and war; hope and kindness are {0}.",
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
INLINE = (
    "{% for m in messages %}{{ '[' + m.role + '] ' + m.content + '\n' }}{% endfor %}"
)
LLAMA3 = (
    "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + "
    "m.content | trim + '<|eot_id|>' }}{% endfor %}"
)
CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>\n"


def conversations():
    """Return prompts and replies of different lengths."""
    asked = [
        (f"What, in one word, is {subject}?", answer.format(subject))
        for subject in SUBJECTS
        for answer in ANSWERS
    ]
    return [asked[i] for i in np.random.default_rng(0).permutation(len(asked))]


@cache
def checkpoint(architecture, labels=1):
    """Return the folder of a tiny random checkpoint, with a second template in one of its files."""
    folder = Path(tempfile.mkdtemp(prefix="why-"))
    if architecture == "modernbert":
        config = ModernBertConfig(**SMALL, num_labels=1, global_attn_every_n_layers=2)
        return tiny.save_other(folder, config, "deberta", template=None)
    kind, template = {
        "llama": ("linear_llama", "llama31"),
        "gemma2": ("linear_gemma2", "own"),
        "qwen3": ("linear_qwen3", "chatml"),
        "encoder": ("deberta", "own"),
    }.get(architecture, ("", ""))
    if kind:
        tiny.make_checkpoint(folder, kind, template=template)
    else:
        config = GPT2Config(
            n_embd=32, n_layer=2, n_head=4, num_labels=1, initializer_range=0.3
        )
        tiny.save_other(folder, config, template="llama3")
    path = folder / "tokenizer_config.json"
    if architecture != "encoder":
        held = json.loads(path.read_text())
        path.write_text(json.dumps(held | {"chat_template": INLINE}))
    if labels > 1:
        torch.manual_seed(0)
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=labels, ignore_mismatched_sizes=True
        )
        head = model.classifier if architecture == "encoder" else model.score
        head.weight.data.normal_(0, 1)
        model.save_pretrained(folder)
    return folder


def as_it_is(given, *_):
    """Return what is given, whatever else is."""
    return given


@dataclass
class Program:
    """Another program that scores texts, one setting of it at a time unlike ours."""

    folder: Path
    is_encoder: bool = False
    bos: int = 1
    template: str | None = None
    turns: Callable = as_it_is  # of turns, tokenizer
    text: Callable | None = None  # of the rendered text, tokenizer, prompt, reply
    ids: Callable = as_it_is  # of ids, number of the row
    size: int = 1  # of batches
    width: Callable = (
        as_it_is  # length of the longest in a batch -> length with padding
    )
    side: str = "right"
    masked: bool = True
    back: int = 1  # where the reward is read, from the end
    column: Callable = lambda rewards: rewards[:, 0]  # of labels
    number: Callable = as_it_is
    state: Callable = as_it_is
    dtype: torch.dtype = torch.float32
    change: Callable = as_it_is  # of the model

    def rewards(self):
        """Return the rewards of all conversations."""
        tokenizer = AutoTokenizer.from_pretrained(self.folder)
        model = AutoModelForSequenceClassification.from_pretrained(
            self.folder,
            dtype=self.dtype,
            attn_implementation=None if self.is_encoder else "eager",
        ).eval()
        self.change(model)
        ids = [
            self.ids(self.read(tokenizer, *asked), row)
            for row, asked in enumerate(conversations())
        ]
        rewards = [
            self.score(model, tokenizer, ids[i : i + self.size])
            for i in range(0, len(ids), self.size)
        ]
        return self.number(self.column(np.concatenate(rewards).astype(float)))

    def read(self, tokenizer, prompt, reply):
        """Return the ids of a conversation."""
        asked = [("user", prompt), ("assistant", reply)]
        turns = [{"role": role, "content": text} for role, text in asked]
        turns = self.turns(turns, tokenizer)
        if self.is_encoder and self.text is None:
            return tokenizer(*[turn["content"] for turn in turns])["input_ids"]
        text = ""
        if not self.is_encoder:
            text = rendered(tokenizer, turns, chat_template=self.template)
        if self.text:
            text = self.text(text, tokenizer, prompt, reply)
        if self.is_encoder:
            return tokenizer(text)["input_ids"]
        bos = tokenizer.bos_token or ""
        text = self.bos * bos + text.removeprefix(bos)
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def score(self, model, tokenizer, ids):
        """Return the rewards of a batch, (rows, labels)."""
        batch = tokenizer.pad(
            {"input_ids": ids},
            padding="max_length",
            max_length=self.width(max(map(len, ids))),
            padding_side=self.side,
            return_tensors="pt",
        )
        if not self.masked:
            batch["attention_mask"].fill_(1)
        with torch.no_grad():
            if self.is_encoder:
                return model(**batch).logits.float().numpy()
            hidden = model.base_model(**batch, use_cache=False).last_hidden_state
            rewards = model.score(self.state(hidden)).float().numpy()
        return rewards[:, -self.back]


# --- what a program does otherwise ----------------------------------------------------------------


def rendered(tokenizer, turns, **options):
    """Return turns as a text."""
    return tokenizer.apply_chat_template(
        turns, tokenize=False, date_string=DATE, **options
    )


def users(tokenizer, text, **options):
    """Return a text rendered as the user's one turn."""
    return rendered(tokenizer, [{"role": "user", "content": text}], **options)


def without_closing(text, tokenizer, prompt, reply):
    """Cut what closes the reply."""
    reply = reply if reply in text else reply.strip()
    return text[: text.rfind(reply) + len(reply)]


def generation(text, tokenizer, *_):
    """Append what a template opens for a generation."""
    opened = users(tokenizer, "x", add_generation_prompt=True)
    return text + opened.removeprefix(users(tokenizer, "x"))


def as_text(form):
    """Return a renderer of prompt and reply into a form."""
    return lambda text, tokenizer, prompt, reply: form.format(prompt, reply)


def ends(tokenizer):
    """Return the token that ends a turn, and another end token."""
    if "<eos>" in tokenizer.get_added_vocab():
        return "<end_of_turn>", "<eos>"
    return "<|eot_id|>", "<|end_of_text|>"


def other_end(text, tokenizer, *_):
    """End the last turn with another end token."""
    end, other = ends(tokenizer)
    return other.join(text.rsplit(end, 1))


def prompt_rendered(turns, tokenizer):
    """Render the prompt before the conversation is rendered."""
    text = rendered(tokenizer, turns[:1], add_generation_prompt=True)
    return [{"role": "user", "content": text}, turns[1]]


def swapped(turns, tokenizer):
    """Swap the roles of user and assistant."""
    prompt, reply = turns
    return [prompt | {"role": "assistant"}, reply | {"role": "user"}]


def reply_cut(cut):
    """Return what cuts the reply. cut: a function of reply and tokenizer."""
    return lambda turns, tokenizer: [
        turns[0],
        turns[1] | {"content": cut(turns[1]["content"], tokenizer)},
    ]


def twelve_tokens(reply, tokenizer):
    """Return the beginning of a reply."""
    ids = tokenizer(reply, add_special_tokens=False)["input_ids"]
    return tokenizer.decode(ids[:12])


def drop_soft_capping(model):
    """Leave out what sdpa leaves out of Gemma-2."""
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = None


def draw_head(model):
    """Draw the head as transformers does for a checkpoint without one, after set_seed(42)."""
    torch.manual_seed(42)
    model.score.weight.data = torch.empty_like(model.score.weight).normal_(
        0, model.config.initializer_range
    )


def rounded(rounding):
    """Return what rounds the weights of all layers but embeddings and the head."""

    def change(model):
        for module in model.base_model.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.data = rounding(module.weight.data)

    return change


def int8(weight):
    """Return weights in int8, with one scale for each output."""
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    return (weight / scale).round().to(torch.int8).float() * scale


def fp8(weight):
    """Return weights in fp8, with one scale for each layer."""
    scale = weight.abs().max() / 448
    return (weight / scale).to(torch.float8_e4m3fn).float() * scale


def usual_base(model, base=10000.0):
    """Take the base of rotary positions that a program takes which does not find it, without
    scaling.
    """
    model.config.rope_parameters = {"rope_type": "default", "rope_theta": base}
    rotary = type(model.model.rotary_emb)
    model.model.rotary_emb = rotary(model.config)


def pool_all(model):
    """Pool ModernBERT over all tokens."""
    model.config.classifier_pooling = "mean"


def lengths():
    """Return how long each reply is."""
    return np.array([len(reply) for _, reply in conversations()])


def move_head(model, share):
    """Move the head by a share of its weights, as further training does."""
    torch.manual_seed(7)
    head = getattr(model, "score", None) or model.classifier
    weight = head.weight.data
    weight += share * weight.std() * torch.randn_like(weight)


def noisy(rewards, share):
    """Return rewards with noise, as a share of their standard deviation."""
    noise = np.random.default_rng(2).normal(size=len(rewards))
    return rewards + share * rewards.std() * noise


def turn_weights(model):
    """Make another model of this one."""
    for parameter in model.parameters():
        parameter.data = parameter.data.flip(0)


SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def case(words, *architectures, **settings):
    """Return what is in the answer, on which architectures the cause is hard to tell, and what the
    program does otherwise.
    """
    return words, architectures, settings


CAUSES = {
    "nothing": case("Equal", "gemma2", "encoder"),
    "no bos": case("no beginning-of-sequence", "gemma2", bos=0),
    "two bos": case("two beginning-of-sequence", "gpt2", bos=2),
    "closing cut": case("cut what closes", "gemma2", text=without_closing),
    "last line break cut": case(
        "line break", "qwen3", text=lambda text, *_: text.rstrip("\n")
    ),
    "end token appended": case(
        "appended the end",
        "gpt2",
        text=lambda text, tokenizer, *_: text + tokenizer.eos_token,
    ),
    "OpenRLHF's end": case(
        r"\(OpenRLHF\)",
        "gemma2",
        text=lambda text, tokenizer, *_: text.rstrip("\n") + " " + tokenizer.eos_token,
    ),
    "generation prompt appended": case(
        "appended a generation", "llama", text=generation
    ),
    "usual system turn": case(
        "helpful assistant",
        "gpt2",
        turns=lambda turns, _: [SYSTEM, *turns],
    ),
    "own system turn left out": case("of Llama 3", "llama", template=LLAMA3),
    "reply after a generation prompt": case(
        "generation prompt|cut what closes",
        "qwen3",
        text=lambda text, tokenizer, prompt, reply: (
            users(tokenizer, prompt, add_generation_prompt=True) + reply
        ),
    ),
    "ChatML": case("ChatML", "gemma2", text=as_text(CHATML)),
    "raw concatenation": case(
        "nothing between", "gpt2", "encoder", text=as_text("{}{}")
    ),
    "raw with a line break": case(
        "between", "gemma2", "encoder", text=as_text("{}\n{}")
    ),
    "Human and Assistant": case(
        "Human:", "llama", "encoder", text=as_text("\n\nHuman: {}\n\nAssistant: {}")
    ),
    "reply alone": case("reply alone", "qwen3", "encoder", text=as_text("{1}")),
    "truncated on the right": case(
        "the end to 70", "gemma2", ids=lambda ids, _: ids[:70]
    ),
    "truncated on the left": case(
        "beginning to 70", "gpt2", ids=lambda ids, _: ids[-70:]
    ),
    "cut on the left to 37": case(
        "beginning to 37", "llama", ids=lambda ids, _: ids[-37:]
    ),
    "cut on the left to 45 but for bos": case(
        "beginning to 45",
        "gemma2",
        ids=lambda ids, _: ids if len(ids) < 46 else ids[:1] + ids[-44:],
    ),
    "read one token earlier": case("1 token before|cut|not|before", "qwen3", back=2),
    "read three tokens earlier": case("3 tokens before", "gemma2", back=4),
    "right padding read at the end": case("of 6 on the right", "gemma2", size=6),
    "left padding without a mask": case(
        "of 8 on the left", "gemma2", size=8, side="left", masked=False
    ),
    "left padding without positions": case(
        "of 8 on the left", "gpt2", size=8, side="left"
    ),
    "padding without a mask": case(
        "of 8 on the right", "encoder", size=8, masked=False
    ),
    "padded to 211": case("texts to 211", "gemma2", width=lambda longest: 211),
    "padded on the left to 203 without a mask": case(
        "texts to 203",
        "gemma2",
        width=lambda longest: 203,
        side="left",
        masked=False,
    ),
    "padded to multiples of 64": case(
        "multiple of 64", "qwen3", width=lambda longest: -(-longest // 64) * 64
    ),
    "sigmoid": case("sigmoid", "llama", "encoder", number=expit),
    "softmax of one": case("softmax to a single", "gpt2", number=np.ones_like),
    "scaled": case("multiplied by 0", "qwen3", number=lambda x: x * 0.1),
    "shifted": case("added -2", "gemma2", number=lambda x: x - 2.5),
    "standardised": case(
        "multiplied", "llama", number=lambda x: (x - x.mean()) / x.std()
    ),
    "sign changed": case("multiplied by -", "gpt2", number=np.negative),
    "clipped at one end": case(
        "cut rewards", "gemma2", number=lambda x: np.minimum(x, np.sort(x)[-2] + 0.01)
    ),
    "clipped": case(
        "cut rewards", "encoder", number=lambda x: x.clip(*np.quantile(x, [0.2, 0.8]))
    ),
    "length penalty": case(
        "each of the reply's", "encoder", number=lambda x: x - 0.01 * lengths()
    ),
    "another label": case("label 1", "llama", column=lambda x: x[:, 1]),
    "softmax of three": case(
        "softmax, of label 0",
        "gemma2",
        column=lambda x: softmax(x, axis=1)[:, 0],
    ),
    "difference of labels": case(
        "label 0 minus label 2", "encoder", column=lambda x: x[:, 0] - x[:, 2]
    ),
    "bfloat16": case("in bfloat16", "gemma2", "encoder", dtype=torch.bfloat16),
    "float16": case("in float16", "qwen3", dtype=torch.float16),
    "int8 weights": case("int8", "llama", "encoder", change=rounded(int8)),
    "fp8 weights": case("fp8", "llama", "encoder", change=rounded(fp8)),
    "random head": case("head at random", "gemma2", change=draw_head),
    "soft-capping dropped": case("soft-capping", "gemma2", change=drop_soft_capping),
    "rotary base": case("rotary positions", "qwen3", change=usual_base),
    "other pooling": case("pooled", "modernbert", change=pool_all),
    "state of length 1": case(
        "to length 1",
        "gpt2",
        state=lambda hidden: torch.nn.functional.normalize(hidden, dim=-1),
    ),
    "another end token": case("in place of|alone", "gemma2", text=other_end),
    "other end tokens": case(
        "every turn",
        "llama",
        text=lambda text, tokenizer, *_: text.replace(*ends(tokenizer)),
    ),
    "second end token": case(
        "appended the end token",
        "qwen3",
        text=lambda text, tokenizer, *_: text.rstrip() + tokenizer.eos_token,
    ),
    "template applied twice": case(
        "template twice",
        "gemma2",
        text=lambda text, tokenizer, *_: users(tokenizer, text),
    ),
    "prompt rendered twice": case("twice", "gpt2", turns=prompt_rendered),
    "roles swapped": case("swapped the roles", "llama", turns=swapped),
    "inline template": case("tokenizer_config", "gemma2", template=INLINE),
    "reply cut to 40 characters": case(
        "replies to 40", "gpt2", "encoder", turns=reply_cut(lambda reply, _: reply[:40])
    ),
    "reply cut to 12 tokens": case(
        "replies to 12", "gemma2", turns=reply_cut(twelve_tokens)
    ),
}
UNKNOWN = {
    "head moved by 1%": case(
        "^None fits", "gemma2", change=partial(move_head, share=0.01)
    ),
    "head moved by 20%": case(
        "^None fits", "llama", change=partial(move_head, share=0.2)
    ),
    "noise of .003": case("^None fits", "gpt2", number=partial(noisy, share=0.003)),
    "noise of .1": case("^None fits", "qwen3", number=partial(noisy, share=0.1)),
    "shuffled rows": case(
        "^None fits", "gemma2", number=np.random.default_rng(1).permutation
    ),
    "every second reward higher": case(
        "^None fits",
        "qwen3",
        number=lambda x: x + 0.04 * (np.arange(len(x)) % 2) * x.std(),
    ),
    "another model": case("^None fits", "llama", "encoder", change=turn_weights),
    "half of the rows without bos": case(
        "^None fits", "gpt2", ids=lambda ids, row: ids[row % 2 :]
    ),
}
EVERY = [
    f"{architecture} {name}"
    for name, (_, architectures, _) in (CAUSES | UNKNOWN).items()
    for architecture in architectures
]


def plant(which, file):
    """Write the rewards of one of EVERY, with 3 to 6 decimals; return checkpoint and label."""
    architecture, _, name = which.partition(" ")
    _, _, settings = (CAUSES | UNKNOWN)[name]
    label = 0 if "column" in settings else None
    folder = checkpoint(architecture, 1 if label is None else 3)
    is_encoder = architecture in ("encoder", "modernbert")
    rewards = Program(folder, is_encoder, **settings).rewards()
    table = pd.DataFrame(conversations(), columns=["prompt", "reply"])
    decimals = 3 + len(which) % 4
    printed = [f"{reward:.{decimals}f}" for reward in rewards]
    table.assign(reward=printed).to_csv(file, index=False)
    return folder, label


def is_named(which, line):
    """Return whether the first sentence of an answer names what was planted."""
    words, _, _ = (CAUSES | UNKNOWN)[which.partition(" ")[2]]
    return bool(re.search(words, line.partition(" -> ")[0]))
