"""The updates of policy/torch/gpu_benchmark.cc as one would write them in PyTorch, without compilation. Prints the time of each as JSON.

gpu_check_torch.py [--seconds=S]
"""

import argparse
import json
import time

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ACTIONS = 6
REPLAY_ROWS = 10000


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, ACTIONS))

    def forward(self, frames):
        return self.net(frames.float() / 255)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(64, 512)
        self.lstm = nn.LSTM(512, 512, batch_first=True)
        self.head = nn.Linear(512, ACTIONS)

    def forward(self, rows):
        return self.head(self.lstm(torch.relu(self.encoder(rows)))[0])


def mlp():
    layers = [nn.Linear(128, 2048), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2048, ACTIONS))


def to_device(tensor):
    return tensor.pin_memory().to(DEVICE, non_blocking=True) if DEVICE == "cuda" else tensor


class Dqn:
    """As ours: Adam, the mean of squared errors, a target network that is copied every 100 iterations, and four means to report."""

    def __init__(self, make):
        self.online, self.target = make().to(DEVICE), make().to(DEVICE)
        self.target.load_state_dict(self.online.state_dict())
        self.adam = torch.optim.Adam(self.online.parameters(), lr=1e-4)
        self.iterations = 0

    def update(self, obs, next_obs, action, reward, discount):
        obs, next_obs = to_device(obs), to_device(next_obs)
        action, reward, discount = to_device(action), to_device(reward), to_device(discount)
        with torch.no_grad():
            next_value = self.target(next_obs).max(1).values
            expected = reward + discount * next_value
        q = self.online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        error = q - expected
        loss = (error * error).mean()
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        self.iterations += 1
        if self.iterations % 100 == 0:
            self.target.load_state_dict(self.online.state_dict())
        # What a learner reports of each iteration, with the errors of all rows.
        return torch.stack([loss.detach(), q.detach().mean(), next_value.mean()]).tolist(), error.detach().cpu()


def batch(obs):
    rows = len(obs)
    return obs, obs.clone(), torch.randint(ACTIONS, (rows, )), torch.rand(rows), torch.full((rows, ), 0.97)


def frames(rows):
    return torch.randint(256, (rows, 4, 84, 84), dtype=torch.uint8)


def dqn_loop(make, obs):
    dqn, rows = Dqn(make), batch(obs)
    return lambda: dqn.update(*rows)


def replay_loop(rows):
    dqn, memory = Dqn(Cnn), batch(frames(REPLAY_ROWS))

    def update():
        index = torch.randint(REPLAY_ROWS, (rows, ))
        dqn.update(*(column[index] for column in memory))

    return update


def lstm_loop(rows):
    network = Lstm().to(DEVICE)
    adam = torch.optim.Adam(network.parameters())
    obs = torch.rand(rows, 80, 64) * 2 - 1

    def update():
        loss = (network(to_device(obs))**2).sum() / 2
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        return loss.item()

    return update


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(update, seconds):
    for _ in range(5):
        update()
    wait()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(3):
            update()
        count += 3
    wait()
    return (time.perf_counter() - begin) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1)
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    times = {
        "Cnn/32": measure(dqn_loop(Cnn, frames(32)), seconds),
        "Cnn/512": measure(dqn_loop(Cnn, frames(512)), seconds),
        "Replay/512": measure(replay_loop(512), seconds),
        "Mlp/1024": measure(dqn_loop(mlp, torch.rand(1024, 128)), seconds),
        "Lstm/32": measure(lstm_loop(32), seconds),
    }
    print(json.dumps(times))


if __name__ == "__main__":
    main()
