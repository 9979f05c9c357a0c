"""Tests tools/di_engine with networks that torch saves and loads: to ours and back."""

import collections
import json
import shutil
import subprocess
import sys
import unittest

import numpy as np
import torch
from di_engine_test_case import (
    DQN,
    EXPORT,
    PROGRAM,
    QAC,
    SERIAL,
    TOOL,
    VAC,
    DiEngineTestCase,
    DistributionHead,
    EncoderQAC,
    QuantileHead,
    QuantileMeanHead,
    RainbowHead,
    best,
    qac_actor,
)
from torch import nn

from ding_worker import open_checkpoint


class DiEngineTest(DiEngineTestCase):
    def check(self, model, policy, flags=()):
        self.save(model)
        config = self.tool("import", "in.pth.tar", "--output=ours", *flags)
        self.assertIn(f'type: "{policy}"', config)
        subprocess.run([EXPORT, f"--checkpoint={self.folder}/ours", "--format=onnx", f"--output={self.folder}/onnx"], check=True, capture_output=True)
        golden = json.loads((self.folder / "onnx/golden.json").read_text())
        obs = np.array(golden["inputs"]["obs"]["data"], np.float32).reshape(16, 4)
        expected = model(torch.from_numpy(obs)).detach().numpy()
        outputs = golden["outputs"]
        found = np.array(outputs[model.outputs]["data"]).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        actions = best(model, expected, np.array([-1, -1]), np.array([1, 3]))
        np.testing.assert_allclose(np.array(outputs["action"]["data"]).reshape(actions.shape), actions, rtol=1e-5, atol=1e-5)
        # With the bounds and categories of the checkpoint.
        acted = open_checkpoint(self.folder / "ours").actor().act(obs)
        np.testing.assert_allclose(acted, actions, rtol=1e-5, atol=1e-5)
        manifest = json.loads((self.folder / "ours/manifest.json").read_text())
        self.assertEqual((manifest["fields"]["train_iter"], manifest["fields"]["env_step"]), ("7", "90"))
        printed = self.tool("export", "ours", "--output=back.pth.tar", f"--layout={getattr(model, 'layout', 'encoder')}")
        saved = torch.load(self.folder / "back.pth.tar")
        self.assertEqual(saved["last_iter"], 7)
        before = collections.OrderedDict(model.state_dict())
        self.assertEqual(set(saved["model"]), set(before))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(saved["model"][name], tensor), name)
        model.load_state_dict(saved["model"], strict=True)
        return printed

    def test_dqn(self):
        self.check(DQN(dueling=True), "dqn")

    def test_dqn_without_dueling(self):
        self.check(DQN(dueling=False), "dqn")

    def test_c51(self):
        printed = self.check(DQN(head=DistributionHead(64, 3, 11)), "c51", ["--policy=c51", "--model=action_shape=3, v_min=-3, v_max=5"])
        self.assertIn("note: give DI-engine's model v_min=-3, v_max=5, n_atom=11", printed)

    def test_qrdqn(self):
        printed = self.check(DQN(head=QuantileMeanHead(64, 3, 32)), "qrdqn", ["--policy=qrdqn", "--model=num_quantiles=32"])
        self.assertIn("num_quantiles=32", printed)

    def test_iqn(self):
        printed = self.check(DQN(head=QuantileHead(64, 3, 8, 16)), "iqn", ["--model=num_quantiles=8"])
        self.assertIn("num_quantiles=8, quantile_embedding_size=16", printed)

    def test_rainbow(self):
        self.check(DQN(head=RainbowHead(64, 3, 51)), "rainbow")

    def test_ppo(self):
        self.check(VAC(continuous=False, share=True), "ppo")

    def test_a2c_with_two_encoders(self):
        self.check(VAC(continuous=False, share=False), "a2c", flags=["--policy=a2c"])

    def test_ppo_continuous(self):
        self.check(VAC(continuous=True, share=True), "ppo", flags=["--low=-1,-1", "--high=1,3"])

    def test_sac(self):
        for make in (QAC, EncoderQAC):
            printed = self.check_qac(make(sac=True, layers=2), "sac")
            self.assertIn("twin_critic=True, actor_head_hidden_size=64, actor_head_layer_num=2, critic_head_hidden_size=64, critic_head_layer_num=1", printed)

    def test_sac_with_one_critic(self):
        self.check_qac(EncoderQAC(sac=True, twin=False), "sac")
        self.assertEqual(open_checkpoint(self.folder / "ours").config["policy"]["params"]["num_critics"], 1)

    def test_td3(self):
        for make in (QAC, EncoderQAC):
            self.check_qac(make(sac=False, critic_hidden=32), "td3")

    def test_ddpg(self):
        for make in (QAC, EncoderQAC):
            self.check_qac(make(sac=False, twin=False), "ddpg")

    def check_qac(self, model, policy):
        for name in ("ours", "onnx"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        printed = self.check(model, policy, flags=["--low=-1,-1", "--high=1,3"])
        self.check_critics(model)
        return printed

    def check_critics(self, model):
        """The critics that were imported have the values of the model's: by our layers, with ReLU between them."""
        tensors = open_checkpoint(self.folder / "ours").component("critic").scope("critic")
        x = np.random.default_rng(0).uniform(-1, 1, (16, 6)).astype(np.float32)
        critics = model.critics if isinstance(model.critics, nn.ModuleList) else [model.critics]
        for k, critic in enumerate(critics):
            y, layers = x, tensors.scope(f"q{k}/encoder")
            for i in range(len(layers) // 2):
                y = np.maximum(y @ layers[f"{i}/weight"].T + layers[f"{i}/bias"], 0)
            y = y @ tensors[f"q{k}/0/weight"].T + tensors[f"q{k}/0/bias"]
            np.testing.assert_allclose(y, critic(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-5)

    def ours(self, name, head, tensors, critics, continuous=None):
        """A checkpoint as a training of ours writes it, with critics in the component "train_state"."""
        actor = {"version": 1, "policy": "sac", "parameters": "model/actor", "network": {"activation": "relu"}, "head": head}
        config = {"policy": {"type": "sac", "params": {"[type.googleapis.com/ding.SacConfig]": {"continuous": continuous or {"model": {}}}}}}
        fields = {"policy": "sac", "actor": json.dumps(actor), "config": "\n".join(PROGRAM.di_engine_config.print_text(config))}
        arrays = [{key: np.full(shape, 0.5, np.float32) for key, shape in part.items()} for part in (tensors, critics)]
        PROGRAM.write_checkpoint(self.folder / name, {"model": arrays[0], "train_state": arrays[1]}, fields)

    @staticmethod
    def chain(scope, widths):
        shapes = {}
        for i, (before, after) in enumerate(zip(widths, widths[1:])):
            shapes[f"{scope}/{i}/weight"], shapes[f"{scope}/{i}/bias"] = (after, before), (after,)
        return shapes

    def test_a_training_of_ours_is_exported(self):
        def parts(hidden=(8, 8), heads=(), num_critics=2, outputs=("mean", "log_std")):
            actor = self.chain("model/actor/encoder", [4, *hidden])
            for output in outputs:
                actor.update(self.chain(f"model/actor/{output}", [hidden[-1], *heads, 2]))
            critics = {}
            for k in range(num_critics):
                # A hidden layer of the head follows those of the encoder.
                critics.update({**self.chain(f"critic/q{k}/encoder", [6, 16]), **self.chain(f"critic/q{k}", [16, 16, 1])})
            return actor, {**critics, "critic_optimizer/first_moment": (3,)}

        self.ours("sac", "tanh_normal", *parts())
        self.tool("export", "sac", "--output=sac.pth.tar")
        saved = torch.load(self.folder / "sac.pth.tar")["model"]
        model = EncoderQAC(sac=True, critic_hidden=16)
        model.actor_head = qac_actor(True, 8, 1)
        model.actor = nn.ModuleList([model.actor_encoder, model.actor_head])
        model.load_state_dict(saved, strict=True)
        self.tool("import", "sac.pth.tar", "--output=again")
        self.assertEqual(open_checkpoint(self.folder / "again").component("critic")["critic/q1/encoder/1/weight"].shape, (16, 16))

        self.ours("td3", "tanh", *parts(heads=(8,), num_critics=1, outputs=("mean",)))
        self.assertIn("actor_head_layer_num=2", self.tool("export", "td3", "--output=td3.pth.tar"))
        cases = [
            ("log_std have 1 hidden layers of their own", "tanh_normal", parts(heads=(8,)), None),
            (r"hidden layers of [8, 9], but those of DI-engine's QAC are equally wide", "tanh_normal", parts(hidden=(8, 9)), None),
            ("has 3 critics, but DI-engine's QAC has one or two", "tanh_normal", parts(num_critics=3), None),
            ("has no critics", "tanh_normal", parts(num_critics=0), None),
            ("the actor is relu and that of the critics tanh", "tanh_normal", parts(), {"model": {}, "critic": {"activation": "TANH"}}),
        ]
        for i, (words, head, tensors, continuous) in enumerate(cases):
            self.ours(f"case{i}", head, *tensors, continuous)
            self.assertIn(words, self.refused("export", f"case{i}", "--output=no.pth.tar"))
        self.assertFalse((self.folder / "no.pth.tar").exists())

    def test_Envs_HaveTheSizesOfTheTable(self):
        for env, (observation, action) in PROGRAM._ENVS.items():
            discrete = isinstance(action, int)
            (self.folder / "config").write_text(
                f'env {{ type: "{env}" collector_env_num: 1 evaluator_env_num: 1 n_evaluator_episode: 1 }} policy {{ type: "{"dqn" if discrete else "ppo"}" '
                "collect { n_sample: 64 } learn { batch_size: 64 } eval { evaluator { eval_freq: 1000 } } }"
            )
            command = [SERIAL, f"--config={self.folder}/config", f"--exp_dir={self.folder}/{env}", "--max_env_step=1"]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, f"{env}: {result.stderr[-2000:]}")
            fields = open_checkpoint(next((self.folder / env / "ckpt").glob("iteration_*"))).fields
            spaces = [json.loads(fields[name]) for name in ("observation", "action")]
            self.assertEqual([field["shape"] for field in spaces[0]], [[observation]], env)
            self.assertEqual(spaces[1][0]["categories"] if discrete else tuple(spaces[1][0]["shape"]), action, env)

    def test_program_ReturnsTheErrorAndCode1(self):
        result = subprocess.run([sys.executable, TOOL, "import", "none.pth.tar", "--output=ours"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("di_engine: [Errno 2] No such file or directory: 'none.pth.tar'", result.stderr)

    def ppo(self, name, actions, widths=(9, 16), critic=True):
        actor = {"version": 1, "policy": "ppo", "parameters": "model/actor", "network": {"activation": "relu"}, "head": "categorical"}
        tensors = {**self.chain("model/actor/encoder", widths[:2]), **self.chain("model/actor/logit", [*widths[1:], 9])}
        if critic:
            tensors.update({**self.chain("model/critic/encoder", [9, 16]), **self.chain("model/critic/value", [16, 1])})
        boards = [{"name": "obs/board", "shape": [9]}, {"name": "obs/action_mask", "shape": [9]}]
        config = {"policy": {"type": "ppo", "params": {"[type.googleapis.com/ding.PpoConfig]": {"actor_critic": {"model": {}}}}}}
        fields = {"policy": "ppo", "actor": json.dumps(actor), "config": "\n".join(PROGRAM.di_engine_config.print_text(config)), "observation": json.dumps(boards), "action": json.dumps(actions)}
        PROGRAM.write_checkpoint(self.folder / name, {"model": {key: np.zeros(shape, np.float32) for key, shape in tensors.items()}}, fields)

    def test_export_SaysWhatIsLost(self):
        self.ppo("game", [{"name": "action", "shape": [], "categories": 9}])
        printed = self.tool("export", "game", "--output=game.pth.tar")
        self.assertIn("note: action masks are lost: here the field 'obs/action_mask' says which actions are legal", printed)
        self.save(VAC(continuous=True, share=True))
        self.tool("import", "in.pth.tar", "--output=robot", "--low=-1,-1", "--high=1,3")
        self.assertIn("note: bounds of the action are lost", self.tool("export", "robot", "--output=robot.pth.tar"))
        self.tool("import", "in.pth.tar", "--output=squashed", "--model=bound_type='tanh'")
        self.assertIn("note: give DI-engine's model bound_type='tanh'", self.tool("export", "squashed", "--output=squashed.pth.tar"))
        self.assertEqual(set(torch.load("squashed.pth.tar")["model"]), set(torch.load("in.pth.tar")["model"]))

    def test_export_WhatNoModelOfTheOriginalLoads_IsRefused(self):
        one, two = {"name": "a", "shape": [], "categories": 9}, {"name": "b", "shape": [], "categories": 4}
        cases = (
            ("an action of 2 parts", dict(actions=[{"name": "action", "shape": [2], "low": [0, 0], "high": [4, 3], "categories": 5}])),
            ("an action of 2 parts", dict(actions=[one, two])),
            ("'model/actor/logit/0' has 24 outputs and 16 inputs", dict(actions=[one], widths=(9, 16, 24))),
            ("the checkpoint has no critic", dict(actions=[one], critic=False)),
        )
        for i, (words, arguments) in enumerate(cases):
            self.ppo(f"case{i}", **arguments)
            self.assertIn(words, self.refused("export", f"case{i}", "--output=no.pth.tar"))

if __name__ == "__main__":
    unittest.main()
