"""Converts the parameters of DI-engine's default networks to ours and back.

  DI-engine                                     ours
  DQN     encoder.*, head.Q.* or head.A.*, V.*  encoder/<i>, q/<i> or q/advantage/<i>, q/value/<i>
  VAC     encoder.*, actor_head.*, critic_head.*                encoder/<i>, logit/<i> or mean/<i>, value/<i>
          actor_encoder.*, critic_encoder.* if they are separate
  QAC     actor.*                               encoder/<i>, mean/0, and log_std/0 of SAC; its critics are left out

Layers are found by their order below a prefix, which is the same in all versions; names of single layers differ.
"""

import numpy as np

from di_engine_pickle import Refused


class Chain:
    """Linear layers, (weight [out, in], bias [out])."""

    def __init__(self, layers):
        self.layers = layers

    @property
    def widths(self):
        return [len(bias) for _, bias in self.layers]

    @property
    def input_width(self):
        return self.layers[0][0].shape[1]


def find_chain(state, prefix, used):
    """The layers below `prefix`, in their order; adds their names to `used`. They must fit together."""
    layers = []
    for name, weight in state.items():
        if not name.startswith(prefix) or not name.endswith(".weight"):
            continue
        bias_name = name[: -len("weight")] + "bias"
        if weight.ndim != 2 or bias_name not in state or state[bias_name].shape != weight.shape[:1]:
            raise Refused(f"'{name}' {list(weight.shape)} is no linear layer; only the default networks on vectors are converted")
        used |= {name, bias_name}
        layers.append((weight, state[bias_name]))
    for (before, _), (after, _) in zip(layers, layers[1:]):
        if after.shape[1] != before.shape[0]:
            raise Refused(f"'{prefix}*': a layer of {before.shape[0]} outputs is followed by one of {after.shape[1]} inputs")
    if not layers:
        raise Refused(f"there is no '{prefix}*.weight'; found {', '.join(list(state)[:8])}")
    return Chain(layers)


def put_chain(name, chain, out):
    for i, (weight, bias) in enumerate(chain.layers):
        out[f"{name}/{i}/weight"], out[f"{name}/{i}/bias"] = weight, bias


def head_config(chain):
    """The fields head_layer_num and head_hidden_size of a head, of which all hidden layers must be equally wide."""
    hidden = chain.widths[:-1]
    if len(set(hidden)) > 1:
        raise Refused(f"a head has hidden layers of {hidden}, expected equal ones")
    return {"head_layer_num": len(hidden), "head_hidden_size": hidden[0] if hidden else 0}


class Model:
    """What import makes of a state dict.

    tensors      of our component "model"
    network      the fields of our NetworkConfig; `critic` likewise, or None
    parameters, head, unused     as in the manifest's field "actor"
    observation, action          their elements
    """

    def __init__(self):
        self.tensors, self.network, self.critic = {}, {}, None
        self.parameters, self.head, self.unused = "model", "q", []
        self.observation = self.action = 0

    @property
    def discrete(self):
        return self.head in ("q", "categorical")


def _finish(model, state, used, ignored=()):
    left = [name for name in state if name not in used and not name.startswith(tuple(ignored))]
    if left:
        raise Refused(f"parameters that no default network has: {', '.join(left[:8])}")
    for name, tensor in model.tensors.items():
        if not np.isfinite(tensor).all():
            raise Refused(f"'{name}' is not finite")
        model.tensors[name] = np.ascontiguousarray(tensor, np.float32)
    return model


def import_dqn(state):
    model, used, out = Model(), set(), {}
    encoder = find_chain(state, "encoder.", used)
    put_chain("encoder", encoder, out)
    dueling = any(name.startswith("head.A.") for name in state)
    if dueling:
        advantage, value = find_chain(state, "head.A.", used), find_chain(state, "head.V.", used)
        if head_config(advantage) != head_config(value):
            raise Refused(f"advantage and value have hidden layers of {advantage.widths[:-1]} and {value.widths[:-1]}, expected equal ones")
        put_chain("q/advantage", advantage, out)
        put_chain("q/value", value, out)
        head = advantage
    else:
        head = find_chain(state, "head.Q.", used)
        put_chain("q", head, out)
    model.network = {"encoder_hidden_size": encoder.widths, **head_config(head), "dueling": dueling}
    model.observation, model.action = encoder.input_width, head.widths[-1]
    model.tensors = {f"model/{name}": tensor for name, tensor in out.items()}
    return _finish(model, state, used)


