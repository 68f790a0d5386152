"""Searches from a batch of starts: one loop, in which all of them take each step together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from .. import InputError
from ..scoring.vocabulary import score_replies
from .gcg import METHODS, Run, Settings, afresh
from .objective import Objective, Reply


def starts(
    objective: Objective,
    n: int,
    *,
    sentence: str = "",
    randoms: int = 2,
    seed: int = 0,
) -> dict[str, Reply]:
    """Return replies of n tokens to start from, by name. A reply that may not be scored is left
    out.

    - `x x x`: the paper's start, n times x
    - `sentence`: the ids of that text that are allowed, of any number
    - `random 1` and on: drawn with the seed
    """
    rng = np.random.default_rng(seed)
    allowed = set(objective.allowed.tolist())
    texts = [" ".join("x" * n), sentence]
    tokenized = objective.model.tokenizer(texts, add_special_tokens=False)
    xs, written = tokenized["input_ids"]
    replies = {"x x x": tuple(xs[:n])}
    replies["sentence"] = tuple(i for i in written if i in allowed)
    for number, reply in enumerate(objective.draw(n, rng, randoms), start=1):
        replies[f"random {number}"] = reply
    return {
        name: reply
        for name, reply in replies.items()
        if reply and set(reply) <= allowed and objective.admits([reply])[0]
    }


@dataclass(frozen=True)
class SearchResult:
    """The best reply that a search found."""

    ids: Reply
    text: str  # the ids decoded
    reward: float  # of the ids, on the model's own scale
    # of the text, put through the chat template as a person's would be
    reward_of_text: float
    survives: bool  # whether the text comes back as the same ids
    evaluations: int  # replies scored, duplicates counted
    trace: tuple[tuple[int, float], ...]  # (evaluations, reward) of every new best


def search(
    objective: Objective,
    starts: Iterable[Sequence[int] | ndarray],
    settings: Settings | None = None,
) -> list[SearchResult]:
    """Return the best reply that a search finds from each start within its budget, of as many
    tokens as the start.

    Each search finds what it would find alone with its seed. All take their steps together: the
    model reads their replies in one call, and gives their gradients in one backward pass.
    InputError for a start that may not be scored.
    """
    settings = settings or Settings()
    replies = [tuple(map(int, start)) for start in starts]
    _refuse(objective, replies)
    method, budget = METHODS[settings.method], settings.budget
    runs = [
        Run(reply, np.random.default_rng(settings.seed + number))
        for number, reply in enumerate(replies)
    ]
    _score(objective.values, runs, [[reply] for reply in replies], budget)
    for run in runs:
        run.move(afresh=True)
    while running := [
        run for run in runs if not run.ended and run.evaluations < budget
    ]:
        # the gain of every swap, of all searches in one backward pass
        if method.gains:
            replies = [run.reply for run in running]
            gains = objective.gains(replies, method.centred)
            for run, of_run in zip(running, gains, strict=True):
                run.gains = of_run
        # the candidates of all searches, in one call
        for part in method.parts:
            candidates = [part(objective, run, settings) for run in running]
            _score(objective.values, running, candidates, budget)
        # each goes to the best reply of its step
        for run in running:
            run.move()
        # and starts afresh if many steps brought nothing new
        if method.restarts:
            stalled = [
                run for run in running if run.ended or run.stale >= settings.patience
            ]
            fresh = [afresh(objective, run) for run in stalled]
            _score(objective.values, stalled, fresh, budget)
            for run in stalled:
                run.move(afresh=True)
    return _results(objective, runs)


def _refuse(objective: Objective, starts: list[Reply]) -> None:
    """Raise InputError for a start that may not be scored."""
    for start in starts:
        if not len(start) or not np.isin(start, objective.allowed).all():
            raise InputError(
                f"the start {start} is empty or holds token ids that are not allowed; give "
                "another, or allow 'all'"
            )
        if not objective.admits([start])[0]:
            raise InputError(
                f"the start {start} does not survive as text; give another, or search with "
                "reply_mode='ids'"
            )


def _score(
    values_of: Callable[[list[Reply]], ndarray],
    runs: list[Run],
    candidates: list[list[Reply]],
    budget: int,
) -> None:
    """Let each run note the values of its candidates, as many as its budget allows."""
    pairs = zip(runs, candidates, strict=True)
    within = [some[: budget - run.evaluations] for run, some in pairs]
    values = iter(values_of([reply for some in within for reply in some]).tolist())
    for run, some in zip(runs, within, strict=True):
        run.note(some, [next(values) for _ in some])


def _results(objective: Objective, runs: list[Run]) -> list[SearchResult]:
    found = [run.best[0] for run in runs]
    texts = objective.texts_of(found)
    survive = objective.survives(found)
    rewards = objective.sign * np.array([run.best[1] for run in runs])
    # what survives is the same input, and has its reward
    of_texts = rewards.copy()
    if not survive.all():
        others = [texts[number] for number in np.flatnonzero(~survive)]
        of_texts[~survive] = score_replies(objective.model, objective.prompt, others)
    results = []
    for number, run in enumerate(runs):
        trace = [(count, objective.sign * value) for count, value in run.improvements]
        results.append(
            SearchResult(
                ids=found[number],
                text=texts[number],
                reward=float(rewards[number]),
                reward_of_text=float(of_texts[number]),
                survives=bool(survive[number]),
                evaluations=run.evaluations,
                trace=tuple(trace),
            )
        )
    return results
