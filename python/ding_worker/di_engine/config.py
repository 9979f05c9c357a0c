"""Reads a config of DI-engine, which is Python, without executing it, and translates it to an ExperimentConfig of ours."""

import collections
import json
import math
import re

from ding_worker.di_engine.evaluator import MAX_SIZE, Evaluator, Refused, Unread, check_size

_MAX_DEPTH = 40

# The name of a value of an enum, which the text format does not quote.
Enum = collections.namedtuple("Enum", "name")

# Members that are dicts: another value would hide settings.
_DICTS = ("env", "policy", "policy.model", "policy.learn", "policy.collect", "policy.eval", "policy.other")


def flatten(config, prefix="", depth=0, leaves=None):
    """The leaves by path: {"policy.learn.batch_size": 64}."""
    leaves = {} if leaves is None else leaves
    if depth > _MAX_DEPTH or len(leaves) > MAX_SIZE:
        raise Refused(f"the config is deeper than {_MAX_DEPTH} dicts, or has more than {MAX_SIZE} members")
    for name, value in config.items():
        # A name with a dot is not a path.
        path = prefix + (name if isinstance(name, str) and name.isidentifier() else f"[{name!r}]")
        if isinstance(value, dict) and value:
            flatten(value, f"{path}.", depth + 1, leaves)
        else:
            check_size(value)
            leaves[path] = value
    return leaves


def read_config(path):
    """The config of the file and its create_config, an empty dict if it has none.

    The config is main_config, or else the only dict with a member "policy", as in total_config.py.
    """
    try:
        with open(path, encoding="utf-8") as file:
            names = Evaluator(path, file.read()).names
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: {error}") from None
    config = names.get("main_config") if "main_config" in names else _only_config(path, names)
    if not isinstance(config, dict):
        raise Refused(f"{path}{_line_of(config)}: main_config is '{config}', expected a dict that the file builds itself")
    create = names.get("create_config") or {}
    if not isinstance(create, dict):
        raise Refused(f"{path}{_line_of(create)}: create_config is '{create}', expected a dict that the file builds itself")
    for name, value in (("main_config", config), ("create_config", create)):
        _check_dicts(path, name, value)
    return config, create


def _line_of(value):
    return f", line {value.node.lineno}" if isinstance(value, Unread) else ""


def _only_config(path, names):
    found = {}
    for name, value in names.items():
        if isinstance(value, dict) and "policy" in value and not name.endswith("create_config"):
            found.setdefault(id(value), (name, value))
    if len(found) == 1:
        return next(iter(found.values()))[1]
    if found:
        raise Refused(f"{path} has several configs: {', '.join(name for name, _ in found.values())}; call the one of the run main_config")
    unread = [value for name, value in names.items() if name.endswith("config") and isinstance(value, Unread)]
    if unread:
        raise Refused(f"{path}{_line_of(unread[0])}: the config is '{unread[0]}', expected a dict that the file builds itself")
    raise Refused(f"{path} assigns no dict with the member 'policy'; expected total_config.py of a run, or its config")


def _check_dicts(path, name, config):
    for place in _DICTS:
        value = config
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None and not isinstance(value, dict):
            raise Refused(f"{path}{_line_of(value)}: {name}.{place} is '{value}', expected a dict that the file builds itself")


def model_settings(text):
    """The dict of the flag --model, such as "num_quantiles=64, v_min=0"."""
    try:
        value = Evaluator("--model", f"model = dict({text})").names["model"]
    except Refused as error:
        raise Refused(f"--model='{text}': {error}; expected settings such as \"num_quantiles=64, activation='tanh'\"") from None
    return value


def policy_type(config, create):
    """The type of the policy as DI-engine calls it; None if the config does not say it."""
    for holder in (create, config):
        found = holder.get("policy", {}).get("type") if isinstance(holder.get("policy"), dict) else None
        if isinstance(found, str) and not isinstance(found, Unread):
            return re.sub("_command$", "", found)
    return None


