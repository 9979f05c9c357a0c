"""Spaces with the attributes of Gymnasium's, which is not installed where the tests run."""

import numpy as np


class Box:

    def __init__(self, low, high, shape=None, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape) if shape is not None else np.shape(low)
        self.low = np.broadcast_to(np.asarray(low, dtype=self.dtype), self.shape)
        self.high = np.broadcast_to(np.asarray(high, dtype=self.dtype), self.shape)


class Discrete:

    def __init__(self, n, start=0):
        self.n, self.start, self.shape, self.dtype = n, start, (), np.dtype(np.int64)


class MultiDiscrete:

    def __init__(self, nvec, start=None):
        self.nvec, self.dtype = np.asarray(nvec, dtype=np.int64), np.dtype(np.int64)
        self.shape = self.nvec.shape
        self.start = np.zeros(self.shape, np.int64) if start is None else np.asarray(start)


class MultiBinary:

    def __init__(self, n):
        self.n, self.shape, self.dtype = n, (n,) if isinstance(n, int) else tuple(n), np.dtype(np.int8)


class Dict:

    def __init__(self, spaces):
        self.spaces = spaces


class Tuple:

    def __init__(self, spaces):
        self.spaces = tuple(spaces)


class Graph:
    """A space that ding_worker does not have."""


class Text:
    """Likewise."""
