"""Collectors, evaluators and the learner of a loop with a policy in Python, under DI-engine's names.

    env = ding_worker.make_vec("CartPole-v1", num_envs=8)
    collector = ding_worker.create_serial_collector({"type": "sample"}, env=env, policy=policy.collect_mode)
    evaluator = ding_worker.create_serial_evaluator({"stop_value": 195, "n_episode": 8}, env=eval_env, policy=policy.eval_mode)
    learner = ding_worker.create_learner({}, policy=policy.learn_mode)

The modes are objects of yours, with methods as in DI-engine:

    collect   forward({env: obs}, **kwargs) -> {env: {"action": ...}}, process_transition(obs, output, timestep) -> dict,
              get_train_sample(transitions) -> samples, reset(envs or None)
    eval      forward, reset
    learn     forward(samples, **kwargs) -> dict of numbers; state_dict(), load_state_dict(dict) for checkpoints; monitor_vars()

A timestep has obs, reward, done and info; info has `truncated`, and at the end of an episode `eval_episode_return`. Envs and buffers are in
C++, the rest runs in Python. With a policy of ours, ding_worker.train() is faster. One thread at a time; errors of a policy pass through.
"""

import collections
import logging
import math
import time

import numpy as np

from ding_worker.rollout import INF, TrajBuffer, to_tensor_transitions

BaseEnvTimestep = collections.namedtuple("BaseEnvTimestep", ["obs", "reward", "done", "info"])
_log = logging.getLogger("ding_worker")
_ALWAYS = {"type": None, "cfg_type": None, "import_names": ()}


def _settings(cfg, defaults, name):
    """The settings of a dict or an EasyDict, with the defaults."""
    unknown = sorted(set(cfg or {}) - set(defaults) - set(_ALWAYS))
    if unknown:
        raise ValueError(f"the {name} has no settings {unknown}, expected some of {sorted(defaults)}")
    return {**defaults, **(cfg or {})}


def _attribute(policy, name, default=None):
    """`policy.get_attribute(name)`, as DI-engine's modes have it, or the attribute itself."""
    if hasattr(policy, "get_attribute"):
        try:
            return policy.get_attribute(name)
        except (AttributeError, KeyError, NotImplementedError):
            return default
    return getattr(policy, name, default)


def _needed(value, name, owner):
    if value is None:
        raise ValueError(f"the {owner} has no {name}, expected one: {name}=...")
    return value


def _mode(policy, owner):
    if not callable(getattr(_needed(policy, "policy", owner), "forward", None)):
        raise TypeError(f"the policy of the {owner} has no forward(), expected a mode of a policy, such as policy.collect_mode")
    return policy


class _Player:
    """Steps the envs with a policy."""

    def __init__(self, env, policy, name):
        self.env, self.policy, self._name = env, policy, name
        self._obs = None

    def reset(self):
        self._obs = _copy(self.env.reset()[0])  # Those of envs with copy=False change.
        self._returns = np.zeros(self.env.num_envs)
        self._last_actions = None
        self.policy.reset()

    def step(self, active, kwargs):
        """The observation, output and timestep of each active env by its number. The others take any action."""
        obs = {i: _row(self._obs, i) for i in active}
        outputs = self.policy.forward(obs, **kwargs)
        missing = [i for i in active if i not in outputs]
        if missing:
            raise ValueError(f"{self._name}: forward() returned no output for the envs {missing}, expected one for each of {list(active)}")
        chosen = {i: np.asarray(outputs[i]["action"]) for i in active}
        like = chosen[active[0]]
        actions = np.stack([chosen[i].reshape(like.shape) if i in chosen else like for i in range(self.env.num_envs)])
        if actions.ndim > 1 and self.env.single_action_space.shape == ():
            actions = actions[..., 0]  # an action [1], as some policies have it
        after, reward, terminated, truncated, infos = self.env.step(actions)
        self._obs = _copy(after)
        self._returns += reward
        steps = {}
        for i in active:
            done = bool(terminated[i] or truncated[i])
            info = {"truncated": bool(truncated[i] and not terminated[i])}
            if done:
                info["eval_episode_return"] = float(self._returns[i])
            last = _copy(infos["final_obs"][i]) if done else _row(self._obs, i)
            steps[i] = (obs[i], outputs[i], BaseEnvTimestep(last, np.float32(reward[i]), done, info))
        self._returns[terminated | truncated] = 0
        return steps


def _row(obs, i):
    return {key: _row(value, i) for key, value in obs.items()} if isinstance(obs, dict) else obs[i]


def _copy(obs):
    return {key: _copy(value) for key, value in obs.items()} if isinstance(obs, dict) else np.array(obs)


