"""Search for the reply of n tokens that a reward model rewards most, or least (section 5).

Replies of two tokens and more are too many to score all. The gradient of the reward by a reply's embeddings tells, to
first order, what every swap of one token would bring; greedy coordinate gradient (GCG; Zou et al. 2023) scores the most
promising swaps exactly and moves to the best. All methods here maximise the same thing, in fp32: the reward, or minus
the reward. A method is a generator: it yields replies to score, is sent what they are worth, and so on.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from heapq import nlargest
from itertools import islice, product
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from lib import ROOT, InputError, scoring
from lib.models import conversations
from lib.models.reward_models import RewardModel
from lib.search.fluency import Fluency

DIRECTIONS = {"optimal": 1, "pessimal": -1}
ALLOWED = ("all", "no specials", "printable", "round trip")
TRACES = ROOT / "data" / "cache" / "searches"
LONG = 8  # tokens from which a step's swaps are merged, and the best reply is altered rather than left for another
PATIENCE_WITH_KEEP = 100  # rounds of proposals in which `keep` may turn some down
COMBINED = 6  # tokens of each position of a short reply that are combined, the best so far
Reply = tuple[int, ...]
Proposals = Generator[np.ndarray, np.ndarray, None]  # yields (replies, n) ids, is sent (replies,) values


# --- what is searched ---------------------------------------------------------------------------------------------


def allowed_ids(model: RewardModel, which: str = "printable") -> np.ndarray:
    """The token ids that a reply may hold, ascending.

    which: "all" the tokenizer knows; "no specials": without control and added tokens; "printable": of these, the ones
    whose text is printable characters alone; "round trip": of these, the ones that the chat template and the tokenizer
    give back as themselves. InputError for another name, or if fewer than two tokens are left.
    """
    if which not in ALLOWED:
        raise InputError(f"allowed must be one of {', '.join(ALLOWED)}, not {which!r}")
    tokens, tokenizer = conversations.vocabulary(model.tokenizer), model.tokenizer
    if which != "all":
        special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
        tokens = tokens[~tokens["token_id"].isin(special)]
    if which in ("printable", "round trip"):
        tokens = tokens[[is_printable(text) for text in tokens["text"]]]
    ids = tokens["token_id"].to_numpy()
    if which == "round trip":
        ids = ids[survives(model, "Why?", ids[:, None])]
    if len(ids) < 2:
        raise InputError(f"{model.name}: only {len(ids)} tokens are '{which}'; allow more of the vocabulary, as 'all'")
    return ids


def _checked_ids(model: RewardModel, ids: Sequence[int]) -> np.ndarray:
    """The ids ascending, each once. InputError unless there are two or more, all of the model's vocabulary."""
    ids = np.unique(np.asarray(ids, dtype=np.int64))
    if unknown := sorted(set(ids.tolist()) - set(model.tokenizer.get_vocab().values())):
        raise InputError(f"{model.name} has no token {unknown[0]}; allow ids of its vocabulary, or 'printable'")
    if len(ids) < 2:
        raise InputError(f"a search needs two allowed tokens or more, not {len(ids)}; allow 'printable'")
    return ids


def is_printable(text: str) -> bool:
    """Whether the text is more than blanks and all of it shows: no control characters, no broken UTF-8."""
    return text.isprintable() and not text.isspace() and text != "" and "\ufffd" not in text


def survives(model: RewardModel, prompt: str, replies: np.ndarray) -> np.ndarray:
    """Whether each reply, decoded and put through the template as text, comes back as the same ids, (replies,) bool."""
    conversation = model.conversation(prompt)
    before, after = conversation.prefix_ids, conversation.closing_ids
    wholes = model.encode(conversation, texts_of(model, replies))
    return np.array([tuple(whole) == (*before, *reply, *after) for whole, reply in zip(wholes, replies, strict=True)])


