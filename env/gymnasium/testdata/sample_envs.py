"""Envs with Gymnasium's interface, for tests: all spaces, action masks, and everything that an env can do wrong."""

import os
import sys
import time

import numpy as np
from spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Tuple


class AllSpaces:
    """Its observation repeats its actions and counts steps, in every kind of space. An episode has five steps."""

    def __init__(self):
        self.observation_space = Dict({
            'wide': Box(-100, 100, (2, 3), np.float64),
            'image': Box(0, 255, (2, 2, 1), np.uint8),
            'small': Box(-5, 5, (2,), np.int8),
            'level': Discrete(5, start=2),
            'pair': MultiDiscrete([10, 4]),
            'bits': MultiBinary(3),
            'nested': Tuple([Box(-1, 1, ()), Dict({'long': Box(0, 1 << 40, (1,), np.int64)})]),
        })
        self.action_space = Tuple([Discrete(3, start=1), Dict({'a': MultiDiscrete([2, 4]), 'b': MultiBinary(2)})])

    def observe(self, action):
        first, rest = action
        return {
            'wide': np.full((2, 3), self.seed % 100 + 0.5),
            'image': np.full((2, 2, 1), 200 + self.steps, np.uint8),
            'small': np.array([-self.steps, self.steps], np.int8),
            'level': 2 + self.steps % 5,
            'pair': np.array([first, rest['a'][1]]),
            'bits': np.array([rest['b'][0], rest['b'][1], 1], np.int8),
            'nested': (np.float32(0.25), {'long': np.array([1 << 39])}),
        }

    def reset(self, *, seed=None, options=None):
        self.seed, self.steps = seed, int((options or {}).get('steps', 0))
        return self.observe((1, {'a': [0, 0], 'b': [0, 0]})), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 5
        info = {'episode': {'r': 7.0, 't': 1.0, 'l': 5}, 'is_success': True, 'note': 'text'} if over else {'speed': 1.0}
        return self.observe(action), np.float64(self.steps), False, np.bool_(over), info


class Robot:
    """Continuous actions of two parts, and the observation is the action."""

    def __init__(self):
        self.observation_space = Box(-2, 2, (3,), np.float32)
        self.action_space = Dict({'arm': Box(-1, 1, (2,), np.float32), 'leg': Box(-2, 2, (1,), np.float64)})

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert action['leg'].dtype == np.float64
        return np.concatenate([action['arm'], action['leg'].astype(np.float32)]), 0, True, False, {}


class Narrow:
    """Its actions are inside of bounds that float32 does not have, in the dtypes of its spaces. An episode has 10 steps."""

    def __init__(self):
        self.observation_space = Box(-0.1, 0.1, (2,), np.float64)
        self.action_space = Tuple([
            Box(np.array([-0.4, 0.1, -1e30]), np.array([0.4, 0.3, -0.1]), dtype=np.float64),
            Box(0.7, 0.7, (1,), np.float64),  # between two float32 values
            Box(-0.1, 0.3, (2,), np.float16)
        ])

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.full(2, 0.1), {}

    def step(self, action):
        self.steps += 1
        for part, space in zip(action, self.action_space.spaces):
            assert part.dtype == space.dtype, part.dtype
            assert (part >= space.low).all() and (part <= space.high).all(), part.tolist()
        return np.array([-0.1, 0.1]), float(action[0][0]), False, self.steps == 10, {}


class Masked:
    """Only the action that is the number of the step, modulo 3, is legal."""

    def __init__(self):
        self.observation_space, self.action_space = Box(0, 10, (1,)), Discrete(3)

    def info(self):
        return {'action_mask': np.arange(3) == self.steps % 3}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), self.info()

    def step(self, action):
        assert action == self.steps % 3
        self.steps += 1
        return np.array([self.steps], np.float32), 1, self.steps == 4, False, self.info()


class Statistics:
    """Ten steps of reward 1. Its statistics have names of metrics of ours; `is_success` is there in one episode of ten."""

    def __init__(self):
        self.observation_space, self.action_space = Box(0, 1, (4,)), Discrete(2)
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        self.steps, self.episode = 0, self.episode + 1
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {'reward': -12345.0, 'reward_mean': -1, 'return_0': -2, 'episode_count': -3, 'length': np.int8(7), '奖励': 1,
                'odd\ud800': 2, 'nan': float('nan'), 'huge': 10**400, 'span': np.timedelta64(1, 's')}
        if self.episode % 10 == 1:
            info['is_success'] = True
        return np.full(4, self.steps / 10, np.float32), 1.0, False, self.steps == 10, info


class Pixels:
    """Images of 84 x 84 x 4, for the benchmark."""

    def __init__(self):
        self.observation_space, self.action_space = Box(0, 255, (84, 84, 4), np.uint8), Discrete(2)
        self.frames, self.steps = np.zeros((8, 84, 84, 4), np.uint8), 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.frames[0], {}

    def step(self, action):
        self.steps += 1
        frame = self.frames[self.steps % 8]
        frame[self.steps % 84] = self.steps % 256
        for _ in range(20):
            frame[:, self.steps % 84] ^= 1
        return frame, 0.0, False, self.steps == 1000, {}


