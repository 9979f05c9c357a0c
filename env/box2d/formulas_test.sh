#!/usr/bin/env bash
# What the Box2D tasks show, pay and end agrees with formulas that are written apart, in Python, on recorded episodes.
set -euo pipefail
. python/testing/python.sh

env/box2d/record_episodes >"$TEST_TMPDIR/episodes"
"$python" env/box2d/testdata/formulas.py <"$TEST_TMPDIR/episodes"

# It finds a reward that is wrong by little.
if sed 's/"reward":-100.0/"reward":-99.9/' "$TEST_TMPDIR/episodes" | "$python" env/box2d/testdata/formulas.py 2>"$TEST_TMPDIR/said"; then
  echo "formulas.py accepts wrong rewards" >&2
  exit 1
fi
grep -q 'reward is -99.9, expected -100' "$TEST_TMPDIR/said" || { cat "$TEST_TMPDIR/said" >&2; exit 1; }
