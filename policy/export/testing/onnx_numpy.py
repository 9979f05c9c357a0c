"""Reads an ONNX file and runs it with numpy: as much of ONNX as exports use, to check them without its libraries."""

import numpy as np

_DTYPES = {1: np.float32, 2: np.uint8, 7: np.int64, 9: np.bool_, 11: np.float64}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a protobuf message: {number: [values]}."""
    found, at = {}, 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            value = value - (1 << 64) if value >= 1 << 63 else value
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size, "truncated"
        else:
            raise ValueError(f"wire type {tag & 7}")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _texts(values):
    return [bytes(value).decode() for value in values]


def _attributes(node):
    result = {}
    for proto in node.get(5, []):
        attribute = fields(proto)
        kind = attribute[20][0]
        assert kind in (2, 7), kind
        result[_texts(attribute[1])[0]] = attribute[3][0] if kind == 2 else attribute.get(8, [])
    return result


def _reshape(x, shape):
    return x.reshape([int(extent) for extent in shape])


def _conv(x, weight, bias, attributes):
    pads, (stride, _) = attributes["pads"], attributes["strides"]
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    kernel = weight.shape[2]
    rows, columns = ((extent - kernel) // stride + 1 for extent in x.shape[2:])
    y = np.zeros((len(x), len(weight), rows, columns), np.float32)
    for i in range(rows):
        for j in range(columns):
            window = x[:, :, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
            y[:, :, i, j] = np.tensordot(window, weight, ([1, 2, 3], [1, 2, 3])) + bias
    return y


_OPS = {
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Min": lambda a, x, y: np.minimum(x, y),
    "Max": lambda a, x, y: np.maximum(x, y),
    "Relu": lambda a, x: np.maximum(x, np.float32(0)),
    "Tanh": lambda a, x: np.tanh(x),
    "Softmax": lambda a, x: (lambda e: e / e.sum(axis=a["axis"], keepdims=True))(np.exp(x - x.max(axis=a["axis"], keepdims=True))),
    "Sigmoid": lambda a, x: (1 / (1 + np.exp(-x))).astype(x.dtype),
    "Cast": lambda a, x: x.astype(_DTYPES[a["to"]]),
    "Reshape": lambda a, x, shape: _reshape(x, shape),
    "Concat": lambda a, *x: np.concatenate(x, axis=a["axis"]),
    "Gemm": lambda a, x, w, b: x @ w.T + b,
    "Conv": lambda a, x, w, b: _conv(x, w, b, a),
    "Where": lambda a, c, x, y: np.where(c, x, y),
    "ReduceMean": lambda a, x: x.mean(axis=tuple(a["axes"]), keepdims=bool(a["keepdims"])),
    "ArgMax": lambda a, x: x.argmax(axis=a["axis"])[:, np.newaxis],
}


def run(path, inputs):
    """The outputs of the model for arrays by name, which must have the declared types."""
    with open(path, "rb") as file:
        model = fields(memoryview(file.read()))
    assert model[1] == [8] and fields(model[8][0])[2] == [13], "IR version and opset"
    graph = fields(model[7][0])
    values = dict(inputs)
    for proto in graph.get(11, []):
        info = fields(proto)
        dtype = _DTYPES[fields(fields(info[2][0])[1][0])[1][0]]
        name = _texts(info[1])[0]
        assert values[name].dtype == dtype, f"{name}: {values[name].dtype}, declared {dtype}"
    for proto in graph.get(5, []):
        tensor = fields(proto)
        data = np.frombuffer(tensor[9][0], _DTYPES[tensor[2][0]])
        values[_texts(tensor[8])[0]] = data.reshape(tensor.get(1, []))
    for proto in graph[1]:
        node = fields(proto)
        op, names = _texts(node[4])[0], _texts(node[2])
        given = [values[name] for name in _texts(node[1])]
        if op == "Split":
            results = np.split(given[0], np.cumsum(given[1])[:-1], axis=_attributes(node)["axis"])
        else:
            results = [_OPS[op](_attributes(node), *given)]
        assert len(results) == len(names)
        values.update(zip(names, results))
    return {_texts(fields(proto)[1])[0]: values[_texts(fields(proto)[1])[0]] for proto in graph[12]}