class Trouble:
    """Does what its keyword arguments say, in step `at` of each episode."""

    def __init__(self, deed='', at=3, where='', render_mode=None):
        if deed == 'build':
            raise RuntimeError('no such level')
        self.observation_space, self.action_space = Box(-1, 1, (2,)), Discrete(2)
        if deed == 'graph':
            self.observation_space = Graph()
        if deed == 'no actions':
            self.action_space = Discrete(0)
        if deed == 'exit early':
            sys.exit(0)
        if deed == 'mixed':
            self.action_space = Tuple([Discrete(2), Box(-1, 1, (1,))])
        self.deed, self.at, self.where, self.steps, self.kept = deed, at, where, 0, []

    def once(self):
        """Whether it was not done before, also by other processes."""
        if not self.where:
            return True
        try:
            os.close(os.open(self.where, os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        if self.deed == 'old reset':
            return np.zeros(2, np.float32)
        if self.deed == 'other space' and self.kept:
            self.observation_space = Box(-1, 1, (3,))
            return np.zeros(3, np.float32), {}
        if self.deed == 'nan reset' and self.kept and self.once():
            return np.array([0, np.nan], np.float32), {}
        if self.deed == 'reset' and self.kept and self.once():
            raise KeyError('no level for this seed')
        self.kept.append(seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        observation = np.full(2, self.steps / 10, np.float32)
        result = observation, 1.0, self.steps == 8, False, {}
        if self.steps != self.at or not self.deed:
            return result
        return getattr(self, 'do_' + self.deed.replace(' ', '_'), lambda result: result)(result)

    def do_raise(self, result):
        if self.once():
            self.fall_off()
        return result

    def fall_off(self):
        raise ValueError('fell off the cliff')

    def do_print(self, result):
        print('step', self.steps, 'of the env', flush=True)
        return result

    def do_exit(self, result):
        if self.once():
            print('last words', flush=True)
            os._exit(3)
        return result

    def do_kill(self, result):
        if self.once():
            os.kill(os.getpid(), 9)
        return result

    def do_hang(self, result):
        if self.once():
            time.sleep(1000)
        return result

    def do_leak(self, result):
        if self.once():
            while True:
                self.kept.append(np.ones(1 << 20))
        return result

    def do_old_step(self, result):
        return result[0], 1.0, False, {}

    def do_wrong_dtype(self, result):
        return (result[0].astype(np.float64),) + result[1:]

    def do_wrong_shape(self, result):
        return (np.zeros(3, np.float32),) + result[1:]

    def do_list(self, result):
        return ([0.0, 0.0],) + result[1:]

    def do_outside(self, result):
        return (np.array([0, 1.5], np.float32),) + result[1:]

    def do_nan(self, result):
        return (np.array([0, np.nan], np.float32),) + result[1:]

    def do_inf_reward(self, result):
        return (result[0], np.inf) + result[2:] if self.once() else result

    def do_abnormal(self, result):
        return (None, -1000.0, True, False, {'abnormal': np.bool_(True), 'score': 5}) if self.once() else result

    def do_final_abnormal(self, result):
        info = {'final_obs': np.zeros(2, np.float32), 'final_info': {'abnormal': True}}
        return (result[0], -1000.0, True, False, info) if self.once() else result

    def do_normal(self, result):
        return result[0], 1.0, True, False, {'abnormal': False, 'score': 5}

    def do_reward(self, result):
        return result[0], 'one', False, False, {}

    def do_text_end(self, result):
        return result[:2] + ('False', False, {})

    def do_huge_reward(self, result):
        return (result[0], 10**400) + result[2:]

    def do_no_info(self, result):
        return result[:2] + (True, False, None)

    def do_list_info(self, result):
        return result[:4] + ([1],)

    def do_endless_info(self, result):
        info = {}
        info['self'] = info
        return result[:2] + (True, False, info)

    def do_nan_return(self, result):
        return result[:2] + (True, False, {'episode': {'r': np.nan}}) if self.once() else result

    def do_long_error(self, result):
        raise ValueError('x' * (32 << 20) + 'the end')

    def do_big_endian(self, result):
        return (result[0].astype('>f4'),) + result[1:]

    def do_system_exit(self, result):
        if self.once():
            sys.exit(5)
        return result


class Counted(Trouble):
    """Shows how often it was reset, the seed and the step of its episodes of 3 steps. The process exits in reset `exits`, once."""

    def __init__(self, exits=0, where=''):
        super().__init__(where=where)
        self.observation_space = Box(0, 1000, (3,))
        self.exits, self.resets, self.seed = exits, 0, 0

    def show(self):
        return np.array([self.resets, self.seed, self.steps], np.float32)

    def reset(self, *, seed=None, options=None):
        self.resets, self.seed, self.steps = self.resets + 1, seed, 0
        if self.resets == self.exits:
            self.do_exit(None)
        return self.show(), {}

    def step(self, action):
        self.steps += 1
        return self.show(), 1.0, self.steps == 3, False, {}


class Telling:
    """Declares its info by info_space. An episode has four steps, the last of which lacks or changes `wrong`."""

    info_space = Dict({'step': Discrete(100), 'arm': Dict({'angles': Box(-9, 9, (2,), np.float64)}), 'bits': MultiBinary(3)})

    def __init__(self, wrong=None, value=None):
        self.observation_space, self.action_space = Box(0, 9, (1,), np.float32), Discrete(2)
        self.wrong, self.value = wrong, value

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {'step': self.steps, 'arm': {'angles': np.array([self.steps, -0.5])}, 'bits': np.array([1, 0, action], np.int8) != 0,
                'speed': 0.25 * self.steps, 'goal': [[self.steps, 2], [3, 4]], 'note': 'text'}
        if self.wrong and self.steps == 3:
            info[self.wrong] = self.value
            if self.value is None:
                del info[self.wrong]
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 4, False, info
