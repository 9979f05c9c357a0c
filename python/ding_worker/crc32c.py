"""CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of checkpoints and files of episodes.

A loop over bytes takes a second for some megabytes, so long inputs are cut into lanes of equal length, which numpy processes
side by side. The remainder of a whole is computed from those of its halves: that of the first is moved past the zeros of the
second's length, which is a matrix over bits.
"""

import numpy as np

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF


def _make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _make_table()
_NUMPY_TABLE = np.array(_TABLE, dtype=np.uint32)
_LANES = 1024  # a power of two
_SHORT = 16 * _LANES


def _times(matrix, vectors):
    """The products of a matrix over bits, a row per bit of the input, with each of `vectors`."""
    product = np.zeros_like(vectors)
    for bit, row in enumerate(matrix):
        product ^= np.where((vectors >> np.uint32(bit)) & np.uint32(1), row, np.uint32(0))
    return product


def _zeros_matrix(count):
    """The matrix that moves a remainder past `count` bytes of zeros."""
    matrix = np.uint32(1) << np.arange(32, dtype=np.uint32)
    power = matrix.copy()
    for _ in range(8):
        power = (power >> np.uint32(1)) ^ np.where(power & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0))
    while count:
        if count & 1:
            matrix = _times(power, matrix)
        power = _times(power, power)
        count >>= 1
    return matrix


def _remainder(data):
    """The remainder of long data, without the inversions at begin and end."""
    length = -(-len(data) // _LANES)
    # Zeros before the data do not change the remainder.
    padded = np.zeros(length * _LANES, dtype=np.uint8)
    padded[-len(data) :] = data
    columns = np.ascontiguousarray(padded.reshape(_LANES, length).T).astype(np.uint32)
    state = np.zeros(_LANES, dtype=np.uint32)
    for column in columns:
        state = _NUMPY_TABLE[(state ^ column) & np.uint32(0xFF)] ^ (state >> np.uint32(8))
    matrix = _zeros_matrix(length)
    while len(state) > 1:
        state = _times(matrix, state[0::2]) ^ state[1::2]
        matrix = _times(matrix, matrix)
    return int(state[0])


def crc32c(data):
    """The checksum of bytes."""
    if len(data) < _SHORT:
        crc = _ONES
        for byte in bytes(data):
            crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        return crc ^ _ONES
    values = np.frombuffer(data, dtype=np.uint8).copy()
    values[:4] ^= 0xFF  # what beginning with ones means
    return _remainder(values) ^ _ONES
