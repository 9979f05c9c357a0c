"""Replay buffers under the names of DI-engine's `ding.worker.replay_buffer`; the work is done in C++.

    buffer = NaiveReplayBuffer({"replay_buffer_size": 10000})
    buffer.push({"obs": obs, "action": 1, "reward": 1.0, "next_obs": next_obs, "done": False}, cur_collector_envstep=1)
    batch = buffer.sample(64, cur_learner_iter=0, columns=True)  # {"obs": [64, 4], "action": [64], ...}

A transition is a dict, which may be nested, of numbers and arrays. All transitions have the keys, types and shapes of the first
one. `obs`, `next_obs` and `reward` are required; `done` (or `terminated` and `truncated`) ends an episode, and further keys are
stored. float64 becomes float32. A buffer copies what it is given, and stores each observation once.

Buffers may be used by several threads.
"""

import json
import math
import warnings

from ding_worker._extension import _core, config_text

# Fields of BufferConfig; all other keys are fields of the params of a type.
_COMMON = ("replay_buffer_size", "replay_buffer_bytes", "storage", "path", "periodic_thruput_seconds", "nstep", "discount_factor", "selector")
# Keys of DI-engine that say what our buffers do anyway, with the values that say it.
_HOLDS = {"deepcopy": (False, True), "enable_track_used_data": (False,), "cfg_type": None}


def _rows(columns):
    """The rows of nested columns, a nested dict each."""
    values = [_rows(column) if isinstance(column, dict) else column for column in columns.values()]
    return [dict(zip(columns, row)) for row in zip(*values)]


def _pick(columns, index):
    return {key: _pick(column, index) if isinstance(column, dict) else column[index] for key, column in columns.items()}


class IBuffer(_core.Buffer):
    """The base of all buffers. `cfg` is a dict, or an EasyDict, whose missing keys have the values of `default_config()`.

    `instance_name` is the beginning of error messages. `cfg["seed"]` (default 0) makes draws repeatable.
    """

    _type = ""
    _params = None  # the message of the type's params
    _defaults = {}

    @classmethod
    def default_config(cls):
        """A new dict with all keys that `cfg` may have, and their defaults."""
        common = {"type": cls._type, "replay_buffer_size": 10000, "seed": 0, "nstep": 1, "discount_factor": 0.99}
        return json.loads(json.dumps({**common, **cls._defaults}))

    def __init__(self, cfg, tb_logger=None, exp_name="default_experiment", instance_name="buffer"):
        if tb_logger is not None:
            warnings.warn("buffers write no metrics to a tb_logger from Python: it is not used", stacklevel=2)
        config = {**self.default_config(), **dict(cfg)}
        found = config.pop("type")
        if found != self._type:
            raise ValueError(f"{instance_name}: type is '{found}', expected '{self._type}', or create_buffer(cfg)")
        self.exp_name = exp_name
        self.instance_name = instance_name
        self._size = config["replay_buffer_size"]
        seed = config.pop("seed")
        text = self._config_text(config, instance_name)
        super().__init__(text, seed, instance_name, callable(config.get("set_buffer_size")))
        self._made = True

    def _config_text(self, config, name):
        common, params = {"type": self._type}, {}
        if "replay_buffer_bytes" in config:
            del config["replay_buffer_size"]
        for key, value in config.items():
            if key in _HOLDS:
                if _HOLDS[key] is not None and value not in _HOLDS[key]:
                    raise ValueError(f"{name}: {key} is {value}, expected {_HOLDS[key][0]}: set what owns the data to delete it")
            elif key in _COMMON:
                common[key] = value
            elif not callable(value) and not (value is None or value == math.inf):  # not set: no limit
                params[key] = value
        monitor = params.get("monitor", {})
        if "periodic_thruput" in monitor:
            common["periodic_thruput_seconds"] = monitor["periodic_thruput"].get("seconds", 60)
            params["monitor"] = {key: value for key, value in monitor.items() if key != "periodic_thruput"}
        if params and self._params is None:
            raise ValueError(f"{name}: unknown keys {sorted(params)}, expected {sorted(self.default_config())}")
        if self._params is not None:
            common["params"] = {f"[type.googleapis.com/ding.{self._params}]": params}
        return config_text(common)

    @property
    def replay_buffer_size(self):
        """The capacity in rows; None if it was given in bytes."""
        return self._size

    def start(self):
        """Does nothing: buffers need no thread."""

    def sample(self, size, cur_learner_iter, sample_range=None, replace=False, columns=False):
        """Draws `size` rows: a list of dicts, or with `columns` one dict of arrays [size, ...].

        None, with a line in the log, if there are too few rows. `sample_range` is a slice by age: slice(-10, None) are the newest 10.
        Besides the keys that were pushed, there are discount, n_step and replay_unique_id; `reward + discount * V(next_obs)` is the
        target. Arrays belong to the caller, and hold the memory of the batch.
        """
        if size == 0:
            return []
        batch = self._sample(size, cur_learner_iter, sample_range, replace)
        return batch if columns or batch is None else _rows(batch)

    def update(self, info):
        """Sets priorities: the keys priority, replay_unique_id and replay_buffer_idx. Without priorities it does nothing."""
        if "priority" in info:
            self._update(info)

    def load_state_dict(self, _state_dict, deepcopy=False):
        """Replaces the content by that of a state_dict(); a dict with the key `data` alone is pushed."""
        if set(_state_dict) == {"data"}:
            self.push(_state_dict["data"], -1)
        else:
            self._load_state_dict(_state_dict)

    def __repr__(self):
        if not hasattr(self, "_made"):
            return object.__repr__(self)
        return f"<{type(self).__name__} '{self.instance_name}', {'closed' if self.closed else f'{self.count()} to draw from'}>"