# Path of DI-engine -> path of ours. {params}: of the algorithm's message; {inside}: of the message in it that several algorithms have.
_PATHS = {
    "env.collector_env_num": "env.collector_env_num",
    "env.evaluator_env_num": "env.evaluator_env_num",
    "env.n_evaluator_episode": "env.n_evaluator_episode",
    "env.stop_value": "env.stop_value",
    "policy.discount_factor": "policy.discount_factor",
    "policy.nstep": "policy.nstep",
    "policy.priority": "policy.priority",
    "policy.learn.update_per_collect": "policy.learn.update_per_collect",
    "policy.learn.batch_size": "policy.learn.batch_size",
    "policy.collect.n_sample": "policy.collect.n_sample",
    "policy.collect.n_episode": "policy.collect.n_episode",
    "policy.eval.evaluator.eval_freq": "policy.eval.evaluator.eval_freq",
}
_Q = {
    "policy.learn.learning_rate": "{inside}.learning_rate",
    "policy.learn.target_update_freq": "{inside}.target_update_freq",
    "policy.learn.target_theta": "{inside}.target_update_theta",
    "policy.other.eps.type": "{inside}.eps.type",
    "policy.other.eps.start": "{inside}.eps.start",
    "policy.other.eps.end": "{inside}.eps.end",
    "policy.other.eps.decay": "{inside}.eps.decay",
    "policy.other.replay_buffer.replay_buffer_size": "policy.other.replay_buffer.replay_buffer_size",
}
_BOOLS = ("policy.priority", "policy.learn.adv_norm", "policy.learn.auto_alpha")
_CONTINUOUS = {
    "policy.random_collect_size": "policy.random_collect_size",
    "policy.learn.target_theta": "{inside}.target_update_theta",
    "policy.learn.learning_rate_actor": "{inside}.actor_learning_rate",
    "policy.learn.learning_rate_critic": "{inside}.critic_learning_rate",
    "policy.learn.learning_rate_policy": "{inside}.actor_learning_rate",
    "policy.learn.learning_rate_q": "{inside}.critic_learning_rate",
    "policy.other.replay_buffer.replay_buffer_size": "policy.other.replay_buffer.replay_buffer_size",
}
_EXPLORATION = {"policy.collect.noise_sigma": "{params}.exploration_noise"}
_OF_POLICY = {
    "dqn": _Q,
    "c51": _Q,
    "qrdqn": _Q,
    "iqn": {**_Q, "policy.learn.kappa": "{params}.kappa"},
    # Noise explores instead of eps.
    "rainbow": {path: ours for path, ours in _Q.items() if ".eps." not in path},
    "ppo": {
        "policy.learn.learning_rate": "{inside}.learning_rate",
        "policy.learn.grad_clip_value": "{inside}.grad_clip_norm",
        "policy.learn.value_weight": "{inside}.value_weight",
        "policy.learn.entropy_weight": "{inside}.entropy_weight",
        "policy.learn.clip_ratio": "{params}.clip_ratio",
        "policy.learn.adv_norm": "{params}.adv_norm",
        "policy.learn.epoch_per_collect": "{params}.epoch_per_collect",
        "policy.collect.gae_lambda": "{inside}.gae_lambda",
    },
    "a2c": {
        "policy.learn.learning_rate": "{inside}.learning_rate",
        "policy.learn.grad_norm": "{inside}.grad_clip_norm",
        "policy.learn.value_weight": "{inside}.value_weight",
        "policy.learn.entropy_weight": "{inside}.entropy_weight",
        "policy.learn.adv_norm": "{params}.adv_norm",
        "policy.collect.gae_lambda": "{inside}.gae_lambda",
    },
    "sac": {
        **_CONTINUOUS,
        "policy.learn.alpha": "{params}.alpha",
        "policy.learn.auto_alpha": "{params}.learn_alpha",
        "policy.learn.learning_rate_alpha": "{params}.alpha_learning_rate",
        "policy.learn.target_entropy": "{params}.target_entropy",
    },
    "td3": {
        **_CONTINUOUS,
        **_EXPLORATION,
        "policy.learn.actor_update_freq": "{params}.actor_update_freq",
        "policy.learn.noise_sigma": "{params}.target_noise",
        "policy.learn.noise_range.max": "{params}.target_noise_clip",
    },
    "ddpg": {**_CONTINUOUS, **_EXPLORATION},
}


