#!/usr/bin/env bash
# Tests how tools/learning_bars judges the results of runs, in a checkout of its own, whose programs are shell scripts.
set -euo pipefail
mkdir -p "$TEST_TMPDIR/repo/tools" "$TEST_TMPDIR/repo/worker/configs"
cp "$(readlink -f tools/learning_bars)" "$(readlink -f tools/lib.sh)" "$TEST_TMPDIR/repo/tools"
cd "$TEST_TMPDIR/repo"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# The seeds 0, 1, 2, ... of config `good` have the results 10, 11, 12, ..., those of `bad` 10, -5, 10, 10, 10. `broken` fails.
cat >tools/train <<'EOF'
#!/usr/bin/env bash
[[ "$*" != *_parallel.textproto ]] || [ "$1" = --parallel ] || exit 4
[[ "$*" == *_parallel.textproto ]] || [ "$1" != --parallel ] || exit 4
echo "$(dirname "$0")/program"
EOF
cat >tools/program <<'EOF'
#!/usr/bin/env bash
for argument in "$@"; do
  case $argument in
    --config=*) config=$(basename "${argument#*=}" .textproto) config=${config%_parallel} ;;
    --seed=*) seed=${argument#*=} ;;
    --exp_dir=*) folder=${argument#*=} ;;
    --max_env_step=*) budget=${argument#*=} ;;
    --set=data_set.path=*) episodes=${argument#*=*=} ;;
  esac
done
[ "${budget-}" = 1000 ] || [ "$config" = teach ] || { echo "the budget is '${budget-}'" >&2; exit 1; }
case $config$seed in
  good*) value=$((10 + seed)) ;;
  bad1) value=-5 ;;
  bad*) value=10 ;;
  null*) value=null ;;
  teach0) value=1 ;;
  clone*) value=$(cat "$episodes") ;;
  *) echo "it broke" >&2; exit 3 ;;
esac
mkdir -p "$folder/ckpt/iteration_9" "$folder/ckpt/iteration_40"
echo "{\"train_iter\": 40, \"eval_value\": $value, \"wall_seconds\": 0.5}" >"$folder/result.json"
EOF
# A row with a check builds and runs //worker:judge.
mkdir -p fake bin/worker
cat >fake/bazel <<'EOF'
#!/usr/bin/env bash
[ "$1" != info ] || echo "$PWD/bin"
EOF
cat >bin/worker/judge <<'EOF'
#!/usr/bin/env bash
[ -f "$2/result.json" ] && [ "${3-iteration_40}" = iteration_40 ] && echo "$1: $2" && echo "games=20 win_rate=0.85"
EOF
# The recorded episodes that a row with a teacher learns from: here, only their number.
cat >bin/worker/evaluate <<'EOF'
#!/usr/bin/env bash
[ -d "$(dirname "$(dirname "${1#--checkpoint=}")")" ] && echo "${2#--episodes=}" >"${3#--record_episodes=}"
EOF
chmod +x tools/train tools/program fake/bazel bin/worker/judge bin/worker/evaluate
export PATH=$PWD/fake:$PATH
cat >worker/learning_bars.txt <<'EOF'
# A comment.
every_good   good    3  every      10    1000  test
every_bad    bad     5  every      10    1000  bars
parallel     good_parallel  2  every  10  1000  bars
median_bad   bad     5  median     10    1000  bars
share_bad    bad     5  share=0.8  10    1000  bars
share_missed bad     5  share=0.9  10    1000  bars
high_bar     good    3  median     11.5  1000  bars
broken       broken  1  every      10    1000  bars
no_result    null    1  every      10    1000  bars
judged       null    2  every      0.8   1000  bars  //worker:judge --run {run}
judged_last  null    1  every      0.8   1000  bars  //worker:judge --run {run} {last}
judged_bad   null    1  every      0.9   1000  bars  //worker:judge --run {run}
cloned       clone<teach 2 every  50   1000  bars
unjudged     good    1  every      0.9   1000  bars  //worker:judge --run nowhere
EOF

# expect STATUS TEXT ARGUMENT...: the exit code, and a line that matches the regular expression.
expect() {
  local status=0 wanted=$1 text=$2 output
  shift 2
  output=$(tools/learning_bars "$@" 2>&1) || status=$?
  [ "$status" -eq "$wanted" ] || fail "learning_bars $*: status $status, expected $wanted" "$output"
  grep -qE -- "$text" <<<"$output" || fail "learning_bars $*: expected '$text', got:" "$output"
}

expect 0 'every_good +10 within 1,000 env steps, every seed +10, 11, 12 +reached +0.5$' every_good
expect 1 'every_bad .* 10, -5, 10, 10, 10 +MISSED' every_bad
expect 0 'parallel .* 10, 11 +reached' parallel
expect 0 'median_bad .* reached' median_bad
expect 0 '80% of the seeds .* reached' share_bad
expect 1 'MISSED' share_missed
expect 1 'MISSED' high_bar
expect 1 'missed: high_bar$' every_good high_bar median_bad
expect 0 '^\| every_good \| .* \| 10, 11, 12 \| reached \| 0.5 \|$' --markdown every_good
expect 0 ' 10 +reached' --seeds=1 --jobs=2 every_bad every_good
expect 1 'broken, seed 0: program ended with status 3: it broke' broken
expect 1 'no_result, seed 0: the run has not evaluated its policy' no_result
expect 0 'judged .* 0.85, 0.85 +reached' judged
expect 0 'judged_last .* 0.85 +reached' judged_last
expect 1 'judged_bad .* 0.85 +MISSED' judged_bad
expect 0 'cloned .* 50, 50 +reached' cloned
expect 1 'unjudged, seed 0: judge ended with status 1' unjudged
expect 1 "no row 'nothing' in worker/learning_bars.txt; there are: every_good, every_bad" nothing
expect 0 '^high_bar$' --list
expect 0 'Trains the shipped configs' --help

tools/learning_bars --keep=kept every_good >/dev/null 2>&1
[ -f kept/every_good/2/result.json ] || fail "--keep kept nothing"
expect 1 "'kept' exists" --keep=kept every_good
