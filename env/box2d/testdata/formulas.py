#!/usr/bin/env python3
"""Checks recorded episodes of the Box2D tasks against formulas that are written apart from the C++.

    record_episodes | formulas.py

Reads one JSON object per line. From the positions, velocities and contacts of the bodies it computes what Gymnasium's LunarLander-v3
and BipedalWalker-v3 observe, pay and end, and what the engines of the lander and gravity do to its momentum. Prints what it counted, or
the first difference, and leaves with status 1.
"""

import json
import sys

import numpy as np

SCALE = 30.0
FPS = 50.0
WIDTH, HEIGHT = 600 / SCALE, 400 / SCALE
LIMITS = {'LunarLander-v3': 1000, 'LunarLanderContinuous-v3': 1000, 'BipedalWalker-v3': 1600, 'BipedalWalkerHardcore-v3': 2000}


class Difference(Exception):
    pass


def expect(what, found, wanted, tolerance):
    found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    scale = np.maximum(1, np.abs(wanted))
    if found.shape != wanted.shape or np.any(np.abs(found - wanted) > tolerance * scale):
        raise Difference('%s is %s, expected %s' % (what, found, wanted))


def area(corners):
    x, y = np.asarray(corners, float).T / SCALE
    return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


LANDER_MASS = 5 * area([(-14, 17), (-17, 0), (-17, -10), (17, -10), (17, 0), (14, 17)])
LEG_MASS = (2 * 2 / SCALE) * (2 * 8 / SCALE)
HULL_MASS = 5 * area([(-30, 9), (6, 9), (34, 1), (34, -8), (-30, -8)])


def lander_obs(line):
    body = line['bodies'][0]
    (x, y), (vx, vy) = body['position'], body['velocity']
    return np.array([
        (x - WIDTH / 2) / (WIDTH / 2), (y - (HEIGHT / 4 + 18 / SCALE)) / (HEIGHT / 2), vx * (WIDTH / 2) / FPS, vy * (HEIGHT / 2) / FPS,
        body['angle'], 20 * body['spin'] / FPS, *[float(t) for t in line['touches']]
    ])


def lander_shaping(obs):
    return -100 * np.linalg.norm(obs[:2]) - 100 * np.linalg.norm(obs[2:4]) - 100 * abs(obs[4]) + 10 * obs[6] + 10 * obs[7]


def lander_engines(env, action):
    """Power of the main engine, power and direction of the side engine."""
    if env == 'LunarLander-v3':
        return float(action[0] == 2), float(action[0] in (1, 3)), float(action[0] - 2)
    main = 0.5 + 0.5 * min(action[0], 1) if action[0] > 0 else 0.0
    side = np.clip(abs(action[1]), 0.5, 1) if abs(action[1]) > 0.5 else 0.0
    return main, side, float(np.sign(action[1]))


def momentum(line):
    return sum(body['mass'] * np.array(body['velocity']) for body in line['bodies'])


def check_lander(env, before, line, counts):
    obs = lander_obs(line)
    expect('observation', line['obs'], obs, 1e-6)
    expect('masses', [body['mass'] for body in line['bodies']], [LANDER_MASS, LEG_MASS, LEG_MASS], 1e-6)
    if before is None:
        return
    main, side, direction = lander_engines(env, line['action'])
    reward = lander_shaping(obs) - lander_shaping(lander_obs(before)) - 0.3 * main - 0.03 * side
    terminated = False
    if line['crashed'] or abs(obs[0]) >= 1:
        reward, terminated = -100, True
        counts['crashes'] += 1
    if not line['bodies'][0]['awake']:
        reward, terminated = 100, True
    expect('reward', line['reward'], reward, 1e-5)
    expect('terminated', line['terminated'], terminated, 0)
    # In the air only gravity and engines change the momentum of lander and legs together.
    if line['crashed'] or any(line['touches'] + before['touches']):
        return
    angle = before['bodies'][0]['angle']
    tip = np.array([np.sin(angle), -np.cos(angle)])  # downwards along the body
    across = np.array([-np.cos(angle), -np.sin(angle)])
    d0, d1 = line['dispersion']
    push = -13 * main * (tip * (4 / SCALE + 2 * d0) + across * d1)
    push -= 0.6 * side * (tip * d0 + across * (3 * d1 + direction * 12 / SCALE))
    push += np.array([0, -10]) / FPS * (LANDER_MASS + 2 * LEG_MASS)
    expect('change of the momentum', momentum(line) - momentum(before), push, 2e-4)
    counts['pushes'] += main > 0 or side > 0