def translate(config, create, policy):
    """Our leaves by path, and those of DI-engine that have none here. Those of policy.model belong to the network."""
    ours, left = {}, {}
    paths = {**_PATHS, **_OF_POLICY[policy]}
    leaves = flatten(config)
    for path, value in leaves.items():
        if path.startswith("policy.model."):
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        plain = isinstance(value, bool) if path in _BOOLS else is_number
        # Ours has one of the two.
        second_target = path == "policy.learn.target_theta" and isinstance(leaves.get("policy.learn.target_update_freq"), int) and policy in ("dqn", "c51", "qrdqn", "iqn", "rainbow")
        if path == "policy.other.eps.type":
            value = Enum(value.upper()) if value in ("exp", "linear") else value
            plain = isinstance(value, Enum)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # Ours may be a field of integers.
        if path in paths and plain and not second_target:
            ours[paths[path]] = value
        elif (path, value) not in (("policy.type", policy), ("policy.type", f"{policy}_command")):
            left[path] = value
    for path, value in flatten(create).items():
        if (path, value) != ("policy.type", policy):
            left[f"create_config.{path}"] = value
    return ours, left


# The message of an algorithm.
MESSAGES = {
    "dqn": "DqnConfig",
    "c51": "C51Config",
    "qrdqn": "QrdqnConfig",
    "iqn": "IqnConfig",
    "rainbow": "RainbowConfig",
    "ppo": "PpoConfig",
    "a2c": "A2cConfig",
    "sac": "SacConfig",
    "td3": "Td3Config",
    "ddpg": "DdpgConfig",
}
# The message in that of an algorithm that several algorithms have.
_INSIDE = {"dqn": [], **dict.fromkeys(("c51", "qrdqn", "iqn", "rainbow"), ["dqn"]), "ppo": ["actor_critic"], "a2c": ["actor_critic"]}
_INSIDE.update(dict.fromkeys(("sac", "td3", "ddpg"), ["continuous"]))


def print_text(config, indent=0):
    """The protobuf text format of nested dicts; a key in brackets is the type of an Any."""
    lines = []
    for name, value in config.items():
        if isinstance(value, dict):
            lines += [f"{' ' * indent}{name} {{", *print_text(value, indent + 2), " " * indent + "}"]
        elif isinstance(value, bool):
            lines.append(f"{' ' * indent}{name}: {str(value).lower()}")
        elif isinstance(value, Enum):
            lines.append(f"{' ' * indent}{name}: {value.name}")
        else:
            lines.append(f"{' ' * indent}{name}: {json.dumps(value)}")
    return lines


def put(config, path, value):
    *parents, name = path if isinstance(path, list) else path.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    config[name] = value


def network_config(network, tanh):
    result = {"type": "mlp", **{name: value for name, value in network.items() if name != "dueling" or value}}
    return {**result, "activation": Enum("TANH")} if tanh else result


def make_config(model, activation, env, theirs, create):
    """The ExperimentConfig as nested dicts, and the leaves of DI-engine's config that it lacks."""
    policy = model.policy
    config = {"exp_name": f"di_engine_{policy}", "env": {"type": env}, "policy": {"type": policy}}
    params = ["policy", "params", f"[type.googleapis.com/ding.{MESSAGES[policy]}]"]
    inside = params + _INSIDE[policy]
    tanh = activation == "tanh"
    put(config, inside + ["model"], network_config(model.network, tanh))
    for place, fields in ((params, model.params), (inside, model.inside)):
        for name, value in fields.items():
            put(config, place + [name], value)
    if model.critic is not None:
        put(config, inside + ["critic"], network_config(model.critic, tanh))
    if policy == "sac" and model.num_critics == 1:
        put(config, params + ["num_critics"], 1)
    ours, left = translate(theirs, create, policy)
    for path, value in ours.items():
        start, _, rest = path.partition(".")
        places = {"{params}": params, "{inside}": inside}
        put(config, places.get(start, [start]) + rest.split("."), value)
    if "replay_buffer" in config["policy"].get("other", {}):
        config["policy"]["other"]["replay_buffer"] = {"type": "naive", **config["policy"]["other"]["replay_buffer"]}
    return config, left
