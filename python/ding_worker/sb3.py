"""PPO, A2C, DQN, SAC, TD3 and DDPG with the keywords of Stable-Baselines3:

    model = ding_worker.PPO("MlpPolicy", "CartPole-v1", seed=0).learn(100_000)
    action, _ = model.predict(obs, deterministic=True)
    model.save("ppo_cartpole")
    model = ding_worker.PPO.load("ppo_cartpole")

docs/reference/python_training.md says what differs.
"""

import atexit
import os
import shutil
import tempfile

import numpy as np

from ding_worker._extension import _core
from ding_worker.training import train

# Arguments of Stable-Baselines3 that have no counterpart here, with the values that ask for nothing.
_WITHOUT_COUNTERPART = {
    "_init_setup_model": (True,),
    "device": ("auto", "cpu"),
    "optimize_memory_usage": (False,),
    "replay_buffer_class": (None,),
    "replay_buffer_kwargs": (None,),
    "rms_prop_eps": (1e-5,),
    "rollout_buffer_class": (None,),
    "rollout_buffer_kwargs": (None,),
    "sde_sample_freq": (-1,),
    "stats_window_size": (100,),
    "use_rms_prop": (False,),
    "use_sde": (False,),
    "use_sde_at_warmup": (False,),
}
_ALL = {"gamma": 0.99, "policy_kwargs": None, "seed": None, "tensorboard_log": None, "verbose": 0}
_ON_POLICY = {"gae_lambda": 0.95, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5}
_OFF_POLICY = {
    "action_noise": None,
    "batch_size": 256,
    "buffer_size": 1_000_000,
    "gradient_steps": 1,
    "learning_starts": 100,
    "tau": 0.005,
    "train_freq": 1,
}


