#!/usr/bin/env bash
# A cluster of three nodes on this machine (slurmctld and three slurmd -N), and one run that goes through all that can happen to a job.
set -euo pipefail

. tools/slurm_cluster.sh
[ "${1:-}" = inside ] || enter_namespaces redis redis-server

config=$PWD/worker/configs/cartpole_dqn_soak.textproto
launch=("$PWD/tools/launch" "--program=$PWD/worker/parallel" --nodes=2 --collectors=2 --slurm "$config" --set=system.max_seconds=0)
place=$(mktemp -d /tmp/ding_launch.XXXXXX)  # Sockets need short names.
trap 'rm -rf "$place"' EXIT
cd "$place"
run=$place/run

fail() {
  printf '%s\n' "$@" >&2
  tail -n 60 slurm-*.out >&2 || true
  tail -n 15 cluster/slurmctld.log >&2 || true
  squeue -t all >&2 || true
  exit 1
}
# refused 'PART OF THE MESSAGE' COMMAND...
refused() {
  local message=$1
  shift
  if "$@" >out 2>&1; then fail "'$*' was not refused:" "$(cat out)"; fi
  grep -qF -- "$message" out || fail "'$*' was refused with:" "$(cat out)"
}

# ---- without a cluster

env PATH=/usr/bin/nowhere:/bin /usr/bin/python3 "${launch[@]}" --exp_dir="$run" --dry_run >script
python3 -m py_compile script
grep -qxF '#SBATCH --signal=B:USR1@90' script && grep -qxF '#SBATCH --ntasks-per-node=2' script || fail "$(head -n 20 script)"
grep -qxF '#SBATCH --gres=gpu:2' <<<"$("${launch[@]}" --gpus=2 --dry_run)" || fail "one learner with two GPUs, on two nodes"
[ ! -e "$run.job" ] || fail "--dry_run has written something"
mkdir -p bare && ln -sf /usr/bin/python3 /usr/bin/env bare/
refused 'sbatch is missing' env PATH="$place/bare" "${launch[@]}" --exp_dir="$run"
refused "--nodes is 9, but there are only 4 tasks" "${launch[@]}" --nodes=9 --dry_run
refused 'policy.collect.colector_num' "${launch[@]}" --set=policy.collect.colector_num=2 --dry_run
refused "is '1 GB', expected a size" "${launch[@]}" --redis_memory='1 GB' --dry_run

# ---- a cluster

start_cluster 3 4

refused 'Its partitions: main' "${launch[@]}" --partition=nowhere --exp_dir="$run"
refused 'Slurm refuses the job' "${launch[@]}" --cpus=3 --collectors=9 --exp_dir="$run"
[ ! -e "$run.job" ] || fail "a job that was refused has written something"

