#!/usr/bin/env python3
"""Checks recorded episodes of the tasks on MuJoCo against formulas that are written apart from the C++.

    record_episodes | formulas.py

Reads one JSON object per line. From qpos, qvel and the places of bodies it computes what Gymnasium's v4 envs observe, pay and end with
their defaults. Prints what it counted, or the first difference, and leaves with status 1.
"""

import json
import sys

import numpy as np


class Difference(Exception):
    pass


def expect(what, found, wanted, tolerance):
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    scale = np.maximum(1, np.abs(wanted))
    if found.shape != wanted.shape or np.any(np.abs(found - wanted) > tolerance * scale):
        raise Difference('%s is %s, expected %s' % (what, found, wanted))


def at(line, name):
    return np.array(line['bodies'][name])


def show(hidden, bound):
    return lambda line: np.concatenate([line['qpos'][hidden:], np.clip(line['qvel'], -bound, bound)])


def speed(before, line, seconds):
    return (line['qpos'][0] - before['qpos'][0]) / seconds


def effort(line):
    return np.square(line['action']).sum()


def hopper_falls(line):
    others = np.array(line['qpos'][2:] + line['qvel'])
    return not (np.abs(others).max() < 100 and line['qpos'][1] > 0.7 and -0.2 < line['qpos'][2] < 0.2)


def double_pendulum_obs(line):
    q = np.array(line['qpos'])
    return np.concatenate([q[:1], np.sin(q[1:]), np.cos(q[1:]), np.clip(line['qvel'], -10, 10), np.clip(line['limits'], -10, 10)])


def double_pendulum_reward(before, line, seconds):
    x, _, y = line['sites']
    _, v1, v2 = line['qvel']
    return 10 - 0.01 * x**2 - (y - 2)**2 - 1e-3 * v1**2 - 5e-3 * v2**2


def reacher_obs(line):
    q = np.array(line['qpos'])
    return np.concatenate([np.cos(q[:2]), np.sin(q[:2]), q[2:], line['qvel'][:2], at(line, 'fingertip') - at(line, 'target')])


def reacher_reward(before, line, seconds):
    return -np.linalg.norm(at(before, 'fingertip') - at(before, 'target')) - effort(line)


def pusher_obs(line):
    return np.concatenate([line['qpos'][:7], line['qvel'][:7], at(line, 'tips_arm'), at(line, 'object'), at(line, 'goal')])


def pusher_reward(before, line, seconds):
    thing = at(before, 'object')
    return -np.linalg.norm(thing - at(before, 'goal')) - 0.5 * np.linalg.norm(thing - at(before, 'tips_arm')) - 0.1 * effort(line)


def never(line):
    return False


INF = float('inf')
# env -> (observation, reward, end, seconds of a step, time limit, bound of the actions, how many)
TASKS = {
    'Ant-v4': (show(2, INF), lambda b, l, s: (at(l, 'torso')[0] - at(b, 'torso')[0]) / s + 1 - 0.5 * effort(l),
               lambda l: not 0.2 <= l['qpos'][2] <= 1, 0.05, 1000, 1, 8),
    'HalfCheetah-v4': (show(1, INF), lambda b, l, s: speed(b, l, s) - 0.1 * effort(l), never, 0.05, 1000, 1, 6),
    'Hopper-v4': (show(1, 10), lambda b, l, s: speed(b, l, s) + 1 - 1e-3 * effort(l), hopper_falls, 0.008, 1000, 1, 3),
    'InvertedDoublePendulum-v4': (double_pendulum_obs, double_pendulum_reward, lambda l: l['sites'][2] <= 1, 0.05, 1000, 1, 1),
    'InvertedPendulum-v4': (show(0, INF), lambda b, l, s: 1, lambda l: abs(l['qpos'][1]) > 0.2, 0.04, 1000, 3, 1),
    'Pusher-v4': (pusher_obs, pusher_reward, never, 0.05, 100, 2, 7),
    'Reacher-v4': (reacher_obs, reacher_reward, never, 0.02, 50, 1, 2),
    'Swimmer-v4': (show(2, INF), lambda b, l, s: speed(b, l, s) - 1e-4 * effort(l), never, 0.04, 1000, 1, 2),
    'Walker2d-v4': (show(1, 10), lambda b, l, s: speed(b, l, s) + 1 - 1e-3 * effort(l),
                    lambda l: not (0.8 < l['qpos'][1] < 2 and -1 < l['qpos'][2] < 1), 0.008, 1000, 1, 6),
}


def main():
    counts = dict.fromkeys(['episodes', 'steps', 'ends', 'time limits'], 0)
    seen = set()
    env, before, step = None, None, 0
    for text in sys.stdin:
        line = json.loads(text)
        try:
            if 'env' in line:
                env, step = line['env'], 0
                seen.add(env)
                obs, reward, ends, seconds, limit, bound, actions = TASKS[env]
                counts['episodes'] += 1
                expect('time limit', line['limit'], limit, 0)
                expect('seconds of a step', line['seconds'], seconds, 1e-12)
                expect('bounds', line['high'], [bound] * actions, 0)
                expect('bounds', line['low'], [-bound] * actions, 0)
            else:
                step += 1
                counts['steps'] += 1
                expect('reward', line['reward'], reward(before, line, seconds), 1e-6)
                expect('terminated', line['terminated'], ends(line), 0)
                expect('truncated', line['truncated'], step == limit and not ends(line), 0)
                counts['ends'] += line['terminated']
                counts['time limits'] += line['truncated']
            expect('observation', line['obs'], obs(line), 1e-6)
        except Difference as difference:
            sys.exit('%s, step %d: %s' % (env, step, difference))
        before = line
    print(', '.join('%d %s' % (number, name) for name, number in counts.items()))
    if seen != set(TASKS) or min(counts.values()) < 8:
        sys.exit('too little was recorded')


if __name__ == '__main__':
    main()
