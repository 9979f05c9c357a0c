"""The tensors of a state dict of DI-engine by name, the chains of layers that they make."""

import collections
import re

import numpy as np

from ding_worker.di_engine.evaluator import Refused

# Segments that nn.DataParallel and torch.compile add to names.
_ADDED = ("module", "_orig_mod")
# Where the layers of a network stand below its name. Those with a number may be none or several, with an activation between them.
ENCODER = ("init", "main.{}")
HEAD = ("0.{}", "1.0")
REGRESSION_HEAD = ("main.{}", "last")
MEAN_HEAD = ("main.{}", "mu")
# Names in architectures that are not converted, and what they belong to.
_OTHERS = (
    (r"(^|\.)pred\.\d+\.", "one of several heads: multi-discrete actions, or an ensemble"),
    (r"(^|\.)fc[12]\.", "a residual block"),
    (r"running_(mean|var)$|num_batches_tracked$", "a normalization (norm_type)"),
    (r"^head\.(fqf_fc|quantiles_proposal|sigma_pi)", "FQF"),
    (r"^head\.branches\.", "the branches of BDQ"),
    (r"(^|\.)(rnn|lstm|gru)\.", "a recurrent network"),
    (r"popart|^critic_head\.(.*\.)?(mu|sigma|v)$", "PopArt"),
    (r"^critic_[qv]_head\.", "QVAC"),
    (r"^actor(_head)?\.[01]\.(\d|Q|mu|last|main|log_sigma)", "hybrid actions"),
    (r"^actor(_head)?\.2\.Q\.", "the discrete actions of a QAC"),
    (r"^critic(_head)?\.([2-9]|\d\d+)\.\d", "a third critic"),
    (r"(^|\.)stacks\.\d+\.|(^|\.)mid\.weight$", "an encoder of pictures"),
    (r"(^|\.)(core|attention|transformer)[._]", "a transformer"),
    (r"^actor_head\.log_sigma_layer", "a deviation that depends on the observation (sigma_type='conditioned')"),
    (r"^(agent_models|actor_critic|aux_critic|policy_stem|vae)\.", "another model than DQN, VAC and QAC"),
)


class State:
    """The tensors of a state dict by name, without what torch adds to names; remembers which have been taken."""

    def __init__(self, tensors):
        self._tensors = {}
        for name, tensor in tensors.items():
            short = ".".join(part for part in name.split(".") if part not in _ADDED)
            if short in self._tensors:
                raise Refused(f"two tensors are '{short}', one of them '{name}'")
            self._tensors[short] = tensor
        self._drop_second_names()

    def refuse_others(self):
        """Refuses architectures that are not converted, by names and shapes."""
        for name, tensor in self._tensors.items():
            for pattern, what in _OTHERS:
                if re.search(pattern, name):
                    raise Refused(f"'{name}' belongs to {what}, which is not converted")
            if name.endswith(".weight") and tensor.ndim == 1:
                raise Refused(f"'{name}' {list(tensor.shape)} belongs to a normalization (norm_type), or to an activation with parameters; neither is converted")
            if tensor.ndim > 2:
                raise Refused(f"'{name}' {list(tensor.shape)} is a convolution; only networks on vectors are converted")

    def _drop_second_names(self):
        """VAC and QAC register their parts a second time."""
        if not self.has("actor_head."):
            return
        actor, critic = ("encoder.",) * 2 if self.has("encoder.") else ("actor_encoder.", "critic_encoder.")
        seconds = {"actor.0.": actor, "actor.1.": "actor_head.", "critic.0.": critic, "critic.1.": "critic_head."}
        for name in list(self._tensors):
            for second, first in seconds.items():
                other = first + name[len(second) :]
                if not name.startswith(second) or other not in self._tensors:
                    continue
                if not np.array_equal(self._tensors[name], self._tensors[other], equal_nan=True):
                    raise Refused(f"'{name}' and '{other}' are one parameter, but differ")
                del self._tensors[name]
                break

    def names(self, prefix=""):
        return [name for name in self._tensors if name.startswith(prefix)]

    def has(self, prefix):
        return bool(self.names(prefix))

    def take(self, name, *shape):
        """The tensor of this shape, where None is any extent."""
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise Refused(f"there is no '{name}'; found {', '.join(list(self._tensors)[:8])}")
        if tensor.ndim != len(shape) or tensor.size == 0 or any(extent not in (None, found) for extent, found in zip(shape, tensor.shape)):
            raise Refused(f"'{name}' is {list(tensor.shape)}, expected {['any' if extent is None else extent for extent in shape]}")
        if tensor.dtype.kind != "f":
            raise Refused(f"'{name}' has {tensor.dtype} numbers, expected floating point")
        return tensor

    def drop(self, name):
        self._tensors.pop(name, None)


Layer = collections.namedtuple("Layer", "weight bias noise")  # noise: the deviations of both, or None


class Chain:
    """Linear layers: weight [out, in], bias [out]."""

    def __init__(self, layers):
        self.layers = layers

    @property
    def widths(self):
        return [len(layer.bias) for layer in self.layers]

    @property
    def input_width(self):
        return self.layers[0].weight.shape[1]


def find_layer(state, path):
    if f"{path}.weight_mu" not in state.names(path):
        weight = state.take(f"{path}.weight", None, None)
        return Layer(weight, state.take(f"{path}.bias", len(weight)), None)
    weight = state.take(f"{path}.weight_mu", None, None)
    layer = Layer(
        weight,
        state.take(f"{path}.bias_mu", len(weight)),
        (state.take(f"{path}.weight_sigma", *weight.shape), state.take(f"{path}.bias_sigma", len(weight))),
    )
    state.drop(f"{path}.weight_eps")  # the noise of the last step
    state.drop(f"{path}.bias_eps")
    return layer


def find_chain(state, prefix, places, settings):
    """Takes the layers at `places` below `prefix`, which must fit together."""
    found = {re.sub(r"\.weight(_mu)?$", "", name) for name in state.names(prefix) if re.search(r"\.weight(_mu)?$", name)}
    distance = 2 if settings.known("dropout") is None else 3
    paths = []
    for place in places:
        if "{}" not in place:
            paths.append(prefix + place)
        number = 0
        while "{}" in place and prefix + place.format(number) in found:
            paths.append(prefix + place.format(number))
            number += distance
    others = found - set(paths)
    if others:
        shifted = any("{}" in place and prefix + place.format(5 - distance) in found for place in places)
        hint = "; with a dropout, which changes no action, say --model=\"dropout=0.1\"; with a normalization (norm_type='IN') the network is not converted"
        raise Refused(f"'{min(others)}' is a layer where no default network has one" + (hint if shifted else ""))
    layers = [find_layer(state, path) for path in paths]
    for before, after in zip(layers, layers[1:]):
        if after.weight.shape[1] != len(before.bias):
            raise Refused(f"'{prefix}*': a layer of {len(before.bias)} outputs is followed by one of {after.weight.shape[1]} inputs")
    return Chain(layers)


def put_chain(name, chain, out):
    for i, layer in enumerate(chain.layers):
        out[f"{name}/{i}/weight"], out[f"{name}/{i}/bias"] = layer.weight, layer.bias
        if layer.noise is not None:
            out[f"{name}/{i}/weight_deviation"], out[f"{name}/{i}/bias_deviation"] = layer.noise
