"""Makes the values of actions out of distributions of returns: c51 and rainbow, qrdqn, iqn.

    head "q" [B, A * N] ──► distribution [B, A, N] ──► its mean, "q" [B, A]

N are atoms, quantiles or fractions. docs/reference/checkpoint_format.md lists the parameters.
"""

import numpy as np

from ding_worker.errors import FormatError


class _Atoms:
    """c51, rainbow: softmax over atoms between v_min and v_max."""

    def __init__(self, config):
        self.head_values = _count(config, "atoms", 51)
        low, high = float(config.get("v_min", -10)), float(config.get("v_max", 10))
        self._atoms = np.linspace(low, high, self.head_values)

    def load(self, take, width, activation):
        pass

    def num_actions(self, width):
        return _parts(width, self.head_values)

    def __call__(self, x, head):
        logit = head(x).reshape(len(x), -1, self.head_values)
        weights = np.exp(logit - logit.max(axis=2, keepdims=True))
        probability = weights / weights.sum(axis=2, keepdims=True)
        return {"q": probability @ self._atoms, "distribution": probability}


class _Quantiles:
    """qrdqn: quantiles at the middles of N equal parts of [0, 1]."""

    def __init__(self, config):
        self.head_values = _count(config, "quantiles", 200)

    def load(self, take, width, activation):
        pass

    def num_actions(self, width):
        return _parts(width, self.head_values)

    def __call__(self, x, head):
        quantile = head(x).reshape(len(x), -1, self.head_values)
        return {"q": quantile.mean(axis=2), "distribution": quantile}


class _Fractions:
    """iqn: quantiles at fractions that go into the network; those that act best are the middles of N equal parts."""

    head_values = 1

    def __init__(self, config):
        count = _count(config, "fractions", 32)
        fractions = (np.arange(count) + 0.5) / count
        self._cosines = np.cos(np.pi * np.arange(_count(config, "cosines", 64)) * fractions[:, np.newaxis])
        self._features = None

    def load(self, take, width, activation):
        """Computes the features [N, width] of the fractions, which no observation changes."""
        weight = take("cosine/0/weight", (width, self._cosines.shape[1]), required=True)
        bias = take("cosine/0/bias", (width,), required=True)
        self._features = activation(self._cosines @ weight.T + bias)

    def num_actions(self, width):
        return width

    def __call__(self, x, head):
        product = x[:, np.newaxis] * self._features
        quantile = head(product.reshape(-1, product.shape[2])).reshape(*product.shape[:2], -1).transpose(0, 2, 1)
        return {"q": quantile.mean(axis=2), "distribution": quantile}


_TYPES = {"c51": _Atoms, "rainbow": _Atoms, "qrdqn": _Quantiles, "iqn": _Fractions}


def make_values(distribution):
    """What makes the values of a Description's `distribution`; None if it has none."""
    if distribution is None:
        return None
    type_, config = distribution
    return _TYPES[type_](config)


def _count(config, name, default):
    value = config.get(name, default)
    if not isinstance(value, int) or value < 1:
        raise FormatError(f"the config has {name} {value!r}, expected a count of at least 1")
    return value


def _parts(width, size):
    if width % size:
        raise FormatError(f"the head 'q' has {width} outputs, expected a multiple of {size}, as the config says")
    return width // size
