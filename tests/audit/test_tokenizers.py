"""What tokens are read as, on tiny tokenizers; and what is kept of the true ones."""

import pandas as pd
import pytest
import tiny

from benchmarks import tokenizers
from lib import InputError


@pytest.fixture
def folder(tmp_path):
    """A folder of tokenizers: Gemma's without a chat template, and Llama 3's, which opens a turn
    after the reply.
    """
    tiny.make_tokenizer("gemma").save_pretrained(tmp_path / "gemma-2")
    tiny.make_tokenizer(
        "llama", template="extra_header", vocabulary=["!!}", " !?"]
    ).save_pretrained(tmp_path / "llama-3")
    return tmp_path


def test_a_tokenizer_without_template_gets_its_bases_and_no_other(folder):
    gemma, _ = tokenizers.open_tokenizer("Gemma 2", folder)
    assert gemma.chat_template == tokenizers.TEMPLATES["Gemma 2"].read_text()
    tiny.make_tokenizer("llama").save_pretrained(folder / "llama-3.1")
    with pytest.raises(InputError, match="no chat template; save the base's beside it"):
        tokenizers.open_tokenizer("Llama 3.1", folder)


def printed(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(
        rows, columns=["table", "nickname", "end", "position", "token_id", "text"]
    )


def test_printed_tokens_are_found_by_id_or_by_text(folder):
    tokenizer, _ = tokenizers.open_tokenizer("Llama 3", folder)
    table, id_of = tokenizers.as_fed(tokenizer), tokenizer.convert_tokens_to_ids
    spaced = id_of("Ġlove")
    given = printed(
        ("2", "M", "optimal", 1, spaced, "love"),
        ("A6", "M", "optimal", 1, -1, " love"),
        ("A6", "M", "optimal", 2, -1, "love"),
        ("A6", "M", "pessimal", 1, -1, "!?"),
    )
    found = tokenizers.printed_as_fed(given, table, tokenizer)
    assert found["token_id"].tolist() == [spaced, spaced, id_of("love"), id_of("Ġ!?")]
    assert found["text"].tolist() == [" love", " love", "love", " !?"]
    assert found["read_as"].tolist()[:3] == ["another id", "another id", "itself"]
    # of the same table, two are the same input
    assert found["listed"].tolist() == [1, 2, 2, 1]
    assert found["pieces"].tolist()[:3] == ["love"] * 3


def test_the_kept_counts_are_of_the_papers_ten_models():
    kept = pd.read_csv(tokenizers.KEPT / "counts.csv")
    assert set(kept["base"]) == set(tokenizers.bases())
    assert (kept[tokenizers.KINDS].sum(axis=1) == kept["tokens"]).all()
