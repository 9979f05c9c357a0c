"""The values that a config file of DI-engine may have, and the operations on them that are safe to evaluate."""

import ast
import copy

from di_engine_pickle import Refused

MAX_SIZE = 100_000  # of a text, a list, or the members of a dict
MAX_DEPTH = 40
NUMBERS = (int, float)
READING = ("print", "pprint", "repr", "str", "len", "bool", "isinstance")  # change no dict
HIDDEN = ("exec", "eval", "globals", "locals", "vars", "setattr", "delattr")  # may change what nobody sees
CHANGING = ("update", "setdefault", "pop", "popitem", "clear", "append", "extend", "insert", "remove")


class Unread(str):
    """The text of an expression that is not evaluated, and its line."""

    def __new__(cls, node):
        text = super().__new__(cls, ast.unparse(node))
        text.line = node.lineno
        return text


def check_size(value):
    """Few lines make a dict with very many members, by holding a smaller one twice."""
    left, count = [value], 0
    while left:
        value = left.pop()
        count += 1
        if count > MAX_SIZE:
            raise Refused(f"the config has a dict or list with more than {MAX_SIZE} members")
        if isinstance(value, (dict, list)):
            left.extend(value.values() if isinstance(value, dict) else value)


class Easy(dict):
    """Stands for an EasyDict, which makes EasyDicts of the dicts inside."""


def easy(value):
    check_size(value)

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if isinstance(value, dict) and not isinstance(value, Easy):
            return Easy({name: convert(item) for name, item in value.items()})
        return value

    return convert(value)


def merged(first, second):
    """As deep_merge_dicts() of DI-engine."""
    result = copy.deepcopy(first)
    for name, value in second.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else copy.deepcopy(value)
    return result


def known(value):
    if isinstance(value, (list, tuple)):
        return all(known(item) for item in value)
    return not isinstance(value, (Unread, ast.FunctionDef))


BINARY = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}
UNARY = {ast.USub: lambda a: -a, ast.UAdd: lambda a: +a, ast.Not: lambda a: not a}
COMPARE = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Is: lambda a, b: a is b,
    ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
FUNCTIONS = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "len": len,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "sum": sum,
    "list": list,
    "tuple": list,
    "range": lambda *bounds: list(range(*bounds)) if len(range(*bounds)) <= MAX_SIZE else None,
    "sorted": sorted,
    "enumerate": lambda items: [list(pair) for pair in enumerate(items)],
    "zip": lambda *lists: [list(items) for items in zip(*lists)],
}


OF_NESTED = ("len", "bool", "list", "tuple", "enumerate", "zip")  # do not look into the items


def is_nested(value):
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value))


def changed_places(node):
    """The targets of a statement, or what a method such as update() belongs to."""
    if isinstance(node, ast.Call):
        return [node.func] if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING else []
    return getattr(node, "targets", [getattr(node, "target", None)])


def root_name(node):
    """The name that an expression such as a.b["c"] begins with; None if it begins with something else."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def flatten(config, prefix="", depth=0, leaves=None):
    """The leaves by path: {"policy.learn.batch_size": 64}."""
    leaves = {} if leaves is None else leaves
    if depth > MAX_DEPTH or len(leaves) > MAX_SIZE:
        raise Refused(f"the config is deeper than {MAX_DEPTH} dicts, or has more than {MAX_SIZE} members")
    for name, value in config.items():
        if isinstance(value, dict) and value:
            flatten(value, f"{prefix}{name}.", depth + 1, leaves)
        else:
            check_size(value)
            leaves[f"{prefix}{name}"] = value
    return leaves