class _Worker:
    """What collectors and evaluators share."""

    config = {}

    def __init__(self, cfg=None, env=None, policy=None, tb_logger=None, exp_name="default_experiment", instance_name=None):
        self._name = instance_name or self._default_name
        self._cfg = _settings(cfg, self.config, self._name)
        self._tb_logger = tb_logger
        self._player = None
        self.reset(_mode(policy, self._name), _needed(env, "env", self._name))

    @classmethod
    def default_config(cls):
        return {**cls.config, "cfg_type": cls.__name__ + "Dict"}

    def reset(self, policy=None, env=None):
        """Begins anew, with another policy or env where one is given."""
        old = self._player
        self._player = _Player(old.env if env is None else env, old.policy if policy is None else policy, self._name)
        self._player.reset()
        self._begin()

    def reset_policy(self, policy=None):
        self.reset(policy=policy)

    def reset_env(self, env=None):
        self.reset(env=env)

    def close(self):
        self._player.env.close()

    def _write(self, values, train_iter, envstep):
        _log.info("%s: %s", self._name, ", ".join(f"{key} {value:.6g}" for key, value in values.items()))
        for axis, at in (("iter", train_iter), ("step", envstep)):
            for key, value in values.items() if self._tb_logger is not None and at >= 0 else ():
                self._tb_logger.add_scalar(f"{self._name}_{axis}/{key}", value, at)


def _statistics(returns):
    return {"reward_mean": np.mean(returns), "reward_std": np.std(returns), "reward_max": np.max(returns), "reward_min": np.min(returns)}


class _Collector(_Worker):
    _default_name = "collector"

    def _begin(self):
        env_num = self._player.env.num_envs
        self._traj = [TrajBuffer(INF, deepcopy=self._cfg["deepcopy_obs"]) for _ in range(env_num)]
        self.envstep = 0
        self._episodes, self._returns = 0, []
        self._last_log = 0
        self._since = (time.monotonic(), 0)

    def _target(self, value, name):
        value = _attribute(self._player.policy, name) if value is None else value
        if value is None:
            raise RuntimeError(f"{self._name}: collect() has no {name}, expected it as an argument, or as an attribute of the policy")
        if value < 0:
            raise ValueError(f"{self._name}: {name} is {value}, expected 0 or more")
        return value

    def _collect_step(self, active, train_iter, kwargs):
        """Steps; yields (env, whether its episode has ended)."""
        for i, (obs, output, timestep) in self._player.step(active, kwargs or {}).items():
            transition = self._player.policy.process_transition(obs, output, timestep)
            self._traj[i].append({**transition, "collect_iter": train_iter})
            self.envstep += 1
            if timestep.done:
                self._episodes += 1
                self._returns.append(timestep.info["eval_episode_return"])
            yield i, timestep.done

    def _take(self, i):
        data = list(self._traj[i])
        self._traj[i].clear()
        return to_tensor_transitions(data, shallow_copy_next_obs=not self._cfg["deepcopy_obs"])

    def _log_if_due(self, train_iter):
        if train_iter - self._last_log < self._cfg["collect_print_freq"] or not self._returns:
            return
        seconds = time.monotonic() - self._since[0]
        values = {"episode_count": len(self._returns), "envstep_count": self.envstep - self._since[1], **_statistics(self._returns)}
        values["avg_envstep_per_sec"] = values["envstep_count"] / max(seconds, 1e-9)
        values.update(total_envstep_count=self.envstep, total_episode_count=self._episodes)
        self._write(values, train_iter, self.envstep)
        self._returns, self._last_log = [], train_iter
        self._since = (time.monotonic(), self.envstep)


class SampleSerialCollector(_Collector):
    """Collects samples of the policy's get_train_sample(). Trajectories go on in the next collect() unless the policy is on_policy."""

    config = {"deepcopy_obs": False, "collect_print_freq": 100}

    def _traj_len(self, target):
        policy = self._player.policy
        if _attribute(policy, "traj_len_inf", False):
            return INF
        n_sample = _attribute(policy, "n_sample", target)
        return max(_attribute(policy, "unroll_len", 1), math.ceil(n_sample / self._player.env.num_envs))

    def collect(self, n_sample=None, train_iter=0, drop_extra=True, random_collect=False, record_random_collect=True, policy_kwargs=None):
        """A list of samples: at least `n_sample` (default: the policy's), with drop_extra exactly so many."""
        target = self._target(n_sample, "n_sample")
        length = self._traj_len(target)
        samples = []
        everyone = range(self._player.env.num_envs)
        while len(samples) < target:
            for i, done in self._collect_step(everyone, train_iter, policy_kwargs):
                if done or len(self._traj[i]) >= length:
                    samples.extend(self._player.policy.get_train_sample(self._take(i)))
                if done:
                    self._player.policy.reset([i])
        if random_collect and not record_random_collect:
            self._returns = []
        self._log_if_due(train_iter)
        if _attribute(self._player.policy, "on_policy", False):
            for traj in self._traj:
                traj.clear()
        return samples[:target] if drop_extra else samples


