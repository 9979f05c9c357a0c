"""Converts the parameters of DI-engine's networks on vectors to ours.

  DI-engine                                     ours
  DQN, C51DQN, QRDQN, IQN, RainbowDQN
          encoder.*, head.Q.* or head.A.*, V.*  encoder/<i>, q/<i> or q/advantage/<i>, q/value/<i>
          head.iqn_fc of IQN                    cosine/0
  VAC     encoder.*, actor_head.*, critic_head.*                encoder/<i>, logit/<i> or mean/<i>, value/<i>
          actor_encoder.*, critic_encoder.* if they are separate
  QAC     actor_head.*, or only actor.*         encoder/<i>, mean/0, and log_std/0 of SAC
          critic_head.*, or only critic.*       in the component "critic": critic/q<k>/encoder/<i>, critic/q<k>/0

Names say where a layer stands, whatever their order in the file. What tensors do not show comes from `policy.model` of DI-engine's
config. Every other architecture is refused.
"""

import numpy as np

from ding_worker.di_engine.evaluator import Refused
from di_engine_state import ENCODER, HEAD, MEAN_HEAD, REGRESSION_HEAD, Chain, State, find_chain, find_layer, put_chain

_VALUES = ("dqn", "c51", "qrdqn", "iqn", "rainbow")


def head_config(chain):
    """The fields head_layer_num and head_hidden_size of a head, of which all hidden layers must be equally wide."""
    hidden = chain.widths[:-1]
    if len(set(hidden)) > 1:
        raise Refused(f"a head has hidden layers of {hidden}, expected equal ones")
    return {"head_layer_num": len(hidden), "head_hidden_size": hidden[0] if hidden else 0}


def _check_input(chain, width, what):
    if chain.input_width != width:
        raise Refused(f"{what} reads {chain.input_width} numbers, expected {width}")


class Model:
    """What import makes of a state dict.

    policy       the type of our policy
    tensors      of our component "model"
    critics      of the component "critic", which only a conversion back needs; `num_critics` of them
    network      the fields of our NetworkConfig; `critic` likewise, or None
    params       further fields of the algorithm's message; `inside` likewise, of the message in it that several algorithms have
    parameters, head, unused, distribution     as in the manifest's field "actor"
    observation, action          their elements, or categories
    notes        what a reader of the config should know
    """

    def __init__(self):
        self.policy = None
        self.tensors, self.network, self.critic = {}, {}, None
        self.critics, self.num_critics = {}, 0
        self.params, self.inside = {}, {}
        self.parameters, self.head, self.unused, self.distribution = "model", "q", [], None
        self.observation = self.action = 0
        self.notes = []

    @property
    def discrete(self):
        return self.head in ("q", "q_distribution", "categorical")


def _finish(model, state):
    if state.names():
        raise Refused(f"parameters that no default network has: {', '.join(state.names()[:8])}")
    for tensors in (model.tensors, model.critics):
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise Refused(f"'{name}' is not finite")
            with np.errstate(over="ignore"):
                tensors[name] = np.ascontiguousarray(tensor, np.float32)
            if not np.isfinite(tensors[name]).all():
                raise Refused(f"'{name}' has numbers beyond those of float32")
    return model


