"""One search: its starts, what it scored so far (in memory and on disk), and its result."""

import hashlib
import json
import zlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ROOT, InputError, io
from ..io import replacing
from .as_text import texts_of
from .gcg import METHODS, Gains, Settings, send
from .objective import (
    DIRECTIONS,
    Objective,
    Reply,
    as_reply,
    gains_together,
    refuse_other,
    values_together,
)

TRACES = ROOT / "data" / "cache" / "searches"


def starts(
    objective: Objective,
    n: int,
    *,
    sentence: str = "",
    randoms: int = 2,
    seed: int = 0,
) -> dict[str, Reply]:
    """Return replies of n tokens to start from, by name. A reply with a token that is not allowed
    is left out.

    - `x x x`: the paper's start, n times x
    - `sentence`: the ids of that text that are allowed, of any number
    - `random 1` and on: drawn with the seed
    """
    rng = np.random.default_rng(seed)
    allowed = set(objective.allowed.tolist())
    texts = [" ".join("x" * n), sentence]
    tokenized = objective.model.tokenizer(texts, add_special_tokens=False)
    xs, written = tokenized["input_ids"]
    replies: dict[str, Reply] = {
        "x x x": tuple(xs[:n]),
        "sentence": tuple(i for i in written if i in allowed),
    }
    draws = objective.draws(n, rng)
    random = objective.take(draws, set(), randoms)
    for number, reply in enumerate(random, start=1):
        replies[f"random {number}"] = as_reply(reply)
    kept = {}
    for name, reply in replies.items():
        is_allowed = reply and set(reply) <= allowed
        if is_allowed and objective.satisfied(np.array([reply]))[0]:
            kept[name] = reply
    return kept