class NaiveReplayBuffer(IBuffer):
    """Transitions, drawn uniformly."""

    _type = "naive"
    _defaults = {"deepcopy": False, "enable_track_used_data": False, "periodic_thruput_seconds": 60}

    def update(self, info):
        """Does nothing."""


class AdvancedReplayBuffer(IBuffer):
    """Transitions, drawn in proportion to their priorities. Batches have IS, priority, use, staleness and replay_buffer_idx, too."""

    _type = "advanced"
    _params = "AdvancedBufferConfig"
    _defaults = {
        "replay_buffer_size": 4096,
        "max_use": math.inf,
        "max_staleness": math.inf,
        "alpha": 0.6,
        "beta": 0.4,
        "anneal_step": 100000,
        "enable_track_used_data": False,
        "deepcopy": False,
        "thruput_controller": {
            "push_sample_rate_limit": {"max": math.inf, "min": 0},
            "window_seconds": 30,
            "sample_min_limit_ratio": 1,
        },
        "monitor": {"sampled_data_attr": {"average_range": 5, "print_freq": 200}, "periodic_thruput": {"seconds": 60}},
    }

    @property
    def beta(self):
        """The exponent of the importance weights of the next draw."""
        return self._beta


class ElasticReplayBuffer(NaiveReplayBuffer):
    """Transitions, drawn uniformly from a window of the newest ones.

    `cfg["set_buffer_size"]` is a function of the env steps that returns the window; or window_start, window_end and decay_envsteps say
    how it grows.
    """

    _type = "elastic"
    _params = "ElasticBufferConfig"

    def __init__(self, cfg, tb_logger=None, exp_name="default_experiment", instance_name="buffer"):
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        self._window_at = cfg.get("set_buffer_size")
        self.update(0)

    def push(self, data, cur_collector_envstep=-1, **kwargs):
        """As NaiveReplayBuffer.push(); sets the window."""
        if cur_collector_envstep >= 0:
            self.update(cur_collector_envstep)
        super().push(data, cur_collector_envstep, **kwargs)

    def update(self, envstep):
        """Sets the window to set_buffer_size(envstep)."""
        if self._window_at is not None and not isinstance(envstep, dict):
            self._set_window(self._window_at(envstep))


