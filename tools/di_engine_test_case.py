"""Networks written from DI-engine's documentation, and what tests of tools/di_engine share. The first arguments of a test program are the tool
and the programs //worker:export and //worker:serial_physics.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
from torch import nn

TOOL, EXPORT, SERIAL = sys.argv[1:4]
del sys.argv[1:4]
_LOADER = importlib.machinery.SourceFileLoader("di_engine_tool", TOOL)
PROGRAM = importlib.util.module_from_spec(importlib.util.spec_from_loader(_LOADER.name, _LOADER))
_LOADER.exec_module(PROGRAM)


def mlp(inputs, hidden, layers):
    blocks = []
    for i in range(layers):
        blocks += [nn.Linear(inputs if i == 0 else hidden, hidden), nn.ReLU()]
    return nn.Sequential(*blocks)


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs))


class FCEncoder(nn.Module):
    def __init__(self, inputs, widths):
        super().__init__()
        self.act = nn.ReLU()
        self.init = nn.Linear(inputs, widths[0])
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.Linear(before, after), self.act]
        self.main = nn.Sequential(*layers)

    def forward(self, x):
        return self.main(self.act(self.init(x)))


class DiscreteHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.Q = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, outputs))

    def forward(self, x):
        return self.Q(x)


class DuelingHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.A = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, outputs))
        self.V = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, 1))

    def forward(self, x):
        a = self.A(x)
        return a - a.mean(dim=-1, keepdim=True) + self.V(x)


class RegressionHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.main = mlp(hidden, hidden, layers)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.last(self.main(x))


class ReparameterizationHead(nn.Module):
    def __init__(self, hidden, outputs, sigma, layers=1):
        super().__init__()
        self.main = mlp(hidden, hidden, layers)
        self.mu = nn.Linear(hidden, outputs)
        if sigma == "independent":
            self.log_sigma_param = nn.Parameter(torch.randn(1, outputs))
        else:
            self.log_sigma_layer = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.mu(self.main(x))


class DQN(nn.Module):
    outputs = "q"

    def __init__(self, dueling=False, head=None):
        super().__init__()
        self.encoder = FCEncoder(4, [128, 128, 64])
        self.head = head or (DuelingHead if dueling else DiscreteHead)(64, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class VAC(nn.Module):
    def __init__(self, continuous, share):
        super().__init__()
        self.share = share
        if share:
            self.encoder = FCEncoder(4, [32, 64])
        else:
            self.actor_encoder, self.critic_encoder = FCEncoder(4, [32, 64]), FCEncoder(4, [16, 64])
        self.critic_head = RegressionHead(64, 1)
        self.actor_head = ReparameterizationHead(64, 2, "independent") if continuous else DiscreteHead(64, 3)
        encoders = [self.encoder] * 2 if share else [self.actor_encoder, self.critic_encoder]
        self.actor = nn.ModuleList([encoders[0], self.actor_head])
        self.critic = nn.ModuleList([encoders[1], self.critic_head])
        self.outputs = "mean" if continuous else "logit"

    def forward(self, x):
        return self.actor_head(self.actor[0](x))


class DistributionHead(DiscreteHead):
    """The head of C51: logits of atoms."""

    def __init__(self, hidden, outputs, atoms):
        super().__init__(hidden, outputs * atoms)
        self.atoms = torch.linspace(-3, 5, atoms)

    def forward(self, x):
        return (self.Q(x).view(len(x), -1, len(self.atoms)).softmax(-1) * self.atoms).sum(-1)


class QuantileMeanHead(DiscreteHead):
    """The head of QRDQN."""

    def __init__(self, hidden, outputs, quantiles):
        super().__init__(hidden, outputs * quantiles)
        self.quantiles = quantiles

    def forward(self, x):
        return self.Q(x).view(len(x), -1, self.quantiles).mean(-1)


class QuantileHead(DiscreteHead):
    """The head of IQN, at the middles of equal parts instead of random fractions."""

    def __init__(self, hidden, outputs, quantiles, cosines):
        super().__init__(hidden, outputs)
        self.iqn_fc = nn.Linear(cosines, hidden)
        self.tau = (torch.arange(quantiles).view(-1, 1) + 0.5) / quantiles

    def forward(self, x):
        features = torch.relu(self.iqn_fc(torch.cos(self.tau * np.pi * torch.arange(1, self.iqn_fc.in_features + 1))))
        return self.Q(x.unsqueeze(1) * features).mean(1)


class NoiseLinearLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        for name, shape in (("weight", (outputs, inputs)), ("bias", (outputs,))):
            setattr(self, f"{name}_mu", nn.Parameter(torch.randn(shape) / 8))
            setattr(self, f"{name}_sigma", nn.Parameter(torch.rand(shape)))
            self.register_buffer(f"{name}_eps", torch.zeros(shape))

    def forward(self, x):
        return nn.functional.linear(x, self.weight_mu, self.bias_mu)


class RainbowHead(nn.Module):
    def __init__(self, hidden, outputs, atoms):
        super().__init__()
        self.A = nn.Sequential(nn.Sequential(NoiseLinearLayer(hidden, hidden), nn.ReLU()), nn.Sequential(NoiseLinearLayer(hidden, outputs * atoms)))
        self.Q = nn.Sequential(nn.Sequential(NoiseLinearLayer(hidden, hidden), nn.ReLU()), nn.Sequential(NoiseLinearLayer(hidden, atoms)))
        self.atoms = torch.linspace(-10, 10, atoms)

    def forward(self, x):
        a = self.A(x).view(len(x), -1, len(self.atoms))
        q = self.Q(x).unsqueeze(1) + a - a.mean(dim=1, keepdim=True)
        return (q.softmax(-1) * self.atoms).sum(-1)


def qac_actor(sac, hidden, layers):
    head = ReparameterizationHead(hidden, 2, "conditioned", layers) if sac else RegressionHead(hidden, 2, layers)
    return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), head)


def qac_critic(twin, hidden):
    critics = [nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), RegressionHead(hidden, 1)) for _ in range(2 if twin else 1)]
    return nn.ModuleList(critics) if twin else critics[0]


class QAC(nn.Module):
    """As in earlier versions."""

    outputs, layout = "mean", "plain"

    def __init__(self, sac, twin=True, layers=1, critic_hidden=64):
        super().__init__()
        self.actor, self.critic = qac_actor(sac, 64, layers), qac_critic(twin, critic_hidden)

    @property
    def critics(self):
        return self.critic

    def forward(self, x):
        return self.actor(x)


class EncoderQAC(nn.Module):
    """As in later versions, with an encoder that vectors do not need."""

    outputs, layout = "mean", "encoder"

    def __init__(self, sac, twin=True, layers=1, critic_hidden=64):
        super().__init__()
        self.actor_encoder, self.critic_encoder = nn.Identity(), nn.Identity()
        self.actor_head, self.critic_head = qac_actor(sac, 64, layers), qac_critic(twin, critic_hidden)
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    @property
    def critics(self):
        return self.critic_head

    def forward(self, x):
        return self.actor_head(self.actor_encoder(x))


def best(model, outputs, low, high):
    """The best actions by DI-engine's rules."""
    if model.outputs != "mean":
        return outputs.argmax(axis=1)
    unit = np.tanh(outputs) if isinstance(model, (QAC, EncoderQAC)) else np.clip(outputs, -1, 1)
    return low + (unit + 1) / 2 * (high - low)


class DiEngineTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        torch.manual_seed(0)

    def run_tool(self, arguments):
        """What the program prints, and what it ends with: an error, or None. In this process, because numpy takes long to load."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), mock.patch.object(sys, "argv", ["di_engine", *map(str, arguments)]):
            try:
                PROGRAM.main()
            except SystemExit as end:
                return printed.getvalue(), str(end)
        return printed.getvalue(), None

    def tool(self, *arguments):
        printed, error = self.run_tool(arguments)
        self.assertIsNone(error)
        return printed

    def refused(self, *arguments):
        printed, error = self.run_tool(arguments)
        self.assertIsNotNone(error, printed)
        return error

    def save(self, model, **more):
        torch.save({"model": model.state_dict(), "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]}, "last_iter": 7, "last_step": 90, **more}, self.folder / "in.pth.tar")
