"""Tests of the vector envs in Python."""

import multiprocessing
import re
import threading

import numpy as np
import pytest

import ding_worker as dw


def roll(envs, n, seed=0):
    """The columns of n steps with random actions."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        out.append(envs.step(rng.integers(0, 2, envs.num_envs)))
    return out


def test_interface():
    envs = dw.make_vec("CartPole-v1", num_envs=3, seed=5)
    assert (envs.num_envs, envs.closed, envs.render_mode, envs.spec) == (3, False, None, None)
    assert getattr(envs.metadata["autoreset_mode"], "value", envs.metadata["autoreset_mode"]) == "SameStep"
    assert envs.single_observation_space.shape == (4,) and envs.observation_space.shape == (3, 4)
    assert envs.observation_space.dtype == np.float32
    assert envs.single_action_space.n == 2 and envs.action_space.shape == (3,)
    assert envs.unwrapped is envs
    obs, infos = envs.reset()
    assert obs.shape == (3, 4) and obs.dtype == np.float32 and infos == {}
    assert envs.observation_space.contains(obs)
    obs, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
    assert [a.dtype for a in (reward, terminated, truncated)] == [np.float32, bool, bool]
    assert [a.shape for a in (reward, terminated, truncated)] == [(3,)] * 3
    assert infos == {} and (reward == 1).all()
    assert "CartPole-v1" in repr(envs)
    assert len(dw.envs()) > 10 and "CartPole-v1" in dw.envs()


def test_it_follows_the_equations_of_cartpole():
    envs = dw.make_vec("CartPole-v1", num_envs=2, seed=1)
    x, dx, angle, dangle = envs.reset()[0][0].astype(float)
    for action in (1, 0, 0, 1, 1):
        obs = envs.step([action, 0])[0]
        force = 10 if action == 1 else -10
        cos, sin = np.cos(angle), np.sin(angle)
        temp = (force + 0.05 * dangle**2 * sin) / 1.1
        ddangle = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        ddx = temp - 0.05 * ddangle * cos / 1.1
        x, dx, angle, dangle = x + 0.02 * dx, dx + 0.02 * ddx, angle + 0.02 * dangle, dangle + 0.02 * ddangle
        np.testing.assert_allclose(obs[0], [x, dx, angle, dangle], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_autoreset_and_final_obs(threads):
    envs = dw.make_vec("CartPole-v1", num_envs=4, seed=0, threads=threads)
    previous, _ = envs.reset()
    returns, ended = np.zeros(4), 0
    for obs, reward, terminated, truncated, infos in roll(envs, 200):
        returns += reward
        over = terminated | truncated
        assert bool(infos) == over.any()
        for i in np.flatnonzero(over):
            final = infos["final_obs"][i]
            assert infos["_final_obs"][i] and infos["_final_info"][i]
            assert abs(final[0]) > 2.4 or abs(final[2]) > 12 * np.pi / 180  # where the pole fell
            np.testing.assert_allclose(final[0], previous[i][0] + 0.02 * previous[i][1], atol=1e-5)
            assert (np.abs(obs[i]) <= 0.05).all()  # the first observation of the next episode
            episode = infos["final_info"]["episode"]
            assert episode["r"][i] == episode["l"][i] == returns[i]
            returns[i] = 0
            ended += 1
        if infos:
            assert [final is None for final in infos["final_obs"]] == list(~over)
            assert (infos["_final_obs"] == over).all()
        previous = obs
    assert ended > 10


def test_a_time_limit_truncates():
    envs = dw.make_vec("Pendulum-v1", num_envs=2)
    envs.reset()
    for i in range(200):
        _, _, terminated, truncated, infos = envs.step(np.zeros((2, 1), np.float32))
        assert not terminated.any() and truncated.all() == (i == 199)
    assert infos["final_info"]["episode"]["l"].tolist() == [200, 200]
    assert envs.single_action_space.low.tolist() == [-2] and envs.action_space.shape == (2, 1)


def test_seeds_repeat_episodes():
    def run(seed, make_seed=0):
        envs = dw.make_vec("CartPole-v1", num_envs=3, seed=make_seed)
        first = envs.reset(seed=seed)[0]
        return np.stack([first] + [result[0] for result in roll(envs, 60)])

    np.testing.assert_array_equal(run(7), run(7, make_seed=1))
    np.testing.assert_array_equal(run(None, make_seed=7), run(7))
    np.testing.assert_array_equal(run([7, 8, 9]), run(7))
    assert not (run(7)[0] == run(8)[0]).all()
    envs = dw.make_vec("CartPole-v1", num_envs=2)
    assert not (envs.reset()[0] == envs.reset()[0]).any()  # a reset without a seed goes on
    with pytest.raises(ValueError, match="seed has 1 elements, expected one for each of the 2 envs"):
        envs.reset(seed=[1])
    with pytest.raises(ValueError, match="expected none"):
        envs.reset(options={"reset_mask": None})


def test_copies_are_the_default():
    envs = dw.make_vec("CartPole-v1", num_envs=2)
    first = envs.reset()[0]
    kept = first.copy()
    second = envs.step([0, 0])
    np.testing.assert_array_equal(first, kept)
    assert all(a is not b for a, b in zip(second[:4], envs.step([0, 0])[:4]))


def test_without_copies_the_arrays_change():
    envs, other = dw.make_vec("CartPole-v1", num_envs=2, copy=False), dw.make_vec("CartPole-v1", num_envs=2)
    first, _ = envs.reset()
    other.reset()
    assert all(result[0] is first for result in roll(envs, 100))
    last = roll(other, 100)[-1]
    np.testing.assert_array_equal(first, last[0])
    envs.close()
    np.testing.assert_array_equal(first, last[0])  # the arrays outlive the envs


def test_dict_observations_and_wrappers():
    envs = dw.make_vec("ReachGoal-v0", num_envs=2)
    obs, _ = envs.reset()
    assert set(obs) == set(envs.observation_space.spaces) and len(obs) > 1
    assert all(value.shape[0] == 2 for value in obs.values())
    assert envs.observation_space.contains(obs)
    stacked = dw.make_vec("CartPole-v1", num_envs=2, wrappers=[{"type": "frame_stack", "count": 3}])
    assert stacked.single_observation_space.shape == (12,) and stacked.reset()[0].shape == (2, 12)
    limited = dw.make_vec("CartPole-v1", num_envs=1, wrappers=[{"type": "time_limit", "max_steps": 2}])
    limited.reset()
    assert not limited.step([0])[3][0] and limited.step([0])[3][0]


def test_every_env_of_one_player_runs():
    for name in dw.envs():
        if name in ("TicTacToe", "ConnectFour", "MJCF", "gymnasium", "pettingzoo"):
            continue  # games of two players, and envs of a file or a program of the user
        envs = dw.make_vec(name, num_envs=2)
        obs, _ = envs.reset()
        assert envs.observation_space.contains(obs), name
        mask = obs.get("action_mask") if isinstance(obs, dict) else None
        actions = envs.action_space.sample() if mask is None else mask.reshape(2, -1).argmax(1)
        obs, *_ = envs.step(actions)
        assert envs.observation_space.contains(obs), name


def test_what_is_refused():
    with pytest.raises(ValueError, match="CartPole-v9.*CartPole-v1"):
        dw.make_vec("CartPole-v9")
    with pytest.raises(ValueError, match="expected one of"):
        dw.make_vec('x" type: "y')
    with pytest.raises(ValueError, match="num_envs is 0, expected at least 1"):
        dw.make_vec("CartPole-v1", num_envs=0)
    with pytest.raises(ValueError, match="players, expected an env with one"):
        dw.make_vec("TicTacToe")
    with pytest.raises(ValueError, match="unknown field 'frames' in ding.FrameStackConfig"):
        dw.make_vec("CartPole-v1", wrappers=[{"type": "frame_stack", "frames": 3}])
    envs = dw.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(RuntimeError, match=r"expected reset\(\) before step\(\)"):
        envs.step([0, 0])
    envs.reset()
    with pytest.raises(ValueError, match=r"'actions' is int64\[3\], expected int64\[2\]"):
        envs.step([0, 0, 0])
    with pytest.raises(ValueError, match=r"'actions' is float64\[2\], expected int64\[2\]"):
        envs.step([0.0, 0.5])
    with pytest.raises(ValueError, match="2"):
        envs.step([0, 2])
    envs.step(np.array([0, 1], np.int32))
    envs.step(np.array([0, 1], np.uint8))
    envs.close()
    envs.close()
    for use in (lambda: envs.step([0, 0]), envs.reset, envs.render):
        with pytest.raises(RuntimeError, match="CartPole-v1 is closed"):
            use()
    with dw.make_vec("CartPole-v1") as inside:
        pass
    assert inside.closed


def test_two_threads_are_refused():
    envs = dw.make_vec("CartPole-v1", num_envs=2000)
    envs.reset()
    actions = np.zeros(2000, np.int64)
    refused, done = [], threading.Event()

    def work():
        while not done.is_set():
            try:
                envs.step(actions)
            except RuntimeError as error:
                refused.append(str(error))
                done.set()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert done.wait(120)
    for worker in workers:
        worker.join()
    assert "CartPole-v1 is used by another thread" in refused[0]
    envs.step(actions)


def _step_in_child(envs, queue):
    try:
        envs.step([0, 0])
    except RuntimeError as error:
        queue.put(str(error))


def test_forked_process_is_refused():
    envs = dw.make_vec("CartPole-v1", num_envs=2)
    envs.reset()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_step_in_child, args=(envs, queue))
    child.start()
    assert "was made before this process was forked" in queue.get(timeout=60)
    child.join(60)
    envs.step([0, 0])


def test_render():
    envs = dw.make_vec("CartPole-v1", num_envs=2)
    envs.reset()
    pictures = envs.render()
    assert len(pictures) == 2 and pictures[0].dtype == np.uint8 and pictures[0].shape[2] == 3


def test_the_buffer_takes_what_the_envs_give():
    envs = dw.make_vec("CartPole-v1", num_envs=4)
    buffer = dw.create_buffer({"replay_buffer_size": 1000, "nstep": 3})
    obs, _ = envs.reset()
    for _ in range(50):
        actions = envs.action_space.sample()
        after, reward, terminated, truncated, infos = envs.step(actions)
        next_obs = after.copy()
        for i in np.flatnonzero(terminated | truncated):
            next_obs[i] = infos["final_obs"][i]
        buffer.push({"obs": obs, "action": actions, "reward": reward, "next_obs": next_obs, "terminated": terminated,
                     "truncated": truncated}, 0, columns=True, streams=range(4))
        obs = after
    assert buffer.count() == 200
    drawn = buffer.sample(200, 0, columns=True)
    assert (drawn["n_step"] == 3).mean() > 0.7
    ends = (drawn["discount"] == 0).sum()
    assert ends >= drawn["terminated"].sum() > 0


def test_the_example_of_the_page(capsys):
    with open("docs/reference/python_native.md") as file:
        (example,) = re.findall(r"^```python\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
    exec(example, {})
    assert "<AdvancedReplayBuffer 'buffer', 1600 to draw from>" in capsys.readouterr().out


def test_the_measurement_runs(monkeypatch, capsys):
    monkeypatch.syspath_prepend("python/tests")
    import speed

    monkeypatch.setattr(speed, "per_second", lambda call, amount=1: (call(), amount)[1])
    speed.main()
    assert len(capsys.readouterr().out.splitlines()) == 10
