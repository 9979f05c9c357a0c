"""Says which network of a checkpoint acts, and how: by the manifest's field "actor", or, if it has none, by the config.

docs/reference/checkpoint_format.md describes the field, and where policies have their parameters.
"""

from dataclasses import dataclass, field

from ding_worker.errors import FormatError, UnsupportedError
from ding_worker.safetensors import parse_json

_VERSION = 1
_HEADS = ("q", "q_distribution", "categorical", "normal", "squashed_normal", "tanh", "tanh_normal")
# Where the config of a policy has that of its networks, by the type of the policy.
_Q_POLICIES = {"dqn": (), "r2d2": ("dqn",), "cql": ("dqn",), "c51": ("dqn",), "rainbow": ("dqn",), "qrdqn": ("dqn",), "iqn": ("dqn",)}
_ACTOR_CRITIC_POLICIES = {"ppo": ("actor_critic",), "a2c": ("actor_critic",), "impala": ("actor_critic",), "bc": ()}
# The head of those whose critics only learning needs.
_ACTORS = {"sac": "tanh_normal", "td3": "tanh", "ddpg": "tanh", "td3bc": "tanh", "iql": "tanh", "discrete_sac": "categorical"}
_DISTRIBUTIONAL = ("c51", "rainbow", "qrdqn", "iqn")
# The policy that has this kind of distribution, and what its config calls the size.
_DISTRIBUTION_KINDS = {"atoms": ("c51", "atoms"), "quantiles": ("qrdqn", "quantiles"), "fractions": ("iqn", "fractions")}


@dataclass
class Description:
    """What acts.

    policy             the type of the policy
    parameters         the scope of the network in the component "model"
    activation         "relu" or "tanh"
    head               the type of head, one of _HEADS; "q" instead of "q_distribution", which `distribution` stands for
    unused_outputs     heads of the network that acting does not need
    obs_clip           the bound of normalized observations
    critic_activation  that of a critic which acts along; None: there is none
    distribution       of policies of distributions of returns: their type, and the numbers of their config; else None
    """

    policy: str
    parameters: str
    activation: str
    head: str
    unused_outputs: list = field(default_factory=list)
    obs_clip: float = 10.0
    critic_activation: str = None
    distribution: tuple = None


def describe_actor(checkpoint):
    """The Description of a checkpoint; UnsupportedError if its policy is none that this package plays."""
    policy = checkpoint.config.get("policy", {})
    config = policy.get("params", {})
    type_ = policy.get("type")
    inside = _inside(config, _ACTOR_CRITIC_POLICIES.get(type_, ()))
    description = _from_manifest(checkpoint) or _from_config(checkpoint, type_, config)
    if type_ in _ACTOR_CRITIC_POLICIES:
        description.critic_activation = _activation(inside.get("critic", {}))
    return description


def _from_manifest(checkpoint):
    """What the field "actor" says; None if there is none, or if it says only that no actor of C++ plays the policy."""
    text = checkpoint.fields.get("actor")
    if text is None:
        return None
    actor = parse_json(text.encode())
    if not isinstance(actor, dict) or actor.get("version") != _VERSION:
        version = actor.get("version") if isinstance(actor, dict) else None
        raise UnsupportedError(f"{checkpoint!r}: its field 'actor' has the version {version}, this package reads {_VERSION}")
    if "problem" in actor:
        return None
    network = actor.get("network")
    activation = network.get("activation") if isinstance(network, dict) else None
    unused = actor.get("unused_outputs", [])
    texts = [actor.get("policy"), actor.get("parameters"), activation, actor.get("head"), *(unused if isinstance(unused, list) else [None])]
    clip = actor.get("obs_clip", 10)
    if not all(isinstance(value, str) for value in texts) or isinstance(clip, bool) or not isinstance(clip, (int, float)):
        raise FormatError(f"{checkpoint!r}: its field 'actor' lacks a member, or one has another type than a text: {text}")
    policy, parameters, activation, head = texts[:4]
    if head not in _HEADS:
        raise UnsupportedError(f"{checkpoint!r} acts by the head '{head}'; known are {', '.join(_HEADS)}")
    if head == "q_distribution":
        return Description(policy, parameters, activation, "q", list(unused), float(clip), distribution=_distribution(checkpoint, actor))
    return Description(policy, parameters, activation, head, list(unused), float(clip))


def _distribution(checkpoint, actor):
    """The member "distribution" as `distribution` of a Description."""
    member = actor.get("distribution")
    kind = member.get("kind") if isinstance(member, dict) else None
    bounds = [member.get(name) for name in ("v_min", "v_max")] if kind == "atoms" else []
    numbers = all(isinstance(bound, (int, float)) and not isinstance(bound, bool) for bound in bounds)
    if not isinstance(kind, str) or kind not in _DISTRIBUTION_KINDS or not numbers:
        raise FormatError(f"{checkpoint!r}: its field 'actor' has the distribution {member!r}, expected a kind of {', '.join(_DISTRIBUTION_KINDS)}, and bounds of atoms")
    type_, size = _DISTRIBUTION_KINDS[kind]
    return type_, {**member, size: member.get("size")}


def _from_config(checkpoint, type_, config):
    if type_ in _Q_POLICIES:
        dqn = _inside(config, _Q_POLICIES[type_])
        distribution = (type_, config) if type_ in _DISTRIBUTIONAL else None
        return Description(type_, "model", _activation(dqn.get("model", {})), "q", distribution=distribution)
    if type_ in _ACTOR_CRITIC_POLICIES:
        return _actor_critic(checkpoint, type_, _inside(config, _ACTOR_CRITIC_POLICIES[type_]))
    if type_ in _ACTORS:
        network = config if type_ == "discrete_sac" else config.get("continuous", {})
        return Description(type_, "model/actor", _activation(network.get("model", {})), _ACTORS[type_], obs_clip=float(config.get("obs_clip", 10)))
    known = ", ".join([*_Q_POLICIES, *_ACTOR_CRITIC_POLICIES, *_ACTORS])
    raise UnsupportedError(
        f"the policy of {checkpoint!r} is of type '{type_}', and the checkpoint does not describe its actor; known are {known}. {_problem(checkpoint)}"
    )


def _problem(checkpoint):
    """Why a checkpoint does not describe its actor, and what to do."""
    actor = parse_json(checkpoint.fields.get("actor", "{}").encode())
    problem = actor.get("problem") if isinstance(actor, dict) else None
    if isinstance(problem, str):
        return problem
    return "If it is an algorithm of your own: register its actor in ActorDescriberRegistry() (docs/tutorials/own_algorithm.md), and save it again"


def _actor_critic(checkpoint, type_, config):
    model = checkpoint.component("model").scope("model")
    shared = any(name.startswith("actor_critic/") for name in model)
    name = "actor_critic" if shared else "actor"
    actor = model.scope(name)
    heads = [head for head in ("logit", "mean") if any(key.startswith(head + "/") for key in actor)]
    if len(heads) != 1:
        raise FormatError(f"{model.source}: '{name}' has {len(heads)} of the heads 'logit' and 'mean', expected one")
    continuous = "squashed_normal" if config.get("squash_actions", False) else "normal"
    return Description(
        type_,
        f"model/{name}",
        _activation(config.get("model", {})),
        "categorical" if heads[0] == "logit" else continuous,
        ["value"] if shared else [],
        float(config.get("obs_clip", 10)),
    )


def _activation(network):
    return str(network.get("activation", "RELU")).lower()


def _inside(config, path):
    for name in path:
        config = config.get(name, {})
    return config
