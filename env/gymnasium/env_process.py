R"PY("  # The file is a C++ string as well, up to its last line: python_program.cc includes it.
"""Runs environments with Gymnasium's interface, or games with PettingZoo's parallel one, for an env manager of ding_worker.

    env_process.py PLAN      PLAN: the number of an open file with JSON that says what to run and where to write

The manager shares memory with this process (env/process/env_process.h). A request and its answer are numbers in it; rows of
observations and actions are views of it, so that an observation is copied once. Everything else (errors, images, saved
states) travels as a message in it (env/process/process_message.h). One thread; needs numpy, and gymnasium for gymnasium.make.
"""

import atexit
import ctypes
import importlib
import inspect
import json
import mmap
import operator
import os
import platform
import re
import resource
import struct
import sys
import sysconfig
import threading
import time
import traceback

# Threads of numpy's own gain nothing in one of several processes, and each takes memory.
for _name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'):
    os.environ.setdefault(_name, '1')

# Values of C++ enums: ProcessMemory::Turn and Next, EnvCall, absl::StatusCode, DType.
ASKED, ANSWERED = 1, 2
NOT_PREPARED, WANTED, PREPARED, PREPARING = 0, 1, 2, 3  # ProcessMemory::Next
WAITING, BUILD, RESET, STEP, RENDER, SAVE, LOAD, IDLE = 2, 3, 4, 5, 6, 7, 8, 1
INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, UNIMPLEMENTED, INTERNAL, DATA_LOSS = 3, 5, 9, 12, 13, 15
BOOL, UINT8, INT32, INT64, FLOAT32, FLOAT64 = 0, 1, 2, 3, 4, 5
ABNORMAL = 1 << 16  # where the ends of a step are
MEMORY_EXIT_CODE = 201
# How long it looks for requests before it sleeps: as long as sleeping and waking takes, or longer if the last one came soon.
SPIN_NANOSECONDS, SHORT_WAIT_NANOSECONDS = 20_000, 200_000
WAITS_ASLEEP = 100  # waits that are not spent awake after the machine was found to be busy
SLEEP_SECONDS = 0.1  # a request wakes the process before
SCRIPT = __file__
LONGEST_TEXT = 20_000  # of an error
SECONDS_TO_EXIT = 3
HOW_TO_DEBUG = ('The process of an env has no terminal and no stdin. Debug one env alone, in a Python program of yours that calls '
                'its reset() and step(), or set PYTHONBREAKPOINT to a debugger that does not need a terminal')
np = None  # numpy, once it is imported


class Failure(Exception):
    """An error whose message says everything; no traceback is added."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def text_of(error):
    """The traceback of an error without the lines of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == SCRIPT:
        trace = trace.tb_next
    text = ''.join(traceback.format_exception(type(error), error, trace)).rstrip()
    if len(text) > LONGEST_TEXT:
        text = f'{text[:LONGEST_TEXT // 2]}\n... {len(text) - LONGEST_TEXT} characters ...\n{text[-LONGEST_TEXT // 2:]}'
    asks_a_person = isinstance(error, EOFError) or type(error).__name__ == 'BdbQuit'
    return f'{text}\n{HOW_TO_DEBUG}' if asks_a_person else text


# Messages: as ProcessMessageWriter and ProcessMessageReader.


def put_bytes(data):
    return struct.pack('<q', len(data)) + data


def put_text(text):
    return put_bytes(text.encode('utf-8', 'backslashreplace'))


def put_status(code=0, message=''):
    return struct.pack('<i', code) + put_text(message)


def put_values(values):
    return struct.pack('<q', len(values)) + b''.join(
        put_text(name) + struct.pack('<d', value) for name, value in values.items())


def put_floats(values):
    return struct.pack('<q%dd' % len(values), len(values), *values)


def put_shape(shape):
    return struct.pack('<q%dq' % len(shape), len(shape), *shape)


