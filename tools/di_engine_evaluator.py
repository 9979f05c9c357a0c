"""Evaluates a config file of DI-engine, which is Python, without executing it: literals, dicts, and the statements and functions of the
file that build and change them. Names of other modules stay Unread. What may change a dict without being followed is refused with its line.
"""

import ast
import copy
import re

from di_engine_pickle import Refused
from di_engine_values import BINARY, CHANGING, COMPARE, Easy, FUNCTIONS, HIDDEN, MAX_DEPTH, MAX_SIZE, NUMBERS, OF_NESTED, READING, UNARY, Unread, changed_places, check_size, easy, is_nested, known, merged, root_name

_MAX_STEPS = 200_000
_MAX_BITS = 4096


class _Return(Exception):
    pass


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Evaluator:
    """names: the values that the file's names have at its end."""

    def __init__(self, path, source):
        self._path = path
        self._steps = 0
        self._depth = 0
        self._scopes = [{}]
        try:
            self._run(ast.parse(source).body)
        except (SyntaxError, ValueError) as error:
            raise Refused(f"{path}: {error}") from None
        except (RecursionError, MemoryError):
            raise Refused(f"{path}: its expressions are too deep") from None

    @property
    def names(self):
        return self._scopes[0]

    # ---- statements

    def _refuse(self, node, what):
        raise Refused(f"{self._path}, line {node.lineno}: {what}")

    def _step(self, node):
        self._steps += 1
        if self._steps > _MAX_STEPS:
            self._refuse(node, f"the file takes more than {_MAX_STEPS} steps")

    def _run(self, statements):
        for statement in statements:
            self._step(statement)
            handler = getattr(self, f"_run_{type(statement).__name__}", None)
            if handler is None:
                self._skip(statement, f"a statement '{type(statement).__name__.lower()}' is not followed")
            else:
                handler(statement)

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
        elif isinstance(before, list) and isinstance(value, list) and isinstance(node.op, ast.Add):
            self._extend(node, before, value)
        else:
            self._assign(node.target, self._operate(node, node.op, before, value))

    def _run_Expr(self, node):
        self._value(node.value)

    def _run_Import(self, node):
        for alias in node.names:
            self._scopes[-1][alias.asname or alias.name.split(".")[0]] = Unread(node)

    _run_ImportFrom = _run_Import

    def _run_If(self, node):
        condition = self._value(node.test)
        if known(condition):
            self._run(node.body if condition else node.orelse)
        elif "__name__" in condition:
            self._skip(node, "this changes the config only where the file is run as a program: move it out of the condition, or remove it")
        else:
            self._skip(node, f"the condition '{condition}' is not known, and the config depends on it")

    def _run_For(self, node):
        items = self._value(node.iter)
        if isinstance(items, dict):
            items = list(items)
        if not isinstance(items, list):
            self._skip(node, f"'{items}' is not known, and the config depends on it")
            return
        for item in items:
            self._assign(node.target, item)
            try:
                self._run(node.body)
            except _Continue:
                continue
            except _Break:
                return
        self._run(node.orelse)

    def _run_FunctionDef(self, node):
        self._scopes[-1][node.name] = node if not node.decorator_list else Unread(node)

    def _run_Return(self, node):
        raise _Return(None if node.value is None else self._value(node.value))

    def _run_Break(self, _):
        raise _Break()

    def _run_Continue(self, _):
        raise _Continue()

    _run_Pass = _run_Assert = lambda self, _: None

    def _run_Global(self, node):
        self._refuse(node, f"'{ast.unparse(node)}' is not followed")

    _run_Nonlocal = _run_Global

    def _run_Delete(self, node):
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._scopes[-1].pop(target.id, None)
                continue
            holder, key = self._place(target)
            if not isinstance(holder, Unread) and not self._has(holder, key):
                self._refuse(node, f"'{ast.unparse(target)}' does not exist")
            if not isinstance(holder, Unread):
                del holder[key]

    def _skip(self, node, why):
        """Goes on behind a statement, whose names are then unread. Refuses one that changes a dict."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and self._may_change(inner):
                self._refuse(inner, why)
            for target in changed_places(inner):
                if isinstance(target, (ast.Attribute, ast.Subscript)) and isinstance(self._find(root_name(target)), (dict, list)):
                    self._refuse(inner, why)
                for name in ast.walk(target) if isinstance(target, (ast.Name, ast.Tuple, ast.List)) else []:
                    if isinstance(name, ast.Name):
                        self._scopes[-1][name.id] = Unread(name)
            if isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
                self._scopes[-1][inner.name] = Unread(ast.copy_location(ast.Name(inner.name), inner))

    def _may_change(self, call):
        """Whether a call that is skipped is of a function of the file that changes a dict: one of the file, or an argument."""
        function = self._find(call.func.id)
        if not isinstance(function, ast.FunctionDef):
            return False
        parameters = {parameter.arg for parameter in function.args.args}
        places = [place for inner in ast.walk(function) for place in changed_places(inner) if not isinstance(place, ast.Name)]
        roots = {root_name(place) for place in places}
        return bool(roots & parameters) or any(isinstance(self._find(name), dict) for name in roots)

    def _mentions_dict(self, unread):
        """Whether an expression that is not known may be a dict of the file, or change one."""
        return any(isinstance(self._find(word), dict) for word in re.findall(r"\w+", unread))

    def _find(self, name):
        for scope in (self._scopes[-1], self._scopes[0]):
            if name in scope:
                return scope[name]
        return None

    # ---- places

    def _assign(self, target, value):
        if isinstance(target, ast.Name):
            self._scopes[-1][target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, list) or len(value) != len(target.elts) or any(isinstance(item, ast.Starred) for item in target.elts):
                value = [Unread(target)] * len(target.elts)
            for item, part in zip(target.elts, value):
                self._assign(item, part)
        else:
            holder, key = self._place(target)
            if isinstance(holder, Unread):
                return
            if isinstance(holder, list) and not self._has(holder, key):
                self._refuse(target, f"'{ast.unparse(target)}' does not exist")
            holder[key] = easy(value) if isinstance(holder, Easy) else value

    def _place(self, target):
        """The dict or list of a target such as a.b["c"], and the key in it. Unread if the target belongs to something else."""
        if not isinstance(target, (ast.Attribute, ast.Subscript)):
            return Unread(target), None
        holder = self._value(target.value)
        if isinstance(target, ast.Attribute):
            key = target.attr
        else:
            key = self._value(target.slice)
        if isinstance(holder, (dict, list)):
            if not known(key) or not isinstance(key, (str, int, float)) or (isinstance(holder, list) and not isinstance(key, int)):
                self._refuse(target, f"the key of '{ast.unparse(target)}' is not known")
            return holder, key
        if isinstance(holder, Unread) and self._mentions_dict(holder):
            self._refuse(target, f"'{ast.unparse(target)}' may belong to a dict of the file")
        return Unread(target), None

    @staticmethod
    def _has(holder, key):
        if isinstance(holder, list):
            return isinstance(key, int) and -len(holder) <= key < len(holder)
        return key in holder

    def _update(self, node, target, *others):
        for other in others:
            if isinstance(other, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in other):
                other = {key: value for key, value in other}
            if not isinstance(other, dict):
                self._refuse(node, f"it takes over the members of '{other}', which is not known: write them into the file")
            target.update({name: easy(value) for name, value in other.items()} if isinstance(target, Easy) else other)

    def _extend(self, node, target, items):
        if len(target) + len(items) > MAX_SIZE:
            self._refuse(node, f"a list of more than {MAX_SIZE} items")
        target.extend(list(items))

    # ---- expressions

    def _value(self, node):
        self._step(node)
        handler = getattr(self, f"_value_{type(node).__name__}", None)
        return Unread(node) if handler is None else handler(node)

    def _value_Constant(self, node):
        return node.value

    def _value_Name(self, node):
        value = self._find(node.id)
        return Unread(node) if value is None and node.id not in self._scopes[-1] and node.id not in self._scopes[0] else value

    def _value_NamedExpr(self, node):
        value = self._value(node.value)
        self._assign(node.target, value)
        return value

    def _value_Attribute(self, node):
        holder = self._value(node.value)
        if not isinstance(holder, dict):
            return Unread(node)
        if node.attr not in holder:
            self._refuse(node, f"'{ast.unparse(node)}' does not exist")
        return holder[node.attr]

    def _value_Subscript(self, node):
        holder, key = self._value(node.value), self._value(node.slice)
        if not isinstance(holder, (dict, list)) or not known(key) or isinstance(key, (dict, list)) or isinstance(node.slice, ast.Slice):
            return Unread(node)
        if not self._has(holder, key):
            self._refuse(node, f"'{ast.unparse(node)}' does not exist")
        return holder[key]

    def _value_Dict(self, node):
        result = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                self._update(value, result, self._value(value))
                continue
            name = self._value(key)
            if not isinstance(name, (str, int, float, type(None))):
                self._refuse(key, f"the key '{ast.unparse(key)}' is not known")
            result[name] = self._value(value)
        return result

    def _value_List(self, node):
        result = []
        for item in node.elts:
            if not isinstance(item, ast.Starred):
                result.append(self._value(item))
                continue
            items = self._value(item.value)
            if not isinstance(items, list):
                return Unread(node)
            self._extend(item, result, items)
        return result

    _value_Tuple = _value_List

    def _value_UnaryOp(self, node):
        operand = self._value(node.operand)
        numeric = isinstance(operand, NUMBERS) or (isinstance(node.op, ast.Not) and known(operand))
        return UNARY[type(node.op)](operand) if numeric and type(node.op) in UNARY else Unread(node)

    def _value_BinOp(self, node):
        return self._operate(node, node.op, self._value(node.left), self._value(node.right))

    def _operate(self, node, op, left, right):
        if isinstance(left, dict) and isinstance(op, ast.BitOr):
            result = dict(left)
            self._update(node, result, right)
            return result
        same = any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, list)) and isinstance(op, ast.Add)
        if not known(left) or not known(right) or type(op) not in BINARY:
            return Unread(node)
        if same:
            return left + right if len(left) + len(right) <= MAX_SIZE else Unread(node)
        if not isinstance(left, NUMBERS) or not isinstance(right, NUMBERS):
            return Unread(node)
        if isinstance(op, ast.Pow) and (abs(right) > 64 or (isinstance(left, int) and left.bit_length() > 64)):
            return Unread(node)
        try:
            result = BINARY[type(op)](left, right)
        except (ArithmeticError, ValueError):
            return Unread(node)
        small = not isinstance(result, int) or result.bit_length() <= _MAX_BITS
        return result if isinstance(result, NUMBERS) and small else Unread(node)

    def _value_BoolOp(self, node):
        value = None
        for operand in node.values:
            value = self._value(operand)
            if not known(value):
                return Unread(node)
            if bool(value) == isinstance(node.op, ast.Or):
                return value
        return value

    def _value_Compare(self, node):
        left = self._value(node.left)
        for op, operand in zip(node.ops, node.comparators):
            right = self._value(operand)
            if not known(left) or not known(right) or (is_nested(left) and is_nested(right)):
                return Unread(node)
            try:
                if not COMPARE[type(op)](left, right):
                    return False
            except TypeError:
                return Unread(node)
            left = right
        return True

    def _value_IfExp(self, node):
        condition = self._value(node.test)
        return self._value(node.body if condition else node.orelse) if known(condition) else Unread(node)

    def _value_JoinedStr(self, node):
        text = ""
        for part in node.values:
            plain = isinstance(part, ast.FormattedValue) and part.conversion == -1 and part.format_spec is None
            value = self._value(part.value) if plain else part.value if isinstance(part, ast.Constant) else Unread(node)
            if isinstance(value, (dict, list)) or not known(value) or len(text) > MAX_SIZE:
                return Unread(node)
            text += str(value)
        return text

    def _value_ListComp(self, node):
        result = []
        known = self._comprehend(node.generators, lambda: result.append(self._value(node.elt)))
        return result if known else Unread(node)

    _value_GeneratorExp = _value_ListComp

    def _comprehend(self, generators, add):
        """Calls `add` for each item. Returns false if the items are not known."""
        if not generators:
            add()
            return True
        first, *others = generators
        items = self._value(first.iter)
        items = list(items) if isinstance(items, dict) else items
        if not isinstance(items, list):
            return False
        for item in items:
            self._step(first.target)
            self._assign(first.target, item)
            conditions = [self._value(condition) for condition in first.ifs]
            if not all(known(condition) for condition in conditions):
                return False
            if all(conditions) and not self._comprehend(others, add):
                return False
        return True

    # ---- calls

    def _value_Call(self, node):
        function = node.func
        name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else None
        if isinstance(function, ast.Attribute) and (found := self._call_method(node, self._value(function.value))) is not NotImplemented:
            return found
        defined = self._find(name) if isinstance(function, ast.Name) else None
        if name in HIDDEN or (isinstance(defined, Unread) and self._mentions_dict(defined)):
            self._refuse(node, f"'{ast.unparse(node)}' is not followed, and may change a dict of the file")
        if isinstance(defined, ast.FunctionDef):
            return self._apply(defined, node)
        if name in ("dict", "EasyDict"):
            result = {}
            self._update(node, result, *(self._value(argument) for argument in node.args))
            for keyword in node.keywords:
                value = self._value(keyword.value)
                self._update(keyword.value, result, value if keyword.arg is None else {keyword.arg: value})
            return easy(result) if name == "EasyDict" else result
        if name in ("deepcopy", "copy", "deep_merge_dicts") and not node.keywords:
            values = [self._value(argument) for argument in node.args]
            check_size(values)
            if name == "deep_merge_dicts" and len(values) == 2 and all(isinstance(value, dict) for value in values):
                return merged(*values)
            if len(values) == 1 and isinstance(values[0], (dict, list)):
                return copy.deepcopy(values[0]) if name == "deepcopy" else copy.copy(values[0])
        if isinstance(function, ast.Name) and name in FUNCTIONS and defined is None and not node.keywords:
            values = [self._value(argument) for argument in node.args]
            if all(known(value) for value in values) and (name in OF_NESTED or not any(is_nested(value) for value in values)):
                try:
                    result = FUNCTIONS[name](*values)
                    return Unread(node) if result is None else result
                except (TypeError, ValueError, OverflowError):
                    pass
            return Unread(node)
        self._check_arguments(node, name)
        return Unread(node)

    def _check_arguments(self, node, name):
        """Refuses a call of a function of another module that may change a dict of the file."""
        if name in READING:
            return
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            for inner in ast.walk(argument):
                if isinstance(inner, ast.Name) and isinstance(self._find(inner.id), dict):
                    self._refuse(node, f"'{ast.unparse(node.func)}' is not followed, and may change '{inner.id}'")

    def _call_method(self, node, holder):
        """What the call of a method of a dict, list or text returns; NotImplemented for other holders."""
        name = node.func.attr
        if isinstance(holder, str) and not isinstance(holder, Unread):
            return Unread(node)  # Methods of texts change nothing.
        if isinstance(holder, Unread) and name in CHANGING and self._mentions_dict(holder):
            self._refuse(node, f"'{ast.unparse(node)}' may change a dict of the file")
        if not isinstance(holder, (dict, list)):
            return NotImplemented
        values = [self._value(argument) for argument in node.args]
        keywords = {keyword.arg: self._value(keyword.value) for keyword in node.keywords}
        if isinstance(holder, dict):
            if name == "update":
                for keyword, value in keywords.items():
                    self._update(node, holder, value if keyword is None else {keyword: value})
                self._update(node, holder, *values)
                return None
            if name in ("keys", "values", "items") and not values:
                return {"keys": list(holder), "values": list(holder.values()), "items": [[key, value] for key, value in holder.items()]}[name]
            if name == "copy" and not values:
                return copy.copy(holder)
            if name in ("get", "pop", "setdefault") and values and isinstance(values[0], (str, int)) and known(values[0]) and not keywords:
                default = values[1] if len(values) > 1 else None
                if name == "get":
                    return holder.get(values[0], default)
                if name == "setdefault":
                    return holder.setdefault(values[0], easy(default) if isinstance(holder, Easy) else default)
                return holder.pop(values[0], default)
        elif name == "append" and len(values) == 1:
            self._extend(node, holder, values)
            return None
        elif name == "extend" and len(values) == 1 and isinstance(values[0], list):
            self._extend(node, holder, values[0])
            return None
        self._refuse(node, f"'{ast.unparse(node)}' is not followed")

    def _apply(self, function, node):
        """Calls a function of the file."""
        parameters = function.args
        names = [parameter.arg for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]]
        positional = names[: len(names) - len(parameters.kwonlyargs)]
        starred = any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords)
        if parameters.vararg or parameters.kwarg or starred or len(node.args) > len(positional):
            self._refuse(node, f"the call '{ast.unparse(node)}' is not followed")
        defaults = list(zip(positional[len(positional) - len(parameters.defaults) :], parameters.defaults))
        defaults += [(parameter.arg, value) for parameter, value in zip(parameters.kwonlyargs, parameters.kw_defaults) if value is not None]
        scope = {name: self._value(value) for name, value in defaults}
        scope.update({name: self._value(argument) for name, argument in zip(positional, node.args)})
        scope.update({keyword.arg: self._value(keyword.value) for keyword in node.keywords})
        if set(scope) != set(names) or self._depth >= MAX_DEPTH:
            self._refuse(node, f"the call '{ast.unparse(node)}' is not followed")
        self._depth += 1
        self._scopes.append(scope)
        try:
            self._run(function.body)
            return None
        except _Return as result:
            return result.args[0]
        finally:
            self._scopes.pop()
            self._depth -= 1
