"""Tests of training in Python."""

import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import ding_worker as dw
from ding_worker.training import flat_settings

SHORT = {"max_env_step": 600, "env": {"stop_value": 1e9, "n_evaluator_episode": 2, "evaluator_env_num": 2}}


def short(tmp_path, name="run", **more):
    return dw.train("cartpole_dqn", seed=3, exp_dir=tmp_path / name, progress=False, **{**SHORT, **more})


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names)


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def test_trains_a_ready_config_until_it_is_solved(tmp_path):
    run = dw.train("cartpole_ppo", seed=0, exp_dir=tmp_path / "run", progress=False)
    assert run.result["stop"] and run.result["eval_value"] >= 450
    assert run.evaluate(episodes=20, seed=1)["mean"] >= 400
    assert run.path == str(tmp_path / "run")


def test_the_folder_is_that_of_the_program(tmp_path):
    """Byte for byte, but for times, hosts and processes."""
    run = short(tmp_path)
    settings = [f"--set={line}" for line in flat_settings(SHORT)]
    other = tmp_path / "other"
    config = dw.ready_configs()["cartpole_dqn"]
    subprocess.run(["worker/serial", f"--config={config}", "--seed=3", f"--exp_dir={other}", *settings], check=True, capture_output=True)
    names = [name for name in files_below(run.path) if "events.out" not in name]
    assert names == [name for name in files_below(other) if "events.out" not in name]
    compared = [name for name in names if name.startswith("ckpt/") or name.endswith(".textproto")]
    assert len(compared) > 6
    different = [name for name in compared if read(run.path, name) != read(other, name)]
    assert different == ["ckpt/resume_600/manifest.json"]  # it has the sizes of the logs
    ours, theirs = run.result, json.loads(read(other, "result.json"))
    for result in (ours, theirs):
        for key in ("wall_seconds", "finish_time"):
            del result[key]
    assert ours == theirs
    steps = "evaluator_step/reward_mean"
    assert (run.metrics[steps].values == dw.open_run(other).metrics[steps].values).all()


def test_hooks_see_evaluations_and_checkpoints_and_end_the_run(tmp_path):
    evaluations, checkpoints = [], []
    run = short(tmp_path, on_evaluation=evaluations.append, on_checkpoint=checkpoints.append)
    curve = run.metrics["evaluator_step/reward_mean"]
    assert [e["mean_return"] for e in evaluations] == pytest.approx(list(curve.values), rel=1e-5)
    assert [e["env_step"] for e in evaluations] == list(curve.steps)
    saved = [name for name in run.checkpoints if not name.startswith("resume_")]  # which have no event
    assert {c["name"] for c in checkpoints} == set(saved)
    assert all(os.path.exists(c["path"]) for c in checkpoints)

    ended = short(tmp_path, "ended", on_evaluation=lambda e: e["train_iter"] >= 40)
    assert 40 <= ended.result["train_iter"] < run.result["train_iter"]
    assert ended.result["why"] == "on_evaluation returned True" and not ended.result["stop"]


def test_a_hook_may_evaluate_and_still_hears_of_the_next_evaluation(tmp_path):
    means, first = [], short(tmp_path, "first", max_env_step=100)

    def evaluate(evaluation):
        means.append(first.evaluate(episodes=2)["mean"])

    run = short(tmp_path, on_evaluation=evaluate)
    assert len(means) == len(run.metrics["evaluator_step/reward_mean"]) > 2


def test_a_hook_that_raises_ends_the_run_which_is_saved(tmp_path):
    def fail(evaluation):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        short(tmp_path, on_evaluation=fail)
    run = dw.open_run(tmp_path / "run")
    assert "a hook of Python raised KeyError: 'mine'" in run.result["why"]
    with pytest.raises(ZeroDivisionError):
        short(tmp_path, "other", max_env_step=100000, on_progress=lambda now: 1 / 0)


def test_progress(tmp_path, capsys):
    seen = []
    run = short(tmp_path, on_progress=seen.append)
    assert seen[-1]["env_step"] == run.result["env_step"] and seen[-1]["max_env_step"] == 600
    assert capsys.readouterr() == ("", "")
    dw.train("cartpole_dqn", seed=3, exp_dir=tmp_path / "shown", **SHORT)
    shown = capsys.readouterr()
    assert shown.out == "" and "[####################] 100%  env_step 600" in shown.err and "eval" in shown.err