class Message:
    """Takes the values of a message in the order in which they were put."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value, = struct.unpack_from('<' + form, self.data, self.at)
        self.at += struct.calcsize('<' + form)
        return value

    def bytes(self):
        size = self.number('q')
        self.at += size
        return self.data[self.at - size:self.at]

    def values(self):
        return {self.bytes().decode(): self.number('d') for _ in range(self.number('q'))}


# Spaces. They are recognized by the names of their classes, so that gymnasium need not be there.

KINDS = ('Box', 'Discrete', 'MultiDiscrete', 'MultiBinary', 'Dict', 'Tuple')


UNKNOWN = 'unknown'
# The observation fields that wrappers of the config (mask_fields) leave out: their names, or those of all others.
LEFT_OUT, KEPT = [], []


def is_left_out(name):
    return name in LEFT_OUT or (bool(KEPT) and name.startswith('obs') and name not in KEPT)


def kind_of(space, path):
    for base in type(space).__mro__:
        if base.__name__ in KINDS:
            return base.__name__
    if is_left_out(path):
        return UNKNOWN
    raise Failure(INVALID_ARGUMENT, f"the space of '{path}' is a {type(space).__name__}, expected {', '.join(KINDS[:-1])} "
                  f"or {KINDS[-1]}: wrap the env in one that converts it, or leave it out by the wrapper mask_fields {{ remove: "
                  f"'{path}' }}")


def children_of(space, kind):
    if kind == 'Dict':
        return [(str(name), name, child) for name, child in space.spaces.items()]
    return [(str(i), i, child) for i, child in enumerate(space.spaces)]


def collapsed(bounds):
    """The bounds of the elements, or one for all if they are equal."""
    values = np.asarray(bounds, dtype=np.float64).reshape(-1)
    if values.size > 0 and (values == values[0]).all():
        return [float(values[0])]
    return [float(value) for value in values]


class Field:
    """A field of a row: what FieldSpec says."""

    def __init__(self, name, dtype, shape, low=(), high=(), categories=0):
        self.name, self.dtype, self.shape = name, dtype, tuple(int(n) for n in shape)
        self.low, self.high, self.categories = list(low), list(high), int(categories)

    def encoded(self):
        return (put_text(self.name) + struct.pack('<i', self.dtype) + put_shape(self.shape) + put_floats(self.low) +
                put_floats(self.high) + struct.pack('<qi', self.categories, -1))

    def text(self):
        name = STORED[self.dtype]
        bounds = f' in {self.low}..{self.high}' if self.low else ''
        kinds = f', {self.categories} categories' if self.categories else ''
        return f'{self.name}: {name}{list(self.shape)}{bounds}{kinds}'


# The dtype of the field for each dtype of a Box.
NARROWED = {'bool': BOOL, 'uint8': UINT8, 'int8': INT32, 'int16': INT32, 'uint16': INT32, 'int32': INT32,
            'uint32': INT64, 'int64': INT64, 'float16': FLOAT32, 'float32': FLOAT32, 'float64': FLOAT32}
STORED = ('bool', 'uint8', 'int32', 'int64', 'float32', 'float64')
FORMATS = '?Bilfd'


def box_dtype(space, path):
    name = np.dtype(space.dtype).name
    if name not in NARROWED:
        raise Failure(INVALID_ARGUMENT, f"the space of '{path}' is a Box of {name}, expected one of {', '.join(NARROWED)}")
    return NARROWED[name]


def field_of(space, kind, name):
    """The field for a space that is neither a Dict nor a Tuple."""
    if kind == UNKNOWN:
        return Field(name, UINT8, ())  # which a wrapper leaves out
    if kind == 'Discrete':
        return Field(name, INT64, (), categories=space.n)
    if kind == 'MultiBinary':
        return Field(name, BOOL, space.shape)
    if kind == 'MultiDiscrete':
        nvec = np.asarray(space.nvec).reshape(-1)
        return Field(name, INT64, np.shape(space.nvec), [0.0] * nvec.size, [float(n - 1) for n in nvec], nvec.max())
    dtype = box_dtype(space, name)
    low, high = collapsed(space.low), collapsed(space.high)
    if dtype in (BOOL, UINT8) and low == [0.0] and high == [255.0 if dtype == UINT8 else 1.0]:
        low, high = [], []  # all values of the type
    if all(value == -np.inf for value in low) and all(value == np.inf for value in high):
        low, high = [], []
    if len(low) != len(high):  # one for all beside one per element
        size = int(np.prod(space.shape))
        low, high = (bounds * size if len(bounds) == 1 else bounds for bounds in (low, high))
    return Field(name, dtype, space.shape, low, high)


MASK_FIELDS = ['obs/action_mask']  # of each player in a game


def observation_fields(space, name, fields, mask_width):
    if name in MASK_FIELDS and mask_width is not None:
        fields.append(Field(name, BOOL, (mask_width,)))
        return
    kind = kind_of(space, name)
    if kind in ('Dict', 'Tuple'):
        for part, _, child in children_of(space, kind):
            observation_fields(child, f'{name}/{part}', fields, mask_width)
        return
    fields.append(field_of(space, kind, name))


def action_leaves(space, name, leaves):
    kind = kind_of(space, name)
    if kind in ('Dict', 'Tuple'):
        for part, _, child in children_of(space, kind):
            action_leaves(child, f'{name}/{part}', leaves)
        return
    leaves.append((space, kind, name))


def start_of(space, kind):
    """The first category: an integer, or an array."""
    if kind == 'Box':
        return np.asarray(space.low, dtype=np.int64)
    start = getattr(space, 'start', None)
    return np.int64(0) if start is None else np.asarray(start, dtype=np.int64)


def counts_of(space, kind, name):
    """The numbers of categories of a space of discrete actions; None if the actions are real numbers."""
    if kind in ('Discrete', 'MultiDiscrete'):
        counts = [int(n) for n in np.asarray(space.n if kind == 'Discrete' else space.nvec).reshape(-1)]
        if min(counts, default=0) < 1:
            raise Failure(INVALID_ARGUMENT, f"the action '{name}' is a {kind} of {counts} categories, expected at least one")
        return counts
    if kind == 'MultiBinary':
        return [2] * int(np.prod(space.shape))
    if np.dtype(space.dtype).kind == 'f':
        return None
    low, high = np.asarray(space.low).reshape(-1).tolist(), np.asarray(space.high).reshape(-1).tolist()
    counts = [int(last) - int(first) + 1 for first, last in zip(low, high)]
    if max(counts) > 1 << 16:
        raise Failure(INVALID_ARGUMENT, f"the action '{name}' is a Box of integers with {max(counts)} values, expected at "
                      'most 65536: bound it')
    return counts


def action_field(space, name):
    leaves = []
    action_leaves(space, name, leaves)
    counts = [counts_of(*leaf) for leaf in leaves]
    if all(count is not None for count in counts):
        flat = [n for count in counts for n in count]
        if len(leaves) == 1 and leaves[0][1] == 'Discrete':
            return Field(name, INT64, (), categories=flat[0])
        return Field(name, INT64, (len(flat),), [0.0] * len(flat), [n - 1.0 for n in flat], max(flat))
    if any(count is not None for count in counts):
        raise Failure(INVALID_ARGUMENT, f"the space of '{name}' has discrete and continuous parts (" + ', '.join(
            f'{leaf} is a {kind}' for _, kind, leaf in leaves) + '), expected only one of both')
    low = np.concatenate([np.asarray(leaf.low, dtype=np.float64).reshape(-1) for leaf, _, _ in leaves])
    high = np.concatenate([np.asarray(leaf.high, dtype=np.float64).reshape(-1) for leaf, _, _ in leaves])
    low, high = collapsed(low), collapsed(high)
    if len(low) != len(high):
        size = max(len(low), len(high))
        low, high = (bounds * size if len(bounds) == 1 else bounds for bounds in (low, high))
    shape = leaves[0][0].shape if len(leaves) == 1 else (sum(int(np.prod(leaf.shape)) for leaf, _, _ in leaves),)
    return Field(name, FLOAT32, shape, low, high)


# Writers copy an observation into a row. They check its type and shape at no cost where they can: the assignment
# fails otherwise, and `refuse` then says what is wrong. Bounds are checked by the manager.


def described(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return f'{value.dtype.name}{list(value.shape)}'
    return f'a {type(value).__name__} ({str(value)[:60]})'


def box_writer(space, field, row, memory):
    expected, shape = np.dtype(space.dtype), field.shape

    def write_slowly(value):
        known = isinstance(value, (np.ndarray, np.generic))
        if not known and shape == () and isinstance(value, (bool, int, float)):
            value = np.asarray(value, dtype=expected)
        elif not known or value.dtype.newbyteorder('=') != expected.newbyteorder('='):
            raise Failure(INTERNAL, f"the observation '{field.name}' is {described(value)}, expected {expected.name}"
                          f'{list(shape)} as its space says')
        if value.shape != shape:
            raise Failure(INTERNAL, f"the observation '{field.name}' is {described(value)}, expected {expected.name}"
                          f'{list(shape)} as its space says')
        row[...] = value

    if len(shape) == 1 and expected.name == STORED[field.dtype]:
        start = memory['offset'] // row.itemsize
        numbers, part = memory['all'].cast(FORMATS[field.dtype]), slice(start, start + shape[0])

        def write(value):
            try:
                numbers[part] = value
            except (TypeError, ValueError):
                write_slowly(value)
        write.vector = numbers, part
        return write

    def write_array(value):
        try:
            if value.dtype is expected and value.shape == shape:
                row[...] = value
                return
        except AttributeError:
            pass
        write_slowly(value)
    return write_array


def category_writer(space, kind, field, row):
    start = start_of(space, kind)

    def write(value):
        try:
            if kind == 'Discrete':
                row[...] = operator.index(value) - start
                return
            if value.shape == field.shape and value.dtype.kind in 'biu':
                row[...] = value - start if kind == 'MultiDiscrete' else value
                return
        except (TypeError, AttributeError):
            pass
        raise Failure(INTERNAL, f"the observation '{field.name}' is {described(value)}, expected integers{list(field.shape)}"
                      f' as its space, a {kind}, says')
    return write


def observation_writer(space, name, fields, rows, memory, action):
    """A function that writes an observation; takes the fields of the space off the front of `fields` and `rows`."""
    if name in MASK_FIELDS and width_of(action) is not None:
        row = mask_row(fields.pop(0), rows, memory)
        return lambda mask: write_mask(row, action, mask, f"the observation '{name}'")
    kind = kind_of(space, name)
    if kind in ('Dict', 'Tuple'):
        parts = [(key, observation_writer(child, f'{name}/{part}', fields, rows, memory, action))
                 for part, key, child in children_of(space, kind)]
        keys = [key for key, _ in parts]

        def write(value):
            for key, write_part in parts:
                try:
                    part = value[key]
                except (KeyError, IndexError, TypeError):
                    found = list(value) if isinstance(value, dict) else described(value)
                    raise Failure(INTERNAL, f"the observation '{name}' has no {key!r}: found {found}, expected {keys} as its "
                                  f'space, a {kind}, says') from None
                write_part(part)
        return write
    field, offset = fields.pop(0), rows.pop(0)
    if kind == UNKNOWN:
        return lambda value: None
    dtype = np.uint8 if field.dtype == BOOL else np.dtype(STORED[field.dtype])
    size = int(np.prod(field.shape))
    row = np.frombuffer(memory, dtype=dtype, count=size, offset=offset).reshape(field.shape)
    if kind == 'Box':
        return box_writer(space, field, row, {'all': memory, 'offset': offset})
    return category_writer(space, kind, field, row)


def has_float32s(space):
    """Whether each element of a Box has float32 values within its bounds: the manager rounds the bounds to these."""
    with np.errstate(over='ignore'):
        low, high = np.asarray(space.low).astype(np.float32), np.asarray(space.high).astype(np.float32)
    low = np.where(low < space.low, np.nextafter(low, np.float32(np.inf)), low)
    high = np.where(high > space.high, np.nextafter(high, np.float32(-np.inf)), high)
    return bool((low <= high).all()) and np.dtype(space.dtype).itemsize <= 8


def action_reader(space, kind, row):
    """A function that makes an action for the env out of a row, which it must not keep."""
    if kind == 'Box' and np.dtype(space.dtype).kind == 'f':
        shape, dtype = space.shape, np.dtype(space.dtype)
        if has_float32s(space):
            return lambda: row.astype(dtype).reshape(shape)
        return lambda: np.clip(row.astype(dtype).reshape(shape), space.low, space.high)
    start, dtype = start_of(space, kind), np.dtype(getattr(space, 'dtype', None) or np.int64)
    if kind == 'Discrete':
        first = np.int64(start)
        return lambda: row[0] + first
    shape = space.shape
    if kind == 'MultiBinary':
        return lambda: row.astype(dtype).reshape(shape)
    return lambda: (row.reshape(shape) + start).astype(dtype)


def nested_action_reader(space, rows):
    kind = kind_of(space, 'action')
    if kind == 'Dict':
        parts = [(key, nested_action_reader(child, rows)) for _, key, child in children_of(space, kind)]
        return lambda: {key: read() for key, read in parts}
    if kind == 'Tuple':
        readers = [nested_action_reader(child, rows) for _, _, child in children_of(space, kind)]
        return lambda: tuple(read() for read in readers)
    size = len(counts_of(space, kind, 'action') or range(int(np.prod(space.shape))))
    row, rows[0] = rows[0][:size], rows[0][size:]
    return action_reader(space, kind, row)


# What one player sees and does. `name` is that of its observation: 'obs', in a game 'obs/<player>'.


def fields_of(observation, action, has_mask, name='obs', action_name='action'):
    """The fields of the rows: those of the observation, and that of the action."""
    nested = kind_of(observation, name) in ('Dict', 'Tuple')
    fields = []
    field = action_field(action, action_name)
    width = width_of(action)
    observation_fields(observation, name if nested or not has_mask else f'{name}/observation', fields, width)
    if has_mask and all(other.name not in MASK_FIELDS for other in fields):
        if width is None:
            raise Failure(INVALID_ARGUMENT, f"info has an 'action_mask', but '{action_name}' is continuous, expected discrete actions")
        fields.append(Field(f'{name}/action_mask', BOOL, (width,)))
    return fields, field


def bind_player(spaces, fields, field, rows, action_at, memory, name='obs'):
    """Functions that write an observation and read an action; and the row of the mask that comes in `info`, or None.

    Takes the rows of the player off the front of `rows`."""
    observation, action_space = spaces
    nested = kind_of(observation, name) in ('Dict', 'Tuple')
    fields = list(fields)
    masked = fields and fields[-1].name in MASK_FIELDS
    write = observation_writer(observation, name if nested or not masked else f'{name}/observation', fields, rows, memory,
                               action_space)
    mask = mask_row(fields[0], rows, memory) if fields else None
    if kind_of(action_space, 'action') == 'Discrete':
        numbers, first = np.frombuffer(memory, np.int64, 1, action_at), np.int64(start_of(action_space, 'Discrete'))
        return write, mask, ((lambda: numbers[0] + first) if first else (lambda: numbers[0]))
    flat = np.frombuffer(memory, dtype=np.dtype(STORED[field.dtype]), count=int(np.prod(field.shape)), offset=action_at)
    return write, mask, nested_action_reader(action_space, [flat])


def mask_row(field, rows, memory):
    return np.frombuffer(memory, dtype=np.uint8, count=field.shape[0], offset=rows.pop(0))


def write_info_mask(row, action, info, over):
    mask = info.get('action_mask')
    if mask is not None:
        write_mask(row, action, mask, "info['action_mask']")
    elif over:
        row[:] = 1
    else:
        raise Failure(INTERNAL, "info has no 'action_mask', expected one after each step: the first reset gave one")


def write_mask(row, action, mask, name):
    if not isinstance(mask, np.ndarray) or mask.shape != row.shape or mask.dtype.kind not in 'biuf':
        flat = flat_mask(action, mask)
        if flat is None:
            raise Failure(INTERNAL, f'{name} is {described(mask)}, expected {mask_form(action)}: an element per category that says '
                          'whether the category is legal')
        mask = flat
    row[:] = mask != 0


def width_of(action):
    """The number of elements of a mask; None if the actions are continuous."""
    leaves = []
    action_leaves(action, 'action', leaves)
    counts = [counts_of(*leaf) for leaf in leaves]
    return None if any(count is None for count in counts) else sum(map(sum, counts))


def flat_mask(space, mask):
    """The elements of a mask of any form that mask_form() names; None if it has another form."""
    kind = kind_of(space, 'action')
    if mask is None:
        return np.ones(width_of(space), bool)  # Gymnasium: this part has no mask.
    children = children_of(space, kind) if kind in ('Dict', 'Tuple') else []
    if kind == 'Dict' and isinstance(mask, dict):
        return joined([(child, mask[key]) for _, key, child in children]) if set(mask) == {key for _, key, _ in children} else None
    if kind == 'Tuple' and isinstance(mask, (tuple, list)) and any(not np.isscalar(part) for part in mask):
        return joined([(child, part) for (_, _, child), part in zip(children, mask)]) if len(mask) == len(children) else None
    counts = [width_of(space)] if children else counts_of(space, kind, 'action')
    if isinstance(mask, (tuple, list)) or (isinstance(mask, np.ndarray) and mask.dtype == object):
        parts = [np.asarray(part) for part in mask]
        if [part.shape for part in parts] == [(count,) for count in counts]:
            return np.concatenate(parts)
    try:
        array = np.asarray(mask)
    except ValueError:  # Its parts differ in length.
        return None
    shapes = [(sum(counts),)]
    if not children and min(counts) == max(counts):
        shapes += [(len(counts), counts[0]), (*space.shape, counts[0])]
    return array.reshape(-1) if array.shape in shapes and array.dtype.kind in 'biuf' else None


def joined(parts):
    masks = [flat_mask(space, mask) for space, mask in parts]
    return None if any(mask is None for mask in masks) else np.concatenate(masks)


def mask_form(space):
    """The forms of a mask, for people."""
    kind = kind_of(space, 'action')
    if kind == 'Dict':
        return '{' + ', '.join(f'{key!r}: {mask_form(child)}' for _, key, child in children_of(space, kind)) + '}'
    if kind == 'Tuple':
        return '(' + ', '.join(mask_form(child) for _, _, child in children_of(space, kind)) + ')'
    counts = counts_of(space, kind, 'action')
    if len(counts) == 1:
        return f'bool[{counts[0]}]'
    if min(counts) == max(counts):
        return f'bool{[sum(counts)]} or bool{[*space.shape, counts[0]]}'
    return f'bool{[sum(counts)]} or (' + ', '.join(f'bool[{count}]' for count in counts) + ')'


# Saved states: get_state() may return numbers, texts, bytes, arrays, and lists and dicts of them. Nothing is pickled.


def pack(value, arrays):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray)):
        arrays.append(bytes(value))
        return {'bytes': len(arrays) - 1}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in 'biufc':
        arrays.append(np.ascontiguousarray(value).tobytes())
        return {'array': len(arrays) - 1, 'dtype': value.dtype.str, 'shape': list(value.shape)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [pack(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {'dict': [[pack(key, arrays), pack(part, arrays)] for key, part in value.items()]}
    raise Failure(INVALID_ARGUMENT, f'get_state() returned a {type(value).__name__} ({str(value)[:60]}), expected numbers, '
                  'texts, bytes, arrays, and lists, tuples and dicts of them')


def unpack(value, arrays):
    if not isinstance(value, dict):
        return value
    if 'bytes' in value:
        return arrays[value['bytes']]
    if 'array' in value:
        array = np.frombuffer(arrays[value['array']], dtype=np.dtype(value['dtype'])).reshape(value['shape']).copy()
        return array if value['shape'] else array[()]
    if 'dict' in value:
        return {unpack(key, arrays): unpack(part, arrays) for key, part in value['dict']}
    if 'tuple' in value:
        return tuple(unpack(part, arrays) for part in value['tuple'])
    return [unpack(part, arrays) for part in value['list']]


def chain_of(env):
    """The env and what it wraps, from the outside in."""
    found = []
    while env is not None and all(env is not other for other in found):
        found.append(env)
        env = getattr(env, 'env', None)
    return found


# Episode counters of gymnasium's own wrappers, which a state of the env itself does not have.
COUNTERS = ('_elapsed_steps', '_has_reset')


def save_env(env, more):
    chain = chain_of(env)
    core = next((part for part in chain if hasattr(part, 'get_state') and hasattr(part, 'set_state')), None)
    if core is None:
        raise Failure(UNIMPLEMENTED, 'it cannot save its state: it has no get_state() and set_state(state)')
    counters = [[vars(part).get(name) for name in COUNTERS] for part in chain if hasattr(part, '__dict__')]
    arrays = []
    text = json.dumps(pack({'state': core.get_state(), 'counters': counters, 'more': more}, arrays)).encode()
    tensors = [('state', text)] + [(f'array_{i}', data) for i, data in enumerate(arrays)]
    return struct.pack('<q', len(tensors)) + b''.join(
        put_text(name) + struct.pack('<i', UINT8) + put_shape([len(data)]) + put_bytes(data) for name, data in tensors)


def load_env(env, message):
    """Returns what `more` was."""
    message.bytes()  # where the state comes from
    tensors = {}
    for _ in range(message.number('q')):
        name = message.bytes().decode()
        message.number('i')
        for _ in range(message.number('q')):
            message.number('q')
        tensors[name] = bytes(message.bytes())
    if 'state' not in tensors:
        raise Failure(DATA_LOSS, f"the saved state has {sorted(tensors)}, expected 'state'")
    arrays = [tensors[f'array_{i}'] for i in range(len(tensors) - 1)]
    saved = unpack(json.loads(tensors['state']), arrays)
    chain = chain_of(env)
    core = next((part for part in chain if hasattr(part, 'get_state') and hasattr(part, 'set_state')), None)
    if core is None:
        raise Failure(UNIMPLEMENTED, 'it cannot load its state: it has no get_state() and set_state(state)')
    core.set_state(saved['state'])
    for part, counters in zip([part for part in chain if hasattr(part, '__dict__')], saved['counters']):
        for name, value in zip(COUNTERS, counters):
            if value is not None:
                setattr(part, name, value)
    return saved.get('more')


# Building envs.


def how_to_install(package):
    """The command. An interpreter that the system's package manager manages refuses pip, besides in a virtual environment."""
    marker = os.path.join(sysconfig.get_path('stdlib'), 'EXTERNALLY-MANAGED')
    if sys.prefix != sys.base_prefix or not os.path.exists(marker):
        return f"install it by '{sys.executable} -m pip install {package}'"
    return (f"install it by '{sys.executable} -m venv --system-site-packages venv && venv/bin/python -m pip install {package}' "
            'and set --python=venv/bin/python')


