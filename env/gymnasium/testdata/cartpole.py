"""CartPole with Gymnasium's interface, equal bit for bit to env/classic_control/cartpole.h: the same equations in the
same order, and starts drawn from the same stream of random numbers (base/rng.h)."""

import math

import numpy as np
from spaces import Box, Discrete

MASK = (1 << 64) - 1
THETA_LIMIT = 12 * 2 * 3.14159265358979323846 / 360
TOTAL_MASS = 0.1 + 1.0
POLE_MASS_LENGTH = 0.1 * 0.5


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive_seed(seed, purpose, index=0):
    name = 0xCBF29CE484222325
    for byte in purpose.encode():
        name = ((name ^ byte) * 0x100000001B3) & MASK
    return mix(mix(mix(seed) ^ name) ^ index)


def philox(counter, key):
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & 0xFFFFFFFF,
                   (p0 >> 32) ^ counter[3] ^ key[1], p0 & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def uniforms(seed, purpose, count):
    """The first numbers in [0, 1) of a stream."""
    key = derive_seed(seed, purpose)
    words = []
    for block in range((count + 1) // 2):
        words += philox([block, 0, 0, 0], [key & 0xFFFFFFFF, key >> 32])
    return [((words[2 * i] << 32 | words[2 * i + 1]) >> 11) * 2.0**-53 for i in range(count)]


class CartPole:
    metadata = {'render_modes': ['rgb_array']}

    def __init__(self, max_steps=500, render_mode=None):
        high = np.array([4.8, np.inf, 2 * THETA_LIMIT, np.inf])
        self.observation_space, self.action_space = Box(-high, high), Discrete(2)
        self.render_mode, self.max_steps = render_mode, max_steps
        self.state, self.steps = (0.0, 0.0, 0.0, 0.0), 0

    def reset(self, *, seed=None, options=None):
        self.state = tuple(-0.05 + (0.05 - -0.05) * number for number in uniforms(seed, 'env/start', 4))
        self.steps = 0
        return np.array(self.state, dtype=np.float32), {}

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10 if action == 1 else -10
        cosine, sine = math.cos(theta), math.sin(theta)
        push = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sine) / TOTAL_MASS
        theta_acc = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * (cosine * cosine) / TOTAL_MASS))
        x_acc = push - POLE_MASS_LENGTH * theta_acc * cosine / TOTAL_MASS
        x, theta = x + 0.02 * x_dot, theta + 0.02 * theta_dot
        self.state = (x, x_dot + 0.02 * x_acc, theta, theta_dot + 0.02 * theta_acc)
        self.steps += 1
        terminated = abs(x) > 2.4 or abs(theta) > THETA_LIMIT
        truncated = not terminated and self.steps == self.max_steps
        return np.array(self.state, dtype=np.float32), 1.0, terminated, truncated, {}

    def render(self):
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[:, int(self.state[0] > 0)] = 255
        return picture

    def get_state(self):
        return {'state': self.state, 'steps': self.steps}

    def set_state(self, state):
        self.state, self.steps = state['state'], state['steps']

    def close(self):
        pass



class ForgetfulCartPole:
    """It cannot save its state."""

    def __init__(self):
        self.inner = CartPole()
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space
        self.reset, self.step = self.inner.reset, self.inner.step


class NumpyCartPole(CartPole):
    """CartPole as Gymnasium writes it: it checks the action, and computes with numpy."""

    def step(self, action):
        assert isinstance(action, (int, np.integer)) and 0 <= action < self.action_space.n, f'{action!r} is not an action'
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cosine, sine = np.cos(theta), np.sin(theta)
        push = (force + POLE_MASS_LENGTH * np.square(theta_dot) * sine) / TOTAL_MASS
        theta_acc = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * np.square(cosine) / TOTAL_MASS))
        x_acc = push - POLE_MASS_LENGTH * theta_acc * cosine / TOTAL_MASS
        self.state = np.array((x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot,
                               theta_dot + 0.02 * theta_acc), dtype=np.float64)
        x, theta = self.state[0], self.state[2]
        self.steps += 1
        terminated = bool(x < -2.4 or x > 2.4 or theta < -THETA_LIMIT or theta > THETA_LIMIT)
        return np.array(self.state, dtype=np.float32), 1.0, terminated, self.steps == self.max_steps, {}
