#!/usr/bin/env bash
# Trains Corridor until it is solved.
set -euo pipefail
cd "$(dirname "$0")"  # beside the program
./train --config=corridor_dqn.textproto --exp_dir="$TEST_TMPDIR/run" | tee "$TEST_TMPDIR/stdout"
grep -q '^result {"stop":true,' <<<"$(tail -n 1 "$TEST_TMPDIR/stdout")"
