#!/usr/bin/env bash
# Whole programs with a CartPole of Python: a run that is killed and goes on ends with the bytes of one that was not disturbed; an
# env without a state goes on with a warning; evaluations and parallel runs play it; --python chooses the interpreter.
set -euo pipefail
testdata=$PWD/env/gymnasium/testdata

# An interpreter of its own, which leaves a line for each process that it becomes.
python=$TEST_TMPDIR/python
printf '#!/bin/sh\necho started >>"%s/started"\nexec /usr/bin/python3 "$@"\n' "$TEST_TMPDIR" >"$python"
chmod +x "$python"

# write_config FILE CLASS CONFIG: a shipped config whose env is a class of testdata.
write_config() {
  sed -E 's|type: "CartPole-v0"|type: "gymnasium" manager { type: "subprocess" envs_per_process: 2 }|
      s|^env \{|&\n  params { [type.googleapis.com/ding.GymnasiumConfig] {\n'"    entry_point: \"cartpole:$2\" python_path: \"$testdata\" } }|" \
    "worker/configs/$3.textproto" >"$1"
}
fail() { printf '%s\n' "$@" >&2; exit 1; }

write_config "$TEST_TMPDIR/exact" CartPole cartpole_dqn
write_config "$TEST_TMPDIR/forgetful" ForgetfulCartPole cartpole_dqn
write_config "$TEST_TMPDIR/parallel_config" CartPole cartpole_dqn_parallel
settings=(--set=resume.period_seconds=0 --set=resume.period_rounds=5 --max_env_step=900 --seed=4 --python="$python")

# killed NAME CONFIG: a run that is killed as soon as it has a resume point, and goes on.
killed() {
  local run=$TEST_TMPDIR/$1 pid deadline=$((SECONDS + 60))
  worker/serial --config="$TEST_TMPDIR/$2" --exp_dir="$run" "${settings[@]}" >"$run.out" 2>"$run.err" &
  pid=$!
  until grep -qxE 'resume_[1-9][0-9]*' <<<"$(ls "$run/ckpt" 2>/dev/null)"; do
    kill -0 $pid 2>/dev/null || fail "the run ended before it could be killed:" "$(cat "$run.err")"
    [ $SECONDS -lt $deadline ] || fail "there is no resume point after a minute:" "$(cat "$run.err")"
    sleep 0.01
  done
  kill -9 $pid
  wait $pid 2>/dev/null || true
  [ ! -e "$run/result.json" ] || fail "the run was over before it was killed"
  worker/serial --resume --exp_dir="$run" --python="$python" >"$run.out" 2>"$run.resumed" || fail "$(cat "$run.resumed")"
}

worker/serial --config="$TEST_TMPDIR/exact" --exp_dir="$TEST_TMPDIR/whole" "${settings[@]}" >/dev/null 2>"$TEST_TMPDIR/whole.err" ||
  fail "$(cat "$TEST_TMPDIR/whole.err")"
[ -s "$TEST_TMPDIR/started" ] || fail "--python did not choose the interpreter"
killed killed exact
last=$(cd "$TEST_TMPDIR/whole/ckpt" && ls -d iteration_* | sort -V | tail -n 1)
cmp "$TEST_TMPDIR/whole/ckpt/$last/model.safetensors" "$TEST_TMPDIR/killed/ckpt/$last/model.safetensors"
! grep -q 'goes on inexactly' "$TEST_TMPDIR/killed.resumed" || fail "an env with a state began new episodes"
killed killed_forgetful forgetful
grep -q 'cannot save their state: they begin new episodes, the run goes on inexactly' "$TEST_TMPDIR/killed_forgetful.resumed" ||
  fail "no warning:" "$(cat "$TEST_TMPDIR/killed_forgetful.resumed")"
grep -q 'such as the level of a curriculum, is lost.*get_state()' "$TEST_TMPDIR/killed_forgetful.resumed" ||
  fail "the warning does not say what is lost:" "$(cat "$TEST_TMPDIR/killed_forgetful.resumed")"

# The same policy plays the same episodes in Python as in C++.
rm "$TEST_TMPDIR/started"
play() {
  worker/evaluate --checkpoint="$TEST_TMPDIR/whole" --episodes=5 --seed=1 --json "$@" 2>"$TEST_TMPDIR/play.err" || fail "$(cat "$TEST_TMPDIR/play.err")"
}
play --python="$python" >"$TEST_TMPDIR/in_python"
[ -s "$TEST_TMPDIR/started" ] || fail "--python did not choose the interpreter of the evaluation"
play --env=CartPole-v1 >"$TEST_TMPDIR/in_cpp"
python3 - "$TEST_TMPDIR/in_python" "$TEST_TMPDIR/in_cpp" <<'END'
import json, sys
first, second = (json.load(open(path)) for path in sys.argv[1:])
assert len(first["returns"]) == 5 and first["returns"] == second["returns"], (first, second)
END

# Statistics of an env replace no metric of ours, and say in how many episodes they are.
write_config "$TEST_TMPDIR/statistics_config" CartPole cartpole_dqn
sed -i 's|cartpole:CartPole|sample_envs:Statistics|' "$TEST_TMPDIR/statistics_config"
# The config comes out of a pipe.
worker/serial --config=<(cat "$TEST_TMPDIR/statistics_config") --exp_dir="$TEST_TMPDIR/statistics" --max_env_step=200 --python="$python" \
  --set=env.stop_value=1000 >/dev/null 2>"$TEST_TMPDIR/statistics.err" || fail "$(cat "$TEST_TMPDIR/statistics.err")"
evaluate() {
  worker/evaluate --checkpoint="$TEST_TMPDIR/statistics" --episodes=10 --python="$python" --set=env.evaluator_env_num=1 "$@" \
    2>"$TEST_TMPDIR/evaluate.err" || fail "$(cat "$TEST_TMPDIR/evaluate.err")"
}
evaluate >"$TEST_TMPDIR/text"
grep -qx 'info/is_success mean 1 (in 1 of 10 episodes)' "$TEST_TMPDIR/text" || fail "$(cat "$TEST_TMPDIR/text")"
grep -qx 'info/nan    no mean (in 0 of 10 episodes, and not finite in 10)' "$TEST_TMPDIR/text" || fail "$(cat "$TEST_TMPDIR/text")"
evaluate --json >"$TEST_TMPDIR/json"
python3 - "$TEST_TMPDIR/json" "$TEST_TMPDIR/statistics" <<'END'
import csv, json, sys
played = json.load(open(sys.argv[1], encoding="utf-8"))
assert played["mean"] == played["max"] == 10 and played["info"]["reward"] == -12345, played
assert played["info_count"]["is_success"] == 1 and played["info_not_finite"]["nan"] == 10, played
run = sys.argv[2]
assert json.load(open(run + "/result.json"))["eval_value"] == 10
rows = list(csv.DictReader(open(run + "/log/metrics.csv", newline="", encoding="utf-8")))
values = lambda tag: {float(row["value"]) for row in rows if row["tag"] == "evaluator_step/" + tag}
assert values("reward_mean") == {10} and values("info/reward_mean") == {-12345}, (values("reward_mean"), values("info/reward_mean"))
assert values("info/reward_mean_mean") == {-1} and values("info/奖励_mean") == {1} and min(values("episode_count")) > 0
END

# In a parallel run, whose config comes out of a pipe, which its processes cannot read again. No process leaves MLflow a run that seems
# to go on.
rm "$TEST_TMPDIR/started"
worker/parallel --config=/dev/stdin --exp_dir="$TEST_TMPDIR/parallel" --max_env_step=600 --seed=1 --set='metrics.sink=[{type:"mlflow"}]' \
  --set=env.manager.envs_per_process=1 --python="$python" < <(cat "$TEST_TMPDIR/parallel_config") >/dev/null 2>"$TEST_TMPDIR/parallel.err" ||
  fail "$(tail -n 40 "$TEST_TMPDIR/parallel.err")"
[ "$(cat "$TEST_TMPDIR"/mlruns/*/*/meta.yaml | grep -c '^status: [345]$')" = "$(ls -d "$TEST_TMPDIR"/mlruns/*/*/ | wc -l)" ] ||
  fail "$(grep -H '^status\|^run_name' "$TEST_TMPDIR"/mlruns/*/*/meta.yaml)"
[ -z "$(find "$TEST_TMPDIR"/mlruns/*/*/metrics -type f -empty)" ] || fail "MLflow cannot read empty files of metrics"
[ -s "$TEST_TMPDIR/started" ] || fail "--python did not choose the interpreter of the parallel run"
[ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["env_step"] >= 600)' "$TEST_TMPDIR/parallel/result.json")" = True ] ||
  fail "$(cat "$TEST_TMPDIR/parallel/result.json")"

# No two envs of a parallel run have the same number: each holds a lock of its own.
sed "s|\"cartpole:CartPole\"|\"simulators:Numbered\" kwargs: '{\"role\": \"{env_role}\", \"number\": \"{env_number}\", \"where\": \"$TEST_TMPDIR\"}'|" \
  "$TEST_TMPDIR/parallel_config" >"$TEST_TMPDIR/numbered_config"
worker/parallel --config="$TEST_TMPDIR/numbered_config" --exp_dir="$TEST_TMPDIR/numbered" --max_env_step=300 --seed=1 \
  --set=env.manager.envs_per_process=1 --set=policy.collect.collector.collector_num=2 --python="$python" >/dev/null 2>"$TEST_TMPDIR/numbered.err" ||
  fail "$(tail -n 40 "$TEST_TMPDIR/numbered.err")"
python3 - "$TEST_TMPDIR/numbers" <<'END'
import sys
roles = {}
for line in open(sys.argv[1]):
    role, number = line.split()
    roles.setdefault(int(number), set()).add(role)
assert all(len(found) == 1 for found in roles.values()), roles
assert set.union(*roles.values()) == {"collector", "evaluator", "probe"}, roles
END
! grep -q 'Resource temporarily unavailable' "$TEST_TMPDIR/numbered.err" || fail "two envs had the same number:" "$(cat "$TEST_TMPDIR/numbered.err")"

# Paths are those of the folder where the run began, also in a run that is evaluated or goes on from elsewhere, where another
# module has the name of the env's.
serial=$PWD/worker/serial evaluate=$PWD/worker/evaluate
mkdir -p "$TEST_TMPDIR/home/venv/bin" "$TEST_TMPDIR/elsewhere"
cp "$testdata/cartpole.py" "$testdata/spaces.py" "$TEST_TMPDIR/home"
ln -s "$python" "$TEST_TMPDIR/home/venv/bin/python"
echo 'raise RuntimeError("this is the wrong module")' >"$TEST_TMPDIR/elsewhere/cartpole.py"
sed -E 's| python_path: "[^"]*"||' "$TEST_TMPDIR/exact" >"$TEST_TMPDIR/home/config"
cd "$TEST_TMPDIR/home"
"$serial" --config=config --exp_dir=run --python=venv/bin/python --max_env_step=300 >/dev/null 2>"$TEST_TMPDIR/home.err" ||
  fail "$(cat "$TEST_TMPDIR/home.err")"
cd "$TEST_TMPDIR/elsewhere"
rm -f "$TEST_TMPDIR/started"
"$evaluate" --checkpoint=../home/run --episodes=2 >/dev/null 2>"$TEST_TMPDIR/elsewhere.err" || fail "$(cat "$TEST_TMPDIR/elsewhere.err")"
[ -s "$TEST_TMPDIR/started" ] || fail "the evaluation took another interpreter"
"$serial" --resume --exp_dir=../home/run --max_env_step=600 >/dev/null 2>"$TEST_TMPDIR/elsewhere.err" || fail "$(cat "$TEST_TMPDIR/elsewhere.err")"