def walker_edges(terrain):
    """The ends of all pieces of the ground, [edges, 2, 2]."""
    heights = np.array(terrain['heights'])
    corners = np.stack([np.arange(len(heights)) * 14 / SCALE, heights], 1)
    edges = [np.stack([corners[:-1], corners[1:]], 1)]
    for obstacle in terrain['obstacles']:
        around = np.array(obstacle)
        edges.append(np.stack([around, np.roll(around, -1, 0)], 1))
    return np.concatenate(edges)


def ray(origin, direction, edges):
    """The smallest fraction of `direction` at which the ray from `origin` meets an edge; 1 without one."""
    a, b = edges[:, 0], edges[:, 1] - edges[:, 0]
    cross = direction[0] * b[:, 1] - direction[1] * b[:, 0]
    offset = a - origin
    with np.errstate(divide='ignore', invalid='ignore'):
        t = (offset[:, 0] * b[:, 1] - offset[:, 1] * b[:, 0]) / cross
        s = (offset[:, 0] * direction[1] - offset[:, 1] * direction[0]) / cross
    met = (t >= 0) & (t <= 1) & (s >= 0) & (s <= 1)
    return t[met].min() if met.any() else 1.0


def walker_obs(line, edges):
    hull, *parts = line['bodies']
    (_, _), (vx, vy) = hull['position'], hull['velocity']
    obs = [hull['angle'], 2 * hull['spin'] / FPS, 0.3 * vx * WIDTH / FPS, 0.3 * vy * HEIGHT / FPS]
    for leg in range(2):
        upper, lower = parts[2 * leg], parts[2 * leg + 1]
        obs += [upper['angle'] - hull['angle'], (upper['spin'] - hull['spin']) / 4]
        obs += [lower['angle'] - upper['angle'] + 1, (lower['spin'] - upper['spin']) / 6, float(line['touches'][leg])]
    angles = 0.15 * np.arange(10)
    rays = 160 / SCALE * np.stack([np.sin(angles), -np.cos(angles)], 1)
    return np.array(obs + [ray(np.array(hull['position']), r, edges) for r in rays])


def walker_shaping(line):
    hull = line['bodies'][0]
    return 130 / SCALE * hull['position'][0] - 5 * abs(hull['angle'])


def check_walker(before, line, edges, counts):
    obs = walker_obs(line, edges)
    # A ray that grazes a corner may meet it or not.
    expect('observation', line['obs'][:14], obs[:14], 2e-6)
    close = np.abs(np.array(line['obs'][14:]) - obs[14:]) < 1e-4
    counts['rays'] += int(close.sum())
    counts['other rays'] += int((~close).sum())
    expect('mass of the hull', line['bodies'][0]['mass'], HULL_MASS, 1e-6)
    if before is None:
        return
    reward = walker_shaping(line) - walker_shaping(before) - 0.028 * np.abs(line['action']).sum()
    x = line['bodies'][0]['position'][0]
    failed = line['crashed'] or x < 0
    counts['falls'] += failed
    expect('reward', line['reward'], -100 if failed else reward, 2e-5)
    expect('terminated', line['terminated'], failed or x > 190 * 14 / SCALE, 0)


def main():
    counts = dict.fromkeys(['episodes', 'steps', 'crashes', 'pushes', 'falls', 'rays', 'other rays'], 0)
    env, before, edges, step = None, None, None, 0
    for text in sys.stdin:
        line = json.loads(text)
        try:
            if 'env' in line:
                env, before, step = line['env'], None, 0
                counts['episodes'] += 1
                expect('time limit', line['limit'], LIMITS[env], 0)
                edges = walker_edges(line['terrain']) if 'terrain' in line else None
            else:
                step += 1
                counts['steps'] += 1
                expect('truncated', line['truncated'], step == LIMITS[env] and not line['terminated'], 0)
            if edges is None:
                check_lander(env, before, line, counts)
            else:
                check_walker(before, line, edges, counts)
        except Difference as difference:
            sys.exit('%s, step %d: %s' % (env, step, difference))
        before = line
    print(', '.join('%d %s' % (number, name) for name, number in counts.items()))
    if min(counts[name] for name in counts if name != 'other rays') < 5 or counts['other rays'] > counts['rays'] / 1000:
        sys.exit('too little was recorded, or too many rays differ')


if __name__ == '__main__':
    main()
