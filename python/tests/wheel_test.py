"""Uses the installed package:  wheel_test.py WHEEL"""

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

WHEEL = sys.argv[1]

# Another protobuf, and its own libprotobuf, come first.
try:
    from google.protobuf import descriptor_pb2

    descriptor_pb2.FileDescriptorProto(name="first")
except ImportError:
    print("without python3-protobuf, no other protobuf comes first")

with zipfile.ZipFile(WHEEL) as archive:
    names = archive.namelist()
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    rows = list(csv.reader(archive.read(record).decode().splitlines()))
    assert sorted(row[0] for row in rows) == sorted(names) and len(set(names)) == len(names)
    for name, digest, size in rows:
        if name != record:
            data = archive.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert int(size) == len(data), name
    assert "ding_worker/py.typed" in names and "ding_worker/_core.pyi" in names

start = time.perf_counter()
import numpy  # noqa: E402

numpy_ready = time.perf_counter()
import ding_worker  # noqa: E402
import ding_worker.replay_buffer  # noqa: E402

ready = time.perf_counter()
megabytes = os.path.getsize(WHEEL) / 1e6
print(f"{megabytes:.1f} MB; numpy {1e3 * (numpy_ready - start):.0f} ms, ding_worker {1e3 * (ready - numpy_ready):.0f} ms")
assert megabytes < 15

where = os.path.dirname(ding_worker.__file__)
assert where.startswith(sys.prefix), where
with open("/proc/self/maps") as file:
    loaded = set(re.findall(r"/\S*/libabsl_status\.so\S*", file.read()))
# A library that the process had already is not loaded again.
assert len(loaded) == 1, loaded
if "google.protobuf" not in sys.modules:
    assert all("ding_worker.libs" in path for path in loaded), loaded
exported = subprocess.run(["nm", "-D", "--defined-only", f"{where}/_core.so"], capture_output=True, text=True)
if exported.returncode == 0:
    # A small letter is that of a symbol that only the library itself sees.
    symbols = [line.split() for line in exported.stdout.splitlines()]
    assert [name for _, kind, name in symbols if kind.isupper()] == ["PyInit__core"], exported.stdout

buffer = ding_worker.create_buffer({"replay_buffer_size": 10})
buffer.push({"obs": [0.5], "action": 1, "reward": 1, "next_obs": [0.25], "done": False}, 0)
assert buffer.sample(1, 0)[0]["next_obs"] == 0.25
envs = ding_worker.make_vec("LunarLander-v3", num_envs=2)
assert envs.reset()[0].shape == (2, 8)
assert numpy.isfinite(envs.step([0, 1])[0]).all()
print("ok")
