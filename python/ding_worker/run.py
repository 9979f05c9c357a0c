"""Reads the folder of a run: its config, result, checkpoints and metrics, and plots it."""

import csv
import json
import os

import numpy as np

from ding_worker.checkpoint import open_checkpoint
from ding_worker.errors import FormatError
from ding_worker.safetensors import parse_json, read_file
from ding_worker.textproto import read_config

_COLUMNS = ["step", "tag", "value"]
DEFAULT_TAG = "evaluator_step/reward_mean"


class Curve:
    """The values of a tag: `steps` int64 [N], ascending, and `values` float64 [N]."""

    def __init__(self, steps, values):
        self.steps = steps
        self.values = values

    def __len__(self):
        return len(self.steps)


def _read_row(row):
    if row["step"] is None or row["tag"] is None or row["value"] is None or None in row:
        raise ValueError("it has another number of columns than the first line")
    return int(row["step"]), row["tag"], float(row["value"])


def read_metrics(path):
    """The curves of a metrics.csv by tag. Of a step that stands twice, as in resumed runs, the last row counts."""
    found = {}
    with open(path, newline="", encoding="utf-8") as file:
        try:
            rows = csv.DictReader(file, strict=True)
            if rows.fieldnames is None or not set(_COLUMNS) <= set(rows.fieldnames):
                raise FormatError(f"'{path}' has the columns {rows.fieldnames}, expected {', '.join(_COLUMNS)}")
            for row in rows:
                step, tag, value = _read_row(row)
                found.setdefault(tag, {})[step] = value
        except FormatError:
            raise
        except (ValueError, csv.Error) as error:  # also text that is not UTF-8
            raise FormatError(f"'{path}' is damaged in line {rows.line_num}: {error}") from None
    curves = {}
    for tag, values in found.items():
        steps = sorted(values)
        curves[tag] = Curve(np.array(steps, dtype=np.int64), np.array([values[step] for step in steps], dtype=np.float64))
    return curves


class Run:
    """A run: `path` is its folder."""

    def __init__(self, path):
        self.path = path

    @property
    def config(self):
        """The resolved config, as nested dicts."""
        return read_config(os.path.join(self.path, "total_config.textproto"))

    @property
    def result(self):
        """The result as a dict; None while the run is not over."""
        path = os.path.join(self.path, "result.json")
        if not os.path.exists(path):
            return None
        try:
            result = parse_json(read_file(path))
        except FormatError as error:
            raise FormatError(f"'{path}': {error}") from None
        return result

    @property
    def checkpoints(self):
        """Names of the checkpoints, the oldest first."""
        folder = os.path.join(self.path, "ckpt")
        names = [name for name in os.listdir(folder) if "." not in name] if os.path.isdir(folder) else []
        found = [name for name in names if os.path.isfile(os.path.join(folder, name, "manifest.json"))]
        return sorted(found, key=lambda name: (os.path.getmtime(os.path.join(folder, name, "manifest.json")), name))

    def checkpoint(self, name):
        return open_checkpoint(os.path.join(self.path, "ckpt", name))

    def policy(self, checkpoint=None, sample=False, seed=0):
        """The policy of a checkpoint, by default the best one, in C++: `act(obs)` returns the action for an observation or for a
        batch [B, ...] of them, an array each, or a dict of arrays by field; `reset()` begins new episodes.

        sample   acts as in training, by `seed`; else by the best actions
        """
        from ding_worker._extension import _core

        return _core.Policy(self._find(checkpoint), sample=sample, seed=seed)

    def evaluate(self, episodes=10, checkpoint=None, seed=0, sample=False, env=None):
        """Plays episodes with the policy of a checkpoint, by default the best one. Returns a dict: mean, interval (95 % confidence),
        median, min, max, returns, mean_length, env_step, train_iter ...

        env   a dict of fields of the config's `env` that differ: {"params": {"wind": 5}}
        """
        from ding_worker._extension import _core
        from ding_worker.training import flat_settings

        text, error = _core.evaluate(self._find(checkpoint), episodes, seed, sample, flat_settings({"env": env or {}}))
        if error is not None:
            raise error
        return json.loads(text)

    def _find(self, checkpoint):
        from ding_worker._extension import _core

        return _core.find_checkpoint(self.path if checkpoint is None else os.path.join(self.path, "ckpt", checkpoint))

    @property
    def metrics(self):
        """The curves of the run by tag."""
        return read_metrics(os.path.join(self.path, "log", "metrics.csv"))

    def plot(self, tag=DEFAULT_TAG, ax=None):
        """Draws the curve of a tag with matplotlib, into `ax` or a new picture; returns the axes."""
        curves = self.metrics
        if tag not in curves:
            raise ValueError(f"the run '{self.path}' has no '{tag}'; it has: {', '.join(sorted(curves)) or 'nothing'}")
        if ax is None:
            try:
                import matplotlib.pyplot
            except ImportError:
                raise ImportError(
                    "plot() needs matplotlib: apt-get install python3-matplotlib, or pip install matplotlib"
                ) from None
            _, ax = matplotlib.pyplot.subplots()
        ax.plot(curves[tag].steps, curves[tag].values, label=os.path.basename(os.path.abspath(self.path)))
        ax.set_xlabel("env steps" if "_step/" in tag else "train iterations" if "_iter/" in tag else "step")
        ax.set_ylabel(tag)
        ax.legend()
        return ax


def open_run(path):
    """The run in the folder `path`; FileNotFoundError if there is none."""
    path = os.fspath(path)
    if not os.path.isfile(os.path.join(path, "total_config.textproto")):
        raise FileNotFoundError(f"'{path}' is not the folder of a run: it has no total_config.textproto")
    return Run(path)
