"""Tests of policies of ours in a loop in Python."""

import importlib.util
import os
import threading

import numpy as np
import pytest

import ding_worker as dw

PPO = {"seed": 3, "policy": {"collect": {"n_sample": 64}}}


def envs(num_envs=4):
    return dw.make_vec("CartPole-v1", num_envs=num_envs, seed=0)


def collector_of(policy, kind="sample", num_envs=4):
    return dw.create_serial_collector({"type": kind}, env=envs(num_envs), policy=policy.collect_mode)


def values_of(policy, obs):
    """V(obs), as the policy's collect mode says it."""
    return np.array([policy.collect_mode.forward({0: row})[0]["value"] for row in obs])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_policy_by_name_learns(tmp_path, monkeypatch, seed):
    monkeypatch.syspath_prepend("python/examples")
    import our_policy

    envstep, stop, result = our_policy.main(seed, str(tmp_path))
    assert stop and np.mean(result["eval_episode_return"]) >= 195, (envstep, result)
    assert os.path.exists(tmp_path / "ckpt" / "ckpt_best.npz")


def test_an_on_policy_policy_learns_from_its_samples():
    policy = dw.create_policy("cartpole_ppo", seed=0)
    collector = collector_of(policy, num_envs=8)
    learner = dw.create_learner({"hook": {"save_ckpt_after_run": False}}, policy=policy.learn_mode)
    evaluator = dw.create_serial_evaluator({"n_episode": 8, "stop_value": 400, "eval_freq": 160}, env=envs(8), policy=policy.eval_mode)
    stop = False
    while not stop and collector.envstep < 60_000:
        samples = collector.collect(train_iter=learner.train_iter)
        assert len(samples) == 256
        learner.train(samples, collector.envstep)
        if evaluator.should_eval(learner.train_iter):
            stop, _ = evaluator.eval(train_iter=learner.train_iter)
    assert stop


def test_advantages_are_those_of_the_definition():
    """Samples of the policy against get_gae() of this package, at the ends of episodes and at cuts."""
    policy = dw.create_policy("cartpole_ppo", **PPO)
    taken = []
    get_train_sample = policy.collect_mode.get_train_sample
    policy.collect_mode.get_train_sample = lambda rows: taken.append((rows, get_train_sample(rows))) or taken[-1][1]
    collector = collector_of(policy)
    for _ in range(4):
        collector.collect()
    kinds = set()
    for rows, samples in taken:
        last = rows[-1]
        kinds.add(bool(last["terminated"]))
        after = 0.0 if last["terminated"] else values_of(policy, [last["next_obs"]])[0]
        plain = [{**row, "done": row["terminated"]} for row in rows]
        expected = dw.get_gae(plain, after, gamma=0.99, gae_lambda=0.95)
        assert [len(samples)] == [len(rows)]
        for row, sample, wanted in zip(rows, samples, expected):
            assert sample["adv"] == pytest.approx(wanted["adv"], rel=1e-4, abs=1e-4)
            assert sample["return"] == pytest.approx(wanted["adv"] + row["value"], rel=1e-4, abs=1e-4)
            for key in ("obs", "next_obs", "action", "log_prob"):
                assert (sample[key] == row[key]).all()
    assert kinds == {True, False}


@pytest.mark.parametrize("truncated", [True, False])
def test_a_time_limit_is_no_terminal_state(truncated):
    mode = dw.create_policy("cartpole_dqn").collect_mode
    obs = np.zeros(4, np.float32)
    row = mode.process_transition(obs, {"action": 1}, dw.BaseEnvTimestep(obs, 1.0, True, {"truncated": truncated}))
    assert (row["terminated"], row["truncated"]) == (not truncated, truncated)