INTERRUPTED = """
import os, signal, sys, threading
import ding_worker as dw
from ding_worker.training import flat_settings
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    dw.train("cartpole_dqn", seed=3, exp_dir=sys.argv[1], progress=False, max_env_step=100000000, env={"stop_value": 1e9})
except KeyboardInterrupt:
    print("caught")
"""


def test_ctrl_c_saves_the_run_which_goes_on(tmp_path):
    folder = str(tmp_path / "run")
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, folder], capture_output=True, text=True, timeout=60)
    assert done.stdout == "caught\n", done.stderr
    assert "interrupted at env step " in done.stderr
    assert f"go on with: ding_worker.train(resume=True, exp_dir='{folder}')" in done.stderr
    saved = dw.open_run(folder).result["env_step"]
    run = dw.train(resume=True, exp_dir=folder, max_env_step=saved + 500, progress=False)
    assert saved + 500 <= run.result["env_step"] < saved + 1000


def test_ctrl_c_in_a_hook_interrupts_too(tmp_path):
    def interrupt(evaluation):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short(tmp_path, on_evaluation=interrupt)
    run = dw.open_run(tmp_path / "run")
    assert run.result["why"] == "it was interrupted" and "ckpt_interrupt" in run.checkpoints


def test_a_resumed_run_is_as_if_it_had_not_been_interrupted(tmp_path):
    whole = short(tmp_path, "whole")

    def interrupt(evaluation):
        if evaluation["train_iter"] >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short(tmp_path, "parts", on_evaluation=interrupt)
    parts = dw.train(resume=True, exp_dir=tmp_path / "parts", progress=False)
    assert parts.result["env_step"] == whole.result["env_step"]
    assert parts.result["eval_value_raw"] == whole.result["eval_value_raw"]


@pytest.mark.parametrize(
    "config, options, error, text",
    [
        ("cartpole_dqm", {}, FileNotFoundError, "no config 'cartpole_dqm'.*near ones: cartpole_dqn"),
        (None, {}, ValueError, "the config is missing"),
        ("cartpole_dqn", {"polici": {"type": "dqn"}}, ValueError, "polici"),
        ("cartpole_dqn", {"policy": {"learn": {"batch_size": -1}}}, ValueError, "policy.learn.batch_size is -1"),
        ("cartpole_dqn", {"env": {"type": "CartPole-v7"}}, ValueError, "CartPole-v7"),
        ({"env": {"type": "CartPole-v1"}}, {}, ValueError, "policy.type"),
        ("dqn", {}, ValueError, "env.type"),
    ],
)
def test_refusals(tmp_path, config, options, error, text):
    with pytest.raises(error, match=text):
        dw.train(config, exp_dir=tmp_path / "run", progress=False, **options)
    assert not os.path.exists(tmp_path / "run")


def test_a_run_is_never_overwritten(tmp_path):
    short(tmp_path, max_env_step=100)
    before = files_below(tmp_path)
    with pytest.raises(FileExistsError, match="run"):
        short(tmp_path)
    assert files_below(tmp_path) == before
    with pytest.raises(FileNotFoundError):
        dw.train(resume=True, exp_dir=tmp_path / "missing")


def test_one_run_at_a_time(tmp_path):
    errors = []

    def nested(evaluation):
        try:
            short(tmp_path, "second")
        except RuntimeError as error:
            errors.append(str(error))
        return True

    short(tmp_path, on_evaluation=nested)
    assert len(errors) == 1 and "a run trains in this process already" in errors[0]
    short(tmp_path, "third", max_env_step=100)


def test_configs_from_a_dict_and_from_a_policy(tmp_path):
    config = {"policy": {"type": "dqn"}, "env": {"type": "CartPole-v1", **SHORT["env"]}, "max_env_step": 300}
    assert dw.train(config, exp_dir=tmp_path / "a", progress=False).result["env_step"] >= 300
    run = dw.train("dqn", env="CartPole-v1", exp_dir=tmp_path / "b", max_env_step=300, progress=False)
    assert run.config["policy"]["type"] == "dqn" and run.config["env"]["type"] == "CartPole-v1"
    text = dw.resolve_config("dqn", env="CartPole-v1", policy={"learn": {"batch_size": 16}})
    assert "batch_size: 16" in text and "learning_rate" in text


