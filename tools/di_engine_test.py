"""Tests tools/di_engine against networks written from DI-engine's documentation, which torch saves and loads.

  di_engine_test.py DI_ENGINE EXPORT     the tool, and the program //worker:export
"""

import collections
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch
from torch import nn

from ding_worker import open_checkpoint

TOOL, EXPORT = sys.argv[1:3]
del sys.argv[1:3]


def mlp(inputs, hidden, layers):
    blocks = []
    for i in range(layers):
        blocks += [nn.Linear(inputs if i == 0 else hidden, hidden), nn.ReLU()]
    return nn.Sequential(*blocks)


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs))


class FCEncoder(nn.Module):
    def __init__(self, inputs, widths):
        super().__init__()
        self.act = nn.ReLU()
        self.init = nn.Linear(inputs, widths[0])
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.Linear(before, after), self.act]
        self.main = nn.Sequential(*layers)

    def forward(self, x):
        return self.main(self.act(self.init(x)))


class DiscreteHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.Q = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, outputs))

    def forward(self, x):
        return self.Q(x)


class DuelingHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.A = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, outputs))
        self.V = nn.Sequential(mlp(hidden, hidden, layers), block(hidden, 1))

    def forward(self, x):
        a = self.A(x)
        return a - a.mean(dim=-1, keepdim=True) + self.V(x)


class RegressionHead(nn.Module):
    def __init__(self, hidden, outputs, layers=1):
        super().__init__()
        self.main = mlp(hidden, hidden, layers)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.last(self.main(x))


class ReparameterizationHead(nn.Module):
    def __init__(self, hidden, outputs, sigma, layers=1):
        super().__init__()
        self.main = mlp(hidden, hidden, layers)
        self.mu = nn.Linear(hidden, outputs)
        if sigma == "independent":
            self.log_sigma_param = nn.Parameter(torch.randn(1, outputs))
        else:
            self.log_sigma_layer = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.mu(self.main(x))


class DQN(nn.Module):
    outputs = "q"

    def __init__(self, dueling):
        super().__init__()
        self.encoder = FCEncoder(4, [128, 128, 64])
        self.head = (DuelingHead if dueling else DiscreteHead)(64, 3)

    def forward(self, x):
        return self.head(self.encoder(x))


class VAC(nn.Module):
    def __init__(self, continuous, share):
        super().__init__()
        self.share = share
        if share:
            self.encoder = FCEncoder(4, [32, 64])
        else:
            self.actor_encoder, self.critic_encoder = FCEncoder(4, [32, 64]), FCEncoder(4, [16, 64])
        self.critic_head = RegressionHead(64, 1)
        self.actor_head = ReparameterizationHead(64, 2, "independent") if continuous else DiscreteHead(64, 3)
        encoders = [self.encoder] * 2 if share else [self.actor_encoder, self.critic_encoder]
        self.actor = nn.ModuleList([encoders[0], self.actor_head])
        self.critic = nn.ModuleList([encoders[1], self.critic_head])
        self.outputs = "mean" if continuous else "logit"

    def forward(self, x):
        return self.actor_head(self.actor[0](x))


def qac_actor(sac, hidden, layers):
    head = ReparameterizationHead(hidden, 2, "conditioned", layers) if sac else RegressionHead(hidden, 2, layers)
    return nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), head)


def qac_critic(twin, hidden):
    critics = [nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), RegressionHead(hidden, 1)) for _ in range(2 if twin else 1)]
    return nn.ModuleList(critics) if twin else critics[0]


class QAC(nn.Module):
    """As in earlier versions."""

    outputs, layout = "mean", "plain"

    def __init__(self, sac, twin=True, layers=1, critic_hidden=64):
        super().__init__()
        self.actor, self.critic = qac_actor(sac, 64, layers), qac_critic(twin, critic_hidden)

    @property
    def critics(self):
        return self.critic

    def forward(self, x):
        return self.actor(x)


class EncoderQAC(nn.Module):
    """As in later versions, with an encoder that vectors do not need."""

    outputs, layout = "mean", "encoder"

    def __init__(self, sac, twin=True, layers=1, critic_hidden=64):
        super().__init__()
        self.actor_encoder, self.critic_encoder = nn.Identity(), nn.Identity()
        self.actor_head, self.critic_head = qac_actor(sac, 64, layers), qac_critic(twin, critic_hidden)
        self.actor = nn.ModuleList([self.actor_encoder, self.actor_head])
        self.critic = nn.ModuleList([self.critic_encoder, self.critic_head])

    @property
    def critics(self):
        return self.critic_head

    def forward(self, x):
        return self.actor_head(self.actor_encoder(x))


def best(model, outputs, low, high):
    """The best actions by DI-engine's rules."""
    if model.outputs != "mean":
        return outputs.argmax(axis=1)
    unit = np.tanh(outputs) if isinstance(model, (QAC, EncoderQAC)) else np.clip(outputs, -1, 1)
    return low + (unit + 1) / 2 * (high - low)


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


class DiEngineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(0)

    def tool(self, *arguments):
        return subprocess.run([sys.executable, TOOL, *map(str, arguments)], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def refused(self, *arguments):
        result = subprocess.run([sys.executable, TOOL, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr

    def save(self, model, **more):
        torch.save({"model": model.state_dict(), "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]}, "last_iter": 7, "last_step": 90, **more}, self.folder / "in.pth.tar")

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
        loader = importlib.machinery.SourceFileLoader("di_engine_tool", TOOL)
        writer = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(writer)
        actor = {"version": 1, "policy": "sac", "parameters": "model/actor", "network": {"activation": "relu"}, "head": head}
        config = {"policy": {"type": "sac", "params": {"[type.googleapis.com/ding.SacConfig]": {"continuous": continuous or {"model": {}}}}}}
        fields = {"policy": "sac", "actor": json.dumps(actor), "config": "\n".join(writer.print_text(config))}
        arrays = [{key: np.full(shape, 0.5, np.float32) for key, shape in part.items()} for part in (tensors, critics)]
        writer.write_checkpoint(self.folder / name, {"model": arrays[0], "train_state": arrays[1]}, fields)

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

    def test_critics_that_do_not_fit_are_refused(self):
        state = QAC(sac=False).state_dict()
        for name, tensor, words in (("critic.0.0.weight", torch.zeros(64, 5), "'critic.0.*' reads 5 values and returns 1"),
                                    ("critic.1.2.last.bias", torch.full((1,), float("nan")), "'critic/q1/0/bias' is not finite")):
            torch.save({"model": {**state, name: tensor}}, self.folder / "in.pth.tar")
            self.assertIn(words, self.refused("import", "in.pth.tar", "--output=ours"))

    def test_nothing_is_executed(self):
        self.save(DQN(True), hook=Evil())
        error = self.refused("import", "in.pth.tar", "--output=ours")
        self.assertRegex(error, r"the pickle names (posix|os)\.system; only tensors and plain containers are read")
        self.assertFalse((self.folder / "evil").exists())
        self.assertFalse((self.folder / "ours").exists())

    def test_refusals(self):
        (self.folder / "text").write_text("no checkpoint")
        self.assertIn("no file of torch.save()", self.refused("import", "text", "--output=ours"))
        torch.save({"model": {"conv.weight": torch.zeros(1, 1, 3, 3)}}, self.folder / "conv.pth.tar")
        self.assertIn("no default network", self.refused("import", "conv.pth.tar", "--output=ours"))
        model = DQN(True)
        state = model.state_dict()
        state["extra.weight"] = torch.zeros(3)
        torch.save({"model": state}, self.folder / "extra.pth.tar")
        self.assertIn("extra.weight", self.refused("import", "extra.pth.tar", "--output=ours"))
        self.save(model)
        self.assertIn("are those of dqn", self.refused("import", "in.pth.tar", "--output=ours", "--policy=ppo"))
        self.tool("import", "in.pth.tar", "--output=ours")
        self.assertIn("exists already", self.refused("import", "in.pth.tar", "--output=ours"))
        data = bytearray((self.folder / "in.pth.tar").read_bytes())
        for at in range(0, len(data), max(1, len(data) // 40)):
            (self.folder / "bad.pth.tar").write_bytes(data[:at])
            self.refused("import", "bad.pth.tar", "--output=other")

    def test_translates_a_config(self):
        self.save(DQN(True))
        (self.folder / "total_config.py").write_text(
            "from easydict import EasyDict\n"
            "exp = dict(exp_name='x', env=dict(collector_env_num=8, stop_value=195, manager=dict(shared_memory=False)),\n"
            "  policy=dict(discount_factor=0.97, model=dict(obs_shape=4), learn=dict(batch_size=64, learning_rate=1e-3),\n"
            "    other=dict(eps=dict(type='exp', start=0.95, end=0.1, decay=int(1e4)), replay_buffer=dict(replay_buffer_size=20 * 1000, alpha=size()))))\n"
            "exp = EasyDict(exp)\n__import__('os').system('touch evil')\n"
        )
        config = self.tool("import", "in.pth.tar", "--output=ours", "--config=total_config.py")
        for line in ("discount_factor: 0.97", "batch_size: 64", "learning_rate: 0.001", "start: 0.95", "collector_env_num: 8", "stop_value: 195", "replay_buffer_size: 20000", "dueling: true"):
            self.assertIn(line, config)
        self.assertIn("decay: 10000", config)
        self.assertIn("# not translated: policy.other.replay_buffer.alpha = 'size()'", config)
        self.assertIn("# not translated: env.manager.shared_memory = False", config)
        self.assertFalse((self.folder / "evil").exists())


if __name__ == "__main__":
    unittest.main()
