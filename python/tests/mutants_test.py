"""Parses hundreds of mutants of each format: mutants_test.py FOLDER, which holds a checkpoint of dqn.

Whatever the bytes are, a parser returns a value or raises one of the package's own exceptions.
"""

import os
import random
import struct
import sys
import unittest

import ding_worker
from ding_worker.checkpoint import _parse_manifest
from ding_worker.crc32c import crc32c
from ding_worker.safetensors import parse_safetensors, read_file
from ding_worker.spec import parse_spec
from ding_worker.textproto import parse_text_config

FOLDER = ""
ROUNDS = 500
PIECES = [b"", b"{", b"}", b"[", b"]", b'"', b"-1", b"9" * 5000, b"null", b"true", b"1e400", b"\xff" * 8, b"\\u12", b"/", b":", b"\x00"]


def mutate(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : at + rng.randint(1, 20)]
        elif kind == 2:
            data[at:at] = rng.choice(PIECES)
        else:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + rng.randint(1, 40)]
    return bytes(data)


def with_crc(data):
    return data[:-4] + struct.pack("<I", crc32c(data[:-4])) if len(data) >= 4 else data


class MutantsTest(unittest.TestCase):
    def check(self, data, parse):
        rng = random.Random(0)
        refused = 0
        parse(data)
        for round_ in range(ROUNDS):
            mutant = mutate(data, rng)
            try:
                parse(mutant)
            except (ding_worker.FormatError, ding_worker.UnsupportedError) as error:
                refused += 1
                self.assertLess(len(str(error)), 20000)
            except Exception as error:
                self.fail(f"mutant {round_}: {error!r} from {mutant[:300]!r}")
        self.assertGreater(refused, ROUNDS // 10)

    def test_tensors(self):
        data = read_file(os.path.join(FOLDER, "dqn", "checkpoint", "model.safetensors"))
        # With little data, so that most changes are in the header.
        (length,) = struct.unpack_from("<Q", data)
        self.check(data, lambda mutant: parse_safetensors(mutant, "x"))
        header = data[8 : 8 + length]
        self.check(header, lambda mutant: parse_safetensors(struct.pack("<Q", len(mutant)) + mutant + data[8 + length :], "x"))

    def test_manifests(self):
        data = read_file(os.path.join(FOLDER, "dqn", "checkpoint", "manifest.json"))
        end = data.rindex(b",\n")

        def parse(body):
            return _parse_manifest(body + b',\n  "crc32c": "%08x"\n}\n' % crc32c(body))

        self.check(data[:end], parse)
        self.check(data, _parse_manifest)

    def test_specs(self):
        field = struct.pack("<I3sBBqqI4dqi", 3, b"obs", 4, 2, 1, 2, 2, -1, -1, 1, 1, 0, -1)
        rest = struct.pack("<QI", 0, 2) + field + field.replace(b"obs", b"act")
        data = with_crc(b"DBAT" + struct.pack("<HHI", 1, 0, len(rest)) + rest + bytes(4))

        def parse(mutant):
            # Mostly with a length that fits, so that the fields are read.
            if len(mutant) > 16 and len(mutant) % 3:
                mutant = mutant[:8] + struct.pack("<I", len(mutant) - 16) + mutant[12:]
            return parse_spec(with_crc(mutant))

        self.check(data, parse)

    def test_configs(self):
        text = config_of(os.path.join(FOLDER, "dqn", "checkpoint"))
        more = 'a: "x\\n\\x41\\u00e9" \'b\' list: [1, -2.5e3, inf] m <x: 0x1F> # end\nm { [a.b/c.D] { } }\n'
        self.check((text + more).encode(), lambda mutant: parse_text_config(mutant.decode("utf-8", "replace")))


def config_of(path):
    return ding_worker.open_checkpoint(path).fields["config"]


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
