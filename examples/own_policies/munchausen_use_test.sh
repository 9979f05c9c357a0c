#!/usr/bin/env bash
# What a run of an algorithm of one's own can do: it goes on exactly after a kill, runs in parallel, is exported, and acts in Python.
set -euo pipefail
cd "$(dirname "$0")"  # beside the folders of the algorithms
ding_worker=$TEST_SRCDIR/ding_worker
fail() { printf '%s\n' "$@" >&2; exit 1; }

echo 'env { type: "CartPole-v0" } policy { type: "munchausen" }' >"$TEST_TMPDIR/bare.textproto"
munchausen/train --config="$TEST_TMPDIR/bare.textproto" --print_config >"$TEST_TMPDIR/printed"
grep -q 'update_per_collect: 8  # default of munchausen: SB3 zoo' "$TEST_TMPDIR/printed" ||
  fail "it has no defaults of dqn:" "$(cat "$TEST_TMPDIR/printed")"

settings=(--config=munchausen/munchausen.textproto --seed=4 --max_env_step=3000 --set=env.stop_value=1000
  --set=resume.period_seconds=0 --set=resume.period_rounds=5)
whole=$TEST_TMPDIR/whole
killed=$TEST_TMPDIR/killed
munchausen/train "${settings[@]}" --exp_dir="$whole" >/dev/null 2>"$whole.err" || fail "$(cat "$whole.err")"
munchausen/train "${settings[@]}" --exp_dir="$killed" >/dev/null 2>"$killed.err" &
pid=$!
deadline=$((SECONDS + 60))
until grep -qxE 'resume_[1-9][0-9]*' <<<"$(ls "$killed/ckpt" 2>/dev/null)"; do
  kill -0 $pid 2>/dev/null || fail "the run ended before it could be killed:" "$(cat "$killed.err")"
  [ $SECONDS -lt $deadline ] || fail "there is no resume point after a minute:" "$(cat "$killed.err")"
  sleep 0.01
done
kill -9 $pid
wait $pid 2>/dev/null || true
[ ! -e "$killed/result.json" ] || fail "the run was over before it was killed"
munchausen/train --resume --exp_dir="$killed" >/dev/null 2>"$killed.resumed" || fail "$(cat "$killed.resumed")"
last=$(cd "$whole/ckpt" && ls -d iteration_* | sort -V | tail -n 1)
cmp "$whole/ckpt/$last/model.safetensors" "$killed/ckpt/$last/model.safetensors"

parallel=$TEST_TMPDIR/parallel
munchausen/parallel --config=munchausen_parallel.textproto --exp_dir="$parallel" >/dev/null 2>"$parallel.err" || fail "$(cat "$parallel.err")"
grep -q '"stop":true' "$parallel/result.json" || fail "the parallel run does not solve it:" "$(cat "$parallel/result.json")"

munchausen/evaluate --checkpoint="$parallel" --episodes=5 --record_episodes="$TEST_TMPDIR/episodes" >/dev/null
"$ding_worker/worker/export" --checkpoint="$parallel" --format=c --output="$TEST_TMPDIR/exported" >/dev/null
[ -s "$TEST_TMPDIR/exported/policy.c" ] || fail "nothing was exported"

cd "$ding_worker"
. python/testing/python.sh
"$python" - "$parallel" "$TEST_TMPDIR/episodes" <<'END'
import sys
import ding_worker
actor = ding_worker.open_run(sys.argv[1]).checkpoint('ckpt_best').actor()
episodes = list(ding_worker.read_episodes(sys.argv[2]))
assert len(episodes) == 5, episodes
for episode in episodes:
    # numpy adds in another order, so of values that are almost equal either may be chosen.
    q = actor.evaluate(episode['obs'])['q']
    chosen = q[range(len(q)), episode['action']]
    assert (chosen >= q.max(axis=1) - 1e-4 * abs(q).max()).all(), q.max(axis=1) - chosen
END
