#!/usr/bin/env bash
# Runs the test files of the arguments by pytest.
set -euo pipefail
. python/testing/python.sh

"$python" -c 'import pytest' 2>/dev/null || {
  echo "skipped: $python has no pytest; tools/setup test installs it"
  exit 0
}
"$python" -m pytest -q -p no:cacheprovider -W error --rootdir="$PWD/python/tests" "$@"
