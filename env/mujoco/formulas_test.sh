#!/usr/bin/env bash
# What the tasks on MuJoCo show, pay and end agrees with formulas that are written apart, in Python, on recorded episodes.
set -euo pipefail
. python/testing/python.sh

env/mujoco/record_episodes >"$TEST_TMPDIR/episodes"
"$python" env/mujoco/testdata/formulas.py <"$TEST_TMPDIR/episodes"

# It finds a reward that is wrong by little: the inverted pendulum pays 1.
if sed 's/"reward":1.0,/"reward":1.01,/' "$TEST_TMPDIR/episodes" |
  "$python" env/mujoco/testdata/formulas.py 2>"$TEST_TMPDIR/said"; then
  echo "formulas.py accepts wrong rewards" >&2
  exit 1
fi
grep -q 'reward is 1.01, expected 1' "$TEST_TMPDIR/said" || { cat "$TEST_TMPDIR/said" >&2; exit 1; }
