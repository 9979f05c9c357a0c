"""Tests of training by configs of DI-engine. The configs are written from its documentation."""

import subprocess
import sys

import pytest

import ding_worker as dw
from ding_worker.di_engine.__main__ import translate
from ding_worker.di_engine.evaluator import Refused
from ding_worker.training import train_text

CARTPOLE_DQN = """
from easydict import EasyDict
main_config = EasyDict(dict(
    exp_name='cartpole_dqn_seed0',
    env=dict(collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=195, replay_path='video'),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[128, 128, 64], dueling=True),
        nstep=1,
        discount_factor=0.97,
        learn=dict(update_per_collect=5, batch_size=64, learning_rate=0.001),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=40)),
        other=dict(eps=dict(type='exp', start=0.95, end=0.1, decay=10000), replay_buffer=dict(replay_buffer_size=20000)),
    ),
))
create_config = dict(env=dict(type='cartpole', import_names=['dizoo.cartpole']), policy=dict(type='dqn'))
if __name__ == "__main__":
    open('/nonexistent/executed', 'w')
"""
OF = """
main_config = dict(env=dict(env_id='{env}', stop_value=1e6), policy=dict(model=dict({model}), learn=dict({learn}), {more}))
create_config = dict(policy=dict(type='{policy}'))
"""


def write(tmp_path, text):
    path = tmp_path / "config.py"
    path.write_text(text)
    return str(path)


def translated(tmp_path, policy, env, model="", learn="", more="", **options):
    text, notes = translate(write(tmp_path, OF.format(policy=policy, env=env, model=model, learn=learn, more=more)), **options)
    return dw.parse_text_config(text), notes


