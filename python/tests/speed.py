"""Measures the buffers and the vector envs, each for a second:  speed.py"""

import time

import numpy as np

import ding_worker as dw


def per_second(call, amount=1, seconds=1.0):
    """The best of five measurements: other programs only make it slower."""
    best = 0.0
    for _ in range(5):
        calls, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds / 5:
            for _ in range(20):
                call()
            calls += 20
        best = max(best, calls * amount / passed)
    return best


def columns(n, episode=True):
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n + 1, 4)).astype(np.float32)
    next_obs = obs[1:] if episode else rng.normal(size=(n, 4)).astype(np.float32)
    return {
        "obs": obs[:-1].copy(),
        "action": np.zeros(n, np.int64),
        "reward": np.ones(n, np.float32),
        "next_obs": next_obs.copy(),
        "done": np.zeros(n, bool),
    }


def show(what, value):
    print(f"| {what} | {value:,.0f} |", flush=True)


def main():
    full = columns(100_000)
    naive = dw.create_buffer({"type": "naive", "replay_buffer_size": 100_000})
    naive.push(full, 0, columns=True)
    advanced = dw.create_buffer({"type": "advanced", "replay_buffer_size": 100_000})
    advanced.push(full, 0, columns=True)

    show("`sample(256, columns=True)`", per_second(lambda: naive.sample(256, 0, columns=True)))
    show("`sample(64)`, a list of dicts", per_second(lambda: naive.sample(64, 0)))
    one = columns(64)
    show("rows pushed, columns of 64 of an episode", per_second(lambda: naive.push(one, 0, columns=True), 64))
    other = columns(64, episode=False)
    show("rows pushed, columns of 64 that do not follow each other", per_second(lambda: naive.push(other, 0, columns=True), 64))
    rows = [{key: column[i] for key, column in one.items()} for i in range(64)]
    show("rows pushed, lists of 64 dicts", per_second(lambda: naive.push(rows, 0), 64))
    keys = ("priority", "replay_unique_id", "replay_buffer_idx")

    def cycle():
        batch = advanced.sample(64, 0, columns=True)
        advanced.update({key: batch[key] for key in keys})

    show("prioritized cycle of 64: sample and update", per_second(cycle))
    for num_envs in (8, 64):
        for copy in (True, False):
            envs = dw.make_vec("CartPole-v1", num_envs=num_envs, copy=copy)
            envs.reset()
            actions = np.arange(num_envs) % 2
            show(f"CartPole steps, {num_envs} envs, `copy={copy}`", per_second(lambda: envs.step(actions), num_envs))


if __name__ == "__main__":
    main()
