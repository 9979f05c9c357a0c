#!/usr/bin/env bash
# Trains in several processes with the modules of this folder, and checks that each was used.
set -euo pipefail
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
has '^own/best_loss [0-9]+ [0-9]' "the hook in the learner" "$run"/log/lines_learner*.txt
has 'counting:file:.*: [1-9][0-9]* puts' "the store" "$run"/log/*_logger.txt
# Its buffer has room for 100,000 rows: no others are evicted before it has that many.
has 'rows pushed, [0-9]{1,5} in it, [1-9][0-9]* evicted' "the remover" "$run/log/coordinator_logger.txt"
