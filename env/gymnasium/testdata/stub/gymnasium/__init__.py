"""A stub of gymnasium with the interface of gymnasium.make(), its error, and the wrapper that limits the time."""

import cartpole


class Spec:

    def __init__(self, max_episode_steps):
        self.max_episode_steps = max_episode_steps


class NameNotFound(Exception):
    pass


class TimeLimit:

    def __init__(self, env, max_episode_steps):
        self.env, self.spec, self._elapsed_steps = env, Spec(max_episode_steps), None
        self.observation_space, self.action_space, self.metadata = env.observation_space, env.action_space, env.metadata
        self.render_mode = env.render_mode

    def reset(self, *, seed=None, options=None):
        self._elapsed_steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed_steps += 1
        return observation, reward, terminated, self._elapsed_steps >= self.spec.max_episode_steps, info

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()


def make(id, max_episode_steps=None, disable_env_checker=None, **kwargs):
    if id != 'CartPole-v1':
        raise NameNotFound(f"Environment `{id.split('-')[0]}` doesn't exist.")
    return TimeLimit(cartpole.CartPole(max_steps=0, **kwargs), max_episode_steps or 500)
