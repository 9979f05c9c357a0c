"""Converts the parameters of our networks to those of DI-engine 0.4 and 0.5: the opposite of di_engine_networks.py."""

import numpy as np

from ding_worker.di_engine.evaluator import Refused


def _encoder_names(prefix, count):
    return [f"{prefix}init"] + [f"{prefix}main.{2 * i}" for i in range(count - 1)]


def _block_names(prefix, count):
    """The layers of a head: there are `count`, and the last one is its output."""
    return [f"{prefix}0.{2 * i}" for i in range(count - 1)] + [f"{prefix}1.0"]


def _take(tensors, scope, names, out):
    for i, name in enumerate(names):
        out[f"{name}.weight"], out[f"{name}.bias"] = tensors[f"{scope}/{i}/weight"], tensors[f"{scope}/{i}/bias"]


def _take_noisy(tensors, scope, names, out):
    """Layers of NoiseLinearLayer, which also saves its last noise."""
    for i, name in enumerate(names):
        for part in ("weight", "bias"):
            mean, deviation = (tensors[f"{scope}/{i}/{part}{end}"] for end in ("", "_deviation"))
            out.update({f"{name}.{part}_mu": mean, f"{name}.{part}_sigma": deviation, f"{name}.{part}_eps": np.zeros_like(mean)})


def _take_head(tensors, scope, prefix, out, take=_take):
    """A head whose hidden layers are as wide as what it reads, as DI-engine's heads of values and of categories are."""
    count = _count(tensors, scope)
    for i in range(count - 1):
        width, inputs = tensors[f"{scope}/{i}/weight"].shape
        if width != inputs:
            raise Refused(f"'{scope}/{i}' has {width} outputs and {inputs} inputs, but a hidden layer of DI-engine's head has as many: train with head_hidden_size: 0")
    take(tensors, scope, _block_names(prefix, count), out)


def _count(tensors, scope):
    count = 0
    while f"{scope}/{count}/weight" in tensors:
        count += 1
    if count == 0:
        raise Refused(f"the checkpoint has no '{scope}/0/weight'; DI-engine's default networks have an encoder and heads")
    return count


def _export_encoder(tensors, scope, prefix, out):
    _take(tensors, f"{scope}/encoder", _encoder_names(prefix, _count(tensors, f"{scope}/encoder")), out)


def export_dqn(tensors, *_):
    """The state dict, and arguments of the model as text; this is what all of EXPORTS return."""
    out = {}
    _export_encoder(tensors, "model", "encoder.", out)
    heads = {"A": "model/q/advantage", "V": "model/q/value"} if "model/q/value/0/weight" in tensors else {"Q": "model/q"}
    for letter, scope in heads.items():
        _take_head(tensors, scope, f"head.{letter}.", out)
    return out, ""


def export_q_distribution(tensors, actor, _):
    out, dueling = {}, "model/q/value/0/weight" in tensors
    distribution = actor["distribution"]
    kind, size = distribution["kind"], distribution["size"]
    atoms = f"v_min={distribution.get('v_min')}, v_max={distribution.get('v_max')}, n_atom={size}"
    _export_encoder(tensors, "model", "encoder.", out)
    if dueling != distribution.get("noisy", False) or (dueling and kind != "atoms"):
        layers = "dueling" if dueling else "no dueling"
        raise Refused(f"it has {layers} and {'noisy' if distribution.get('noisy') else 'plain'} layers; DI-engine's RainbowDQN has both, C51DQN, QRDQN and IQN neither")
    if dueling:
        for letter, scope in {"A": "model/q/advantage", "Q": "model/q/value"}.items():
            _take_head(tensors, scope, f"head.{letter}.", out, _take_noisy)
        return out, atoms
    _take_head(tensors, "model/q", "head.Q.", out)
    if kind == "atoms":
        return out, atoms
    if kind == "quantiles":
        return out, f"num_quantiles={size}"
    if actor["network"]["activation"] != "relu":
        raise Refused("its activation is tanh, but DI-engine's IQN has ReLU behind the cosines")
    weight, bias = tensors["model/cosine/0/weight"], tensors["model/cosine/0/bias"]
    if weight.shape[1] < 2:
        raise Refused("it has 1 cosine, which is 1 at every fraction; DI-engine's IQN needs another one")
    # The first cosine is 1, which DI-engine does not have.
    out["head.iqn_fc.weight"], out["head.iqn_fc.bias"] = weight[:, 1:], bias + weight[:, 0]
    return out, f"num_quantiles={size}, quantile_embedding_size={weight.shape[1] - 1}; it acts at random fractions, ours at the middles of equal parts"


def export_vac(tensors, *_):
    out = {}
    shared = "model/actor_critic/encoder/0/weight" in tensors
    actor = "model/actor_critic" if shared else "model/actor"
    critic = actor if shared else "model/critic"
    if f"{critic}/value/0/weight" not in tensors:
        raise Refused("the checkpoint has no critic (such as one of bc), but DI-engine's VAC has one, and loads no actor without it")
    encoders = ["encoder."] if shared else ["actor_encoder.", "critic_encoder."]
    for prefix, scope in zip(encoders, [actor, critic]):
        _export_encoder(tensors, scope, prefix, out)
    hidden = _count(tensors, f"{critic}/value") - 1
    _take(tensors, f"{critic}/value", [f"critic_head.main.{2 * i}" for i in range(hidden)] + ["critic_head.last"], out)
    if f"{actor}/logit/0/weight" in tensors:
        _take_head(tensors, f"{actor}/logit", "actor_head.Q.", out)
    else:
        hidden = _count(tensors, f"{actor}/mean") - 1
        out["actor_head.log_sigma_param"] = tensors["model/distribution/log_std"].reshape(1, -1)
        _take(tensors, f"{actor}/mean", [f"actor_head.main.{2 * i}" for i in range(hidden)] + ["actor_head.mu"], out)
    # VAC registers its parts a second time.
    parts = {"actor.0.": encoders[0], "actor.1.": "actor_head.", "critic.0.": encoders[-1], "critic.1.": "critic_head."}
    for second, first in parts.items():
        out.update({second + name[len(first) :]: tensor for name, tensor in out.items() if name.startswith(first)})
    return out, ""


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


def export_qac(tensors, _, layout):
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
    return out, qac_arguments(out)


def qac_arguments(state):
    """The arguments of DI-engine's QAC that the parameters fit to, as text."""
    prefix = {part: f"{part}_head." if f"{part}_head.0.weight" in state or f"{part}_head.0.0.weight" in state else f"{part}." for part in ("actor", "critic")}
    twin = f"{prefix['critic']}0.0.weight" in state
    values = {"twin_critic": twin}
    for part, start in (("actor", prefix["actor"]), ("critic", prefix["critic"] + ("0." if twin else ""))):
        values[f"{part}_head_hidden_size"] = state[f"{start}0.bias"].shape[0]
        values[f"{part}_head_layer_num"] = sum(name.startswith(f"{start}2.main.") and name.endswith(".bias") for name in state)
    return ", ".join(f"{name}={value}" for name, value in values.items())


def export_squashed(*arguments):
    note = "bound_type='tanh'; best actions are equal, but it draws around the tanh of the mean, ours before the tanh"
    return export_vac(*arguments)[0], note


EXPORTS = {"q": export_dqn, "q_distribution": export_q_distribution, "categorical": export_vac, "normal": export_vac, "squashed_normal": export_squashed, "tanh": export_qac, "tanh_normal": export_qac}
