"""Vector envs at native speed, with the interface of Gymnasium's `VectorEnv`.

    envs = make_vec("CartPole-v1", num_envs=8, seed=0)
    obs, infos = envs.reset()
    obs, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

An env whose episode ends begins the next one in the same step: obs has its first observation, and infos["final_obs"] the last one
of the episode that ended (AutoresetMode.SAME_STEP). Gymnasium is not needed; without it, the spaces have its attributes and sample().
"""

import re

import numpy

from ding_worker._extension import _core, config_text

try:
    import gymnasium
    from gymnasium.vector.utils import batch_space

    _Base = gymnasium.vector.VectorEnv
    _SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP
except (ImportError, AttributeError):
    gymnasium = None
    _Base = object
    _SAME_STEP = "SameStep"  # the value of Gymnasium's AutoresetMode.SAME_STEP


class Space:
    """What Gymnasium's spaces are to a training loop: shape, dtype and sample(), and n, nvec or low and high. Dict has `spaces`."""

    def __init__(self, shape=None, dtype=None, **attributes):
        self.shape = shape
        self.dtype = None if dtype is None else numpy.dtype(dtype)
        self.__dict__.update(attributes)
        self.seed(None)

    def seed(self, seed=None):
        self.np_random = numpy.random.default_rng(seed)
        for i, space in enumerate(getattr(self, "spaces", {}).values()):
            space.seed(None if seed is None else seed + i)

    def sample(self):
        if hasattr(self, "spaces"):
            return {name: space.sample() for name, space in self.spaces.items()}
        if hasattr(self, "counts"):
            return self.np_random.integers(0, self.counts, self.shape)[()]
        if self.dtype == numpy.bool_:
            return self.np_random.integers(0, 2, self.shape).astype(bool)
        low, high = self.low.astype(float), self.high.astype(float)
        bounded = numpy.isfinite(low) & numpy.isfinite(high)
        uniform = self.np_random.uniform(numpy.where(bounded, low, 0), numpy.where(bounded, high, 1))
        return numpy.where(bounded, uniform, numpy.clip(self.np_random.normal(size=self.shape), low, high)).astype(self.dtype)

    def contains(self, value):
        if hasattr(self, "spaces"):
            return set(value) == set(self.spaces) and all(space.contains(value[name]) for name, space in self.spaces.items())
        value = numpy.asarray(value)
        if value.shape != self.shape or not numpy.can_cast(value.dtype, self.dtype, "same_kind"):
            return False
        low, high = (0, numpy.asarray(self.counts) - 1) if hasattr(self, "counts") else (self.low, self.high)
        return bool(((value >= low) & (value <= high)).all())

    def __repr__(self):
        kind = "Dict" if hasattr(self, "spaces") else "Discrete" if hasattr(self, "counts") else "Box"
        return f"{kind}({self.spaces if kind == 'Dict' else f'shape={self.shape}, dtype={self.dtype}'})"


def _field_space(field, batch):
    """The space of a field, or of `batch` of them."""
    _, dtype, shape, low, high, counts = field
    lead = () if batch is None else (batch,)
    if counts:
        if gymnasium is not None:
            space = gymnasium.spaces.Discrete(counts[0]) if shape == () else gymnasium.spaces.MultiDiscrete(counts)
            return space if batch is None else batch_space(space, batch)
        counts = numpy.array(counts).reshape(shape)
        name, value = ("n", int(counts)) if shape == () and batch is None else ("nvec", numpy.broadcast_to(counts, lead + shape))
        return Space(lead + shape, "int64", counts=value, **{name: value})
    info = None if dtype.startswith(("float", "bool")) else numpy.iinfo(dtype)
    limits = (False, True) if dtype == "bool" else (-numpy.inf, numpy.inf) if info is None else (info.min, info.max)
    bounds = [
        numpy.broadcast_to(numpy.resize(numpy.array(value or [limit]).astype(dtype), shape), lead + shape)
        for value, limit in zip((low, high), limits)
    ]
    if gymnasium is None:
        return Space(lead + shape, dtype, low=bounds[0], high=bounds[1])
    if dtype == "bool":
        return gymnasium.spaces.MultiBinary(lead + shape)
    return gymnasium.spaces.Box(*bounds, dtype=dtype)


