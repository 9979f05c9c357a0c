"""Tests of collectors, evaluators and the learner with policies in Python."""

import os
import re
import textwrap

import numpy as np
import pytest

import ding_worker as dw
from ding_worker.learner import SaveCkptHook


class Left:
    """Records what it is asked; always pushes to the left, so that an episode of CartPole has about ten steps."""

    def __init__(self, **attributes):
        self.resets, self.seen, self.kwargs = [], [], []
        self.__dict__.update(attributes)

    def forward(self, obs, **kwargs):
        self.seen.append(sorted(obs))
        self.kwargs.append(kwargs)
        return {env: {"action": np.array([0])} for env in obs}

    def process_transition(self, obs, output, timestep):
        return {"obs": obs, "action": output["action"], "reward": timestep.reward, "next_obs": timestep.obs, "done": timestep.done}

    def get_train_sample(self, transitions):
        return transitions

    def reset(self, envs=None):
        self.resets.append(envs)


def envs(num_envs=8):
    return dw.make_vec("CartPole-v1", num_envs=num_envs, seed=0)


def test_sample_collector_returns_exactly_what_is_asked():
    collector = dw.create_serial_collector({"type": "sample"}, env=envs(), policy=Left())
    samples = collector.collect(n_sample=1000, train_iter=7)
    assert len(samples) == 1000 and collector.envstep >= 1000
    assert len(collector.collect(n_sample=3, drop_extra=False)) >= 3
    assert all(row["collect_iter"] == 7 and row["obs"].dtype == np.float32 for row in samples)
    assert collector.collect(n_sample=0) == []
    ends = [row for row in samples if row["done"]]
    assert ends and not any((row["next_obs"] == after["obs"]).all() for row, after in zip(samples, samples[1:]) if row["done"])
    with pytest.raises(RuntimeError, match="collect\\(\\) has no n_sample"):
        collector.collect()


@pytest.mark.parametrize("copy", [True, False])
def test_rows_of_the_collector_are_those_of_the_env(copy):
    """Against a loop of ours over the same env."""
    env = dw.make_vec("CartPole-v1", num_envs=2, seed=0, copy=copy)
    collector = dw.create_serial_collector({"type": "sample"}, env=env, policy=Left(n_sample=2))
    rows = [collector.collect() for _ in range(30)]
    env = envs(2)
    obs, _ = env.reset()
    for pair in rows:
        after, reward, terminated, truncated, infos = env.step(np.zeros(2, np.int64))
        for i in range(2):
            done = terminated[i] or truncated[i]
            assert (pair[i]["obs"] == obs[i]).all() and pair[i]["done"] == done and pair[i]["reward"] == reward[i]
            assert (pair[i]["next_obs"] == (infos["final_obs"][i] if done else after[i])).all()
        obs = after


def test_trajectories_go_on_unless_the_policy_is_on_policy():
    for on_policy in (False, True):
        policy = Left(on_policy=on_policy, unroll_len=4, n_sample=2)
        pieces = []
        policy.get_train_sample = lambda rows, pieces=pieces: pieces.append(len(rows)) or [rows]
        collector = dw.create_serial_collector({"type": "sample"}, env=envs(2), policy=policy)
        for _ in range(20):
            collector.collect(n_sample=1)
        assert set(pieces) <= {1, 2, 3, 4} and 4 in pieces
        left = [len(traj) for traj in collector._traj]
        assert left == [0, 0] if on_policy else sum(pieces) + sum(left) == collector.envstep


def test_episode_collector():
    policy = Left()
    collector = dw.create_serial_collector({"type": "episode"}, env=envs(), policy=policy)
    episodes = collector.collect(n_episode=18)
    assert len(episodes) == 18
    for episode in episodes:
        assert [row["done"] for row in episode] == [False] * (len(episode) - 1) + [True]
        assert all((row["next_obs"] == after["obs"]).all() for row, after in zip(episode, episode[1:]))
    assert collector.envstep == sum(map(len, episodes)) and all(not traj for traj in collector._traj)
    flat = dw.create_serial_collector({"type": "episode", "get_train_sample": True}, env=envs(), policy=policy).collect(n_episode=8)
    assert isinstance(flat[0], dict)
    with pytest.raises(ValueError, match="n_episode is 7, expected at least the number of envs, 8"):
        collector.collect(n_episode=7)


