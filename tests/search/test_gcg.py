"""Searches for the best and worst reply against the whole truth, and what they do when stopped,
starved or misled.
"""

import unicodedata
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice, product

import numpy as np
import oracle
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from benchmarks.search.exhaustive import Exhausted, all_replies
from lib import InputError, io
from lib.apps.owner.opening import open_model as load
from lib.scoring import vocabulary
from lib.search import gcg, searches
from lib.search.as_text import texts_of
from lib.search.gcg import Settings
from lib.search.objective import DIRECTIONS, Objective, allowed_ids
from lib.search.searches import Trace, search

PROMPT = "What, in one word, is the greatest thing ever?"
KINDS = ["linear_gemma2", "armorm", "deberta"]
# methods that score no reply twice
UNREPEATED = ["round robin", "Faster-GCG", "random"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    def folder_of(kind):
        folder = tmp_path_factory.mktemp(kind)
        return (
            tiny.make_checkpoint(folder, kind)
            if kind in tiny.KINDS
            else tiny.smooth_checkpoint(folder)
        )

    return cache(folder_of)


@pytest.fixture(scope="module")
def models(folders):
    return cache(lambda kind: load(str(folders(kind)), device="cpu"))


def alphabet(model, size=32):
    """Printable ids drawn at random, ascending."""
    return np.sort(
        np.random.default_rng(0).choice(
            allowed_ids(model, "printable"), size, replace=False
        )
    )


def starts(ids, count, length=2):
    """Replies drawn at random."""
    return np.random.default_rng(1).choice(ids, size=(count, length))


class Recorded(Objective):
    """An objective over ids that remembers every batch it was asked for, and can be killed at
    one of them.
    """

    def __init__(self, *args, killed_at=None, reply_mode="ids", **kwargs):
        super().__init__(*args, reply_mode=reply_mode, **kwargs)
        self.batches, self.killed_at = [], killed_at

    def values(self, replies):
        if len(self.batches) == self.killed_at:
            raise KeyboardInterrupt
        self.batches.append(replies.copy())
        return super().values(replies)

    @property
    def asked(self):
        return [tuple(reply) for batch in self.batches for reply in batch.tolist()]


OverIds = partial(Objective, reply_mode="ids")


# --- the truth ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exhausted(folders, models):
    """direction -> an objective over the smooth model's replies of two tokens, whose rewards are
    the oracle's.
    """
    ids = alphabet(models("smooth"))
    rewards = oracle.rewards(
        folders("smooth"),
        PROMPT,
        all_replies(ids).tolist(),
        reply_mode="ids",
        batch=128,
    )
    truth = rewards.reshape(32, 32).astype(np.float32)
    return {
        direction: Exhausted(
            models("smooth"), PROMPT, direction, ids, truth, reply_mode="ids"
        )
        for direction in DIRECTIONS
    }


def hits(objective, method, **settings):
    """In how many of six searches of a tenth of all replies the true optimum is found."""
    settings = Settings(method, budget=102, width=17, **settings)
    results = [
        search(objective, start, replace(settings, seed=seed))
        for seed, start in enumerate(starts(objective.allowed, 6))
    ]
    return sum(result.reward == objective.optimum for result in results)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_true_optimum_of_all_pairs_is_found(exhausted, direction):
    objective = exhausted[direction]
    assert hits(objective, "round robin") >= 5
    assert hits(objective, "Faster-GCG") >= 5
    assert hits(objective, "GCG", top_k=4) >= 4
    assert hits(objective, "random") <= 2  # by chance one in ten


def test_the_wrong_sign_costs_the_pessimal_search_alone(exhausted):
    assert hits(exhausted["optimal"], "Faster-GCG, wrong sign") >= 5
    assert hits(exhausted["pessimal"], "Faster-GCG, wrong sign") <= 1
    for start in starts(exhausted["optimal"].allowed, 2):
        ways = {
            (direction, method): search(
                objective, start, Settings(method, budget=60, width=12)
            ).trace
            for direction, objective in exhausted.items()
            for method in ("Faster-GCG", "Faster-GCG, wrong sign")
        }
        assert (
            ways["optimal", "Faster-GCG"] == ways["optimal", "Faster-GCG, wrong sign"]
        )
        assert (
            ways["pessimal", "Faster-GCG"] != ways["pessimal", "Faster-GCG, wrong sign"]
        )


@pytest.mark.parametrize("method", ["round robin", "Faster-GCG", "GCG"])
def test_the_least_reward_is_minus_the_greatest_of_the_negated_model(models, method):
    model = models("linear_llama")
    negated = replace(model, head=type(model.head)(model.backbone.config))
    with torch.no_grad():
        negated.head.score.weight.copy_(-model.head.score.weight)
    ids, settings = alphabet(model), Settings(method, budget=70, width=16)
    for start in starts(ids, 2, length=3):
        worst = search(OverIds(model, PROMPT, "pessimal", ids), start, settings)
        best = search(OverIds(negated, PROMPT, "optimal", ids), start, settings)
        assert worst.ids == best.ids
        assert worst.reward == -best.reward
        assert worst.trace == tuple((count, -reward) for count, reward in best.trace)


# --- values, gains, distances ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_values_equal_scoring_the_oracle_and_reading_whole(folders, models, kind):
    model = models(kind)
    objective, other = (
        OverIds(model, PROMPT, direction, allowed_ids(model))
        for direction in DIRECTIONS
    )
    assert bool(objective.scorer.limit) == (kind != "deberta")
    for length in (2, 3, 20):
        replies = starts(objective.allowed, 6, length)
        expected = oracle.rewards(
            folders(kind), PROMPT, replies.tolist(), reply_mode="ids"
        )
        assert expected.std() > 0.01  # otherwise 1e-5 would say little
        within = {"atol": 1e-5 * max(1, np.abs(expected).max()), "rtol": 0}
        np.testing.assert_allclose(objective.values(replies), expected, **within)
        np.testing.assert_allclose(other.values(replies), -expected, **within)
        scored = vocabulary.score_replies(
            model, PROMPT, replies.tolist(), reply_mode="ids"
        )
        np.testing.assert_allclose(objective.values(replies), scored, **within)
        if model.causal:
            gains = objective.gains(tuple(replies[0]))
            objective.scorer.shares_prefix = False
            np.testing.assert_allclose(objective.values(replies), expected, **within)
            np.testing.assert_allclose(
                objective.gains(tuple(replies[0])),
                gains,
                atol=1e-4 * np.abs(gains).max(),
            )
            objective.scorer.shares_prefix = True


def nudged(objective, reply, position, direction, step):
    """The value of the reply with the embedding of one of its tokens moved, by a hook on the
    embedding module.
    """
    from_end = len(reply) + len(objective.closing) - position

    def move(module, arguments, output):
        output = output.clone()
        output[:, -from_end] += step * direction
        return output

    hook = objective.model.backbone.get_input_embeddings().register_forward_hook(move)
    value = float(objective.values(np.array([reply]))[0])
    hook.remove()
    return value


def slope(objective, reply, position, direction, step=0.01):
    """The value's slope along a direction by central differences, extrapolated from two steps to
    none (Richardson).
    """
    wide, narrow = (
        (
            nudged(objective, reply, position, direction, s)
            - nudged(objective, reply, position, direction, -s)
        )
        / (2 * s)
        for s in (step, step / 2)
    )
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize("kind", KINDS)
def test_gains_are_the_slopes_towards_other_embeddings(models, kind):
    model = models(kind)
    objective = OverIds(model, PROMPT, "pessimal", alphabet(model, 12))
    reply = tuple(starts(objective.allowed, 1, 3)[0].tolist())
    gains = objective.gains(reply)
    here = model.backbone.get_input_embeddings()(torch.tensor(reply)).detach()
    slopes = [
        [
            slope(objective, reply, position, there - here[position])
            for there in objective.embeddings
        ]
        for position in range(3)
    ]
    np.testing.assert_allclose(gains, slopes, atol=0.01 * np.abs(gains).max(), rtol=0)
    assert np.abs(gains).max() > 1e-3


def test_distances_are_those_of_the_table_as_the_model_scales_it(folders, models):
    objective = OverIds(
        models("linear_gemma2"), PROMPT, "optimal", alphabet(models("linear_gemma2"))
    )
    table = (
        48**0.5
        * load_file(folders("linear_gemma2") / "model.safetensors")[
            "model.embed_tokens.weight"
        ].numpy()
    )
    reply = tuple(objective.allowed[[3, 17]].tolist())
    expected = np.linalg.norm(
        table[objective.allowed][None] - table[list(reply)][:, None], axis=2
    )
    np.testing.assert_allclose(
        objective.distances(reply), expected, rtol=1e-5, atol=1e-6
    )
    assert expected[0, 3] == expected[1, 17] == 0


# --- what a search promises -----------------------------------------------------------------------


@pytest.fixture
def objective(models):
    """A recorded pessimal objective over 20 ids, so 400 replies of two tokens."""
    return Recorded(
        models("linear_gemma2"),
        PROMPT,
        "pessimal",
        alphabet(models("linear_gemma2"), 20),
    )


@pytest.mark.parametrize("method", ["round robin", "GCG", "sweeps"])
def test_the_budget_holds_the_incumbent_only_improves_and_the_seed_decides(
    objective, method
):
    start = starts(objective.allowed, 1)[0]
    for budget in (1, 2, 17, 90):
        settings = Settings(method, budget=budget, width=16, patience=2)
        found = search(objective, start, settings)
        assert found.evaluations == budget
        assert search(objective, start, settings) == found
        counts, rewards = np.array(found.trace).T
        assert found.trace[0] == (1, found.start_reward)
        # pessimal: less is better
        assert found.trace[-1][1] == found.reward <= found.start_reward
        assert (np.diff(counts) > 0).all() and counts[-1] <= budget
        assert (np.diff(rewards) < 0).all()
        assert found.reward == pytest.approx(
            -objective.values(np.array([found.ids]))[0], abs=1e-5
        )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_search_stops_once_it_has_reached_its_goal(models, direction):
    model, settings = models("linear_gemma2"), Settings(budget=100, width=8)
    objective = OverIds(model, PROMPT, direction, alphabet(model))
    start = starts(objective.allowed, 1)[0]
    whole = search(objective, start, settings)
    assert len(whole.trace) >= 3
    for evaluations, reward in whole.trace:
        found = search(objective, start, settings, goal=reward)
        assert (found.reward, found.trace[-1]) == (reward, (evaluations, reward))
        # to the end of the batch, not beyond
        assert evaluations <= found.evaluations < evaluations + 8


@pytest.mark.parametrize("method", UNREPEATED)
def test_a_search_of_everything_ends_by_itself(models, method):
    objective = Recorded(models("linear_llama"), PROMPT, "optimal", [40, 41, 42])
    found = search(objective, (40, 40), Settings(method, budget=10_000))
    assert found.evaluations == len(set(objective.asked)) <= 9
    if method in ("round robin", "random"):
        everything = [[a, b] for a in (40, 41, 42) for b in (40, 41, 42)]
        expected = vocabulary.score_replies(
            models("linear_llama"), PROMPT, everything, reply_mode="ids"
        ).max()
        assert found.evaluations == 9
        assert found.reward == pytest.approx(expected, abs=1e-5)


def test_the_certificate_holds_against_brute_force(folders, models):
    model = models("urm")
    objective = Recorded(model, PROMPT, "pessimal", alphabet(model, 24))
    for start in starts(objective.allowed, 3, length=3):
        short = search(objective, start, Settings(budget=4, width=4))
        found = search(objective, start, Settings(budget=4, width=4), certify=True)
        assert short.swept == 0
        assert found.evaluations == 4
        assert found.reward < short.reward - 0.01  # so the sweep had something to do
        assert found.swept % 23 == 0 and found.swept >= 3 * 23
        swaps = [
            [*found.ids[:p], i, *found.ids[p + 1 :]]
            for p in range(3)
            for i in objective.allowed.tolist()
        ]
        assert set(map(tuple, swaps)) <= set(objective.asked)
        expected = oracle.rewards(
            folders("urm"), PROMPT, swaps, reply_mode="ids", batch=72
        )
        assert found.reward == pytest.approx(expected.min(), abs=1e-5)
        again = search(objective, found.ids, Settings(budget=1), certify=True)
        # nothing left to improve: one round
        assert (again.ids, again.swept) == (found.ids, 3 * 23)


# --- merged swaps ---------------------------------------------------------------------------------


def merged_by_hand(reply, swaps, values):
    """The best swaps of different positions, one added after another."""
    best_first = [
        swap
        for _, swap in sorted(
            zip((-values).tolist(), map(tuple, swaps.tolist()), strict=True)
        )
    ]
    chosen, made = {}, []
    for swap in best_first:
        (position,) = [p for p in range(len(reply)) if swap[p] != reply[p]]
        if position not in chosen:
            chosen[position] = swap[position]
            made.append(tuple(chosen.get(p, token) for p, token in enumerate(reply)))
    return made[1:]


def combinations_by_hand(scored):
    """Of each position the six tokens whose best reply is worth most; all replies of these.
    scored: reply -> value.
    """
    tops = []
    for position in range(len(next(iter(scored)))):
        best_with = {}
        for reply, value in scored.items():
            best_with.setdefault(reply[position], []).append(value)
        tops.append(sorted(best_with, key=lambda token: -max(best_with[token]))[:6])  # noqa: B023
    return product(*tops)


@pytest.mark.parametrize("length", [3, 9])
def test_a_quarter_of_a_step_merges_its_best_swaps_and_then_the_best_tokens_so_far(
    models, length
):
    objective = Recorded(
        models("linear_llama"), PROMPT, "optimal", alphabet(models("linear_llama"))
    )
    reply, scored = tuple(starts(objective.allowed, 1, length)[0].tolist()), {}
    search(objective, reply, Settings(budget=1 + 3 * 40, width=40, patience=100))
    assert [len(batch) for batch in objective.batches] == [1, 30, 10, 30, 10, 30, 10]

    def note(replies):
        values = Objective.values(objective, replies)
        scored.update(zip(map(tuple, replies.tolist()), values.tolist(), strict=True))
        return values

    note(objective.batches[0])
    for swaps, combined in zip(
        objective.batches[1::2], objective.batches[2::2], strict=True
    ):
        # single swaps of the best of the step before
        assert ((swaps != np.array(reply)).sum(1) == 1).all()
        merged = merged_by_hand(reply, swaps, note(swaps))
        unseen = (
            made
            for made in chain(merged, combinations_by_hand(scored))
            if made not in scored
        )
        assert list(map(tuple, combined.tolist())) == list(
            islice(dict.fromkeys(islice(unseen, 30)), 10)
        )
        assert len(merged) <= length - 1 < 10  # so both kinds are among them
        note(combined)
        step = [*map(tuple, swaps.tolist()), *map(tuple, combined.tolist())]
        reply = max(step, key=scored.get)


@pytest.mark.parametrize("length", [3, 9])
def test_swaps_are_the_best_in_turn_and_then_drawn_from_the_best(
    models, monkeypatch, length
):
    """Drawn after a step without a new best; those of a long reply from the third step on, and
    by gain alone.
    """
    monkeypatch.setattr(gcg, "TRIED", 16)
    is_long = length == 9
    objective = Recorded(
        models("linear_llama"), PROMPT, "optimal", alphabet(models("linear_llama"))
    )
    reply = tuple(starts(objective.allowed, 1, length)[0].tolist())
    search(objective, reply, Settings(budget=1 + 12 * 16, width=16, patience=100))
    highest, stale, seen, kinds = (
        Objective.values(objective, np.array([reply]))[0],
        False,
        {reply},
        [],
    )
    for step, (swaps, combined) in enumerate(
        zip(objective.batches[1::2], objective.batches[2::2], strict=True)
    ):
        gains, distances = objective.gains(reply), objective.distances(reply)
        # (n, allowed)
        losses = (
            0 if is_long else 0.5
        ) * distances * gains.std() / distances.std() - gains
        order = np.argsort(losses, axis=1)
        ranks = np.argsort(order, axis=1)  # 0: the best of its place
        best_first = [
            (*reply[:p], int(objective.allowed[order[p, rank]]), *reply[p + 1 :])
            for rank in range(order.shape[1])
            for p in range(length)
        ]
        in_turn = [swap for swap in best_first if swap not in seen and swap != reply][
            :12
        ]
        places = (swaps != np.array(reply)).argmax(1)
        columns = np.searchsorted(
            objective.allowed, swaps[np.arange(len(swaps)), places]
        )
        kinds.append(drawn := stale or is_long and step >= 2)
        if drawn:
            assert (ranks[places, columns] < 16).all()
            assert list(map(tuple, swaps.tolist())) != in_turn
        else:
            assert list(map(tuple, swaps.tolist())) == in_turn
        scored = np.concatenate([swaps, combined])
        seen |= set(map(tuple, scored.tolist()))
        values = Objective.values(objective, scored)
        stale = not values.max() > highest
        highest, reply = (
            max(highest, values.max()),
            tuple(scored[values.argmax()].tolist()),
        )
    assert set(kinds) == {False, True}


@pytest.mark.parametrize("length", [4, 9])
def test_a_stalled_search_starts_afresh_near_the_best_only_where_replies_are_long(
    models, length
):
    objective = Recorded(
        models("linear_llama"), PROMPT, "optimal", alphabet(models("linear_llama"))
    )
    search(
        objective,
        starts(objective.allowed, 1, length)[0],
        Settings(budget=240, width=8, patience=1),
    )
    altered, so_far = [], objective.batches[0]
    for batch in objective.batches[1:-1]:  # the last one may be cut short
        if len(batch) == 1:  # a step has six swaps and two replies that combine them
            best = so_far[Objective.values(objective, so_far).argmax()]
            altered.append(int((batch[0] != best).sum()))
        so_far = np.concatenate([so_far, batch])
    assert len(altered) >= 3
    assert (max(altered) <= 2) == (length == 9)


# --- several searches at once ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "mode"), [("round robin", "text"), ("GCG", "ids"), ("Faster-GCG", "ids")]
)
def test_searches_in_both_directions_at_once_find_what_each_finds_alone(
    models, method, mode
):
    model, settings = (
        models("linear_gemma2"),
        Settings(method, budget=80, width=12, patience=2, seed=3),
    )
    objective = Objective(model, PROMPT, "optimal", alphabet(model), reply_mode=mode)
    chosen = searches.starts(objective, 3, randoms=3) | {
        "of two": searches.starts(objective, 2)["random 1"]
    }
    together = searches.search_both_ways(objective, chosen, settings, certify=True)
    assert [*together] == [
        (direction, name) for direction in DIRECTIONS for name in chosen
    ]
    for (direction, name), found in together.items():
        alone = Objective(model, PROMPT, direction, alphabet(model), reply_mode=mode)
        expected = search(alone, chosen[name], settings, certify=True)
        assert found.ids == expected.ids
        assert (found.direction, found.gradients, found.evaluations) == (
            direction,
            expected.gradients,
            80,
        )
        assert found.reward == pytest.approx(expected.reward, abs=1e-5)
        assert [scored for scored, _ in found.trace] == [
            scored for scored, _ in expected.trace
        ]