class Trace:
    """What a search scored: the number of evaluations, the best reply so far, and every
    improvement.

    With a path, it is also written there, each row with a checksum; a search that is started again
    reads what is whole.
    """

    def __init__(self, objective: Objective, length: int, path: Path | None = None):
        self.objective = objective
        self.path = path
        self.row = np.dtype(
            [("ids", "<i4", (length,)), ("value", "<f4"), ("check", "<u4")]
        )
        self.value_of: dict[Reply, float] = {}
        self.evaluations = 0
        self.best: tuple[Reply, float] = ((), -np.inf)
        self.improvements: list[tuple[int, float]] = []  # (evaluations, reward)
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        """Take up what an earlier run scored. Damaged rows are named and left out."""
        content = path.read_bytes()
        rows = np.frombuffer(
            content,
            dtype=self.row,
            count=len(content) // self.row.itemsize,
        )
        is_whole = rows["check"] == _checks(rows)
        whole = rows[is_whole & np.isfinite(rows["value"])]
        if len(whole) < len(rows):
            print(
                f"{path}: {len(rows) - len(whole)} of {len(rows)} rows are damaged, and are "
                "scored again"
            )
        if whole.nbytes < len(content):  # a killed run may also leave half a row
            with replacing(path) as part:
                part.write_bytes(whole.tobytes())
        replies = map(as_reply, whole["ids"])
        values = whole["value"].tolist()
        self.value_of = dict(zip(replies, values, strict=True))

    def score(self, replies: ndarray) -> Generator[ndarray, ndarray, ndarray]:
        """Return the values of the replies, (replies,) float32. Yield those not scored before,
        to be sent theirs.
        """
        keys = list(map(as_reply, replies))
        new = [key for key in dict.fromkeys(keys) if key not in self.value_of]
        if new:
            values_of_new = yield np.array(new)
            self._write(new, values_of_new)
            self.value_of |= dict(zip(new, values_of_new.tolist(), strict=True))
        values = np.array([self.value_of[key] for key in keys], dtype=np.float32)
        self.evaluations += len(keys)
        if len(keys) and values.max() > self.best[1]:
            highest = float(values.max())
            self.best = (keys[values.argmax()], highest)
            reward = self.objective.sign * highest
            self.improvements.append((self.evaluations, reward))
        return values

    def _write(self, replies: list[Reply], values: ndarray) -> None:
        if self.path is None:
            return
        rows = np.zeros(len(replies), dtype=self.row)
        rows["ids"] = replies
        rows["value"] = values
        rows["check"] = _checks(rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(rows.tobytes())


def _checks(rows: ndarray) -> ndarray:
    """Return the CRC-32 of each row of a trace, without its last field, (rows,)."""
    size = rows.dtype.itemsize
    content = rows.tobytes()
    checks = (
        zlib.crc32(content[at : at + size - 4]) for at in range(0, len(content), size)
    )
    return np.fromiter(checks, dtype=np.uint32, count=len(rows))


@dataclass(frozen=True)
class SearchResult:
    """The best reply that a search found, and how the search went."""

    direction: str
    ids: Reply
    text: str  # the ids decoded
    tokens: tuple[str, ...]  # each id decoded
    reward: float  # of the ids, on the model's own scale
    # of the text, put through the chat template as a person's would be
    reward_of_text: float
    survives: bool  # whether the text comes back as the same ids
    evaluations: int  # replies scored, duplicates counted
    gradients: int  # how many were computed
    swept: int  # replies scored for the certificate
    start_reward: float
    trace: tuple[tuple[int, float], ...]  # (evaluations, reward) of every new best


def search(
    objective: Objective,
    start: Sequence[int] | ndarray,
    settings: Settings | None = None,
    *,
    goal: float | None = None,
    certify: bool = False,
    traces: Path | None = None,
) -> SearchResult:
    """Return the best reply that a search finds within its budget. It has as many tokens as the
    start.

    - goal: a reward at which to stop
    - certify: at the end, beyond the budget, score every swap of one token, and repeat this until
      none improves
    - traces: a folder that keeps what was scored, for a search that is started again

    InputError for an unknown method, and for a start that is empty or not allowed.
    """
    settings = settings or Settings()
    return search_together(
        [objective],
        [start],
        [settings],
        goal=goal,
        certify=certify,
        traces=traces,
    )[0]


def search_both_ways(
    objective: Objective,
    starts: Mapping[str, Sequence[int]],
    settings: Settings | None = None,
    *,
    certify: bool = False,
    traces: Path | None = None,
) -> dict[tuple[str, str], SearchResult]:
    """Return the result of a search in either direction from every start, by (direction, name of
    the start).

    Starts of one length take their steps together, see search_together. For the other arguments see
    search.
    """
    objectives = {each.direction: each for each in (objective, objective.reversed())}
    keys = [(direction, name) for direction in DIRECTIONS for name in starts]
    results = search_together(
        [objectives[direction] for direction, _ in keys],
        [starts[name] for _, name in keys],
        [settings or Settings()] * len(keys),
        certify=certify,
        traces=traces,
    )
    return dict(zip(keys, results, strict=True))


def search_together(
    objectives: Sequence[Objective],
    starts: Sequence[Sequence[int] | ndarray],
    settings: Sequence[Settings],
    *,
    goal: float | None = None,
    certify: bool = False,
    traces: Path | None = None,
) -> list[SearchResult]:
    """Return what search returns for each objective with its start and settings. The searches take
    turns in step.

    What they ask about replies of one length to a prompt that objectives share (Objective.reversed)
    is read in one pass, forward, and backward for gradients. A GPU needs about as long for the
    steps of eight searches as of one.
    """
    searches = [
        _searching(objective, tuple(int(i) for i in start), how, goal, certify, traces)
        for objective, start, how in zip(objectives, starts, settings, strict=True)
    ]
    results: dict[int, SearchResult] = {}
    asked: dict[int, ndarray | Gains] = {}  # by the number of the search
    # None starts a generator
    answers: dict[int, Any] = dict.fromkeys(range(len(searches)))
    while answers:
        for number, answer in answers.items():
            asked.pop(number, None)
            try:
                asked[number] = searches[number].send(answer)
            except StopIteration as end:
                results[number] = end.value
        answers = _answers_to(asked, objectives)
    return [results[number] for number in range(len(searches))]


def _answers_to(
    asked: Mapping[int, ndarray | Gains],
    objectives: Sequence[Objective],
) -> dict[int, ndarray]:
    """Return the gains that searches ask for, by the number of the search; if none does, the values
    of their replies.

    Gains come first, so that all searches then wait for values, of which more are read at once.
    """
    gains = {number: each for number, each in asked.items() if isinstance(each, Gains)}
    if gains:
        replies = [each.reply for each in gains.values()]
        centred = [each.centred for each in gains.values()]
        found = gains_together(
            [objectives[number] for number in gains],
            replies,
            centred,
        )
        return dict(zip(gains, found, strict=True))
    proposed = {
        number: each for number, each in asked.items() if isinstance(each, ndarray)
    }
    values = values_together(
        [objectives[number] for number in proposed], list(proposed.values())
    )
    return dict(zip(proposed, values, strict=True))


def _searching(
    objective: Objective,
    start: Reply,
    settings: Settings,
    goal: float | None,
    certify: bool,
    traces: Path | None,
) -> Generator[ndarray | Gains, ndarray, SearchResult]:
    """Return the result of a search. Yield the replies and gains that it asks for, to be sent
    values and gains.
    """
    _check(objective, start, settings)
    file = traces and traces / _trace_name(objective, start, settings)
    trace = Trace(objective, len(start), file)
    [value] = yield from trace.score(np.array([start]))
    value = float(value)
    gradients = yield from _steps(objective, trace, start, value, settings, goal)
    searched = trace.evaluations
    if certify:
        yield from _sweep(objective, trace)
    ids, best = trace.best
    one_by_one = [(token_id,) for token_id in ids]
    text, *tokens = texts_of(objective.model, [ids, *one_by_one])
    return SearchResult(
        direction=objective.direction,
        ids=ids,
        text=text,
        tokens=tuple(tokens),
        reward=objective.sign * best,
        reward_of_text=objective.reward_of_text(text),
        survives=bool(objective.round_trip(np.array([ids]))[0]),
        evaluations=searched,
        gradients=gradients,
        swept=trace.evaluations - searched,
        start_reward=objective.sign * value,
        trace=tuple(trace.improvements),
    )


def _steps(
    objective: Objective,
    trace: Trace,
    start: Reply,
    value: float,
    settings: Settings,
    goal: float | None,
) -> Generator[ndarray | Gains, ndarray, int]:
    """Let a method take its steps until the budget or the method ends, or the goal is reached.
    Return how many gradients it took.
    """
    rng = np.random.default_rng(settings.seed)
    method = METHODS[settings.method](objective, start, value, settings, rng)
    wanted = np.inf if goal is None else objective.sign * goal
    gradients = 0
    asked = next(method, None)
    while asked is not None and trace.best[1] < wanted:
        left = settings.budget - trace.evaluations
        if left <= 0:
            break
        if isinstance(asked, Gains):
            gradients += 1
            asked = send(method, (yield asked))
        else:
            values = yield from trace.score(asked[:left])
            asked = send(method, values) if len(values) == len(asked) else None
    return gradients


def _check(objective: Objective, start: Reply, settings: Settings) -> None:
    refuse_other("method", settings.method, METHODS)
    for name in ("budget", "width", "top_k", "patience"):
        number = getattr(settings, name)
        if number < 1:
            raise InputError(f"{name} must be 1 or more, not {number}")
    if not start or not np.isin(start, objective.allowed).all():
        raise InputError(
            f"the start {start} is empty or holds token ids that are not allowed; give another, or "
            "allow 'all'"
        )
    if not objective.satisfied(np.array([start]))[0]:
        raise InputError(
            "the start itself is no reply that the search would keep; give another, or allow "
            "'printable'"
        )


def _trace_name(objective: Objective, start: Reply, settings: Settings) -> str:
    """Return a file's name for a search: the same for the same values of replies of one length."""
    model = objective.model
    # which a template of one's own changes
    around = objective.scorer.inputs.conversation
    what: list = [
        model.hub_id,
        model.revision,
        model.head_name,
        model.dtype,
        model.attention,
        model.read_at,
    ]
    what += [around.prefix_ids, around.closing_ids, io.versions()]
    what += [
        objective.prompt,
        objective.direction,
        objective.allowed.tolist(),
        start,
        asdict(settings),
    ]
    return f"{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}.trace"


def _sweep(objective: Objective, trace: Trace) -> Generator[ndarray, ndarray, None]:
    """Score all swaps of one token of the best reply, on to the best, until a whole round improves
    nothing.

    Yield the swaps, to be sent their values.
    """
    unimproved = 0
    position = 0
    while unimproved < len(trace.best[0]):
        reply, before = trace.best
        yield from trace.score(objective.all_swaps(reply, position))
        unimproved = 1 if trace.best[1] > before else unimproved + 1
        position = (position + 1) % len(reply)
