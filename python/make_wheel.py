#!/usr/bin/env python3
"""Writes the wheel of the package, for the Python that the extension was compiled for.

    make_wheel.py OUTPUT_FOLDER MODULE_BAZEL LICENSE PYPROJECT FILE...

The files are those of the package ding_worker, with _core.so, and ready configs (*.textproto). The shared libraries that it needs besides those of every Linux travel in
ding_worker.libs, where its RPATH finds them. Equal files give an equal wheel.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

# The GNU C and C++ libraries, which PEP 600 lets a wheel expect.
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so(\.\d+)*$")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def stripped(path):
    """The bytes of a library without its symbols, if this machine has strip."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            subprocess.run(["strip", "--strip-unneeded", "-o", file.name, path], check=True)
        except FileNotFoundError:
            return read(path)
        return read(file.name)


def libraries(path):
    """Name -> path of the shared libraries that travel along."""
    found = {}
    for line in subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and not EVERYWHERE.match(name):
            if rest.startswith("not found"):
                sys.exit(f"make_wheel: {path} needs {name}, which this machine does not have: install its package")
            found[name] = rest.split(" ")[0]
    return found


def main(output, module_bazel, license_file, pyproject, *files):
    version = re.search(r'version = "([^"]+)"', read(module_bazel).decode())[1]
    project = read(pyproject).decode()
    core = next(path for path in files if path.endswith("/_core.so"))
    tag = re.search(rb"ding_worker_tag_(cp\d+)", read(core))[1].decode()
    tag = f"{tag}-{tag}-linux_{os.uname().machine}"
    info = f"ding_worker-{version}.dist-info"

    content = {}
    for path in files:
        name = f"ding_worker/configs/{os.path.basename(path)}" if path.endswith(".textproto") else path[path.rindex("ding_worker/"):]
        content[name] = stripped(path) if path == core else read(path)
    for name, path in libraries(core).items():
        content[f"ding_worker.libs/{name}"] = stripped(path)
    summary = re.search(r'description = "(.*)"', project)[1]
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: ding_worker\nVersion: {version}\nSummary: {summary}\nLicense: Apache-2.0\n"
        "Requires-Python: >=3.9\nRequires-Dist: numpy<2,>=1.22\nProvides-Extra: plot\nRequires-Dist: matplotlib; extra == 'plot'\n"
    ).encode()
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    content[f"{info}/LICENSE"] = read(license_file)
    record = ""
    for name, data in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    content[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    with zipfile.ZipFile(os.path.join(output, f"ding_worker-{version}-{tag}.whl"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in sorted(content.items()):
            member = zipfile.ZipInfo(name)  # with the date 1980-01-01
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            wheel.writestr(member, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
