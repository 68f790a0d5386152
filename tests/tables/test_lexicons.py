"""Lexicons and their joins: every trap of the lists and of the texts, with sums that can be done
by eye.
"""

import numpy as np
import pytest
from pinned import Mirror

from lib import InputError
from lib.tables import downloads, lexicons
from lib.tables.lexicons import Lexicon, join, load

BNC = """\tWord\tPoS\t\tFreq\tRa\tDisp
\t&\tConj\t:\t136\t97\t0.91
\t*\tUncl\t:\t15\t71\t0.77
\tA / a\tLett\t:\t268\t100\t0.93
\ta\tDet\t:\t21626\t100\t0.99
\tbase\tNoC\t%\t98#\t100\t0.95#
\t@\t@\tbase\t86\t100\t0.95
\t@\t@\tbases\t12#\t81#\t0.82#
\tcan\tVMod\t%\t2672\t100\t0.96
\t@\t@\tca~\t318\t100\t0.87
\t@\t@\tcan\t2354\t100\t0.95
\tcos/'cos*\tConj\t:\t163\t53\t0.64
\tdata/datum*\tNoC\t%\t183\t97\t0.86
\t@\t@\tdata\t176\t97\t0.86
\t@\t@\tdatum\t7\t50\t0.70
\tfurther*\tAdj\t[see far]
\tlie\tNoC\t%\t12\t99\t0.90
\t@\t@\tlie\t9\t99\t0.90
\t@\t@\tlies\t3\t80\t0.90
lie (/lay)\tVerb\t%\t187\t100\t0.94#
@\t@\tlie\t41#\t100#\t0.95#
@\t@\tlay\t64\t100\t0.90
\tLove\tNoP\t:\t10\t20\t0.50
\tlove\tNoC\t%\t150\t99\t0.92
\t@\t@\tlove\t148\t99\t0.92
\t@\t@\tloves\t1\t66\t0.87
\tlove\tVerb\t%\t150\t99\t0.91
\t@\t@\tlove\t86\t99\t0.91
\t@\t@\tloved\t46\t99\t0.90
\t@\t@\tlovest\t0\t5\t0.40
\tused (to)\tVerb\t:\t156\t100\t0.83
\tand/or\tConj\t:\t19\t80\t0.90
\t£1\tNoC\t:\t14\t77\t0.88
"""


@pytest.fixture
def mirror(tmp_path, monkeypatch) -> Mirror:
    return Mirror(tmp_path, monkeypatch)


def words(lexicon: Lexicon, version: str = "corrected") -> dict[str, float]:
    table = getattr(lexicon, version)
    assert list(table.columns) == ["word", lexicon.quantity]
    return dict(zip(table["word"], table[lexicon.quantity], strict=True))


def test_afinn_is_the_111_list():
    afinn = words(load("afinn"))
    assert len(afinn) == 2477
    assert afinn["breathtaking"] == 5 and afinn["bastard"] == -5 and afinn["love"] == 3
    # a phrase; a letter that is not ASCII
    assert afinn["can't stand"] == -3 and afinn["naïve"] == -2


def test_vader_has_ten_raters_whose_mean_it_states():
    ratings = lexicons.vader_ratings()
    raters = ratings[lexicons.RATERS]
    assert ratings["word"].is_unique and len(ratings) == 7494
    assert raters.isin(range(-4, 5)).all(axis=None)
    love = ratings.set_index("word").loc["love"]
    assert list(love[lexicons.RATERS]) == [3, 3, 3, 3, 3, 3, 3, 4, 4, 3]
    assert love["sentiment"] == 3.2 == 32 / 10
    apart = (raters.mean(axis=1) - ratings["sentiment"]).abs() > 0.051
    # VADER's own slip: 2.5 for a mean of 2.4
    assert ratings.loc[apart, "word"].tolist() == ["lmfao"]


def test_a_lexicon_that_cannot_be_had_is_replaced_and_told(monkeypatch, capsys):
    def fetch(*_):
        raise downloads.Unreachable("not here")

    monkeypatch.setattr(downloads, "fetch", fetch)
    assert lexicons.load("bing", instead="vader").name == "VADER"
    told = "not to be had, so VADER instead: not here\n"
    assert capsys.readouterr().out == told
    assert lexicons.load("afinn", instead="vader").name == "AFINN"
    with pytest.raises(downloads.Unreachable, match="not here"):
        lexicons.load("bing")


def test_bing_is_fetched_and_ambiguous_words_count_twice_or_not_at_all(mirror):
    mirror.put(
        *lexicons.TIDYTEXT,
        b"word,sentiment\nlove,positive\nenvious,negative\nenvious,positive\nnull,negative\n",
    )
    bing = load("bing")
    assert bing.name == "Bing"
    assert words(bing) == {"love": 1, "null": -1}
    assert bing.published["word"].tolist() == ["love", "envious", "envious", "null"]
    assert bing.published["sentiment"].tolist() == [1, -1, 1, -1]


