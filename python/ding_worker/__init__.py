"""Reads the files of ding_worker's training runs, and acts with the trained policies.

    import ding_worker

    run = ding_worker.open_run("cartpole_ppo")
    actor = run.checkpoint("ckpt_best").actor()
    action = actor.act(observation)

It needs Python 3.9 and numpy. Nothing in a file is ever executed. A file that is damaged, or that is no such file, raises
FormatError with a sentence that says what was found where.
"""

from ding_worker.actor import Actor
from ding_worker.checkpoint import Checkpoint, open_checkpoint
from ding_worker.episodes import Episodes, read_episodes
from ding_worker.errors import FormatError, UnsupportedError
from ding_worker.run import Run, open_run, read_metrics
from ding_worker.safetensors import Tensors, read_safetensors
from ding_worker.textproto import parse_text_config, read_config

__all__ = [
    "Actor",
    "Checkpoint",
    "Episodes",
    "FormatError",
    "Run",
    "Tensors",
    "UnsupportedError",
    "open_checkpoint",
    "open_run",
    "parse_text_config",
    "read_config",
    "read_episodes",
    "read_metrics",
    "read_safetensors",
]