def test_evaluator():
    policy, saved = Left(), []
    evaluator = dw.create_serial_evaluator({"eval_freq": 10, "n_episode": 11, "stop_value": 9}, env=envs(4), policy=policy)
    asked = [0, 0, 5, 9, 10, 15, 20, 20, 30]
    assert [evaluator.should_eval(i) for i in asked] == [True, False, False, False, True, False, True, False, True]
    stop, info = evaluator.eval(saved.append, train_iter=5, envstep=50, policy_kwargs={"eps": 0})
    returns = info["eval_episode_return"]
    assert all(8 <= value <= 11 for value in returns)  # to fall to one side takes so many steps
    assert len(returns) == 11 and stop == (np.mean(returns) >= 9) and saved == ["ckpt_best"]
    assert policy.kwargs[-1] == {"eps": 0}
    assert policy.resets[0] is None and sorted(env for envs_ in policy.resets[2:] for env in envs_) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 2
    again, _ = evaluator.eval(saved.append, train_iter=0)
    assert not again
    with pytest.raises(ValueError, match="n_episode is 3, expected at least the number of envs, 4"):
        evaluator.eval(n_episode=3)
    with pytest.raises(ValueError, match="has no stop_value"):
        dw.create_serial_evaluator({"n_episode": 8}, env=envs(2), policy=policy).eval()


class Counting:
    def __init__(self):
        self.weight = np.zeros(2, np.float32)

    def forward(self, data, **kwargs):
        self.weight = self.weight + 1
        return {"loss": float(self.weight[0]), "priority": [1.0, 2.0]}

    def state_dict(self):
        return {"weight": self.weight, "nested": {"a": 1}}

    def load_state_dict(self, state):
        self.weight, self.nested = state["weight"], state["nested"]


def test_learner_saves_loads_and_counts(tmp_path):
    hook = {"save_ckpt_after_iter": {"type": "save_ckpt", "position": "after_iter", "priority": 40, "ext_args": {"freq": 5}}}
    folder = str(tmp_path / "exp")
    learner = dw.create_learner({"hook": hook}, policy=Counting(), exp_name=folder)
    learner.call_hook("before_run")
    for i in range(12):
        assert learner.train([{"replay_buffer_idx": 3}, {"replay_buffer_idx": 4}], envstep=10 * i) == [{"loss": i + 1.0}]
    assert learner.priority_info == {"priority": [1.0, 2.0], "replay_buffer_idx": [3, 4], "replay_unique_id": [None, None]}
    assert (learner.train_iter, learner.last_iter, learner.collector_envstep) == (12, 12, 110)
    learner.save_checkpoint("best")
    learner.call_hook("after_run")
    assert sorted(os.listdir(tmp_path / "exp" / "ckpt")) == sorted(f"{n}.npz" for n in ("best", *(f"iteration_{i}" for i in (0, 5, 10, 12))))
    load = {"load_ckpt_before_run": str(tmp_path / "exp" / "ckpt" / "iteration_10.npz")}
    other = dw.create_learner({"hook": load}, policy=Counting(), exp_name=str(tmp_path / "other"))
    other.call_hook("before_run")
    assert (other.train_iter, other.collector_envstep) == (10, 100)
    assert other.policy.weight.tolist() == [11, 11] and other.policy.nested == {"a": 1}
    assert set(learner.learn_info) == {"learner_step", "priority_info", "learner_done"}
    learner.close()
    with pytest.raises(RuntimeError, match="is closed"):
        learner.train([])


def test_hooks(tmp_path):
    calls = []

    class Note(dw.LearnerHook):
        def __call__(self, engine):
            calls.append((self.name, engine.train_iter))

    dw.register_learner_hook("note", Note)
    hook = {name: {"type": "note", "position": position, "priority": priority} for name, position, priority in NOTES}
    learner = dw.create_learner({"hook": hook}, policy=Counting(), exp_name=str(tmp_path))
    learner.train([])
    assert calls == [(name, 0) for name in ("before", "first", "second", "after")]
    with pytest.raises(TypeError, match="derives from LearnerHook"):
        dw.register_learner_hook("bad", dict)
    with pytest.raises(ValueError, match="position of the hook 'x' is 'later', expected one of: before_run"):
        Note(name="x", position="later")
    with pytest.raises(ValueError, match="has the type 'missing', expected one of: load_ckpt"):
        dw.create_learner({"hook": {"x": {"type": "missing"}}}, policy=Counting())
    with pytest.raises(ValueError, match="freq 0"):
        SaveCkptHook(ext_args={"freq": 0})