ENV = """
import numpy as np

class Box:
    def __init__(self, low, high, shape):
        self.low, self.high, self.shape, self.dtype = np.full(shape, low), np.full(shape, high), shape, np.dtype("float32")

class Discrete:
    n, start, shape, dtype = 2, 0, (), np.dtype("int64")

class Line:
    observation_space = Box(-10.0, 10.0, (1,))
    action_space = Discrete()

    def reset(self, *, seed=None, options=None):
        self.at, self.steps = 0, 0
        return self.observe(), {}

    def step(self, action):
        self.at += 1 if action else -1
        self.steps += 1
        return self.observe(), float(self.at), abs(self.at) >= 9, self.steps >= 20, {}

    def observe(self):
        return np.array([self.at], np.float32)
"""


def test_an_env_in_python(tmp_path, monkeypatch):
    (tmp_path / "my_line.py").write_text(ENV)
    monkeypatch.chdir(tmp_path)
    run = dw.train("dqn", env="my_line:Line", exp_dir=tmp_path / "run", seed=0, max_env_step=2000, progress=False)
    assert run.config["env"]["params"]["python"] == sys.executable
    assert run.policy().act(np.array([0], np.float32)) == 1
    assert run.evaluate(episodes=2)["mean"] >= 45  # 1 + 2 + ... + 9, or more


def test_the_policy_acts_as_the_actor_in_python(tmp_path):
    run = short(tmp_path)
    obs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    name = run.checkpoints[-1]
    policy, actor = run.policy(name), run.checkpoint(name).actor()
    actions = policy.act(obs)
    assert actions.dtype == np.int64 and (actions == actor.act(obs)).all() and len(set(actions)) == 2
    single = [policy.act(row) for row in obs]
    assert all(action.shape == () for action in single) and (np.array(single) == actions).all()
    with pytest.raises(ValueError, match=r"'obs' is float32\[5\], expected float32\[4\]"):
        policy.act(np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="at least"):
        run.evaluate(episodes=0)
    with pytest.raises(FileNotFoundError):
        run.policy("ckpt_none")


def test_the_policy_is_for_one_thread_and_one_process(tmp_path):
    policy = short(tmp_path, max_env_step=100).policy()
    obs = np.zeros((200000, 4), np.float32)
    errors = []

    def act():
        for _ in range(20):
            try:
                policy.act(obs)
            except RuntimeError as error:
                errors.append(str(error))

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors and all("another thread uses the policy" in error for error in errors)
    child = os.fork()
    if child == 0:
        try:
            policy.act(obs[0])
        except RuntimeError as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_policy_with_memory_keeps_a_state_for_each_id(tmp_path):
    run = dw.train("cartpole_masked_r2d2", seed=0, exp_dir=tmp_path / "run", max_env_step=500, progress=False)
    policy = run.policy(run.checkpoints[-1])
    rng = np.random.default_rng(1)
    width = policy_width(run)
    rows = rng.normal(size=(200, width)).astype(np.float32)
    both = [policy.act(np.stack([row, -row])) for row in rows]
    policy.reset()
    again = [policy.act(np.stack([row, -row])) for row in rows]
    policy.reset()
    one_by_one = [(policy.act(row[None], ids=[4])[0], policy.act(-row[None], ids=[7])[0]) for row in rows]
    assert (np.array(both) == np.array(again)).all() and (np.array(both) == np.array(one_by_one)).all()


def policy_width(run):
    return run.checkpoint(run.checkpoints[-1]).actor().input_width


def test_the_page(tmp_path, monkeypatch, capsys):
    with open("docs/how_to/train_in_python.md") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["run"].result["why"] == "on_evaluation returned True"
    assert float(capsys.readouterr().out.splitlines()[0]) > 400


def test_the_notebook(tmp_path, monkeypatch):
    with open("python/examples/train.ipynb") as file:
        cells = ["".join(cell["source"]) for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in cells:
        exec(cell, names)
    assert names["evaluation"]["mean"] > 400 and len(names["means"]) == 3