def test_eight_searches_ask_the_model_hardly_more_often_than_one(models, monkeypatch):
    model, passes = models("linear_llama"), []
    objective = Objective(model, PROMPT, "optimal", alphabet(model), reply_mode="ids")
    scorer = objective.scorer
    usual = {name: getattr(type(scorer), name) for name in ("__call__", "relaxed")}
    for name, function in usual.items():
        monkeypatch.setattr(
            type(scorer),
            name,
            lambda self, *args, f=function: passes.append(f) or f(self, *args),
        )
    chosen = dict(enumerate(starts(objective.allowed, 4, 3).tolist()))
    search(objective, chosen[0], Settings(budget=97))
    of_one = len(passes)
    passes.clear()
    found = searches.search_both_ways(objective, chosen, Settings(budget=97))
    of_ends = 2 * 4  # each search scores its result once more, as text
    assert len(found) == 8
    assert of_one - 1 <= len(passes) - of_ends <= 1.5 * of_one


@pytest.mark.parametrize("momentum", [0.0, 0.5, 1.0])
def test_momentum_averages_the_gains_since_the_last_start(
    models, momentum, monkeypatch
):
    objective = OverIds(
        models("linear_llama"), PROMPT, "optimal", alphabet(models("linear_llama"))
    )
    used, given, restarts, gains = [], [], [], Objective.gains
    promising, afresh = gcg._promising, gcg._afresh
    monkeypatch.setattr(
        gcg, "_promising", lambda *args: used.append(args[2]) or promising(*args)
    )
    monkeypatch.setattr(
        gcg, "_afresh", lambda *args: restarts.append(len(used)) or afresh(*args)
    )
    monkeypatch.setattr(
        Objective, "gains", lambda *args: given.append(gains(*args)) or given[-1]
    )
    search(
        objective,
        starts(objective.allowed, 1, 3)[0],
        Settings(budget=200, width=8, patience=2, momentum=momentum),
    )
    assert len(used) > 8 and restarts
    for step, (mean, own) in enumerate(zip(used, given, strict=False)):
        first = step == 0 or step in restarts
        expected = own if first else momentum * used[step - 1] + (1 - momentum) * own
        np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)