def test_states_go_on_exactly(tmp_path):
    """A learner that is loaded takes the same steps as the one that was saved, and acts alike."""

    def train(learner, batches):
        return [learner.train(batch)[0]["total_loss"] for batch in batches]

    policy = dw.create_policy("cartpole_dqn", seed=1)
    collector, buffer = collector_of(policy), dw.create_buffer({"type": "naive", "seed": 0})
    buffer.push(collector.collect(n_sample=500, policy_kwargs={"eps": 0.5}))
    batches = [buffer.sample(32, 0, columns=True) for _ in range(6)]
    learner = dw.create_learner({}, policy=policy.learn_mode, exp_name=str(tmp_path))
    first = train(learner, batches[:3])
    learner.save_checkpoint("here")
    second = train(learner, batches[3:])
    obs = {i: batches[0]["obs"][i] for i in range(32)}
    acts = policy.eval_mode.forward(obs)

    other = dw.create_policy("cartpole_dqn", seed=2)
    again = dw.create_learner({}, policy=other.learn_mode)
    again.load_checkpoint(str(tmp_path / "ckpt" / "here.npz"))
    assert again.train_iter == 3 and train(again, batches[3:]) == second
    assert all((acts[i]["action"] == other.eval_mode.forward(obs)[i]["action"]).all() for i in obs)

    same = dw.create_policy("cartpole_dqn", seed=1)
    assert train(dw.create_learner({}, policy=same.learn_mode), batches[:3]) == first
    broken = policy.learn_mode.state_dict()
    del broken["train"]
    with pytest.raises(ValueError, match="'encoder/0/weight' \\[128, 4\\] is missing"):
        same.learn_mode.load_state_dict(broken)
    assert train(dw.create_learner({}, policy=same.learn_mode), batches[3:]) == second  # nothing of it was loaded


def test_priorities_and_settings():
    policy = dw.create_policy("cartpole_dqn", policy={"priority": True})
    assert policy.learn_mode.get_attribute("priority") is True
    buffer = dw.create_buffer({"type": "advanced", "replay_buffer_size": 1000})
    buffer.push(collector_of(policy).collect(n_sample=100, policy_kwargs={"eps": 1.0}))
    learner = dw.create_learner({}, policy=policy.learn_mode)
    learner.train(buffer.sample(16, 0, columns=True))
    assert len(learner.priority_info["priority"]) == 16
    buffer.update(learner.priority_info)
    high = policy.command_mode.get_setting_collect({"envstep": 0, "learner_step": 0})["eps"]
    low = policy.command_mode.get_setting_collect({"envstep": 10**6, "learner_step": 0})["eps"]
    assert 0 < low < high <= 1
    obs = {i: np.zeros(4, np.float32) for i in range(200)}
    drawn = {int(each["action"]) for each in policy.collect_mode.forward(obs, eps=1.0).values()}
    assert drawn == {0, 1}
    assert len({int(each["action"]) for each in policy.eval_mode.forward(obs).values()}) == 1


def test_a_recurrent_policy_learns_from_sequences():
    policy = dw.create_policy("cartpole_masked_r2d2", seed=0)
    env = dw.make_vec("CartPole-v1-masked-velocity", num_envs=2, seed=0)
    collector = dw.create_serial_collector({"type": "sample"}, env=env, policy=policy.collect_mode)
    rows = collector.collect(n_sample=200, policy_kwargs={"eps": 0.3})
    first = [row for row, before in zip(rows[1:], rows) if before["terminated"] or before["truncated"]]
    assert first and not any(row["rnn_state"].any() for row in first) and any(row["rnn_state"].any() for row in rows)
    buffer = dw.create_buffer({"type": "sequence", "unroll_len": 20, "padding": True, "seed": 0})
    buffer.push(rows)
    learner = dw.create_learner({}, policy=policy.learn_mode)
    losses = [learner.train(buffer.sample(8, columns=True))[0]["total_loss"] for _ in range(40)]
    assert np.ndim(learner.priority_info["replay_unique_id"]) == 1
    assert np.isfinite(learner.train(buffer.sample(8))[0]["total_loss"])
    assert np.isfinite(losses).all() and np.mean(losses[-5:]) != losses[0]
    with pytest.raises(ValueError, match="sequences"):
        policy.learn_mode.forward({"obs": np.zeros((2, 4), np.float32), "reward": np.zeros(2, np.float32)})