def _is_prime(number):
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def _choose_values(width, settings, asked, env_actions):
    """The policy, its number of actions and of outputs for each. DQN, C51 and QRDQN have equal tensors."""
    shape = settings.known("action_shape")
    actions = shape if isinstance(shape, int) and not isinstance(shape, bool) else env_actions
    sizes = {"c51": settings.known("n_atom"), "qrdqn": settings.known("num_quantiles")}
    if asked is None:
        asked = next((policy for policy, size in sizes.items() if size is not None), None)
    if asked is None and (actions == width or (actions is None and _is_prime(width))):
        asked = "dqn"
    if asked is None:
        of_env = f", and the env has {actions} actions" if actions is not None else ""
        raise Refused(
            f"the head returns {width} numbers{of_env}: values of {width} actions (--policy=dqn), or distributions of fewer ones "
            "(--policy=c51 or qrdqn with --model=\"action_shape=N\"); the tensors do not show which"
        )
    if asked == "dqn":
        return asked, width, 1
    size = sizes[asked]
    if size is None and actions is None:
        raise Refused(f"the head returns {width} numbers, for each action several: give the number of actions, as --model=\"action_shape=N\"")
    size = width // actions if size is None else size
    if not isinstance(size, int) or size < 1 or width % size or (asked == "c51" and size < 2) or (actions or width // size) * size != width:
        raise Refused(f"the head returns {width} numbers, which are not those of {actions or 'any'} actions with {size} each")
    return asked, width // size, size


def _put_distribution(model, kind, size, **more):
    model.head = "q_distribution"
    model.distribution = {"kind": kind, "size": size, **more}


def _put_atoms(model, settings, size):
    low, high = settings.take("v_min", -10), settings.take("v_max", 10)
    if not all(isinstance(bound, (int, float)) and np.isfinite(bound) for bound in (low, high)) or not low < high:
        raise Refused(f"policy.model.v_min is {low!r} and v_max {high!r}, expected numbers, v_min below v_max")
    model.params = {"v_min": low, "v_max": high, "atoms": size}
    settings.expect("n_atom", size)
    _put_distribution(model, "atoms", size, v_min=low, v_max=high)


def import_q(state, settings, asked, env_actions):
    model, out = Model(), {}
    encoder = find_chain(state, "encoder.", ENCODER, settings)
    put_chain("encoder", encoder, out)
    parts = {name.split(".")[1] for name in state.names("head.")}
    noisy = any(name.endswith("_sigma") for name in state.names("head."))
    if parts == {"A", "V"} and not noisy:
        policy, names = "dqn", ("A", "V")
    elif parts == {"A", "Q"} and noisy:
        policy, names = "rainbow", ("A", "Q")
    elif parts == {"Q", "iqn_fc"} and not noisy:
        policy, names = "iqn", ("Q",)
    elif parts == {"Q"} and not noisy:
        policy, names = None, ("Q",)
    else:
        raise Refused(f"the head has the parts {', '.join(sorted(parts))}{' with noise' if noisy else ''}, which no DQN, C51DQN, QRDQN, IQN or RainbowDQN has")
    if asked is not None and asked not in ((policy,) if policy else ("dqn", "c51", "qrdqn")):
        raise Refused(f"the policy is to be '{asked}', but the parameters are those of {policy or 'dqn, c51 or qrdqn'}")
    fraction_layer = find_layer(state, "head.iqn_fc") if policy == "iqn" else None
    chains = [find_chain(state, f"head.{name}.", HEAD, settings) for name in names]
    for chain in chains:
        _check_input(chain, encoder.widths[-1], "the head")
    if len(chains) == 2:
        if head_config(chains[0]) != head_config(chains[1]):
            raise Refused(f"advantage and value have hidden layers of {chains[0].widths[:-1]} and {chains[1].widths[:-1]}, expected equal ones")
        put_chain("q/advantage", chains[0], out)
        put_chain("q/value", chains[1], out)
    else:
        put_chain("q", chains[0], out)
    width, per_action = chains[0].widths[-1], chains[1].widths[-1] if len(chains) == 2 else 1
    if policy is None:
        policy, model.action, per_action = _choose_values(width, settings, asked, env_actions)
    elif width % per_action or (policy == "dqn" and per_action != 1):
        raise Refused(f"the value has {per_action} outputs for {width} of the advantages")
    else:
        model.action = width // per_action
    if asked is None and policy == "dqn":
        settings.assumed.append("the policy is dqn (--policy): DI-engine's PG and BC have equal tensors")
    if policy in ("c51", "rainbow"):
        _put_atoms(model, settings, per_action)
    if policy == "rainbow":
        model.distribution["noisy"] = True
    if policy == "qrdqn":
        settings.expect("num_quantiles", per_action)
        model.params = {"quantiles": per_action}
        _put_distribution(model, "quantiles", per_action)
    if policy == "iqn":
        _put_fractions(model, settings, fraction_layer, encoder.widths[-1], out)
    head = head_config(chains[0])
    model.policy = policy
    model.network = {"encoder_hidden_size": encoder.widths, **head, "dueling": len(chains) == 2}
    model.observation = encoder.input_width
    model.tensors = {f"model/{name}": tensor for name, tensor in out.items()}
    settings.expect("encoder_hidden_size_list", encoder.widths)
    settings.expect("head_layer_num", head["head_layer_num"])
    if head["head_layer_num"]:
        settings.expect("head_hidden_size", head["head_hidden_size"])
    settings.expect("noise", noisy)
    if policy == "dqn":
        settings.expect("dueling", len(chains) == 2)
    return _finish(model, state)


def _put_fractions(model, settings, layer, width, out):
    """DI-engine's cosines begin at that of one half turn, ours at that of none, which is 1."""
    weight = layer.weight
    if len(weight) != width:
        raise Refused(f"'head.iqn_fc' has {len(weight)} outputs, expected those of the encoder, {width}")
    out["cosine/0/weight"] = np.concatenate([np.zeros((width, 1), weight.dtype), weight], axis=1)
    out["cosine/0/bias"] = layer.bias
    settings.expect("quantile_embedding_size", weight.shape[1])
    settings.allow("beta_function_type", "uniform", ["uniform"])
    fractions = settings.take("num_quantiles", 32)
    if not isinstance(fractions, int) or not 1 <= fractions <= 4096:
        raise Refused(f"policy.model.num_quantiles is {fractions!r}, expected a count up to 4096")
    model.params = {"fractions": fractions, "cosines": weight.shape[1] + 1}
    _put_distribution(model, "fractions", fractions, cosines=weight.shape[1] + 1)
    model.notes.append("DI-engine acts at random fractions, ours at the middles of equal parts")


def _import_actor_head(state, model, settings):
    if state.has("actor_head.Q."):
        model.head = "categorical"
        return "logit", find_chain(state, "actor_head.Q.", HEAD, settings)
    if "actor_head.log_sigma_param" not in state.names():
        raise Refused(
            "the actor has neither 'actor_head.Q.*' nor 'actor_head.log_sigma_param'; only discrete actions, and continuous ones with an independent "
            "deviation (sigma_type='independent'), are converted"
        )
    settings.allow("sigma_type", "independent", ["independent"])
    bound = settings.take("bound_type", None)
    if bound not in (None, "tanh"):
        raise Refused(f"policy.model.bound_type is {bound!r}; converted are None and 'tanh'")
    model.head = "normal"
    if bound == "tanh":
        model.head = "squashed_normal"
        model.inside = {"squash_actions": True}
        model.notes.append("bound_type='tanh' became squash_actions: best actions are equal, but DI-engine draws around the tanh of the mean, ours before the tanh")
    chain = find_chain(state, "actor_head.", MEAN_HEAD, settings)
    model.tensors["model/distribution/log_std"] = state.take("actor_head.log_sigma_param", 1, chain.widths[-1]).reshape(-1)
    return "mean", chain


def import_vac(state, settings, asked, _):
    model = Model()
    name, actor = _import_actor_head(state, model, settings)
    critic = find_chain(state, "critic_head.", REGRESSION_HEAD, settings)
    shared = state.has("encoder.")
    encoder = find_chain(state, "encoder." if shared else "actor_encoder.", ENCODER, settings)
    critic_encoder = encoder if shared else find_chain(state, "critic_encoder.", ENCODER, settings)
    _check_input(actor, encoder.widths[-1], "the actor's head")
    _check_input(critic, critic_encoder.widths[-1], "the critic's head")
    _check_input(critic_encoder, encoder.input_width, "the critic")
    if critic.widths[-1] != 1:
        raise Refused(f"the critic has {critic.widths[-1]} outputs, expected 1")
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
        critic_out = {}
        put_chain("encoder", critic_encoder, critic_out)
        put_chain("value", critic, critic_out)
        model.critic = {"encoder_hidden_size": critic_encoder.widths, **head_config(critic)}
        model.tensors.update({f"model/critic/{key}": tensor for key, tensor in critic_out.items()})
    model.network = {"encoder_hidden_size": encoder.widths, **head_config(actor)}
    model.observation, model.action = encoder.input_width, actor.widths[-1]
    model.tensors.update({f"{model.parameters}/{key}": tensor for key, tensor in out.items()})
    model.policy = _choose(asked, ["ppo", "a2c"], settings)
    settings.expect("share_encoder", shared)
    settings.expect("encoder_hidden_size_list", encoder.widths)
    settings.expect("action_space", "discrete" if model.discrete else "continuous")
    settings.expect("impala_cnn_encoder", False)
    for part, chain in (("actor", actor), ("critic", critic)):
        settings.expect(f"{part}_head_layer_num", len(chain.layers) - 1)
        if len(chain.layers) > 1:
            settings.expect(f"{part}_head_hidden_size", chain.widths[0])
    return _finish(model, state)


def _choose(asked, choices, settings):
    if asked is None:
        if len(choices) > 1:
            settings.assumed.append(f"the policy is {choices[0]} (--policy={' or '.join(choices[1:])})")
        return choices[0]
    if asked not in choices:
        raise Refused(f"the policy is to be '{asked}', but the parameters are those of {' or '.join(choices)}")
    return asked


def _places_of_qac(head):
    return ("0", *(f"2.{place}" for place in head))


def _import_critics(state, settings, model):
    prefix = "critic_head." if state.has("critic_head.") else "critic."
    if not state.has(prefix):
        model.notes.append("the file has no critics: it is an actor alone, such as that of DI-engine's BC")
        return
    twin = state.has(f"{prefix}0.0.")
    widths = set()
    for k, name in enumerate([f"{prefix}0.", f"{prefix}1."] if twin else [prefix]):
        chain = find_chain(state, name, _places_of_qac(REGRESSION_HEAD), settings)
        if chain.input_width != model.observation + model.action or chain.widths[-1] != 1:
            raise Refused(
                f"'{name}*' reads {chain.input_width} values and returns {chain.widths[-1]}, expected those of an "
                f"observation and an action, {model.observation} + {model.action}, and 1"
            )
        out = {}
        put_chain("encoder", Chain(chain.layers[:-1]), out)
        put_chain("head", Chain(chain.layers[-1:]), out)
        model.critics.update({f"critic/q{k}/{key.replace('head/', '')}": tensor for key, tensor in out.items()})
        widths.add(tuple(chain.widths[:-1]))
    if len(widths) > 1:
        raise Refused(f"the critics have hidden layers of {' and '.join(str(list(w)) for w in sorted(widths))}, expected equal ones")
    model.num_critics = 2 if twin else 1
    hidden = list(widths.pop())
    critic = {"encoder_hidden_size": hidden, "head_layer_num": 0, "head_hidden_size": 0}
    model.critic = critic if critic != model.network else None  # without one it has the layers of the actor
    settings.expect("twin_critic", twin)
    settings.expect("critic_head_hidden_size", hidden[-1])
    settings.expect("critic_head_layer_num", len(hidden) - 1)


def import_qac(state, settings, asked, _):
    model = Model()
    prefix = "actor_head." if state.has("actor_head.") else "actor."
    outputs = [key for key in ("mu", "log_sigma_layer", "last") if any(name.endswith(f".{key}.weight") for name in state.names(prefix))]
    if outputs not in (["mu", "log_sigma_layer"], ["last"]):
        raise Refused(f"the actor has the outputs {outputs or 'none'}; expected mu and log_sigma_layer (SAC) or last (TD3, DDPG)")
    sac, out = "mu" in outputs, {}
    if sac:
        log_std = find_layer(state, f"{prefix}2.log_sigma_layer")
        put_chain("log_std", Chain([log_std]), out)
    layers = find_chain(state, prefix, _places_of_qac(MEAN_HEAD if sac else REGRESSION_HEAD), settings).layers
    if len(layers) < 2 or (sac and log_std.weight.shape != layers[-1].weight.shape):
        raise Refused(f"the actor has {len(layers)} layers, and outputs of other shapes than expected")
    hidden = Chain(layers[:-1])
    put_chain("encoder", hidden, out)
    put_chain("mean", Chain(layers[-1:]), out)
    model.head = "tanh_normal" if sac else "tanh"
    model.parameters = "model/actor"
    model.network = {"encoder_hidden_size": hidden.widths, "head_layer_num": 0, "head_hidden_size": 0}
    model.observation, model.action = hidden.input_width, len(layers[-1].bias)
    model.tensors = {f"model/actor/{key}": tensor for key, tensor in out.items()}
    _import_critics(state, settings, model)
    state.drop("log_alpha")
    model.policy = _choose(asked, ["sac"] if sac else ["ddpg", "td3"] if model.num_critics == 1 else ["td3", "ddpg"], settings)
    settings.expect("action_space", "reparameterization" if sac else "regression")
    settings.expect("share_encoder", False)
    settings.expect("actor_head_hidden_size", hidden.widths[-1])
    settings.expect("actor_head_layer_num", len(hidden.layers) - 1)
    return _finish(model, state)


def import_state(tensors, settings, asked, env_actions):
    """The Model of a state dict. `asked` is the type of the policy, and `env_actions` the number of the env's actions; None: not known."""
    state = State(tensors)
    if state.has("head."):
        kind, policies = import_q, _VALUES
    elif state.has("actor_head.") and state.has("critic_head.") and (state.has("encoder.") or state.has("actor_encoder.")):
        kind, policies = import_vac, ("ppo", "a2c")
    elif state.has("actor_head.") or state.has("actor."):
        kind, policies = import_qac, ("sac", "td3", "ddpg")
    else:
        raise Refused(f"no default network of DI-engine has these parameters: {', '.join(state.names()[:8])}")
    state.refuse_others()
    if asked is not None and asked not in policies:
        raise Refused(f"the policy is to be '{asked}', but the parameters are those of {' or '.join(policies)}")
    model = kind(state, settings, asked, env_actions)
    settings.expect("obs_shape", model.observation)
    settings.expect("action_shape", model.action)
    settings.allow("norm_type", None, [None])
    return model