def import_numpy():
    global np
    try:
        import numpy
    except ImportError as error:
        raise Failure(FAILED_PRECONDITION, f'the interpreter {sys.executable} has no numpy ({error}); '
                      f'{how_to_install("numpy")}, or choose another interpreter by --python') from None
    np = numpy


PLACEHOLDER = re.compile(r'\{(?:(\d+) *\+ *)?env_number\}|\{env_role\}')


def filled(value, use):
    """The keyword argument of an env with its role and number in the place of {env_role}, {env_number} and {15000+env_number}."""
    if isinstance(value, dict):
        return {key: filled(part, use) for key, part in value.items()}
    if isinstance(value, list):
        return [filled(part, use) for part in value]
    if not isinstance(value, str):
        return value

    def meaning(found):
        return use['role'] if 'role' in found.group() else int(found.group(1) or 0) + use['number']
    whole = PLACEHOLDER.fullmatch(value)
    if whole:
        return meaning(whole)
    text = PLACEHOLDER.sub(lambda found: str(meaning(found)), value)
    if '{env_' in text or '+env_' in text:
        raise Failure(INVALID_ARGUMENT, f"kwargs has '{value}', expected {{env_role}}, {{env_number}} or, for ports and the like, "
                      '{15000+env_number}')
    return text


