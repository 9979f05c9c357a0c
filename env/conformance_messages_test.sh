#!/usr/bin/env bash
# Each wrong env of conformance_test.cc must fail with a sentence that says what is wrong.
#   conformance_messages_test.sh PROGRAM
set -euo pipefail
program=$1
failed=0

expect() {
  local name=$1 text=$2 output status=0
  output=$("$program" --gtest_filter="*/$name" 2>&1) || status=$?
  if [ "$status" -ne 1 ] || ! grep -qF -- "$text" <<<"$output"; then
    printf '%s\n' "$output" | tail -n 60
    echo "'$name' ended with status $status, expected 1 and the text: $text"
    failed=1
  fi
}

expect BadMaskSpec "action mask 'obs/action_mask' is bool[4], expected bool[5]"
expect SkipsElement "Step() number 1 did not write element 1 of 'obs/numbers' float32[2] in [-1, 1]"
expect WritesBehind "Reset() wrote outside its row of 'obs/numbers', which has 2 elements"
expect OutOfBounds "observation 'obs/numbers' element 1 is 1.5, expected a value in [-1, 1]"
expect Nan "observation 'obs/numbers' element 1 is nan, expected a finite number"
expect BadBool "observation 'obs/action_mask' element 0 is 2, expected 0 or 1"
expect BadCategory "observation 'obs/categories' element 0 is 4, expected a category, 0..3"
expect NothingLegal "the episode goes on, and player 0 can do nothing"
expect Remembers "let Reset() clear the state of the episode before"
expect Endless "the episode goes on after step 7, expected its end by step 6"
expect Reward "the reward of player 1 is 4, expected one in [0, 3]"
expect ResizesRewards "Step() resized other_rewards"
expect Throws "it threw an exception: no more steps"
expect WrongType "it threw an exception: "
expect ForgetsToSave "the restored env differs from the saved one at step"
exit $failed