def test_what_is_wrong_is_named(monkeypatch):
    policy = dw.create_policy("cartpole_dqn")
    with pytest.raises(ValueError, match="'obs' is float32\\[1, 3\\], expected float32\\[1, 4\\]"):
        policy.eval_mode.forward({0: np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="next_obs"):
        policy.learn_mode.forward({"obs": np.zeros((2, 4), np.float32), "action": np.zeros(2, np.int64)})
    with pytest.raises(ValueError, match="no column"):
        policy.learn_mode.forward({})
    with pytest.raises(FileNotFoundError, match="cartpole_dqm"):
        dw.create_policy("cartpole_dqm")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="there is no env 'CartPol-v1'.*CartPole-v1"):
        dw.create_policy("dqn", env="CartPol-v1")
    with pytest.raises(ValueError, match="enable_field"):
        dw.create_policy("cartpole_dqn", enable_field=["colect"])
    with pytest.raises(KeyError, match="n_samples"):
        policy.collect_mode.get_attribute("n_samples")
    with pytest.raises(ValueError, match="no settings \\['temperture'\\] to collect, expected some of \\['eps'\\]"):
        policy.collect_mode.forward({0: np.zeros(4, np.float32)}, temperture=3)
    with pytest.raises(ValueError, match="the progress has \\['env_step'\\]"):
        policy.command_mode.get_setting_collect({"env_step": 3})
    for nothing in (None, []):
        with pytest.raises(ValueError, match="the batch is"):
            policy.learn_mode.forward(nothing)
    with pytest.raises(ValueError, match="row 1 is \\['obs'\\], expected a dict with the keys of row 0"):
        policy.learn_mode.forward([{"obs": np.zeros(4), "reward": 1.0}, {"obs": np.zeros(4)}])
    with pytest.raises(ValueError, match="'train/extra', which this policy has not"):
        state = policy.learn_mode.state_dict()
        policy.learn_mode.load_state_dict({**state, "train": {**state["train"], "extra": np.zeros(1)}})
    with pytest.raises(TypeError, match="such as policy.collect_mode"):
        dw.create_serial_collector({"type": "sample"}, env=envs(), policy=policy)
    assert policy.eval_mode.forward({}) == {} and policy.collect_mode.get_train_sample([]) == []
    only = dw.create_policy("cartpole_dqn", enable_field=["eval"])
    assert only.learn_mode is None and "dqn" in repr(only)


def test_one_thread_at_a_time():
    """Learning lets other threads run, which must not use the policy then."""
    policy = dw.create_policy("cartpole_ppo", seed=0)
    samples = collector_of(policy, num_envs=8).collect(n_sample=2048)
    refused = []

    def act():
        while learner.is_alive():
            try:
                policy.eval_mode.forward({0: np.zeros(4, np.float32)})
            except RuntimeError as error:
                refused.append(str(error))

    learner = threading.Thread(target=policy.learn_mode.forward, args=(samples,))
    learner.start()
    act()
    learner.join()
    assert refused and set(refused) == {"another thread uses the policy, expected one thread at a time: each needs its own"}
    assert policy.eval_mode.forward({0: np.zeros(4, np.float32)})


def test_a_policy_that_does_not_learn_collects():
    policy = dw.create_policy("random", env="CartPole-v1")
    assert policy.learn_mode is None and "not learn" in repr(policy)
    collector = collector_of(policy)
    assert len(collector.collect(n_sample=8)) == 8
    with pytest.raises(ValueError, match="n_sample is -1"):
        collector.collect(n_sample=-1)


def test_reset_of_no_env_resets_none():
    policy = dw.create_policy("cartpole_masked_r2d2", seed=0)
    obs = {0: np.ones(2, np.float32), 1: np.ones(2, np.float32)}

    def states():
        return [output["rnn_state"].any() for output in policy.collect_mode.forward(obs, eps=0.0).values()]

    assert states() == [False, False] and states() == [True, True]
    policy.collect_mode.reset([])
    assert states() == [True, True]
    policy.collect_mode.reset(np.array([1]))
    assert states() == [True, False]
    policy.collect_mode.reset()
    assert states() == [False, False]


def test_the_learning_rate_follows_its_schedule():
    schedule = [{"field": "learning_rate", "type": "linear", "steps": 1000, "start": 0.01, "end": 0.001}]
    policy = dw.create_policy("cartpole_dqn", policy={"schedule": schedule})
    rows = collector_of(policy).collect(n_sample=64, policy_kwargs={"eps": 1.0})
    buffer = dw.create_buffer({"type": "naive"})
    buffer.push(rows)
    learner = dw.create_learner({}, policy=policy.learn_mode)
    rates = []
    for envstep in (0, 500, 1000):
        settings = policy.command_mode.get_setting_learn({"envstep": envstep, "learner_step": 0})
        rates.append(learner.train(buffer.sample(16, 0, columns=True), policy_kwargs=settings)[0]["cur_lr"])
    assert rates == pytest.approx([0.01, 0.0055, 0.001])
