#!/usr/bin/env bash
# Compares the Python actor with policies of the C++ library, on checkpoints that are written here.
set -euo pipefail
. python/testing/python.sh

python/golden "$TEST_TMPDIR/golden"
"$python" python/tests/golden_test.py "$TEST_TMPDIR/golden"