# --- stopping and going on ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["round robin", "GCG"])
def test_a_search_killed_half_way_goes_on_from_its_trace(models, tmp_path, method):
    model, settings = (
        models("linear_gemma2"),
        Settings(method, budget=90, width=16, patience=2),
    )
    whole, killed, resumed, done = (
        Recorded(model, PROMPT, "optimal", alphabet(model, 20), killed_at=at)
        for at in (None, 3, None, 0)
    )
    start = starts(whole.allowed, 1)[0]
    expected = search(whole, start, settings, certify=True)
    with pytest.raises(KeyboardInterrupt):
        search(killed, start, settings, certify=True, traces=tmp_path)
    found = search(resumed, start, settings, certify=True, traces=tmp_path)
    assert found == expected
    # nothing twice, nothing left out
    assert killed.asked + resumed.asked == whole.asked
    assert killed.asked and resumed.asked
    # would be killed at its first batch
    again = search(done, start, settings, certify=True, traces=tmp_path)
    assert again == expected


@given(bit=st.integers(0, 8 * 16 - 1), row=st.integers(0, 9))
def test_any_damage_to_a_row_of_a_trace_is_seen(tmp_path_factory, bit, row):
    path = tmp_path_factory.getbasetemp() / "damaged.trace"
    path.unlink(missing_ok=True)
    trace, values = Trace(None, 2, path), np.arange(10, dtype=np.float32)
    trace._write([(i, i + 1) for i in range(10)], values)
    content = bytearray(path.read_bytes())
    content[row * 16 + bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    assert list(Trace(None, 2, path).value_of.values()) == [
        value for value in values if value != row
    ]


def test_searches_that_differ_keep_traces_of_their_own(models, tmp_path, monkeypatch):
    model, ids = models("linear_gemma2"), alphabet(models("linear_gemma2"), 20)
    settings, start = Settings(budget=20), starts(ids, 1)[0]
    for direction in DIRECTIONS:
        search(OverIds(model, PROMPT, direction, ids), start, settings, traces=tmp_path)
    search(OverIds(model, "Why?", "optimal", ids), start, settings, traces=tmp_path)
    search(
        OverIds(models("smooth"), PROMPT, "optimal", ids),
        start,
        settings,
        traces=tmp_path,
    )
    search(
        OverIds(model, PROMPT, "optimal", ids), start[::-1], settings, traces=tmp_path
    )
    search(
        OverIds(model, PROMPT, "optimal", ids),
        start,
        replace(settings, seed=1),
        traces=tmp_path,
    )
    (file := tmp_path / "mine.jinja").write_text(
        model.tokenizer.chat_template.replace("}}", "}}Be brief. ", 1)
    )
    other = load(model.hub_id, device="cpu", template=file)
    search(OverIds(other, PROMPT, "optimal", ids), start, settings, traces=tmp_path)
    monkeypatch.setattr(io, "versions", lambda: {"torch": "0.1"})
    search(OverIds(model, PROMPT, "optimal", ids), start, settings, traces=tmp_path)
    assert len(list(tmp_path.glob("*.trace"))) == 8


# --- which tokens ---------------------------------------------------------------------------------

SPECIAL = {
    "linear_llama": {*tiny.LLAMA_CONTROL, "[PAD]"},
    "linear_qwen3": {*tiny.QWEN_CONTROL, "<think>", "</think>"},
    "deberta": {*tiny.DEBERTA_CONTROL},
}


def shows(text):
    """By Unicode categories: not blank, nothing of it control, unassigned, broken, or a
    separator but the space.
    """
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    return text.strip() != "" and all(
        c == " " or (c != "\ufffd" and unicodedata.category(c) not in hidden)
        for c in text
    )


@pytest.mark.parametrize("kind", SPECIAL)
def test_allowed_ids_by_a_second_count(models, kind):
    model = models(kind)
    vocabulary, tokenizer = model.tokenizer.get_vocab(), model.tokenizer
    plain = {i for token, i in vocabulary.items() if token not in SPECIAL[kind]}
    printable = {i for i in plain if shows(tokenizer.decode([i]))}
    expected = {
        "all": set(vocabulary.values()),
        "no specials": plain,
        "printable": printable,
    }
    for which, ids in expected.items():
        assert allowed_ids(model, which).tolist() == sorted(ids)
    sizes = [len(ids) for ids in expected.values()]
    assert sizes[0] == sizes[1] + len(SPECIAL[kind] & vocabulary.keys())
    assert sizes[1] > sizes[2] > 50


def test_text_fields_say_what_becomes_of_the_text(models):
    model, seen = models("linear_llama"), set()
    objective = OverIds(model, PROMPT, "optimal", allowed_ids(model, "all"))
    vocabulary = model.tokenizer.get_vocab()
    for tokens in (
        ["love", "Ġis"],
        ["l", "ove"],
        ["Ġlove", "Ġis"],
        ["<|eot_id|>", "love"],
    ):
        ids = [vocabulary[token] for token in tokens]
        found = search(objective, ids, Settings(budget=1))
        assert found.ids == tuple(ids)
        assert found.text == "".join(tokens).replace("Ġ", " ")
        assert found.reward == pytest.approx(
            vocabulary.score_replies(model, PROMPT, [ids], reply_mode="ids")[0],
            abs=1e-5,
        )
        assert found.reward_of_text == pytest.approx(
            vocabulary.score_replies(model, PROMPT, [found.text])[0], abs=1e-5
        )
        assert found.survives == oracle.comes_back(model.tokenizer, PROMPT, ids)
        assert found.survives == (abs(found.reward - found.reward_of_text) < 1e-5)
        seen.add(found.survives)
    assert seen == {True, False}


# --- misuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"reply_mode": "token ids"},
            "reply_mode must be one of text, ids, not 'token ids'",
        ),
        (
            {"direction": "best"},
            "direction must be one of optimal, pessimal, not 'best'",
        ),
        ({"allowed": [40]}, "has 1 of the 1 allowed tokens; allow two or more"),
        ({"allowed": [40, 9999]}, "has 1 of the 2 allowed tokens; allow two or more"),
        (
            {"start": ()},
            r"the start \(\) is empty or holds .* not allowed; give another",
        ),
        ({"start": (40, 7)}, r"the start \(40, 7\) .* not allowed; give another"),
        (
            {"condition": lambda replies: replies[:, 0] != 40},
            "no reply that the search would keep; give another",
        ),
        (
            {"method": "gcg"},
            "method must be one of round robin, Faster-GCG.*, not 'gcg'",
        ),
        ({"budget": 0}, "budget must be 1 or more, not 0"),
    ],
)
def test_mistakes_name_their_remedy(models, given, told):
    usual = {
        "direction": "optimal",
        "allowed": range(40, 60),
        "condition": lambda replies: np.ones(len(replies), bool),
        "start": (40, 40),
        "reply_mode": "ids",
    }
    setup, settings = (
        usual | given,
        {key: value for key, value in given.items() if key not in usual},
    )
    with pytest.raises(InputError, match=told) as error:
        of_reply = {"reply_mode": setup["reply_mode"]}
        objective = Objective(
            models("linear_llama"),
            PROMPT,
            setup["direction"],
            setup["allowed"],
            **of_reply,
        )
        objective.conditions.append(setup["condition"])
        search(objective, setup["start"], Settings(**settings))
    assert "\n" not in str(error.value)