def _import_actor_head(state, used, model):
    if any(name.startswith("actor_head.Q.") for name in state):
        model.head = "categorical"
        return "logit", find_chain(state, "actor_head.Q.", used)
    if "actor_head.log_sigma_param" not in state:
        raise Refused("the actor has neither 'actor_head.Q.*' nor 'actor_head.log_sigma_param'; only discrete actions, and continuous ones with an independent deviation, are converted")
    model.head = "normal"
    log_std = state["actor_head.log_sigma_param"].reshape(-1)
    used.add("actor_head.log_sigma_param")
    model.tensors["model/distribution/log_std"] = log_std
    hidden = find_chain(state, "actor_head.main.", used) if any(n.startswith("actor_head.main.") for n in state) else Chain([])
    return "mean", Chain(hidden.layers + find_chain(state, "actor_head.mu.", used).layers)


def import_vac(state):
    model, used = Model(), set()
    name, actor = _import_actor_head(state, used, model)
    critic = find_chain(state, "critic_head.", used)
    shared = any(key.startswith("encoder.") for key in state)
    encoder = find_chain(state, "encoder." if shared else "actor_encoder.", used)
    model.parameters = "model/actor_critic" if shared else "model/actor"
    out = {}
    put_chain("encoder", encoder, out)
    put_chain(name, actor, out)
    if shared:
        if head_config(actor) != head_config(critic):
            raise Refused(f"actor and critic have hidden layers of {actor.widths[:-1]} and {critic.widths[:-1]} on one encoder, expected equal ones")
        put_chain("value", critic, out)
        model.unused = ["value"]
    else:
        critic_encoder, critic_out = find_chain(state, "critic_encoder.", used), {}
        put_chain("encoder", critic_encoder, critic_out)
        put_chain("value", critic, critic_out)
        model.critic = {"encoder_hidden_size": critic_encoder.widths, **head_config(critic)}
        model.tensors.update({f"model/critic/{key}": tensor for key, tensor in critic_out.items()})
    model.network = {"encoder_hidden_size": encoder.widths, **head_config(actor)}
    model.observation, model.action = encoder.input_width, actor.widths[-1]
    model.tensors.update({f"{model.parameters}/{key}": tensor for key, tensor in out.items()})
    # The same parameters by second names.
    return _finish(model, state, used, ("actor.", "critic."))


def import_qac(state):
    model, used = Model(), set()
    state = {name.replace("actor_encoder.", "actor.0.").replace("actor_head.", "actor.1."): tensor for name, tensor in state.items()}
    actor = {name: tensor for name, tensor in state.items() if name.startswith("actor.")}
    outputs = {key: name for name in actor for key in ("mu", "log_sigma_layer", "last") if name.endswith(f".{key}.weight")}
    if set(outputs) not in ({"mu", "log_sigma_layer"}, {"last"}):
        raise Refused(f"the actor has the outputs {sorted(outputs) or 'none'}; expected mu and log_sigma_layer (SAC) or last (TD3, DDPG)")
    sac = "mu" in outputs
    heads = {key: find_chain(actor, name[: -len("weight")], used) for key, name in outputs.items()}
    hidden = find_chain({name: tensor for name, tensor in actor.items() if name not in used}, "actor.", used)
    out = {}
    put_chain("encoder", hidden, out)
    put_chain("mean", heads["mu" if sac else "last"], out)
    if sac:
        put_chain("log_std", heads["log_sigma_layer"], out)
    model.head = "tanh_normal" if sac else "tanh"
    model.parameters = "model/actor"
    model.network = {"encoder_hidden_size": hidden.widths, "head_layer_num": 0, "head_hidden_size": 0}
    model.observation, model.action = hidden.input_width, out["mean/0/bias"].shape[0]
    model.tensors = {f"model/actor/{key}": tensor for key, tensor in out.items()}
    return _finish(model, state, used, ("critic", "log_alpha"))


