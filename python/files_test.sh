#!/usr/bin/env bash
# Tests what the Python package reads and refuses, and that it is packaged whole.
set -euo pipefail
. python/testing/python.sh

"$python" python/tests/files_test.py python/testdata docs/reference/checkpoint_format.md
"$python" python/tests/mutants_test.py python/testdata

"$python" - <<'END'
import sys

if sys.version_info >= (3, 11):
    import tomllib

    with open("python/pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    assert project["tool"]["setuptools"]["packages"] == [project["project"]["name"]] == ["ding_worker"], project
END
