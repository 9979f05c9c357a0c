#!/usr/bin/env bash
# Trains with the modules of this folder, in one process and on recorded episodes, and checks that each was used.
set -euo pipefail
cd "$(dirname "$0")"  # beside the programs
run=$TEST_TMPDIR/serial
learned=$TEST_TMPDIR/supervised

# has FILE REGEX WHAT: fails unless a line of FILE matches.
has() {
  grep -qE "$2" "$1" && return 0
  echo "no sign of $3: no line '$2' in $1" >&2
  exit 1
}

./serial --list_modules >"$TEST_TMPDIR/modules"
for name in window recent keep_newest whole_episodes fall_costs repeat best_loss right_recall early_stop every_episode lines worst_return first_move; do
  has "$TEST_TMPDIR/modules" "^  $name " "module $name"
done

# The parameters are explained by the comments of their .proto file.
./serial --help_config='policy.learn.learner.params<repeat>' >"$TEST_TMPDIR/help"
has "$TEST_TMPDIR/help" '<RepeatLearnerParams>\.times = 2 ' "the parameter of the learner"
has "$TEST_TMPDIR/help" 'How often the learner trains on each batch, at least 1' "its comment"
has "$TEST_TMPDIR/modules" '^  repeat .*\[own.RepeatLearnerParams\]' "the message of the learner's parameters"

./serial --config=serial.textproto --exp_dir="$run"
has "$run/result.json" '"env_step":[1-9]' "a result"
has "$run/log/lines_serial.txt" '^own/best_loss 10 [0-9]' "the hook, and the sink"
# The learner trains twice on each of the 20 batches of a round; a whole episode has more rows than were asked for.
iterations=$(sed -E 's/.*"train_iter":([0-9]+).*/\1/' "$run/result.json")
((iterations > 0 && iterations % 40 == 0)) || { echo "no sign of the learner: $iterations iterations" >&2; exit 1; }

./evaluate --checkpoint="$run/ckpt/ckpt_best" --episodes=20 --record_episodes="$TEST_TMPDIR/cartpole.episodes"
./serial --config=supervised.textproto --exp_dir="$learned" --set=data_set.path="$TEST_TMPDIR/cartpole.episodes"
has "$learned/result.json" '"right_recall":(1|0\.[5-9])' "the metric"
has "$learned/log/lines_serial.txt" '^own/evaluations_without_better [0-9]+ 3$' "the metric evaluator, which ends the run"

stopped=$TEST_TMPDIR/stopped
./serial --config=serial.textproto --exp_dir="$stopped" --set=env.stop_value=1000 \
  --set='stopper=[{type:"every_episode" params{[type.googleapis.com/own.EveryEpisodeParams]{value:30}}}]'
has "$stopped/result.json" '"why":"stopper .every_episode.: the least return of an evaluation is' "the stopper"

# The policy never loses against an opponent that is always the same, once it has found out how to win.
games=$TEST_TMPDIR/games
./serial --config=opponent.textproto --exp_dir="$games"
has "$games/result.json" '"stop":true' "a win over the opponent"

# A module with the parameters of another one.
status=0
./serial --config=serial.textproto --exp_dir="$TEST_TMPDIR/refused" \
  --set='policy.learn.learner.params={[type.googleapis.com/own.LinesSinkParams]{}}' 2>"$TEST_TMPDIR/refusal" || status=$?
((status == 1)) || { echo "params of another message: exit code $status, expected 1" >&2; exit 1; }
has "$TEST_TMPDIR/refusal" "params hold a own.LinesSinkParams, expected a own.RepeatLearnerParams" "the refusal"
