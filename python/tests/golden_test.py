"""Compares the actor with the policies of the C++ programs: golden_test.py FOLDER, as testing/golden_main.cc has written it.

Outputs may differ by 1e-5 (of those above 1: by a part of 1e-5), since the programs compute in float32.
"""

import os
import sys
import unittest

import numpy as np

import ding_worker
from ding_worker.actor import MASK

FOLDER = ""
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
BOUNDS = {"low": [-2, 0.5], "high": [2, 1]}
# The cases of testing/golden_main.cc, and what their actors have to be told.
OPTIONS = {
    "dqn": {},
    "ppo": {"counts": [2, 3]},
    "ppo_box": BOUNDS,
    "a2c": {},
    "bc": BOUNDS,
    "r2d2": {},
    "ppo_gru": {},
    "ppo_squashed": BOUNDS,
    "cql": {},
    "c51": {},
    "rainbow": {},
    "qrdqn": {},
    "iqn": {},
    "discrete_sac": {},
    "sac": {},
    "td3": {},
    "ddpg": {},
    "td3bc": {},
    "iql": {},
}
# Those of which nothing but the actions can be compared.
ONLY_ACTIONS = ("bc", "discrete_sac", "sac", "td3", "ddpg", "td3bc", "iql")


def load(case):
    """Returns the actor and the steps of a case."""
    folder = os.path.join(FOLDER, case)
    golden = ding_worker.read_safetensors(os.path.join(folder, "golden.safetensors"))
    steps = [golden.scope(str(t)) for t in range(sum(name.endswith("/greedy/action") for name in golden))]
    return ding_worker.open_checkpoint(os.path.join(folder, "checkpoint")).actor(**OPTIONS[case]), steps


def observation(step):
    """The observation of a step as a dict of fields in the env's order."""
    return dict(step.scope("obs"))


def distribution_of(policy, outputs):
    """The values and the distribution of the outputs [B, A, N] of the network of a distributional case."""
    if policy in ("qrdqn", "iqn"):
        return {"q": outputs.mean(axis=2), "distribution": outputs}
    probability = np.exp(outputs) / np.exp(outputs).sum(axis=2, keepdims=True)
    atoms = [-3 + 8 / 6 * k for k in range(7)] if policy == "c51" else [-10 + 0.4 * k for k in range(51)]
    return {"q": (probability * atoms).sum(axis=2), "distribution": probability}


def log_prob(actor, result, raw, mask):
    """The log-probability of what the C++ policy drew."""
    if actor.head == "mean":
        std = np.exp(actor._log_std)
        u = (raw - result["mean"]) / std
        # The head "squashed_normal" gives the density of tanh(raw).
        squash = np.log(1 - np.tanh(raw) ** 2) if actor._kind == "squashed_normal" else 0
        return (-0.5 * (u * u + np.log(2 * np.pi)) - np.log(std) - squash).sum(axis=1)
    total, begin = 0, 0
    actions = raw.reshape(len(raw), -1)
    for element, count in enumerate(actor._counts):
        logit = result["logit"][:, begin : begin + count]
        logit = logit if mask is None else np.where(mask[:, begin : begin + count], logit, -np.inf)
        total = total + logit[np.arange(len(raw)), actions[:, element]] - np.log(np.exp(logit).sum(axis=1))
        begin += count
    return total