def texts_of(model: RewardModel, replies: Iterable[Sequence[int]]) -> list[str]:
    """The replies decoded, control tokens and blanks as they are."""
    ids = [[int(i) for i in reply] for reply in replies]
    return model.tokenizer.batch_decode(ids, clean_up_tokenization_spaces=False)


class Objective:
    """What a search maximises: the reward of a reply to a prompt ("optimal"), or minus the reward ("pessimal").

    allowed: the ids that a swap may bring in; a name of ALLOWED, or the ids. keep: what else a reply must satisfy,
    (replies, n) ids -> (replies,) bool; None takes nothing else, or with "round trip" that the whole reply survives.
    fluency: keeps replies that a language model could have given (lib/fluency.py). The prompt is read once; a reply of
    n tokens then costs n tokens and the closing ones.
    """

    def __init__(
        self, model: RewardModel, prompt: str, direction: str = "optimal", allowed: str | Sequence[int] = "printable",
        keep: Callable[[np.ndarray], np.ndarray] | None = None, fluency: Fluency | None = None,
    ):  # fmt: skip
        if direction not in DIRECTIONS:
            raise InputError(f"direction must be 'optimal' or 'pessimal', not {direction!r}")
        self.model, self.prompt, self.direction, self.sign = model, prompt, direction, DIRECTIONS[direction]
        if isinstance(allowed, str):
            self.allowed = allowed_ids(model, allowed)
            keep = keep or (partial(survives, model, prompt) if allowed == "round trip" else None)
        else:
            self.allowed = _checked_ids(model, allowed)
        self.conditions = [condition for condition in (keep, fluency) if condition is not None]
        self.fluency = fluency
        inputs = scoring.inputs_for(model, prompt, [(int(i),) for i in self.allowed[:4]], reply_mode="ids")
        self.closing = np.array(inputs.conversation.closing_ids, dtype=np.int64)
        self.scorer = scoring.Scorer(model, inputs)
        self.gradients = 0  # how many were taken
        self.distance_to = lru_cache(maxsize=256)(self._distance_to)

    def keep(self, replies: np.ndarray) -> np.ndarray:
        """Whether each reply satisfies every condition, (replies,) bool."""
        kept = np.ones(len(replies), dtype=bool)
        for condition in self.conditions:
            kept[kept] = condition(replies[kept]) if kept.any() else False
        return kept

    def values(self, replies: np.ndarray) -> np.ndarray:
        """What the replies are worth: sign * reward, (replies,) float32. replies: (replies, n) ids."""
        closing = np.broadcast_to(self.closing, (len(replies), len(self.closing)))
        values = self.sign * self.scorer(np.concatenate([replies, closing], axis=1))
        if not np.isfinite(values).all():
            reply = replies[~np.isfinite(values)][0].tolist()
            raise InputError(f"the reward of the reply {reply} is not finite; load the model with dtype='float32'")
        return values

    def gains(self, reply: Reply, centred: bool = True) -> np.ndarray:
        """First-order change of the value for every swap of one token, (n, allowed); staying brings 0.

        grad . (e_v - e_current), with the embeddings as the model's embedding module gives them. centred=False leaves
        e_current out, which shifts all swaps of a position alike.
        """
        self.gradients += 1
        gradient = self.sign * self.scorer.gradient((*reply, *self.closing))[: len(reply)]  # (n, d)
        table = self.embeddings
        gains = (gradient.to(table.dtype) @ table.T).float()
        if centred:
            gains -= (gradient * self._embed(list(reply)).float()).sum(1, keepdim=True)
        return gains.cpu().numpy()

    def all_swaps(self, reply: Reply, position: int) -> np.ndarray:
        """The reply with every other allowed token at this position, (replies, n) ids, of which those that are kept."""
        others = self.allowed[self.may_swap(reply)[position]]
        replies = np.tile(reply, (len(others), 1))
        replies[:, position] = others
        return replies[self.keep(replies)]

    def may_swap(self, reply: Reply) -> np.ndarray:
        """Which swaps are worth proposing, (n, allowed) bool: not staying, and with fluency only fluent tokens."""
        moves = self.allowed != np.array(reply)[:, None]
        return moves if self.fluency is None else moves & self.fluency.swaps(reply, self.allowed)

    def draw(self, n: int, rng: np.random.Generator) -> Reply:
        """A random reply of n tokens."""
        if self.fluency is not None:
            return self.fluency.draw(n, rng)
        return _reply(rng.choice(self.allowed, size=n))

    def distances(self, reply: Reply) -> np.ndarray:
        """Euclidean distance of the embeddings of every allowed token from those of the reply, (n, allowed)."""
        return np.stack([self.distance_to(token) for token in reply])

    def _distance_to(self, token: int) -> np.ndarray:
        # Without the matrix product, whose rounding would put a token at some distance from itself.
        without = "donot_use_mm_for_euclid_dist"
        return torch.cdist(self._embed([token]).float(), self.embeddings.float(), compute_mode=without)[0].cpu().numpy()

    @cached_property
    def embeddings(self) -> torch.Tensor:
        """The embeddings of the allowed tokens, (allowed, d), in the model's dtype."""
        return self._embed(self.allowed.tolist())

    def _embed(self, ids: list[int]) -> torch.Tensor:
        with torch.no_grad():
            return self.model.backbone.get_input_embeddings()(torch.tensor(ids, device=self.model.device))


