"""A policy of ours by name in a loop as one writes it for DI-engine: collect, push, sample, train, evaluate.

    python python/examples/our_policy.py
"""

import ding_worker as dw


def main(seed=0, exp_name="our_policy", max_envstep=20_000):
    policy = dw.create_policy("cartpole_dqn", seed=seed)
    env = dw.make_vec("CartPole-v0", num_envs=8, seed=seed)
    collector = dw.create_serial_collector({"type": "sample"}, env=env, policy=policy.collect_mode)
    eval_env = dw.make_vec("CartPole-v0", num_envs=8, seed=seed + 1000)
    evaluator = dw.create_serial_evaluator({"eval_freq": 200, "n_episode": 8, "stop_value": 195}, env=eval_env, policy=policy.eval_mode)
    learner = dw.create_learner({}, policy=policy.learn_mode, exp_name=exp_name)
    discount = policy.learn_mode.get_attribute("discount_factor")
    buffer = dw.create_buffer({"type": "naive", "replay_buffer_size": 20_000, "discount_factor": discount, "seed": seed})

    batch_size = policy.learn_mode.get_attribute("batch_size")
    stop, result = False, None
    while not stop and collector.envstep < max_envstep:
        if evaluator.should_eval(learner.train_iter):
            stop, result = evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
        progress = {"envstep": collector.envstep, "learner_step": learner.train_iter}
        samples = collector.collect(train_iter=learner.train_iter, policy_kwargs=policy.command_mode.get_setting_collect(progress))
        buffer.push(samples, cur_collector_envstep=collector.envstep)
        for _ in range(5 if buffer.count() >= batch_size else 0):
            batch = buffer.sample(batch_size, learner.train_iter, columns=True)
            learner.train(batch, collector.envstep, policy_kwargs=policy.command_mode.get_setting_learn(progress))
    return collector.envstep, stop, result


if __name__ == "__main__":
    print("env steps %d, solved %s: %s" % main())
