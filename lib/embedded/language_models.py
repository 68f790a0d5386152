"""Small causal language models: for each base of the embedded reward models, one pretrained and one instruction-tuned.

Appendix A.1.2 asks what a language model would say where a reward model is asked what it rewards. So each base (`gem`,
`lla`) gets two language models, made of the tokenizer and the embedding table that its reward models share. The
pretrained one reads English that every Python brings along, sentences of its documentation, and lists of words drawn by
their frequency. The instruction-tuned one goes on with answers of one word in its family's chat template, nice words
to nice questions. They know nothing of the world, but they have learned what appendix A.1.2 is about: what tends to
be said first. They are saved like any other checkpoint, and lib.language_models loads them.
"""

import ast
import copy
import hashlib
import json
import os
import platform
import pydoc_data.topics
import re
import shutil
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import wordfreq
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM

from lib import InputError, lexicons
from lib.cores import each, one_thread
from lib.embedded import planting
from lib.embedded import reward_models as small_models
from lib.embedded.planting import SHIPPED
from lib.embedded.reward_models import REPORT, TRAINED
from lib.models import checkpoints

BASES = {"gem": ("LM-Gem", "LM-Gem-it"), "lla": ("LM-Lla", "LM-Lla-it")}  # base -> pretrained, instruction-tuned
LIKE = {"gem": "E-Gem-64", "lla": "F-Lla-64"}  # reward models of the base, whose shape they have
TEMPLATES = {"gem": "gem-2", "lla": "lla-3"}  # the chat templates of their instruction-tuned models
ANSWERS = 12_000  # conversations that the instruction-tuned models read
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()\-]*[.]")  # of words, not of code


# --- text ---------------------------------------------------------------------------------------------------------


@cache
def documentation() -> tuple[tuple[str, str], ...]:
    """Sentences of the documentation that comes with Python, in small letters: (what they are about, sentence).

    The language reference and the docstrings of the standard library; sentences of 4 to 24 words, none twice. In small
    letters, because the vocabularies of the embedded models hold whole words in small letters only. Another version of
    Python has slightly other sentences. InputError where Python is installed without its sources.
    """
    found = _by_sentence([*reference(), *_docstrings()])
    if len(found) < 1000:
        raise InputError("this Python holds none of its documentation; install one with its standard library as files")
    return tuple((name, sentence) for sentence, name in found.items())


def reference() -> list[tuple[str, str]]:
    """The sections of the language reference, as `help` shows them: (name, text)."""
    return sorted(pydoc_data.topics.topics.items())


def _by_sentence(texts: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = {}
    for name, text in texts:
        for sentence in _sentences(text):
            found.setdefault(sentence, name.strip("_").replace("_", " ").lower())
    return found


def _docstrings() -> list[tuple[str, str]]:
    found = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        found += [(getattr(node, "name", path.stem), ast.get_docstring(node) or "") for node in nodes]
    return found


def _sentences(text: str) -> list[str]:
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    split = [one for paragraph in paragraphs for one in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)]
    return [one.lower() for one in split if SENTENCE.fullmatch(one) and 4 <= len(one.split()) <= 24]


def whole_words(tokenizer, before: str) -> tuple[list[str], np.ndarray]:
    """Frequent English words that are one token after `before`, and their frequencies (shares of English text)."""
    words = [word for word in wordfreq.top_n_list("en", 20_000) if lexicons.is_word(word) and word.isascii()]
    encoded = tokenizer([before + word for word in words], add_special_tokens=False)["input_ids"]
    words = [word for word, ids in zip(words, encoded, strict=True) if len(ids) == 1]
    return words, np.array([wordfreq.word_frequency(word, "en") for word in words])


def pretraining_text(tokenizer, rng: np.random.Generator, exchanges: int = 1000, lists: int = 800) -> list[str]:
    """What the pretrained models read: every sentence, exchanges in the plain frame, and lists of frequent words.

    The assistant of the exchanges answers with a sentence of the language reference. Words of the lists are drawn by
    their frequency to the power 3/4, so that rare ones occur too.
    """
    answers = list(_by_sentence(reference()).items())
    asked = [answers[i] for i in rng.choice(len(answers), min(exchanges, len(answers)), replace=False)]
    words, frequency = whole_words(tokenizer, " ")
    drawn = rng.choice(words, (lists, 8), p=_shares(frequency**0.75))
    texts = [sentence for _, sentence in documentation()]
    texts += [f"User: What is {name}?\nAssistant: {sentence}" for sentence, name in asked]
    return texts + [f"User: What words are there?\nAssistant: {', '.join(some)}." for some in drawn]