def maker_of(params):
    """A function that builds the env of some keyword arguments; these arguments; and whether the env says by its class that it
    cannot draw into memory."""
    try:
        kwargs = json.loads(params['kwargs'] or '{}')
    except ValueError as error:
        raise Failure(INVALID_ARGUMENT, f"kwargs is '{params['kwargs']}', expected a JSON object: {error}") from None
    if not isinstance(kwargs, dict):
        raise Failure(INVALID_ARGUMENT, f"kwargs is '{params['kwargs']}', expected a JSON object such as "
                      '{"size": 5}')
    if params['id']:
        try:
            gymnasium = importlib.import_module('gymnasium')
        except ImportError as error:
            if getattr(error, 'name', None) != 'gymnasium':
                raise Failure(FAILED_PRECONDITION, f'gymnasium cannot be imported by {sys.executable}:\n{text_of(error)}') from None
            raise Failure(FAILED_PRECONDITION, f'the interpreter {sys.executable} has no gymnasium ({error}), which id '
                          f"'{params['id']}' needs; {how_to_install('gymnasium')}, choose another interpreter by --python, or "
                          'name a class by entry_point') from None

        def make(arguments):
            return gymnasium.make(params['id'], **{'disable_env_checker': True, **arguments})
        return make, kwargs, False
    module_name, colon, class_name = params['entry_point'].partition(':')
    if not module_name or not colon or not class_name:
        raise Failure(INVALID_ARGUMENT, f"entry_point is '{params['entry_point']}', expected 'module:Class'")
    try:
        made = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise Failure(NOT_FOUND, f"entry_point '{params['entry_point']}': {error}; looked in {sys.path}"
                      + ('' if error.name == module_name else '\n' + text_of(error))) from None
    for name in class_name.split('.'):
        if not hasattr(made, name):
            public = [other for other in dir(made) if not other.startswith('_')]
            raise Failure(NOT_FOUND, f"entry_point '{params['entry_point']}': module {module_name} ({made.__name__}) has no "
                          f"'{name}', it has {public}")
        made = getattr(made, name)
    modes = (getattr(made, 'metadata', None) or {}).get('render_modes') or ()
    cannot_draw = not takes_render_mode(made) or (isinstance(made, type) and 'rgb_array' not in modes)
    return lambda arguments: made(**arguments), kwargs, cannot_draw


def takes_render_mode(made):
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):  # It has no signature.
        return True
    return any(parameter.name == 'render_mode' or parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)


class Builder:
    """Builds the envs of this process, each once. An env gets a render_mode if pictures are wanted."""

    def __init__(self, params):
        for folder in reversed(params['python_path']):
            sys.path.insert(0, folder)
        import_numpy()
        self.make, self.kwargs, cannot_draw = maker_of(params)
        self.draws = params['pictures'] and 'render_mode' not in self.kwargs and not cannot_draw

    def __call__(self, use):
        kwargs = filled(self.kwargs, use)
        if self.draws:
            try:
                return self.make({**kwargs, 'render_mode': 'rgb_array'})
            except TypeError as error:
                if 'render_mode' not in str(error):
                    raise
                self.draws = False  # It takes no render_mode.
        return self.make(kwargs)


def seed_for(seed, bits):
    return seed & ((1 << bits) - 1)


LARGEST_SEED = (1 << 64) - 1


def refuses(error, seed):
    """Whether the error may be that the seed does not fit into 32 bits."""
    text = str(error).lower()
    return seed >> 32 > 0 and 'keyword argument' not in text and (isinstance(error, OverflowError) or (
        isinstance(error, (ValueError, TypeError)) and ('seed' in text or str(seed) in text)))


FINAL = ('final_obs', 'final_observation')


def check_info(info):
    if not isinstance(info, dict):
        raise Failure(INTERNAL, f'the info is {described(info)}, expected a dict')


def check_ends(*ends):
    """Refuses what Python takes for true but nobody meant, such as 'False'."""
    for end in ends:
        if not isinstance(end, (bool, int, float, np.generic, np.ndarray, type(None))) or isinstance(end, (np.str_, np.bytes_)):
            raise Failure(INTERNAL, f'the end of an episode, terminated or truncated, is {described(end)}, expected a bool')


def put_reward(floats, at, reward, of=''):
    try:
        floats[at] = reward
    except (TypeError, ValueError, OverflowError):
        raise Failure(INTERNAL, f'the reward{of} is {described(reward)}, expected a number') from None


def is_abnormal(info):
    """Whether the step is void, as in DI-engine. An env that resets itself says so in the info of its last step."""
    check_info(info)
    final = info.get('final_info')
    return bool(info.get('abnormal')) or isinstance(final, dict) and bool(final.get('abnormal'))


def last_of(info):
    """What an env that resets itself says of the episode that has ended: its last observation, or None; and its info."""
    def only(value):
        return value[0] if isinstance(value, np.ndarray) and value.dtype == object and value.shape == (1,) else value

    if 'final_info' not in info and not any(name in info for name in FINAL):
        return None, info
    observation = next((only(info[name]) for name in FINAL if info.get(name) is not None), None)
    final_info = only(info.get('final_info'))
    # Its mask is that of the first observation of the next episode.
    others = (*FINAL, 'final_info') if observation is None else (*FINAL, 'final_info', 'action_mask')
    rest = {key: value for key, value in info.items() if str(key).lstrip('_') not in others}
    return observation, {**rest, **final_info} if isinstance(final_info, dict) else rest


