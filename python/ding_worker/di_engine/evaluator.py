"""Evaluates a config file of DI-engine, which is Python, without executing it: the literals, dicts, assignments and merges of a file that runs
from its first line to its last. Whatever else may change a dict of the file, or hand it on, is refused with its line: functions, loops,
conditions, other modules. Expressions that do not matter to a dict stay Unread.
"""

import ast
import copy

MAX_SIZE = 100_000  # members of a dict with all that it holds
_MAX_BITS = 4096
_HINT = "; total_config.py of the run has the same members without it"
_READING = ("print", "pprint", "repr", "str", "len", "bool", "isinstance")  # neither change nor return their arguments
_HIDDEN = ("exec", "eval", "globals", "locals", "vars", "setattr", "delattr")  # may change a dict that they do not name
_CHANGING = ("update", "setdefault", "pop", "popitem", "clear", "append", "extend", "insert", "remove", "__setitem__", "__setattr__")


class Refused(Exception):
    """The file is not what it should be; the message says what was found."""


class Unread(str):
    """The text of what is not evaluated, and its node."""

    def __new__(cls, node):
        text = super().__new__(cls, ast.unparse(node))
        text.node = node
        return text


class _Easy(dict):
    """Stands for an EasyDict, which makes EasyDicts of the dicts inside."""


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


def _easy(value):
    if isinstance(value, list):
        return [_easy(item) for item in value]
    if isinstance(value, dict) and not isinstance(value, _Easy):
        return _Easy({name: _easy(item) for name, item in value.items()})
    return value


def _merged(first, second):
    """As deep_merge_dicts() of DI-engine."""
    result = copy.deepcopy(first)
    for name, value in second.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = _merged(result[name], value) if both else copy.deepcopy(value)
    return result


_BINARY = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b if abs(b) <= 64 else None,
}
_FUNCTIONS = {"int": int, "float": float, "abs": abs, "round": round, "min": min, "max": max}


def _is_number(value):
    return isinstance(value, (int, float)) and (isinstance(value, float) or value.bit_length() <= _MAX_BITS)


