#!/usr/bin/env bash
# Tests how tools/learning_bars runs seeds, records and judges their results, and writes its page, in a checkout of its own, whose
# programs are shell scripts.
set -euo pipefail
mkdir -p "$TEST_TMPDIR/repo/tools" "$TEST_TMPDIR/repo/worker/configs"
for file in learning_bars learning_bars_page.py learning_bars_rows.py lib.sh plot_picture.py plot_runs.py programs.py; do
  cp "$(readlink -f "tools/$file")" "$TEST_TMPDIR/repo/tools"
done
cd "$TEST_TMPDIR/repo"
export XDG_CACHE_HOME=$PWD/cache
results=worker/learning_results.csv

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# The seeds 0, 1, 2, ... of config `good` have the results 10, 11, 12, ..., those of `bad` 10, -5, 10, 10, 10. `broken` fails. `slow`
# waits for a signal, unless it is resumed.
cat >tools/train <<'EOF'
#!/usr/bin/env bash
[[ "$*" != *_parallel.textproto ]] || [ "$1" = --parallel ] || exit 4
[[ "$*" == *_parallel.textproto ]] || [ "$1" != --parallel ] || exit 4
case "$*" in
  *_parallel.textproto) echo "$(dirname "$0")/parallel" ;;
  *) echo "$(dirname "$0")/serial_physics" ;;
esac
EOF
cat >tools/serial_physics <<'EOF'
#!/usr/bin/env bash
for argument in "$@"; do
  case $argument in
    --config=*) config=$(basename "${argument#*=}" .textproto) config=${config%_parallel} ;;
    --seed=*) seed=${argument#*=} ;;
    --exp_dir=*) folder=${argument#*=} ;;
    --max_env_step=*) budget=${argument#*=} ;;
    --set=data_set.path=*) episodes=${argument#*=*=} ;;
    --resume) resumed=true ;;
  esac
done
echo "$*" >>calls
if [ -n "${resumed-}" ]; then
  [ -f "$folder/begun" ] || { echo "there is nothing to resume" >&2; exit 1; }
  config=$(cat "$folder/begun") seed=7 budget=1000
fi
[ "${budget-}" = 1000 ] || [ "$config" = teach ] || { echo "the budget is '${budget-}'" >&2; exit 1; }
mkdir -p "$folder"
case $config$seed in
  good*) value=$((10 + seed)) ;;
  bad1) value=-5 ;;
  several*) value=10 ;;
  bad*) value=10 ;;
  null*) value=null ;;
  teach0)
    [[ $* == *--set=wise=true* ]] || exit 5
    value=1
    ;;
  clone*) value=$(cat "$episodes") ;;
  slow7) value=70 ;;
  slow* | lost*)
    [ $config = lost ] || echo "$config" >"$folder/begun"
    trap 'exit 130' INT
    trap 'exit 143' TERM
    touch waiting
    while true; do sleep 0.05; done
    ;;
  *) echo "it broke" >&2; exit 3 ;;
esac
[ $config = good ] && mkdir -p "$folder/log" && printf 'step,tag,value\n%s' "$(for i in {1..250}; do
  echo "$i,evaluator_step/reward_mean,$((i + seed))"; done)" >"$folder/log/metrics.csv" && echo >>"$folder/log/metrics.csv"