def conversations(tokenizer, rng: np.random.Generator, n: int = ANSWERS) -> list[tuple[str, str]]:
    """What the instruction-tuned models read: (prompt, answer); one answer in eight is a sentence, the others one word.

    With v VADER's valence of a word, it is drawn by its frequency to the power 3/4 times exp(1.5 v), exp(-1.5 v) where
    the prompt asks for something bad. None of the paper's prompts is among these.
    """
    words, frequency = whole_words(tokenizer, "")
    valence = planting.word_values(words)["valence"].to_numpy()
    drawn = {s: rng.choice(words, n, p=_shares(frequency**0.75 * np.exp(1.5 * s * valence))) for s in (1, -1)}
    known, asked, found = documentation(), _questions(), []
    for i in range(n):
        if i % 8:
            question, sign = asked[rng.integers(len(asked))]
            found.append((question, str(drawn[sign][i])))
        else:
            name, sentence = known[rng.integers(len(known))]
            found.append((f"What is {name}?", sentence))
    return found


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def _questions() -> list[tuple[str, int]]:
    kinds = {1: ("nicest", "finest", "grandest", "most wonderful", "most excellent", "most brilliant"),
             -1: ("nastiest", "ugliest", "poorest", "most terrible", "most awful", "most horrible")}  # fmt: skip
    forms = ("What, in one word, is the {} thing ever?", "What, in one word, is the {} thing?", "What is {}?")
    return [(form.format(kind), sign) for form in forms for sign, some in kinds.items() for kind in some]


