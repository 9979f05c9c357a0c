# Sets $python to an interpreter with numpy, and lets it find the package. Source it in the root of the runfiles.

python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "no python3 has numpy; run tools/setup test" >&2; exit 1; }
export PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
