"""Acts with the policy of a checkpoint, on numpy alone.

    actor = open_checkpoint("run/ckpt/ckpt_best").actor()
    action = actor.act(observation)                        # the best action
    action = actor.act(observation, sample=True)           # drawn as in training
"""

import math

import numpy as np

from ding_worker.description import describe_actor
from ding_worker.distributions import make_values
from ding_worker.errors import FormatError
from ding_worker.network import Network
from ding_worker.safetensors import parse_json

MASK = "obs/action_mask"  # the field of an observation that says which actions are legal
# What the network of a head is called that acts, by the type of head (docs/reference/checkpoint_format.md).
_OUTPUTS = {
    "q": ["q"],
    "categorical": ["logit"],
    "normal": ["mean"],
    "squashed_normal": ["mean"],
    "tanh": ["mean"],
    "tanh_normal": ["mean", "log_std"],
}
_SQUASHED = ("squashed_normal", "tanh", "tanh_normal")
_LOG_STD_RANGE = (-20, 2)  # of the head "tanh_normal"


class _Normalizer:
    """(x - mean) / sqrt(variance + 1e-8), clipped; data/running_normalizer.h."""

    def __init__(self, tensors, clip):
        self._mean = tensors.get_array("mean", np.float64, (None,))
        squares = tensors.get_array("sum_of_squares", np.float64, self._mean.shape)
        count = tensors.get_int("count")
        sane = np.isfinite(self._mean).all() and np.isfinite(squares).all() and (squares >= 0).all()
        if count < 0 or not sane:
            raise FormatError(f"{tensors.source}: the statistics of {count} rows are not finite, or negative")
        self._scale = 1 / np.sqrt(squares / count + 1e-8) if count else np.ones_like(squares)
        self._clip = clip
        self.width = len(self._mean)

    def __call__(self, x):
        # Rounded to float32, as the networks of the training read it.
        return np.clip((x - self._mean) * self._scale, -self._clip, self._clip).astype(np.float32)


