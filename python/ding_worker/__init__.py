"""Trains agents in C++, and has its replay buffers and vector envs; reads the files of runs, and acts with trained policies.

    import ding_worker

    run = ding_worker.open_run("cartpole_ppo")
    actor = run.checkpoint("ckpt_best").actor()
    action = actor.act(observation)

It needs Python 3.9 and numpy. Nothing in a file is ever executed. A file that is damaged, or that is no such file, raises
FormatError with a sentence that says what was found where.

Training, replay buffers and vector envs need the extension, which only the wheel has (`bazel build //python:wheel`):

    run = ding_worker.train("cartpole_ppo", seed=0)
    buffer = ding_worker.create_buffer({"type": "advanced", "replay_buffer_size": 100000})
    envs = ding_worker.make_vec("CartPole-v1", num_envs=64)
"""

import importlib

from ding_worker.actor import Actor
from ding_worker.checkpoint import Checkpoint, open_checkpoint
from ding_worker.episodes import Episodes, read_episodes, write_episodes
from ding_worker.errors import FormatError, UnsupportedError
from ding_worker.rollout import (
    CachePool,
    TrajBuffer,
    get_gae,
    get_gae_with_default_last_value,
    get_nstep_return_data,
    get_train_sample,
    to_tensor_transitions,
)
from ding_worker.run import Run, open_run, read_metrics
from ding_worker.safetensors import Tensors, read_safetensors
from ding_worker.textproto import parse_text_config, read_config

# What needs the extension is imported when it is first used.
_LAZY = {
    **dict.fromkeys(
        (
            "AdvancedReplayBuffer",
            "DequeBuffer",
            "ElasticReplayBuffer",
            "EpisodeReplayBuffer",
            "HindsightReplayBuffer",
            "IBuffer",
            "NaiveReplayBuffer",
            "SequenceReplayBuffer",
            "create_buffer",
            "get_buffer_cls",
        ),
        "ding_worker.replay_buffer",
    ),
    **dict.fromkeys(("VectorEnv", "envs", "make_vec"), "ding_worker.vector_env"),
    **dict.fromkeys(("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"), "ding_worker.sb3"),
    **dict.fromkeys(("BaseLearner", "LearnerHook", "create_learner", "register_learner_hook"), "ding_worker.learner"),
    **dict.fromkeys(
        (
            "BaseEnvTimestep",
            "EpisodeSerialCollector",
            "InteractionSerialEvaluator",
            "SampleSerialCollector",
            "create_serial_collector",
            "create_serial_evaluator",
            "get_serial_collector_cls",
        ),
        "ding_worker.workers",
    ),
    "create_policy": "ding_worker.policy",
    "import_episodes": "ding_worker.data_sets",
    **dict.fromkeys(("ready_configs", "resolve_config", "train"), "ding_worker.training"),
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'ding_worker' has no attribute '{name}'")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_LAZY])


__all__ = [
    "Actor",
    "CachePool",
    "Checkpoint",
    "Episodes",
    "FormatError",
    "Run",
    "Tensors",
    "TrajBuffer",
    "UnsupportedError",
    "get_gae",
    "get_gae_with_default_last_value",
    "get_nstep_return_data",
    "get_train_sample",
    "open_checkpoint",
    "open_run",
    "parse_text_config",
    "read_config",
    "read_episodes",
    "read_metrics",
    "read_safetensors",
    "to_tensor_transitions",
    "write_episodes",
]
