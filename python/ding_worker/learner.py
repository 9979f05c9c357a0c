"""The learner of a loop with a policy in Python, and its hooks, under DI-engine's names; workers.py has an example."""

import logging
import os

import numpy as np

from ding_worker.workers import _class_of, _mode, _settings

POSITIONS = ("before_run", "after_run", "before_iter", "after_iter")
_log = logging.getLogger("ding_worker")


class LearnerHook:
    """Called with the learner at a position; the lower the priority, the earlier."""

    def __init__(self, *args, name="hook", position="after_iter", priority=100, ext_args=None, **kwargs):
        if position not in POSITIONS:
            raise ValueError(f"the position of the hook {name!r} is {position!r}, expected one of: {', '.join(POSITIONS)}")
        if priority < 0:
            raise ValueError(f"the priority of the hook {name!r} is {priority}, expected at least 0")
        self.name, self.position, self.priority = name, position, priority
        self.ext_args = ext_args or {}

    def __call__(self, engine):
        raise NotImplementedError(f"the hook {self.name!r} has no __call__")


class _Periodic(LearnerHook):
    """A hook of every `freq` iterations; at the end of a run, of all."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._freq = self.ext_args.get("freq", 1)
        if self._freq < 1:
            raise ValueError(f"the hook {self.name!r} has freq {self._freq}, expected at least 1")

    def __call__(self, engine):
        if engine.train_iter % self._freq == 0 or self.position == "after_run":
            self._act(engine)


class LoadCkptHook(LearnerHook):
    def __call__(self, engine):
        path = self.ext_args.get("load_path", "")
        if path:
            engine.load_checkpoint(path)


class SaveCkptHook(_Periodic):
    def _act(self, engine):
        engine.write_checkpoint(engine.ckpt_name or f"iteration_{engine.train_iter}")


class LogShowHook(_Periodic):
    def _act(self, engine):
        engine.write_log()


_HOOKS = {"load_ckpt": LoadCkptHook, "save_ckpt": SaveCkptHook, "log_show": LogShowHook}


def register_learner_hook(name, hook_type):
    """Makes `{"type": name}` of the setting `hook` a hook of this class."""
    if not (isinstance(hook_type, type) and issubclass(hook_type, LearnerHook)):
        raise TypeError(f"the hook {name!r} is {hook_type!r}, expected a class that derives from LearnerHook")
    _HOOKS[name] = hook_type


def _make_hook(key, value):
    """The hook of a setting: save_ckpt_after_iter=100, or KEY={"type": ..., "position": ..., "priority": ..., "ext_args": {...}}."""
    if isinstance(value, dict):
        arguments = {"name": key, **value}
        kind = arguments.pop("type", None)
    else:
        kind, _, position = key.partition("_before_") if "_before_" in key else key.partition("_after_")
        position = ("before_" if "_before_" in key else "after_") + position
        given = {"load_path": value} if kind == "load_ckpt" else {"freq": 1 if position == "after_run" else value}
        arguments = {"name": key, "position": position, "priority": 20, "ext_args": given}
    if kind not in _HOOKS:
        raise ValueError(f"the hook {key!r} has the type {kind!r}, expected one of: {', '.join(_HOOKS)}")
    return _HOOKS[kind](**arguments)


class BaseLearner:
    """Calls the policy's forward() and the hooks around it, counts iterations, writes checkpoints and logs.

    A checkpoint is a file of numpy, `<exp_name>/ckpt/NAME.npz`, with the arrays of the policy's state_dict(); nothing in it is executed.
    """

    config = {
        "log_policy": True,
        "hook": {"load_ckpt_before_run": "", "log_show_after_iter": 100, "save_ckpt_after_iter": 10000, "save_ckpt_after_run": True},
    }

    def __init__(self, cfg=None, policy=None, tb_logger=None, exp_name="default_experiment", instance_name="learner"):
        self._cfg = _settings(cfg, self.config, instance_name)
        self.policy = _mode(policy, instance_name)
        self.exp_name, self.instance_name, self.tb_logger = exp_name, instance_name, tb_logger
        self.train_iter, self.collector_envstep = 0, -1
        self.ckpt_name, self.priority_info = None, None
        self.log_buffer = {}
        self._window, self._closed = {}, False
        self._hooks = {position: [] for position in POSITIONS}
        for key, value in {**self.config["hook"], **self._cfg["hook"]}.items():
            self.register_hook(_make_hook(key, value))
        if self._cfg["log_policy"] and hasattr(policy, "info"):
            _log.info("%s: %s", instance_name, policy.info())

    @classmethod
    def default_config(cls):
        return {**cls.config, "hook": dict(cls.config["hook"]), "cfg_type": cls.__name__ + "Dict"}

    def register_hook(self, hook):
        if not isinstance(hook, LearnerHook):
            raise TypeError(f"the hook is {hook!r}, expected a LearnerHook")
        hooks = self._hooks[hook.position]
        hooks.append(hook)
        hooks.sort(key=lambda each: each.priority)  # stable

    def call_hook(self, position):
        for hook in self._hooks[position]:
            hook(self)

    def train(self, data, envstep=-1, policy_kwargs=None):
        """Learns from `data` once. Returns a list of the dicts that forward() returned, without `priority`."""
        if self._closed:
            raise RuntimeError(f"{self.instance_name} is closed, expected train() before close()")
        self.call_hook("before_iter")
        outputs = self.policy.forward(data, **(policy_kwargs or {}))
        outputs = [outputs] if isinstance(outputs, dict) else outputs
        if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs) or not outputs:
            raise TypeError(f"forward() of the policy returned {type(outputs).__name__}, expected a dict or a list of dicts")
        outputs = [dict(output) for output in outputs]
        self.collector_envstep = envstep
        priority = outputs[-1].pop("priority", None)
        if priority is not None:
            keys = ("replay_buffer_idx", "replay_unique_id")
            # All rows of a sequence have its ids.
            first = data if isinstance(data, dict) else [row[0] if isinstance(row, list) else row for row in data]
            rows = {key: first.get(key) if isinstance(first, dict) else [row.get(key) for row in first] for key in keys}
            ids = {key: value[:, 0] if np.ndim(value) == 2 else value for key, value in rows.items() if value is not None}
            self.priority_info = {"priority": priority, **rows, **ids}
        for output in outputs:
            self.log_buffer = output
            for key, value in output.items():
                if np.ndim(value) == 0 and not isinstance(value, str):
                    self._window.setdefault(key, []).append(float(value))
            self.call_hook("after_iter")
            self.train_iter += 1
        return outputs

    last_iter = property(lambda self: self.train_iter)

    @property
    def learn_info(self):
        return {"learner_step": self.train_iter, "priority_info": self.priority_info, "learner_done": self._closed}

    def write_log(self):
        """Writes the means since the last call: those of the policy's monitor_vars(), or of all numbers."""
        names = self.policy.monitor_vars() if hasattr(self.policy, "monitor_vars") else list(self._window)
        means = {name: np.mean(self._window[name]) for name in names if self._window.get(name)}
        self._window = {}
        _log.info("%s at iteration %d: %s", self.instance_name, self.train_iter, ", ".join(f"{k} {v:.6g}" for k, v in means.items()))
        for axis, at in (("iter", self.train_iter), ("step", self.collector_envstep)):
            for name, value in means.items() if self.tb_logger is not None and at >= 0 else ():
                self.tb_logger.add_scalar(f"{self.instance_name}_{axis}/{name}_avg", value, at)

    def save_checkpoint(self, ckpt_name=None):
        self.write_checkpoint(ckpt_name or f"iteration_{self.train_iter}")

    def write_checkpoint(self, name):
        folder = os.path.join(self.exp_name, "ckpt" if self.instance_name == "learner" else f"ckpt_{self.instance_name}")
        os.makedirs(folder, exist_ok=True)
        arrays = dict(_flat(self.policy.state_dict()))
        counters = {"last_iter": np.int64(self.train_iter), "last_step": np.int64(self.collector_envstep)}
        temporary = os.path.join(folder, f".{name}.tmp.npz")
        np.savez(temporary, **counters, **{f"policy/{key}": value for key, value in arrays.items()})
        os.replace(temporary, os.path.join(folder, f"{name}.npz"))  # never half a file

    def load_checkpoint(self, path):
        """Continues with the policy and the counters of a file."""
        with np.load(path, allow_pickle=False) as file:
            if not {"last_iter", "last_step"} <= set(file.files):
                raise ValueError(f"'{path}' has {', '.join(file.files)}, expected a checkpoint of BaseLearner")
            state = _nested({key: file[key] for key in file.files})
        self.policy.load_state_dict(state.get("policy", {}))
        self.train_iter, self.collector_envstep = int(state["last_iter"]), int(state["last_step"])

    def close(self):
        self._closed = True


def _flat(state, prefix=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}/")
            continue
        array = np.asarray(value)
        if array.dtype == object or "/" in str(key):
            raise ValueError(f"state_dict() has {type(value).__name__} at '{prefix}{key}', expected arrays and numbers by names without a slash")
        yield f"{prefix}{key}", array


def _nested(flat):
    state = {}
    for key, value in flat.items():
        *parents, name = key.split("/")
        inner = state
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[name] = value
    return state


def create_learner(cfg, **kwargs):
    return _class_of({"type": "base", **(cfg or {})}, {"base": BaseLearner}, "learner")(cfg, **kwargs)