# --- where to start -----------------------------------------------------------------------------------------------


def starts(
    objective: Objective, n: int, *, winners: Sequence[int] = (), sentence: str = "", randoms: int = 2, seed: int = 0
) -> dict[str, Reply]:
    """Replies of n tokens to start from, by name; those with a token that is not allowed are left out.

    `x x x`: the paper's, n times x; `winners`: the first n of these ids that are allowed, as the best single tokens of
    a score table; `sentence`: those ids of that text that are allowed, whatever their number; `random 1` and on: drawn
    from a seed.
    """
    rng, allowed = np.random.default_rng(seed), set(objective.allowed.tolist())
    xs, written = objective.model.tokenizer([" ".join("x" * n), sentence], add_special_tokens=False)["input_ids"]
    best = [int(i) for i in winners if i in allowed]
    found = {
        "x x x": tuple(xs[:n]),
        "winners": tuple((best * n)[:n]),
        "sentence": tuple(i for i in written if i in allowed),
    }
    drawn = _take(objective, _drawn(objective, n, rng), set(), randoms)
    found |= {f"random {i + 1}": _reply(reply) for i, reply in enumerate(drawn)}
    return {
        name: reply
        for name, reply in found.items()
        if reply and set(reply) <= allowed and objective.keep(np.array([reply]))[0]
    }