# The fields of infos that an env declares, by the attribute info_space of the env or one of its wrappers, or in the config.

INFO_FIELD = re.compile(r'([^:]+): *([a-z0-9]+) *(?:\[([0-9, ]*)\])?')


def info_fields_of(env, texts):
    """The fields, by the keys under which infos have their values."""
    space = next((part.info_space for part in chain_of(env) if getattr(part, 'info_space', None) is not None), None)
    declared = {}
    if space is not None:
        if kind_of(space, 'info_space') != 'Dict':
            raise Failure(INVALID_ARGUMENT, f'the info_space of the env is a {type(space).__name__}, expected a Dict')
        for name, leaf in leaves_of(space, 'info'):
            kind = kind_of(leaf, name)
            dtype = {'MultiBinary': BOOL}.get(kind, INT64) if kind != 'Box' else FLOAT64 if leaf.dtype == np.float64 else box_dtype(leaf, name)
            shape = np.shape(leaf.nvec) if kind == 'MultiDiscrete' else () if kind == 'Discrete' else leaf.shape
            declared[tuple(name.split('/')[1:])] = Field(name, dtype, shape)
    for text in texts:
        match = INFO_FIELD.fullmatch(text.strip())
        if match is None or match[2] not in STORED:
            raise Failure(INVALID_ARGUMENT, f"info is '{text}', expected 'NAME: TYPE' or 'NAME: TYPE[SHAPE]' such as 'position: float32[3]', "
                          f"with a type of {', '.join(STORED)}")
        shape = [int(n) for n in (match[3] or '').split(',') if n.strip()]
        keys = tuple(match[1].strip().split('/'))
        if keys in declared:
            raise Failure(INVALID_ARGUMENT, f"info is '{text}', but {match[1]} is declared before: {declared[keys].text()}")
        declared[keys] = Field('/'.join(('info',) + keys), STORED.index(match[2]), shape)
    return declared


def info_writer(declared, offsets, memory):
    """A function that writes the values of an info, zeros for those below a key in `absent`; None if none are declared."""
    fields = []
    for (keys, field), offset in zip(declared.items(), offsets):
        dtype, size = np.dtype(STORED[field.dtype]), int(np.prod(field.shape))
        row = np.frombuffer(memory, dtype=dtype, count=size, offset=offset).reshape(field.shape)
        fields.append((keys, field, row, '/'.join(keys)))

    def write(info, absent=()):
        for keys, field, row, name in fields:
            if keys[0] in absent:
                row[...] = 0
                continue
            value = info
            try:
                for key in keys:
                    value = value[int(key) if isinstance(value, (tuple, list)) else key]
            except (KeyError, IndexError, TypeError, ValueError):
                found = sorted(map(str, info)) if isinstance(info, dict) else described(info)
                raise Failure(INTERNAL, f"the info of a step has no '{name}': found {found}, expected {field.text()}, as declared") from None
            try:
                array = np.asarray(value)
            except ValueError:  # Its parts differ in length.
                array = np.empty((), object)
            if array.shape != field.shape or not np.can_cast(array.dtype, row.dtype, 'same_kind'):
                raise Failure(INTERNAL, f"info['{name}'] is {described(value)}, expected {field.text()}, as declared")
            row[...] = array
    return write if fields else None


