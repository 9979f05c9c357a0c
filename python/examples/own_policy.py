"""DQN in numpy, a policy in Python with the workers of ding_worker: collect, push, sample, train, evaluate.

    python python/examples/own_policy.py
"""

import numpy as np

import ding_worker as dw


class Network:
    """Q(obs) with one hidden layer, learned by Adam (Kingma and Ba 2015)."""

    def __init__(self, rng, inputs, hidden, actions):
        sizes = [(inputs, hidden), (1, hidden), (hidden, actions), (1, actions)]
        self.weights = [(rng.uniform(-1, 1, size) / np.sqrt(max(size[0], 4))).astype(np.float32) for size in sizes]
        self.moments = [[np.zeros_like(weight) for weight in self.weights] for _ in range(2)]
        self.steps = 0

    def forward(self, obs):
        self.hidden = np.maximum(obs @ self.weights[0] + self.weights[1], 0)
        return self.hidden @ self.weights[2] + self.weights[3]

    def learn(self, obs, slope, rate=1e-3):
        """`slope`: that of the loss over the outputs of the last forward(obs)."""
        inner = (slope @ self.weights[2].T) * (self.hidden > 0)
        self.steps += 1
        slopes = [obs.T @ inner, inner.sum(0, keepdims=True), self.hidden.T @ slope, slope.sum(0, keepdims=True)]
        for weight, mean, square, each in zip(self.weights, *self.moments, slopes):
            mean += 0.1 * (each - mean)
            square += 0.001 * (each**2 - square)
            weight -= rate * (mean / (1 - 0.9**self.steps)) / (np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8)


class Dqn:
    """One object with the methods of all three modes."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.q, self.target = Network(self.rng, 4, 64, 2), Network(self.rng, 4, 64, 2)
        self.updates = 0

    def reset(self, envs=None):
        pass

    def choose(self, obs, eps=0.0):
        best = self.q.forward(np.stack(list(obs.values()))).argmax(1)
        drawn = np.where(self.rng.random(len(best)) < eps, self.rng.integers(0, 2, len(best)), best)
        return {env: {"action": action} for env, action in zip(obs, drawn)}

    def process_transition(self, obs, output, timestep):
        ended = timestep.done and not timestep.info["truncated"]
        row = {"obs": obs, "action": output["action"], "reward": timestep.reward, "next_obs": timestep.obs}
        return {**row, "terminated": ended, "truncated": timestep.done and not ended}

    def get_train_sample(self, transitions):
        return [{key: row[key] for key in row if key != "collect_iter"} for row in transitions]

    def learn(self, batch):
        if self.updates % 100 == 0:
            self.target.weights = [weight.copy() for weight in self.q.weights]
        self.updates += 1
        bootstrap = self.target.forward(batch["next_obs"]).max(1)
        wanted = batch["reward"] + 0.97 * (batch["discount"] > 0) * bootstrap
        values, rows = self.q.forward(batch["obs"]), np.arange(len(wanted))
        slope = np.zeros_like(values)
        slope[rows, batch["action"]] = np.clip(values[rows, batch["action"]] - wanted, -1, 1) / len(wanted)
        self.q.learn(batch["obs"], slope)
        return {"loss": float((slope**2).sum())}

    def state_dict(self):
        return {str(i): weight for i, weight in enumerate(self.q.weights)}

    def load_state_dict(self, state):
        self.q.weights = [state[str(i)] for i in range(4)]


class Mode:
    """A view of the policy: DI-engine calls the method of each mode `forward`."""

    def __init__(self, policy, forward):
        self._policy, self.forward = policy, forward

    def __getattr__(self, name):
        return getattr(self._policy, name)


def main(seed=0, exp_name="own_policy", max_envstep=40_000):
    policy = Dqn(seed)
    env = dw.make_vec("CartPole-v1", num_envs=8, seed=seed)
    collector = dw.create_serial_collector({"type": "sample"}, env=env, policy=Mode(policy, policy.choose))
    eval_env = dw.make_vec("CartPole-v1", num_envs=8, seed=seed + 1000)
    evaluator = dw.create_serial_evaluator(
        {"eval_freq": 500, "n_episode": 8, "stop_value": 400}, env=eval_env, policy=Mode(policy, policy.choose)
    )
    learner = dw.create_learner({}, policy=Mode(policy, policy.learn), exp_name=exp_name)
    buffer = dw.create_buffer({"type": "naive", "replay_buffer_size": 10_000, "seed": seed})

    stop, result = False, None
    while not stop and collector.envstep < max_envstep:
        if evaluator.should_eval(learner.train_iter):
            stop, result = evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
        samples = collector.collect(n_sample=16, train_iter=learner.train_iter, policy_kwargs={"eps": max(0.05, 1 - collector.envstep / 4000)})
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        for _ in range(10 if buffer.count() >= 500 else 0):
            learner.train(buffer.sample(64, learner.train_iter, columns=True), collector.envstep)
    return collector.envstep, stop, result


if __name__ == "__main__":
    print("env steps %d, solved %s: %s" % main())
