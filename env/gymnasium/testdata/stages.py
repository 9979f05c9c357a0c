"""An env that stays for a minute in a call, once: as the first process that gets there finds."""

import os
import time

import numpy as np
from spaces import Box, Discrete


class Stages:
    """Episodes of 20 steps; without an end if `where` is "endless", with a breakpoint in step 10 if it is "debugger". Otherwise the call of this name (init, reset, step,
    close) writes the file `mark` and sleeps, unless there is such a file already."""

    metadata = {}

    def __init__(self, where='', mark='', seconds=60.0):
        self.where, self.mark, self.seconds = where, mark, seconds
        self.observation_space, self.action_space = Box(-1.0, 1.0, (2,)), Discrete(2)
        self.steps = 0
        self.stay('init')

    def stay(self, where):
        if self.where != where:
            return
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        time.sleep(self.seconds)

    def observation(self):
        return np.array([self.steps % 20 / 20, 0], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        self.stay('reset')
        self.steps = 0
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 10:
            self.stay('step')
            if self.where == 'debugger':
                breakpoint()
        over = self.where != 'endless' and self.steps >= 20
        return self.observation(), -1.0, False, over, {}

    def close(self):
        if self.steps > 0:  # not that of the process that asks for the spaces
            self.stay('close')