class SequenceReplayBuffer(NaiveReplayBuffer):
    """Sequences of consecutive transitions of one episode. `cfg` may have the fields of SequenceBufferConfig, such as unroll_len."""

    _type = "sequence"
    _params = "SequenceBufferConfig"

    def sample(self, size, sequence=None, cur_learner_iter=0, sample_range=None, replace=False, columns=False):
        """Draws `size` sequences of `sequence` transitions: a list of lists, or arrays [size, sequence, ...].

        Without `sequence` it is the cfg's unroll_len. Where `mask` is False there is padding, a copy of the last transition.
        """
        if size == 0:
            return []
        batch = self._sample(size, cur_learner_iter, sample_range, replace, sequence)
        if columns or batch is None:
            return batch
        return [_rows(_pick(batch, i)) for i in range(size)]

    def update(self, info):
        """Sets priorities, if cfg["priority"] is set."""
        IBuffer.update(self, info)


class EpisodeReplayBuffer(NaiveReplayBuffer):
    """Whole episodes. The capacity is in transitions."""

    _type = "episode"

    def push(self, data, cur_collector_envstep=-1, **kwargs):
        """Takes one episode (a list of transitions), a list of episodes, or what other buffers take.

        The last transition of an episode in a list of its own ends it.
        """
        if isinstance(data, (list, tuple)) and data and isinstance(data[0], (list, tuple)):
            for episode in data:
                super().push(episode, cur_collector_envstep, ends=True)
        else:
            super().push(data, cur_collector_envstep, **kwargs)

    def sample(self, size, cur_learner_iter, sample_range=None, replace=False, columns=False):
        """Draws `size` episodes: a list of lists of dicts, or arrays [size, T, ...], where `mask` says what is no padding."""
        if size == 0:
            return []
        batch = self._sample(size, cur_learner_iter, sample_range, replace)
        if columns or batch is None:
            return batch
        return [_rows(_pick(batch, (i, mask))) for i, mask in enumerate(batch["mask"])]


class HindsightReplayBuffer(IBuffer):
    """Transitions of envs with goals, a part of which get goals that were achieved later (HER)."""

    _type = "hindsight"
    _params = "HindsightBufferConfig"


class DequeBuffer(IBuffer):
    """The settings of DI-engine's `deque`. `update({"priority": ...})` without ids is about the latest sample."""

    _type = "deque"
    _params = "DequeBufferConfig"
    _drawn = {}

    def sample(self, size, cur_learner_iter, sample_range=None, replace=False, columns=False):
        batch = super().sample(size, cur_learner_iter, sample_range, replace, columns=True)
        if not batch:
            return batch
        self._drawn = {key: batch[key].copy() for key in ("replay_unique_id", "replay_buffer_idx") if key in batch}
        return batch if columns else _rows(batch)

    def update(self, info):
        if "priority" in info and self._drawn:
            self._update({**self._drawn, **info})


_TYPES = {
    cls._type: cls
    for cls in (
        NaiveReplayBuffer,
        AdvancedReplayBuffer,
        ElasticReplayBuffer,
        SequenceReplayBuffer,
        EpisodeReplayBuffer,
        HindsightReplayBuffer,
        DequeBuffer,
    )
}


def get_buffer_cls(cfg):
    """The class of the buffer whose name is cfg["type"], by default "naive"."""
    found = cfg.get("type", "naive")
    if found not in _TYPES:
        raise KeyError(f"no buffer has the type '{found}', expected one of {sorted(_TYPES)}")
    return _TYPES[found]


def create_buffer(cfg, *args, **kwargs):
    """Makes a buffer of the type cfg["type"], with the arguments of its class."""
    return get_buffer_cls(cfg)(cfg, *args, **kwargs)
