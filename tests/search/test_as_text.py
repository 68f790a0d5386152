"""What survives as text, by a second count over the whole conversation; and what is learned of
neighbours.
"""

import numpy as np
import oracle
import pytest

from lib.apps.owner.opening import open_model as load
from lib.search import searches
from lib.search.as_text import FIRST, RoundTrip, texts_of
from lib.search.gcg import Settings
from lib.search.objective import Objective, allowed_ids
from lib.search.searches import search

PROMPT = "What, in one word, is the greatest thing ever?"
KINDS = ["linear_llama", "linear_gemma2", "linear_qwen3", "deberta"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_survives_is_what_comes_back_within_the_whole_conversation(model_of, kind):
    model, round_trip = model_of(kind), RoundTrip(model_of(kind), PROMPT)
    for n in (1, 2, 3):
        replies = np.random.default_rng(n).choice(allowed_ids(model), size=(150, n))
        expected = [
            oracle.comes_back(model.tokenizer, PROMPT, reply)
            for reply in replies.tolist()
        ]
        assert round_trip(replies).tolist() == expected
        assert len(set(expected)) == 2
    # it has no control tokens around the reply
    assert round_trip.learns == (kind != "deberta")


@pytest.mark.parametrize("kind", KINDS[:3])
def test_neighbours_tell_all_but_always_what_survives(model_of, kind):
    round_trip = RoundTrip(model_of(kind), PROMPT)
    replies = np.random.default_rng(5).choice(
        allowed_ids(model_of(kind)), size=(400, 3)
    )
    told, survives = round_trip.neighbours(replies), round_trip(replies)
    assert survives.sum() > 5
    assert (told != survives).sum() <= 4


def test_a_token_that_the_template_trims_cannot_stand_first_but_behind_another(
    model_of,
):
    model = model_of("linear_llama")
    love, is_ = (model.tokenizer.get_vocab()[token] for token in ("love", "\u0120is"))
    round_trip = RoundTrip(model, PROMPT)
    assert round_trip.neighbours(np.array([[love, is_], [is_, love]])).tolist() == [
        True,
        False,
    ]
    assert (round_trip.known[FIRST, is_], round_trip.known[love, is_]) == (False, True)


def test_what_one_template_does_is_not_taken_for_what_another_does(model_of, tmp_path):
    trims, file = model_of("linear_llama"), tmp_path / "keeps.jinja"
    file.write_text(trims.tokenizer.chat_template.replace("| trim", ""))
    keeps = load(trims.hub_id, device="cpu", template=file)  # blanks and all
    is_ = np.array([[trims.tokenizer.get_vocab()["\u0120is"]]])
    assert [
        RoundTrip(model, PROMPT).neighbours(is_).item() for model in (trims, keeps)
    ] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("kind", "n"), [("linear_llama", 20), ("linear_gemma2", 2), ("linear_qwen3", 5)]
)
def test_a_start_as_text_always_exists_and_text_is_the_default(model_of, kind, n):
    model = model_of(kind)
    objective = Objective(model, PROMPT, "optimal", allowed_ids(model))
    assert objective.reply_mode == "text"
    found = searches.starts(objective, n, randoms=2)
    assert {"random 1", "random 2"} <= set(found)
    for reply in found.values():
        assert len(reply) == n
        assert oracle.comes_back(model.tokenizer, PROMPT, reply)


def test_a_search_as_text_scores_only_what_a_person_could_type(model_of):
    model, scored = model_of("linear_llama"), []

    class Recorded(Objective):
        def values(self, replies):
            scored.extend(replies.tolist())
            return super().values(replies)

    objective = Recorded(model, PROMPT, "pessimal", allowed_ids(model))
    found = search(
        objective,
        searches.starts(objective, 9)["random 1"],
        Settings(budget=80, width=16, patience=1),
    )
    assert len(scored) == found.evaluations == 80
    assert all(oracle.comes_back(model.tokenizer, PROMPT, reply) for reply in scored)
    assert found.survives and texts_of(model, [found.ids]) == [found.text]
    assert found.reward == pytest.approx(found.reward_of_text, abs=1e-4)
