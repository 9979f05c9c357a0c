"""Builds what tools/gpu_check has packed on the libtorch of this machine's PyTorch, runs the tests and prints a table of updates.

gpu_check_run.py [--results=DIR] [--seconds=S] [--cxx_flags=FLAGS]

A part that fails does not keep the other parts from being run; the status is then 1. DIR gets the logs (default: where this file is).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

HERE = os.path.dirname(os.path.realpath(__file__))
ROUNDS = 3
TITLES = {
    "Cnn/32": "CNN of Atari, DQN, b 32",
    "Cnn/512": "CNN of Atari, DQN, b 512",
    "Replay/512": "the same, from replay, b 512",
    "Mlp/1024": "MLP 4 x 2048, DQN, b 1024",
    "Lstm/32": "LSTM 512, b 32 x 80 steps",
}
ROWS = {"Lstm/32": 32 * 80}


def torch_flags():
    """What a C++ compiler and linker need for the libtorch in PyTorch, or for Debian's, which is beside the system's headers."""
    folder = os.path.join(os.path.dirname(torch.__file__), "include")
    includes = [folder, folder + "/torch/csrc/api/include"] if os.path.isdir(folder) else ["/usr/include/torch/csrc/api/include"]
    libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
    flags = ["-L" + libraries, "-Wl,-rpath," + libraries, "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    if torch.version.cuda:
        flags += ["-ltorch_cuda", "-lc10_cuda"]
    # Those that this process has loaded with PyTorch. Some compilers would link another libstdc++ statically, and the two do not get on.
    # Debian's PyTorch has its Protobuf from a library, which stays apart from the one in the program if the linker knows of it.
    with open("/proc/self/maps", encoding="utf-8") as file:
        flags += sorted({line.split()[-1] for line in file if "/libstdc++.so" in line or "/libprotobuf.so" in line})
    return includes, flags + ["-Wl,--unresolved-symbols=ignore-in-shared-libs"]


def run(what, command, log, **kwargs):
    begin = time.time()
    with open(log, "w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, **kwargs).returncode
    print(f"{what}: {'ok' if status == 0 else f'FAILED with status {status}, see {log}'}, {time.time() - begin:.0f} s", flush=True)
    if status != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip() for line in file if any(word in line for word in ("rror", "FAILED", "Failure", "undefined"))]
        print("\n".join(line[:300] for line in lines[:40]), flush=True)
    return status == 0


def read_times(log):
    """The times of the benchmark in seconds, by name."""
    with open(log, encoding="utf-8") as file:
        report = json.load(file)
    return {row["name"].removeprefix("BM_").removesuffix("/real_time"): row["real_time"] / 1e3 for row in report["benchmarks"]}


def measure(build, results, seconds):
    """The times of ours and of PyTorch's updates, in turns: lists by name."""
    ours, theirs = {}, {}
    for i in range(ROUNDS):
        log = os.path.join(results, f"benchmark_{i}.json")
        command = [build + "/gpu_benchmark", f"--benchmark_min_time={seconds}", "--benchmark_out=" + log, "--benchmark_out_format=json"]
        if run(f"round {i}, ours", command, os.path.join(results, f"benchmark_{i}.log")):
            for name, value in read_times(log).items():
                ours.setdefault(name, []).append(value)
        log = os.path.join(results, f"pytorch_{i}.log")
        if run(f"round {i}, PyTorch", [sys.executable, HERE + "/gpu_check_torch.py", f"--seconds={seconds}"], log):
            with open(log, encoding="utf-8") as file:
                times = json.loads(file.read().splitlines()[-1])
            for name, value in times.items():
                theirs.setdefault(name, []).append(value)
    return ours, theirs


def table(ours, theirs):
    lines = ["| Update | ours | rows/s | PyTorch | rows/s | PyTorch / ours |", "|---|---|---|---|---|---|"]
    for name, title in TITLES.items():
        if name not in ours or name not in theirs:
            continue
        rows = ROWS.get(name, int(name.split("/")[1]))
        own, other = statistics.median(ours[name]), statistics.median(theirs[name])
        lines.append(f"| {title} | {own * 1e3:.2f} ms | {rows / own:,.0f} | {other * 1e3:.2f} ms | {rows / other:,.0f} | {other / own:.2f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", default=HERE)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--cxx_flags", default="")
    arguments = parser.parse_args()
    results, build = arguments.results, os.path.join(HERE, "build")
    os.makedirs(results, exist_ok=True)
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    print(f"PyTorch {torch.__version__}, {device}, {os.cpu_count()} cores", flush=True)

    includes, flags = torch_flags()
    configure = ["cmake", "-S", HERE, "-B", build, "-G", "Ninja", "-DTORCH_INCLUDES=" + ";".join(includes), "-DTORCH_FLAGS=" + ";".join(flags),
                 "-DCMAKE_CXX_FLAGS=" + arguments.cxx_flags]
    good = run("cmake", configure, results + "/cmake.log") and run("build", ["ninja", "-C", build, "-k", "0"], results + "/build.log")
    if os.path.exists(build + "/torch_tests"):
        # The tolerances of the tests are those of float32; by default cuDNN rounds the operands of products.
        exact = dict(os.environ, NVIDIA_TF32_OVERRIDE="0")
        good = run("tests", [build + "/torch_tests", "--gtest_brief=1"], results + "/tests.log", env=exact) and good
    if not torch.cuda.is_available():
        print("no GPU: updates are not measured", flush=True)
    elif os.path.exists(build + "/gpu_benchmark"):
        ours, theirs = measure(build, results, arguments.seconds)
        print(table(ours, theirs), flush=True)
        good = good and ours.keys() == theirs.keys()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
