#!/usr/bin/env bash
# Trains the env of this folder until it is solved, and plays it.
set -euo pipefail
cd "$(dirname "$0")"  # beside the program
./train --config=point_dqn.textproto --exp_dir="$TEST_TMPDIR/run" | tee "$TEST_TMPDIR/stdout"
grep -q '^result {"stop":true,' <<<"$(tail -n 1 "$TEST_TMPDIR/stdout")"
grep -q '"episodes":10,"mean":' <<<"$(./evaluate --checkpoint="$TEST_TMPDIR/run" --json)"
# It draws no pictures.
! ./evaluate --checkpoint="$TEST_TMPDIR/run" --video="$TEST_TMPDIR/out.gif" 2>"$TEST_TMPDIR/error"
grep -q 'cannot be rendered' "$TEST_TMPDIR/error"
# A loop of one's own learns it, too.
./own_loop | tee "$TEST_TMPDIR/own_loop"
awk '{ exit !($NF > 85) }' "$TEST_TMPDIR/own_loop"