def test_the_corrected_frequency_is_the_sum_over_parts_of_speech(mirror):
    mirror.put(*lexicons.BNC, BNC.encode("latin-1"))
    assert words(load("bnc")) == {
        "&": 136,
        "a": 268 + 21626,  # `A / a` is one spelling; two parts of speech
        "base": 86,
        "bases": 12,  # `12#` is a number with a mark
        "can": 2354,  # 2672, the total, holds the halves of `can't` too
        "cos": 163,
        "data": 176,
        "datum": 7,
        "lie": 9 + 41,  # the second in a row without the leading tab
        "lies": 3,
        "lay": 64,
        "love": 148 + 86 + 10,  # noun, verb and name; not 150 + 150
        "loves": 1,
        "loved": 46,  # no `lovest`: 0 per million has no logarithm
        "used": 156,
        "and/or": 19,  # a word of its own, not two spellings
        "£1": 14,
    }


def test_the_published_frequency_is_the_headword_rows_as_printed(mirror):
    mirror.put(*lexicons.BNC, BNC.encode("latin-1"))
    rows = load("bnc").published
    # lemma totals, one per part of speech
    assert rows[rows["word"] == "love"]["frequency"].tolist() == [150, 150]
    assert "@" not in set(rows["word"])
    assert "base" not in set(rows["word"])  # `98#` is no number
    assert {"A / a", "Love", "data/datum*", "*"} <= set(rows["word"])


def lexicon(quantity="sentiment", name="L", published=None, **values) -> Lexicon:
    table = lexicons.pd.DataFrame(
        {"word": list(values), quantity: np.array(list(values.values()), dtype=float)}
    )
    return Lexicon(
        name, quantity, table, table if published is None else table.iloc[published]
    )


TEXTS = [" love", "love", "Love", " LOVE", "hate\n", "Bad", "null", "", " "]
#        0        1       2       3        4         5      6       7   8
GROUPS = [0, 0, 1, 2, 3, 4, 5, 6, 6]
REWARDS = [5, 5, 6, 7, 1, 2, 3, 0, 0]


@pytest.fixture
def table(score_table):
    return score_table(TEXTS, GROUPS, best=REWARDS, worst=[-x for x in REWARDS])


def test_the_published_join_lowers_but_does_not_trim(table):
    found = join(table, lexicon(love=3, hate=-3, bad=-2, null=1), "published")
    assert list(found.columns) == ["word", "sentiment", "best", "worst"]
    # `love` and `Love`, but not ` love`, ` LOVE` and `hate\\n`
    assert found["word"].tolist() == ["love", "love", "bad", "null"]
    assert found["best"].tolist() == [5, 6, 2, 3]
    assert found["sentiment"].tolist() == [3, 3, -2, 1]


def test_the_corrected_join_trims_and_has_each_word_once(table):
    found = join(table, lexicon(love=3, hate=-3, bad=-2, null=1), "corrected")
    assert found["word"].tolist() == ["love", "hate", "bad", "null"]
    # `love` itself stands for love, not `Love` or `LOVE`
    assert found["best"].tolist() == [5, 1, 2, 3]
    assert found["worst"].tolist() == [-5, -1, -2, -3]


def test_a_word_with_several_rows_counts_several_times_only_as_published(table):
    # love is a noun and a verb
    parts = lexicon("frequency", love=150, bad=264, published=[0, 0, 1])
    assert join(table, parts, "published")["word"].tolist() == [
        "love",
        "love",
        "love",
        "love",
        "bad",
    ]
    assert join(table, parts, "corrected")["word"].tolist() == ["love", "bad"]


def test_a_control_adds_a_column_and_leaves_out_what_it_lacks(table):
    frequency, sentiment = (
        lexicon("frequency", love=150, bad=264, null=2),
        lexicon(love=3, bad=-2, hate=-3),
    )
    found = join(table, frequency, "corrected", control=sentiment)
    assert list(found.columns) == ["word", "frequency", "sentiment", "best", "worst"]
    assert found.values.tolist() == [["love", 150, 3, 5, -5], ["bad", 264, -2, 2, -2]]
    as_published = join(table, frequency, "published", control=sentiment)
    # each token once: the lexicons are not crossed
    assert as_published["best"].tolist() == [5, 6, 2]


def fetched(name: str) -> Lexicon:
    try:
        return load(name)
    except InputError as error:
        pytest.skip(f"needs the published files: {error}")


def test_the_published_lists_are_read_whole():
    bnc = fetched("bnc")
    # totals, single forms, two rows of lie; two are no number
    assert len(bnc.published) == 4694 + 1973 + 2 - 2
    assert words(bnc)["love"] == 148 + 86
    bing = fetched("bing")
    assert (len(bing.published), len(bing.corrected)) == (6786, 6786 - 2 * 3)