class Actor:
    """The policy of a training checkpoint, on networks without convolutions: each that describes its actor, dqn, r2d2, cql,
    ppo, a2c, impala, bc, sac, td3, ddpg, iql, td3bc and discrete_sac among them, and the distributional ones, c51, rainbow, qrdqn
    and iqn.

    Options:
      low, high      bounds of a continuous action: numbers, or one for each element; not given: those of the checkpoint
      counts         categories of each element of a multi-discrete action; not given: those of the checkpoint
                     (checkpoints of earlier versions hold neither bounds nor counts; without counts there is one element)
      seed           of the actions that are drawn

    policy           the type of the policy
    input_width      elements of an observation, without its mask
    state_size       floats of the recurrent state of an env; 0 without memory

    An observation is an array [input_width] or [B, input_width], or a dict of arrays by field (in the env's order, if an earlier
    version wrote the checkpoint), which are flattened and put side by side. MASK in such a dict is the mask. An actor with memory keeps a state for each env id;
    reset() begins new episodes. Not for several threads at once.
    """

    def __init__(self, checkpoint, low=None, high=None, counts=None, seed=0):
        description = describe_actor(checkpoint)
        self.policy = description.policy
        self._kind = description.head
        self.head = _OUTPUTS[self._kind][0]
        model = checkpoint.component("model")
        self._random = np.random.default_rng(seed)
        self._states = {}
        self._critic = None
        self._log_std = None
        self._values = make_values(description.distribution)
        self._load(model, description)
        self.input_width = self._actor.input_width
        self.state_size = self._actor.state_size + (self._critic.state_size if self._critic else 0)
        self._check_widths(model.scope("model"))
        action = _action_of(checkpoint)
        self._shape = action.get("shape")  # of an action; None: not known
        self._fields = _fields_of(checkpoint)
        if self.head == "mean" and low is None and high is None:
            low, high = action.get("low"), action.get("high")
        if self.head != "mean" and counts is None and "high" in action:
            counts = np.broadcast_to(np.asarray(action["high"], np.int64).reshape(-1) + 1, math.prod(action["shape"]))
        self._counts = self._make_counts(counts)
        self._low, self._high = self._make_bounds(low, high)

    def reset(self, env_ids=None):
        """Drops the recurrent states of these envs, or of all."""
        for env_id in list(self._states) if env_ids is None else env_ids:
            self._states.pop(env_id, None)

    def act(self, obs, mask=None, sample=False, eps=None, env_ids=None):
        """Chooses an action for each observation; an array [B] or [B, elements], without B for a single observation.

        mask      [B, categories], 0 for illegal ones; not given: all are legal
        sample    False: the most probable action, or that of the highest value. True: drawn from the policy; a policy of
                  values (dqn and its variants) takes a random legal action with probability `eps`, which it needs; one
                  without a distribution (td3, ddpg, td3bc, iql) takes the best action
        env_ids   whose state each observation continues, for actors with memory; not given: 0 to B - 1
        """
        return self.evaluate(obs, mask, sample, eps, env_ids)["action"]

    def evaluate(self, obs, mask=None, sample=False, eps=None, env_ids=None):
        """As act(), and returns all that was computed, by name: "action", the outputs of the networks ("q", or "logit" or
        "mean", and "value" or "log_std"), of distributional policies "distribution" [actions, N] (probabilities of the atoms, or
        quantiles), and for continuous actions "raw_action", before clipping or tanh, and scaling to the bounds.
        """
        x, mask, single = self._read(obs, mask)
        if sample and self._actor.has_noise:
            raise ValueError(f"the policy '{self.policy}' samples by noise in its parameters, which this package does not draw; act with sample=False")
        if self.head == "q" and sample and (eps is None or not 0 <= eps <= 1):
            raise ValueError(f"eps is {eps}, expected 0 to 1: the policy '{self.policy}' samples by random actions")
        if self.head == "mean" and self._low is None:
            raise ValueError("the bounds of the action are missing, which an earlier version did not save: give low and high to actor()")
        result = self._run(x, list(range(len(x)) if env_ids is None else env_ids))
        if self.head == "mean":
            result.update(self._choose_continuous(result, sample))
        else:
            result["action"] = self._choose_categories(result[self.head], mask, sample, eps)
        for name in {"action", "raw_action"} & set(result) if self._shape is not None else ():
            result[name] = result[name].reshape(len(x), *self._shape)
        return {name: values[0] for name, values in result.items()} if single else result

    # ---- loading

    def _load(self, model, description):
        outputs = _OUTPUTS[self._kind] + description.unused_outputs
        self._actor = Network(model.scope(description.parameters), description.activation, outputs, self._values)
        of_policy = model.scope("model")
        if description.critic_activation is not None and any(name.startswith("critic/") for name in of_policy):
            self._critic = Network(of_policy.scope("critic"), description.critic_activation, ["value"])
        if self._kind in ("normal", "squashed_normal"):
            width = self._actor.head_width("mean")
            self._log_std = of_policy.get_array("distribution/log_std", np.float32, (width,)).astype(np.float64)
        # Saved in the order of the fields of an observation.
        names = [key[len("statistics/") : -len("/count")] for key in of_policy if key.startswith("statistics/") and key.endswith("/count")]
        self._normalizers = {field: _Normalizer(of_policy.scope(f"statistics/{field}"), description.obs_clip) for field in names}

    def _check_widths(self, model):
        if self._critic is not None and self._critic.input_width != self.input_width:
            raise FormatError(f"{model.source}: actor and critic read {self.input_width} and {self._critic.input_width} values")
        width = sum(normalizer.width for normalizer in self._normalizers.values())
        if self._normalizers and width != self.input_width:
            raise FormatError(f"{model.source}: statistics of {width} values, the actor reads {self.input_width}")

    def _make_counts(self, counts):
        width = self._actor.head_width(self.head)
        if self.head == "mean":
            if counts is not None:
                raise ValueError("counts are given, but the actions are continuous")
            return None
        if counts is None:
            return [width]
        counts = [int(count) for count in counts]
        if any(count < 1 for count in counts) or sum(counts) != width or (self.head == "q" and len(counts) != 1):
            raise ValueError(f"counts are {counts}, but the policy has {width} outputs in '{self.head}'")
        return counts

    def _make_bounds(self, low, high):
        if (low is None) != (high is None):
            raise ValueError("one of low and high is given, expected both or none")
        if low is None:
            return None, None
        if self.head != "mean":
            raise ValueError("low and high are given, but the actions are discrete")
        # Actions are float32: the bounds are the next ones within those of the env, since 0.4 rounded is above 0.4.
        shape = (self._actor.head_width("mean"),)
        low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64).reshape(-1), shape) for bound in (low, high))
        with np.errstate(over="ignore"):
            low32, high32 = low.astype(np.float32), high.astype(np.float32)
        low32 = np.where(low32 < low, np.nextafter(low32, np.float32(np.inf)), low32)
        high32 = np.where(high32 > high, np.nextafter(high32, np.float32(-np.inf)), high32)
        within = low32 <= high32
        low, high = (np.where(within, rounded, bound).astype(np.float32) for rounded, bound in ((low32, low), (high32, high)))
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
            raise ValueError(f"low is {low}, high is {high}; expected finite bounds, low at most high")
        return low, high

    # ---- acting

    def _read(self, obs, mask):
        """Returns observations [B, input_width], their mask, and whether there is a single one without B."""
        if isinstance(obs, dict):
            obs = dict(obs)
            mask = obs.pop(MASK, mask)
            x, single = self._join(obs)
        else:
            x = np.asarray(obs, dtype=np.float32)
            single = x.ndim == 1
            x = x[np.newaxis] if single else x.reshape(len(x), -1) if x.ndim else x.reshape(1, 1)
        if x.shape[1] != self.input_width:
            raise ValueError(f"an observation has {x.shape[1]} elements, expected {self.input_width}")
        if not np.isfinite(x).all():
            raise ValueError("an observation is not finite")
        return x, self._read_mask(mask, len(x)), single

    def _join(self, obs):
        names = list(self._normalizers) or self._fields or list(obs)
        if set(obs) != set(names):
            raise ValueError(f"the observation has the fields {list(obs)}, expected {names}")
        columns = [np.asarray(obs[name], dtype=np.float32) for name in names]
        if self._normalizers:
            widths = [normalizer.width for normalizer in self._normalizers.values()]
            single = all(column.size == width for column, width in zip(columns, widths)) and columns[0].ndim < 2
        else:
            single = all(column.ndim < 2 for column in columns) and sum(c.size for c in columns) == self.input_width
        rows = 1 if single else len(columns[0])
        if any(column.size % rows or (not single and len(column) != rows) for column in columns):
            raise ValueError(f"the fields of the observation have the shapes {[column.shape for column in columns]}")
        return np.concatenate([column.reshape(rows, -1) for column in columns], axis=1), single

    def _read_mask(self, mask, rows):
        if mask is None:
            return None
        if self._counts is None:
            raise ValueError("a mask is given, but the actions are continuous")
        mask = np.asarray(mask).astype(bool)
        if mask.size != rows * sum(self._counts):
            raise ValueError(f"the mask has the shape {mask.shape}, expected [{rows}, {sum(self._counts)}]")
        mask = mask.reshape(rows, -1)
        for i, part in enumerate(np.split(mask, np.cumsum(self._counts)[:-1], axis=1)):
            if not part.any(axis=1).all():
                row = int(np.argmin(part.any(axis=1)))
                raise ValueError(f"the mask of observation {row} has no legal category of element {i}")
        return mask

    def _run(self, x, env_ids):
        """The outputs of the networks. Moves the states of `env_ids` on, unless it raises."""
        if self._normalizers:
            ends = np.cumsum([normalizer.width for normalizer in self._normalizers.values()])[:-1]
            parts = np.split(x, ends, axis=1)
            x = np.concatenate([normalize(part) for normalize, part in zip(self._normalizers.values(), parts)], axis=1)
        if len(env_ids) != len(x) or len(set(env_ids)) != len(env_ids):
            raise ValueError(f"{len(env_ids)} env ids for {len(x)} observations, expected a different one for each")
        zeros = np.zeros(self.state_size)
        states = np.array([self._states.get(env_id, zeros) for env_id in env_ids]).reshape(len(x), self.state_size)
        split = self._actor.state_size
        outputs, state = self._actor(x, states[:, :split])
        after = [state]
        if self._critic is not None:
            values, state = self._critic(x, states[:, split:])
            outputs.update(values)
            after.append(state)
        if "value" in outputs:
            outputs["value"] = outputs["value"][:, 0]
        after = np.concatenate(after, axis=1)
        if not all(np.isfinite(values).all() for values in [*outputs.values(), after]):
            raise FormatError("an output of the network is not finite")
        if self.state_size:
            self._states.update(zip(env_ids, after))
        return outputs

    def _choose_categories(self, head, mask, sample, eps):
        legal = np.ones(head.shape, dtype=bool) if mask is None else mask
        ends = np.cumsum(self._counts)[:-1]
        columns = []
        for values, allowed in zip(np.split(head, ends, axis=1), np.split(legal, ends, axis=1)):
            masked = np.where(allowed, values, -np.inf)
            if sample and self.head == "q":
                explores = self._random.random(len(values)) < eps
                column = np.where(explores, self._draw(allowed.astype(np.float64)), masked.argmax(axis=1))
            elif sample:
                column = self._draw(np.exp(masked - masked.max(axis=1, keepdims=True)))
            else:
                column = masked.argmax(axis=1)  # the lowest among equals
            columns.append(column)
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def _draw(self, weights):
        """A category per row, with probabilities in proportion to `weights`."""
        upto = np.cumsum(weights, axis=1)
        # In (0, total]: a category without weight is never the first one to reach it.
        drawn = (1 - self._random.random((len(weights), 1))) * upto[:, -1:]
        return (upto < drawn).sum(axis=1)

    def _choose_continuous(self, outputs, sample):
        raw = mean = outputs["mean"]
        if sample and self._kind != "tanh":
            log_std = self._log_std if self._log_std is not None else np.clip(outputs["log_std"], *_LOG_STD_RANGE)
            raw = mean + np.exp(log_std) * self._random.standard_normal(mean.shape)
        unit = np.tanh(raw) if self._kind in _SQUASHED else np.clip(raw, -1, 1)
        low = self._low.astype(np.float64)
        action = low + 0.5 * (unit + 1) * (self._high - low)
        return {"raw_action": raw, "action": np.clip(action.astype(np.float32), self._low, self._high)}


def _fields_of(checkpoint):
    """The names of the observation's fields in the order of the network's inputs; none if they are not saved."""
    fields = parse_json(checkpoint.fields.get("observation", "[]").encode())
    if not isinstance(fields, list) or not all(isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields):
        raise FormatError(f"{checkpoint!r}: its field 'observation' is no list of fields")
    return [field["name"] for field in fields if field["name"] != MASK]


def _action_of(checkpoint):
    """The only field of the action, as the manifest describes it; without a description an empty one."""
    text = checkpoint.fields.get("action")
    if text is None:
        return {}
    fields = parse_json(text.encode())
    if not isinstance(fields, list) or len(fields) != 1 or not isinstance(fields[0], dict):
        raise FormatError(f"{checkpoint!r}: its field 'action' is no list of one field")
    return fields[0]
