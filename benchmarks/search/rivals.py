"""Other optimisers of discrete inputs, adapted to a free reply: relaxations (ADC, PGD), a beam
(BEAST), and variants of GCG (MAC, ACG, and evolution without gradients).

They were published for making a language model say a given target. A reward has no target: the loss
of the target becomes minus the reward, and what counted wrong target tokens, or proposed tokens by
the language model, is replaced as each docstring says. They maximise the values of a cost.Metered,
by the protocol of lib/search/gcg.py; a step of which nothing is new to score yields no replies.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.search.cost import Metered, Method
from benchmarks.search.optimality import OURS
from lib.search.gcg import METHODS, Gains, Proposals, Settings
from lib.search.objective import MOST_DRAWS, PER_SURVIVOR, Reply, as_reply

PARALLEL = 8  # relaxed replies that are optimised at once
ADC_STEPS = 64  # from dense to one token; then it starts anew
ADC_RATE, ADC_MOMENTUM = 10.0, 0.99  # as published; the gradient's spread is the unit
# Adam, and cosine annealing with warm restarts to so low a share
PGD_RATE, PGD_PERIOD, PGD_LEAST = 0.11, 60, 0.325
# strength of the entropy projection, reached in so many steps
PGD_ENTROPY, PGD_WARM_UP, PGD_PATIENCE = 0.4, 250, 100
HEAVIEST = 16  # tokens of a place, by weight, that a reply as text is made of
BEAMS = 15  # replies kept, and continuations of each that are tried
# share of the earlier gains, as in the code of its authors (weizeming/momentum-attack-llm, gcg.py)
MAC_MOMENTUM = 0.4
KEPT = 16  # best replies that ACG goes on from, and that are the parents in evolution


# --- relaxations ----------------------------------------------------------------------------------


def adc(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Adaptive dense-to-sparse constrained optimisation (Hu et al. 2024): mixtures of tokens that
    become one token.

    Gradient ascent with momentum on PARALLEL random mixtures; after each step every place keeps its
    S largest weights, which are made to sum to one, and the reply of the largest weights is scored.
    Published, S is 2 to the number of target tokens still wrong; here it falls from half of the
    tokens to one, evenly in logarithm, in ADC_STEPS steps, after which it starts anew.
    """
    seen = {start}
    while True:
        mixtures = _random_mixtures(objective, len(start), rng, gaussian=True)
        velocity, unit = torch.zeros_like(mixtures), 0.0
        for step in range(1, ADC_STEPS + 1):
            _, gradient = objective.relaxed(mixtures)
            unit = unit or float(gradient.std()) or 1.0
            velocity = ADC_MOMENTUM * velocity + gradient / unit
            mixtures = mixtures + ADC_RATE * velocity
            yield _discrete(objective, mixtures, seen)
            mixtures = sparse(
                mixtures, (mixtures.shape[2] / 2) ** (1 - step / ADC_STEPS), rng
            )


def sparse(mixtures: Tensor, support: float, rng: np.random.Generator) -> Tensor:
    """Return the mixtures with `support` tokens left at each place, those of the largest weights,
    and sums of one.

    A fraction of a token means that so many of the places, drawn at random, keep one more.
    """
    places = mixtures.shape[1]
    more = rng.permutation(places) < round(support % 1 * places)  # (n,)
    kept = torch.from_numpy(np.maximum(1, int(support) + more))[None, :, None]
    top = mixtures.topk(int(kept.max()), dim=2)
    weights = (top.values.relu() + 1e-6) * (torch.arange(top.values.shape[2]) < kept)
    return torch.zeros_like(mixtures).scatter(
        2, top.indices, weights / weights.sum(2, keepdim=True)
    )


