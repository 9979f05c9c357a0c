#!/usr/bin/env bash
# Trains in several processes with the modules of this folder, and checks that each was used.
set -euo pipefail
cd "$(dirname "$0")"  # beside the programs
run=$TEST_TMPDIR/parallel

# has REGEX WHAT FILE...: fails unless a line of one of the files matches.
has() {
  local regex=$1 what=$2
  shift 2
  grep -qE "$regex" "$@" && return 0
  echo "no sign of $what: no line '$regex' in $*" >&2
  exit 1
}

./parallel --config=parallel.textproto --exp_dir="$run" --set=system.store_url="counting:file:$TEST_TMPDIR/store"
has '"stop":true' "convergence" "$run/result.json"
has '^own/evaluations_reached 2 2$' "the commander, which waits for two evaluations" "$run/log/lines_coordinator.txt"
has 'evaluator at iteration .*score' "the evaluator, with a score of its own" "$run/log/coordinator_logger.txt"
has '^own/best_loss [0-9]+ [0-9]' "the hook in the learner" "$run"/log/lines_learner*.txt
has 'counting:file:.*: [1-9][0-9]* puts' "the store" "$run"/log/*_logger.txt
has 'warm_up: [0-9]+ rows of [1-9][0-9]* steps are not sent' "the collector" "$run"/log/collector*_logger.txt
has 'counting: collecting task 1$' "CreateCollector() of the comm collector" "$run"/log/collector*_logger.txt
has 'counting: [1-9][0-9]* rows sent$' "SendStepData() of the comm collector" "$run"/log/collector*_logger.txt
has 'counting: learning task 1$' "CreateLearner() of the comm learner" "$run"/log/learner*_logger.txt
has 'counting: [1-9][0-9]* rows loaded before version [0-9]+$' "GetData(), SendPolicy()" "$run"/log/learner*_logger.txt
# Its buffer has room for 100,000 rows: no others are evicted before it has that many.
has 'rows pushed, [0-9]{1,5} in it, [1-9][0-9]* evicted' "the remover" "$run/log/coordinator_logger.txt"

# Two learning rates, of which one is too low: its policy is given up, and another one goes on with what is known.
run=$TEST_TMPDIR/two_rates
./parallel --config=two_rates.textproto --exp_dir="$run"
has '"stop":true' "convergence" "$run/result.json"
has 'learner_task_[0-9]+ begins with version [0-9]+ of policy_0' "the copy" "$run"/log/learner-*_logger.txt
has '"policy":"policy_[2-9]' "the policy that took the copy" "$run/result.json"

# Two learners that add their gradients by the all-reduce.
run=$TEST_TMPDIR/two_learners
./parallel --config=parallel.textproto --exp_dir="$run" --max_train_iter=150 --set=system.store_url="counting:file:$TEST_TMPDIR/store" \
  --set=policy.learn.learner_num=2 --set=policy.learn.all_reduce=counting
for rank in 0 1; do
  has "counting: sum 101 of rank $rank of 2, [1-9][0-9]* numbers" "the all-reduce of rank $rank" "$run"/log/learner*_logger.txt
done

# A buffer of sequences in the place of the buffer of rows.
run=$TEST_TMPDIR/sequences
./parallel --config=parallel.textproto --exp_dir="$run" --max_train_iter=50 --set=system.store_url="counting:file:$TEST_TMPDIR/store" \
  --set='policy.other.replay_buffer={type:"recent_sequence" params{[type.googleapis.com/ding.SequenceBufferConfig]{unroll_len:4 priority{}}}}'
has 'rows pushed, [0-9]+ in it' "the items" "$run/log/coordinator_logger.txt"
