"""Small causal language models: for each base of the embedded reward models, one pretrained and one
instruction-tuned.

The pretrained one reads sentences of Python's documentation and lists of frequent words. The tuned
one goes on with answers of one word in its family's chat template: nice words for nice questions.
See appendix A.1.2.
"""

import ast
import copy
import platform
import pydoc_data.topics
import re
import sysconfig
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import wordfreq
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from .. import InputError
from ..models import checkpoints
from ..models.hardware import one_thread
from ..tables.words import is_word
from . import bases, planting, saving, training
from .planting import SHIPPED
from .saving import TRAINED

# base -> pretrained, instruction-tuned
BASES = {"gem": ("LM-Gem", "LM-Gem-it"), "lla": ("LM-Lla", "LM-Lla-it")}
# reward models of the base, whose shape they have
LIKE = {"gem": "E-Gem-64", "lla": "F-Lla-64"}
# the chat templates of their instruction-tuned models
TEMPLATES = {"gem": "gem-2", "lla": "lla-3"}
SIZE = 500  # of a training, in the unit of the reward models' layers x width
ANSWERS = 12_000  # conversations that the instruction-tuned models read
# sections of Python's language reference: (name, text)
REFERENCE = sorted(pydoc_data.topics.topics.items())
SENTENCE = re.compile(r"[A-Z][A-Za-z0-9 ,;:'\"()\-]*[.]")  # of words, not of code

CODE = (Path(__file__),)  # code that decides the weights, beside saving.CODE


@cache
def documentation() -> tuple[tuple[str, str], ...]:
    """Return sentences of the documentation that comes with Python: (what they are about,
    sentence).

    The sentences are from the language reference and the docstrings of the standard library, have 4
    to 24 words, and occur once. They are in small letters, because the vocabularies hold whole
    words in small letters only. Raise InputError if Python is installed without its sources.
    """
    texts = [*REFERENCE]
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(path.read_bytes())
        nodes = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        ]
        texts += [
            (getattr(node, "name", path.stem), ast.get_docstring(node) or "")
            for node in nodes
        ]
    sentences = _by_sentence(texts)
    if len(sentences) < 1000:
        raise InputError(
            "this Python holds none of its documentation; install one with its standard library as "
            "files"
        )
    return tuple((name, sentence) for sentence, name in sentences.items())