def _temporary_folder():
    """A folder that lives as long as the process."""
    folder = tempfile.mkdtemp(prefix="ding_worker_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class _Model:
    _defaults = {}  # the arguments of the class
    _layers = (64, 64)

    def __init__(self, policy, env, learning_rate=None, **arguments):
        self._policy_of = {}  # by `deterministic`
        self._checkpoint = None
        self.run = None  # the Run, after learn()
        self.num_timesteps = 0
        if policy != "MlpPolicy":
            raise ValueError(f"policy is {policy!r}, expected 'MlpPolicy'; ding_worker.train() takes configs with other networks")
        self._env = env if isinstance(env, str) or env is None else getattr(env, "_name", None)
        if self._env is None and env is not None:
            raise ValueError(f"env is a {type(env).__name__}, expected a name, 'module:Class', or what make_vec() returns")
        self._env_num = getattr(env, "num_envs", 1)
        if learning_rate is not None:
            arguments["learning_rate"] = learning_rate
        for name, value in arguments.items():
            if name in _WITHOUT_COUNTERPART and name not in self._defaults:
                expected = _WITHOUT_COUNTERPART[name]
                if value not in expected:
                    raise ValueError(f"{name} is {value!r}, expected {expected[0]!r}: nothing here is like it")
            elif name not in self._defaults:
                raise TypeError(f"{type(self).__name__} has no argument {name!r}, expected one of: {', '.join(sorted(self._defaults))}")
            elif callable(value) and name != "action_noise":
                raise ValueError(f"{name} is a schedule, expected a number; ding_worker.train() takes configs with schedules")
        self._arguments = {**self._defaults, **{name: value for name, value in arguments.items() if name in self._defaults}}

    def learn(self, total_timesteps, callback=None, log_interval=None, tb_log_name=None, reset_num_timesteps=True, progress_bar=False, **hooks):
        """Trains for so many env steps more, and returns the model. `on_evaluation` and `on_checkpoint` are those of train()."""
        if callback is not None:
            raise ValueError("callback is given, expected None: ding_worker has on_evaluation=... and on_checkpoint=...")
        if log_interval is not None:
            raise ValueError(f"log_interval is {log_interval!r}, expected None: the progress line and the files of the run have their own periods")
        if self._env is None:
            raise ValueError(f"the {type(self).__name__} has no env, expected one: give env to load()")
        steps = self.num_timesteps + int(total_timesteps)
        hooks["progress"] = bool(progress_bar or self._arguments["verbose"])
        if self.run is not None:
            self.run = train(resume=True, exp_dir=self.run.path, max_env_step=steps, **hooks)
        else:
            config = self._config(self._arguments, steps)
            if self._checkpoint is not None:
                hook = config["policy"]["learn"].setdefault("learner", {}).setdefault("hook", {})
                hook["load_ckpt_before_run"] = self._checkpoint
            self.run = train(config["policy"]["type"], env=self._env, exp_dir=self._new_folder(tb_log_name), **hooks, **config)
        self._checkpoint = os.path.join(self.run.path, "ckpt", self.run.checkpoints[-1])
        self._policy_of = {}
        self.num_timesteps = self.run.result["env_step"]
        return self

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        """(action, None). `deterministic`: the best action, else one that is drawn as in training."""
        if state is not None:
            raise ValueError("state is given, expected None: the policies of MlpPolicy have no memory")
        if deterministic not in self._policy_of:
            self._policy_of[deterministic] = _core.Policy(self._trained(), sample=not deterministic, seed=self._arguments["seed"] or 0)
        return self._policy_of[deterministic].act(observation), None

    def save(self, path):
        """Writes the newest checkpoint to the archive `path`.zip."""
        path = os.fspath(path)
        shutil.make_archive(path[:-4] if path.endswith(".zip") else path, "zip", self._trained())

    @classmethod
    def load(cls, path, env=None, **arguments):
        """A model that acts; with an env it can learn() on, in a new run that begins with this policy."""
        path = os.fspath(path)
        path = path if os.path.exists(path) else f"{path}.zip"
        if not os.path.exists(path):
            raise FileNotFoundError(f"there is no model '{path}'")
        model = cls("MlpPolicy", env, **arguments)
        model._checkpoint = _temporary_folder()
        shutil.unpack_archive(path, model._checkpoint, "zip")
        return model

    def _trained(self):
        if self._checkpoint is None:
            raise RuntimeError(f"the {type(self).__name__} has not learned, expected learn() or load() before")
        return self._checkpoint

    def _new_folder(self, name):
        log = self._arguments["tensorboard_log"]
        if log is None:
            return os.path.join(_temporary_folder(), "run")
        number = 1
        while os.path.exists(folder := os.path.join(log, f"{name or type(self).__name__}_{number}")):
            number += 1
        return folder

    def _config(self, a, steps):
        """The fields of the config."""
        params, learn, n_sample, other = self._parts(a, steps)
        return {
            "max_env_step": steps,
            **({} if a["seed"] is None else {"seed": a["seed"]}),
            "env.collector_env_num": self._env_num,
            "policy": {"type": type(self).__name__.lower(), "discount_factor": a["gamma"], "params": params, "learn": learn}
            | {"collect": {"n_sample": n_sample}, **other},
        }

    def _networks(self, a, activation):
        """The networks of actor (or Q) and critic by policy_kwargs."""
        kwargs = dict(a["policy_kwargs"] or {})
        layers = kwargs.pop("net_arch", list(self._layers))
        function = kwargs.pop("activation_fn", activation)
        function = getattr(function, "__name__", function)
        if kwargs or function not in ("Tanh", "ReLU"):
            raise ValueError(f"policy_kwargs has {', '.join(kwargs) or function}, expected net_arch, and activation_fn Tanh or ReLU")
        layers = layers if isinstance(layers, dict) else {"pi": layers, "vf": layers, "qf": layers}
        common = {"activation": function.upper(), "head_layer_num": 0}
        return [{"encoder_hidden_size": list(layers[name]), **common} for name in ("pi", "qf" if "qf" in layers else "vf")]

    def _actor_critic(self, a):
        model, critic = self._networks(a, "Tanh")
        return {
            "model": model,
            "critic": critic,
            "learning_rate": a["learning_rate"],
            "gae_lambda": a["gae_lambda"],
            "entropy_weight": a["ent_coef"],
            "value_weight": 2 * a["vf_coef"],  # our value loss is half the mean square
            "grad_clip_norm": a["max_grad_norm"],
            "adam_eps": 1e-5,
        }

    def _replay(self, a):
        """learn, n_sample and the rest of an off-policy algorithm."""
        count, unit = a["train_freq"] if isinstance(a["train_freq"], tuple) else (a["train_freq"], "step")
        if unit != "step":
            raise ValueError(f"train_freq is {a['train_freq']!r}, expected a number of steps")
        n_sample = count * self._env_num
        updates = n_sample if a["gradient_steps"] == -1 else a["gradient_steps"]
        other = {"random_collect_size": a["learning_starts"], "other": {"replay_buffer": {"replay_buffer_size": a["buffer_size"]}}}
        return {"batch_size": a["batch_size"], "update_per_collect": updates}, n_sample, other

    def _continuous(self, a):
        model, critic = self._networks(a, "ReLU")
        rates = {name: a["learning_rate"] for name in ("actor_learning_rate", "critic_learning_rate")}
        return {"model": model, "critic": critic, "target_update_theta": a["tau"], **rates}

    def _noise(self, a):
        """The deviation of an action noise: a number, or that of NormalActionNoise."""
        noise = a["action_noise"]
        deviations = np.unique(0.0 if noise is None else getattr(noise, "_sigma", noise))
        if len(deviations) != 1:
            raise ValueError(f"action_noise has the deviations {deviations}, expected one for all elements")
        return float(deviations[0])


class PPO(_Model):
    _defaults = _ALL | _ON_POLICY | {"learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "n_epochs": 10}
    _defaults |= {"clip_range": 0.2, "clip_range_vf": None, "normalize_advantage": True, "target_kl": None}

    def _parts(self, a, steps):
        params = {
            "actor_critic": self._actor_critic(a),
            "epoch_per_collect": a["n_epochs"],
            "clip_ratio": a["clip_range"],
            "value_clip": a["clip_range_vf"] or 0,
            "adv_norm": a["normalize_advantage"],
            "max_kl": 1.5 * (a["target_kl"] or 0),
        }
        return params, {"batch_size": a["batch_size"]}, a["n_steps"] * self._env_num, {}


class A2C(_Model):
    _defaults = _ALL | _ON_POLICY | {"learning_rate": 7e-4, "n_steps": 5, "gae_lambda": 1.0, "normalize_advantage": False}

    def _parts(self, a, steps):
        return {"actor_critic": self._actor_critic(a), "adv_norm": a["normalize_advantage"]}, {}, a["n_steps"] * self._env_num, {}


class DQN(_Model):
    _defaults = _ALL | _OFF_POLICY | {"learning_rate": 1e-4, "batch_size": 32, "tau": 1.0, "train_freq": 4, "max_grad_norm": 10}
    _defaults |= {"target_update_interval": 10_000, "exploration_fraction": 0.1}
    _defaults |= {"exploration_initial_eps": 1.0, "exploration_final_eps": 0.05}
    del _defaults["action_noise"]

    def _parts(self, a, steps):
        learn, n_sample, other = self._replay(a)
        if a["tau"] == 1:
            target = {"target_update_freq": max(1, round(a["target_update_interval"] / n_sample * learn["update_per_collect"]))}
        else:
            target = {"target_update_theta": a["tau"]}
        eps = {"type": "LINEAR", "start": a["exploration_initial_eps"], "end": a["exploration_final_eps"]}
        eps["decay"] = max(1.0, a["exploration_fraction"] * steps)
        params = {"model": self._networks(a, "ReLU")[0], "learning_rate": a["learning_rate"], "double_dqn": False, "eps": eps}
        return params | target | {"loss": "HUBER", "grad_clip_norm": a["max_grad_norm"]}, learn, n_sample, other


class SAC(_Model):
    _defaults = _ALL | _OFF_POLICY | {"learning_rate": 3e-4, "ent_coef": "auto", "target_entropy": "auto"}
    _layers = (256, 256)

    def _parts(self, a, steps):
        params = {"continuous": self._continuous(a), "alpha_learning_rate": a["learning_rate"]}
        coefficient = a["ent_coef"]
        if isinstance(coefficient, str):
            first = coefficient.removeprefix("auto").removeprefix("_") or 1.0
            params |= {"learn_alpha": True, "alpha": float(first)}
        else:
            params |= {"learn_alpha": False, "alpha": coefficient}
        if a["target_entropy"] != "auto":
            params["target_entropy"] = a["target_entropy"]
        if self._noise(a) != 0:
            raise ValueError("action_noise is given, expected None: SAC explores by its policy")
        return params, *self._replay(a)


class TD3(_Model):
    _defaults = _ALL | _OFF_POLICY | {"learning_rate": 1e-3, "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5}
    _layers = (400, 300)

    def _parts(self, a, steps):
        params = {
            "continuous": self._continuous(a),
            "exploration_noise": self._noise(a),
            "target_noise": a["target_policy_noise"],
            "target_noise_clip": a["target_noise_clip"],
            "actor_update_freq": a["policy_delay"],
        }
        return params, *self._replay(a)


class DDPG(_Model):
    _defaults = _ALL | _OFF_POLICY | {"learning_rate": 1e-3}
    _layers = (400, 300)

    def _parts(self, a, steps):
        return {"continuous": self._continuous(a), "exploration_noise": self._noise(a)}, *self._replay(a)