policies=(ckpt)
[ $config != several ] || policies=(ckpt_policy_0 ckpt_policy_1)
for policy in "${policies[@]}"; do mkdir -p "$folder/$policy"/{iteration_9,iteration_40,ckpt_best}; done
echo "{\"env_step\": 990, \"train_iter\": 40, \"eval_value\": $value, \"wall_seconds\": 0.5}" >"$folder/result.json"
EOF
cp tools/serial_physics tools/parallel
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
# Plays the last policy of a run, and records the episodes that a row with a teacher learns from: here, only their number.
cat >bin/worker/evaluate <<'EOF'
#!/usr/bin/env bash
checkpoint=${1#--checkpoint=}
[ -d "$(dirname "$(dirname "$checkpoint")")" ] || exit 1
if [[ $3 == --record_episodes=* ]]; then
  [ "$#" -eq 3 ] || [ "$4" = --actions=sampled ] || exit 1
  echo "${2#--episodes=}" >"${3#--record_episodes=}"
  exit
fi
[ -d "$checkpoint" ] && [ "$2 $3 $4" = "--episodes=100 --seed=20000 --json" ] || exit 1
value=$(sed 's/.*"eval_value": \([^,]*\),.*/\1/' "$checkpoint/../../result.json")
case $checkpoint in
  */ckpt_policy_1/iteration_40) value=4 ;;
  */ckpt_policy_0/ckpt_best) ;;
  */ckpt_policy_1/ckpt_best) value=8 ;;
  */iteration_40) ;;
  *) exit 1 ;;
