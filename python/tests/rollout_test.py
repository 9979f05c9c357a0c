"""Tests of caches, trajectories, advantages, n-step returns and samples."""

import collections

import numpy as np
import pytest

import ding_worker as dw


def trajectory(n, done=False, **more):
    rng = np.random.default_rng(n)
    rows = []
    for i in range(n):
        row = {"obs": rng.normal(size=3), "action": np.array(i % 2), "reward": np.float32(rng.normal()), "done": done and i == n - 1}
        rows.append({**row, "next_obs": rng.normal(size=3), "value": np.float32(rng.normal()), **more})
    return rows


def test_cache_pool():
    pool = dw.CachePool("obs", 3)
    assert [pool[i] for i in range(3)] == [None] * 3
    value = {"a": [1]}
    pool.update({0: value, 2: "c"})
    assert pool[0] is value and pool[1] is None and pool[2] == "c"
    pool.update([{0: "me", 1: "x"}, {0: "you", 1: "y"}])
    assert pool[0] == ["me", "you"] and pool[1] == ["x", "y"] and pool[2] == "c"
    pool.reset(0)
    assert pool[0] is None and pool[1] == ["x", "y"]
    with pytest.raises(KeyError):
        pool.update([{0: 1, 1: 2}, {0: 3}])
    with pytest.raises(IndexError):
        pool.update({3: 1})
    copies = dw.CachePool("obs", 1, deepcopy=True)
    copies.update({0: value})
    value["a"].append(2)
    assert copies[0] == {"a": [1]}


def test_traj_buffer_against_a_deque():
    for maxlen in (1, 3, None, float("inf")):
        ours, model = dw.TrajBuffer(maxlen), collections.deque(maxlen=None if maxlen in (None, float("inf")) else maxlen)
        for i in range(10):
            ours.append(i)
            model.append(i)
            assert ours == list(model)
    value = [1]
    copies = dw.TrajBuffer(2, deepcopy=True)
    copies.append(value)
    value.append(2)
    assert copies == [[1]]
    with pytest.raises(ValueError, match="maxlen is 0, expected at least 1"):
        dw.TrajBuffer(0)


@pytest.mark.parametrize("shares", [True, False])
def test_to_tensor_transitions(shares):
    data = trajectory(3)
    data[0]["info"] = {"list": [1.5, 2.0], "none": None, "pair": (np.zeros(2), "text")}
    out = dw.to_tensor_transitions(data, shallow_copy_next_obs=shares)
    assert all(row["obs"].dtype == np.float32 and row["next_obs"].dtype == np.float32 for row in out)
    assert all(row["done"] is False for row in out) and out[0]["action"] is data[0]["action"]
    assert [row["next_obs"] is after["obs"] for row, after in zip(out, out[1:])] == [shares] * 2
    last = out[-1] if shares else out[0]
    assert (last["next_obs"] == data[2 if shares else 0]["next_obs"].astype(np.float32)).all()
    info = out[0]["info"]
    assert info["list"].dtype == np.float32 and info["none"] is None and info["pair"][0].dtype == np.float32
    assert data[0]["obs"].dtype == np.float64
    assert "next_obs" not in dw.to_tensor_transitions([{"obs": np.zeros(1)}])[0]
    with pytest.raises(IndexError, match="no transitions"):
        dw.to_tensor_transitions([])
    with pytest.raises(TypeError, match="a transition has a set"):
        dw.to_tensor_transitions([{"obs": {1}}])


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("nstep", [2, 3, 5])
@pytest.mark.parametrize("done", [True, False])
def test_nstep_by_brute_force(n, nstep, done):
    data = trajectory(n, done)
    for cum in (True, False):
        out = dw.get_nstep_return_data(data, nstep, cum_reward=cum, gamma=0.9)
        assert len(out) == n
        for i, row in enumerate(out):
            total, steps = 0.0, 0
            for j in range(i, min(i + nstep, n)):
                total += 0.9**steps * data[j]["reward"]
                steps += 1
            if cum:
                assert row["reward"] == pytest.approx(total, rel=1e-5)
            else:
                assert row["reward"].shape == (nstep,)
                assert list(row["reward"]) == [data[j]["reward"] if j < n else 0 for j in range(i, i + nstep)]
            assert row["value_gamma"] == pytest.approx(0.9**steps)
            assert row["next_obs"] is data[i + steps - 1]["next_obs"]
            assert row["done"] == (done and i + steps == n) and row["obs"] is data[i]["obs"]
    assert "value_gamma" not in data[0] and dw.get_nstep_return_data(data, 1) is data
    assert "value_gamma" not in dw.get_nstep_return_data(data, nstep, correct_terminate_gamma=False)[0]


