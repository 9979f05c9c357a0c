"""What a collector in Python needs, under DI-engine's names: caches of a step, trajectories, advantages, n-step returns, samples.

A transition is a dict: obs, action, reward, done, next_obs ..., whose values are numbers, arrays, or nested dicts and lists of them. Where
DI-engine has tensors, these functions have numpy arrays (torch.from_numpy copies nothing). They leave their arguments as they are, and
return new dicts, which share the arrays.
"""

import collections
import copy

import numpy as np

INF = float("inf")


class CachePool:
    """A slot for each of `env_num` envs, None while it is empty."""

    def __init__(self, name, env_num, deepcopy=False):
        self._name = name
        self._copies = deepcopy
        self._slots = [None] * env_num

    def update(self, data):
        """Fills the slots of a dict {env: value}; of a list of such dicts, one for each player, with lists of values."""
        if isinstance(data, list):
            data = {env: [of_player[env] for of_player in data] for env in data[0]}
        for env, value in data.items():
            self._slots[env] = copy.deepcopy(value) if self._copies else value

    def __getitem__(self, idx):
        return self._slots[idx]

    def reset(self, idx):
        self._slots[idx] = None


class TrajBuffer(list):
    """A list whose append() drops the oldest elements, so that there are at most `maxlen`; None or INF: all are kept."""

    def __init__(self, maxlen, *args, deepcopy=False, **kwargs):
        super().__init__(*args, **kwargs)
        self._maxlen = INF if maxlen is None else maxlen
        if self._maxlen < 1:
            raise ValueError(f"maxlen is {maxlen}, expected at least 1, or None")
        self._copies = deepcopy

    def append(self, data):
        while len(self) >= self._maxlen:
            del self[0]
        super().append(copy.deepcopy(data) if self._copies else data)


def to_tensor_transitions(data, shallow_copy_next_obs=True):
    """The transitions with arrays: float64 becomes float32, a list of numbers an array, numbers stay.

    shallow_copy_next_obs   next_obs of a transition is the same object as obs of the next one; only the last next_obs is converted
    """
    if not data:
        raise IndexError("there are no transitions, expected at least one")
    shares = shallow_copy_next_obs and "next_obs" in data[0]
    result = []
    for i, row in enumerate(data):
        left_out = {"next_obs"} if shares and i + 1 < len(data) else set()
        result.append({key: _to_arrays(value) for key, value in row.items() if key not in left_out})
    if shares:
        for row, after in zip(result, result[1:]):
            row["next_obs"] = after["obs"]
    return result


