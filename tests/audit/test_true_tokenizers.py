"""Whole vocabularies of true tokenizers, on tiny random models; skipped where no folder holds these
tokenizers.

The folder is named by TRUE_TOKENIZERS, or is shared/tokenizers beside the project: gemma-2/,
llama-3/ and so on, each with tokenizer_config.json and tokenizer.json, which may be packed with xz.
None of it comes with the project.
"""

import functools
import json
import lzma
import os
import unicodedata
from pathlib import Path

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from audit.opening import open_model
from benchmarks import tokenizers
from lib import ROOT
from lib.models import conversations
from lib.scoring import vocabulary
from lib.tables import downloads, scores

FOLDER = Path(
    os.environ.get("TRUE_TOKENIZERS") or ROOT.parent / "shared" / "tokenizers"
)
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the true tokenizers: TRUE_TOKENIZERS"
)
of_published_files = pytest.mark.skipif(
    not os.environ.get(downloads.MIRROR),
    reason="needs the published files: DATA_MIRROR",
)
PROMPT = "What, in one word, is the greatest thing ever?"
# Of each tokenizer: the tiny model that is put under it, and how that is loaded.
UNDER = {
    "gemma-2": ("linear_gemma2", {}),
    "llama-3": ("linear_llama", {}),
    "llama-3.1": ("qrm_llama", {}),
    "llama-3.2": ("urm", {}),
    "qwen-3": ("linear_qwen3", {}),
}
BASES = {"gemma-2": "Gemma 2", "llama-3": "Llama 3"}
SOME = 300  # tokens at equal distances that are scored beside the awkward ones


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder with all tokenizers, unpacked."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for name in UNDER:
        (folder / name).mkdir()
        packed = FOLDER / name / "tokenizer.json.xz"
        whole = (
            lzma.decompress(packed.read_bytes())
            if packed.is_file()
            else packed.with_suffix("").read_bytes()
        )
        (folder / name / "tokenizer.json").write_bytes(whole)
        (folder / name / "tokenizer_config.json").write_bytes(
            (FOLDER / name / "tokenizer_config.json").read_bytes()
        )
        if name == "gemma-2":
            (folder / name / "chat_template.jinja").write_text(
                tokenizers.TEMPLATES["Gemma 2"].read_text()
            )
    return folder


@pytest.fixture(scope="module")
def opened(unpacked):
    """Opens a tokenizer once, and gives it with its tokens."""

    @functools.cache
    def open_one(name: str) -> tuple[PreTrainedTokenizerBase, pd.DataFrame]:
        tokenizer = AutoTokenizer.from_pretrained(unpacked / name)
        return tokenizer, conversations.vocabulary(tokenizer)

    return open_one


@pytest.fixture(scope="module", params=UNDER)
def under(request, unpacked, opened):
    """The name of a tokenizer, its folder, which now also holds a tiny random model, and this
    model loaded.
    """
    name = request.param
    folder, (kind, options), tokenizer = unpacked / name, UNDER[name], opened(name)[0]
    config = tiny.KINDS[kind][2] | {
        "vocab_size": len(tokenizer),
        "num_hidden_layers": 2,
        "torch_dtype": "float32",
    }
    config |= {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    backbone = tiny._backbone_tensors(
        tiny._loadable(config), torch.Generator().manual_seed(0)
    )
    tensors = {
        f"model.{key}": tensor for key, tensor in backbone.items()
    } | tiny.head_tensors(kind, config)
    tiny.write_weights(folder, tensors)
    return name, folder, open_model(folder, device="cpu", **options)


def awkward(tokenizer, tokens: pd.DataFrame) -> pd.Series:
    """Whether each token is a special, blank, byte or combining one."""
    odd = ~tokens["text"].str.strip().astype(bool) | tokens["text"].str.contains(
        "\ufffd"
    )
    combining = tokens["text"].map(
        lambda text: not text.isascii() and any(map(unicodedata.combining, text))
    )
    added = tokens["token_id"].isin(tokenizer.get_added_vocab().values())
    return added | odd | tokens["token"].str.startswith("<0x") | combining


# --- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply_mode", ["text", "ids"])
def test_every_awkward_token_and_some_others_are_scored_as_the_oracle_scores_them(
    under, opened, reply_mode, tmp_path
):
    tokenizer, tokens = opened(under[0])
    chosen = awkward(tokenizer, tokens) | (tokens.index % (len(tokens) // SOME) == 0)
    some = tokens["token_id"][chosen]
    score(under, reply_mode, tmp_path, some.tolist(), some)


@pytest.mark.nightly
@pytest.mark.parametrize("reply_mode", ["text", "ids"])
def test_a_whole_vocabulary_is_scored_as_the_oracle_scores_some(
    under, opened, reply_mode, tmp_path
):
    assert len(opened(under[0])[1]) == len(under[2].tokenizer.get_vocab()) >= 128_256
    some = np.random.default_rng(0).choice(128_256, SOME, replace=False)
    score(under, reply_mode, tmp_path, None, some)


def score(
    under, reply_mode: str, folder: Path, token_ids: list[int] | None, compared
) -> None:
    """Score these tokens, None for all; hold the rewards of those that are compared against the
    oracle.
    """
    path = folder / "table.parquet"
    asked = {"reply_mode": reply_mode, "progress": False, "token_ids": token_ids}
    table = vocabulary.score_vocabulary(under[2], {"greatest": PROMPT}, path, **asked)
    rows = table[table["token_id"].isin(compared)]
    assert len(table) == len(token_ids or under[2].tokenizer.get_vocab()) and len(
        rows
    ) == len(compared)
    replies = (
        rows["text"].tolist()
        if reply_mode == "text"
        else [[i] for i in rows["token_id"]]
    )
    expected = oracle.rewards(under[1], PROMPT, replies, reply_mode=reply_mode)
    np.testing.assert_allclose(
        rows["greatest"], expected, atol=2e-5 * max(1, np.abs(expected).max()), rtol=0
    )
    assert rows["greatest"].nunique() > SOME / 2  # rewards do vary
    path.unlink()


# --- counts ---------------------------------------------------------------------------------------


@of_published_files
@pytest.mark.parametrize(
    "name", [pytest.param("gemma-2", marks=pytest.mark.nightly), "llama-3"]
)
def test_the_kept_counts_and_printed_tokens_are_those_of_the_tokenizer(unpacked, name):
    tokenizer, _ = tokenizers.open_tokenizer(BASES[name], unpacked)
    fed = tokenizers.as_fed(tokenizer)
    kept = pd.read_csv(tokenizers.KEPT / "counts.csv").query("base == @BASES[@name]")
    kept = kept.iloc[0]
    counts = scores.read_as(fed).value_counts()
    assert kept[list(counts.index)].astype(int).to_dict() == counts.to_dict()
    assert int(kept["distinct inputs"]) == fed["input_group"].nunique()

    kept = pd.read_csv(tokenizers.KEPT / "printed_tokens.csv", keep_default_na=False)
    printed, kept = (
        tokens[tokens["nickname"].isin(tokenizers.bases()[BASES[name]])]
        for tokens in (tokenizers.printed_tokens(), kept)
    )
    again = tokenizers.printed_as_fed(printed, fed, tokenizer)
    keys = ["table", "nickname", "end", "position"]
    pd.testing.assert_frame_equal(
        *(t.sort_values(keys, ignore_index=True) for t in (again, kept)),
        check_dtype=False,
    )