def pgd(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Projected gradient descent (Geisler et al. 2024): mixtures on the simplex, their entropy
    bounded from above.

    Adam on PARALLEL mixtures with cosine annealing and warm restarts; each step is projected onto
    the simplex, then out of a ball around the uniform mixture, and the reply of the largest weights
    is scored. Mixtures whose replies found nothing better for PGD_PATIENCE steps go on from the
    best that any had. The published masks for a free length are left out, as a reply has as many
    tokens as its start.
    """
    mixtures = _random_mixtures(objective, len(start), rng).requires_grad_()
    optimiser = torch.optim.Adam([mixtures], lr=PGD_RATE, maximize=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimiser, PGD_PERIOD, eta_min=PGD_LEAST * PGD_RATE
    )
    seen, best, kept, stale, step = {start}, value, mixtures.detach()[:1].clone(), 0, 0
    while True:
        _, gradient = objective.relaxed(mixtures.detach())
        # What all tokens of a place share leaves the simplex, but would fill the steps that Adam
        # scales one by one
        mixtures.grad = gradient - gradient.mean(2, keepdim=True)
        optimiser.step()
        schedule.step()
        step += 1
        strength = PGD_ENTROPY * min(1.0, step / PGD_WARM_UP)
        mixtures.data = less_entropy(onto_simplex(mixtures.data), strength)
        values = yield _discrete(objective, mixtures.data, seen)
        stale += 1
        if values.max(initial=-np.inf) > best:
            best, stale, kept = float(values.max()), 0, mixtures.data.clone()
        elif stale >= PGD_PATIENCE:
            mixtures.data, stale = kept.expand_as(mixtures).clone(), 0


def onto_simplex(weights: Tensor) -> Tensor:
    """Return the nearest weights of 0 and more that sum to one, over the last axis (Duchi et al.
    2008).
    """
    descending = weights.sort(dim=-1, descending=True).values
    thresholds = (descending.cumsum(-1) - 1) / torch.arange(1, weights.shape[-1] + 1)
    last = (descending > thresholds).sum(-1, keepdim=True) - 1
    return (weights - thresholds.gather(-1, last)).relu()


def less_entropy(mixtures: Tensor, strength: float) -> Tensor:
    """Return the mixtures moved away from uniform ones until the sum of squares is at least
    `strength` of the way to 1.

    On the tokens that a mixture holds; where it is uniform, or far enough away, it stays. strength:
    from 0 to 1.
    """
    held = (mixtures > 0).float()
    uniform = held / held.sum(-1, keepdim=True)
    radius = (strength * (1 - 1 / held.sum(-1, keepdim=True))).sqrt()
    distance = (mixtures - uniform).norm(dim=-1, keepdim=True)
    moved = onto_simplex(
        uniform + (mixtures - uniform) * radius / distance.clamp(min=1e-9)
    )
    return torch.where((distance < radius) & (distance > 1e-6), moved, mixtures)


def _random_mixtures(
    objective: Metered, n: int, rng: np.random.Generator, gaussian: bool = False
) -> Tensor:
    """Mixtures of the allowed tokens, (PARALLEL, n, allowed): softmax of Gaussians, or uniform
    weights normalised.
    """
    shape = (PARALLEL, n, len(objective.allowed))
    drawn = np.exp(rng.normal(size=shape)) if gaussian else rng.random(shape)
    return torch.from_numpy((drawn / drawn.sum(2, keepdims=True)).astype(np.float32))


def _discrete(objective: Metered, mixtures: Tensor, seen: set[Reply]) -> np.ndarray:
    """Return a reply for each mixture: its largest weights, or if that was seen, with one
    place's second largest.
    """
    taken = [
        objective.take(_nearest(objective, mixture), seen, 1) for mixture in mixtures
    ]
    return np.concatenate([replies.reshape(-1, mixtures.shape[1]) for replies in taken])


def _nearest(objective: Metered, mixture: Tensor) -> Iterator[Reply]:
    """Yield the reply of the largest weights, then those with one place's second largest, the
    closest call first.
    """
    # (n, HEAVIEST)
    weights, columns = mixture.topk(min(HEAVIEST, mixture.shape[1]), dim=1)
    ranks = _ranks(objective, objective.allowed[columns.numpy()])
    # (n, 2)
    tokens = objective.allowed[columns.gather(1, torch.tensor(ranks)).numpy()].tolist()
    first, kept = [token for token, _ in tokens], weights.gather(1, torch.tensor(ranks))
    yield tuple(first)
    for place in (kept[:, 0] - kept[:, 1]).argsort().tolist():
        yield (*first[:place], tokens[place][1], *first[place + 1 :])


def _ranks(objective: Metered, tokens: np.ndarray) -> list[list[int]]:
    """Which of the tokens of each place, (n, HEAVIEST) ids, come first and second; as text, of
    those that survive.

    These are the ones that can stand behind the first ones of the places before. Without them
    hardly a mixture would ever be scored; published, tokens are taken whether they survive or not,
    or as the tokenizer reads them again.
    """
    if objective.reply_mode == "ids":
        return [[0, 1]] * len(tokens)
    chosen: list[int] = []
    ranks = []
    for here in tokens:
        behind = np.column_stack([np.tile(chosen, (len(here), 1)), here]).astype(
            np.int64
        )
        ranks.append([*np.flatnonzero(objective.may_survive(behind)), 0, 1][:2])
        chosen.append(int(here[ranks[-1][0]]))
    return ranks


# --- a beam ---------------------------------------------------------------------------------------


def beam(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose a beam from left to right (BEAST; Sadasivan et al. 2024), over single-token rewards.

    Of the replies so far the best BEAMS are kept, and each is continued by BEAMS tokens drawn
    without replacement. Published, a language model's next-token probabilities draw them; here the
    softmax of the rewards of single tokens, all of which are scored first, in units of their
    spread. With its last place filled it begins anew, with new draws.
    """
    singles = objective.values(objective.allowed[:, None])
    chances = np.exp(
        (singles - singles.max()) / max(float(singles.std()), 1e-9)
    ).astype(float)
    chances /= chances.sum()
    seen = {start}
    while True:
        replies, values = objective.allowed[:, None], singles
        for _ in range(len(start) - 1):
            kept = replies[np.argsort(-values, kind="stable")[:BEAMS]]
            replies = _continued(objective, kept, chances, rng)
            if replies.shape[1] < len(start):
                values = objective.values(replies)
        if not len(
            new := objective.take(map(tuple, replies.tolist()), seen, len(replies))
        ):
            return
        yield new


def _continued(
    objective: Metered, kept: np.ndarray, chances: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Each of the replies with BEAMS further tokens, (up to kept * BEAMS, n + 1) ids; as text,
    ones that survive.
    """
    count = min(BEAMS, len(chances))
    as_text = objective.reply_mode == "text"
    size = min(PER_SURVIVOR * count, len(chances)) if as_text else count
    drawn = []
    for reply in kept:
        tokens = rng.choice(objective.allowed, size=size, replace=False, p=chances)
        replies = np.column_stack([np.tile(reply, (size, 1)), tokens])
        drawn.append(
            replies[objective.may_survive(replies)][:count] if as_text else replies
        )
    return np.concatenate(drawn)


# --- variants of GCG ------------------------------------------------------------------------------


def mac(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose as GCG does, by gains with momentum (MAC; Zhang and Wei 2024, arXiv 2405.01229)."""
    reply, averaged, seen = start, np.zeros(0), {start}
    while True:
        gains = yield Gains(reply)
        first = not averaged.size
        averaged = (
            gains if first else MAC_MOMENTUM * averaged + (1 - MAC_MOMENTUM) * gains
        )
        swaps = _random_swaps(objective, reply, averaged, 1, settings.top_k, rng)
        if not len(replies := objective.take(swaps, seen, settings.width)):
            return
        values = yield replies
        reply = as_reply(replies[values.argmax()])


def acg(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose swaps of many tokens at first and of one at the end (ACG; Haize Labs 2024).

    The number of swapped tokens falls from half of the reply to one during the first half of the
    budget. Each step starts from the best of the KEPT best replies that no step has started from
    yet.
    """
    kept, used, seen, scored = [(value, start)], set[Reply](), {start}, 0
    while True:
        fresh = [reply for _, reply in kept if reply not in used]
        reply = fresh[0] if fresh else kept[int(rng.integers(len(kept)))][1]
        used.add(reply)
        gains = yield Gains(reply)
        left = max(0.0, 1 - 2 * scored / settings.budget)
        count = max(1, round(left * len(start) / 2))
        swaps = _random_swaps(objective, reply, gains, count, settings.top_k, rng)
        if not len(replies := objective.take(swaps, seen, settings.width)):
            return
        values = yield replies
        scored += len(replies)
        kept = _best_of(kept, replies, values)


def evolution(
    objective: Metered,
    start: Reply,
    value: float,
    settings: Settings,
    rng: np.random.Generator,
) -> Proposals:
    """Propose children of the KEPT best replies: each token from one of two parents, and one
    token drawn anew.
    """
    kept, seen = [(value, start)], {start}
    while True:
        children = _children([reply for _, reply in kept], objective.allowed, rng)
        if not len(replies := objective.take(children, seen, settings.width)):
            return
        values = yield replies
        kept = _best_of(kept, replies, values)


def _random_swaps(
    objective: Metered,
    reply: Reply,
    gains: np.ndarray,
    count: int,
    top_k: int,
    rng: np.random.Generator,
) -> Iterator[Reply]:
    """Yield the reply with `count` tokens swapped, each for a random one of its place's top_k by
    gain.
    """
    best = np.argsort(-gains, axis=1)[:, :top_k]  # (n, top_k)
    for _ in range(MOST_DRAWS):
        swapped = np.array(reply)
        for place in rng.choice(len(reply), size=count, replace=False):
            swapped[place] = objective.allowed[rng.choice(best[place])]
        yield as_reply(swapped)


def _children(
    parents: list[Reply], allowed: np.ndarray, rng: np.random.Generator
) -> Iterator[Reply]:
    for _ in range(MOST_DRAWS):
        first, second = (
            np.array(parents[i]) for i in rng.integers(len(parents), size=2)
        )
        child = np.where(rng.random(len(first)) < 0.5, first, second)
        child[rng.integers(len(child))] = rng.choice(allowed)
        yield as_reply(child)


def _best_of(
    kept: list[tuple[float, Reply]], replies: np.ndarray, values: np.ndarray
) -> list[tuple[float, Reply]]:
    """Return the KEPT best of those kept so far and these replies, with their values, the best
    first.
    """
    scored = zip(values.tolist(), map(as_reply, replies), strict=True)
    return sorted([*kept, *scored], reverse=True)[:KEPT]


COMPARED: dict[str, tuple[Method, Settings]] = {
    OURS: (METHODS["round robin"], Settings()),
    "Faster-GCG": (METHODS["Faster-GCG"], Settings()),
    "GCG, width 32": (METHODS["GCG"], Settings(top_k=64)),
    "GCG, width 512": (METHODS["GCG"], Settings(width=512, top_k=256)),
    "ADC": (adc, Settings()),
    "PGD": (pgd, Settings()),
    "beam": (beam, Settings()),
    "exact sweeps": (METHODS["sweeps"], Settings()),
    "random": (METHODS["random"], Settings()),
}

LATER: dict[str, tuple[Method, Settings]] = {  # compared at five tokens alone
    OURS: (METHODS["round robin"], Settings()),
    "ours with momentum": (METHODS["round robin"], Settings(momentum=0.5)),
    "GCG, width 32": (METHODS["GCG"], Settings(top_k=64)),
    "MAC": (mac, Settings(top_k=64)),
    "ACG": (acg, Settings(top_k=64)),
    "evolution": (evolution, Settings()),
}
