#!/usr/bin/env bash
# Runs the test files of the arguments by pytest, with the Python that the extension was compiled for.
set -euo pipefail
. python/testing/python.sh

# An extension with AddressSanitizer needs its library, and that of exceptions, before Python. Python does not free all at its end, and
# memory that was freed must not count as lost: bazel test --config=asan_ubsan --build_tag_filters= --test_tag_filters= //python:...
if grep -q __asan_init python/ding_worker/_core.so; then
  LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so.6)"
  export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
fi
for candidate in "$python" /usr/bin/python3; do
  "$candidate" -c 'import numpy, pytest' 2>/dev/null || continue
  "$candidate" -c 'import ding_worker.replay_buffer' 2>"$TEST_TMPDIR/why" || continue
  exec "$candidate" -m pytest -q -p no:cacheprovider -W error --rootdir="$PWD/python/tests" "$@"
done
if [ -e "$TEST_TMPDIR/why" ]; then
  cat "$TEST_TMPDIR/why" >&2
  exit 1
fi
echo "skipped: no python3 has numpy and pytest; tools/setup test installs them"