# --- methods ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """How to search. budget: replies scored at most, the start and duplicates included. width: replies per step.

    top_k: GCG draws from so many best swaps per position. distance_weight: how much a swap's distance counts against
    its gain, where 1 gives both the same spread over all swaps. patience: steps without a new best before a restart.
    """

    method: str = "round robin"
    budget: int = 4096
    width: int = 32
    top_k: int = 256
    distance_weight: float = 0.5
    patience: int = 4
    seed: int = 0


def gcg(objective: Objective, start: Reply, value: float, settings: Settings, rng: np.random.Generator) -> Proposals:
    """GCG as published: random positions, random members of their top_k swaps, always on to the best of the batch."""
    reply = start
    while True:
        gains = objective.gains(reply)  # (n, allowed)
        if objective.fluency is not None:
            gains = np.where(objective.may_swap(reply), gains, -np.inf)
        best, top_k = np.argsort(-gains, axis=1), np.minimum(settings.top_k, np.isfinite(gains).sum(axis=1))
        if not top_k.any():
            return
        positions = rng.choice(np.flatnonzero(top_k), size=settings.width)
        chosen = best[positions, rng.integers(top_k[positions])]
        replies = np.tile(reply, (settings.width, 1))
        replies[np.arange(settings.width), positions] = objective.allowed[chosen]
        replies = replies[objective.keep(replies)]
        if not len(replies):
            return  # no draw is a reply to keep; another draw of so many would hardly be
        values = yield replies
        reply = _reply(replies[values.argmax()])


def faster_gcg(
    objective: Objective, start: Reply, value: float, settings: Settings, rng: np.random.Generator,
    wrong_sign: bool = False,
) -> Proposals:  # fmt: skip
    """Faster-GCG as in the paper's published code: all swaps in one order, the best unvisited ones, on to the best.

    The order is that of the gradient of (r - t)^2 plus 4.5 times the distance, t = 30 for optimal, -30 for pessimal.
    wrong_sign: t = 30 for both, as that code has it. Its gradient is not centred by the current token.
    """
    reply, seen = start, {start}
    target = 30.0 if wrong_sign else 30.0 * objective.sign
    while True:
        slope = 2 * (objective.sign * value - target) * objective.sign  # of (r - t)^2 by the value
        loss = slope * objective.gains(reply, centred=False) + 4.5 * objective.distances(reply)
        lowest = _lowest(loss.reshape(1, -1), _most(objective, settings) + len(reply))[0]  # staying is no swap
        positions, columns = np.unravel_index(lowest, loss.shape)
        replies = _take(objective, _swaps(objective, reply, positions, columns), seen, settings.width)
        if not len(replies):
            return
        values = yield replies
        reply, value = _reply(replies[values.argmax()]), float(values.max())


class TokensSoFar:
    """The tokens that were scored at every position, each with the value of the best reply that had it there."""

    def __init__(self, start: Reply, value: float):
        self.values = [{token: value} for token in start]  # one dictionary for every position

    def note(self, replies: np.ndarray, values: np.ndarray) -> None:
        """Take in what replies were worth."""
        for reply, value in zip(replies.tolist(), values.tolist(), strict=True):
            for token, of_tokens in zip(reply, self.values, strict=True):
                of_tokens[token] = max(value, of_tokens.get(token, -np.inf))

    def combinations(self) -> Iterator[Reply]:
        """Every reply made of the COMBINED best tokens of each position; the last position changes fastest."""
        return product(*(nlargest(COMBINED, of_tokens, key=of_tokens.get) for of_tokens in self.values))


def round_robin(
    objective: Objective, start: Reply, value: float, settings: Settings, rng: np.random.Generator
) -> Proposals:
    """Ours: the best unvisited swaps of each position in turn, by gain less distance; starts afresh when it stalls.

    A quarter of a step's replies combine what scored well: in a short reply the best tokens so far of every position,
    in one of LONG tokens and more the best swaps of the step. No reply is scored twice. After `patience` steps without
    a new best since it last started, a short reply starts over from a random one, a long one from the best so far with
    one or two tokens drawn anew.
    """
    reply, seen, best = start, {start}, (start, value)
    highest, stale = value, 0  # since the last start
    tokens = TokensSoFar(start, value)
    while True:
        replies, values = yield from _step(objective, reply, seen, tokens, settings)
        if len(replies):
            reply, value = _reply(replies[values.argmax()]), float(values.max())
            highest, stale = (value, 0) if value > highest else (highest, stale + 1)
            best = max(best, (reply, value), key=itemgetter(1))
        if not len(replies) or stale >= settings.patience:
            fresh = _take(objective, _afresh(objective, best[0], rng), seen, 1)
            if not len(fresh):
                return
            reply, value = _reply(fresh[0]), float((yield fresh)[0])
            highest, stale, best = value, 0, max(best, (reply, value), key=itemgetter(1))


def _step(
    objective: Objective, reply: Reply, seen: set[Reply], tokens: TokensSoFar, settings: Settings
) -> Generator[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Proposes swaps of the reply, then combinations; returns them all and their values, none if no swap is left."""
    combined = settings.width // 4
    replies = _take(objective, _in_turn(objective, reply, settings), seen, settings.width - combined)
    if not len(replies):
        return replies, np.array([])
    values = yield replies
    tokens.note(replies, values)
    mixed = _merged(reply, replies, values) if len(reply) >= LONG else tokens.combinations()
    if not len(more := _take(objective, mixed, seen, combined)):
        return replies, values
    values_of_more = yield more
    tokens.note(more, values_of_more)
    return np.concatenate([replies, more]), np.append(values, values_of_more)


