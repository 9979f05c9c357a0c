#!/usr/bin/env bash
# Trains a policy and acts with it by the example of docs/how_to/use_a_policy.md, which must be the program that is compiled.
set -euo pipefail
run=$TEST_TMPDIR/run

# The block of the page that begins with #include, and the program without its first comment.
page=$(sed -n '/^```cpp$/,/^```$/{/^```/d; p}' docs/how_to/use_a_policy.md)
program=$(sed '/^\/\//d' worker/use_a_policy.cc)
[ "$page" = "$program" ] || { diff <(echo "$page") <(echo "$program") >&2; exit 1; }

worker/serial --config=worker/configs/cartpole_dqn.textproto --exp_dir="$run" --max_env_step=1500 >/dev/null 2>&1
checkpoint=$(ls -d "$run"/ckpt/iteration_* | sort -V | tail -n 1)
# A pole that falls to the left, and one that falls to the right.
actions=$(printf '%s\n' '0 0 -0.15 -1' '0 0 0.15 1' | worker/use_a_policy "$checkpoint")
[ "$actions" = $'0\n1' ] || { echo "the actions are: $actions" >&2; exit 1; }

# The same without its checkpoint.
! worker/use_a_policy "$TEST_TMPDIR/nowhere" 2>"$TEST_TMPDIR/error" </dev/null || { echo "nothing was refused" >&2; exit 1; }
grep -q "there is no checkpoint at '$TEST_TMPDIR/nowhere'" "$TEST_TMPDIR/error" || { cat "$TEST_TMPDIR/error" >&2; exit 1; }