esac
echo "{\"mean\": $value, \"info\": {\"is_success\": 0.25}}"
EOF
cp bin/worker/evaluate bin/worker/evaluate_physics
chmod +x tools/train tools/serial_physics tools/parallel fake/bazel bin/worker/*
export PATH=$PWD/fake:$PATH
cat >worker/learning_bars.txt <<'EOF'
# A comment.
every_good   good    3  every      10    1000  test
every_bad    bad     5  every      10    1000  bars
parallel     good_parallel  2  every  10  1000  bars
median_bad   bad     5  median     10    1000  bars
median_floor bad     5  median>=-4 10    1000  bars
median_above bad     5  median>=-6 10    1000  bars
share_bad    bad     5  share=0.8  10    1000  bars
share_missed bad     5  share=0.9  10    1000  bars
high_bar     good    3  median     11.5  1000  bars
broken       broken  1  every      10    1000  bars
judged       null    2  every      0.8   1000  bars  //worker:judge --run {run}
judged_last  null    1  every      0.8   1000  bars  //worker:judge --run {run} {last}
judged_bad   null    1  every      0.9   1000  bars  //worker:judge --run {run}
cloned       clone<teach 2 every  60   1000  bars
unjudged     good    1  every      0.9   1000  bars  //worker:judge --run nowhere
several      several 1  every      4       1000  bars
several_best several 1  every      9       1000  bars  best
low          good    2  below      11    1000  bars
success      good    1  every      0.2   1000  bars  info:is_success
no_success   good    1  every      0.2   1000  bars  info:other
slow         slow    1  every      10    1000  bars
lost         lost    1  every      10    1000  bars
EOF
for config in good good_parallel bad broken null clone teach several slow lost; do
  printf '# %s # is a comment.\nexp_name: "%s # not"\n' $config $config >worker/configs/$config.textproto
done

echo '# demonstrations: 60 episodes of worker/configs/teach.textproto wise=true --actions=sampled' >>worker/configs/clone.textproto

# expect STATUS TEXT ARGUMENT...: the exit code, and a line that matches the regular expression.
expect() {
  local status=0 wanted=$1 text=$2 output
  shift 2
  output=$(tools/learning_bars "$@" 2>&1) || status=$?
  [ "$status" -eq "$wanted" ] || fail "learning_bars $*: status $status, expected $wanted" "$output"
  grep -qE -- "$text" <<<"$output" || fail "learning_bars $*: expected '$text', got:" "$output"
}

expect 0 'every_good +10 within 1,000 env steps, every seed +10, 11, 12 +reached +[0-9.]+$' every_good
expect 1 'every_bad .* 10, -5, 10, 10, 10 +MISSED' every_bad
expect 0 'parallel .* 10, 11 +reached' parallel
expect 0 'median_bad .* reached' median_bad
expect 1 'median, no seed below -4 +10, -5, .* MISSED' median_floor
expect 0 'reached' median_above
expect 0 '80% of the seeds .* reached' share_bad
expect 1 'MISSED' share_missed
expect 1 'MISSED' high_bar
expect 1 'missed: high_bar$' every_good high_bar median_bad
expect 0 '^\| every_good \| .* \| 10, 11, 12 \| reached \| [0-9.]+ \|$' --markdown every_good
expect 1 'broken, seed 0: serial_physics ended with status 3: it broke' broken
expect 1 'broken .* - +not run +-$' broken
expect 0 'judged .* 0.85, 0.85 +reached' judged
expect 0 'judged_last .* 0.85 +reached' judged_last
expect 1 'judged_bad .* 0.85 +MISSED' judged_bad
expect 0 'cloned .* 60, 60 +reached' cloned
expect 1 'unjudged, seed 0: judge ended with status 1' unjudged
expect 1 'low +below 11 within 1,000 env steps, every seed +10, 11 +MISSED' low
# The worst of several policies counts.
expect 0 'several .* 4 +reached' several
expect 1 'several_best .* 8 +MISSED' several_best
expect 0 'success .* 0.25 +reached' success
expect 1 "no_success, seed 0: its episodes have no 'other'; they have: is_success" no_success
expect 1 "no row 'nothing' in worker/learning_bars.txt; there are: every_good, every_bad" nothing
expect 1 "--seeds is '4-2', expected seeds such as 3, 0,2 or 0-4" --seeds=4-2 every_good
expect 0 '^high_bar$' --list
expect 0 'Trains the shipped configs' --help

# The table has a line for each seed, and a seed with a line is not run again.
grep -q '^name,seed,config_digest,commit,env_steps,result,last_evaluation,wall_seconds,cpu_seconds,load,machine,date,reached$' <<<"$(head -n 1 $results)" ||
  fail "$(head -n 1 $results)"
grep -qE '^every_good,2,[0-9a-f]{12},[0-9a-f+]*,990,12,12,0\.5,[0-9.e-]+,[0-9.]+,.*,[0-9]{4}-[0-9]{2}-[0-9]{2},yes$' $results || fail "$(cat $results)"
grep -qE '^every_bad,1,.*,no$' $results && grep -qE '^low,0,.*,yes$' $results && grep -qE '^low,1,.*,no$' $results || fail "$(cat $results)"
lines=$(wc -l <$results)
[ "$(wc -l <worker/learning_curves/every_good/2.csv)" -eq 85 ] || fail "$(cat worker/learning_curves/every_good/2.csv)"
[ "$(tail -n 1 worker/learning_curves/every_good/2.csv)" = 250,evaluator_step/reward_mean,252 ] || fail 'the last evaluation was left out'
[ -z "$(find cache -mindepth 3 -type d -path '*/every_good/*')" ] || fail "$(find cache)"
rm calls
expect 0 'every_good .* 10, 11, 12 +reached' every_good
[ ! -f calls ] && [ "$(wc -l <$results)" -eq "$lines" ] || fail 'a seed was run twice'
# --again runs it again, and its new line counts; a comment in the config changes nothing, another value does.
sed -i 's/^every_good,1,\(.*\),990,11,/every_good,1,\1,990,99,/' $results
expect 0 'every_good .* 10, 99, 12' --show every_good
expect 0 'every_good .* 10, 11, 12' --again --seeds=1 --only=every_good
[ "$(wc -l <calls)" -eq 1 ] || fail "$(cat calls)"
echo '# More.' >>worker/configs/good.textproto
expect 0 'every_good .* 10, 11, 12' --show every_good
echo 'max_env_step: 9' >>worker/configs/good.textproto
expect 0 'every_good .* -, -, - +not run' --show every_good
# Seed by seed; also seeds beyond the table's.
expect 0 'every_good .* -, 11, - +1 of 3 seeds' --only every_good --seeds 1
expect 0 'every_good .* 10, 11, 12, 14 +reached' --only every_good --seeds 0-2,4 --jobs=2 --nice
expect 0 'every_good .* 10, 11, 12 +reached' --show every_good
sed -i 's/^\(every_good,4,.*\),14,14,/\1,x,14,/' $results
expect 1 "$results:[0-9]+ is damaged" --show
sed -i 's/,x,14,/,14,14,/' $results

# interrupt SIGNAL STATUS ROW: a call is interrupted while its seed runs; it is not recorded.
interrupt() {
  local status=0
  rm -f waiting calls
  tools/learning_bars "$3" >out 2>&1 &
  while [ ! -f waiting ]; do sleep 0.05; done
  expect 1 "$3, seed 0: another process is running it" "$3"
  kill "-$1" $!
  wait $! || status=$?
  [ "$status" -eq "$2" ] || fail "$3: status $status, expected $2" "$(cat out)"
  grep -q 'interrupted; the same command goes on' out || fail "$(cat out)"
  ! grep -q 'seed 0:' out || fail 'an interruption was called a failure' "$(cat out)"
  ! grep -q "^$3," $results || fail 'an interrupted seed was recorded'
}
interrupt TERM 143 slow
expect 0 'slow .* 70 +reached' slow
grep -qE '^--resume --exp_dir=.*/slow/0$' calls || fail "$(cat calls)"
# A run that cannot be resumed begins anew.
interrupt TERM 143 lost
sed -i 's/^  slow7) value=70 ;;/&\n  lost0) value=30 ;;/' tools/serial_physics
expect 0 'lost, seed 0: begins anew, as it cannot be resumed: .*there is nothing to resume' lost
grep -q '^lost,0,.*,30,' $results || fail "$(cat $results)"