def test_cartpole_dqn_is_solved(tmp_path):
    path = write(tmp_path, CARTPOLE_DQN)
    done = subprocess.run(
        [sys.executable, "-m", "ding_worker.di_engine", path, "--seed=0", f"--exp_dir={tmp_path / 'run'}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "env.stop_value 195 was reached" in done.stdout
    assert "# not translated: env.replay_path = 'video'" in done.stderr and "the env is CartPole-v0 (--env), for 'cartpole'" in done.stderr
    config = dw.open_run(tmp_path / "run").config
    assert config["exp_name"] == "cartpole_dqn_seed0" and config["policy"]["discount_factor"] == 0.97
    model = config["policy"]["params"]["model"]
    assert (model["encoder_hidden_size"], model["dueling"], model["head_layer_num"]) == ([128, 128, 64], True, 1)
    assert config["policy"]["params"]["eps"]["decay"] == 10000 and config["policy"]["learn"]["update_per_collect"] == 5


@pytest.mark.parametrize(
    "policy, env, model, learn, more, expected",
    [
        ("ppo", "CartPole-v1", "", "epoch_per_collect=4, clip_ratio=0.3", "", {"epoch_per_collect": 4, "clip_ratio": 0.3}),
        ("c51", "CartPole-v1", "n_atom=11, v_min=0, v_max=100", "", "", {"atoms": 11, "v_min": 0, "v_max": 100}),
        ("rainbow", "CartPole-v1", "n_atom=21", "", "", {"atoms": 21, "v_min": -10}),
        ("qrdqn", "CartPole-v1", "num_quantiles=8", "", "", {"quantiles": 8}),
        ("iqn", "CartPole-v1", "num_quantiles=8", "kappa=2.0", "", {"fractions": 8, "cosines": 129, "kappa": 2}),
        ("a2c", "CartPole-v1", "", "adv_norm=True", "", {"adv_norm": True}),
        ("sac", "Pendulum-v1", "twin_critic=True", "alpha=0.2, auto_alpha=False, learning_rate_q=0.01", "", {"alpha": 0.2, "learn_alpha": False}),
        ("td3", "Pendulum-v1", "", "noise_range=dict(min=-0.4, max=0.4)", "collect=dict(noise_sigma=0.3)", {"target_noise_clip": 0.4, "exploration_noise": 0.3}),
        ("ddpg", "Pendulum-v1", "actor_head_hidden_size=32", "learning_rate_actor=0.01", "", {}),
    ],
)
def test_each_policy_trains_with_its_settings(tmp_path, policy, env, model, learn, more, expected):
    path = write(tmp_path, OF.format(policy=policy, env=env, model=model, learn=learn, more=more))
    text, notes = translate(path)
    assert not [note for note in notes if note.startswith("# not translated") and "noise_range.min" not in note], notes
    config = dw.parse_text_config(text)
    assert {name: config["policy"]["params"][name] for name in expected} == expected
    train_text(text, path, ["max_train_iter=3", "policy.learn.batch_size=8"], tmp_path / "run", progress=False)
    assert dw.open_run(tmp_path / "run").result["train_iter"] >= 3


def test_networks(tmp_path):
    config, _ = translated(tmp_path, "ppo", "CartPole-v1", "encoder_hidden_size_list=[32, 16], actor_head_hidden_size=8, critic_head_hidden_size=8")
    common = config["policy"]["params"]["actor_critic"]
    assert "critic" not in common
    assert {**common["model"], "type": "mlp"} == {"type": "mlp", "encoder_hidden_size": [32, 16], "head_layer_num": 1, "head_hidden_size": 8}
    model = "share_encoder=False, critic_head_layer_num=2, activation=nn.Tanh()"
    common = translated(tmp_path, "ppo", "CartPole-v1", model)[0]["policy"]["params"]["actor_critic"]
    assert common["critic"]["head_layer_num"] == 2 and common["model"]["activation"] == "TANH"
    config, _ = translated(tmp_path, "sac", "Pendulum-v1", "actor_head_hidden_size=128, actor_head_layer_num=2, critic_head_hidden_size=256")
    networks = config["policy"]["params"]["continuous"]
    assert networks["model"]["encoder_hidden_size"] == [128, 128, 128] and networks["critic"]["encoder_hidden_size"] == [256, 256]
    config, _ = translated(tmp_path, "dqn", "my_maze:Maze")
    assert config["env"]["type"] == "gymnasium" and config["env"]["params"]["entry_point"] == "my_maze:Maze"
    assert translated(tmp_path, "dqn", "LunarLander-v2")[0]["env"]["type"] == "LunarLander-v3"


@pytest.mark.parametrize(
    "text, text_of_error",
    [
        (OF.format(policy="coma", env="CartPole-v0", model="", learn="", more=""), "the policy is 'coma', expected one of: dqn, "),
        ("main_config = dict(env=dict(), policy=dict())\ncreate_config = dict(policy=dict(type='dqn'))", "names no env"),
        ("import os\nmain_config = make()\n", "main_config"),
        ("x = 1", "policy"),
        (OF.format(policy="ppo", env="CartPole-v0", model="actor_head_layer_num=3", learn="", more=""), "on one encoder, expected equal ones"),
        (OF.format(policy="td3", env="Pendulum-v1", model="twin_critic=False", learn="", more=""), "td3 has two critics"),
        (OF.format(policy="dqn", env="CartPole-v0", model="norm_type='BN'", learn="", more=""), "norm_type is 'BN'"),
        (OF.format(policy="sac", env="CartPole-v0", model="action_space='discrete'", learn="", more=""), "expected continuous actions"),
    ],
)
def test_refusals(tmp_path, text, text_of_error):
    with pytest.raises(Refused, match=text_of_error):
        translate(write(tmp_path, text))


def test_errors_of_the_program(tmp_path):
    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "ding_worker.di_engine", *arguments], capture_output=True, text=True, timeout=60)

    missing = run(str(tmp_path / "none.py"))
    assert missing.returncode == 1 and missing.stderr.startswith("ding_worker.di_engine: [Errno 2]")
    unknown = run(write(tmp_path, OF.format(policy="dqn", env="Maze-v7", model="", learn="", more="")), f"--exp_dir={tmp_path / 'run'}")
    assert unknown.returncode == 1 and "Maze-v7" in unknown.stderr.splitlines()[-1] and not (tmp_path / "run").exists()
    shown = run(write(tmp_path, CARTPOLE_DQN), "--print", "--env=CartPole-v1")
    assert shown.returncode == 0 and 'type: "CartPole-v1"' in shown.stdout and dw.resolve_config(dict_of(shown.stdout)) != ""


def dict_of(text):
    config = dw.parse_text_config(text)
    return {"exp_name": config["exp_name"], "env": config["env"], "policy": {"type": config["policy"]["type"]}}
