#!/usr/bin/env python3
"""Prints trajectories.txt: what the classic control problems do, computed from their published equations.

It is written apart from the C++, in plain Python numbers, so that the two can be compared:

    python3 trajectories.py > trajectories.txt

Format, one episode after the other:
    episode <env> <number of rows>
    start <steps before> <state>
    <times> <action> <reward> <terminated> <truncated> <observation>
A row repeats its action `times` times; the rest of it is what the last of these steps gave.
"""

import math
import struct

PI = math.pi


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def clip(x, low, high):
    return min(max(x, low), high)


class CartPole:
    # theta'' and x'' of Gymnasium's documentation of CartPole, Euler steps of 0.02 s.
    def __init__(self, limit):
        self.limit = limit

    def step(self, s, action):
        x, v, th, w = s
        f = 10.0 if action == 1 else -10.0
        m_pole, m_total, half = 0.1, 1.1, 0.5
        a = (f + m_pole * half * w**2 * math.sin(th)) / m_total
        w_dot = (9.8 * math.sin(th) - math.cos(th) * a) / (half * (4.0 / 3.0 - m_pole * math.cos(th) ** 2 / m_total))
        v_dot = a - m_pole * half * w_dot * math.cos(th) / m_total
        s = [x + 0.02 * v, v + 0.02 * v_dot, th + 0.02 * w, w + 0.02 * w_dot]
        over = not -2.4 <= s[0] <= 2.4 or not -12 * PI / 180 <= s[2] <= 12 * PI / 180
        return s, 1.0, over

    def observe(self, s):
        return s


class Pendulum:
    limit = 200

    def step(self, s, action):
        th, w = s
        u = clip(float32(action), -2.0, 2.0)
        angle = (th + PI) % (2 * PI) - PI
        cost = angle**2 + 0.1 * w**2 + 0.001 * u**2
        g, m, l, dt = 10.0, 1.0, 1.0, 0.05
        w = clip(w + (3 * g / (2 * l) * math.sin(th) + 3.0 / (m * l**2) * u) * dt, -8.0, 8.0)
        return [th + w * dt, w], -cost, False

    def observe(self, s):
        return [math.cos(s[0]), math.sin(s[0]), s[1]]


class MountainCar:
    limit = 200
    goal = 0.5

    def move(self, s, push):
        p, v = s
        v = clip(v + push - 0.0025 * math.cos(3 * p), -0.07, 0.07)
        p = clip(p + v, -1.2, 0.6)
        if p == -1.2 and v < 0:
            v = 0.0
        return [p, v], p >= self.goal and v >= 0

    def step(self, s, action):
        s, over = self.move(s, (action - 1) * 0.001)
        return s, -1.0, over

    def observe(self, s):
        return s


class MountainCarContinuous(MountainCar):
    limit = 999
    goal = 0.45

    def step(self, s, action):
        action = float32(action)
        s, over = self.move(s, clip(action, -1.0, 1.0) * 0.0015)
        return [float32(x) for x in s], (100.0 if over else 0.0) - 0.1 * action**2, over


class Acrobot:
    limit = 500

    # Sutton and Barto's equations with m1 = m2 = l1 = l2 = I1 = I2 = 1, lc1 = lc2 = 0.5.
    def rate(self, s, torque):
        th1, th2, w1, w2 = s
        m1 = m2 = l1 = i1 = i2 = 1.0
        lc1 = lc2 = 0.5
        g = 9.8
        d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * math.cos(th2)) + i1 + i2
        d2 = m2 * (lc2**2 + l1 * lc2 * math.cos(th2)) + i2
        phi2 = m2 * lc2 * g * math.cos(th1 + th2 - PI / 2)
        phi1 = (
            -m2 * l1 * lc2 * w2**2 * math.sin(th2)
            - 2 * m2 * l1 * lc2 * w2 * w1 * math.sin(th2)
            + (m1 * lc1 + m2 * l1) * g * math.cos(th1 - PI / 2)
            + phi2
        )
        a2 = (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * w1**2 * math.sin(th2) - phi2) / (
            m2 * lc2**2 + i2 - d2**2 / d1
        )
        a1 = -(d2 * a2 + phi1) / d1
        return [w1, w2, a1, a2]

    def step(self, s, action):
        torque, h = action - 1.0, 0.2
        k1 = self.rate(s, torque)
        k2 = self.rate([x + h / 2 * k for x, k in zip(s, k1)], torque)
        k3 = self.rate([x + h / 2 * k for x, k in zip(s, k2)], torque)
        k4 = self.rate([x + h * k for x, k in zip(s, k3)], torque)
        s = [x + h / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(s, k1, k2, k3, k4)]
        for i in (0, 1):
            while s[i] > PI:
                s[i] -= 2 * PI
            while s[i] < -PI:
                s[i] += 2 * PI
        s[2] = clip(s[2], -4 * PI, 4 * PI)
        s[3] = clip(s[3], -9 * PI, 9 * PI)
        over = -math.cos(s[0]) - math.cos(s[0] + s[1]) > 1.0
        return s, 0.0 if over else -1.0, over

    def observe(self, s):
        return [math.cos(s[0]), math.sin(s[0]), math.cos(s[1]), math.sin(s[1]), s[2], s[3]]