class EpisodeSerialCollector(_Collector):
    """Collects whole episodes. Each collect() begins new ones in all envs."""

    config = {"deepcopy_obs": False, "collect_print_freq": 100, "get_train_sample": False}

    def collect(self, n_episode=None, train_iter=0, policy_kwargs=None):
        """A list of episodes in the order of their ends, each a list of transitions; with get_train_sample a list of samples."""
        target = self._target(n_episode, "n_episode")
        env_num = self._player.env.num_envs
        if target < env_num:
            raise ValueError(f"{self._name}: n_episode is {target}, expected at least the number of envs, {env_num}")
        self._player.reset()
        active, begun, episodes = list(range(env_num)), env_num, []
        while active:
            for i, done in self._collect_step(list(active), train_iter, policy_kwargs):
                if not done:
                    continue
                episode = self._take(i)
                samples = self._cfg["get_train_sample"]
                episodes.extend(self._player.policy.get_train_sample(episode) if samples else [episode])
                self._player.policy.reset([i])
                if begun < target:
                    begun += 1
                else:
                    active.remove(i)
        self._log_if_due(train_iter)
        return episodes


class InteractionSerialEvaluator(_Worker):
    """Plays `n_episode` episodes, so many in each env that none counts for being short."""

    _default_name = "evaluator"
    config = {"eval_freq": 1000, "n_episode": None, "stop_value": None}

    def _begin(self):
        self._best = -INF
        self._last_eval = -1

    def should_eval(self, train_iter):
        if train_iter == self._last_eval or (train_iter != 0 and train_iter - self._last_eval < self._cfg["eval_freq"]):
            return False
        self._last_eval = train_iter
        return True

    def eval(self, save_ckpt_fn=None, train_iter=-1, envstep=-1, n_episode=None, force_render=False, policy_kwargs=None):
        """(whether the mean return has reached stop_value, {"eval_episode_return": returns}). A best mean calls save_ckpt_fn("ckpt_best")."""
        if force_render:
            raise ValueError("force_render is True, expected False: tools/evaluate --video makes videos")
        n_episode = _needed(self._cfg["n_episode"] if n_episode is None else n_episode, "n_episode", self._name)
        stop_value = _needed(self._cfg["stop_value"], "stop_value", self._name)
        env_num = self._player.env.num_envs
        if n_episode < env_num:
            raise ValueError(f"{self._name}: n_episode is {n_episode}, expected at least the number of envs, {env_num}")
        left = [n_episode // env_num + (i < n_episode % env_num) for i in range(env_num)]
        returns = [[] for _ in range(env_num)]
        self._player.reset()
        steps = 0
        while any(left):
            active = [i for i in range(env_num) if left[i]]
            for i, (_, _, timestep) in self._player.step(active, policy_kwargs or {}).items():
                steps += 1
                if timestep.done:
                    left[i] -= 1
                    returns[i].append(timestep.info["eval_episode_return"])
                    self._player.policy.reset([i])
        flat = [value for of_env in returns for value in of_env]
        mean = float(np.mean(flat))
        self._write({"episode_count": len(flat), "envstep_count": steps, **_statistics(flat)}, train_iter, envstep)
        if mean > self._best:
            self._best = mean
            if save_ckpt_fn is not None:
                save_ckpt_fn("ckpt_best")
        return mean >= stop_value and train_iter > 0, {"eval_episode_return": flat}


_COLLECTORS = {"sample": SampleSerialCollector, "episode": EpisodeSerialCollector}
_EVALUATORS = {"interaction": InteractionSerialEvaluator}


def _class_of(cfg, classes, what, default=None):
    kind = (cfg or {}).get("type", default)
    if kind not in classes:
        raise KeyError(f"there is no {what} of type {kind!r}, expected one of: {', '.join(classes)}")
    return classes[kind]


def get_serial_collector_cls(cfg):
    return _class_of(cfg, _COLLECTORS, "serial collector")


def create_serial_collector(cfg, **kwargs):
    return get_serial_collector_cls(cfg)(cfg, **kwargs)


def create_serial_evaluator(cfg, **kwargs):
    return _class_of(cfg, _EVALUATORS, "serial evaluator", "interaction")(cfg, **kwargs)