def _by_sentence(texts: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return every sentence once: sentence -> the first name that it stands under."""
    names: dict[str, str] = {}
    for name, text in texts:
        paragraphs = (
            " ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)
        )
        for part in (
            part
            for paragraph in paragraphs
            for part in re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph)
        ):
            if SENTENCE.fullmatch(part) and 4 <= len(part.split()) <= 24:
                names.setdefault(
                    part.lower(), name.strip("_").replace("_", " ").lower()
                )
    return names


def whole_words(tokenizer, before: str) -> tuple[list[str], np.ndarray]:
    """Return frequent English words that are one token after `before`, and their shares of
    English text.
    """
    words = [
        word
        for word in wordfreq.top_n_list("en", 20_000)
        if is_word(word) and word.isascii()
    ]
    encoded = tokenizer([before + word for word in words], add_special_tokens=False)[
        "input_ids"
    ]
    words = [word for word, ids in zip(words, encoded, strict=True) if len(ids) == 1]
    return words, np.array([wordfreq.word_frequency(word, "en") for word in words])


def pretraining_text(
    tokenizer,
    rng: np.random.Generator,
    exchanges: int = 1000,
    lists: int = 800,
) -> list[str]:
    """Return what the pretrained models read: every sentence, plain exchanges, and lists of
    frequent words.

    In the exchanges, the assistant answers with a sentence of the language reference. Words of the
    lists are drawn by their frequency to the power 3/4, so that rare ones occur too.
    """
    answers = list(_by_sentence(REFERENCE).items())
    asked = [
        answers[i]
        for i in rng.choice(len(answers), min(exchanges, len(answers)), replace=False)
    ]
    words, frequency = whole_words(tokenizer, " ")
    weights = frequency**0.75
    drawn = rng.choice(words, (lists, 8), p=weights / weights.sum())
    texts = [sentence for _, sentence in documentation()]
    texts += [
        f"User: What is {name}?\nAssistant: {sentence}" for sentence, name in asked
    ]
    return texts + [
        f"User: What words are there?\nAssistant: {', '.join(some)}." for some in drawn
    ]


def conversations(
    tokenizer,
    rng: np.random.Generator,
    n: int = ANSWERS,
) -> list[tuple[str, str]]:
    """Return what the tuned models read: (prompt, answer). One answer in eight is a sentence, the
    others are one word.

    A word of VADER's valence v is drawn by its frequency to the power 3/4 times exp(1.5 v), or
    times exp(-1.5 v) if the prompt asks for something bad. None of the paper's prompts is among
    these.
    """
    adjectives = {
        1: (
            "nicest",
            "finest",
            "grandest",
            "most wonderful",
            "most excellent",
            "most brilliant",
        ),
        -1: (
            "nastiest",
            "ugliest",
            "poorest",
            "most terrible",
            "most awful",
            "most horrible",
        ),
    }
    forms = (
        "What, in one word, is the {} thing ever?",
        "What, in one word, is the {} thing?",
        "What is {}?",
    )
    asked = [
        (which, polarity) for polarity, some in adjectives.items() for which in some
    ]
    questions = [
        (form.format(which), polarity) for form in forms for which, polarity in asked
    ]
    drawn = _draw_words(tokenizer, rng, n)
    sentences = documentation()
    pairs = []
    for i in range(n):
        if i % 8:
            question, polarity = questions[rng.integers(len(questions))]
            pairs.append((question, str(drawn[polarity][i])))
        else:
            name, sentence = sentences[rng.integers(len(sentences))]
            pairs.append((f"What is {name}?", sentence))
    return pairs


def _draw_words(tokenizer, rng: np.random.Generator, n: int) -> dict[int, np.ndarray]:
    """Return n words for prompts of each polarity, drawn as `conversations` says."""
    words, frequency = whole_words(tokenizer, "")
    valence = planting.word_values(words)["valence"].to_numpy()
    drawn = {}
    for polarity in (1, -1):
        weights = frequency**0.75 * np.exp(1.5 * polarity * valence)
        drawn[polarity] = rng.choice(words, n, p=weights / weights.sum())
    return drawn


@dataclass(frozen=True)
class Examples:
    """Texts as ids, and the position from which each text is learned; earlier ids are given."""

    ids: tuple[tuple[int, ...], ...]
    learned_from: tuple[int, ...]

    def batch(self, some: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the inputs and the id that follows each of them, (batch, length); -100 where
        nothing is learned.
        """
        longest = max(len(self.ids[i]) for i in some)
        inputs = torch.zeros(len(some), longest - 1, dtype=torch.long)
        targets = torch.full_like(inputs, -100)
        for row, i in enumerate(some):
            ids = torch.tensor(self.ids[i])
            start = self.learned_from[i]
            inputs[row, : len(ids) - 1] = ids[:-1]
            targets[row, start - 1 : len(ids) - 1] = ids[start:]
        return inputs, targets

    def batches(self, tokens: int = 512) -> list[list[int]]:
        """Return batches of indices of texts: similar lengths together, about so many ids in
        each.
        """
        batches = []
        batch = []
        shortest_first = sorted(range(len(self.ids)), key=lambda i: len(self.ids[i]))
        for i in shortest_first:
            batch.append(i)
            if len(batch) * len(self.ids[i]) >= tokens:
                batches.append(batch)
                batch = []
        return [*batches, batch] if batch else batches

    def learned_ids(self) -> np.ndarray:
        """Return every id that is learned, in order."""
        parts = [
            ids[start:] for ids, start in zip(self.ids, self.learned_from, strict=True)
        ]
        return np.concatenate([np.array(part, dtype=int) for part in parts])


def plain_examples(tokenizer, texts: Sequence[str]) -> Examples:
    """Return the texts as examples, between the tokens of beginning and end."""
    encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    ids = tuple(
        (tokenizer.bos_token_id, *text_ids, tokenizer.eos_token_id)
        for text_ids in encoded
    )
    return Examples(ids, (1,) * len(ids))


def chat_examples(tokenizer, pairs: Sequence[tuple[str, str]]) -> Examples:
    """Return conversations in the tokenizer's chat template as examples; only the answers are
    learned.
    """
    ids = []
    starts = []
    for prompt, answer in pairs:
        turns = [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": answer},
        ]
        asked = tokenizer.apply_chat_template(
            turns[:1],
            tokenize=False,
            add_generation_prompt=True,
        )
        whole = tokenizer.apply_chat_template(turns, tokenize=False)
        starts.append(len(tokenizer(asked, add_special_tokens=False)["input_ids"]))
        ids.append(tuple(tokenizer(whole, add_special_tokens=False)["input_ids"]))
    return Examples(tuple(ids), tuple(starts))


def new_model(base: str, seed: int = 0):
    """Return tokenizer and untrained causal model of a base: its embedding table, the rest random
    from the seed.

    `gem` is a Gemma-2, whose output shares the embedding table. `lla` is a Llama, whose output
    begins as a copy of it.
    """
    tokenizer, table = bases.load_base(base)
    config = bases.config_of(planting.profile(LIKE[base]), tokenizer)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(
            config,
            attn_implementation=bases.attention_of(base),
        ).float()
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(
            table * bases.embedding_scale(base, config.hidden_size)
        )
        if base == "lla":  # small, so that it begins undecided
            model.get_output_embeddings().weight.copy_(
                table * config.hidden_size**-0.5 / 10
            )
    return tokenizer, model.eval()


class TrainedLanguageModel(NamedTuple):
    """A trained language model, its tokenizer, and a report of its training.

    In the report, `loss` and `unigram_loss` are nats per token of held-out text, by the model and
    by the tokens' frequencies alone. `tokens` counts the learned ones.
    """

    tokenizer: object
    model: torch.nn.Module
    report: dict


def loss_of(
    model,
    examples: Examples,
    some: Sequence[int],
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of the learned tokens of some texts, in nats."""
    inputs, targets = examples.batch(some)
    learned = targets >= 0
    hidden = model.model(input_ids=inputs, use_cache=False).last_hidden_state[learned]
    output = model.get_output_embeddings()
    cap = getattr(model.config, "final_logit_softcapping", None)
    # (tokens, vocabulary), only where something is learned; the narrow side is divided, which is
    # cheaper. With cap added to each, which no loss sees, cap tanh(x / cap) is 2 cap sigmoid(2 x /
    # cap), and sigmoid costs a fifth.
    logits = (
        2 * cap * torch.sigmoid(output(hidden * (2 / cap))) if cap else output(hidden)
    )
    return cross_entropy(logits, targets[learned], reduction=reduction)


def unigram_loss(seen: Examples, held_out: Examples, vocabulary: int) -> float:
    """Return the held-out loss of a model that knows only the tokens' counts (one is added to
    each count).
    """
    counts = np.bincount(seen.learned_ids(), minlength=vocabulary) + 1.0
    return float(-np.log(counts / counts.sum())[held_out.learned_ids()].mean())


def train(
    base: str,
    *,
    seed: int = 0,
    texts: int | None = None,
    answers: int = ANSWERS,
) -> tuple[TrainedLanguageModel, TrainedLanguageModel]:
    """Return the pretrained and the instruction-tuned model of a base; the same arguments give the
    same weights.

    `texts` is how many texts to pretrain on, None for all, and `answers` how many conversations to
    tune on. It runs on one thread, so that sums are in one order on any number of cores.
    """
    with one_thread():
        tokenizer, model = new_model(base, seed)
        rng = np.random.default_rng(seed)
        examples = (
            plain_examples(tokenizer, some) for some in _texts(tokenizer, rng, texts)
        )
        pretrained = _fit(BASES[base][0], tokenizer, model, *examples, rng, seed)

        tokenizer = copy.deepcopy(tokenizer)
        model = copy.deepcopy(model)
        rng = np.random.default_rng(seed + 1)
        tokenizer.chat_template = bases.template(TEMPLATES[base]).read_text()
        examples = (
            chat_examples(tokenizer, conversations(tokenizer, rng, n))
            for n in (answers, 400)
        )
        return pretrained, _fit(
            BASES[base][1],
            tokenizer,
            model,
            *examples,
            rng,
            seed,
            tokens=1536,
        )


def _texts(
    tokenizer,
    rng: np.random.Generator,
    texts: int | None,
) -> tuple[list[str], list[str]]:
    """Return the texts to pretrain on, and those that are held out. The frame around other texts is
    easy to predict, so only sentences are held out.
    """
    all_texts = pretraining_text(tokenizer, rng)
    read = [all_texts[i] for i in rng.permutation(len(all_texts))][:texts]
    sentences = sorted({text for text in read if not text.startswith("User:")})
    held_out = sentences[:: max(1, len(sentences) // 300)]
    left_out = set(held_out)
    seen = []
    for text in read:
        answer = text.partition("\nAssistant: ")[2]
        if text not in left_out and answer not in left_out:
            seen.append(text)
    return seen, held_out


def _fit(
    nickname: str,
    tokenizer,
    model,
    seen: Examples,
    held_out: Examples,
    rng: np.random.Generator,
    seed: int,
    tokens: int = 512,
) -> TrainedLanguageModel:
    """Train the model in place, once through what is seen, about `tokens` ids per step."""
    started = time.time()
    batches = seen.batches(tokens)
    order = rng.permutation(len(batches))
    groups = [{"params": list(model.parameters()), "lr": 4e-3}]
    training.fit(
        groups,
        lambda step: loss_of(model, seen, batches[order[step]]),
        len(order),
    )
    with torch.no_grad():
        loss = sum(
            loss_of(model, held_out, some, "sum").item() for some in held_out.batches()
        )
    n = len(held_out.learned_ids())
    report = {
        "nickname": nickname,
        "seed": seed,
        "texts": len(seen.ids),
        "tokens": len(seen.learned_ids()),
        "steps": len(order),
        "loss": loss / n,
        "unigram_loss": unigram_loss(seen, held_out, len(tokenizer)),
        "held_out_tokens": n,
        "seconds": round(time.time() - started, 1),
    }
    return TrainedLanguageModel(tokenizer, model, report)


def fingerprint(
    base: str,
    *,
    seed: int = 0,
    texts: int | None = None,
    answers: int = ANSWERS,
) -> str:
    """Return a hash of all that a base's trained models depend on (settings, code, files,
    Python's own text).
    """
    settings = [
        base,
        seed,
        texts,
        answers,
        torch.__version__,
        platform.python_version(),
    ]
    shipped = [
        SHIPPED / "files.csv",
        SHIPPED / "profiles.csv",
        bases.template(TEMPLATES[base]),
    ]
    return saving.fingerprint(settings, CODE, shipped)


def save(trained: TrainedLanguageModel, made_from: str, folder: Path = TRAINED) -> Path:
    """Save the model of this fingerprint in `folder`/nickname, like any released one, and return
    that folder.

    Raise InputError, and write nothing, unless it predicts held-out text better than the tokens'
    frequencies alone do.
    """
    report = trained.report
    if not report["loss"] < report["unigram_loss"]:
        raise InputError(
            f"{report['nickname']} loses {report['loss']:.2f} nats per held-out token, and word "
            f"frequency alone {report['unigram_loss']:.2f}; not saved; train it on more texts"
        )

    def write(place: Path) -> None:
        with checkpoints.quiet_transformers():
            trained.model.save_pretrained(place)
        trained.tokenizer.save_pretrained(place)

    return saving.save(report, made_from, folder, write)


def jobs(
    some: Iterable[str] = BASES, *, folder: Path = TRAINED, **settings
) -> list[saving.Job]:
    """Return the trainings of some bases' language models, with these settings of `train`; see
    saving.train_missing.
    """
    made_from = {base: fingerprint(base, **settings) for base in some}
    return [
        saving.Job(
            BASES[base],
            made,
            folder,
            partial(_train_and_save, base, made, folder, settings),
            SIZE,
        )
        for base, made in made_from.items()
    ]


def _train_and_save(base: str, made_from: str, folder: Path, settings: dict) -> None:
    for trained in train(base, **settings):
        save(trained, made_from, folder)