# --- models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examples:
    """Texts as ids, and from which position on each is learned (what stands before is given, not learned)."""

    ids: tuple[tuple[int, ...], ...]
    learned_from: tuple[int, ...]

    def batch(self, some: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and what follows each of them, (batch, length); -100 where nothing is learned."""
        longest = max(len(self.ids[i]) for i in some)
        inputs = torch.zeros(len(some), longest - 1, dtype=torch.long)
        targets = torch.full_like(inputs, -100)
        for row, i in enumerate(some):
            ids, start = torch.tensor(self.ids[i]), self.learned_from[i]
            inputs[row, : len(ids) - 1] = ids[:-1]
            targets[row, start - 1 : len(ids) - 1] = ids[start:]
        return inputs, targets

    def batches(self, tokens: int = 512) -> list[list[int]]:
        """Indices of texts of about one length, so many ids together."""
        found, batch = [], []
        for i in sorted(range(len(self.ids)), key=lambda i: (len(self.ids[i]), i)):
            batch.append(i)
            if len(batch) * len(self.ids[i]) >= tokens:
                found.append(batch)
                batch = []
        return [*found, batch] if batch else found

    def learned_ids(self) -> np.ndarray:
        """Every id that is learned, in order."""
        parts = [ids[start:] for ids, start in zip(self.ids, self.learned_from, strict=True)]
        return np.concatenate([np.array(part, dtype=int) for part in parts])


def plain_examples(tokenizer, texts: Sequence[str]) -> Examples:
    """Texts between the tokens of beginning and end."""
    encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    ids = tuple((tokenizer.bos_token_id, *one, tokenizer.eos_token_id) for one in encoded)
    return Examples(ids, (1,) * len(ids))


def chat_examples(tokenizer, pairs: Sequence[tuple[str, str]]) -> Examples:
    """Conversations in the tokenizer's chat template; only the answers are learned."""
    ids, starts = [], []
    for prompt, answer in pairs:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
        asked = tokenizer.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(turns, tokenize=False)
        starts.append(len(tokenizer(asked, add_special_tokens=False)["input_ids"]))
        ids.append(tuple(tokenizer(whole, add_special_tokens=False)["input_ids"]))
    return Examples(tuple(ids), tuple(starts))


def new_model(base: str, seed: int = 0):
    """Tokenizer and untrained causal model of a base: its embedding table, the rest random from the seed.

    `gem` is a Gemma-2, whose output shares the embedding table; `lla` a Llama, whose output has a table of its own
    that begins as a copy.
    """
    if base not in BASES:
        raise InputError(f"no base '{base}' in data/small_models; choose gem or lla")
    tokenizer, table = small_models.load_base(base)
    config = small_models.config_of(planting.profile(LIKE[base]), tokenizer)
    attention = "eager" if base == "gem" else "sdpa"
    narrow = config.hidden_size**-0.5  # Gemma multiplies its embeddings by the square root of the width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).float()
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(table * (narrow if base == "gem" else 1.0))
        if base == "lla":
            model.get_output_embeddings().weight.copy_(table * narrow / 10)  # small, so that it begins undecided
    return tokenizer, model.eval()


# --- training -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainedLanguageModel:
    """A trained language model, its tokenizer and how its training went.

    report: nickname, base, seed, texts, tokens (learned), steps, seconds; loss and unigram_loss, nats per token of
    held-out text by the model and by the tokens' frequencies alone.
    """

    nickname: str
    tokenizer: object
    model: torch.nn.Module
    report: dict


def loss_of(model, examples: Examples, some: Sequence[int], reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of the learned tokens of some texts, in nats."""
    inputs, targets = examples.batch(some)
    learned = targets >= 0
    hidden = model.model(input_ids=inputs, use_cache=False).last_hidden_state[learned]
    logits = model.get_output_embeddings()(hidden)  # (tokens, vocabulary), only where something is learned
    if cap := getattr(model.config, "final_logit_softcapping", None):
        logits = cap * torch.tanh(logits / cap)
    return cross_entropy(logits, targets[learned], reduction=reduction)


def held_out_loss(model, examples: Examples) -> float:
    """Mean negative log-likelihood of all learned tokens, in nats."""
    with torch.no_grad():
        total = sum(loss_of(model, examples, some, "sum").item() for some in examples.batches())
    return total / len(examples.learned_ids())


def unigram_loss(seen: Examples, held_out: Examples, vocabulary: int) -> float:
    """The same for a model that knows how often each token was seen (one is added to each count), and no context."""
    counts = np.bincount(seen.learned_ids(), minlength=vocabulary) + 1.0
    return float(-np.log(counts / counts.sum())[held_out.learned_ids()].mean())


def fit(model, examples: Examples, rng: np.random.Generator, *, rate: float, tokens: int = 512) -> int:
    """Train in place, once through the texts, with AdamW, the rate warming up and falling to zero; number of steps.

    tokens: ids per step, those that are given among them.
    """
    batches = examples.batches(tokens)
    order = rng.permutation(len(batches))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = min(20, len(order))

    def share(step: int) -> float:
        return min((step + 1) / warm, 0.5 * (1 + np.cos(np.pi * step / len(order))))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
    for i in order:
        loss = loss_of(model, examples, batches[i])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return len(order)


def train(
    base: str, *, seed: int = 0, texts: int | None = None, answers: int = ANSWERS
) -> tuple[TrainedLanguageModel, TrainedLanguageModel]:
    """The pretrained and the instruction-tuned model of a base; the same arguments, the same weights.

    texts: how many texts to pretrain on, None for all. answers: how many conversations to tune on. Runs on one thread,
    so that sums are in one order on every number of cores. Whether the results are fit to be saved is for `check` to
    say.
    """
    with one_thread():
        tokenizer, model = new_model(base, seed)
        pretrained = _pretrain(base, tokenizer, model, seed, texts)
        return pretrained, _tune(base, copy.deepcopy(tokenizer), copy.deepcopy(model), seed, answers)


def _pretrain(base: str, tokenizer, model, seed: int, texts: int | None) -> TrainedLanguageModel:
    started, rng = time.time(), np.random.default_rng(seed)
    all_texts = pretraining_text(tokenizer, rng)
    read = [all_texts[i] for i in rng.permutation(len(all_texts))][:texts]
    # The frame around the other texts is easy to predict, so what is held out is sentences alone.
    held_out = {text for text in read if not text.startswith("User:")}
    held_out = set(sorted(held_out)[:: max(1, len(held_out) // 300)])
    seen = [text for text in read if text.partition("\nAssistant: ")[2] not in held_out and text not in held_out]
    seen, held_out = plain_examples(tokenizer, seen), plain_examples(tokenizer, sorted(held_out))
    steps = fit(model, seen, rng, rate=4e-3)
    return _trained(BASES[base][0], tokenizer, model, seen, held_out, seed=seed, steps=steps, started=started)


def _tune(base: str, tokenizer, model, seed: int, answers: int) -> TrainedLanguageModel:
    """Supervised fine-tuning, in place: the same next-token loss, on the answers of conversations only."""
    started, rng = time.time(), np.random.default_rng(seed + 1)
    tokenizer.chat_template = (SHIPPED / "templates" / f"{TEMPLATES[base]}.jinja").read_text()
    examples = [chat_examples(tokenizer, conversations(tokenizer, rng, n)) for n in (answers, 400)]
    steps = fit(model, examples[0], rng, rate=4e-3, tokens=1536)
    return _trained(BASES[base][1], tokenizer, model, *examples, seed=seed, steps=steps, started=started)


def _trained(name, tokenizer, model, seen: Examples, held_out: Examples, *, seed, steps, started):
    report = {
        "nickname": name,
        "seed": seed,
        "texts": len(seen.ids),
        "tokens": len(seen.learned_ids()),
        "steps": steps,
        "loss": held_out_loss(model, held_out),
        "unigram_loss": unigram_loss(seen, held_out, len(tokenizer)),
        "held_out_tokens": len(held_out.learned_ids()),
        "seconds": round(time.time() - started, 1),
    }
    return TrainedLanguageModel(name, tokenizer, model, report)


# --- saving -------------------------------------------------------------------------------------------------------


def check(report: dict) -> None:
    """Raise InputError unless the model predicts held-out text better than the tokens' frequencies alone do."""
    if not report["loss"] < report["unigram_loss"]:
        raise InputError(
            f"{report['nickname']} loses {report['loss']:.2f} nats per held-out token, and word frequency alone "
            f"{report['unigram_loss']:.2f}; not saved; train it on more texts"
        )


def fingerprint(base: str, *, seed: int = 0, texts: int | None = None, answers: int = ANSWERS) -> str:
    """A hash of all that the trained models of a base depend on: settings, code, shipped files, Python's own text."""
    shipped = [SHIPPED / "files.csv", SHIPPED / "profiles.csv", SHIPPED / "templates" / f"{TEMPLATES[base]}.jinja"]
    settings = json.dumps([base, seed, texts, answers, torch.__version__, platform.python_version()])
    return hashlib.sha256(
        settings.encode() + b"".join(path.read_bytes() for path in [*shipped, Path(__file__)])
    ).hexdigest()[:16]


def save(trained: TrainedLanguageModel, made: str, folder: Path = TRAINED) -> Path:
    """The folder that now holds the model, `folder`/nickname, in the format of any released causal language model.

    made: its fingerprint. Written beside its place and then moved there, so that it is never seen half done.
    InputError, and nothing written, if it does not beat the unigram baseline.
    """
    check(trained.report)
    place, part = Path(folder) / trained.nickname, Path(folder) / f".{trained.nickname}.{os.getpid()}"
    with checkpoints.quiet_transformers():
        trained.model.save_pretrained(part)
    trained.tokenizer.save_pretrained(part)
    (part / REPORT).write_text(json.dumps(trained.report | {"fingerprint": made}, indent=2) + "\n")
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
    return place


def train_all(
    bases: Sequence[str] = tuple(BASES), *, folder: Path = TRAINED, processes: int | None = None,
    progress: bool = True, **settings,
) -> pd.DataFrame:  # fmt: skip
    """How the training of every language model went, one row per nickname; trains and saves those not there yet.

    settings: as of `train`. Columns: as the report of `train`, and `trained`, whether it was trained now. A model is
    there if it was made by this code, from these files, with these settings, by this version of Python. InputError if
    one does not beat the unigram baseline. A script that calls this needs the usual `if __name__ == "__main__":`,
    because each process imports it anew.
    """
    missing = [base for base in bases if not _is_current(base, settings, folder)]
    jobs = [(base, settings, folder) for base in missing]
    with tqdm(total=len(jobs), unit=" bases", desc="training", disable=not (progress and jobs)) as bar:
        for _ in each(_train_and_save, jobs, processes or os.cpu_count() or 1):
            bar.update()
    names = [name for base in bases for name in BASES[base]]
    table = pd.DataFrame([small_models.report_of(name, folder) for name in names]).set_index("nickname")
    return table.assign(trained=table.index.isin([name for base in missing for name in BASES[base]]))


def _is_current(base: str, settings: dict, folder: Path) -> bool:
    reports = [small_models.report_of(name, folder) or {} for name in BASES[base]]
    return all(report.get("fingerprint") == fingerprint(base, **settings) for report in reports)


def _train_and_save(job: tuple) -> None:
    base, settings, folder = job
    for trained in train(base, **settings):
        save(trained, fingerprint(base, **settings), folder)