def _root(node):
    """The name that an expression such as a.b["c"] begins with; None if it begins with something else."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


class Evaluator:
    """names: the values that the file's names have at its end."""

    def __init__(self, path, source):
        self._path = path
        self.names = {}
        try:
            self._run(ast.parse(source).body)
        except (SyntaxError, ValueError) as error:
            raise Refused(f"{path}: {error}") from None
        except (RecursionError, MemoryError):
            raise Refused(f"{path}: its expressions are too deep") from None

    def _refuse(self, node, what):
        raise Refused(f"{self._path}, line {node.lineno}: {what}")

    # ---- statements

    def _run(self, statements):
        for statement in statements:
            getattr(self, f"_run_{type(statement).__name__}", self._skip)(statement)

    def _run_Assign(self, node):
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _run_AnnAssign(self, node):
        if node.value is not None:
            self._assign(node.target, self._value(node.value))

    def _run_AugAssign(self, node):
        before, value = self._value(node.target), self._value(node.value)
        if isinstance(before, dict) and isinstance(node.op, ast.BitOr):
            self._update(node, before, value)
        elif isinstance(before, (dict, list)):
            self._refuse(node, f"'{ast.unparse(node)}' is not followed{_HINT}")
        else:
            self._assign(node.target, self._operate(node, before, value))

    def _run_Expr(self, node):
        self._value(node.value)

    def _run_Import(self, node):
        for alias in node.names:
            if alias.name == "*":
                self._refuse(node, f"'{ast.unparse(node)}' may define any name: name what it imports")
            self.names[alias.asname or alias.name.split(".")[0]] = Unread(node)

    _run_ImportFrom = _run_Import

    def _run_FunctionDef(self, node):
        for value in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self._value(value)
        self.names[node.name] = Unread(node)

    def _run_Assert(self, node):
        self._value(node.test)

    def _run_Pass(self, _):
        pass

    def _run_If(self, node):
        if "__name__" in ast.unparse(node.test):
            self._skip_program(node)
        else:
            self._skip(node)

    def _skip(self, node):
        """Goes on behind a statement that has nothing to do with a dict of the file."""
        if self._reaches(node):
            self._refuse(node, f"'{ast.unparse(node).splitlines()[0]}' is not followed, and the config may depend on it{_HINT}")
        self._forget(node)

    def _forget(self, node):
        """Makes the names that a statement assigns unread."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                self.names[inner.id] = Unread(inner)
            elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                self.names[inner.name] = Unread(inner)
            elif isinstance(inner, (ast.Import, ast.ImportFrom)):
                self._run_Import(inner)

    def _skip_program(self, node):
        """Skips what is done only where the file is run as a program, which may pass the config on, but not change it."""
        nodes, functions = list(ast.walk(node)), set()
        for inner in nodes:  # which grows by the functions of the file that are called
            function = self.names.get(inner.func.id) if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) else None
            if isinstance(function, Unread) and isinstance(function.node, ast.FunctionDef) and function.node not in functions:
                functions.add(function.node)
                nodes += ast.walk(function.node)
        aliases = {inner.arg for inner in nodes if isinstance(inner, ast.arg)}
        for inner in nodes:
            if isinstance(inner, (ast.Assign, ast.AnnAssign, ast.For)):
                source = inner.iter if isinstance(inner, ast.For) else inner.value
                targets = inner.targets if isinstance(inner, ast.Assign) else [inner.target]
                names = {name.id for name in ast.walk(source) if isinstance(name, ast.Name)} if source is not None else set()
                if not isinstance(source, ast.Call) and (names & aliases or any(isinstance(self.names.get(name), (dict, list)) for name in names)):
                    aliases.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            if self._changes(inner, aliases):
                self._refuse(inner, "this changes the config only where the file is run as a program: move it out of the condition, or remove it")
        self._forget(node)

    def _changes(self, node, aliases):
        """Whether a node changes a dict of the file, or of one of the names `aliases`."""
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            root = _root(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            root = _root(node.func)
        elif isinstance(node, ast.Name):
            return node.id in _HIDDEN
        else:
            return False
        return root in aliases or isinstance(self.names.get(root), (dict, list))

    def _reaches(self, node, seen=None):
        """Whether a node names a dict of the file, also by a function that does."""
        seen = set() if seen is None else seen
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                value = self.names.get(inner.id)
                if isinstance(value, (dict, list)) or inner.id in _HIDDEN:
                    return True
                if isinstance(value, Unread) and value.node not in seen:
                    seen.add(value.node)
                    if self._reaches(value.node, seen):
                        return True
        return False

    # ---- places

    def _assign(self, target, value):
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, Unread) and (not isinstance(value, list) or len(value) != len(target.elts) or any(isinstance(item, ast.Starred) for item in target.elts)):
                self._refuse(target, f"an assignment to '{ast.unparse(target)}' is not followed")
            for item, part in zip(target.elts, [value] * len(target.elts) if isinstance(value, Unread) else value):
                self._assign(item.value if isinstance(item, ast.Starred) else item, part)
        else:
            holder, key = self._place(target, new=True)
            if holder is not None:
                holder[key] = self._in(holder, value)

    def _place(self, target, new=False):
        """The dict or list of a target such as a.b["c"], and the key in it, which may be new in a dict. None if it belongs to something else."""
        holder = self._value(target.value)
        key = target.attr if isinstance(target, ast.Attribute) else self._value(target.slice)
        if not isinstance(holder, (dict, list)):
            return None, None
        if isinstance(key, Unread) or not isinstance(key, int if isinstance(holder, list) else (str, int, float)):
            self._refuse(target, f"the key of '{ast.unparse(target)}' is not known")
        if not (new and isinstance(holder, dict)) and not self._has(holder, key):
            self._refuse(target, f"'{ast.unparse(target)}' does not exist")
        return holder, key

    @staticmethod
    def _has(holder, key):
        return -len(holder) <= key < len(holder) if isinstance(holder, list) else key in holder

    @staticmethod
    def _in(holder, value):
        check_size(value)
        return _easy(value) if isinstance(holder, _Easy) else value

    def _update(self, node, target, *others):
        for other in others:
            if not isinstance(other, dict):
                self._refuse(node, f"it takes over the members of '{other}', which is not known: write them into the file")
            target.update({name: self._in(target, value) for name, value in other.items()})

    # ---- expressions

    def _value(self, node):
        return getattr(self, f"_value_{type(node).__name__}", self._unread)(node)

    def _unread(self, node):
        """The value of an expression that is not followed."""
        if self._hands_on(node):
            self._refuse(node, f"'{ast.unparse(node)}' is not followed, and the config may depend on it{_HINT}")
        return Unread(node)

    def _hands_on(self, node):
        """Whether an expression may return a dict of the file, or change one. Members that are no dicts do not matter."""
        if isinstance(node, ast.NamedExpr):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _READING and node.func.id not in self.names:
            return any(self._hands_on(argument) for argument in node.args if _root(argument) is None)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(self.names.get(_root(node)), (dict, list)):
            return isinstance(self._value(node), (dict, list))
        if isinstance(node, ast.Name):
            return self._reaches(node)
        return any(self._hands_on(child) for child in ast.iter_child_nodes(node))

    def _value_Constant(self, node):
        return node.value

    def _value_Name(self, node):
        return self.names.get(node.id) if node.id in self.names else Unread(node)

    def _value_Attribute(self, node):
        holder = self._value(node.value)
        if not isinstance(holder, (dict, list)):
            return Unread(node)
        if isinstance(holder, list) or node.attr not in holder:
            self._refuse(node, f"'{ast.unparse(node)}' " + ("is not followed" if hasattr(holder, node.attr) else "does not exist"))
        return holder[node.attr]

    def _value_Subscript(self, node):
        holder, key = self._place(node)
        return Unread(node) if holder is None else holder[key]

    def _value_Dict(self, node):
        result = {}
        for key, value in zip(node.keys, node.values):
            name = None if key is None else self._value(key)
            if key is None:
                self._update(value, result, self._value(value))
            elif isinstance(name, Unread) or not isinstance(name, (str, int, float, type(None))):
                self._refuse(key, f"the key '{ast.unparse(key)}' is not known")
            else:
                result[name] = self._value(value)
        return result

    def _value_List(self, node):
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return self._unread(node)
        return [self._value(item) for item in node.elts]

    _value_Tuple = _value_List

    def _value_UnaryOp(self, node):
        operand = self._value(node.operand)
        if isinstance(node.op, (ast.USub, ast.UAdd)) and _is_number(operand):
            return -operand if isinstance(node.op, ast.USub) else +operand
        return self._unread(node)

    def _value_BinOp(self, node):
        return self._operate(node, self._value(node.left), self._value(node.right))

    def _operate(self, node, left, right):
        if isinstance(left, dict) and isinstance(node.op, ast.BitOr):
            result = type(left)(left)
            self._update(node, result, right)
            return result
        if type(node.op) in _BINARY and _is_number(left) and _is_number(right):
            try:
                result = _BINARY[type(node.op)](left, right)
            except (ArithmeticError, ValueError):
                return Unread(node)
            return result if _is_number(result) else Unread(node)
        return Unread(node) if isinstance(node, ast.AugAssign) else self._unread(node)

    def _value_Call(self, node):
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(holder := self._value(function.value), dict):
            return self._call_method(node, holder)
        name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else None
        defined = self.names.get(_root(function))
        known = defined is None or (isinstance(defined, Unread) and isinstance(defined.node, (ast.Import, ast.ImportFrom)))
        plain = known and not any(isinstance(argument, ast.Starred) for argument in node.args)
        if plain and name in ("dict", "EasyDict") and len(node.args) <= 1:
            return self._make_dict(node, name)
        if plain and name in ("deepcopy", "copy", "deep_merge_dicts") and not node.keywords:
            values = [self._value(argument) for argument in node.args]
            check_size(values)
            if all(isinstance(value, (dict, list)) for value in values):
                if name != "deep_merge_dicts" and len(values) == 1:
                    return copy.deepcopy(values[0]) if name == "deepcopy" else copy.copy(values[0])
                if name == "deep_merge_dicts" and len(values) == 2 and all(isinstance(value, dict) for value in values):
                    return _merged(*values)
        if plain and isinstance(function, ast.Name) and name in _FUNCTIONS and not node.keywords:
            values = [self._value(argument) for argument in node.args]
            if values and all(_is_number(value) or (isinstance(value, str) and not isinstance(value, Unread)) for value in values):
                try:
                    return _FUNCTIONS[name](*values)
                except (TypeError, ValueError, OverflowError):
                    return Unread(node)
        return self._unread(node)

    def _make_dict(self, node, name):
        result = {}
        self._update(node, result, *(self._value(argument) for argument in node.args))
        for keyword in node.keywords:
            value = self._value(keyword.value)
            self._update(keyword.value, result, value if keyword.arg is None else {keyword.arg: value})
        return self._in(_Easy() if name == "EasyDict" else None, result)

    def _call_method(self, node, holder):
        name = node.func.attr
        if name == "update" and len(node.args) <= 1:
            self._update(node, holder, self._make_dict(node, "dict"))
            return None
        if name == "copy" and not node.args:
            return copy.copy(holder)
        values = [self._value(argument) for argument in node.args]
        if name in ("get", "pop") and len(values) in (1, 2) and not isinstance(values[0], (Unread, dict, list)) and not node.keywords:
            if name == "pop" and len(values) == 1 and values[0] not in holder:
                self._refuse(node, f"'{ast.unparse(node)}' does not exist")
            return getattr(holder, name)(*values)
        return self._refuse(node, f"'{ast.unparse(node)}' is not followed{_HINT}")