def _space(fields, batch):
    if len(fields) == 1 and "/" not in fields[0][0]:
        return _field_space(fields[0], batch)
    spaces = {}
    for field in fields:
        *outer, last = field[0].split("/")[1:]
        inner = spaces
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = _field_space(field, batch)
    return _dict_space(spaces)


def _dict_space(spaces):
    spaces = {name: _dict_space(space) if isinstance(space, dict) else space for name, space in spaces.items()}
    return gymnasium.spaces.Dict(spaces) if gymnasium is not None else Space(spaces=spaces)


def _wrapper(wrapper):
    """ "frame_stack", or {"type": "frame_stack", "count": 4} with the fields of FrameStackConfig."""
    params = {"type": wrapper} if isinstance(wrapper, str) else dict(wrapper)
    config = {"type": params.pop("type")}
    if params:
        message = "".join(part.capitalize() for part in config["type"].split("_")) + "Config"
        config["params"] = {f"[type.googleapis.com/ding.{message}]": params}
    return config


class VectorEnv(_core.VectorEnv, _Base):
    """`num_envs` envs that step together. Make it by make_vec(). One thread at a time may use it."""

    def __init__(self, env, manager, num_envs, seed, copy):
        _core.VectorEnv.__init__(self, env, manager, num_envs, copy)
        self._seed = seed
        self.spec = self.render_mode = None
        self.metadata = {"autoreset_mode": _SAME_STEP, "render_modes": ["rgb_array"]}
        observation, action = self._observation_fields(), self._action_fields()
        self.single_observation_space, self.observation_space = _space(observation, None), _space(observation, num_envs)
        self.single_action_space, self.action_space = _space(action, None), _space(action, num_envs)

    def reset(self, *, seed=None, options=None):
        """Begins an episode in each env: (obs, infos). `seed` is an int, and env i gets seed + i, or a list with one for each env."""
        if options:
            raise ValueError(f"options is {options}, expected none: all envs are reset")
        seed, self._seed = (self._seed if seed is None else seed), None
        if seed is None:
            return self._reset([]), {}
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, (int, numpy.integer)) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed has {len(seeds)} elements, expected one for each of the {self.num_envs} envs")
        return self._reset(seeds), {}

    def close(self, **kwargs):
        """Ends all envs. Afterwards each use is a RuntimeError; a further close() does nothing."""
        _core.VectorEnv.close(self)

    @property
    def unwrapped(self):
        return self

    def __repr__(self):
        return f"<VectorEnv of {self.num_envs} {self._name}>" if hasattr(self, "metadata") else object.__repr__(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        pass  # Gymnasium's closes, which a program that ends need not


def make_vec(id, num_envs=1, seed=0, threads=1, *, copy=True, wrappers=()):
    """Makes `num_envs` envs of the name `id`; envs() lists all names.

    With threads > 1 they step in that many threads, which pays for envs whose step takes more than some microseconds. With
    copy=False, step() and reset() return the same arrays each time, and change them. `wrappers` are names or dicts, the innermost
    first: ["grayscale", {"type": "frame_stack", "count": 4}]. Rewards are float32.
    """
    if not re.fullmatch(r"[\w./:+-]+", id):
        raise ValueError(f"id is '{id}', expected one of {', '.join(envs())}")
    manager = {"type": "base"} if threads == 1 else {"type": "async_thread", "num_threads": threads}
    env = {"type": id, "wrapper": [_wrapper(wrapper) for wrapper in wrappers]}
    return VectorEnv(config_text(env), config_text(manager), num_envs, seed, copy)


def envs():
    """The names of the envs, and what they are."""
    return _core.entries_of_kind("env")
