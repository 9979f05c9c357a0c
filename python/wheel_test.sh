#!/usr/bin/env bash
# Installs the wheel into a new virtual environment, and uses it there, without the sources.
set -euo pipefail
. python/testing/python.sh
unset PYTHONPATH

wheel=$(echo python/wheel/ding_worker-*.whl)
fits() { "$1" -c "import numpy, sys; sys.exit('-cp%d%d-' % sys.version_info[:2] not in '$wheel')" 2>/dev/null; }
fits "$python" || python=/usr/bin/python3
fits "$python" || {
  echo "skipped: $wheel is for another Python than $python"
  exit 0
}
own=$TEST_TMPDIR/own
# The packages of the system have numpy, which pip may not be able to fetch here.
"$python" -m venv --system-site-packages "$own" >"$TEST_TMPDIR/venv" 2>&1 || {
  echo "skipped: $python has no venv; apt-get install python3-venv"
  exit 0
}
"$own/bin/pip" --disable-pip-version-check install --no-index --quiet "$wheel"
wheel=$PWD/$wheel test=$PWD/python/tests/wheel_test.py
cd "$TEST_TMPDIR"
"$own/bin/python" "$test" "$wheel"
"$own/bin/python" -m ding_worker >listed
for name in CartPole-v1 advanced frame_stack; do
  grep -q "^  $name " listed || { cat listed >&2; exit 1; }
done
"$own/bin/python" -m mypy --version >/dev/null 2>&1 || { echo "without mypy, the stubs are not checked"; exit 0; }
cat >typed.py <<'END'
import ding_worker as dw

buffer = dw.create_buffer({"type": "naive"})
count: int = buffer.count()
steps: int = dw.make_vec("CartPole-v1", num_envs=8).num_envs
END
"$own/bin/python" -m mypy --no-error-summary typed.py