class AgreementTest(unittest.TestCase):
    def check_step(self, actor, step):
        collected = step.scope("collect")
        obs = observation(step)
        if actor.state_size:
            states = np.array([actor._states.get(i, np.zeros(actor.state_size)) for i in range(len(collected["action"]))])
            np.testing.assert_allclose(states, collected["rnn_state"], **TOLERANCE)
        result = actor.evaluate(obs)
        compared = [name for name in ("logit", "mean", "value") if name in collected]
        for name in compared:
            np.testing.assert_allclose(result[name], collected[name], err_msg=name, **TOLERANCE)
        if "q" in step:
            compared.append("q")
            expected = {"q": step["q"]} if step["q"].ndim == 2 else distribution_of(actor.policy, step["q"])
            for name, values in expected.items():
                np.testing.assert_allclose(result[name], values, err_msg=name, **TOLERANCE)
        if actor.head == "mean":
            np.testing.assert_allclose(result["action"], step["greedy/action"], **TOLERANCE)
        else:
            np.testing.assert_array_equal(result["action"], step["greedy/action"])
        if "log_prob" in collected:
            raw = collected["raw_action" if actor.head == "mean" else "action"]
            found = log_prob(actor, result, raw, obs.get(MASK))
            np.testing.assert_allclose(found, collected["log_prob"], **TOLERANCE)
        return compared

    def test_cases(self):
        for case in OPTIONS:
            with self.subTest(case):
                actor, steps = load(case)
                self.assertGreaterEqual(len(steps), 2)
                compared = [self.check_step(actor, step) for step in steps]
                self.assertTrue(compared[0] or case in ONLY_ACTIONS, "outputs were compared")

    def test_observations_as_one_array_are_the_same(self):
        actor, steps = load("ppo")
        fields = observation(steps[0])
        mask = fields.pop(MASK)
        joined = np.concatenate(list(fields.values()), axis=1)
        together = actor.evaluate(joined, mask=mask)
        for name, values in actor.evaluate(observation(steps[0])).items():
            np.testing.assert_array_equal(values, together[name])
        single = actor.evaluate(joined[2], mask=mask[2])
        self.assertEqual(single["action"].shape, (2,))
        np.testing.assert_allclose(single["logit"], together["logit"][2], atol=1e-12)

    def test_fields_are_read_in_the_order_of_the_env(self):
        actor, steps = load("ppo")
        fields = observation(steps[0])
        for name, values in actor.evaluate(dict(reversed(fields.items()))).items():
            np.testing.assert_array_equal(values, actor.evaluate(fields)[name])
        checkpoint = ding_worker.open_checkpoint(os.path.join(FOLDER, "dqn", "checkpoint"))
        checkpoint.fields["observation"] = '[{"name": "obs/a"}, {"name": "obs/action_mask"}, {"name": "obs/b"}]'
        actor = checkpoint.actor()
        x = np.random.default_rng(0).uniform(-1, 1, (8, actor.input_width))
        found = actor.evaluate({"obs/b": x[:, 1:], "obs/a": x[:, :1]})["q"]
        np.testing.assert_array_equal(found, actor.evaluate(x)["q"])
        with self.assertRaisesRegex(ValueError, "has the fields \\['obs/b'\\], expected \\['obs/a', 'obs/b'\\]"):
            actor.act({"obs/b": x})

    def test_actions_have_the_shape_of_the_env(self):
        for case, more, shape in (("ppo", '"high": [1, 2]', (2, 1)), ("ppo_box", '"low": -1, "high": 1', (1, 2))):
            checkpoint = ding_worker.open_checkpoint(os.path.join(FOLDER, case, "checkpoint"))
            checkpoint.fields["action"] = f'[{{"name": "action", "shape": {list(shape)}, {more}}}]'
            actor = checkpoint.actor()
            self.assertEqual(actor.act(np.zeros((3, actor.input_width))).shape, (3, *shape))
            self.assertEqual(actor.act(np.zeros(actor.input_width)).shape, shape)

    def test_a_reset_env_begins_anew(self):
        actor, steps = load("ppo_gru")
        first = actor.evaluate(observation(steps[0]))
        second = actor.evaluate(observation(steps[0]))
        self.assertFalse(np.allclose(first["logit"], second["logit"]))
        actor.reset([0, 1])
        third = actor.evaluate(observation(steps[0]))
        np.testing.assert_array_equal(first["logit"][:2], third["logit"][:2])
        self.assertFalse(np.allclose(first["logit"][2:], third["logit"][2:]))

    def test_samples_have_the_probabilities_of_the_policy(self):
        actor, steps = load("ppo")
        obs = {name: np.repeat(values[:1], 20000, axis=0) for name, values in observation(steps[0]).items()}
        mask = obs[MASK][0]
        result = actor.evaluate(obs, sample=True)
        begin = 0
        for element, count in enumerate((2, 3)):
            weights = np.exp(result["logit"][0, begin : begin + count]) * mask[begin : begin + count]
            shares = np.bincount(result["action"][:, element], minlength=count) / 20000
            # Five standard deviations, at most 0.018.
            np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.018)
            self.assertTrue((shares[~mask[begin : begin + count]] == 0).all())
            begin += count

    def test_continuous_samples_have_the_deviation_of_the_policy(self):
        actor, steps = load("ppo_box")
        obs = np.repeat(observation(steps[0])["obs"][:1], 20000, axis=0)
        result = actor.evaluate(obs, sample=True)
        # initial_log_std is -0.5; five standard deviations of the estimate.
        np.testing.assert_allclose(result["raw_action"].std(axis=0), np.exp(-0.5), rtol=0.025)
        np.testing.assert_allclose(result["raw_action"].mean(axis=0), result["mean"][0], atol=0.022)
        self.assertTrue((result["action"] >= [-2, 0.5]).all() and (result["action"] <= [2, 1]).all())

    def test_squashed_samples_have_the_deviation_of_the_network(self):
        actor, steps = load("sac")
        obs = np.repeat(observation(steps[0])["obs"][:1], 20000, axis=0)
        result = actor.evaluate(obs, sample=True)
        # Five standard deviations of the estimates, which the deviation scales.
        deviation = np.exp(np.clip(result["log_std"][0], -20, 2))
        np.testing.assert_allclose(result["raw_action"].std(axis=0), deviation, rtol=0.025)
        self.assertTrue((np.abs(result["raw_action"].mean(axis=0) - result["mean"][0]) < 0.036 * deviation).all())
        unit = (result["action"] - [-2, 0.5]) / [4, 0.5] * 2 - 1
        np.testing.assert_allclose(unit, np.tanh(result["raw_action"]), atol=1e-5)

    def test_samples_of_deterministic_policies_are_their_best_actions(self):
        actor, steps = load("td3")
        obs = observation(steps[0])
        np.testing.assert_array_equal(actor.act(obs, sample=True), actor.act(obs))

    def test_actions_are_inside_of_bounds_that_float32_does_not_have(self):
        _, steps = load("td3")
        actor = ding_worker.open_checkpoint(os.path.join(FOLDER, "td3", "checkpoint")).actor(low=-0.4, high=[0.4, 0.3])
        actions = actor.act(1e6 * observation(steps[0])["obs"]).astype(np.float64)
        self.assertTrue((actions >= -0.4).all() and (actions <= [0.4, 0.3]).all(), actions.tolist())
        self.assertTrue((np.abs(actions[:, 0]) > 0.399999).any(), "none is at a bound")

    def test_noisy_networks_are_not_sampled(self):
        actor, steps = load("rainbow")
        with self.assertRaisesRegex(ValueError, "samples by noise in its parameters"):
            actor.act(observation(steps[0]), sample=True, eps=0.1)

    def test_epsilon_is_the_share_of_random_actions(self):
        actor, steps = load("dqn")
        obs = {name: np.repeat(values[:1], 20000, axis=0) for name, values in observation(steps[0]).items()}
        obs[MASK] = np.broadcast_to([True, False, True], (20000, 3))
        greedy = actor.act(obs)
        np.testing.assert_array_equal(actor.act(obs, sample=True, eps=0), greedy)
        shares = np.bincount(actor.act(obs, sample=True, eps=0.4), minlength=3) / 20000
        self.assertAlmostEqual(shares[greedy[0]], 0.8, delta=0.018)
        self.assertEqual(shares[1], 0)
        with self.assertRaisesRegex(ValueError, "eps is None"):
            actor.act(obs, sample=True)

    def test_what_does_not_fit_is_refused(self):
        actor, _ = load("ppo")

        def refused(words, obs, **options):
            with self.assertRaisesRegex(ValueError, words):
                actor.act(obs, **options)

        refused("has 4 elements, expected 5", np.zeros((2, 4)))
        refused("not finite", np.full((2, 5), np.nan))
        refused("has the fields \\['x'\\], expected \\['obs/position', 'obs/velocity'\\]", {"x": np.zeros((2, 5))})
        refused("mask has the shape \\(2, 4\\), expected \\[2, 5\\]", np.zeros((2, 5)), mask=np.ones((2, 4)))
        refused("mask of observation 1 has no legal category of element 0", np.zeros((2, 5)), mask=[[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
        refused("3 env ids for 2 observations", np.zeros((2, 5)), env_ids=[0, 1, 2])
        refused("a different one for each", np.zeros((2, 5)), env_ids=[1, 1])

    def test_wrong_options_are_refused(self):
        checkpoint = ding_worker.open_checkpoint(os.path.join(FOLDER, "ppo", "checkpoint"))
        with self.assertRaisesRegex(ValueError, "counts are \\[2, 2\\], but the policy has 5 outputs"):
            checkpoint.actor(counts=[2, 2])
        with self.assertRaisesRegex(ValueError, "the actions are discrete"):
            checkpoint.actor(low=0, high=1)
        checkpoint = ding_worker.open_checkpoint(os.path.join(FOLDER, "ppo_box", "checkpoint"))
        with self.assertRaisesRegex(ValueError, "one of low and high"):
            checkpoint.actor(low=0)
        with self.assertRaisesRegex(ValueError, "bounds of the action are missing"):
            checkpoint.actor().act(np.zeros(4))


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