def _in_turn(objective: Objective, reply: Reply, settings: Settings) -> Iterator[Reply]:
    """Swaps of the reply: the best of every position, then the second best of every position, and so on.

    Best by gain less distance, the latter scaled to the gains' spread: a far swap is predicted worst.
    """
    gains, distances = objective.gains(reply), objective.distances(reply)  # (n, allowed)
    scaled = gains.std() / max(distances.std(), 1e-12) * distances
    order = _lowest(settings.distance_weight * scaled - gains, _most(objective, settings))
    return _swaps(objective, reply, np.tile(np.arange(len(reply)), order.shape[1]), order.T.ravel())


def _most(objective: Objective, settings: Settings) -> int:
    """How many swaps must be looked at so that a step's are among them: no more than the budget can have been scored.

    With conditions any number may have been turned down, so all are looked at.
    """
    return sys.maxsize if objective.conditions else settings.budget + settings.width


def _lowest(losses: np.ndarray, most: int) -> np.ndarray:
    """The columns of the `most` lowest losses of each row, or of all, lowest first; much faster than to sort all."""
    if most >= losses.shape[1]:
        return np.argsort(losses, axis=1, kind="stable")
    some = np.argpartition(losses, most, axis=1)[:, :most]
    return np.take_along_axis(some, np.argsort(np.take_along_axis(losses, some, axis=1), axis=1, kind="stable"), axis=1)


def _afresh(objective: Objective, best: Reply, rng: np.random.Generator) -> Iterator[Reply]:
    """Random replies, or where replies are long and need not be fluent, the best with one or two tokens drawn anew."""
    for fresh in _drawn(objective, len(best), rng):
        near = len(best) >= LONG and objective.fluency is None  # mixing two fluent replies gives none
        kept = rng.permutation(len(best))[: -rng.integers(1, 3)] if near else []
        yield tuple(best[i] if i in kept else token for i, token in enumerate(fresh))


def random_search(
    objective: Objective, start: Reply, value: float, settings: Settings, rng: np.random.Generator
) -> Proposals:
    """Replies drawn at random from all that are allowed, none twice."""
    seen = {start}
    while len(replies := _take(objective, _drawn(objective, len(start), rng), seen, settings.width)):
        yield replies


def sweeps(objective: Objective, start: Reply, value: float, settings: Settings, rng: np.random.Generator) -> Proposals:
    """Exact coordinate search: every swap of one position, on to the best; from a random reply when none improves."""
    reply, unimproved, position = start, 0, 0
    while True:
        replies = objective.all_swaps(reply, position)
        values = yield replies
        improves = len(values) and values.max() > value
        if improves:
            reply, value = _reply(replies[values.argmax()]), float(values.max())
        unimproved, position = 0 if improves else unimproved + 1, (position + 1) % len(reply)
        if unimproved == len(reply):
            fresh = _take(objective, _drawn(objective, len(start), rng), set(), 1)
            if not len(fresh):
                return
            reply, value, unimproved = _reply(fresh[0]), float((yield fresh)[0]), 0


METHODS: dict[str, Callable[..., Proposals]] = {
    "round robin": round_robin,
    "Faster-GCG": faster_gcg,
    "Faster-GCG, wrong sign": partial(faster_gcg, wrong_sign=True),
    "GCG": gcg,
    "sweeps": sweeps,
    "random": random_search,
}


def _reply(ids: np.ndarray) -> Reply:
    return tuple(ids.tolist())