refused 'expected --address= one of lo (127.0.0.1), eth0 (10.7.0.1)' "${launch[@]}" --address=10.9.8.7 --exp_dir="$place/lost"
refused "'$place/lost.job' exists" "${launch[@]}" --exp_dir="$place/lost"
# Workers that cannot start: their own words are shown.
mkdir dying
cat >dying/parallel <<END
#!/bin/sh
case "\$*" in *--role=collector* | *--role=learner*) echo 'no licence' >&2; exit 1 ;; esac
exec ${launch[1]#*=} "\$@"
END
chmod +x dying/parallel
ln -s "$(dirname "${launch[1]#*=}")/ctl" dying/ctl
refused '    no licence' "${launch[@]}" --program="$place/dying/parallel" --exp_dir="$place/dies"
grep -qF 'no worker has joined, and' out || fail "$(cat out)"

# ---- the run

"${launch[@]}" --exp_dir="$run" --spare_tasks=1 --time=10 >out 2>&1 || fail "$(cat out)"
grep -q 'the first worker has joined' out || fail "$(cat out)"
job=$(cat "$run.job/owner")
log=$place/slurm-$job.out
ctl() { "$run.job/ctl" "$@"; }
# env_step: 0 if nothing answers.
env_step() { ctl status 2>/dev/null | sed -nE '1s/.* env_step ([0-9]+) .*/\1/p' | grep . || echo 0; }
# goes_on: it has collected more than before the last call, with that many workers.
before=0
goes_on() {
  wait_until 90 "[ \$(env_step) -gt $before ] && [ \$(ctl status 2>/dev/null | grep -cE ' (learner|collector)-[0-9]') = $1 ]"
  before=$(($(env_step) + 300))
}
steps() { squeue -h -s -j "$job" -o %i | grep -cv batch; }
pid_of() { ctl status | awk -v name="$1" '{ for (i = 1; i < 4; i++) if ($i == name) print $(i + 2) }'; }
goes_on 3

# Secrets: in no process list, no log, and no file that others can read.
secrets=$(cat "$run.job"/certs/*/tokens | awk '{ print $2 }' && cat "$run.job/certs/redis_password")
[ "$(wc -l <<<"$secrets")" -ge 4 ] || fail "there are no secrets"
ps axeo args >processes
cat "$run.job"/script "$run.job"/log/* "$run"/log/*.txt slurm-*.out >>processes
if grep -qF "$secrets" processes; then fail "a secret can be seen:" "$(grep -F "$secrets" processes)"; fi
[ -z "$(find "$run.job" -perm /077 -not -type l)" ] || fail "others can read:" "$(find "$run.job" -perm /077)"

# A step has the processors of one task, and as many threads.
grep -q 'CPUs=1 Tasks=1' <<<"$(scontrol show step "$job.0")" || fail "$(scontrol show step "$job.0")"
grep -zqx OMP_NUM_THREADS=1 "/proc/$(pid_of learner-0)/environ" || fail "the learner's threads are not bounded"

# grow and shrink
ctl grow 2 >/dev/null
goes_on 5
[ "$(steps)" = 5 ] || fail "5 workers, but $(steps) steps"
ctl grow 1 >/dev/null
wait_until 20 'grep -q "1 workers have no place" "$log"'
ctl shrink 3 >/dev/null
wait_until 30 '[ "$(steps)" = 3 ]'

# Another job on this run
second=$(sbatch --parsable --nodes=1 --ntasks=1 "$run.job/script")
wait_until 30 'grep -qs "job '"$job"' (RUNNING) works on this run" "slurm-$second.out"'

# Workers, the coordinator and Redis die.
kill -9 "$(pid_of learner-0)" "$(pid_of collector-1)"
goes_on 3
pkill -9 -f 'parallel --role=coordinator'
goes_on 3
pkill -9 -x redis-server  # with its child, while it saves
goes_on 3
echo "after deaths: $(ctl status | head -n 1)"

# requeued: the job has begun again, and the run goes on.
restarts=0
requeued() {
  restarts=$((restarts + 1))
  wait_until 90 "grep -q 'JobState=RUNNING.* Restarts=$restarts ' <<<\"\$(scontrol -o show job $job)\""
  wait_until 60 "[ \$(env_step) -gt 0 ]"
  goes_on 3
  echo "after $1: $(ctl status | head -n 1)"
}
# A node is lost: its slurmd, and all that ran on it.
node=$(squeue -h -j "$job" -o %B)
kill -9 "$(cat "cluster/$node.pid")"
pkill -9 -f "^slurmstepd: \[$job\.|$run.job/bin/parallel|slurm_script|^redis-"
requeued "the loss of $node"
[ "$(squeue -h -j "$job" -o %B)" != "$node" ] || fail "the job is still on $node"
slurmd -N "$node"
# Preemption
scontrol requeue "$job"
requeued preemption
# What Slurm sends 90 s before the time limit
scancel --batch --signal=USR1 "$job"
requeued 'the time limit'
grep -q 'it is requeued (3 of at most 20 times)' "$log" || fail "it is not said how often"

# scancel saves the run, and leaves nothing behind.
scancel "$job"
wait_until 40 '[ -z "$(squeue -h -j "$job")" ]'
grep -q "go on with: sbatch $run.job/script" "$log" || fail "it is not said how to go on"
[ ! -e "$run.job/certs" ] || fail "secrets are left"
wait_until 10 '! pgrep -f "parallel --role|redis-server|slurm_script|srun " >/dev/null'

# It goes on in a new job, to its end.
job=$(sbatch --parsable "$run.job/script")
log=$place/slurm-$job.out
wait_until 60 "[ \$(env_step) -gt 0 ]"
goes_on 3
wait_until 10 '[ -e "$run.job/joined" ]'  # The job looks for new workers every few seconds.
ctl stop >/dev/null
wait_until 40 '[ -z "$(squeue -h -j "$job")" ]'
grep -q JobState=COMPLETED <<<"$(scontrol show job "$job")" || fail "$(scontrol show job "$job")"
grep -q '"why":"an operator' "$run/result.json" || fail "$(cat "$run/result.json")"
wait_until 10 '! pgrep -f "parallel --role|redis-server|slurm_script|srun " >/dev/null'
[ "$(ls "$run.job" | xargs)" = "config.textproto ctl joined log owner script" ] || fail "$(ls "$run.job")"
rows=$(grep -o 'rows: [0-9]* pushed, [0-9]* acknowledged' "$run/log/coordinator_logger.txt" | tail -n 1) || fail "no count of rows"
read -r _ pushed _ acknowledged _ <<<"$rows"
[ "$acknowledged" -gt 0 ] && [ "$acknowledged" -le "$pushed" ] || fail "acknowledged and lost: $rows"
echo "$rows"

# ---- several learners of one policy, through an aggregator

before=0
run=$place/group
"${launch[@]}" --exp_dir="$run" --set=policy.learn.learner_num=2 --time=10 >out 2>&1 || fail "$(cat out)"
job=$(cat "$run.job/owner")
log=$place/slurm-$job.out
# learns: with two learners, further than at the last call.
iterations=0
learns() {
  wait_until 90 "[ \$(ctl status 2>/dev/null | grep -cE ' learner-[01] ') = 2 ] && [ \$(train_iter) -gt $iterations ]"
  iterations=$(($(train_iter) + 100))
}
train_iter() { ctl status 2>/dev/null | sed -nE '1s/.* train_iter ([0-9]+) .*/\1/p' | grep . || echo 0; }
learns
[ "$(squeue -h -s -j "$job" -o '%j %N' | awk '/^learner/ { print $2 }' | sort -u | wc -l)" = 2 ] || fail "both learners are on one node"
for name in learner-1 aggregator-0; do
  kill -9 "$(pid_of $name)"
  learns
  echo "after the death of $name: $(ctl status | head -n 1)"
done
ctl stop >/dev/null
wait_until 40 '[ -z "$(squeue -h -j "$job")" ]'
grep -q JobState=COMPLETED <<<"$(scontrol show job "$job")" || fail "$(scontrol show job "$job")"
wait_until 10 '! pgrep -f "parallel --role|redis-server|slurm_script|srun " >/dev/null'
