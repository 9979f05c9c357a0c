#!/usr/bin/env bash
# Converts checkpoints of DI-engine's networks and back, and compares their actions; tries what is refused.
set -euo pipefail
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy, torch' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "no python3 has numpy and torch; run tools/setup test" >&2; exit 1; }
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/python
for test in di_engine_test di_engine_import_test; do
  "$python" "tools/$test.py" "$PWD/tools/di_engine" "$PWD/worker/export" "$PWD/worker/serial_physics"
done