def _swaps(objective: Objective, reply: Reply, positions: np.ndarray, columns: np.ndarray) -> Iterator[Reply]:
    """The reply with one token swapped: at each position in turn, for the allowed token of that column."""
    may, allowed = objective.may_swap(reply), objective.allowed
    for position, column in zip(positions, columns, strict=True):
        if may[position, column]:
            yield (*reply[:position], int(allowed[column]), *reply[position + 1 :])


def _merged(reply: Reply, replies: np.ndarray, values: np.ndarray) -> Iterator[Reply]:
    """The best swaps of a step at different positions, merged one after another."""
    merged, changed = np.array(reply), set()
    for one in replies[np.argsort(-values, kind="stable")]:
        position = int(np.flatnonzero(one != reply)[0])
        if position not in changed:
            changed.add(position)
            merged[position] = one[position]
            if len(changed) > 1:
                yield _reply(merged)


def _drawn(objective: Objective, length: int, rng: np.random.Generator) -> Iterator[Reply]:
    """Random replies; there may be few or none left to find, so not for ever. Fluent ones are dear to draw."""
    for _ in range(100 if objective.fluency else 10_000):
        yield objective.draw(length, rng)


def _take(objective: Objective, proposed: Iterator[Reply], seen: set[Reply], width: int) -> np.ndarray:
    """The first `width` proposed replies that were not seen and that the objective keeps, (up to width, n) ids.

    All that were looked at are seen from then on. Fewer, or none, if no proposal is left or hardly one is kept.
    """
    taken, new = [], (reply for reply in proposed if not (reply in seen or seen.add(reply)))
    for _ in range(PATIENCE_WITH_KEEP):
        if len(taken) == width or not (some := list(islice(new, width - len(taken)))):
            break
        replies = np.array(some)
        taken += replies[objective.keep(replies)].tolist()
    return np.array(taken, dtype=np.int64)


