#!/usr/bin/env bash
# Trains Room until it is solved.
set -euo pipefail
cd "$(dirname "$0")"  # beside the program
./train --config=room_ppo.textproto --exp_dir="$TEST_TMPDIR/run" | tee "$TEST_TMPDIR/stdout"
grep -q '^result {"stop":true,' <<<"$(tail -n 1 "$TEST_TMPDIR/stdout")"
