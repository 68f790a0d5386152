"""One search: its starts, what it scored so far (in memory and on disk), and its result."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from .. import ROOT, InputError, io
from ..io import replacing
from .as_text import texts_of
from .gcg import METHODS, Settings, send
from .objective import Objective, Reply, as_reply

TRACES = ROOT / "data" / "cache" / "searches"


def starts(objective: Objective, n: int, *, sentence: str = "", randoms: int = 2, seed: int = 0) -> dict[str, Reply]:
    """Return replies of n tokens to start from, by name. A reply with a token that is not allowed is left out.

    - `x x x`: the paper's start, n times x
    - `sentence`: the ids of that text that are allowed, of any number
    - `random 1` and on: drawn with the seed
    """
    rng, allowed = np.random.default_rng(seed), set(objective.allowed.tolist())
    xs, written = objective.model.tokenizer([" ".join("x" * n), sentence], add_special_tokens=False)["input_ids"]
    replies: dict[str, Reply] = {
        "x x x": tuple(xs[:n]),
        "sentence": tuple(i for i in written if i in allowed),
    }
    random = objective.take(objective.draws(n, rng), set(), randoms)
    replies |= {f"random {i + 1}": as_reply(reply) for i, reply in enumerate(random)}
    return {
        name: reply
        for name, reply in replies.items()
        if reply and set(reply) <= allowed and objective.satisfied(np.array([reply]))[0]
    }


class Trace:
    """What a search scored: the number of evaluations, the best reply so far, and every improvement.

    With a path, it is also written there, each row with a checksum; a search that is started again reads what is whole.
    """

    def __init__(self, objective: Objective, length: int, path: Path | None = None):
        self.objective, self.path = objective, path
        self.row = np.dtype([("ids", "<i4", (length,)), ("value", "<f4"), ("check", "<u4")])
        self.value_of: dict[Reply, float] = {}
        self.evaluations = 0
        self.best: tuple[Reply, float] = ((), -np.inf)
        self.improvements: list[tuple[int, float]] = []  # (evaluations, reward)
        if path is not None and path.exists():
            content = path.read_bytes()
            rows = np.frombuffer(content, dtype=self.row, count=len(content) // self.row.itemsize)
            whole = rows[(rows["check"] == _checks(rows)) & np.isfinite(rows["value"])]
            if len(whole) < len(rows):
                print(f"{path}: {len(rows) - len(whole)} of {len(rows)} rows are damaged, and are scored again")
            if whole.nbytes < len(content):  # a killed run may also leave half a row
                with replacing(path) as part:
                    part.write_bytes(whole.tobytes())
            self.value_of = dict(zip(map(as_reply, whole["ids"]), whole["value"].tolist(), strict=True))

    def score(self, replies: np.ndarray) -> np.ndarray:
        """Return the values of the replies, (replies,) float32. Each reply is scored once."""
        keys = list(map(as_reply, replies))
        if new := [reply for reply in dict.fromkeys(keys) if reply not in self.value_of]:
            values_of_new = self.objective.values(np.array(new))
            self._write(new, values_of_new)
            self.value_of |= dict(zip(new, values_of_new.tolist(), strict=True))
        values = np.array([self.value_of[key] for key in keys], dtype=np.float32)
        self.evaluations += len(keys)
        if len(keys) and values.max() > self.best[1]:
            self.best = keys[values.argmax()], float(values.max())
            self.improvements.append((self.evaluations, self.objective.sign * self.best[1]))
        return values

    def _write(self, replies: list[Reply], values: np.ndarray) -> None:
        if self.path is None:
            return
        rows = np.zeros(len(replies), dtype=self.row)
        rows["ids"], rows["value"] = replies, values
        rows["check"] = _checks(rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(rows.tobytes())


def _checks(rows: np.ndarray) -> np.ndarray:
    """Return the CRC-32 of each row of a trace, without its last field, (rows,)."""
    size, content = rows.dtype.itemsize, rows.tobytes()
    checks = (zlib.crc32(content[at : at + size - 4]) for at in range(0, len(content), size))
    return np.fromiter(checks, dtype=np.uint32, count=len(rows))


@dataclass(frozen=True)
class SearchResult:
    """The best reply that a search found, and how the search went."""

    direction: str
    ids: Reply
    text: str  # the ids decoded
    tokens: tuple[str, ...]  # each id decoded
    reward: float  # of the ids, on the model's own scale
    reward_of_text: float  # of the text, put through the chat template as a person's would be
    survives: bool  # whether the text comes back as the same ids
    evaluations: int  # replies scored, duplicates counted
    gradients: int  # how many were computed
    swept: int  # replies scored for the certificate
    start_reward: float
    trace: tuple[tuple[int, float], ...]  # (evaluations, reward) of every new best


def search(
    objective: Objective, start: Sequence[int] | np.ndarray, settings: Settings | None = None, *,
    goal: float | None = None, certify: bool = False, traces: Path | None = None,
) -> SearchResult:  # fmt: skip
    """Return the best reply that a search finds within its budget. It has as many tokens as the start.

    - goal: a reward at which to stop
    - certify: at the end, beyond the budget, score every swap of one token, and repeat this until none improves
    - traces: a folder that keeps what was scored, for a search that is started again

    InputError for an unknown method, and for a start that is empty or not allowed.
    """
    settings, start = settings or Settings(), tuple(int(i) for i in start)
    _check(objective, start, settings)
    gradients = objective.gradients
    trace = Trace(objective, len(start), traces and traces / f"{_fingerprint(objective, start, settings)}.trace")
    value = float(trace.score(np.array([start]))[0])
    method = METHODS[settings.method](objective, start, value, settings, np.random.default_rng(settings.seed))
    wanted, replies = np.inf if goal is None else objective.sign * goal, next(method, None)
    while replies is not None and (left := settings.budget - trace.evaluations) > 0 and trace.best[1] < wanted:
        values = trace.score(replies[:left])
        replies = send(method, values) if len(values) == len(replies) else None
    searched = trace.evaluations
    if certify:
        _sweep(objective, trace)
    ids, best = trace.best
    text, *tokens = texts_of(objective.model, [ids, *((token_id,) for token_id in ids)])
    return SearchResult(
        direction=objective.direction, ids=ids, text=text, tokens=tuple(tokens), reward=objective.sign * best,
        reward_of_text=objective.reward_of_text(text), survives=bool(objective.round_trip(np.array([ids]))[0]),
        evaluations=searched, gradients=objective.gradients - gradients, swept=trace.evaluations - searched,
        start_reward=objective.sign * value, trace=tuple(trace.improvements),
    )  # fmt: skip


def _check(objective: Objective, start: Reply, settings: Settings) -> None:
    if settings.method not in METHODS:
        raise InputError(f"unknown method '{settings.method}'; choose one of {', '.join(METHODS)}")
    for name in ("budget", "width", "top_k", "patience"):
        if (number := getattr(settings, name)) < 1:
            raise InputError(f"{name} must be 1 or more, not {number}")
    if not start:
        raise InputError("the start is empty; give as many token ids as the reply should have")
    if outside := sorted(set(start) - set(objective.allowed.tolist())):
        raise InputError(f"the start holds token ids that are not allowed ({outside[0]}); give another, or allow 'all'")
    if not objective.satisfied(np.array([start]))[0]:
        raise InputError("the start itself is no reply that the search would keep; give another, or allow 'printable'")


def _fingerprint(objective: Objective, start: Reply, settings: Settings) -> str:
    """Return a name for a search: the same for the same values of replies of one length."""
    model, around = objective.model, objective.scorer.inputs.conversation  # which a template of one's own changes
    what: list = [model.hub_id, model.revision, model.head_name, model.dtype, model.attention, model.read_at]
    what += [around.prefix_ids, around.closing_ids, io.versions()]
    what += [objective.prompt, objective.direction, objective.allowed.tolist(), start, asdict(settings)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _sweep(objective: Objective, trace: Trace) -> None:
    """Score all swaps of one token of the best reply, on to the best, until a whole round improves nothing."""
    unimproved, position = 0, 0
    while unimproved < len(trace.best[0]):
        before = trace.best[1]
        trace.score(objective.all_swaps(trace.best[0], position))
        unimproved = 1 if trace.best[1] > before else unimproved + 1
        position = (position + 1) % len(trace.best[0])
