"""Reads configs: the protobuf text format, as nested dicts.

    env { type: "CartPole-v1" }  policy { learn { batch_size: 64 } }
    {"env": {"type": "CartPole-v1"}, "policy": {"learn": {"batch_size": 64}}}

The definitions of the messages are not known here, so the text alone decides on types: numbers become int or float, true and
false bool, other words (values of enums) str, strings str (bytes if they are not UTF-8). A field that stands several times, or
whose value is in brackets, is a list; a repeated field that stands once without brackets is not. The message in an Any,
`[type.googleapis.com/ding.DqnConfig] {...}`, is a dict whose "@type" is "ding.DqnConfig". Fields that the text leaves out are
missing; the configs in checkpoints and in run folders have them all.

Not read: names of extensions (fields in brackets without a '/'), and defaults.
"""

import re

from ding_worker.errors import FormatError
from ding_worker.safetensors import read_file

TYPE = "@type"
_MAX_DEPTH = 50
_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\r\n\f\v]|\#[^\n]*)+)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?(?![\w.]) | 0[xX][0-9a-fA-F]+(?![\w.]))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<string>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')
      | (?P<mark>[{}<>\[\]:,;/.-])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:[xX](?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<one>.))"
)
_ONE = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}
_ONE.update({c: c.encode() for c in "\\'\"?"})
_WORDS = {"true": True, "True": True, "false": False, "False": False}
_FLOATS = {"inf": float("inf"), "infinity": float("inf"), "nan": float("nan")}


class _Parser:
    def __init__(self, text, source):
        self._text = text
        self._source = source
        self._tokens = list(self._split())
        self._next = 0

    def _error(self, at, what):
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return FormatError(f"{self._source}:{line}:{column}: {what}")

    def _split(self):
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._error(at, f"unexpected '{self._text[at : at + 20].splitlines()[0]}'")
            if match.lastgroup != "space":
                yield match.lastgroup, match.group(), at
            at = match.end()
        yield "end", "the end", at

    def _peek(self):
        return self._tokens[self._next]

    def _take(self):
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _accept(self, *marks):
        kind, text, _ = self._peek()
        if kind != "mark" or text not in marks:
            return None
        self._next += 1
        return text

    def _expect(self, kind, what, text=None):
        found_kind, found, at = self._peek()
        if found_kind != kind or (text is not None and found != text):
            raise self._error(at, f"expected {what}, found {found}")
        self._next += 1
        return found

    def message(self, close, depth):
        """The fields up to the mark `close`; None: up to the end."""
        if depth > _MAX_DEPTH:
            raise self._error(self._peek()[2], f"it is nested deeper than {_MAX_DEPTH} messages")
        fields, repeated = {}, set()
        while True:
            kind, text, at = self._peek()
            if kind == "end" and close is None:
                return fields
            if kind == "mark" and text == close:
                self._next += 1
                return fields
            if self._accept("["):
                self._any(fields, at, depth)
            else:
                name = self._expect("word", f"the name of a field or '{close}'" if close else "the name of a field")
                self._field(fields, repeated, name, depth)
            self._accept(",", ";")

    def _any(self, fields, at, depth):
        parts = []
        while not self._accept("]"):
            kind, text, where = self._take()
            if kind not in ("word", "number") and text not in ("/", ".", "-"):
                raise self._error(where, f"expected ']' after the name of a type, found {text}")
            parts.append(text)
        name = "".join(parts)
        if "/" not in name:
            raise self._error(at, f"the extension [{name}] is not read here")
        if fields:
            raise self._error(at, f"a message [{name}] beside other fields")
        self._accept(":")
        content = self._message_value(depth)
        if content is None:
            raise self._error(self._peek()[2], f"expected '{{' after [{name}]")
        fields[TYPE] = name.rsplit("/", 1)[1]
        fields.update(content)

    def _message_value(self, depth):
        opened = self._accept("{", "<")
        return None if opened is None else self.message("}" if opened == "{" else ">", depth + 1)

    def _field(self, fields, repeated, name, depth):
        colon = self._accept(":")
        if self._accept("["):
            values = self._list(depth)
            many = True
        else:
            value = self._message_value(depth)
            if value is None and not colon:
                _, found, at = self._peek()
                raise self._error(at, f"expected ':' or a message after '{name}', found {found}")
            values = [self._scalar() if value is None else value]
            many = name in fields
        if not many:
            fields[name] = values[0]
            return
        if name in fields and name not in repeated:
            fields[name] = [fields[name]]
        repeated.add(name)
        fields.setdefault(name, []).extend(values)

    def _list(self, depth):
        values = []
        if self._accept("]"):
            return values
        while True:
            value = self._message_value(depth)
            values.append(self._scalar() if value is None else value)
            if self._accept("]"):
                return values
            self._expect("mark", "',' or ']'", ",")

    def _scalar(self):
        kind, text, at = self._take()
        if kind == "string":
            return self._string(text, at)
        sign = 1
        if kind == "mark" and text == "-":
            sign = -1
            kind, text, at = self._take()
        if kind == "number":
            return sign * self._number(text, at)
        if kind == "word" and text.lower() in _FLOATS:
            return sign * _FLOATS[text.lower()]
        if kind == "word" and sign == 1:
            return _WORDS.get(text, text)
        raise self._error(at, f"expected a value, found {text}")

    def _number(self, text, at):
        try:
            if text[:2] in ("0x", "0X"):
                return int(text, 16)
            if text.isdigit():
                return int(text, 8 if text[0] == "0" and len(text) > 1 else 10)
            return float(text.rstrip("fF"))
        except ValueError:
            raise self._error(at, f"'{text[:40]}' is not a number") from None

    def _string(self, text, at):
        data = self._unescape(text[1:-1], at)
        while self._peek()[0] == "string":
            _, more, at = self._take()
            data += self._unescape(more[1:-1], at)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return data

    def _unescape(self, text, at):
        data, done = b"", 0
        for match in _ESCAPE.finditer(text):
            data += text[done : match.start()].encode("utf-8") + self._escaped(match, at)
            done = match.end()
        return data + text[done:].encode("utf-8")

    def _escaped(self, match, at):
        if match["hex"]:
            return bytes([int(match["hex"], 16)])
        if match["octal"] and int(match["octal"], 8) < 256:
            return bytes([int(match["octal"], 8)])
        code = match["u4"] or match["u8"]
        try:
            return _ONE[match["one"]] if code is None else chr(int(code, 16)).encode("utf-8")
        except (KeyError, ValueError, OverflowError):
            raise self._error(at, f"'{match.group()}' is not an escape in a string") from None


def parse_text_config(text, source="config"):
    """The nested dicts of a text. FormatError, with line and column, where it is not of the format."""
    return _Parser(text, source).message(None, 0)


def read_config(path):
    """Likewise, of a file, such as a run's total_config.textproto."""
    try:
        return parse_text_config(read_file(path).decode("utf-8"), f"'{path}'")
    except UnicodeDecodeError:
        raise FormatError(f"'{path}' is not UTF-8") from None