def policy_of(state):
    """The kind of network: "dqn", "vac" (PPO, A2C) or "qac" (SAC, TD3, DDPG)."""
    if any(name.startswith("head.") for name in state):
        return "dqn"
    if any(name.startswith("critic_head.") for name in state) and any(name.startswith("actor_head.") for name in state):
        return "qac" if any(name.startswith("critic_head.0") for name in state) else "vac"
    if any(name.startswith("actor.") for name in state):
        return "qac"
    raise Refused(f"no default network of DI-engine has these parameters: {', '.join(list(state)[:8])}")


IMPORTS = {"dqn": import_dqn, "vac": import_vac, "qac": import_qac}


# ---- the opposite direction: names of DI-engine 0.4 and 0.5


def _encoder_names(prefix, count):
    return [f"{prefix}init"] + [f"{prefix}main.{2 * i}" for i in range(count - 1)]


def _block_names(prefix, count):
    """Of a head: `count` layers, of which the last is its output."""
    return [f"{prefix}0.{2 * i}" for i in range(count - 1)] + [f"{prefix}1.0"]


def _take(tensors, scope, names, out):
    for i, name in enumerate(names):
        out[f"{name}.weight"], out[f"{name}.bias"] = tensors[f"{scope}/{i}/weight"], tensors[f"{scope}/{i}/bias"]


def _count(tensors, scope):
    count = 0
    while f"{scope}/{count}/weight" in tensors:
        count += 1
    if count == 0:
        raise Refused(f"the checkpoint has no '{scope}/0/weight'; DI-engine's default networks have an encoder and heads")
    return count


def _export_encoder(tensors, scope, prefix, out):
    _take(tensors, f"{scope}/encoder", _encoder_names(prefix, _count(tensors, f"{scope}/encoder")), out)


def export_dqn(tensors):
    out = {}
    _export_encoder(tensors, "model", "encoder.", out)
    heads = {"A": "model/q/advantage", "V": "model/q/value"} if "model/q/value/0/weight" in tensors else {"Q": "model/q"}
    for letter, scope in heads.items():
        _take(tensors, scope, _block_names(f"head.{letter}.", _count(tensors, scope)), out)
    return out


def export_vac(tensors):
    out = {}
    shared = "model/actor_critic/encoder/0/weight" in tensors
    actor = "model/actor_critic" if shared else "model/actor"
    critic = actor if shared else "model/critic"
    encoders = ["encoder."] if shared else ["actor_encoder.", "critic_encoder."]
    for prefix, scope in zip(encoders, [actor, critic]):
        _export_encoder(tensors, scope, prefix, out)
    hidden = _count(tensors, f"{critic}/value") - 1
    _take(tensors, f"{critic}/value", [f"critic_head.main.{2 * i}" for i in range(hidden)] + ["critic_head.last"], out)
    if f"{actor}/logit/0/weight" in tensors:
        _take(tensors, f"{actor}/logit", _block_names("actor_head.Q.", _count(tensors, f"{actor}/logit")), out)
    else:
        hidden = _count(tensors, f"{actor}/mean") - 1
        out["actor_head.log_sigma_param"] = tensors["model/distribution/log_std"].reshape(1, -1)
        _take(tensors, f"{actor}/mean", [f"actor_head.main.{2 * i}" for i in range(hidden)] + ["actor_head.mu"], out)
    # VAC registers its parts a second time.
    parts = {"actor.0.": encoders[0], "actor.1.": "actor_head.", "critic.0.": encoders[-1], "critic.1.": "critic_head."}
    for second, first in parts.items():
        out.update({second + name[len(first) :]: tensor for name, tensor in out.items() if name.startswith(first)})
    return out


def export_qac(_):
    raise Refused("the critics of SAC, TD3 and DDPG are no part of a model of ours, and DI-engine loads no actor without them")


def export_squashed(_):
    raise Refused("its actions are squashed by tanh (squash_actions), which DI-engine's PPO and A2C do not do")


EXPORTS = {"q": export_dqn, "categorical": export_vac, "normal": export_vac, "squashed_normal": export_squashed, "tanh": export_qac, "tanh_normal": export_qac}