def _to_arrays(value):
    if isinstance(value, np.ndarray):
        return value.astype(np.float32) if value.dtype == np.float64 else value
    if isinstance(value, dict):
        return {key: _to_arrays(inner) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_to_arrays, value))
    if isinstance(value, (list, tuple)):
        numbers = value and all(isinstance(inner, (int, float)) for inner in value)
        return _to_arrays(np.array(value)) if numbers else [_to_arrays(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return value
    if hasattr(value, "__array__"):  # a tensor
        return value
    raise TypeError(f"a transition has a {type(value).__name__}, expected numbers, arrays, dicts and lists of them")


def get_nstep_return_data(data, nstep, cum_reward=False, correct_terminate_gamma=True, gamma=0.99):
    """The transitions of a trajectory with what the next `nstep` steps bring: `reward` of each step [nstep], or with cum_reward their
    discounted sum; `next_obs` and `done` after the last one; and with correct_terminate_gamma `value_gamma`, by which the bootstrap value
    counts: gamma to the number of steps. At the end of the trajectory there are fewer steps; their rewards are 0.
    """
    if nstep < 1:
        raise ValueError(f"nstep is {nstep}, expected at least 1")
    if nstep == 1:
        return data
    rewards = np.array([np.asarray(row["reward"], np.float32).reshape(()) for row in data])
    result = []
    for i, row in enumerate(data):
        steps = min(nstep, len(data) - i)
        last = data[i + steps - 1]
        window = np.zeros(nstep, np.float32)
        window[:steps] = rewards[i : i + steps]
        added = {"reward": np.float32(window @ gamma ** np.arange(nstep)) if cum_reward else window, "done": last["done"]}
        if "next_obs" in row:
            added["next_obs"] = last["next_obs"]
        if correct_terminate_gamma:
            added["value_gamma"] = gamma**steps
        result.append({**row, **added})
    return result


def get_gae(data, last_value, gamma, gae_lambda, cuda=False):
    """The transitions with `adv`, generalized advantage estimation (Schulman et al. 2016, equation 16) from `value` and `reward`.

    adv[t] = delta[t] + gamma gae_lambda (1 - end[t]) adv[t + 1],  delta[t] = reward[t] + gamma value[t + 1] (1 - done[t]) - value[t]

    `end` is `traj_flag` of a transition, or else `done`. last_value: value after the last transition.
    """
    if cuda:
        raise ValueError("cuda is True, expected False: the arrays are numpy's")
    value = np.array([np.asarray(row["value"], np.float64).reshape(()) for row in data])
    reward = np.array([np.asarray(row["reward"], np.float64).reshape(()) for row in data])
    done = np.array([float(row.get("done", False)) for row in data])
    end = np.array([float(row.get("traj_flag", row.get("done", False))) for row in data])
    after = np.append(value[1:], np.asarray(last_value, np.float64).reshape(()))
    delta = reward + gamma * after * (1 - done) - value
    result, advantage = [], 0.0
    for t in reversed(range(len(data))):
        advantage = delta[t] + gamma * gae_lambda * (1 - end[t]) * advantage
        result.append({**data[t], "adv": np.float32(advantage)})
    return result[::-1]


def get_gae_with_default_last_value(data, done, gamma, gae_lambda, cuda=False):
    """get_gae() with last_value 0 if `done`, else with the value of the last transition, which is left out of the result."""
    if done:
        return get_gae(list(data), 0.0, gamma, gae_lambda, cuda)
    return get_gae(list(data)[:-1], data[-1]["value"], gamma, gae_lambda, cuda)


def get_train_sample(data, unroll_len, last_fn_type="last", null_transition=None):
    """Samples of `unroll_len` transitions, each a dict of lists; with unroll_len 1 the transitions themselves.

    last_fn_type   what becomes of fewer transitions at the end: "last" puts the last ones of the sample before in front of them,
                   "null_padding" null_transition, or one with zeros and done, behind them; "drop" drops them. Without a sample
                   before, "last" is "null_padding"
    """
    if last_fn_type not in ("last", "null_padding", "drop"):
        raise ValueError(f"last_fn_type is {last_fn_type!r}, expected 'last', 'null_padding' or 'drop'")
    if unroll_len < 1:
        raise ValueError(f"unroll_len is {unroll_len}, expected at least 1")
    if unroll_len == 1:
        return data
    data = list(data)
    whole = len(data) // unroll_len * unroll_len
    pieces = [data[i : i + unroll_len] for i in range(0, whole, unroll_len)]
    rest = data[whole:]
    if rest and last_fn_type != "drop":
        missing = unroll_len - len(rest)
        if last_fn_type == "last" and pieces:
            pieces.append(pieces[-1][-missing:] + rest)
        else:
            null = null_transition if null_transition is not None else _null_like(rest[0])
            pieces.append(rest + [copy.deepcopy(null) for _ in range(missing)])
    return [_dict_of_lists(piece) for piece in pieces]


def _null_like(row):
    zeros = {key: _zeros_like(row[key]) for key in ("obs", "action", "reward") if key in row}
    gamma = {"value_gamma": 0.0} if "value_gamma" in row else {}
    return {**copy.deepcopy(row), **zeros, "done": True, "null": True, **gamma}


def _zeros_like(value):
    if isinstance(value, dict):
        return {key: _zeros_like(inner) for key, inner in value.items()}
    return np.zeros_like(value)


def _dict_of_lists(rows):
    if not isinstance(rows[0], collections.abc.Mapping):
        return rows
    return {key: _dict_of_lists([row[key] for row in rows]) for key in rows[0]}
