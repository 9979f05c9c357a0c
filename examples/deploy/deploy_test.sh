#!/usr/bin/env bash
# Acts with the checkpoint of this folder; the program, stripped, is below 2 MB, and names what is wrong.
set -euo pipefail
actions=$(printf '%s\n' '0 0 0 0' '-3 -3 -3 -3' '3 3 3 3' '0 2 -2 1' | ./deploy checkpoint | tr '\n' ' ')
[ "$actions" = '0 1 1 0 ' ] || { echo "actions: $actions" >&2; exit 1; }
./deploy checkpoint --time | grep -E '^first action [0-9.]+ us, then [0-9.]+ us each$'
strip -o "$TEST_TMPDIR/deploy" deploy
size=$(stat -Lc %s "$TEST_TMPDIR/deploy")
[ "$size" -lt 2000000 ] || { echo "the stripped program has $size bytes, expected less than 2 MB" >&2; exit 1; }
if ./deploy no_checkpoint 2>"$TEST_TMPDIR/error"; then exit 1; fi
grep -q 'no_checkpoint' "$TEST_TMPDIR/error"
