"""Compares exports with the outputs of the actor in their golden.json, to 1e-5.

  check_exports.py DIR            DIR/<case>/<format>, as export_cases writes them

ONNX files are run by onnx_numpy.py and checked by Python's onnx. If ORT_WEB is a folder node_modules with onnxruntime-web, that
runs them, too. C sources are compiled by $CC (cc) with all warnings as errors, without the library; gcc and clang, if they are there, also
compile them without a warning, as C99 and as C++. TorchScript is run by Python's torch.
"""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx

import onnx_numpy

_TYPES = {"obs/action_mask": "bool", "obs/image": "uint8"}  # of the fields that are not float32
_WARNINGS = "-pedantic -Wall -Wextra -Wconversion -Wdouble-promotion -Wfloat-conversion -Wshadow -Werror".split()
_FLAGS = ["-std=c99", *_WARNINGS, *"-ffreestanding -O1 -shared -fPIC -nostdlib".split()]
_LANGUAGES = (["-std=c99", "-Wstrict-prototypes", "-Wmissing-prototypes"], ["-x", "c++", "-std=c++17"])


def read_golden(folder):
    with open(folder / "golden.json", encoding="utf-8") as file:
        golden = json.load(file)
    types = {name: "float32" for name in golden["inputs"]}
    types.update({name: dtype for name, dtype in _TYPES.items() if name in types})
    inputs = {name: np.array(value["data"], types[name]).reshape(value["shape"]) for name, value in golden["inputs"].items()}
    outputs = {name: np.array(value["data"]).reshape(value["shape"]) for name, value in golden["outputs"].items()}
    assert all(len(value) == 16 for value in [*inputs.values(), *outputs.values()])
    return inputs, outputs, types


def compare(found, expected, where):
    assert set(found) == set(expected), f"{where}: outputs {sorted(found)}, expected {sorted(expected)}"
    for name, value in expected.items():
        assert np.shape(found[name]) == value.shape, f"{where}: '{name}' is {np.shape(found[name])}, expected {value.shape}"
        error = np.abs(found[name] - value) / np.maximum(1, np.abs(value))
        assert (error < 1e-5).all(), f"{where}: '{name}' differs by {error.max()}"


def check_onnx(folder):
    inputs, outputs, types = read_golden(folder)
    path = folder / "policy.onnx"
    compare(onnx_numpy.run(path, inputs), outputs, folder)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    ran = ["numpy", "onnx.checker"]
    if os.environ.get("ORT_WEB"):
        command = ["node", str(pathlib.Path(__file__).parent / "run_onnx.js"), str(folder), json.dumps(types)]
        env = {**os.environ, "NODE_PATH": os.environ["ORT_WEB"]}
        result = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
        compare({name: np.array(value).reshape(outputs[name].shape) for name, value in result.items()}, outputs, folder)
        ran.append("onnxruntime-web")
    return ran


def check_c(folder):
    inputs, outputs, _ = read_golden(folder)
    library = folder / "policy.so"
    subprocess.run([os.environ.get("CC", "cc"), *_FLAGS, "-o", library, folder / "policy.c"], check=True)
    compilers = [compiler for compiler in ("gcc", "clang") if shutil.which(compiler)]
    for compiler in compilers:
        for language in _LANGUAGES:
            subprocess.run([compiler, *language, *_WARNINGS, "-fsyntax-only", folder / "policy.c"], check=True)
    policy = ctypes.CDLL(str(library))
    output_names = [name for name in outputs if name not in ("action", "next_state")]
    found = {name: np.zeros_like(value) for name, value in outputs.items()}
    for row in range(16):
        state = inputs["state"][row].copy() if "state" in inputs else None
        arguments = [np.ascontiguousarray(value[row]) for name, value in inputs.items() if name != "state"]
        if state is not None:
            arguments.append(state)
        results = [np.zeros(outputs[name][row].size, np.float32) for name in output_names]
        action_type = np.float32 if outputs["action"].dtype == np.float64 else np.int32
        action = np.zeros(max(1, outputs["action"][row].size), action_type)
        policy.policy_act(*[argument.ctypes.data_as(ctypes.c_void_p) for argument in [*arguments, *results, action]])
        for name, result in zip(output_names, results):
            found[name][row] = result.reshape(outputs[name][row].shape)
        found["action"][row] = action.reshape(outputs["action"][row].shape)
        if state is not None:
            found["next_state"][row] = state
    compare(found, outputs, folder)
    return ["cc", *compilers]


def check_torchscript(folder):
    import torch

    inputs, outputs, _ = read_golden(folder)
    module = torch.jit.load(str(folder / "policy.pt"))
    results = module({name: torch.from_numpy(value) for name, value in inputs.items()})
    compare({name: value.numpy() for name, value in results.items()}, outputs, folder)
    return ["torch"]


_CHECKS = {"onnx": check_onnx, "c": check_c, "torchscript": check_torchscript}


def main(root):
    count = 0
    for folder in sorted(pathlib.Path(root).glob("*/*")):
        if folder.name not in _CHECKS:
            continue
        print(folder.parent.name, folder.name, "ran by", ", ".join(_CHECKS[folder.name](folder)))
        count += 1
    assert count > 0, f"{root} has no exports"


if __name__ == "__main__":
    main(sys.argv[1])