NOTES = [("second", "after_iter", 5), ("first", "after_iter", 1), ("after", "after_iter", 5), ("before", "before_iter", 9)]


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: dw.create_serial_collector({"type": "samples"}, env=None, policy=None), KeyError, "no serial collector of type 'samples'"),
        (lambda: dw.create_serial_collector({"type": "sample"}, policy=Left()), ValueError, "the collector has no env"),
        (lambda: dw.create_serial_collector({"type": "sample"}, env=envs(1)), ValueError, "the collector has no policy"),
        (lambda: dw.create_serial_evaluator({"eval_frq": 3}, env=envs(1), policy=Left()), ValueError, "no settings \\['eval_frq'\\]"),
        (lambda: dw.create_learner({"type": "other"}, policy=Counting()), KeyError, "no learner of type 'other'"),
        (lambda: dw.create_learner({}), ValueError, "the learner has no policy"),
    ],
)
def test_refusals(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_errors_of_a_policy_pass_through(tmp_path):
    policy = Left()
    collector = dw.create_serial_collector({"type": "sample"}, env=envs(2), policy=policy)
    policy.forward = lambda obs: {0: {"action": 0}}
    with pytest.raises(ValueError, match="no output for the envs \\[1\\], expected one for each of \\[0, 1\\]"):
        collector.collect(n_sample=4)
    policy.forward = lambda obs: 1 / 0
    with pytest.raises(ZeroDivisionError):
        collector.collect(n_sample=4)
    learner = dw.create_learner({}, policy=Counting(), exp_name=str(tmp_path))
    learner.policy.forward = lambda data: 3
    with pytest.raises(TypeError, match="forward\\(\\) of the policy returned int"):
        learner.train([])
    learner.policy.state_dict = lambda: {"net": object()}
    with pytest.raises(ValueError, match="state_dict\\(\\) has object at 'net'"):
        learner.save_checkpoint()


def test_logs(tmp_path):
    class Writer(list):
        def add_scalar(self, *row):
            self.append(row)

    writer = Writer()
    collector = dw.create_serial_collector({"type": "sample", "collect_print_freq": 1}, env=envs(2), policy=Left(), tb_logger=writer)
    collector.collect(n_sample=100, train_iter=1)
    tags = {tag: value for tag, value, _ in writer}
    assert tags["collector_iter/reward_mean"] == tags["collector_step/reward_mean"] > 5
    assert tags["collector_step/total_envstep_count"] == collector.envstep
    learner = dw.create_learner({"hook": {"log_show_after_iter": 2}}, policy=Counting(), tb_logger=writer, exp_name=str(tmp_path))
    for i in range(3):
        learner.train([], envstep=i)
    assert ("learner_iter/loss_avg", 2.5, 2) in writer


@pytest.mark.parametrize("seed", [1, 2])
def test_the_example_learns(tmp_path, monkeypatch, seed):
    monkeypatch.syspath_prepend("python/examples")
    import own_policy

    envstep, stop, result = own_policy.main(seed, str(tmp_path / "run"))
    assert stop and np.mean(result["eval_episode_return"]) >= 400, (envstep, result)
    assert os.path.exists(tmp_path / "run" / "ckpt" / "ckpt_best.npz")


def test_the_page_names_what_there_is():
    with open("docs/how_to/python_loop.md") as file:
        page = file.read()
    shown = re.search(r"```python\n(.*?)```", page, re.S)[1]
    with open("python/examples/own_policy.py") as file:
        example = textwrap.dedent(file.read().split("def main(")[1].split("\n", 1)[1].split("if __name__")[0])
    assert shown.strip() == example.rsplit("return", 1)[0].strip()
    names = re.findall(r"^\| `([^|]*)` \| `dw", page, re.M)
    assert len(names) > 15
    for name in re.findall(r"`dw\.(\w+)", page):
        assert hasattr(dw, name), name


def test_a_wrong_sign_does_not_learn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend("python/examples")
    import own_policy

    class Wrong(own_policy.Network):
        def learn(self, obs, slope, rate=1e-3):
            super().learn(obs, -slope, rate)

    monkeypatch.setattr(own_policy, "Network", Wrong)
    _, stop, _ = own_policy.main(1, str(tmp_path / "run"), max_envstep=20_000)
    assert not stop
