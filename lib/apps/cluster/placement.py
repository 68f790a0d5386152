"""Placement: what one copy of a model asks Ray for, given the memory that it needs. Nothing here imports Ray."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ... import InputError

GB = 1e9
BESIDE_WEIGHTS = 1_000_000_000  # bytes that a process takes with its libraries before it holds a model
USABLE = 0.95  # of a card's memory
STEPS = 20  # fractions of a card are multiples of 1/20


@dataclass(frozen=True)
class Node:
    """What a node has."""

    name: str
    cpus: float
    gpus: float
    memory: int  # bytes that Ray hands out
    card_memory: int = 0  # bytes of its smallest card, 0 without a card


@dataclass(frozen=True)
class Needs:
    """What scoring a model takes."""

    memory: int  # bytes of its weights and of a batch
    small: bool  # one thread of a cpu reads it
    streams: bool  # its layers can be read one by one


@dataclass(frozen=True)
class Asks:
    """What one copy of a model asks Ray for."""

    cpus: float
    gpus: float = 0  # a fraction of a card, one card or several cards of one node
    memory: int = 0  # bytes of the node's memory, 0 on cards
    stream: bool | None = None  # True for a model that fits nowhere; None: the model decides

    def options(self) -> dict:
        """Return the same as options of a Ray task."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus} | ({"memory": self.memory} if self.memory else {})

    def fit_into(self, free: dict[str, float]) -> bool:
        """Return whether so much is free. free: amounts by the names of Ray's resources."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        return all(free.get(name, 0) >= amount for name, amount in wanted.items())


class NoRoom(InputError):
    """A model that fits nowhere on the cluster."""


def place(nickname: str, needs: Needs, nodes: Sequence[Node], models: int, device: str | None = None) -> Asks:
    """Return what a copy of this model asks for, if this many models share the cluster. `device` None prefers cards.

    NoRoom if neither a card, nor the cards of one node, nor a node's memory holds the model, and it cannot be streamed.
    """
    nodes = [node for node in nodes if node.cpus >= 1]  # a head that only hands out work has no core to give
    with_cards = [node for node in nodes if node.gpus >= 1 and node.card_memory]
    if device and device.startswith("cuda") and not with_cards:
        raise NoRoom(f"device '{device}' is asked for, and no node of the cluster has a card; leave device out")
    if with_cards and device in (None, "cuda"):
        card, most = "the cards of one node hold", max(USABLE * node.card_memory * node.gpus for node in with_cards)
        needed, add = needs.memory, "a node with more or larger cards"
        if gpus := _cards_for(needs.memory, with_cards, models):
            return Asks(cpus=1, gpus=gpus)
        streamed = Asks(cpus=1, gpus=1, stream=True)
    else:
        largest = max(nodes, key=lambda node: node.memory)
        cpus = 1 if needs.small else max(1, math.floor(largest.cpus))  # a large model is read on all cores of its node
        card, most = "the largest node has", largest.memory
        needed, add = needs.memory + BESIDE_WEIGHTS, "a larger node"
        if needed <= most:
            return Asks(cpus, memory=needed)
        streamed = Asks(cpus, stream=True)
    if needs.streams:
        return streamed
    raise NoRoom(
        f"{nickname} takes {needed / GB:.1f} GB, {card} {most / GB:.1f} GB, and such a model is not read layer by "
        f"layer; add {add}"
    )


def _cards_for(memory: int, nodes: Sequence[Node], models: int) -> float:
    """Return how many cards of one node hold the model, possibly a fraction; 0 if they cannot hold it."""
    usable = [USABLE * node.card_memory for node in nodes]
    if memory <= max(usable):
        # If the cards differ in size, a share of the largest would be too little of a small one.
        share = math.ceil(STEPS * memory / min(usable)) / STEPS
        fair = math.floor(STEPS * sum(node.gpus for node in nodes) / models) / STEPS
        return min(1.0, max(share, fair))
    several = [math.ceil(memory / card) for card, node in zip(usable, nodes, strict=True) if memory <= card * node.gpus]
    return min(several, default=0)