@pytest.mark.parametrize("done", [True, False])
def test_gae_by_its_definition(done):
    """The sum over k of (gamma lambda)^k delta[t + k], up to the end of the episode."""
    data, gamma, lam = trajectory(8, done), 0.97, 0.9
    data[3]["traj_flag"] = True  # a cut: bootstrapped, but nothing flows over it
    for row in data:
        row.setdefault("traj_flag", row["done"])
    out = dw.get_gae(data, 0.5, gamma, lam)
    values = [float(row["value"]) for row in data] + [0.5]
    for t in range(8):
        expected, weight = 0.0, 1.0
        for k in range(t, 8):
            expected += weight * (float(data[k]["reward"]) + gamma * values[k + 1] * (not data[k]["done"]) - values[k])
            if data[k]["traj_flag"]:
                break
            weight *= gamma * lam
        assert out[t]["adv"] == pytest.approx(expected, abs=1e-5)
    assert "adv" not in data[0]
    ended = dw.get_gae_with_default_last_value(data, True, gamma, lam)
    assert [row["adv"] for row in ended] == [row["adv"] for row in dw.get_gae(data, 0.0, gamma, lam)]
    cut = dw.get_gae_with_default_last_value(data, False, gamma, lam)
    assert len(cut) == 7 and [row["adv"] for row in cut] == [row["adv"] for row in dw.get_gae(data[:7], values[7], gamma, lam)]
    with pytest.raises(ValueError, match="cuda is True"):
        dw.get_gae(data, 0, gamma, lam, cuda=True)


def test_train_samples():
    data = trajectory(8)
    rewards = [row["reward"] for row in data]
    assert dw.get_train_sample(data, 1) is data

    def pieces(*arguments, **more):
        return [sample["reward"] for sample in dw.get_train_sample(*arguments, **more)]

    assert pieces(data, 4) == [rewards[:4], rewards[4:]]
    assert pieces(data, 3) == [rewards[:3], rewards[3:6], [rewards[5], *rewards[6:]]]
    assert pieces(data, 3, "drop") == [rewards[:3], rewards[3:6]]
    padded = dw.get_train_sample(data, 3, "null_padding")[-1]
    assert padded["reward"] == [*rewards[6:], 0] and padded["done"] == [False, False, True]
    assert (padded["obs"][2] == 0).all() and padded["obs"][2].shape == (3,)
    assert pieces(data[:2], 3) == [[*rewards[:2], 0]]
    given = dw.get_train_sample(data[:2], 3, null_transition={**data[0], "reward": -1})
    assert given[0]["reward"][2] == -1
    nested = [{"obs": {"a": i, "b": {"c": -i}}, "reward": i} for i in range(4)]
    assert dw.get_train_sample(nested, 2)[1]["obs"] == {"a": [2, 3], "b": {"c": [-2, -3]}}
    with pytest.raises(ValueError, match="last_fn_type is 'first'"):
        dw.get_train_sample(data, 3, "first")
    with pytest.raises(ValueError, match="unroll_len is 0"):
        dw.get_train_sample(data, 0)
