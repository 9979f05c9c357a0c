"""A policy of ours in a loop in Python, under DI-engine's names:

    policy = ding_worker.create_policy("dqn", env="CartPole-v1", policy={"learn": {"batch_size": 64}})
    collector = ding_worker.create_serial_collector({"type": "sample"}, env=env, policy=policy.collect_mode)
    learner = ding_worker.create_learner({}, policy=policy.learn_mode)

The modes share one policy. One thread at a time.
"""

import numpy as np

from ding_worker._extension import _core
from ding_worker.learner import _flat, _nested
from ding_worker.replay_buffer import _pick, _rows
from ding_worker.training import _read, _settings


def create_policy(config, *, env=None, enable_field=("collect", "eval", "learn", "command"), **fields):
    """The Policy of a config, with the arguments of train().

    The loop, its envs and its buffer are yours, so nothing of the config that is about them has an effect: also nstep and discount_factor
    of a policy with a buffer are those of the buffer.
    """
    text, source = _read(config, "", False)
    core = _core.LearningPolicy(text, source, _settings(env, fields, text))
    return Policy(core, enable_field)


def _stack(rows):
    """Nested columns of nested dicts of arrays and numbers; of lists of dicts, which are sequences, columns of sequences."""
    rows = [_stack(row) if isinstance(row, (list, tuple)) else row for row in rows]
    first = rows[0]
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != first.keys():
            found = list(row) if isinstance(row, dict) else type(row).__name__
            raise ValueError(f"row {i} is {found}, expected a dict with the keys of row 0: {list(first)}")
    return {key: _stack([row[key] for row in rows]) if isinstance(first[key], dict) else np.stack([row[key] for row in rows]) for key in first}


class Policy:
    """Has the modes of `enable_field`; the others are None, as is one that the policy does not have."""

    def __init__(self, core, enable_field):
        self._core = core
        modes = {"collect": CollectMode, "eval": EvalMode, "learn": LearnMode, "command": CommandMode}
        unknown = sorted(set(enable_field) - set(modes))
        if unknown:
            raise ValueError(f"enable_field has {unknown}, expected some of {list(modes)}")
        for name, mode in modes.items():
            setattr(self, f"{name}_mode", mode(core) if name in enable_field and name in core.modes else None)

    def __repr__(self):
        return self._core.attributes.get("info", "a policy that does not learn")


class _Mode:
    def __init__(self, core):
        self._core = core

    def get_attribute(self, name):
        attributes = self._core.attributes
        if name not in attributes:
            raise KeyError(f"the policy has no attribute {name!r}, expected one of {list(attributes)}")
        return attributes[name]


class EvalMode(_Mode):
    _collects, _name = False, "eval"

    def __init__(self, core):
        super().__init__(core)
        start = {"envstep": 0, "learner_step": 0}
        self._known = set(core.settings(self._name, start)) if "command" in core.modes else set()

    def forward(self, data, **settings):
        """{env: {"action": ...}} for {env: observation}. `settings` are those of command_mode."""
        unknown = sorted(set(settings) - self._known)
        if unknown:
            raise ValueError(f"the policy has no settings {unknown} to {self._name}, expected some of {sorted(self._known)}")
        if not isinstance(data, dict):
            raise TypeError(f"the observations are a {type(data).__name__}, expected a dict of them by the number of the env")
        if not data:
            return {}
        rows = list(data.values())
        obs = _stack(rows) if isinstance(rows[0], dict) else np.stack(rows)
        outputs = self._core.act(self._collects, obs, list(data), settings)
        return {env: _pick(outputs, i) for i, env in enumerate(data)}

    def reset(self, data_id=None):
        """Episodes begin in these envs, or in all: drops their memory."""
        if data_id is None or len(data_id):
            self._core.reset(self._collects, [] if data_id is None else list(data_id))


class CollectMode(EvalMode):
    """Explores; outputs have what the policy stores beside the action."""

    _collects, _name = True, "collect"

    def process_transition(self, obs, model_output, timestep):
        ended = timestep.done and not timestep.info["truncated"]
        row = {"obs": obs, **model_output, "reward": np.float32(timestep.reward), "next_obs": timestep.obs}
        return {**row, "terminated": bool(ended), "truncated": bool(timestep.done and not ended)}

    def get_train_sample(self, data):
        """Samples of consecutive transitions of one env."""
        return _rows(self._core.get_train_sample(_stack(data))) if data else []


class LearnMode(_Mode):
    def forward(self, data, **settings):
        """Learns from a batch: a dict of columns, as sample(columns=True) returns, or a list of samples.

        Returns the numbers of each optimizer step, such as total_loss, in a list of dicts.
        """
        if not isinstance(data, dict) and not (isinstance(data, (list, tuple)) and data):
            raise ValueError(f"the batch is {data!r}, expected a dict of columns, or a list of samples that is not empty")
        return self._core.learn(data if isinstance(data, dict) else _stack(data), settings)

    def monitor_vars(self):
        return self._core.attributes["monitor_vars"]

    def info(self):
        return self._core.attributes["info"]

    def state_dict(self):
        """A copy of parameters, optimizer and random numbers, as nested dicts of arrays."""
        return _nested(self._core.state_dict())

    def load_state_dict(self, state):
        self._core.load_state_dict(dict(_flat(state)))


class CommandMode(_Mode):
    """The settings of the other modes at a progress: {"envstep": ..., "learner_step": ...}."""

    def _settings(self, mode, info):
        if set(info) != {"envstep", "learner_step"}:
            raise ValueError(f"the progress has {sorted(info)}, expected ['envstep', 'learner_step']")
        return self._core.settings(mode, info)

    def get_setting_collect(self, info):
        return self._settings("collect", info)

    def get_setting_learn(self, info):
        return self._settings("learn", info)

    def get_setting_eval(self, info):
        return self._settings("eval", info)
