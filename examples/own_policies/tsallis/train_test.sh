#!/usr/bin/env bash
# Trains Tsallis until it is solved, with three seeds.
set -euo pipefail
cd "$(dirname "$0")"  # beside the program
for seed in 0 1 2; do
  ./train --config=tsallis.textproto --seed=$seed --exp_dir="$TEST_TMPDIR/run_$seed" | tee "$TEST_TMPDIR/stdout"
  grep -q '^result {"stop":true,' <<<"$(tail -n 1 "$TEST_TMPDIR/stdout")" || { echo "not solved with seed $seed" >&2; exit 1; }
done
