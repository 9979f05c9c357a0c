"""Tests what the package reads, and what it refuses: files_test.py FOLDER PAGE.

FOLDER holds a checkpoint of dqn, PAGE is docs/reference/checkpoint_format.md.
"""

import json
import os
import random
import shutil
import struct
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import ding_worker
from ding_worker import crc32c as crc32c_module
from ding_worker.crc32c import crc32c
from ding_worker.safetensors import parse_safetensors
from ding_worker.spec import parse_spec

FOLDER = ""
PAGE = ""


def safetensors_bytes(tensors, metadata=None, self_checked=False):
    """A file of (name, dtype of the format, shape, bytes), as the C++ programs lay it out."""
    header, body = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    if self_checked:
        header["crc32c"] = {"dtype": "U8", "shape": [4], "data_offsets": [len(body), len(body) + 4]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text + body
    return data + struct.pack("<I", crc32c(data)) if self_checked else data


def with_header(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


class TemporaryFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def refused(self, words, read, *arguments, error=ding_worker.FormatError):
        with self.assertRaisesRegex(error, words):
            read(*arguments)


class Crc32cTest(unittest.TestCase):
    def test_published_values(self):
        # RFC 3720, appendix B.4.
        self.assertEqual(crc32c(b""), 0)
        self.assertEqual(crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(crc32c(b"\xff" * 32), 0x62A8AB43)
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_long_data_have_the_checksum_that_the_loop_over_bytes_finds(self):
        for size in (crc32c_module._SHORT, crc32c_module._SHORT + 1, 100003):
            data = random.Random(size).randbytes(size)
            with mock.patch.object(crc32c_module, "_SHORT", size + 1):
                expected = crc32c(data)
            self.assertEqual(crc32c(data), expected)


class SafetensorsTest(TemporaryFolder):
    def test_reads_all_types(self):
        values = {
            "BOOL": np.array([True, False]),
            "U8": np.array([0, 255], dtype=np.uint8),
            "I32": np.array([[-1], [2**31 - 1]], dtype="<i4"),
            "I64": np.array(-(2**63), dtype="<i8"),
            "F32": np.array([[1.5, np.inf]], dtype="<f4"),
            "F64": np.zeros((2, 0), dtype="<f8"),
        }
        tensors = [(f"a/{name}", name, list(array.shape), array.tobytes()) for name, array in values.items()]
        path = self.write("all", safetensors_bytes(tensors, {"ding_worker_version": "1.9", "by": "test"}))
        found = ding_worker.read_safetensors(path)
        self.assertEqual(list(found), [f"a/{name}" for name in values])
        self.assertEqual(found.metadata["by"], "test")
        for name, array in values.items():
            got = found.scope("a")[name]
            self.assertEqual((got.dtype, got.shape), (array.dtype, array.shape))
            np.testing.assert_array_equal(got, array)
            self.assertFalse(got.flags.writeable)

    def test_refuses_malformed_files(self):
        good = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
        cases = [
            ("has only 7 bytes", b"1234567"),
            ("header has 9 bytes; 8 follow", struct.pack("<Q", 9) + b"12345678"),
            ("header has 18446744073709551615 bytes", b"\xff" * 8 + b"{}"),
            ("it is not JSON", with_header(b"{")),
            ("it is not JSON", with_header(b'{"a\xff": 1}')),
            ("nested too deep|not JSON", with_header(b"[" * 100000)),
            ("header is no object", with_header(b"[]")),
            ("'a' appears twice", with_header(b'{"a": 1, "a": 2}')),
            ("metadata are not strings", with_header({"__metadata__": {"a": 1}})),
            ("has version 2.0, this package reads versions 1.x", with_header({"__metadata__": {"ding_worker_version": "2.0"}})),
            ("NaN is not a number", with_header(b'{"a": NaN}')),
            ("does not have just dtype", with_header({"a": {"dtype": "U8", "shape": [2]}}, b"12")),
            ("does not have just dtype", with_header({"a": dict(good, more=1)}, b"12")),
            ("no list of at most 64 extents", with_header({"a": dict(good, shape=[-2])}, b"12")),
            ("no list of at most 64 extents", with_header({"a": dict(good, shape=[2.0])}, b"12")),
            ("no list of at most 64 extents", with_header({"a": dict(good, shape=[True])}, b"12")),
            ("no list of at most 64 extents", with_header({"a": dict(good, shape=[1] * 65)}, b"12")),
            ("two data_offsets", with_header({"a": dict(good, data_offsets=[0])}, b"12")),
            ("bytes 2 to 0 of 2", with_header({"a": dict(good, data_offsets=[2, 0])}, b"12")),
            ("bytes 0 to 2 of 1; it has 2", with_header({"a": good}, b"1")),
            ("it has 3", with_header({"a": dict(good, shape=[3])}, b"12")),
            ("it has 85070591730234615847396907784232501249", with_header({"a": dict(good, shape=[2**63 - 1, 2**63 - 1])}, b"12")),
            ("tensor 'b' begins at byte 0 of the data, expected 2", with_header({"a": good, "b": good}, b"12")),
            ("tensor 'a' begins at byte 1", with_header({"a": dict(good, data_offsets=[1, 3])}, b"123")),
            ("the tensors have 2 bytes, the file has 3", with_header({"a": good}, b"123")),
            ("neither 0 nor 1", with_header({"a": dict(good, dtype="BOOL")}, b"\x00\x02")),
        ]
        for words, data in cases:
            with self.subTest(words):
                self.refused(words, parse_safetensors, data, "x")
        self.refused("has dtype 'F16'; known are", parse_safetensors, with_header({"a": dict(good, dtype="F16", shape=[1])}, b"12"), "x",
                     error=ding_worker.UnsupportedError)

    def test_no_change_of_a_checked_file_is_read(self):
        data = safetensors_bytes([("a", "U8", [3], b"abc")], self_checked=True)
        path = self.write("checked", data)
        self.assertEqual(ding_worker.read_safetensors(path, self_checked=True).get_string("a"), "abc")
        for at in range(len(data)):
            for change in (1, 0x80):
                broken = data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]
                with self.assertRaises((ding_worker.FormatError, ding_worker.UnsupportedError)):
                    parse_safetensors(broken, "x", self_checked=True)
            self.refused("", parse_safetensors, data[:at], "x", True)
        self.refused("no 'crc32c'", parse_safetensors, safetensors_bytes([("a", "U8", [3], b"abc")]), "x", True)

    def test_an_array_of_another_kind_is_refused(self):
        tensors = parse_safetensors(safetensors_bytes([("a", "U8", [2], b"\xff\xfe")]), "x")
        self.refused("x has no 'b'", tensors.get_int, "b")
        self.refused(r"'a' is uint8\[2\], expected int64\[\]", tensors.get_int, "a")
        self.refused("not UTF-8", tensors.get_string, "a")


class CheckpointTest(TemporaryFolder):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "checkpoint")
        shutil.copytree(os.path.join(FOLDER, "dqn", "checkpoint"), self.path)
        os.chmod(self.path, 0o755)
        for name in os.listdir(self.path):
            os.chmod(os.path.join(self.path, name), 0o644)

    def change(self, name, change):
        path = os.path.join(self.path, name)
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(change(data))

    def rewrite_manifest(self, change):
        """Changes the manifest and gives it the checksum that fits."""

        def rewrite(data):
            root = json.loads(data)
            del root["crc32c"]
            change(root)
            body = json.dumps(root, indent=2).encode()[:-2]
            return body + b',\n  "crc32c": "%08x"\n}\n' % crc32c(body)

        self.change("manifest.json", rewrite)

    def open(self):
        return ding_worker.open_checkpoint(self.path)

    def test_reads_a_checkpoint(self):
        checkpoint = self.open()
        checkpoint.verify()
        self.assertEqual((checkpoint.kind, checkpoint.components), ("ding_worker/train", ["model"]))
        self.assertEqual((checkpoint.fields["policy"], checkpoint.fields["env_step"]), ("dqn", "0"))
        model = checkpoint.component("model")
        self.assertEqual(
            {name: array.shape for name, array in model.items()},
            {
                "model/encoder/0/weight": (16, 5),
                "model/encoder/0/bias": (16,),
                "model/encoder/1/weight": (8, 16),
                "model/encoder/1/bias": (8,),
                "model/q/advantage/0/weight": (8, 8),
                "model/q/advantage/0/bias": (8,),
                "model/q/advantage/1/weight": (3, 8),
                "model/q/advantage/1/bias": (3,),
                "model/q/value/0/weight": (8, 8),
                "model/q/value/0/bias": (8,),
                "model/q/value/1/weight": (1, 8),
                "model/q/value/1/bias": (1,),
            },
        )
        self.assertEqual(checkpoint.config["policy"]["params"]["@type"], "ding.DqnConfig")
        self.refused("has no component 'learner'; it has: model", checkpoint.component, "learner")

    def test_the_page_shows_this_checkpoint(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        with open(os.path.join(self.path, "manifest.json"), encoding="utf-8") as file:
            self.assertIn(f"```json\n{file.read()}```\n", page)
        with open(os.path.join(self.path, "model.safetensors"), "rb") as file:
            data = file.read()
        shown = page.split('\n{"__metadata__"', 1)[1].split("...", 1)[0].encode()
        self.assertTrue(data[8:].startswith(b'{"__metadata__"' + shown))
        self.assertEqual(struct.unpack_from("<Q", data)[0] % 8, 0)

    def test_actions_are_those_of_the_program_that_wrote_it(self):
        golden = ding_worker.read_safetensors(os.path.join(FOLDER, "dqn", "golden.safetensors"))
        step = golden.scope("0")
        result = self.open().actor().evaluate(dict(step.scope("obs")))
        np.testing.assert_allclose(result["q"], step["q"], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(result["action"], step["greedy/action"])

    def test_a_folder_of_a_run_means_its_best_checkpoint(self):
        with tempfile.TemporaryDirectory() as run:
            best = os.path.join(run, "ckpt", "ckpt_best")
            shutil.copytree(self.path, best)
            for path in (run, os.path.join(run, "ckpt"), best):
                self.assertEqual(ding_worker.open_checkpoint(path).path, best)

    def test_damage_is_found(self):
        self.change("model.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1]))
        self.refused("damaged: '.*model.safetensors' has not the checksum", self.open().verify)
        self.change("model.safetensors", lambda data: data[:-1])
        self.refused("has .* bytes, the manifest says", self.open)
        os.remove(os.path.join(self.path, "model.safetensors"))
        self.refused("model.safetensors' is missing", self.open)
        os.remove(os.path.join(self.path, "manifest.json"))
        self.refused("there is no checkpoint", self.open, error=FileNotFoundError)

    def test_no_change_of_the_manifest_is_read(self):
        with open(os.path.join(self.path, "manifest.json"), "rb") as file:
            data = file.read()
        for at in range(len(data)):
            with open(os.path.join(self.path, "manifest.json"), "wb") as file:
                file.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            self.refused("manifest.json", self.open)

    def test_malformed_manifests_are_refused(self):
        def file_entry(**values):
            return lambda root: root["files"][0].update(values)

        cases = [
            ("format is 'x'", lambda root: root.update(format="x")),
            ("has version 2.0, this package reads versions 1.x", lambda root: root.update(major_version=2)),
            ("'major_version' is missing or is not a count", lambda root: root.update(major_version=True)),
            ("'kind' is missing", lambda root: root.pop("kind")),
            ("a field is not a string", lambda root: root["fields"].update(env_step=1)),
            ("'../model.safetensors' is not a file name", file_entry(name="../model.safetensors")),
            ("'model' is not a file name", file_entry(name="model")),
            ("'size_bytes' is missing or is not a count", file_entry(size_bytes=-1)),
            ("'12' is not a checksum", file_entry(crc32c="12")),
            ("'files' is missing or is not a list", lambda root: root.update(files={})),
        ]
        original = os.path.join(FOLDER, "dqn", "checkpoint", "manifest.json")
        for words, change in cases:
            with self.subTest(words):
                shutil.copyfile(original, os.path.join(self.path, "manifest.json"))
                self.rewrite_manifest(change)
                self.refused(words, self.open)

    def test_a_later_minor_version_is_read(self):
        self.rewrite_manifest(lambda root: root.update(minor_version=7, news=[1]))
        self.assertEqual(self.open().components, ["model"])

    def actor_of(self, config, tensors, fields=None, **options):
        """The actor of a checkpoint with this config, these float32 tensors and these further fields."""
        data = safetensors_bytes([(name, "F32", list(a.shape), a.astype("<f4").tobytes()) for name, a in tensors.items()])
        self.write("checkpoint/model.safetensors", data)

        def change(root):
            root["files"][0].update(size_bytes=len(data), crc32c=f"{crc32c(data):08x}")
            root["fields"] = {"config": config, **(fields or {})}

        self.rewrite_manifest(change)
        return self.open().actor(**options)

    def test_networks_that_do_not_fit_are_refused(self):
        config = 'policy { type: "dqn" params { model { } } }'
        weight, bias = "model/q/0/weight", "model/q/0/bias"
        good = {weight: np.array([[1.0, 2.0], [3.0, 4.0]]), bias: np.array([0.5, 0.0])}
        np.testing.assert_array_equal(self.actor_of(config, good).evaluate([1, 1])["q"], [3.5, 7])
        unsupported = ding_worker.UnsupportedError
        cases = [
            ("neither an encoder nor the head 'q'", {}, config, unsupported),
            (r"'q/0/bias' is float32\[3\], expected float32\[2\]", {**good, bias: np.zeros(3)}, config, ding_worker.FormatError),
            ("has no 'q/0/bias'", {weight: good[weight]}, config, ding_worker.FormatError),
            ("'q/0/weight' is not finite", {**good, weight: np.full((2, 2), np.nan)}, config, ding_worker.FormatError),
            ("unknown parameters: more", {**good, "model/more": np.zeros(1)}, config, unsupported),
            ("has convolutions", {**good, "model/conv/0/weight": np.zeros(1)}, config, unsupported),
            ("activation 'gelu' is not known", good, config.replace("{ }", "{ activation: GELU }"), unsupported),
            ("'model/actor' has neither an encoder nor the head 'mean'", good, config.replace("dqn", "sac"), unsupported),
            ("is of type 'mine', and the checkpoint does not describe its actor; known are dqn.*register its actor", good, config.replace("dqn", "mine"), unsupported),
            ("'q' has 2 outputs, expected a multiple of 51", good, config.replace("dqn", "c51"), ding_worker.FormatError),
            ("atoms 0, expected a count", good, config.replace("dqn", "c51").replace("model { }", "atoms: 0"), ding_worker.FormatError),
            ("has no 'cosine/0/weight'", good, config.replace("dqn", "iqn"), ding_worker.FormatError),
        ]
        for words, tensors, text, error in cases:
            with self.subTest(words):
                self.refused(words, self.actor_of, text, tensors, error=error)

    def test_the_description_of_the_actor_comes_before_the_config(self):
        config = 'policy { type: "mine" }'
        actor = {"version": 1, "policy": "mine", "parameters": "model/best", "network": {"activation": "tanh"}, "head": "tanh"}
        tensors = {"model/best/mean/0/weight": np.array([[0.5, 0.0]]), "model/best/mean/0/bias": np.array([0.0])}

        def load(**changes):
            fields = {"actor": json.dumps({**actor, **changes})}
            return self.actor_of(config, tensors, fields, low=-2, high=4)

        self.assertEqual(load().policy, "mine")
        np.testing.assert_allclose(load().act([1, 1]), [1 + 3 * np.tanh(0.5)], rtol=1e-6)
        self.refused("has the version 2, this package reads 1", lambda: load(version=2), error=(unsupported := ding_worker.UnsupportedError))
        self.refused("acts by the head 'beam'; known are q, q_distribution, categorical", lambda: load(head="beam"), error=unsupported)
        self.refused(
            "does not describe its actor; known are .*[.] its network is one of my own$",
            lambda: load(problem="its network is one of my own"),
            error=unsupported,
        )
        distributions = ({"head": "q_distribution", "distribution": bad} for bad in (None, {"kind": []}, {"kind": "atoms", "v_min": "0"}))
        for changes in ({"head": 3}, {"network": []}, {"unused_outputs": "value"}, {"obs_clip": "10"}, *distributions):
            self.refused("field 'actor' (lacks a member|has the distribution)", lambda: load(**changes), error=ding_worker.FormatError)


class TextConfigTest(TemporaryFolder):
    def test_reads_the_text_format(self):
        text = """
            # A comment.
            name: "a\\n\\x41\\101" 'b'; size: -0x10, small: 1e-8f half: .5 on: true off: false kind: TANH
            none: [] list: [1, 2,3] list: 4 many { x: 1 } many < x: 2 > one: { }
            [type.googleapis.com/ding.Own] { }
        """
        self.refused("a message \\[type.googleapis.com/ding.Own\\] beside other fields", ding_worker.parse_text_config, text)
        found = ding_worker.parse_text_config(text.rsplit("[type", 1)[0] + "params { [type.googleapis.com/ding.Own] { y: inf } }")
        self.assertEqual(
            found,
            {
                "name": "a\nAAb",
                "size": -16,
                "small": 1e-8,
                "half": 0.5,
                "on": True,
                "off": False,
                "kind": "TANH",
                "none": [],
                "list": [1, 2, 3, 4],
                "many": [{"x": 1}, {"x": 2}],
                "one": {},
                "params": {"@type": "ding.Own", "y": float("inf")},
            },
        )

    def test_says_where_a_text_is_wrong(self):
        cases = [
            ("config:2:3: expected ':' or a message after 'b', found }", "a {\nb }"),
            ("config:1:5: expected a value, found the end", "a : "),
            ("config:1:9: expected the name of a field or '}', found the end", "a { b{} "),
            ("config:1:4: unexpected '\"x'", 'a: "x'),
            ("config:1:8: expected ',' or '\\]', found 2", "a: [1  2]"),
            ("config:1:5: expected a value, found {", "a: -{"),
            ("is not an escape", 'a: "\\q"'),
            ("the extension \\[my.ext\\] is not read here", "[my.ext]: 1"),
            ("nested deeper than 50 messages", "a{" * 60 + "}" * 60),
            ("config:1:1: expected the name of a field, found 1", "1"),
            ("'09' is not a number", "a: 09"),
        ]
        for words, text in cases:
            with self.subTest(text):
                self.refused(words, ding_worker.parse_text_config, text)
        self.refused("is not UTF-8", ding_worker.read_config, self.write("config", b"a: '\xff'"))


def field_bytes(name, dtype, shape, low=(), high=(), categories=0):
    data = struct.pack("<I", len(name)) + name.encode() + struct.pack("<BB", dtype, len(shape))
    data += b"".join(struct.pack("<q", extent) for extent in shape) + struct.pack("<I", len(low))
    return data + struct.pack(f"<{2 * len(low)}d", *low, *high) + struct.pack("<qi", categories, -1)


def spec_bytes(*fields, rows=0):
    rest = struct.pack("<QI", rows, len(fields)) + b"".join(fields)
    data = b"DBAT" + struct.pack("<HHI", 1, 0, len(rest)) + rest
    return data + struct.pack("<I", crc32c(data))


OBS = field_bytes("obs", 4, [2])
ACTION = field_bytes("action", 3, [], categories=2)
REWARD = field_bytes("reward", 4, [])


class EpisodesTest(TemporaryFolder):
    def write_episodes(self, name="demo", **changes):
        parts = {
            "type": ("U8", [8], b"episodes"),
            "version": ("I64", [], struct.pack("<q", 1)),
            "env": ("U8", [3], b"Env"),
            "rows_spec": ("U8", None, spec_bytes(OBS, ACTION, REWARD)),
            "final_obs_spec": ("U8", None, spec_bytes(OBS)),
            "length": ("I64", [2], struct.pack("<2q", 1, 2)),
            "end": ("U8", [2], b"\x01\x02"),
            "rows/obs": ("F32", [3, 2], struct.pack("<6f", *range(6))),
            "rows/action": ("I64", [3], struct.pack("<3q", 0, 1, 1)),
            "rows/reward": ("F32", [3], struct.pack("<3f", 1, 2, 3.5)),
            "final_obs/obs": ("F32", [2, 2], struct.pack("<4f", 6, 7, 8, 9)),
        }
        parts.update(changes)
        tensors = [(key, dtype, [len(data)] if shape is None else shape, data) for key, (dtype, shape, data) in parts.items()]
        return self.write(name, safetensors_bytes(tensors, self_checked=True))

    def test_reads_episodes(self):
        episodes = ding_worker.read_episodes(self.write_episodes())
        self.assertEqual((len(episodes), episodes.env, episodes.returns), (2, "Env", [1.0, 5.5]))
        self.assertEqual(episodes.field("action").category_counts, [2])
        last = episodes[-1]
        self.assertEqual((len(last), last.end, episodes[0].end), (2, "truncated", "terminated"))
        np.testing.assert_array_equal(last["obs"], [[2, 3], [4, 5]])
        np.testing.assert_array_equal(last.final_obs["obs"], [8, 9])
        self.assertRaises(IndexError, lambda: episodes[2])

    def test_writes_what_it_reads(self):
        path = self.write_episodes()
        copy = os.path.join(self.folder, "copy")
        ding_worker.write_episodes(copy, ding_worker.read_episodes(path))
        self.assertEqual(dict(ding_worker.read_safetensors(path)).keys(), dict(ding_worker.read_safetensors(copy)).keys())
        for name, array in ding_worker.read_safetensors(path, self_checked=True).items():
            if name != "crc32c":
                np.testing.assert_array_equal(array, ding_worker.read_safetensors(copy, self_checked=True)[name])
        self.assertRaises(OSError, ding_worker.write_episodes, os.path.join(self.folder, "none/copy"), ding_worker.read_episodes(path))
        self.assertEqual(os.listdir(self.folder), ["demo", "copy"])

    def test_what_is_no_file_of_episodes_is_refused(self):
        cases = [
            ("holds 'buffers1', expected 'episodes'", {"type": ("U8", [8], b"buffers1")}),
            ("has version 2", {"version": ("I64", [], struct.pack("<q", 2))}),
            ("'length' is of 2 episodes, 'end' of 1", {"end": ("U8", [1], b"\x01")}),
            ("an end that is neither 1 nor 2", {"end": ("U8", [2], b"\x01\x00")}),
            ("an episode has no rows", {"length": ("I64", [2], struct.pack("<2q", 0, 3))}),
            (r"'rows/obs' is float32\[3, 2\], expected float32\[4, 2\]", {"length": ("I64", [2], struct.pack("<2q", 1, 3))}),
            (r"'rows/action' is int32\[3\], expected int64\[3\]", {"rows/action": ("I32", [3], bytes(12))}),
            ("batch message of only 3 bytes", {"rows_spec": ("U8", [3], b"abc")}),
        ]
        for words, changes in cases:
            with self.subTest(words):
                self.refused("is not a file of episodes: .*" + words, ding_worker.read_episodes, self.write_episodes(**changes))

    def test_malformed_specs_are_refused(self):
        good = spec_bytes(OBS)
        cases = [
            ("corrupted or truncated", good[:-1] + bytes([good[-1] ^ 1])),
            ("version 2.0", good[:4] + b"\x02" + good[5:]),
            ("a spec with 1 rows", spec_bytes(OBS, rows=1)),
            ("unknown element type 6", spec_bytes(field_bytes("a", 6, []))),
            ("has the shape \\[0\\]", spec_bytes(field_bytes("a", 4, [0]))),
            ("2 elements and 3 bounds", spec_bytes(field_bytes("a", 4, [2], [0, 0, 0], [1, 1, 1]))),
            ("appears twice", spec_bytes(OBS, OBS)),
            ("it ends after", spec_bytes(OBS[:-5])),
            ("it ends after", spec_bytes(struct.pack("<I", 2**32 - 1))),
        ]
        for words, data in cases:
            with self.subTest(words):
                self.refused(words, parse_spec, data)


class RunTest(TemporaryFolder):
    def make_run(self, csv="step,tag,value,wall_time\n0,a_step/x,1,1.5\n20,a_step/x,nan,1.5\n10,a_step/x,3,1.5\n10,a_step/x,4,1.5\n"):
        self.write("run/total_config.textproto", 'exp_name: "x"')
        self.write("run/log/metrics.csv", csv)
        return ding_worker.open_run(os.path.join(self.folder, "run"))

    def test_reads_a_run(self):
        run = self.make_run()
        self.assertEqual((run.config, run.result, run.checkpoints), ({"exp_name": "x"}, None, []))
        curve = run.metrics["a_step/x"]
        self.assertEqual(curve.steps.tolist(), [0, 10, 20])
        np.testing.assert_array_equal(curve.values, [1, 4, np.nan])
        self.write("run/result.json", '{"stop": true}')
        self.assertEqual(run.result, {"stop": True})
        self.refused("is not the folder of a run", ding_worker.open_run, self.folder, error=FileNotFoundError)

    def test_damaged_metrics_are_refused(self):
        for words, text in [
            ("has the columns \\['a', 'b'\\], expected step, tag, value", "a,b\n1,2\n"),
            ("has the columns None", ""),
            ("damaged in line 2: .*invalid literal", "step,tag,value\nx,a,1\n"),
            ("damaged in line 3: .*another number of columns", "step,tag,value\n1,a,1\n2,a\n"),
            ("damaged in line 2: .*another number of columns", "step,tag,value\n1,a,1,5\n"),
        ]:
            with self.subTest(text):
                self.refused(words, lambda: self.make_run(text).metrics)

    def test_plots(self):
        run = self.make_run()
        ax = mock.Mock()
        self.assertIs(run.plot("a_step/x", ax=ax), ax)
        np.testing.assert_array_equal(ax.plot.call_args[0][0], [0, 10, 20])
        ax.set_xlabel.assert_called_with("env steps")
        self.refused("has no 'b'; it has: a_step/x", run.plot, "b", error=ValueError)
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}):
            self.refused("needs matplotlib: apt-get install python3-matplotlib", run.plot, "a_step/x", error=ImportError)


if __name__ == "__main__":
    PAGE = sys.argv.pop(2)
    FOLDER = sys.argv.pop(1)
    unittest.main()
