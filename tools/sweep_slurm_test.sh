#!/usr/bin/env bash
# tools/sweep --slurm in allocations of a cluster of two nodes on this machine (tools/slurm_cluster.sh).
set -euo pipefail
. tools/slurm_cluster.sh
[ "${1:-}" = inside ] || enter_namespaces 'sweep plot'

sweep=$PWD/tools/sweep
serial=$PWD/worker/serial
config=$PWD/worker/configs/cartpole_ppo.textproto
place=$(mktemp -d /tmp/ding_sweep.XXXXXX)  # Sockets need short names.
trap 'rm -rf "$place"' EXIT
cd "$place"

fail() {
  printf '%s\n' "FAILED: $*" >&2
  tail -n 15 cluster/slurmctld.log >&2 || true
  squeue -s >&2 || true
  exit 1
}
has() { grep -qF -- "$2" "$1" || fail "expected '$2' in $1, found: $(cat "$1")"; }

# Lines of `calls` are begin or end, the number of the trial, its node and its step. kind=9 fails; others take SLOW seconds,
# and wait until AT_ONCE of them have begun.
cat >fake <<'END'
#!/usr/bin/env bash
for argument in "$@"; do
  case $argument in
    --set=kind=*) kind=${argument##*=} ;;
    --exp_dir=*) folder=${argument#*=} ;;
    --print_config) exit 0 ;;
  esac
done
name="${folder#*trial_} $SLURMD_NODENAME $SLURM_STEP_ID"
echo "begin $name" >>calls
[ -z "${SHOW-}" ] || scontrol show step "$SLURM_JOB_ID.$SLURM_STEP_ID" >>steps
mkdir -p "$folder"
touch "$folder/total_config.textproto"
[ "$kind" != 9 ] || { echo 'it broke' >&2; exit 3; }
trap 'echo "saved $name" >>calls; exit 138' USR1
for ((i = 0; i < 900 && $(grep -c '^begin [1-9]' calls) < ${AT_ONCE:-0}; i++)); do sleep 0.1; done
for ((i = 0; i < 10 * ${SLOW:-0}; i++)); do sleep 0.1; done
echo "{\"eval_value\": $kind}" >"$folder/result.json"
echo "end $name" >>calls
END
chmod +x fake
touch config.textproto
# make_sweep NAME TRIALS: 1, 2, ..., and one that fails
make_sweep() {
  echo "config: 'config.textproto' program: 'fake' method: GRID seeds: 1 $3 parameter { path: 'kind' value: ['9', $(seq -s, -f "'1%.0f'" "$2")] }" >"$1.textproto"
}
count() { grep -csE -- "$1" calls || true; }
# most_at_a_time
most_at_a_time() { awk '/^begin/ { if (++now > most) most = now } /^(end|saved)/ { --now } END { print most }' calls; }

start_cluster 2 4

echo '== as many at a time as the allocation has tasks, on both nodes'
make_sweep ten 10 ''
AT_ONCE=5 SLOW=1 salloc --quiet -n 5 "$sweep" --slurm ten.textproto >out 2>err || fail "$(cat err)"
has out '| 10 | 110 | 110 |'
has out '| 0 | kind=9 | seed 0: fake ended with status 3: '
has out 'it broke'
grep -v ' 0/' calls >others && mv others calls  # It has no end.
[ "$(count ^end)" = 10 ] && [ "$(most_at_a_time)" = 5 ] || fail "$(cat calls)"
[ "$(awk '/^end/ { print $3 }' calls | sort -u | xargs)" = 'n1 n2' ] || fail "$(cat calls)"
[ "$(awk '/^end/ { print $4 }' calls | sort -u | wc -l)" = 10 ] || fail "$(cat calls)"

echo '== with processors for each; --jobs'
rm calls
make_sweep wide 4 ''
SHOW=true AT_ONCE=4 SLOW=1 salloc --quiet -n 4 -c 2 "$sweep" --slurm wide.textproto >out 2>err || fail "$(cat err)"
[ "$(grep -c 'CPUs=2 Tasks=1' steps)" = 5 ] && [ "$(most_at_a_time)" -ge 4 ] || fail "$(cat steps calls)"
rm calls
SLOW=1 salloc --quiet -n 4 "$sweep" --slurm --jobs=2 --out=two wide.textproto >out 2>err || fail "$(cat err)"
[ "$(most_at_a_time)" -le 3 ] || fail "$(cat calls)"  # The one that fails has no end.
! salloc --quiet -n 4 "$sweep" --slurm --jobs=5 --out=five wide.textproto >out 2>err || fail 'five jobs in four tasks'
grep -q -- '--jobs is 5, but the allocation [0-9]* has 4 tasks with 1 processors each; leave out --jobs, or allocate more: salloc -n 5' err || fail "$(cat err)"

echo '== scancel, SIGTERM and SIGKILL'
for number in TERM KILL; do
  rm -f calls
  make_sweep ended_$number 6 ''
  SLOW=100 salloc --quiet -n 3 bash -c 'echo $$ >pid; exec "$0" --slurm --out='$number' "$1"' "$sweep" ended_$number.textproto >out 2>err &
  wait_until 30 '[ "$(count "^begin [1-9]")" = 3 ]'
  kill -$number "$(cat pid)"
  status=0
  wait $! || status=$?
  [ $number = KILL ] || { [ "$status $(count ^saved)" = '143 3' ] && has err 'interrupted; the same command goes on'; } || fail "$status: $(cat err calls)"
  wait_until 20 '! pgrep -f "fake --config" >/dev/null'
  salloc --quiet -n 3 "$sweep" --slurm --out=$number ended_$number.textproto >out 2>err || fail "$(cat err)"
  [ "$(count ^end)" = 6 ] || fail "$(cat calls)"
done

echo '== a time limit'
rm calls
make_sweep slow 2 'max_seconds: 2'
SLOW=100 salloc --quiet -n 3 "$sweep" --slurm slow.textproto >out 2>err && fail 'all were to fail'
has out '| 1 | kind=11 | seed 0: it was ended after 2 s |'
[ "$(count ^saved)" = 2 ] || fail "$(cat calls)"

echo '== a population with the real program, by sbatch'
cat >real.textproto <<END
config: "$config"
program: "$serial"
parameter { path: "learning_rate" range { low: 0.0001 high: 0.01 log: true } }
method: PBT
trials: 4
max_env_step: 2000
pbt { interval: 1000 }
END
sbatch --quiet --wait -n 4 --output=out --wrap="'$sweep' --slurm real.textproto" || fail "$(cat out)"
has out '| from '
[ "$(ls sweep_real/trial_*/interval_*/result.json | wc -l)" -ge 5 ] || fail "$(ls sweep_real/*)"
