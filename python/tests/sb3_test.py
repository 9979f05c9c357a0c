"""Tests of the classes with the keywords of Stable-Baselines3."""

import os

import numpy as np
import pytest

import ding_worker as dw


def params(model):
    config = dw.parse_text_config(dw.resolve_config(model.run.config["policy"]["type"], env="CartPole-v1")) if model is None else model.run.config
    return config["policy"]["params"], config["policy"], config


def test_ppo_learns_and_goes_on_and_is_saved(tmp_path):
    model = dw.PPO("MlpPolicy", dw.make_vec("CartPole-v1", num_envs=8), n_steps=128, batch_size=256, learning_rate=1e-3, seed=1)
    assert model.learn(60_000) is model and 60_000 <= model.num_timesteps < 62_000
    assert model.run.evaluate(episodes=20)["mean"] > 300
    model.learn(2_000)
    assert 62_000 <= model.num_timesteps < 65_000
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    actions, state = model.predict(obs, deterministic=True)
    assert state is None and actions.shape == (50,)
    assert model.predict(obs[0], deterministic=True)[0] == actions[0]
    model.save(tmp_path / "model")
    loaded = dw.PPO.load(tmp_path / "model")
    assert (loaded.predict(obs, deterministic=True)[0] == actions).all()
    drawn = {tuple(loaded.predict(obs)[0]) for _ in range(20)}
    assert len(drawn) > 1
    with pytest.raises(ValueError, match="has no env, expected one"):
        loaded.learn(100)
    on = dw.PPO.load(tmp_path / "model.zip", env="CartPole-v1", n_steps=256).learn(256)
    assert on.run.result["env_step"] == 256
    assert on.run.evaluate(episodes=20)["mean"] > 200


def test_defaults_mean_the_same():
    """The values are those of Stable-Baselines3 2.3, in terms of ours."""
    ppo = dw.PPO("MlpPolicy", "CartPole-v1", seed=0).learn(2048).run.config
    assert ppo["policy"]["discount_factor"] == 0.99 and ppo["policy"]["collect"]["n_sample"] == 2048
    assert ppo["env"]["collector_env_num"] == 1 and ppo["policy"]["learn"]["batch_size"] == 64
    p = ppo["policy"]["params"]
    assert (p["epoch_per_collect"], p["clip_ratio"], p["value_clip"], p["adv_norm"], p["max_kl"]) == (10, 0.2, 0, True, 0)
    common = p["actor_critic"]
    assert common["value_weight"] == 1 and common["entropy_weight"] == 0 and common["adam_eps"] == 1e-5
    for network in (common["model"], common["critic"]):
        assert (network["encoder_hidden_size"], network["activation"], network["head_layer_num"]) == ([64, 64], "TANH", 0)

    dqn = dw.DQN("MlpPolicy", "CartPole-v1", learning_starts=8, buffer_size=500).learn(200).run.config["policy"]
    p = dqn["params"]
    assert (dqn["collect"]["n_sample"], dqn["learn"]["update_per_collect"], dqn["learn"]["batch_size"]) == (4, 1, 32)
    assert (p["double_dqn"], p["loss"], p["grad_clip_norm"], p["target_update_freq"]) == (False, "HUBER", 10, 2500)
    assert p["eps"] == {"type": "LINEAR", "start": 1, "end": 0.05, "decay": 20}
    assert dqn["random_collect_size"] == 8 and dqn["other"]["replay_buffer"]["replay_buffer_size"] == 500

    a2c = dw.A2C("MlpPolicy", "CartPole-v1").learn(50).run.config["policy"]
    assert a2c["collect"]["n_sample"] == 5 and a2c["params"]["actor_critic"]["learning_rate"] == 7e-4
    assert a2c["params"]["actor_critic"]["gae_lambda"] == 1 and a2c["params"]["adv_norm"] is False

    few = {"learning_starts": 20, "buffer_size": 500, "policy_kwargs": {"net_arch": [8, 8]}}
    sac = dw.SAC("MlpPolicy", "Pendulum-v1", **few).learn(30).run.config["policy"]["params"]
    assert (sac["alpha"], sac["learn_alpha"], sac["continuous"]["target_update_theta"]) == (1, True, 0.005)
    td3 = dw.TD3("MlpPolicy", "Pendulum-v1", **few, action_noise=0.1).learn(30).run.config["policy"]["params"]
    assert (td3["actor_update_freq"], td3["target_noise"], td3["exploration_noise"]) == (2, 0.2, 0.1)
    ddpg = dw.DDPG("MlpPolicy", "Pendulum-v1", **few).learn(30).run.config["policy"]["params"]
    assert ddpg["continuous"]["actor_learning_rate"] == 1e-3 and ddpg["exploration_noise"] == 0