# The folders of the runs may be kept.
tools/learning_bars --again --keep=kept every_good >/dev/null 2>&1
[ -f kept/every_good/2/result.json ] || fail "--keep kept nothing"

# The page says what was reached, what was not run, and what others have published.
echo 'every_good | 12.5 | a paper' >worker/learning_published.txt
printf '%s\n' '| `null` | it has a check | old | 1 | 2 s |' '| `slow` | something | not measured | | |' '| `gone` | text | not measured | | |' \
  '| `slow` | of another table |' >README.md
expect 1 'docs/reference/results.md is missing; run tools/learning_bars --page' --check_page
expect 0 '^docs/reference/results.md$' --page
expect 0 '' --check_page
grep -qE '^\| `slow` \| something \| 70 \| 990 \| [0-9.]+ s \|$' README.md || fail "$(cat README.md)"
grep -qxF '| `gone` | text | not measured | | |' README.md || fail "$(cat README.md)"
[ "$(tail -n 1 README.md)" = '| `slow` | of another table |' ] || fail "$(cat README.md)"
grep -qE '^\| `every_good` \| `good` \| 10 within .* \| reached \| 10, 11, 12 \| 11 \| 990 \| [0-9.]+ \| 0.5 \| A; load .* \| 12.5 \(a paper\) \|$' docs/reference/results.md ||
  fail "$(cat docs/reference/results.md)"
grep -qE '^\| `broken` \| .* \| not run yet \| - \|' docs/reference/results.md || fail "$(cat docs/reference/results.md)"
grep -qE '^\| `every_bad` \| .* \| \*\*missed\*\* \|' docs/reference/results.md || fail "$(cat docs/reference/results.md)"
grep -q '^!\[every_good\](../pictures/learning/every_good.svg)$' docs/reference/results.md || fail "$(cat docs/reference/results.md)"
python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' docs/pictures/learning/every_good.svg
expect 0 '' --again --seeds=1 every_good
sed -i '$s/,252$/,900/' worker/learning_curves/every_good/2.csv
expect 1 'docs/pictures/learning/every_good.svg is out of date' --check_page
sed -i '/^every_good /d' worker/learning_bars.txt
expect 1 'docs/pictures/learning/every_good.svg has no results any more' --check_page
expect 0 'removed docs/pictures/learning/every_good.svg' --page
[ ! -f docs/pictures/learning/every_good.svg ] || fail 'a picture of no row is left'
echo passed
