#!/usr/bin/env bash
# Trains for a moment, and plays what was trained with //worker:evaluate: as text, as JSON, in a table, into a video and a file of
# episodes; and tries what it refuses.
set -euo pipefail
run=$TEST_TMPDIR/run
out=$TEST_TMPDIR/out
error=$TEST_TMPDIR/error

# has FILE REGEX: fails unless a line of FILE matches.
has() {
  grep -qE -- "$2" "$1" && return 0
  echo "no line '$2' in:" >&2
  cat "$1" >&2
  exit 1
}
play() {
  worker/evaluate "$@" >"$out" 2>"$error" || { echo "'$*' failed:" >&2; cat "$error" >&2; exit 1; }
}
# refused REGEX ARGUMENT...: it ends with status 1, says why, and prints no result.
refused() {
  local expected=$1 status=0
  shift
  worker/evaluate "$@" >"$out" 2>"$error" || status=$?
  [ $status -eq 1 ] || { echo "'$*' ended with status $status, expected 1" >&2; exit 1; }
  has "$error" "$expected"
  [ ! -s "$out" ] || { echo "'$*' printed a result" >&2; exit 1; }
}

worker/serial --config=worker/configs/cartpole_dqn.textproto --exp_dir="$run" --max_env_step=200 >/dev/null 2>&1
newest=$(basename "$(ls -d "$run"/ckpt/iteration_*)")

play --checkpoint="$run" --episodes=3 --seed=5
has "$out" "^checkpoint  $run/ckpt/ckpt_best \(train iteration [0-9]+, env step [0-9]+\)$"
has "$out" '^mean        [0-9.]+ \(95 % interval -?[0-9.]+ to [0-9.]+\)$'
mean=$(sed -nE 's/^mean +([0-9.]+) .*/\1/p' "$out")
play --checkpoint="$run/ckpt" --episodes=3 --seed=5 --json --video="$TEST_TMPDIR/out.gif"
python3 - "$out" "$mean" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
assert abs(result["mean"] - float(sys.argv[2])) < 1e-3, result
assert result["episodes"] == len(result["returns"]) == 3 and result["video"]["return"] in result["returns"], result
END
[ "$(head -c 6 "$TEST_TMPDIR/out.gif")" = GIF89a ]
play --checkpoint="$run" --checkpoint "$run/ckpt/$newest" --episodes=2 --env=CartPole-v1 --record_episodes=''
has "$out" '^CartPole-v1, 2 episodes each, seed 0, greedy actions'
has "$out" "^$newest +[0-9]+ +[0-9.]+"
play --checkpoint="$run" --actions=sampled --record_episodes="$TEST_TMPDIR/episodes"
has "$out" "^recorded    $TEST_TMPDIR/episodes$"

refused "no '.*/nowhere'" --checkpoint="$TEST_TMPDIR/nowhere"
refused "'$run/log' has no checkpoints" --checkpoint="$run/log"
refused '--checkpoint is missing' --episodes=3
refused '--checkpoint needs a FOLDER' --checkpoint
refused "field 'obs' is float32\[3\].*expected float32\[4\]" --checkpoint="$run" --env=Pendulum-v1
refused "did you mean 'CartPole-v1'" --checkpoint="$run" --env=cartpole
refused 'there are 2 checkpoints: expected one' --checkpoint="$run" --checkpoint="$run" --video="$TEST_TMPDIR/two.gif"
refused "--actions is 'best', expected greedy or sampled" --checkpoint="$run" --actions=best

rm -r "$run/ckpt/ckpt_best"
play --checkpoint="$run" --episodes=1
has "$error" "there is no ckpt_best in $run/ckpt: taking the newest, $newest "