def run(name, problem, start, act, repeat=1, max_rows=1000, steps_before=0):
    """Until the end of the episode or max_rows. `act(row, state)` gives the action of a row."""
    state, steps, rows, over, truncated = list(start), steps_before, [], False, False
    while not (over or truncated) and len(rows) < max_rows:
        action, times = act(len(rows), state), 0
        while times < repeat and not (over or truncated):
            state, reward, over = problem.step(state, action)
            steps, times = steps + 1, times + 1
            truncated = steps == problem.limit and not over
        seen = " ".join("%.9g" % x for x in problem.observe(state))
        rows.append("%d %.9g %.9g %d %d %s" % (times, action, reward, over, truncated, seen))
    print("episode %s %d" % (name, len(rows)))
    print("start %d " % steps_before + " ".join("%.17g" % x for x in start))
    print("\n".join(rows))


def pattern(values):
    return lambda row, state: values[row * row // 3 % len(values)]


def balance(row, s):
    return int(s[2] + 0.3 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0)


def main():
    run("CartPole-v0", CartPole(200), [0.01, -0.02, 0.03, 0.04], balance)
    # Balancing multiplies a difference by 1.08 with each step: not more than 200 of them, so that the last bit of a
    # cosine, which differs between machines, stays below the tolerance.
    run("CartPole-v1", CartPole(500), [-0.04, 0.03, -0.02, 0.01], balance, repeat=2, steps_before=300)
    run("CartPole-v1", CartPole(500), [0.0, 0.0, 0.0, 0.0], lambda row, s: 1)
    run("CartPole-v1", CartPole(500), [-2.3, -0.9, 0.01, 0.2], balance)
    run("CartPole-v1", CartPole(500), [0.02, 0.01, -0.03, 0.05], pattern([0, 1, 1, 0, 1]))
    run("Pendulum-v1", Pendulum(), [3.0, 0.5], pattern([-2.0, -0.7, 0.0, 1.1, 2.0]))
    run("Pendulum-v1", Pendulum(), [-0.3, -1.0], lambda row, s: 2.0 if s[1] > 0 else -2.0)
    swing = lambda row, s: 2 if s[1] > 0 else 0
    run("MountainCar-v0", MountainCar(), [-0.5, 0.0], swing)
    run("MountainCar-v0", MountainCar(), [-0.59, 0.0], pattern([0, 2, 1]))
    run("MountainCar-v0", MountainCar(), [-1.1, -0.05], lambda row, s: 0, max_rows=30)
    throttle = lambda row, s: 0.9 if s[1] > 0 else -0.9
    run("MountainCarContinuous-v0", MountainCarContinuous(), [-0.55, 0.0], throttle)
    run("MountainCarContinuous-v0", MountainCarContinuous(), [-0.45, 0.0], pattern([0.3, -0.2, 0.0]), repeat=9)
    run("MountainCarContinuous-v0", MountainCarContinuous(), [-1.1, -0.05], lambda row, s: -1.0, max_rows=30)
    pump = lambda row, s: 2 if s[3] > 0 else 0
    run("Acrobot-v1", Acrobot(), [0.05, -0.03, 0.02, 0.01], pump)
    run("Acrobot-v1", Acrobot(), [-0.1, 0.1, -0.05, 0.08], lambda row, s: 1, repeat=5)
    run("Acrobot-v1", Acrobot(), [-0.02, 0.06, 0.1, -0.1], pattern([0, 2, 1, 2]), max_rows=100)
    run("Acrobot-v1", Acrobot(), [2.0, -2.5, 12.0, -28.0], lambda row, s: 0, max_rows=20)


if __name__ == "__main__":
    main()
