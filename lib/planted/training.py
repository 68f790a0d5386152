"""How every embedded model is trained, reward models and language models alike: AdamW with
warm-up and decay.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

WARM_UP = 20  # steps over which the learning rate rises
BETAS, WEIGHT_DECAY = (0.9, 0.98), 0.01  # of AdamW
# norm over all parameters to which longer gradients are shortened
LONGEST_GRADIENT = 1.0


def fit(
    groups: list[dict],
    loss_at: Callable[[int], Tensor],
    steps: int,
    *,
    decay_from: int = 0,
) -> list[float]:
    """Train the parameters in place by so many steps of AdamW, and return the loss of every step.

    - groups: the parameters in the form that torch's optimizers take, each group with its `lr`
    - loss_at: returns the loss of step i, from 0
    - decay_from: the step after which the rate falls (see `rate_share`)
    """
    parameters = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.AdamW(
        groups,
        betas=BETAS,
        weight_decay=WEIGHT_DECAY,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate_share(step, steps, decay_from)
    )
    losses = []
    for step in range(steps):
        loss = loss_at(step)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, LONGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def rate_share(step: int, steps: int, decay_from: int = 0) -> float:
    """Return the share of the full rate at a step, in [0, 1]: it rises in a line, then falls to
    zero as a cosine.

    The lower of the two counts: (step + 1) / 20, and half a cosine wave from step `decay_from` to
    the last.
    """
    fallen = max(0, step - decay_from)
    cosine = 0.5 * (1 + np.cos(np.pi * fallen / max(1, steps - decay_from)))
    return min((step + 1) / min(WARM_UP, steps), cosine)