class Slot:
    """An env of this process, and its place in the memory."""

    players = 1
    info_fields = {}  # by their keys

    def __init__(self, plan, env_plan, builder, memory):
        self.id, self.plan, self.builder = env_plan['id'], plan, builder
        self.use = {'role': plan['role'], 'number': plan['first_number'] + env_plan['id']}
        self.bytes, self.at = memory, env_plan['at']
        self.message_at, self.rows, self.actions = env_plan['message'], env_plan['rows'], env_plan['actions']
        self.next_rows, self.next_at = env_plan['next_rows'], self.at['next'] // 4
        self.info_rows = env_plan['info']
        self.env, self.turn = None, self.at['turn'] // 4
        self.step = None  # makes a step of the env, for the action in the memory
        self.ends_at = self.at['ends'] // 4
        self.u32, self.i64, self.u64 = memory.cast('I'), memory.cast('l'), memory.cast('L')
        self.size_at = self.at['message_size'] // 8

    # Messages.

    def leave_message(self, data):
        limit = self.plan['message_bytes']
        if len(data) > limit:
            data = put_status(8, f'its answer has {len(data)} bytes, expected at most {limit}') + put_bytes(b'')
        self.bytes[self.message_at:self.message_at + len(data)] = data
        self.i64[self.size_at] = len(data)

    def message(self):
        size = self.i64[self.size_at]
        return Message(bytes(self.bytes[self.message_at:self.message_at + size]))

    # Building and describing.

    def build(self):
        if self.env is not None:
            self.close()
        env = self.builder(self.use)
        self.check_interface(env, ('reset', 'step', 'observation_space', 'action_space'), 'gymnasium.Env')
        self.env, self.spaces = env, self.spaces_of(env)
        self.has_mask = self.plan['has_mask']
        self.info_fields = info_fields_of(env, self.plan['params']['info'])
        return env

    def check_interface(self, env, names, interface):
        for name in names:
            if not hasattr(env, name):
                raise Failure(INVALID_ARGUMENT, f"the env, a {type(env).__name__}, has no '{name}', expected the interface of "
                              + interface)

    def spaces_of(self, env):
        return (env.observation_space, env.action_space)

    def note_masks(self, info):
        self.has_mask = 'action_mask' in info

    def describe(self):
        """The fields of observations, and those of actions."""
        fields, field = fields_of(*self.spaces, self.has_mask)
        return fields, [field]

    def text(self):
        fields, actions = self.describe()
        return '\n'.join(field.text() for field in [*fields, *actions, *self.info_fields.values()])

    def check_spaces(self):
        found = self.text()
        if found != self.plan['layout']:
            raise Failure(INVALID_ARGUMENT, f"its spaces changed: found\n{found}\nexpected, as at first,\n{self.plan['layout']}")

    def bind(self):
        """Makes the functions that copy rows, for spaces that are as expected."""
        self.step = None
        self.check_spaces()
        fields, actions = self.describe()
        self.write, self.mask, self.read_action = bind_player(self.spaces, fields, actions[0], list(self.rows),
                                                              self.actions[0], self.bytes)
        self.write_next, self.next_mask, _ = bind_player(self.spaces, fields, actions[0], list(self.next_rows),
                                                         self.actions[0], self.bytes)

    # Calls.

    def first_reset(self, seed, options):
        args = {'seed': seed_for(seed, self.plan['params']['seed_bits'])}
        if options:
            args['options'] = options
        try:
            result = self.env.reset(**args)
        except Exception as error:
            if refuses(error, args['seed']):
                raise Failure(INTERNAL, f"{text_of(error)}\nreset(seed={args['seed']}) got a seed of 64 bits: if the env takes smaller "
                              'ones, as numpy.random.seed() does, set seed_bits: 32 in the params of the env') from None
            if isinstance(error, TypeError) and 'keyword argument' in str(error):
                raise Failure(INTERNAL, f'{text_of(error)}\nexpected reset(self, *, seed=None, options=None): found the interface of '
                              'gym before 0.26?') from None
            raise
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise Failure(INTERNAL, f'reset() returned {described(result)}, expected (observation, info): found the interface '
                          'of gym before 0.26?')
        return result

    def reset(self, seed, options):
        self.show(*self.begin(seed, options))

    def prepare(self, seed):
        """Begins the next episode beside the last observation of this one, which the manager has not yet read."""
        observation, info = self.begin(seed, {})
        self.write_next(observation)
        if self.next_mask is not None:
            write_info_mask(self.next_mask, self.spaces[1], info, False)

    def begin(self, seed, options):
        """Resets the env; returns what it returns."""
        observation, info = self.first_reset(seed, options)
        # An env may replace its spaces in a reset, but not change them.
        spaces = self.spaces_of(self.env)
        if any(new is not old for new, old in zip(spaces, self.spaces)):
            self.spaces = spaces
            self.bind()
        if self.step is None:
            self.step = self.make_step()
        return observation, info

    def show(self, observation, info):
        """Writes the first observation of an episode."""
        self.write(observation)
        if self.mask is not None:
            write_info_mask(self.mask, self.spaces[1], info, False)

    def after_step(self):
        """A function that writes what an info has for the manager: the mask and the declared fields; None if there are none."""
        mask, action_space = self.mask, self.spaces[1]
        write_info = info_writer(self.info_fields, self.info_rows, self.bytes)
        if write_info is None:
            return None if mask is None else lambda info, over: write_info_mask(mask, action_space, info, over)

        def write(info, over):
            if mask is not None:
                write_info_mask(mask, action_space, info, over)
            write_info(info)
        return write

    # What a state has besides that of the env.

    def more_state(self):
        return None

    def load_more(self, more):
        pass

    def make_step(self):
        """A function that makes a step, and returns whether the env is to begin the next episode by itself. Each name that it
        uses is its own, since it runs for microseconds only."""
        env_step, read_action, write, after = self.env.step, self.read_action, self.write, self.after_step()
        numbers = np.frombuffer(self.bytes, np.int64, 1, self.actions[0])
        category = kind_of(self.spaces[1], 'action') == 'Discrete' and int(start_of(self.spaces[1], 'Discrete')) == 0
        vector = getattr(write, 'vector', None)
        floats, reward_at = self.bytes.cast('f'), self.at['reward'] // 4
        elements, part = vector or (None, None)

        def step():
            result = env_step(numbers[0] if category else read_action())
            try:
                observation, reward, terminated, truncated, info = result
            except (TypeError, ValueError):
                raise Failure(INTERNAL, f'step() returned {described(result)}, expected (observation, reward, terminated, '
                              'truncated, info): found the interface of gym before 0.26?') from None
            if info and is_abnormal(info):
                self.u32[self.ends_at] = ABNORMAL
                return
            if elements is None:
                write(observation)
            else:
                try:
                    elements[part] = observation
                except (TypeError, ValueError):
                    write(observation)
            try:
                floats[reward_at] = reward
            except (TypeError, ValueError, OverflowError):
                put_reward(floats, reward_at, reward)
            if terminated or truncated:
                check_ends(terminated, truncated)
                check_info(info)
                self.u32[self.ends_at] = (1 if terminated else 0) | (256 if truncated else 0)
                observation, info = last_of(info)
                if observation is not None:
                    write(observation)
                if after is not None:
                    after(info, True)
                self.end_of_episode(info)
                return self.u32[self.next_at] == WANTED
            if after is not None:
                after(info, False)
        return step

    def end_of_episode(self, info):
        """The numbers of the last info of an episode, as a message."""
        values = {}

        def collect(prefix, found):
            if prefix.count('/') > 32:
                raise Failure(INTERNAL, f'the info is nested too deeply: it has {prefix[:60]}..., expected at most 32 levels')
            for key, value in found.items():
                if key == 'abnormal':
                    continue
                name = prefix + str(key)
                if isinstance(value, dict):
                    collect(name + '/', value)
                elif isinstance(value, (bool, int, float, np.floating, np.integer, np.bool_)) or (
                        isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in 'biuf'):
                    # NaN and infinity, too: evaluations count them.
                    try:
                        values[name] = float(value)
                    except OverflowError:
                        values[name] = np.inf if value > 0 else -np.inf
                    except TypeError:
                        pass  # a timedelta64, which numpy counts among the integers
        collect('', info)
        values.pop('action_mask', None)
        values.pop('episode/t', None)  # seconds, which differ from run to run
        if 'episode/r' in values:
            values['eval_episode_return'] = values.pop('episode/r')
        values.pop('episode/l', None)
        if not values:
            self.i64[self.size_at] = 0
            return
        self.leave_step_message(put_values(values), put_status())

    def leave_step_message(self, values, void_cause, status=None):
        rest = values + void_cause + struct.pack('<qqq', self.players - 1, 0, 0)
        self.leave_message((status or put_status()) + put_bytes(rest))

    def render(self):
        image = self.env.render()
        if isinstance(image, list) and image:
            image = image[-1]
        if image is None:
            raise Failure(UNIMPLEMENTED, "render() returned None, expected a picture: set kwargs to {\"render_mode\": \"rgb_array\"}")
        image = np.asarray(image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise Failure(INTERNAL, f'render() returned {described(image)}, expected uint8[height, width, 3]')
        return struct.pack('<ii', image.shape[1], image.shape[0]) + put_bytes(image.tobytes())

    def close(self):
        env, self.env = self.env, None
        if env is not None and hasattr(env, 'close'):
            env.close()


class GameSlot(Slot):
    """A game with PettingZoo's parallel interface: all agents act in each step, and player i is possible_agents[i].

    An agent that leaves before the others ends in that step (StepResult::player_ends). Its row keeps its last observation,
    its reward and its declared infos are 0, and its actions are ignored. The episode is over when all have left."""

    def build(self):
        if self.env is not None:
            self.close()
        env = self.builder(self.use)
        self.check_interface(env, ('reset', 'step', 'possible_agents', 'observation_space', 'action_space'),
                             'pettingzoo.ParallelEnv')
        if hasattr(env, 'agent_iter') and hasattr(env, 'last'):
            raise Failure(INVALID_ARGUMENT, f'the env, a {type(env).__name__}, has an agent_iter(), as a pettingzoo.AECEnv, whose agents act '
                          'in turns; expected a ParallelEnv: name its parallel_env, or a function that returns '
                          'pettingzoo.utils.aec_to_parallel(env)')
        self.agents = list(env.possible_agents)
        self.players = len(self.agents)
        if self.players < 2:
            raise Failure(INVALID_ARGUMENT, f'the game has the possible_agents {self.agents}, expected at least 2')
        MASK_FIELDS[:] = [f'obs/{i}/action_mask' for i in range(self.players)]
        self.env, self.spaces = env, self.spaces_of(env)
        self.has_mask = self.plan['has_mask']
        self.info_fields = info_fields_of(env, self.plan['params']['info'])
        unknown = [field.name for keys, field in self.info_fields.items() if keys[0] not in self.agents or len(keys) == 1]
        if unknown:
            raise Failure(INVALID_ARGUMENT, f"the game declares {unknown[0]}, expected info/AGENT/NAME: the infos of a step have one of "
                          f'each agent, {self.agents}')
        return env

    def spaces_of(self, env):
        return [space(agent) for agent in self.agents for space in (env.observation_space, env.action_space)]

    def note_masks(self, infos):
        self.has_mask = ['action_mask' in self.of_agent(infos, agent, 'infos', 'reset()') for agent in self.agents]

    def action_space(self, agent):
        return self.spaces[2 * self.agents.index(agent) + 1]

    def player_spaces(self, player):
        return self.spaces[2 * player:2 * player + 2]

    def describe(self):
        fields, actions = [], []
        for i, has_mask in enumerate(self.has_mask):
            of_player, action = fields_of(*self.player_spaces(i), has_mask, f'obs/{i}', f'action/{i}')
            fields.append(of_player)
            actions.append(action)
        self.fields = fields
        return [field for of_player in fields for field in of_player], actions

    def bind(self):
        self.step = None
        self.check_spaces()
        _, actions = self.describe()
        rows = list(self.rows)
        self.ways = [bind_player(self.player_spaces(i), self.fields[i], actions[i], rows, self.actions[i], self.bytes,
                                 f'obs/{i}') for i in range(self.players)]

    def of_agent(self, values, agent, name, call):
        try:
            return values[agent]
        except (KeyError, TypeError):
            found = list(values) if isinstance(values, dict) else described(values)
            raise Failure(INTERNAL, f'{call} returned {name} of {found}, expected one of each agent, also of {agent!r}') from None

    def show(self, observations, infos):
        if set(self.env.agents) != set(self.agents):
            raise Failure(INTERNAL, f'the agents after a reset are {list(self.env.agents)}, expected all of {self.agents}')
        for agent, (write, mask, _) in zip(self.agents, self.ways):
            write(self.of_agent(observations, agent, 'observations', 'reset()'))
            if mask is not None:
                write_info_mask(mask, self.action_space(agent), self.of_agent(infos, agent, 'infos', 'reset()'), False)
        self.left = set()

    def more_state(self):
        return sorted(self.left)

    def load_more(self, more):
        self.left = set(more)

    def make_step(self):
        floats, first = self.bytes.cast('f'), self.at['reward'] // 4
        rewards_at = [first] + [self.at['other_rewards'] // 4 + i for i in range(self.players - 1)]
        of_agent, player_ends = self.of_agent, self.bytes[self.at['player_ends']:][:self.players]
        write_info = info_writer(self.info_fields, self.info_rows, self.bytes)

        def step():
            playing = [i for i in range(self.players) if i not in self.left]
            absent = [self.agents[i] for i in self.left]
            result = self.env.step({self.agents[i]: self.ways[i][2]() for i in playing})
            try:
                observations, rewards, terminations, truncations, infos = result
            except (TypeError, ValueError):
                raise Failure(INTERNAL, f'step() returned {described(result)}, expected (observations, rewards, terminations, '
                              'truncations, infos)') from None
            check_info(infos)
            if any(is_abnormal(infos[agent]) for agent in self.agents if infos.get(agent)):
                self.u32[self.ends_at] = ABNORMAL
                return
            terminated = truncated = False
            last, infos = last_of(infos)  # of all agents; or the info of each has its own
            for i in range(self.players):
                agent, (write, mask, _) = self.agents[i], self.ways[i]
                if i in self.left:
                    floats[rewards_at[i]] = player_ends[i] = 0
                    if rewards.get(agent):
                        raise Failure(INTERNAL, f'the reward of {agent!r} is {rewards[agent]}, but it has ended in an earlier step: expected '
                                      '0, or an end (terminations, truncations) in its last step only')
                    continue
                put_reward(floats, rewards_at[i], of_agent(rewards, agent, 'rewards', 'step()'), f' of {agent!r}')
                ended = of_agent(terminations, agent, 'terminations', 'step()')
                cut = of_agent(truncations, agent, 'truncations', 'step()')
                observation = of_agent(observations, agent, 'observations', 'step()')
                if ended or cut:
                    check_ends(ended, cut)
                    ended, cut = bool(ended), bool(cut)
                    if isinstance(last, dict):
                        observation = last.get(agent, observation)
                    own, info = last_of(infos.get(agent) or {})
                    observation, infos = observation if own is None else own, {**infos, agent: info}
                write(observation)
                terminated, truncated = terminated or ended, truncated or cut
                player_ends[i] = 1 if ended else 2 if cut else 0
                if ended or cut:
                    self.left.add(i)
                if mask is not None:
                    write_info_mask(mask, self.action_space(agent), of_agent(infos, agent, 'infos', 'step()'), ended or cut)
            if write_info is not None:
                write_info(infos, absent)
            if len(self.left) == self.players:
                self.u32[self.ends_at] = (1 if terminated else 0) | (256 if truncated else 0)
                self.end_of_episode(infos)
        return step


class EnvProcess:
    """Answers the requests for the envs of this process."""

    def __init__(self, plan):
        self.plan = plan
        self.map = mmap.mmap(plan['memory'], plan['bytes'])
        os.close(plan['memory'])
        self.memory = memoryview(self.map)
        self.u32 = self.memory.cast('I')
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.futex = {'x86_64': 202, 'aarch64': 98}.get(platform.machine(), 202)
        process, manager = plan['process'], plan['manager']
        self.at = {name: offset // 4 for name, offset in process.items()}
        self.manager = {name: offset // 4 for name, offset in manager.items()}
        self.requests_address = ctypes.c_void_p(base + process['requests'])
        self.event_address = ctypes.c_void_p(base + manager['event'])
        self.fence_lock = threading.Lock()
        self.builder = None
        LEFT_OUT[:], KEPT[:] = plan['params']['left_out'], plan['params']['kept']
        make = GameSlot if plan['params']['game'] else Slot
        self.slots = [make(plan, env, self.build_env, self.memory) for env in plan['envs']]
        self.progress = self.u32[self.at['progress']]
        self.events = 0
        self.soon = True  # whether the last request came soon
        self.waits_asleep = 0  # the next waits that are not spent awake

    def build_env(self, use):
        if self.builder is None:
            self.builder = Builder(self.plan['params'])
            self.limit_memory()
        return self.builder(use)

    def limit_memory(self):
        if self.plan['memory_limit_mb'] <= 0:
            return
        with open('/proc/self/status') as status:
            now = next(int(line.split()[1]) for line in status if line.startswith('VmData:')) * 1024
        limit = now + (self.plan['memory_limit_mb'] << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    # Waiting and waking.

    def fence(self):
        """No later read happens before an earlier write: taking a lock orders them."""
        self.fence_lock.acquire()
        self.fence_lock.release()

    def wait(self, seen):
        u32, requests, begin = self.u32, self.at['requests'], time.monotonic_ns()
        now, end = begin, begin + (SHORT_WAIT_NANOSECONDS if self.soon else SPIN_NANOSECONDS)
        if self.waits_asleep > 0:
            self.waits_asleep -= 1
            end = begin
        while now < end:
            os.sched_yield()
            if u32[requests] != seen:
                return
            now = time.monotonic_ns()
        if now > end + SHORT_WAIT_NANOSECONDS:  # Somebody else computes here: who wakes up gets the core before who yields it.
            self.waits_asleep = WAITS_ASLEEP
        u32[self.at['sleeping']] = 1
        self.fence()
        if u32[requests] == seen:
            seconds = struct.pack('=qq', 0, int(SLEEP_SECONDS * 1e9))
            self.libc.syscall(self.futex, self.requests_address, 0, ctypes.c_uint32(seen), ctypes.c_char_p(seconds), None, 0)
        u32[self.at['sleeping']] = 0
        self.soon = time.monotonic_ns() - begin < 2 * SHORT_WAIT_NANOSECONDS

    def notify(self):
        """Wakes the manager if it sleeps. Each process writes values that no other writes, so the word always changes."""
        self.events = (self.events + 1) & 0xFFFFFF
        self.u32[self.manager['event']] = (self.plan['index'] & 0xFF) << 24 | self.events
        self.fence()
        if self.u32[self.manager['sleeping']]:
            self.libc.syscall(self.futex, self.event_address, 1, 1, None, None, 0)

    def note(self, call, slot):
        self.u32[self.at['env_id']] = slot.id
        self.u32[self.at['call']] = call
        self.u32[self.at['progress']] = self.progress = (self.progress + 1) & 0xFFFFFFFF

    # Answering.

    def failed(self, error):
        if isinstance(error, MemoryError):
            os._exit(MEMORY_EXIT_CODE)
        if isinstance(error, Failure):
            return put_status(error.code, str(error))
        return put_status(INTERNAL, text_of(error))

    def build(self, slot):
        self.note(BUILD, slot)
        slot.build()
        slot.bind()

    def pause(self, slot):
        self.note(WAITING, slot)
        time.sleep(self.plan['retry_waiting_time'])

    def reset(self, slot, made, seed, options):
        """Makes up to max_retry attempts, `made` of which were made before. Returns a status."""
        attempts, status = self.at['attempts'], None
        self.u32[attempts] = made
        for attempt in range(made, self.plan['max_retry']):
            if attempt > made:
                self.pause(slot)
                if self.plan['renew']:
                    slot.close()
            try:
                if slot.env is None:
                    self.build(slot)
                self.u32[attempts] += 1
                self.note(RESET, slot)
                slot.reset(seed, options)
                return None
            except Exception as error:
                status = self.failed(error)
        return status or put_status(INTERNAL, 'no attempt is left')

    def prepare(self, slot):
        """Begins the next episode of an env that is told how."""
        self.note(RESET, slot)
        try:
            slot.prepare(slot.u64[slot.at['next_seed'] // 8])
            self.u32[slot.next_at] = PREPARED
        except Exception as error:
            self.failed(error)  # The manager asks for the reset, which then fails again or not.
            self.u32[slot.next_at] = NOT_PREPARED

    def retry_step(self, slot, error):
        """Handles a step that failed: tries it again, or ends the episode, whose env the next reset builds anew."""
        status = self.failed(error)
        for _ in range(1, self.plan['max_retry']):
            self.pause(slot)
            if self.plan['renew']:
                slot.close()
                self.u32[slot.ends_at] = ABNORMAL
                slot.leave_step_message(put_values({}), status)
                return
            try:
                self.note(STEP, slot)
                slot.step()
                return
            except Exception as again:
                status = self.failed(again)
        slot.leave_step_message(put_values({}), put_status(), status)

    def answer_rarely(self, slot, call):
        """Answers a call that is not a step."""
        made, seed = self.u32[slot.at['attempts_made'] // 4], self.memory.cast('L')[slot.at['seed'] // 8]
        rest = b''
        status = None
        self.note(call, slot)
        try:
            if call == RESET:
                options = slot.message().values() if slot.i64[slot.size_at] > 0 else {}
                status = self.reset(slot, made, seed, options)
            elif call == RENDER:
                rest = slot.render()
            elif call == SAVE:
                rest = save_env(slot.env, slot.more_state())
            elif call == LOAD:
                if slot.env is None:
                    self.build(slot)
                    slot.first_reset(0, {})  # Wrappers of gymnasium refuse a step before a reset.
                slot.load_more(load_env(slot.env, slot.message()))
                slot.step = slot.make_step()
            else:
                raise Failure(INTERNAL, f'received an unknown call: {call}')
        except Exception as error:
            status = self.failed(error)
        slot.leave_message((status or put_status()) + put_bytes(rest))

    def run(self):
        u32, at = self.u32, self.at
        requests, leave, call_at, progress = (at[name] for name in ('requests', 'leave', 'call', 'progress'))
        # The call and the env that it is made of, next to each other, are written at once.
        u64, now_at = self.memory.cast('L'), self.plan['process']['call'] // 8
        rows = [(slot, slot.turn, slot.at['call'] // 4, slot.id << 32 | STEP) for slot in self.slots]
        notify_each, over = self.plan['notify_each'], []
        while not u32[leave]:
            seen = u32[requests]
            answered = False
            for slot, turn, asked, now in rows:
                if u32[turn] != ASKED:
                    continue
                answered = True
                if u32[asked] == STEP:
                    u64[now_at] = now
                    u32[progress] = self.progress = (self.progress + 1) & 0xFFFFFFFF
                    try:
                        if slot.step():
                            u32[slot.next_at] = PREPARING
                            over.append(slot)  # It answers after the other envs have made their steps.
                            continue
                    except Exception as error:
                        self.retry_step(slot, error)
                else:
                    self.answer_rarely(slot, u32[asked])
                u32[turn] = ANSWERED
                if notify_each:
                    self.notify()
            if not answered:
                self.wait(seen)
                continue
            for slot in over:
                self.prepare(slot)
                u32[slot.turn] = ANSWERED
            over.clear()
            u32[call_at] = IDLE
            if not notify_each:
                self.notify()
        for slot in self.slots:
            slot.close()

    def probe(self):
        """Leaves the spec of the env, or the error, as a message."""
        slot = self.slots[0]
        try:
            env = slot.build()
            observation, info = slot.first_reset(LARGEST_SEED, {})
            slot.note_masks(info)
            slot.spaces = slot.spaces_of(env)
            fields, actions = slot.describe()
            for i, space in enumerate(slot.spaces[::2]):
                for name, leaf in leaves_of(space, 'obs' if slot.players == 1 else f'obs/{i}'):
                    if getattr(leaf, 'dtype', None) == np.float64 and name not in MASK_FIELDS:
                        print(f"the observation '{name}' is float64: it is narrowed to float32", file=sys.stderr)
            spec = getattr(env, 'spec', None)
            steps = getattr(spec, 'max_episode_steps', None) or 0
            params = self.plan['params']
            low, high = getattr(env, 'reward_range', None) or (-float('inf'), float('inf'))
            encoded = (put_text(params['id'] or params['entry_point']) +
                       struct.pack('<i', len(fields)) + b''.join(field.encoded() for field in fields) +
                       struct.pack('<i', len(actions)) + b''.join(field.encoded() for field in actions) +
                       struct.pack('<i', slot.players) + put_shape([]) + struct.pack('<ddq', float(low), float(high), int(steps)) +
                       struct.pack('<i', len(slot.info_fields)) + b''.join(field.encoded() for field in slot.info_fields.values()))
            layout = json.dumps({'layout': slot.text(), 'has_mask': slot.has_mask,
                                 'goal_rewards': [] if slot.players > 1 else goal_rewards(env, slot.spaces[0], observation, info)})
            slot.leave_message(put_status() + encoded + put_text(layout))
            slot.close()
        except (Exception, SystemExit) as error:
            slot.leave_message(self.failed(error))


GOALS = ('achieved_goal', 'desired_goal')
GOAL_SECONDS = 1.0  # for all samples


def goal_rewards(env, space, observation, info):
    """Samples of what the env's compute_reward() gives: [achieved goal, desired goal, reward]. Goals in hindsight are checked by
    them, so most lie close to where the reward changes, on both sides."""
    chain = chain_of(env)
    at = next((i for i, part in enumerate(chain) if callable(getattr(part, 'compute_reward', None))), None)
    if at is None or kind_of(space, 'obs') != 'Dict' or not all(
            name in space.spaces and kind_of(space.spaces[name], name) == 'Box' for name in GOALS):
        return []
    if any('Reward' in base.__name__ for part in chain[:at] for base in type(part).__mro__):
        return []  # A wrapper changes the rewards of steps.
    compute, boxes, samples = chain[at].compute_reward, [space.spaces[name] for name in GOALS], []

    def reward(achieved, desired):
        goals = [goal.astype(box.dtype).reshape(box.shape) for goal, box in zip((achieved, desired), boxes)]
        value = np.asarray(compute(*goals, dict(info)), dtype=np.float64)
        if value.size != 1 or not np.isfinite(value):
            raise ValueError(f'it returned {described(value)}, expected a finite number')
        return float(value.reshape(()))

    try:
        bases = [np.asarray(observation[name], dtype=np.float32).reshape(-1) for name in GOALS]
        low, high = (np.asarray(bound, dtype=np.float64).reshape(-1) for bound in (boxes[0].low, boxes[0].high))
        random, begin = np.random.default_rng(0), time.monotonic()
        axes = np.eye(bases[0].size)[:4]
        directions = [*axes, *-axes, *random.normal(size=(4, bases[0].size))]
        for direction, base in [(direction / np.linalg.norm(direction), base) for direction in directions for base in bases]:
            # Goals beyond the bounds need not have a reward.
            with np.errstate(divide='ignore', invalid='ignore'):
                to_bounds = np.where(direction > 0, high - base, low - base) / direction
            farthest = float(min(4 * max(1, np.abs(base).max()), *to_bounds[direction != 0]))
            if farthest <= 0:
                continue
            def achieved(distance):
                return (base + distance * direction).astype(np.float32)
            there, inside = reward(base, base), 0.0
            outside = next((distance for distance in farthest * 0.7 ** np.arange(40, -1, -1)
                            if reward(achieved(distance), base) != there), farthest)
            for _ in range(50):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if reward(achieved(middle), base) == there else (inside, middle)
            for goal in [achieved(distance) for distance in (0, inside * 0.999, outside * 1.001, farthest)]:
                samples.append([goal.tolist(), base.tolist(), reward(goal, base)])
            if time.monotonic() - begin > GOAL_SECONDS:
                break
        return samples
    except Exception as error:
        print('compute_reward(achieved_goal, desired_goal, info) failed, so that a buffer with goals in hindsight can check the rewards of '
              f'steps only: {text_of(error)}', file=sys.stderr)
        return []


def leaves_of(space, name):
    kind = kind_of(space, name)
    if kind in ('Dict', 'Tuple'):
        return [leaf for part, _, child in children_of(space, kind) for leaf in leaves_of(child, f'{name}/{part}')]
    return [(name, space)]


def become_plain():
    """Makes this process look like an interpreter without a script to the code of envs. multiprocessing would have its children
    run the script of this process, which is not theirs."""
    del sys.modules['__main__'].__file__
    sys.argv = ['']
    sys.path[0] = os.getcwd()
    if not os.environ.get('PYTHONBREAKPOINT'):
        sys.breakpointhook = refuse_breakpoint


def refuse_breakpoint(*_args, **_kwargs):
    raise Failure(FAILED_PRECONDITION, 'breakpoint() was called. ' + HOW_TO_DEBUG)


def main():
    with os.fdopen(int(sys.argv[1]), 'r') as file:
        file.seek(0)
        plan = json.load(file)
    become_plain()
    process = EnvProcess(plan)
    if plan['probe']:
        process.probe()
    else:
        process.run()
    # Threads and processes of the env that do not end by themselves do not keep this process.
    ends = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    ends.start()
    ends.join(SECONDS_TO_EXIT)
    os._exit(0)


if __name__ == '__main__':
    main()
# )PY"
