"""Networks of checkpoints: encoder, optionally an LSTM or a GRU, and heads.

    input ── encoder/0 ── encoder/1 ── ... ──[rnn]──┬── <head>/0 ── ... ── output <head>
                                                    └── <head>/advantage/... , <head>/value/...  (dueling)

The names and shapes of the parameters say which layers there are; the config says the activation. All sums are float64.
docs/reference/checkpoint_format.md lists the names.
"""

import numpy as np

from ding_worker.errors import FormatError, UnsupportedError

_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


class _Chain:
    """Linear layers "<name>/0", "<name>/1", ... with the activation after each, or after all but the last."""

    def __init__(self, take, name, width, activation, activate_last):
        self._layers = []
        self._activation = activation
        self._activate_last = activate_last
        while (weight := take(f"{name}/{len(self._layers)}/weight", (None, width))) is not None:
            bias = take(f"{name}/{len(self._layers)}/bias", (weight.shape[0],), required=True)
            # The deviations of noisy layers, whose best action is that of the means.
            if take(f"{name}/{len(self._layers)}/weight_deviation", weight.shape) is not None:
                take(f"{name}/{len(self._layers)}/bias_deviation", bias.shape, required=True)
            self._layers.append((weight.T, bias))
            width = weight.shape[0]
        self.width = width

    def __len__(self):
        return len(self._layers)

    def __call__(self, x):
        for i, (weight, bias) in enumerate(self._layers):
            x = x @ weight + bias
            if self._activate_last or i + 1 < len(self._layers):
                x = self._activation(x)
        return x


class _DuelingHead:
    """Each action has as many advantages as there are values: one, or one for each atom or quantile."""

    def __init__(self, advantage, value):
        self._advantage = advantage
        self._value = value
        self.width = advantage.width

    def __call__(self, x):
        value = self._value(x)
        advantage = self._advantage(x).reshape(len(x), -1, value.shape[1])
        return (value[:, np.newaxis] + advantage - advantage.mean(axis=1, keepdims=True)).reshape(len(x), -1)


class _Cell:
    """An LSTM (state: h and then c) or a GRU (state: h), with torch's order of gates."""

    def __init__(self, take, width):
        weight_ih = take("rnn/weight_ih", (None, width), required=True)
        weight_hh = take("rnn/weight_hh", (weight_ih.shape[0], None), required=True)
        gates = weight_ih.shape[0]
        bias = take("rnn/bias", (gates,))
        self._is_lstm = bias is not None
        if self._is_lstm:
            self._bias_ih, self._bias_hh = bias, np.zeros(gates)
        else:
            self._bias_ih = take("rnn/bias_ih", (gates,), required=True)
            self._bias_hh = take("rnn/bias_hh", (gates,), required=True)
        self.width = weight_hh.shape[1]
        if gates != (4 if self._is_lstm else 3) * self.width:
            raise FormatError(f"a recurrent layer with {gates} rows of gates for {self.width} features")
        self.state_size = (2 if self._is_lstm else 1) * self.width
        self._weight_ih, self._weight_hh = weight_ih.T, weight_hh.T

    def __call__(self, x, state):
        """Returns the output and the state after the step."""
        size = self.width
        hidden = state[:, :size]
        a = x @ self._weight_ih + self._bias_ih
        b = hidden @ self._weight_hh + self._bias_hh
        if self._is_lstm:
            i, f, g, o = np.split(a + b, 4, axis=1)
            cell = _sigmoid(f) * state[:, size:] + _sigmoid(i) * np.tanh(g)
            hidden = _sigmoid(o) * np.tanh(cell)
            return hidden, np.concatenate([hidden, cell], axis=1)
        (a_r, a_z, a_n), (b_r, b_z, b_n) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
        r, z = _sigmoid(a_r + b_r), _sigmoid(a_z + b_z)
        hidden = (1 - z) * np.tanh(a_n + r * b_n) + z * hidden
        return hidden, hidden


class Network:
    """A network of the tensors `parameters`, with the outputs `heads` and the activation "relu" or "tanh".

    `values` are distributions.make_values() of a policy of distributions of returns, which make "q" [B, actions] out of the head "q".

    input_width   elements of a row of the input
    state_size    floats of the recurrent state of a row; 0 without memory
    has_noise     whether layers have deviations, by which a policy explores; the outputs are those without noise
    """

    def __init__(self, parameters, activation, heads, values=None):
        if any("conv/" in name for name in parameters):
            raise UnsupportedError(
                "the network has convolutions (type 'torch_cnn'), which this package does not compute; use //worker:evaluate_torch"
            )
        if activation not in _ACTIVATIONS:
            raise UnsupportedError(f"the activation '{activation}' is not known; known are {', '.join(_ACTIVATIONS)}")
        self._values = values
        self._parameters = parameters
        self._left = set(parameters)
        self.input_width = self._find_input_width(heads)
        self._encoder = _Chain(self._take, "encoder", self.input_width, _ACTIVATIONS[activation], activate_last=True)
        self._cell = _Cell(self._take, self._encoder.width) if "rnn/weight_ih" in parameters else None
        self.state_size = 0 if self._cell is None else self._cell.state_size
        width = self._encoder.width if self._cell is None else self._cell.width
        if values is not None:
            values.load(self._take, width, _ACTIVATIONS[activation])
        self._heads = {head: self._make_head(head, width, _ACTIVATIONS[activation]) for head in heads}
        self.has_noise = any(name.endswith("/weight_deviation") for name in parameters)
        if self._left:
            raise UnsupportedError(f"{parameters.source} has unknown parameters: {', '.join(sorted(self._left))}")

    def head_width(self, head):
        width = self._heads[head].width
        return width if self._values is None else self._values.num_actions(width)

    def __call__(self, x, state):
        """The outputs [B, W] by name for rows [B, input_width], and the states [B, state_size] after them."""
        x = self._encoder(np.asarray(x, dtype=np.float64))
        if self._cell is not None:
            x, state = self._cell(x, state)
        if self._values is not None:
            return self._values(x, self._heads["q"]), state
        return {name: head(x) for name, head in self._heads.items()}, state

    def _find_input_width(self, heads):
        head = heads[0]
        for name in ("encoder/0", "rnn", f"{head}/0", f"{head}/advantage/0"):
            weight = name + ("/weight_ih" if name == "rnn" else "/weight")
            if weight in self._parameters:
                return self._parameters.get_array(weight, np.float32, (None, None)).shape[1]
        raise UnsupportedError(f"{self._parameters.source} has neither an encoder nor the head '{head}'")

    def _take(self, name, shape, required=False):
        """The parameter as float64; None if there is none."""
        if name not in self._parameters and not required:
            return None
        array = self._parameters.get_array(name, np.float32, shape)
        if not np.isfinite(array).all():
            raise FormatError(f"{self._parameters.source}: '{name}' is not finite")
        self._left.discard(name)
        return array.astype(np.float64)

    def _make_head(self, head, width, activation):
        chain = _Chain(self._take, head, width, activation, activate_last=False)
        if len(chain) > 0:
            return chain
        advantage = _Chain(self._take, f"{head}/advantage", width, activation, activate_last=False)
        value = _Chain(self._take, f"{head}/value", width, activation, activate_last=False)
        values = 1 if self._values is None else self._values.head_values
        if len(advantage) == 0 or len(value) == 0 or value.width != values or advantage.width % values:
            raise FormatError(f"{self._parameters.source} has no whole head '{head}'")
        return _DuelingHead(advantage, value)
