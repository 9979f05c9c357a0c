"""Reads what training programs have written, and acts as they do: run_test.py FOLDER PAGE.

FOLDER/<name>/run is the folder of a run, FOLDER/<name>/episodes holds episodes that //worker:evaluate has played with its last
checkpoint. PAGE is docs/reference/python.md, whose examples are run.
"""

import os
import re
import sys
import unittest

import numpy as np

import ding_worker
from ding_worker.actor import MASK

FOLDER = ""
PAGE = ""


def load(name):
    """Returns the run, its last checkpoint that is no resume point, and the episodes."""
    run = ding_worker.open_run(os.path.join(FOLDER, name, "run"))
    last = [checkpoint for checkpoint in run.checkpoints if checkpoint.startswith("iteration_")][-1]
    return run, run.checkpoint(last), ding_worker.read_episodes(os.path.join(FOLDER, name, "episodes"))


def options_of(episodes):
    """What the actor has to be told about the actions."""
    action = episodes.field("action")
    return {} if action.num_categories else {"low": action.low, "high": action.high}


class RunTest(unittest.TestCase):
    def check_actions(self, actor, episodes):
        rows = 0
        for episode in episodes:
            actor.reset()
            obs = {name: episode[name] for name in episode.final_obs}
            if not actor.state_size:
                self.check_rows(actor.evaluate(obs), episode["action"], obs.get(MASK))
            for t in range(len(episode) if actor.state_size else 0):
                now = {name: column[t : t + 1] for name, column in obs.items()}
                self.check_rows(actor.evaluate(now), episode["action"][t : t + 1], now.get(MASK))
            rows += len(episode)
        self.assertGreater(rows, 20)

    def check_rows(self, result, action, mask):
        if "mean" in result:
            np.testing.assert_allclose(result["action"], action, rtol=1e-5, atol=1e-5)
            return
        values = result.get("q", result.get("logit"))
        if mask is not None:
            self.assertTrue(mask[np.arange(len(action)), result["action"]].all())
            values = np.where(mask, values, -np.inf)
        # Where two actions are equal to float32, either may have been chosen.
        taken = values[np.arange(len(action)), action]
        np.testing.assert_array_less(values.max(axis=1) - taken, 1e-5)

    def test_actions_are_those_that_were_recorded(self):
        # Each has what no other one has: a mask, normalized continuous actions, a memory.
        for name in ("dqn", "ppo_box", "ppo_mask", "ppo_lstm"):
            with self.subTest(name):
                _, checkpoint, episodes = load(name)
                actor = checkpoint.actor(**options_of(episodes))
                self.assertEqual(actor.head, {"dqn": "q", "ppo_box": "mean"}.get(name, "logit"))
                self.assertEqual(bool(actor.state_size), name == "ppo_lstm")
                self.assertEqual(MASK in episodes.rows, name == "ppo_mask")
                self.check_actions(actor, episodes)

    def test_every_checkpoint_of_a_run_is_read_whole(self):
        run, _, _ = load("dqn")
        self.assertTrue(any(name.startswith("resume_") for name in run.checkpoints))
        for name in run.checkpoints:
            checkpoint = run.checkpoint(name)
            checkpoint.verify()
            self.assertEqual(checkpoint.kind, "ding_worker/train")
            self.assertLessEqual({"model", "train_state", "learner"}, set(checkpoint.components))
            self.assertEqual(checkpoint.fields["policy"], "dqn")
            if name.startswith("iteration_"):
                learner = checkpoint.component("learner")
                self.assertEqual(str(learner.get_int("train_iter")), checkpoint.fields["train_iter"])
                self.assertEqual("iteration_" + checkpoint.fields["train_iter"], name)
            if name.startswith("resume_"):
                self.assertIn("replay_buffer", checkpoint.components)

    def test_config_metrics_and_result_are_read(self):
        for name in ("dqn", "ppo_lstm"):
            run, checkpoint, episodes = load(name)
            self.assertEqual(run.config["env"]["type"], episodes.env)
            self.assertEqual(run.config["policy"]["type"], checkpoint.fields["policy"])
            self.assertEqual(checkpoint.config["policy"], run.config["policy"])
            self.assertEqual(str(run.result["env_step"]), checkpoint.fields["env_step"])
            curve = run.metrics["evaluator_step/reward_mean"]
            self.assertEqual(len(curve.steps), len(curve.values))
            self.assertIn(run.result["eval_value"], curve.values)

    def test_the_order_of_tensors_is_that_of_the_page(self):
        _, checkpoint, _ = load("ppo_box")
        self.assertEqual(
            list(checkpoint.component("model")),
            ["model/actor/encoder/0/weight", "model/actor/encoder/0/bias", "model/actor/mean/0/weight", "model/actor/mean/0/bias"]
            + ["model/critic/encoder/0/weight", "model/critic/encoder/0/bias", "model/critic/value/0/weight"]
            + ["model/critic/value/0/bias", "model/distribution/log_std", "model/statistics/obs/count"]
            + ["model/statistics/obs/mean", "model/statistics/obs/sum_of_squares"],
        )

    def test_the_examples_of_the_page_run(self):
        with open(PAGE, encoding="utf-8") as file:
            examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(examples), 2)
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(os.path.join(FOLDER, "dqn"))
        for example in examples:
            with self.subTest(example):
                exec(compile(example, PAGE, "exec"), {})


if __name__ == "__main__":
    PAGE = os.path.abspath(sys.argv.pop(2))
    FOLDER = os.path.abspath(sys.argv.pop(1))
    unittest.main()
