#!/usr/bin/env bash
# deploy/start with all its roles, as an engine would call it: processes come in any order, the coordinator is killed, interrupted and
# started again, and the run goes on. The engine's part is played by this script.
set -euo pipefail

place=$TEST_TMPDIR/place
mkdir -p "$place/bin" "$place/data"
for program in parallel ctl; do ln -s "$PWD/worker/$program" "$place/bin"; done
export PATH=$place/bin:$PATH
export DING_COORDINATOR=localhost:7235 DING_REDIS=127.0.0.1:6379 DING_RUN=$place/run DING_REDIS_DATA=$place/data DING_REDIS_MEMORY=100mb
export DING_CONFIG=$PWD/worker/configs/cartpole_dqn_soak.textproto

fail() {
  printf '%s\n' "$@" >&2
  tail -n 20 "$place"/*.err >&2
  exit 1
}
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT

# start_as NAME ROLE [ARGUMENT...]: replaces the shell by a process of the role, with the files of the role alone.
start_as() { DING_SECRETS=$place/secrets/$2 DING_PRIVATE=$place/private_$1 exec deploy/start "${@:2}"; }
# run NAME ROLE [ARGUMENT...]: does so in the background, and sets $pid.
run() {
  (start_as "$@") >>"$place/$1.out" 2>>"$place/$1.err" &
  pid=$!
}
ctl() { (DING_SECRETS=$place/secrets/operator DING_PRIVATE=$place/private_operator exec deploy/start ctl "$@") 2>>"$place/ctl.err"; }
env_step() { ctl status | sed -nE '1s/.* env_step ([0-9]+) .*/\1/p' | grep . || echo 0; }
workers() { ctl status | grep -cE ' (learner|collector)-[0-9]' || true; }
# wait_until EXPRESSION
wait_until() {
  local end=$((SECONDS + 90))
  until eval "$1"; do
    [ $SECONDS -lt $end ] || fail "not within 90 s: $1" "$(ctl status || true)"
    sleep 0.2
  done
}
# goes_on: three workers are there, and more was collected than before.
before=0
goes_on() {
  wait_until "[ \$(workers) = 3 ] && [ \$(env_step) -gt $before ]"
  before=$(($(env_step) + 500))
}
# ended CODE: the coordinator has ended with it.
ended() {
  local code=0
  wait "$coordinator" || code=$?
  [ $code = "$1" ] || fail "the coordinator ended with $code, expected $1"
}

if deploy/start worker 2>"$place/start.err"; then fail "a role that does not exist was not refused"; fi
grep -q "the role is 'worker', expected coordinator, learner" "$place/start.err" || fail "another message"

# A worker waits for its secrets, and then for the coordinator.
run collector-0 collector --name=collector-0
deploy/start secrets "$place/secrets"
made=$(md5sum "$place"/secrets/*/*)
deploy/start secrets "$place/secrets"
[ "$(md5sum "$place"/secrets/*/*)" = "$made" ] || fail "secrets that were there are made anew"
[ "$(ls "$place/secrets/redis")" = redis_password ] || fail "Redis gets more than its password"
chmod 440 "$place"/secrets/*/*  # as an engine mounts them
run redis redis
flags=(--set=system.max_seconds=0)
run coordinator coordinator "${flags[@]}"
coordinator=$pid
run collector-1 collector --name=collector-1
run learner learner --name=learner-0
goes_on
grep -q "redis:127.0.0.1:6379/runs" "$place/run/coordinator/run.textproto" || fail "the data are not in Redis"
[ ! -e "$place/run/log/learner-0_logger.txt" ] || fail "a worker writes into the folder of the coordinator"

# The engine kills the coordinator, and starts it again.
kill -9 "$coordinator"
ended 137
run coordinator coordinator "${flags[@]}"
coordinator=$pid
goes_on

# The engine moves it: it is asked to end, and another one goes on. The workers end with the run, and are started again, too.
kill -TERM "$coordinator"
ended 143
run coordinator coordinator "${flags[@]}"
coordinator=$pid
for name in collector-0 collector-1; do run $name collector --name=$name; done
run learner learner --name=learner-0
goes_on
ctl stop >/dev/null
ended 0
[[ $(tail -n 1 "$place/coordinator.out") == 'result {'* ]] || fail "there is no result"
[ -s "$place/run/log/learner-0_logger.txt" ] || fail "the logs of the learner did not come through the store"
