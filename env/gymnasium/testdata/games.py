"""Games with PettingZoo's parallel interface, for tests."""

import numpy as np
from spaces import Box, Dict, Discrete


class Duel:
    """Two agents pick numbers; the higher one gets 1, the other one -1. Nobody may pick the number that it picked before.

    An episode has `rounds` rounds, and ends in a tie-break (terminated) if the numbers are equal before."""

    metadata = {'render_modes': ['rgb_array']}

    def __init__(self, rounds=3, render_mode=None, abnormal_pick=None):
        self.possible_agents = ['red', 'blue']
        self.rounds, self.render_mode, self.abnormal_pick = rounds, render_mode, abnormal_pick

    def observation_space(self, agent):
        return Dict({'observation': Box(-1, 10, (2,), np.float32), 'action_mask': Box(0, 1, (4,), np.int8)})

    def action_space(self, agent):
        return Discrete(4)

    def observe(self, agent):
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        mask = np.ones(4, np.int8)
        if self.last[agent] >= 0:
            mask[self.last[agent]] = 0
        return {'observation': np.array([self.last[other], self.round], np.float32), 'action_mask': mask}

    def reset(self, seed=None, options=None):
        self.agents, self.round = list(self.possible_agents), 0
        self.last = {'red': seed % 4, 'blue': -1}
        return {agent: self.observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), actions
        self.round += 1
        self.last = {agent: int(action) for agent, action in actions.items()}
        red, blue = self.last['red'], self.last['blue']
        rewards = {'red': float(np.sign(red - blue)), 'blue': float(np.sign(blue - red))}
        cut, tie = self.round == self.rounds, red == blue
        agents = self.agents
        if cut or tie:
            self.agents = []
        return ({agent: self.observe(agent) for agent in agents}, rewards, {agent: tie for agent in agents},
                {agent: cut for agent in agents}, {agent: self.info(agent) for agent in agents})

    def info(self, agent):
        picked = self.last[agent]
        return {'picked': picked, 'abnormal': True} if picked == self.abnormal_pick else {'picked': picked}

    def render(self):
        return np.full((2, 3, 3), self.round, np.uint8)

    def get_state(self):
        return [self.agents, self.round, self.last]

    def set_state(self, state):
        self.agents, self.round, self.last = state


class ResetsItself(Duel):
    """Ends a game with the first observations of the next one, and says at `key` what the last ones were, if `of_all` for all agents
    at once."""

    def __init__(self, key='final_obs', of_all=False):
        super().__init__()
        self.key, self.of_all = key, of_all

    def step(self, actions):
        observations, rewards, terminations, truncations, infos = super().step(actions)
        if not self.agents:
            last, final = observations, {agent: {'score': 7} for agent in observations}
            observations, infos = self.reset(seed=0)
            if self.of_all:
                infos = {**infos, self.key: last, 'final_info': final}
            else:
                infos = {agent: {self.key: last[agent], 'final_info': final[agent]} for agent in last}
        return observations, rewards, terminations, truncations, infos


class InTurns(Duel):
    """Has the interface of PettingZoo's AECEnv, too."""

    def agent_iter(self):
        yield from self.possible_agents

    def last(self):
        pass


class Knockout:
    """Three agents with spaces of their own. Agent i leaves in step i + 2, or `deed` says what goes wrong."""

    def __init__(self, deed=''):
        self.possible_agents = ['a'] if deed == 'alone' else ['a', 'b', 'c']
        self.deed = deed

    def observation_space(self, agent):
        return Box(0, 100, (1 + 'abc'.index(agent),), np.float32)

    def action_space(self, agent):
        return Discrete(2) if agent == 'a' else Box(-1, 1, (2,), np.float32)

    def observe(self, agents):
        return {agent: np.full(1 + 'abc'.index(agent), self.steps, np.float32) for agent in agents}

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        if self.deed == 'fewer':
            self.agents = ['a', 'b']
        return self.observe(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents, (list(actions), self.agents)
        self.steps += 1
        agents = self.agents
        observations = self.observe(agents)
        if self.deed == 'hide':
            del observations['b']
        rewards = {agent: 10.0 * self.steps + 'abc'.index(agent) for agent in agents}
        if self.deed == 'pay the dead':
            rewards['a'] = 1
        if self.deed == 'pay':
            rewards['c'] = 'much'
        over = {agent: self.steps == 2 + 'abc'.index(agent) for agent in agents}
        if self.deed == 'text':
            over['b'] = 'no'
        self.agents = [agent for agent in agents if not over[agent]]
        if self.deed == 'no infos':
            return observations, rewards, over, dict.fromkeys(agents, False), None
        infos = {agent: {'step': self.steps, 'place': np.full(2, self.steps + 0.5)} for agent in agents}
        if self.deed == 'tell less' and self.steps == 2:
            del infos['b']['step']
        return observations, rewards, over, dict.fromkeys(agents, False), infos

    def get_state(self):
        return [self.agents, self.steps]

    def set_state(self, state):
        self.agents, self.steps = state
