"""Converts the parameters of DI-engine's default networks to ours and back.

  DI-engine                                     ours
  DQN     encoder.*, head.Q.* or head.A.*, V.*  encoder/<i>, q/<i> or q/advantage/<i>, q/value/<i>
  VAC     encoder.*, actor_head.*, critic_head.*                encoder/<i>, logit/<i> or mean/<i>, value/<i>
          actor_encoder.*, critic_encoder.* if they are separate
  QAC     actor_head.*, or only actor.*         encoder/<i>, mean/0, and log_std/0 of SAC
          critic_head.*, or only critic.*       in the component "critic": critic/q<k>/encoder/<i>, critic/q<k>/0

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
    critics      of the component "critic", which only a conversion back needs; `num_critics` of them
    network      the fields of our NetworkConfig; `critic` likewise, or None
    parameters, head, unused     as in the manifest's field "actor"
    observation, action          their elements
    """

    def __init__(self):
        self.tensors, self.network, self.critic = {}, {}, None
        self.critics, self.num_critics = {}, 0
        self.parameters, self.head, self.unused = "model", "q", []
        self.observation = self.action = 0

    @property
    def discrete(self):
        return self.head in ("q", "categorical")


def _finish(model, state, used, ignored=()):
    left = [name for name in state if name not in used and not name.startswith(tuple(ignored))]
    if left:
        raise Refused(f"parameters that no default network has: {', '.join(left[:8])}")
    for tensors in (model.tensors, model.critics):
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise Refused(f"'{name}' is not finite")
            tensors[name] = np.ascontiguousarray(tensor, np.float32)
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


def _import_critics(state, used, model):
    prefix = "critic_head." if any(name.startswith("critic_head.") for name in state) else "critic."
    if not any(name.startswith(prefix) for name in state):
        return
    twin = any(name.startswith(f"{prefix}0.0.") for name in state)
    widths = set()
    for k, name in enumerate([f"{prefix}0.", f"{prefix}1."] if twin else [prefix]):
        chain = find_chain(state, name, used)
        if chain.input_width != model.observation + model.action or chain.widths[-1] != 1:
            raise Refused(f"'{name}*' reads {chain.input_width} values and returns {chain.widths[-1]}, expected those of an "
                          f"observation and an action, {model.observation} + {model.action}, and 1")
        out = {}
        put_chain("encoder", Chain(chain.layers[:-1]), out)
        put_chain("head", Chain(chain.layers[-1:]), out)
        model.critics.update({f"critic/q{k}/{key.replace('head/', '')}": tensor for key, tensor in out.items()})
        widths.add(tuple(chain.widths[:-1]))
    if len(widths) > 1:
        raise Refused(f"the critics have hidden layers of {' and '.join(str(list(w)) for w in sorted(widths))}, expected equal ones")
    model.num_critics = 2 if twin else 1
    critic = {"encoder_hidden_size": list(widths.pop()), "head_layer_num": 0, "head_hidden_size": 0}
    model.critic = critic if critic != model.network else None  # without one it has the layers of the actor


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
    _import_critics(state, used, model)
    # The same parameters by second names.
    return _finish(model, state, used, ("critic.1.", "log_alpha"))


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
    """The layers of a head: there are `count`, and the last one is its output."""
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


def export_dqn(tensors, _):
    out = {}
    _export_encoder(tensors, "model", "encoder.", out)
    heads = {"A": "model/q/advantage", "V": "model/q/value"} if "model/q/value/0/weight" in tensors else {"Q": "model/q"}
    for letter, scope in heads.items():
        _take(tensors, scope, _block_names(f"head.{letter}.", _count(tensors, scope)), out)
    return out


def export_vac(tensors, _):
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


def _layer_scopes(tensors, scope, outputs):
    """The scopes of the hidden layers of a network, and that of the output layer below each of `outputs`."""
    hidden = [f"{scope}/encoder/{i}" for i in range(_count(tensors, f"{scope}/encoder"))]
    counts = {output: _count(tensors, output) for output in outputs}
    if len(outputs) > 1 and max(counts.values()) > 1:
        raise Refused(f"mean and log_std have {max(counts.values()) - 1} hidden layers of their own, but share all of them in DI-engine's QAC: "
                      "train with head_layer_num: 0")
    first = outputs[0]
    hidden += [f"{first}/{i}" for i in range(counts[first] - 1)]
    widths = [tensors[f"{name}/bias"].shape[0] for name in hidden]
    if len(set(widths)) > 1:
        raise Refused(f"'{scope}' has hidden layers of {widths}, but those of DI-engine's QAC are equally wide")
    return hidden, [f"{output}/{counts[output] - 1}" for output in outputs]


def _export_branch(tensors, scope, outputs, names, prefix, out):
    """A network of QAC: a layer, an activation, and a head with hidden layers and the outputs `names`."""
    hidden, last = _layer_scopes(tensors, scope, outputs)
    layers = [f"{prefix}0"] + [f"{prefix}2.main.{2 * i}" for i in range(len(hidden) - 1)] + [f"{prefix}2.{name}" for name in names]
    for name, from_ in zip(layers, hidden + last):
        out[f"{name}.weight"], out[f"{name}.bias"] = tensors[f"{from_}/weight"], tensors[f"{from_}/bias"]


def export_qac(tensors, layout):
    critics = [k for k in range(len(tensors)) if f"critic/q{k}/0/weight" in tensors]
    if len(critics) not in (1, 2):
        raise Refused(f"the checkpoint has {len(critics) or 'no'} critics, but DI-engine's QAC has one or two, and loads no actor without them"
                      + ("" if critics else ": export a checkpoint of the training, which has the component 'train_state'"))
    later, out = layout == "encoder", {}
    sac = "model/actor/log_std/0/weight" in tensors
    outputs = ["mean", "log_std"] if sac else ["mean"]
    actor = "actor_head." if later else "actor."
    _export_branch(tensors, "model/actor", [f"model/actor/{output}" for output in outputs], ["mu", "log_sigma_layer"] if sac else ["last"], actor, out)
    for k in critics:
        prefix = ("critic_head." if later else "critic.") + (f"{k}." if len(critics) == 2 else "")
        _export_branch(tensors, f"critic/q{k}", [f"critic/q{k}"], ["last"], prefix, out)
    if later:  # It registers its heads a second time.
        out.update({name.replace("_head.", ".1.", 1): tensor for name, tensor in out.items()})
    return out


def qac_arguments(state):
    """The arguments of DI-engine's QAC that the parameters fit to, as text."""
    prefix = {part: f"{part}_head." if f"{part}_head.0.weight" in state or f"{part}_head.0.0.weight" in state else f"{part}." for part in ("actor", "critic")}
    twin = f"{prefix['critic']}0.0.weight" in state
    values = {"twin_critic": twin}
    for part, start in (("actor", prefix["actor"]), ("critic", prefix["critic"] + ("0." if twin else ""))):
        values[f"{part}_head_hidden_size"] = state[f"{start}0.bias"].shape[0]
        values[f"{part}_head_layer_num"] = sum(name.startswith(f"{start}2.main.") and name.endswith(".bias") for name in state)
    return ", ".join(f"{name}={value}" for name, value in values.items())


def export_squashed(*_):
    raise Refused("its actions are squashed by tanh (squash_actions), which DI-engine's PPO and A2C do not do")


EXPORTS = {"q": export_dqn, "categorical": export_vac, "normal": export_vac, "squashed_normal": export_squashed, "tanh": export_qac, "tanh_normal": export_qac}
