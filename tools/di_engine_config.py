"""Reads a config of DI-engine, which is Python, without executing it, and translates it to an ExperimentConfig of ours."""

import ast

from di_engine_pickle import Refused

_WRAPPERS = ("dict", "EasyDict", "deep_merge_dicts")


def _value(node):
    """The value of an expression of literals, dict(...) and EasyDict(...)."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS:
        merged = {}
        for argument in node.args:
            inner = _value(argument)
            merged.update(inner if isinstance(inner, dict) else {})
        merged.update({keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg})
        return merged
    if isinstance(node, ast.Dict):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values) if key is not None}
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item) for item in node.elts]
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)):
        return _number(node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _Unread(ast.unparse(node))


class _Unread(str):
    """An expression that is not a literal."""


def _number(node):
    """A number that is written as a sum or product, or as int(1e5)."""
    operations = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b}
    if isinstance(node, ast.BinOp) and type(node.op) in operations:
        left, right = _number(node.left), _number(node.right)
        numbers = (int, float)
        if isinstance(left, numbers) and isinstance(right, numbers) and not (isinstance(node.op, ast.Div) and right == 0):
            return operations[type(node.op)](left, right)
        return _Unread(ast.unparse(node))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _number(node.operand)
        return -operand if isinstance(operand, (int, float)) else _Unread(ast.unparse(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float") and len(node.args) == 1:
        argument = _number(node.args[0])
        if isinstance(argument, (int, float)):
            return int(argument) if node.func.id == "int" else float(argument)
    return node.value if isinstance(node, ast.Constant) else _Unread(ast.unparse(node))


def read_config(path):
    """The largest dict that is assigned to a name at the top of the file and has a member "policy"."""
    with open(path, encoding="utf-8") as file:
        try:
            module = ast.parse(file.read())
        except SyntaxError as error:
            raise Refused(f"{path}: {error}") from None
    found = [_value(node.value) for node in module.body if isinstance(node, ast.Assign)]
    found = [value for value in found if isinstance(value, dict) and "policy" in value]
    if not found:
        raise Refused(f"{path} assigns no dict with the member 'policy'; expected total_config.py of a run, or its config")
    return max(found, key=lambda value: len(flatten(value)))


def flatten(config, prefix=""):
    """The leaves by path: {"policy.learn.batch_size": 64}."""
    leaves = {}
    for name, value in config.items():
        if isinstance(value, dict):
            leaves.update(flatten(value, f"{prefix}{name}."))
        else:
            leaves[f"{prefix}{name}"] = value
    return leaves


# Path of DI-engine -> path of ours. {params}: of the algorithm's message; {ac}: of its ActorCriticConfig.
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
_OF_POLICY = {
    "dqn": {
        "policy.learn.learning_rate": "{params}.learning_rate",
        "policy.learn.target_update_freq": "{params}.target_update_freq",
        "policy.learn.target_theta": "{params}.target_update_theta",
        "policy.other.eps.start": "{params}.eps.start",
        "policy.other.eps.end": "{params}.eps.end",
        "policy.other.eps.decay": "{params}.eps.decay",
        "policy.other.replay_buffer.replay_buffer_size": "policy.other.replay_buffer.replay_buffer_size",
    },
    "ppo": {
        "policy.learn.learning_rate": "{ac}.learning_rate",
        "policy.learn.grad_clip_value": "{ac}.grad_clip_norm",
        "policy.learn.value_weight": "{ac}.value_weight",
        "policy.learn.entropy_weight": "{ac}.entropy_weight",
        "policy.learn.clip_ratio": "{params}.clip_ratio",
        "policy.learn.adv_norm": "{params}.adv_norm",
        "policy.learn.epoch_per_collect": "{params}.epoch_per_collect",
        "policy.collect.gae_lambda": "{ac}.gae_lambda",
    },
    "a2c": {
        "policy.learn.learning_rate": "{ac}.learning_rate",
        "policy.learn.grad_norm": "{ac}.grad_clip_norm",
        "policy.learn.value_weight": "{ac}.value_weight",
        "policy.learn.entropy_weight": "{ac}.entropy_weight",
        "policy.learn.adv_norm": "{params}.adv_norm",
        "policy.collect.gae_lambda": "{ac}.gae_lambda",
    },
    "sac": {"policy.learn.target_theta": "{params}.continuous.target_update_theta"},
    "td3": {"policy.learn.target_theta": "{params}.continuous.target_update_theta"},
}


def translate(leaves, policy):
    """Our leaves by path, and those of DI-engine that have none here. What the network says is not in question here."""
    ours, left = {}, {}
    paths = {**_PATHS, **_OF_POLICY[policy]}
    for path, value in leaves.items():
        if path.startswith("policy.model."):
            continue
        plain = isinstance(value, (bool, int, float)) or (isinstance(value, str) and not isinstance(value, _Unread))
        if path in paths and plain and value is not None:
            ours[paths[path]] = value
        else:
            left[path] = value
    return ours, left
