#!/usr/bin/env bash
# Tests what the Python package reads and refuses, and that it is packaged whole.
set -euo pipefail
. python/testing/python.sh

"$python" python/tests/files_test.py python/testdata docs/reference/checkpoint_format.md
"$python" python/tests/mutants_test.py python/testdata

"$python" - <<'END'
import glob
import sys

if sys.version_info >= (3, 11):
    import tomllib

    with open("python/pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    folders = sorted(path[len("python/"):-len("/__init__.py")] for path in glob.glob("python/**/__init__.py", recursive=True))
    assert project["tool"]["setuptools"]["packages"] == [folder.replace("/", ".") for folder in folders], project
END