# --- where to start -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_x(tmp_path_factory):
    """A model whose tokenizer reads `x` and ` x` as one token each; and the ids of the two."""
    folder = tiny.make_checkpoint(
        tmp_path_factory.mktemp("x"), "linear_llama", vocabulary=[" x"]
    )
    model = load(str(folder), device="cpu")
    vocabulary = model.tokenizer.get_vocab()
    return model, vocabulary["x"], vocabulary["Ġx"]


def test_starts_of_each_kind(with_x):
    model, x, spaced = with_x
    objective = OverIds(model, PROMPT, "optimal", allowed_ids(model))
    love, is_ = (model.tokenizer.get_vocab()[token] for token in ("love", "Ġis"))
    found = searches.starts(objective, 3, sentence="love is", randoms=3)
    assert list(found) == ["x x x", "sentence", "random 1", "random 2", "random 3"]
    assert found["x x x"] == (x, spaced, spaced)
    assert texts_of(model, [found["x x x"]]) == ["x x x"]
    assert found["sentence"] == (love, is_)  # as long as it is
    drawn = [found[f"random {i}"] for i in (1, 2, 3)]
    assert all(
        len(reply) == 3 and set(reply) <= set(objective.allowed.tolist())
        for reply in drawn
    )
    assert len(set(drawn)) == 3
    for reply in found.values():
        assert all(type(i) is int for i in reply)
        assert search(objective, reply, Settings(budget=1)).ids == reply


def test_starts_with_a_token_that_is_not_allowed_are_left_out(with_x):
    model, x, spaced = with_x
    love, is_ = (model.tokenizer.get_vocab()[token] for token in ("love", "Ġis"))

    def kinds(*ids):
        return list(
            searches.starts(
                OverIds(model, PROMPT, "optimal", ids), 2, sentence="love is", randoms=0
            )
        )

    assert kinds(x, spaced, love, is_) == ["x x x", "sentence"]
    assert kinds(x, spaced, 40) == ["x x x"]
    assert kinds(x, love, is_) == ["sentence"]
    assert kinds(40, 41) == []