def test_arguments_reach_the_config(tmp_path):
    model = dw.PPO(
        "MlpPolicy", "CartPole-v1", 1e-3, n_steps=64, n_epochs=2, gamma=0.9, target_kl=0.02, clip_range_vf=0.3, vf_coef=0.25, seed=7,
        policy_kwargs={"net_arch": {"pi": [16], "vf": [32, 32]}, "activation_fn": "ReLU"}, tensorboard_log=tmp_path / "logs",
    ).learn(64)  # fmt: skip
    config = model.run.config
    p = config["policy"]["params"]
    assert config["seed"] == 7 and config["policy"]["discount_factor"] == 0.9
    assert p["max_kl"] == pytest.approx(0.03) and p["value_clip"] == 0.3 and p["actor_critic"]["value_weight"] == 0.5
    assert p["actor_critic"]["model"]["encoder_hidden_size"] == 16 or p["actor_critic"]["model"]["encoder_hidden_size"] == [16]
    assert p["actor_critic"]["critic"]["encoder_hidden_size"] == [32, 32] and p["actor_critic"]["critic"]["activation"] == "RELU"
    assert model.run.path == str(tmp_path / "logs" / "PPO_1")
    soft = dw.DQN("MlpPolicy", "CartPole-v1", tau=0.01, learning_starts=8).learn(64).run.config
    assert soft["policy"]["params"]["target_update_theta"] == 0.01
    fixed = dw.SAC("MlpPolicy", "Pendulum-v1", ent_coef=0.2, target_entropy=-2.0, learning_starts=20).learn(30).run.config
    assert (fixed["policy"]["params"]["alpha"], fixed["policy"]["params"]["learn_alpha"]) == (0.2, False)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"policy": "CnnPolicy"}, ValueError, "policy is 'CnnPolicy', expected 'MlpPolicy'"),
        ({"env": object()}, ValueError, "env is a object, expected a name"),
        ({"n_step": 5}, TypeError, "PPO has no argument 'n_step', expected one of: .*n_steps"),
        ({"learning_rate": lambda left: left}, ValueError, "learning_rate is a schedule, expected a number"),
        ({"use_sde": True}, ValueError, "use_sde is True, expected False"),
        ({"buffer_size": 7}, TypeError, "PPO has no argument 'buffer_size'"),
    ],
)
def test_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        dw.PPO(**{"policy": "MlpPolicy", "env": "CartPole-v1", **arguments})


def test_later_refusals(tmp_path):
    model = dw.PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"ortho_init": False})
    with pytest.raises(ValueError, match="policy_kwargs has ortho_init"):
        model.learn(10)
    with pytest.raises(RuntimeError, match="the PPO has not learned"):
        model.predict(np.zeros(4))
    with pytest.raises(ValueError, match="callback is given"):
        model.learn(10, callback=print)
    with pytest.raises(ValueError, match="log_interval is 4, expected None"):
        model.learn(10, log_interval=4)
    with pytest.raises(ValueError, match="state is given"):
        model.predict(np.zeros(4), state=(1,))
    with pytest.raises(ValueError, match="train_freq is"):
        dw.DQN("MlpPolicy", "CartPole-v1", train_freq=(1, "episode")).learn(10)
    with pytest.raises(ValueError, match="continuous actions"):
        dw.SAC("MlpPolicy", "CartPole-v1").learn(10)
    with pytest.raises(FileNotFoundError):
        dw.PPO.load(tmp_path / "missing")
    assert os.listdir(tmp_path) == []
