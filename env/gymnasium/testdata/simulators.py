"""Envs that do what simulators and their wrappers do: for each, a run must work as it would in a Python script."""

import argparse
import fcntl
import multiprocessing
import os
import signal
import threading
import time

import numpy as np
from spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

ARGUMENTS = argparse.ArgumentParser().parse_args()  # A simulator takes the arguments of its process for its own.


class Steps:
    """Episodes of five steps whose observation is the number of the step."""

    observation_space, action_space = Box(0, 100, (1,)), Discrete(2)

    def observe(self):
        return np.array([self.steps], np.float32)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), 1.0, False, self.steps == 5, {}


class Screen(Steps):
    """Can be drawn only if it is told so when it is built, which needs a display. Leaves a line for each time that it is built."""

    metadata = {'render_modes': ['rgb_array']}

    def __init__(self, where='', display=True, render_mode=None):
        with open(where, 'a') as file:
            print(f'render_mode={render_mode}', file=file)
        if render_mode and not display:
            raise RuntimeError('cannot open display')
        self.render_mode = render_mode

    def render(self):
        return np.zeros((2, 3, 3), np.uint8) if self.render_mode else None


class NoModes(Steps):
    metadata = {'render_modes': None}


class NoRenderMode(Steps):
    """Lists a mode that it cannot be built with."""

    metadata = {'render_modes': ['rgb_array']}

    def render(self):
        return np.zeros((2, 3, 3), np.uint8)


def answer(question):
    return question + 1


class Pool(Steps):
    """Computes in processes of its own."""

    def __init__(self, method):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map_async(answer, [1, 2]).get(timeout=20) == [2, 3]


class Debugged(Steps):

    def __init__(self, by='breakpoint'):
        self.by = by

    def step(self, action):
        if self.steps == 2:
            if self.by == 'breakpoint':
                breakpoint()
            elif self.by == 'pdb':
                import pdb
                pdb.set_trace()
            else:
                input('go on? ')
        return super().step(action)


class ResetsItself(Steps):
    """Ends an episode with the first observation of the next one, as vector envs of Gymnasium do with AutoresetMode.SAME_STEP."""

    def __init__(self, key='final_obs', of_vector=False):
        self.key, self.of_vector = key, of_vector

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if truncated:
            if self.of_vector:  # an array of objects, one for each env
                last = np.empty(1, object)
                last[0] = observation
                observation = last
            info = {self.key: observation, '_' + self.key: np.array([True]), 'final_info': {'is_success': 1.0}}
            observation, _ = self.reset()
        return observation, reward, terminated, truncated, info


class Endless(Steps):
    """Has a thread and a process that do not end by themselves, and an alarm that the interpreter no longer handles at its end."""

    def __init__(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()
        multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,)).start()
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


class Item(Steps):
    """Wants its actions as a space of Gymnasium draws them."""

    def __init__(self, nested=False):
        self.nested = nested
        self.action_space = Dict({'a': Discrete(3, start=-1)}) if nested else Discrete(3, start=-1)

    def step(self, action):
        action = action['a'] if self.nested else action
        assert action.dtype == np.int64 and -1 <= action.item() <= 1, action
        return super().step(action)


class OldReset(Steps):

    def reset(self):
        return super().reset()


class MaskedResetsItself(Steps):
    """Its info is that of the next episode, whose first action must be 0."""

    def reset(self, **kwargs):
        return super().reset()[0], {'action_mask': np.array([1, 0], np.int8)}

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        info = {'action_mask': np.array([1, 1], np.int8)}
        if truncated:
            last = observation
            observation, info = self.reset()
            info['final_obs'] = last
        return observation, reward, terminated, truncated, info


class Goal(Steps):
    """A task with a goal that rewards with `at_goal` and `elsewhere`, or `kind` says how else."""

    observation_space = Dict({name: Box(-1, 1, (2,), np.float64) for name in ('observation', 'achieved_goal', 'desired_goal')})
    action_space = Box(-1, 1, (2,))

    def __init__(self, at_goal=0, elsewhere=-1, radius=0.05, kind=''):
        self.rewards, self.radius, self.kind = (elsewhere, at_goal), radius, kind

    def observe(self):
        goal = np.array([0.5, -0.5])
        return {'observation': goal, 'achieved_goal': goal * self.steps / 10, 'desired_goal': goal}

    def compute_reward(self, achieved, desired, info):
        assert achieved.dtype == desired.dtype == np.float64
        distance = np.abs(achieved - desired).max() if self.kind == 'maximum' else np.linalg.norm(achieved - desired)
        if self.kind == 'raise':
            return info['reward']
        return -distance if self.kind == 'dense' else self.rewards[distance < self.radius]

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        goals = observation['achieved_goal'], observation['desired_goal']
        return observation, self.compute_reward(*goals, info), terminated, truncated, info


class ShortSeeds(Steps):

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)
        return super().reset()


class Masked(Steps):
    """Its mask has the form `form`; in the first step only the first category of each part of the action is legal."""

    ACTIONS = {
        'flat': MultiDiscrete([2, 2]), 'rows': MultiDiscrete([2, 2]), 'lists': MultiDiscrete([2, 2]), 'parts': MultiDiscrete([2, 3]),
        'bits': MultiBinary(2), 'one per bit': MultiBinary(2), 'swapped parts': MultiDiscrete([2, 3]),
        'dict': Dict({'a': Discrete(2), 'b': MultiDiscrete([2, 3])}), 'tuple': Tuple([Discrete(2), Discrete(3)]),
        'column': MultiDiscrete([2, 2, 2]), 'observed': Dict({'a': Discrete(2), 'b': MultiDiscrete([2, 2])}),
    }

    def __init__(self, form):
        self.form, self.action_space = form, self.ACTIONS[form]
        if form == 'observed':
            self.observation_space = Dict({'x': Box(0, 100, (1,)), 'action_mask': Dict({'a': MultiBinary(2), 'b': MultiBinary((2, 2))})})

    def mask(self):
        two, three = np.array([1, 0], np.int8), np.array([1, 0, 0], np.int8)
        return {'flat': [1, 0, 1, 0], 'rows': np.array([two, two]), 'lists': [[1, 0], [1, 0]], 'parts': (two, three),
                'bits': np.array([two, two]), 'one per bit': two, 'swapped parts': (three, two), 'dict': {'a': two, 'b': (two, three)},
                'tuple': (two, None), 'column': np.ones((2, 3)), 'observed': {'a': two, 'b': np.array([two, two])}}[self.form]

    def observe(self):
        observation = super().observe()
        return {'x': observation, 'action_mask': self.mask()} if self.form == 'observed' else observation

    def reset(self, **kwargs):
        observation, _ = super().reset()
        return observation, ({} if self.form == 'observed' else {'action_mask': self.mask()})

    def step(self, action):
        return (*super().step(action)[:4], {} if self.form == 'observed' else {'action_mask': self.mask()})


class Diary(Steps):
    """Has a field of text beside the others."""

    observation_space = Dict({'x': Box(0, 100, (1,)), 'note': Text()})

    def observe(self):
        return {'x': super().observe(), 'note': 'Dear diary'}


class Numbered(Steps):
    """Holds a lock that belongs to its number, and leaves a line "<role> <number>"."""

    def __init__(self, role, number, where, path=''):
        self.lock = open(f'{where}/lock_{number}', 'w')
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(f'{where}/numbers', 'a') as file:
            print(role, number, path, file=file)
        self.number = number

    def observe(self):
        return np.array([self.number], np.float32)

    def close(self):
        self.lock.close()
