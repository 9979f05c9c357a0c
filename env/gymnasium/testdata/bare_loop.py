"""Steps envs in one loop, as a program without any manager would, and prints the seconds per step.

    bare_loop.py MODULE:CLASS ENVS STEPS
"""

import importlib
import sys
import time

import numpy as np

module, name = sys.argv[1].split(':')
count, steps = int(sys.argv[2]), int(sys.argv[3])
envs = [getattr(importlib.import_module(module), name)() for _ in range(count)]
actions = np.random.default_rng(0).integers(2, size=(4096, count)).tolist()
seeds = iter(range(1 << 30))
for env in envs:
    env.reset(seed=next(seeds))


def loop(rounds):
    for i in range(rounds):
        row = actions[i % 4096]
        for k in range(count):
            env = envs[k]
            observation, reward, terminated, truncated, info = env.step(row[k])
            if terminated or truncated:
                env.reset(seed=next(seeds))


loop(steps // count // 10)
begin = time.perf_counter()
loop(steps // count)
print((time.perf_counter() - begin) / (steps // count * count))
