"""The trainer of the embedded models: its learning rate by hand, its steps beside plain gradient
descent.
"""

import numpy as np
import pytest
import torch

from lib.planted import training


def test_rate_rises_in_a_line_and_falls_as_a_cosine():
    shares = [training.rate_share(step, 100, decay_from=20) for step in range(101)]
    assert shares[:21] == pytest.approx([*(np.arange(1, 21) / 20), 1])
    # half way down, and down
    assert shares[60] == pytest.approx(0.5) and shares[100] == pytest.approx(0)
    assert (np.diff(shares[20:]) < 0).all()


def test_rate_that_falls_from_the_start_is_the_lower_of_the_two():
    shares = [training.rate_share(step, 40) for step in range(40)]
    assert shares[:5] == pytest.approx(np.arange(1, 6) / 20)
    # full after 20 steps, were it not half way down by then
    assert shares[20] == pytest.approx(0.5)
    # fewer steps than 20: it rises over all of them
    assert training.rate_share(0, 4) == 1 / 4


def test_fit_goes_down_the_gradient_by_the_rate_of_each_group():
    near, far = (
        torch.tensor([3.0], requires_grad=True),
        torch.tensor([3.0], requires_grad=True),
    )
    groups = [
        {"params": [near], "lr": 0.1, "weight_decay": 0.0},
        {"params": [far], "lr": 0.01, "weight_decay": 0.0},
    ]
    losses = training.fit(groups, lambda step: near.sum() + far.sum(), 1)
    assert losses == [6.0]  # before the step
    # the first step of Adam has the length of the rate
    assert [near.item(), far.item()] == pytest.approx([2.9, 2.99])


def test_long_gradients_are_shortened_over_all_parameters_together():
    a, b = (
        torch.tensor([0.0], requires_grad=True),
        torch.tensor([0.0], requires_grad=True),
    )
    training.fit(
        [{"params": [a, b], "lr": 0.1}], lambda step: 3 * a.sum() + 4 * b.sum(), 1
    )
    assert (a.grad.item(), b.grad.item()) == pytest.approx(
        (0.6, 0.8), abs=1e-5
    )  # (3, 4) has length 5, 1 is the longest
