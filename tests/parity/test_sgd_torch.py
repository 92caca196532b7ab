"""The NumPy training of sgd_linear and mlp against torch.optim.SGD under CosineAnnealingLR."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from permafrost.probes.sgd.models import LinearHeads, Perceptron, uniform_start
from permafrost.probes.sgd.training import DescentSchedule, train

N, D, K = 130, 12, 5
SINGLE, MANY = (0.1,), (1e-3, 0.02, 0.1)


def data(task: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)).astype(np.float32)
    logits = x @ rng.normal(size=(D, K)) + rng.normal(size=(N, K))
    labels = logits.argmax(axis=1) if task == "classification" else (logits > 0).astype(np.float32)
    return x, labels


def orders(epochs: int):
    rng = np.random.default_rng(1)
    return [rng.permutation(N) for _ in range(epochs)]


def torch_training(net, task, x, y, schedule: DescentSchedule, rate: float):
    """The training loop of the literature, given the order of the rows."""
    loss = torch.nn.CrossEntropyLoss() if task == "classification" else torch.nn.BCEWithLogitsLoss()
    optimiser = torch.optim.SGD(
        net.parameters(), rate, momentum=schedule.momentum, weight_decay=schedule.weight_decay
    )
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, schedule.epochs)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    for order in orders(schedule.epochs):
        for start in range(0, N, schedule.batch_size):
            rows = torch.from_numpy(order[start : start + schedule.batch_size])
            optimiser.zero_grad()
            loss(net(x[rows]), y[rows]).backward()
            optimiser.step()
        falling.step()
    return [p.detach().numpy() for p in net.parameters()]


def layer(weight: np.ndarray, bias: np.ndarray) -> torch.nn.Linear:
    made = torch.nn.Linear(*weight.shape)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(weight.T))
        made.bias.copy_(torch.from_numpy(bias))
    return made


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("rates", [SINGLE, MANY])
@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_every_head_ends_where_torch_ends(task, rates, weight_decay):
    x, y = data(task)
    start = uniform_start(np.random.default_rng(2), D, K)
    schedule = DescentSchedule(
        rates, epochs=20, batch_size=32, momentum=0.9, weight_decay=weight_decay
    )
    heads = LinearHeads(*start, len(rates), task)
    train(heads, x, y, schedule, orders(20))
    weight = heads.parameters[0].reshape(D, len(rates), K)
    bias = heads.parameters[1].reshape(len(rates), K)
    for head, rate in enumerate(rates):
        expected = torch_training(layer(*start), task, x, y, schedule, rate)
        np.testing.assert_allclose(weight[:, head].T, expected[0], atol=2e-5)
        np.testing.assert_allclose(bias[head], expected[1], atol=2e-5)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_the_perceptron_ends_where_torch_ends(task):
    x, y = data(task)
    schedule = DescentSchedule((0.05,), epochs=10, batch_size=32, momentum=0.9, weight_decay=0.001)
    ours = Perceptron(np.random.default_rng(3), D, 7, K, task)
    first, second = (layer(*(p.copy() for p in ours.parameters[i : i + 2])) for i in (0, 2))
    net = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    train(ours, x, y, schedule, orders(10))
    expected = torch_training(net, task, x, y, schedule, 0.05)
    for found, wanted in zip(ours.parameters, expected, strict=True):
        np.testing.assert_allclose(found.T, wanted, atol=5e-5)


def test_a_fresh_layer_has_the_law_of_torchs():
    weight, bias = uniform_start(np.random.default_rng(0), 400, 300)
    theirs = torch.nn.Linear(400, 300)
    for found, wanted in ((weight, theirs.weight), (bias, theirs.bias)):
        spread = float(wanted.detach().std())
        assert abs(found.std() - spread) < 0.1 * spread and np.abs(found).max() <= 0.05
