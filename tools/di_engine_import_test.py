"""Tests what tools/di_engine reads, and what it refuses: state dicts and configs of DI-engine."""

import json
import os
import shutil
import unittest
import zipfile

import numpy as np
import torch
from di_engine_test_case import DQN, PROGRAM, QAC, VAC, DiEngineTestCase, DiscreteHead, DistributionHead, QuantileMeanHead, RainbowHead

from ding_worker import open_checkpoint
from ding_worker.di_engine.model import ConfiguredModel, Settings


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


class DiEngineImportTest(DiEngineTestCase):
    def test_import_NamesOfTorchAndAnyOrder_AreTheSameNetwork(self):
        state = {f"module._orig_mod.{name}": tensor for name, tensor in reversed(list(VAC(continuous=True, share=False).state_dict().items()))}
        torch.save({"model": state}, self.folder / "in.pth.tar")
        self.tool("import", "in.pth.tar", "--output=reversed")
        torch.manual_seed(0)
        self.save(VAC(continuous=True, share=False))
        self.tool("import", "in.pth.tar", "--output=plain")
        for name in ("manifest.json", "model.safetensors"):
            files = [(self.folder / folder / name).read_text("latin-1") for folder in ("reversed", "plain")]
            self.assertEqual(*(sorted(json.loads(text)["fields"]["actor"] if name.endswith("json") else text) for text in files))
        tensors = [open_checkpoint(self.folder / folder).component("model") for folder in ("reversed", "plain")]
        for name in tensors[0]:
            np.testing.assert_array_equal(*(component.get_array(name) for component in tensors), err_msg=name)

    def test_import_HalfPrecision_HasTheSameNumbers(self):
        for kind in (torch.float16, torch.bfloat16, torch.float64):
            shutil.rmtree(self.folder / "ours", ignore_errors=True)
            state = {name: tensor.to(kind) for name, tensor in DQN(True).state_dict().items()}
            torch.save({"model": state}, self.folder / "in.pth.tar")
            self.tool("import", "in.pth.tar", "--output=ours")
            found = open_checkpoint(self.folder / "ours").component("model").get_array("model/encoder/0/weight")
            np.testing.assert_array_equal(found, state["encoder.init.weight"].float().numpy())

    def refuse_state(self, state, words, *flags):
        torch.save({"model": state}, self.folder / "in.pth.tar")
        self.assertIn(words, self.refused("import", "in.pth.tar", "--output=ours", *flags))
        self.assertFalse((self.folder / "ours").exists())

    def test_import_OtherArchitectures_AreRefusedByName(self):
        dqn, vac, qac = (model.state_dict() for model in (DQN(True), VAC(continuous=False, share=True), QAC(sac=False)))
        square = torch.zeros(64, 64)
        linear = lambda name, out=64, inputs=64: {f"{name}.weight": torch.zeros(out, inputs), f"{name}.bias": torch.zeros(out)}
        encoder = {name: tensor for name, tensor in dqn.items() if name.startswith("encoder.")}
        noisy = {name: tensor for name, tensor in DQN(head=RainbowHead(64, 3, 51)).state_dict().items() if ".Q." not in name}
        cases = [
            ("a residual block", {**dqn, **linear("encoder.main.4.fc1.0"), **linear("encoder.main.4.fc2.0")}),
            ("a normalization (norm_type)", {**dqn, "head.A.0.1.weight": torch.zeros(64), "head.A.0.1.bias": torch.zeros(64)}),
            ("a normalization (norm_type)", {**dqn, "head.A.0.1.running_mean": torch.zeros(64)}),
            ("multi-discrete actions", {**encoder, **linear("head.pred.0.Q.0.0"), **linear("head.pred.0.Q.1.0", 3)}),
            ("multi-discrete actions", {**{k: v for k, v in vac.items() if "actor" not in k}, **linear("actor_head.pred.0.Q.1.0", 3)}),
            ("FQF", {**encoder, **linear("head.Q.1.0", 3), **linear("head.fqf_fc.0"), **linear("head.quantiles_proposal.0", 32)}),
            ("BDQ", {**encoder, **linear("head.V.1.0", 1), **linear("head.branches.0.1.0", 2)}),
            ("a recurrent network", {**dqn, "rnn.wx.0": square, "rnn.bias": torch.zeros(64)}),
            ("PopArt", {**vac, "critic_head.popart.weight": torch.zeros(1, 64)}),
            ("QVAC", {**vac, **linear("critic_q_head.0")}),
            ("hybrid actions", {**{k: v for k, v in vac.items() if "actor" not in k}, **linear("actor_head.0.Q.1.0"), **linear("actor_head.1.mu")}),
            ("the discrete actions of a QAC", {**linear("actor_head.0", 64, 4), **linear("actor_head.2.Q.1.0", 3), **linear("critic_head.0", 64, 4)}),
            ("a third critic", {**qac, **linear("critic.2.0", 64, 6), **linear("critic.2.2.last", 1)}),
            ("an encoder of pictures", {**encoder, **linear("encoder.mid"), **linear("head.Q.1.0", 3)}),
            ("is a convolution", {**dqn, "encoder.main.0.weight": torch.zeros(8, 3, 3, 3)}),
            ("a transformer", {**dqn, **linear("core.layers.0")}),
            ("sigma_type='conditioned'", {**{k: v for k, v in vac.items() if "actor" not in k}, **linear("actor_head.mu", 2), **linear("actor_head.log_sigma_layer", 2)}),
            ("sigma_type='independent'", {**{k: v for k, v in vac.items() if "actor" not in k}, **linear("actor_head.mu", 2)}),
            ("A with noise", noisy),
            ("the critic has 3 outputs", {**{k: v for k, v in vac.items() if "critic" not in k}, **linear("critic_head.last", 3)}),
            ("the critic reads 9 numbers, expected 4", {**VAC(False, False).state_dict(), "critic_encoder.init.weight": torch.zeros(16, 9), "critic.0.init.weight": torch.zeros(16, 9)}),
            ("are one parameter, but differ", {**vac, "actor.1.Q.1.0.bias": torch.ones(3)}),
            ("two tensors are 'encoder.init.weight'", {**dqn, "module.encoder.init.weight": torch.zeros(128, 4)}),
            ("'encoder.extra.0' is a layer where no default network has one", {**dqn, **linear("encoder.extra.0")}),
            ("a layer of 2 outputs is followed by one of 64 inputs", {**dqn, **linear("head.A.0.0", 2)}),
            ("'head.A.0.0.bias' is [64], expected [2]", {**dqn, "head.A.0.0.weight": torch.zeros(2, 64)}),
            ("'encoder.main.3' is a layer where no default network has one; with a dropout", {k.replace("main.2", "main.3"): v for k, v in dqn.items()}),
            ("'encoder.main.1' is a layer where no default network has one", {k.replace("main.2", "main.1"): v for k, v in dqn.items()}),
            ("'encoder.main.1' is a layer where no default network has one", {k.replace("main.0", "main.1").replace("main.2", "main.3"): v for k, v in dqn.items()}),
            ("'encoder.0' is a layer where no default network has one", {k.replace("encoder.init", "encoder.0").replace("encoder.main.0", "encoder.2"): v for k, v in dqn.items()}),
            ("has torch.int64 numbers".replace("torch.", ""), {**dqn, "head.V.1.0.bias": torch.ones(1, dtype=torch.int64)}),
            ("is [0, 64], expected ['any', 'any']", {**dqn, **linear("head.A.1.0", 0)}),
            ("beyond those of float32", {k: v.double() * 1e200 for k, v in dqn.items()}),
        ]
        for words, state in cases:
            with self.subTest(words):
                self.refuse_state(state, words)

    def test_import_ADropout_IsReadIfItIsNamed(self):
        torch.save({"model": {k.replace("main.2", "main.3"): v for k, v in DQN(True).state_dict().items()}}, self.folder / "in.pth.tar")
        self.assertIn("# not translated: policy.model.dropout = 0.1", self.tool("import", "in.pth.tar", "--output=ours", "--model=dropout=0.1"))

    def test_import_EqualTensorsOfDifferentPolicies_AreRefusedUnlessTold(self):
        state = DQN(head=QuantileMeanHead(64, 2, 32)).state_dict()
        self.refuse_state(state, "the head returns 64 numbers: values of 64 actions (--policy=dqn), or distributions of fewer ones")
        self.refuse_state(state, "and the env has 2 actions", "--env=CartPole-v0")
        self.refuse_state(state, "the env CartPole-v0 has 4 and 2 actions", "--env=CartPole-v0", "--policy=dqn")
        self.refuse_state(state, "give the number of actions", "--policy=c51")
        self.refuse_state(state, "not those of 3 actions", "--policy=qrdqn", "--model=action_shape=3")
        self.refuse_state(state, "policy.model.action_shape is 2, but the tensors have 64", "--policy=dqn", "--model=action_shape=2")
        config = self.tool("import", "in.pth.tar", "--output=ours", "--policy=qrdqn", "--env=CartPole-v0")
        self.assertIn("quantiles: 32", config)
        self.tool("import", "in.pth.tar", "--output=dqn", "--policy=dqn")
        state = DQN(head=DiscreteHead(64, 4)).state_dict()
        torch.save({"model": state}, self.folder / "in.pth.tar")
        self.refused("import", "in.pth.tar", "--output=no")
        self.assertIn('type: "dqn"', self.tool("import", "in.pth.tar", "--output=four", "--model=action_shape=4"))

    def test_import_Settings_AreAppliedComparedOrListed(self):
        self.save(VAC(continuous=True, share=True))
        printed = self.tool("import", "in.pth.tar", "--output=ours", "--model=activation=nn.Tanh(), bound_type='tanh', obs_shape=[4], fixed_sigma_value=0.3")
        self.assertIn("activation: TANH", printed)
        self.assertIn("squash_actions: true", printed)
        self.assertIn("# note: bound_type='tanh' became squash_actions", printed)
        self.assertIn("# not translated: policy.model.fixed_sigma_value = 0.3", printed)
        self.assertNotIn("obs_shape", printed)
        self.assertIn("# assumed: sigma_type='independent'", printed)
        self.assertEqual(json.loads(open_checkpoint(self.folder / "ours").fields["actor"])["head"], "squashed_normal")
        printed = self.tool("import", "in.pth.tar", "--output=plain")
        for words in ("activation=nn.ReLU() (--activation)", "bound_type=None", "norm_type=None", "the policy is ppo", "the env is CartPole-v0 (--env), which does not fit the network", "the low bound of the action is -1"):
            self.assertIn(f"# assumed: {words}", printed)
        for settings, words in (
            ("activation=nn.GELU()", "policy.model.activation is nn.GELU(); converted are nn.ReLU() and nn.Tanh()"),
            ("norm_type='LN'", "policy.model.norm_type is 'LN'; converted are None"),
            ("sigma_type='happo'", "policy.model.sigma_type is 'happo'"),
            ("bound_type='clip'", "policy.model.bound_type is 'clip'"),
            ("share_encoder=False", "policy.model.share_encoder is False, but the tensors have True"),
            ("encoder_hidden_size_list=[64, 64]", "is [64, 64], but the tensors have [32, 64]"),
            ("action_space='discrete'", "but the tensors have 'continuous'"),
            ("obs_shape=5", "policy.model.obs_shape is 5, but the tensors have 4"),
            ("actor_head_layer_num=2", "is 2, but the tensors have 1"),
            ("x=", "expected settings such as"),
        ):
            self.assertIn(words, self.refused("import", "in.pth.tar", "--output=no", f"--model={settings}"))
        self.assertIn("--activation is relu, but", self.refused("import", "in.pth.tar", "--output=no", "--model=activation=nn.Tanh()", "--activation=relu"))

    def test_critics_that_do_not_fit_are_refused(self):
        state = QAC(sac=False).state_dict()
        for name, tensor, words in (("critic.0.0.weight", torch.zeros(64, 5), "'critic.0.*' reads 5 values and returns 1"),
                                    ("critic.1.2.last.bias", torch.full((1,), float("nan")), "'critic/q1/0/bias' is not finite")):
            torch.save({"model": {**state, name: tensor}}, self.folder / "in.pth.tar")
            self.assertIn(words, self.refused("import", "in.pth.tar", "--output=ours"))

    def test_import_AnActorAlone_IsNoted(self):
        torch.save({"model": {k: v for k, v in QAC(sac=True).state_dict().items() if k.startswith("actor.")}}, self.folder / "in.pth.tar")
        self.assertIn("# note: the file has no critics", self.tool("import", "in.pth.tar", "--output=ours"))

    def test_import_AnEnvThatIsNotKnown_IsNotCompared(self):
        self.save(DQN(True))
        self.assertIn("# assumed: the env Mine has 4 numbers and 3 actions, as the network", self.tool("import", "in.pth.tar", "--output=ours", "--env=Mine"))

    def test_import_EqualTensorsOfAnotherAlgorithm_AreAnAssumption(self):
        self.save(DQN(True))
        self.assertIn("# assumed: the policy is dqn (--policy)", self.tool("import", "in.pth.tar", "--output=ours"))
        self.assertNotIn("assumed: the policy", self.tool("import", "in.pth.tar", "--output=told", "--policy=dqn"))

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
        torch.save({"model": {7: torch.zeros(1)}}, self.folder / "number.pth.tar")
        self.assertIn("no member 'model' with tensors by name", self.refused("import", "number.pth.tar", "--output=other"))
        torch.save({"model": {"encoder.init.weight": torch.zeros(1).expand(1 << 20, 1 << 20)}}, self.folder / "huge.pth.tar")
        self.assertIn("a tensor of shape (1048576, 1048576) beyond the end of its 1 elements", self.refused("import", "huge.pth.tar", "--output=other"))
        with zipfile.ZipFile(self.folder / "memo.pth.tar", "w") as file:
            file.writestr("a/data.pkl", b"\x80\x02Nr\xff\xff\xff\x7f.")
        self.assertIn("is damaged: ", self.refused("import", "memo.pth.tar", "--output=other"))

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

    def config(self, text):
        """What import prints for a DQN and this config, or its refusal."""
        shutil.rmtree(self.folder / "ours", ignore_errors=True)
        (self.folder / "config.py").write_text(text)
        printed, error = self.run_tool(["import", "in.pth.tar", "--output=ours", "--config=config.py"])
        return printed if error is None else error

    def test_config_StatementsThatBuildIt_AreFollowed(self):
        self.save(DQN(True))
        base = "import copy\nfrom easydict import EasyDict\nbase = dict(env=dict(stop_value=1), policy=dict(nstep=2, learn=dict(batch_size=8)))\n"
        base += "big = dict(policy=dict(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8))\n"
        same = "main_config = EasyDict(base)\n"
        for statements in (
            "main_config = dict(**base, exp_name='x')\nmain_config['policy'].update(learn=dict(batch_size=16))",
            "main_config = {**base}\nmain_config['policy']['learn']['batch_size'] = 16",
            "main_config = base | {'policy': base['policy'] | {'learn': {'batch_size': 16}}}",
            "main_config: dict = dict(base, policy=dict(base['policy'], learn=dict(batch_size=16)))",
            same + "main_config.policy.learn.batch_size = 16",
            same + "main_config.policy.learn.batch_size *= 2",
            same + "main_config['policy'].learn['batch_size'] = int('2') ** 4 + max(-3, main_config.policy.nstep) - 2",
            same + "main_config.policy.learn.update(dict(batch_size=int(1.6e1)))",
            same + "main_config.policy |= {'learn': {'batch_size': 16}}",
            same + "learn = main_config.policy.learn\nlearn.batch_size = 16",
            same + "main_config.policy.learn = learn = dict(batch_size=16)\nlearn['batch_size'] = 3",
            same + "main_config.policy.learn = dict(batch_size=main_config.policy.learn.pop('batch_size') + 8)",
            same + "main_config.policy.learn, main_config.exp_name = dict(batch_size=16), f'{main_config.policy.nstep} steps'",
            same + "main_config.policy.learn.batch_size = 16\nassert main_config.policy.nstep == 2\nbase['policy']['learn']['batch_size'] = 3",
            same + "size = 16\nsizes = [size for size in range(3)]\nmain_config.policy.learn.batch_size = size",
            same + "class Model:\n    pass\ndef make(config):\n    config.policy.nstep = 3\nmain_config.policy.learn.batch_size = 16",
            "main_config = copy.deepcopy(base)\nmain_config['policy']['learn'] = dict(batch_size=16)\nbase['policy']['learn']['batch_size'] = 3",
            "main_config = deep_merge_dicts(base, dict(policy=dict(learn=dict(batch_size=16))))",
            same + "main_config.policy.learn.batch_size = 16\nprint(main_config)\nif __name__ == '__main__':\n    serial_pipeline((main_config, None), seed=0)",
        ):
            with self.subTest(statements):
                printed = self.config(base + statements + "\n")
                self.assertIn("batch_size: 16", printed)
                self.assertIn("nstep: 2", printed)
                self.assertIn("stop_value: 1", printed)
                self.assertNotIn("policy.h", printed)

    def test_config_WhatIsNotFollowed_IsRefusedWithItsLine(self):
        self.save(DQN(True))
        start = "main_config = dict(policy=dict(learn=dict(batch_size=8)))\n"
        change = "main_config['policy']['nstep'] = 3"
        for statements, words in (
            ("from x import base\nmain_config = dict(**base, policy=dict())", "line 2: it takes over the members of 'from x import base'"),
            ("from x import main_config", "line 1: main_config is 'from x import main_config'"),
            (start + "from x import *", "line 2: 'from x import *' may define any name"),
            ("main_config = make()", "line 1: main_config is 'make()'"),
            ("main_config = dict(policy=make())", "line 1: main_config.policy is 'make()'"),
            ("main_config = dict(policy=dict(learn=make()))", "line 1: main_config.policy.learn is 'make()'"),
            ("main_config = dict(policy=dict(model=3))", "main_config.policy.model is '3', expected a dict"),
            (start + "create_config = make()", "line 2: create_config is 'make()'"),
            (start + "if CUDA:\n    " + change, "line 2: 'if CUDA:' is not followed"),
            (start + "for x in SEEDS:\n    main_config['seed'] = x", "line 2: 'for x in SEEDS:' is not followed"),
            (start + "while True:\n    main_config.update(a=1)", "line 2: 'while True:' is not followed"),
            (start + "try:\n    import x\nexcept ImportError:\n    " + change, "line 2: 'try:' is not followed"),
            (start + "with open('x'):\n    " + change, "line 2: 'with open('x'):' is not followed"),
            (start + "class Config:\n    " + change, "line 2: 'class Config:' is not followed"),
            (start + "if CUDA:\n    main_config = 1", "line 2: 'if CUDA:' is not followed"),
            (start + "patch(main_config)", "line 2: 'patch(main_config)' is not followed"),
            (start + "patch([main_config])", "line 2: 'patch([main_config])' is not followed"),
            (start + "exec('main_config = 1')", "line 2: 'exec(\"main_config = 1\")' is not followed".replace('"', "'")),
            (start + "globals()['main_config'] = 1", "line 2: 'globals()' is not followed"),
            (start + "p = main_config['policy'] if CUDA else None\np.nstep = 3", "line 2: 'main_config['policy'] if CUDA else None' is not followed"),
            (start + "CUDA and main_config.update(nstep=3)", "line 2: 'main_config.update' is not followed"),
            (start + "f = lambda: main_config.update(nstep=3)\nf()", "line 2: 'main_config.update' is not followed"),
            (start + "f = main_config.update\nf(nstep=3)", "line 2: 'main_config.update' is not followed"),
            (start + "def f():\n    " + change + "\nf()", "line 4: 'f()' is not followed"),
            (start + "def f(c):\n    c['policy']['nstep'] = 3\nf(main_config)", "line 4: 'f(main_config)' is not followed"),
            (start + "def g():\n    f()\ndef f():\n    " + change + "\ng()", "line 6: 'g()' is not followed"),
            (start + "def dict(**members):\n    return main_config\nmain_config = dict()", "line 4: 'dict()' is not followed"),
            (start + "[main_config.update(nstep=n) for n in (1, 2)]", "line 2: 'main_config.update' is not followed"),
            (start + "main_config.policy.sizes = [1]\nmain_config.policy.sizes.append(2)", "line 3: 'main_config.policy.sizes.append' is not followed"),
            (start + "del main_config['policy']['learn']", "line 2: 'del main_config['policy']['learn']' is not followed"),
            (start + "(main_config := 3)", "line 2: '(main_config := 3)' is not followed"),
            (start + "main_config[KEY] = 1", "line 2: the key of 'main_config[KEY]' is not known"),
            (start + "main_config['policy'].update(other)", "line 2: it takes over the members of 'other'"),
            (start + "if __name__ == '__main__':\n    " + change, "line 3: this changes the config only where the file is run as a program"),
            (start + "if __name__ == '__main__':\n    c = main_config\n    c.nstep = 3", "line 4: this changes the config only"),
            (start + "def f(c):\n    c['nstep'] = 3\ndef g(c):\n    f(c)\nif __name__ == '__main__':\n    g(main_config)", "line 3: this changes the config only"),
            (start + "main_config['env']['x'] = 1", "line 2: 'main_config[\"env\"]' does not exist".replace('"', "'")),
            ("a = dict(policy=dict())\nb = dict(policy=dict(x=1))", "has several configs: a, b"),
            ("d = {}\n" + "d = dict(a=d, b=d)\n" * 60 + "main_config = EasyDict(policy=d)", "more than 100000 members"),
            (start + "main_config.x = " + "(" * 500 + "1" + ")" * 500, "config.py: "),
            ("main_config = dict(policy='x" + "'", "config.py"),
        ):
            with self.subTest(statements[:200]):
                self.assertIn(words, self.config(statements + "\n"))
                self.assertFalse((self.folder / "ours").exists())

    def test_config_ValuesThatDoNotFitAField_AreNotTranslated(self):
        self.save(DQN(True))
        printed = self.config(
            "main_config = dict(policy=dict(nstep='3', priority=1, discount_factor=True, learn=dict(batch_size=None, learning_rate=float('inf')), **{'learn.batch_size': 4}))"
        )
        for words in ("policy.nstep = '3'", "policy.priority = 1", "policy.discount_factor = True", "policy.learn.batch_size = None", "policy.learn.learning_rate = inf", "policy.['learn.batch_size'] = 4"):
            self.assertIn(f"# not translated: {words}", printed)
        self.assertNotIn("batch_size:", printed)

    def test_config_PolicyAndModel_AreThoseOfTheConfig(self):
        self.save(DQN(head=DistributionHead(64, 2, 11)))
        text = (
            "from easydict import EasyDict\nimport torch.nn as nn\n"
            "main_config = EasyDict(dict(policy=dict(cuda=True, model=dict(obs_shape=4, action_shape=2, n_atom=11, v_min=-1, v_max=1.5, activation=nn.Tanh()))))\n"
            "create_config = EasyDict(dict(env=dict(type='cartpole'), policy=dict(type='c51')))\n"
        )
        printed = self.config(text)
        for words in ('type: "c51"', "v_min: -1\n", "v_max: 1.5", "atoms: 11", "activation: TANH", "# not translated: policy.cuda = True", "# not translated: create_config.env.type = 'cartpole'"):
            self.assertIn(words, printed)
        self.assertNotIn("assumed: v_min", printed)
        self.assertIn("policy.model.n_atom is 7", self.config(text.replace("n_atom=11", "n_atom=7").replace("action_shape=2, ", "")) + "policy.model.n_atom is 7")
        self.assertIn("the policy is to be 'iqn'", self.config(text.replace("'c51'", "'iqn'")))
        self.assertIn("the policy is 'pg', expected dqn, c51", self.config(text.replace("'c51'", "'pg'")))
        for setting, words in (("activation=nn.ReLU() if DEEP else nn.Tanh()", "policy.model.activation is nn.ReLU() if DEEP else"), ("v_min=LOW", "policy.model.v_min is 'LOW', which is not known")):
            self.assertIn(words, self.config(text.replace("activation=nn.Tanh()" if "act" in setting else "v_min=-1", setting)))

    def test_networks_OfAConfig_AreThoseOfTheTensors(self):
        vac = {"encoder_hidden_size_list": [32, 64]}
        for policy, network, settings in (
            ("dqn", DQN(True), {}),
            ("dqn", DQN(), {"dueling": False}),
            ("qrdqn", DQN(head=QuantileMeanHead(64, 2, 32)), {"action_shape": 2}),
            ("c51", DQN(head=DistributionHead(64, 2, 51)), {"action_shape": 2}),
            ("rainbow", DQN(head=RainbowHead(64, 2, 51)), {}),
            ("ppo", VAC(continuous=False, share=True), vac),
            ("a2c", VAC(continuous=True, share=True), {**vac, "action_space": "continuous"}),
            ("sac", QAC(sac=True), {}),
            ("sac", QAC(sac=True, twin=False, layers=2, critic_hidden=32), {"twin_critic": False, "actor_head_layer_num": 2, "critic_head_hidden_size": 32}),
            ("td3", QAC(sac=False), {}),
            ("ddpg", QAC(sac=False, twin=False), {}),
        ):
            with self.subTest(policy, settings=settings):
                state = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
                found = PROGRAM.di_engine_networks.import_state(state, Settings(dict(settings)), policy, None)
                said = ConfiguredModel(policy, Settings(dict(settings)))
                self.assertEqual({"dueling": False, **said.network}, {"dueling": False, **found.network})
                self.assertEqual((said.critic, said.params, said.inside, said.num_critics), (found.critic, found.params, found.inside, found.num_critics))


if __name__ == "__main__":
    unittest.main()