# --- one search ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """The result of a search. reward: of the ids, on the model's own scale; text: the ids decoded; tokens: one by one.

    reward_of_text: of that text, put through the chat template as a person's would be; survives: whether it comes back
    as the same ids. start, start_reward: where the search began. evaluations: replies scored, duplicates counted;
    gradients: how many were taken. trace: (evaluations, reward) of every new best. single_swap_optimal: True if every
    swap of one token was scored and none improves the reply, None if that was not asked for; swept: replies scored for
    it.
    """

    prompt: str
    direction: str
    ids: Reply
    text: str
    tokens: tuple[str, ...]
    reward: float
    reward_of_text: float
    survives: bool
    evaluations: int
    gradients: int
    swept: int
    seconds: float
    single_swap_optimal: bool | None
    start: Reply
    start_reward: float
    trace: tuple[tuple[int, float], ...]
    settings: Settings


class Trace:
    """What a search scored, in order: evaluations, the best reply so far, and when it became that.

    On disk at `path`, if one is given, as it is made. A search that is started again finds there what it scored before,
    and scores only the rest.
    """

    def __init__(self, objective: Objective, length: int, path: Path | None = None):
        self.objective, self.path = objective, path
        self.row = np.dtype([("ids", "<i4", (length,)), ("value", "<f4")])
        self.known: dict[Reply, float] = {}
        self.evaluations, self.best, self.improvements = 0, ((), -np.inf), []
        if path is not None and path.exists():
            whole = path.stat().st_size // self.row.itemsize * self.row.itemsize  # a killed run may leave half a row
            os.truncate(path, whole)
            rows = np.fromfile(path, dtype=self.row)
            self.known = dict(zip(map(_reply, rows["ids"]), rows["value"].tolist(), strict=True))

    def score(self, replies: np.ndarray) -> np.ndarray:
        """The values of the replies, (replies,) float32: as known, or scored now and written down."""
        keys = list(map(_reply, replies))
        if new := [reply for reply in dict.fromkeys(keys) if reply not in self.known]:
            found = self.objective.values(np.array(new))
            self._write(new, found)
            self.known |= dict(zip(new, found.tolist(), strict=True))
        values = np.array([self.known[key] for key in keys], dtype=np.float32)
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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(rows.tobytes())


def search(
    objective: Objective, start: Sequence[int], settings: Settings | None = None, *, goal: float | None = None,
    certify: bool = False, traces: Path | None = None, progress: bool = False,
) -> Found:  # fmt: skip
    """The best reply that a search from `start` finds within its budget; it has as many tokens as the start.

    goal: a reward at which to stop, for there is none better or it is good enough; None spends the whole budget.
    certify: at the end score every swap of one token, and move on while one improves; this comes on top of the budget.
    traces: a folder in which a search that was stopped finds what it had scored; None keeps nothing. The same arguments
    find the same reply. InputError for an unknown method, no tokens, or a start that is not allowed.
    """
    settings, start, began = settings or Settings(), tuple(int(i) for i in start), time.time()
    _check(objective, start, settings)
    gradients = objective.gradients
    trace = Trace(objective, len(start), traces and traces / f"{_fingerprint(objective, start, settings)}.trace")
    value = float(trace.score(np.array([start]))[0])
    method = METHODS[settings.method](objective, start, value, settings, np.random.default_rng(settings.seed))
    _spend(settings, method, trace, np.inf if goal is None else objective.sign * goal, progress)
    searched = trace.evaluations
    if certify:
        _sweep(objective, trace)
    return _found(
        objective, trace, settings, start=start, start_reward=objective.sign * value, evaluations=searched,
        swept=trace.evaluations - searched, gradients=objective.gradients - gradients,
        seconds=round(time.time() - began, 3), single_swap_optimal=True if certify else None,
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
    if not objective.keep(np.array([start]))[0]:
        raise InputError("the start itself is no reply that the search would keep; give another, or allow 'printable'")


def _fingerprint(objective: Objective, start: Reply, settings: Settings) -> str:
    """A name for a search: the same for the same values of replies of one length."""
    model = objective.model
    what = [model.hub_id, model.revision, model.head_name, model.dtype, model.attention, objective.prompt]
    what += [objective.direction, objective.allowed.tolist(), start, asdict(settings)]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _spend(settings: Settings, method: Proposals, trace: Trace, goal: float, progress: bool) -> None:
    """Score what the method proposes, until the budget is spent, the goal is reached or it has nothing left."""
    sign = trace.objective.sign
    with tqdm(total=settings.budget, unit=" replies", desc=settings.method, disable=not progress) as bar:
        replies = next(method, None)
        while replies is not None and (left := settings.budget - trace.evaluations) > 0 and trace.best[1] < goal:
            values = trace.score(replies[:left])
            bar.set_postfix_str(f"best reward {sign * trace.best[1]:.3f}", refresh=False)
            bar.update(len(values))
            replies = _next(method, values) if len(values) == len(replies) else None


def _next(method: Proposals, values: np.ndarray) -> np.ndarray | None:
    try:
        return method.send(values)
    except StopIteration:
        return None


def _sweep(objective: Objective, trace: Trace) -> None:
    """Score all swaps of one token of the best reply, on to the best, until a whole round improves nothing."""
    unimproved, position = 0, 0
    while unimproved < len(trace.best[0]):
        before = trace.best[1]
        trace.score(objective.all_swaps(trace.best[0], position))
        unimproved = 1 if trace.best[1] > before else unimproved + 1
        position = (position + 1) % len(trace.best[0])


def _found(objective: Objective, trace: Trace, settings: Settings, **counts) -> Found:
    ids, value = trace.best
    text = texts_of(objective.model, [ids])[0]
    return Found(
        prompt=objective.prompt, direction=objective.direction, ids=ids, text=text,
        tokens=tuple(texts_of(objective.model, [(i,) for i in ids])), reward=objective.sign * value,
        reward_of_text=float(scoring.score_replies(objective.model, objective.prompt, [text])[0]),
        survives=bool(survives(objective.model, objective.prompt, np.array([ids]))[0]),
        trace=tuple(trace.improvements), settings=settings, **counts,
    )  # fmt: skip
