#!/usr/bin/env bash
# Tests the formulas of tools/compare against brute force, what it prints and draws of small runs, and what it refuses.
set -euo pipefail
tools=$PWD/tools
compare=$tools/compare
/usr/bin/python3 -c 'import matplotlib, numpy' || { echo 'matplotlib is missing; run tools/setup plot' >&2; exit 1; }
/usr/bin/python3 "$tools/compare_scores_test.py"
cd "$TEST_TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# make_run FOLDER ENV VALUE...: a run whose evaluations at the env steps 0, 100, ... gave these returns.
make_run() {
  local folder=$1 env=$2 i=0 value
  shift 2
  mkdir -p "$folder/log"
  printf 'env {\n  type: "%s"\n}\npolicy {\n  type: "%s"\n}\n' "$env" "${POLICY:-dqn}" >"$folder/total_config.textproto"
  echo 'step,tag,value,wall_time' >"$folder/log/metrics.csv"
  for value in "$@"; do
    echo "$((i++ * 100)),evaluator_step/reward_mean,$value,1700000000.5" >>"$folder/log/metrics.csv"
  done
}

# refused 'PART OF THE MESSAGE' ARGUMENT...
refused() {
  local message=$1
  shift
  if "$compare" "$@" >out 2>err; then fail "'$*' was not refused"; fi
  grep -qF -- "$message" err && [ "$(head -c 15 err)" = 'tools/compare: ' ] && [ ! -s out ] || fail "'$*' was refused with: $(cat err)"
}

# has FILE 'LINE': the last output, or what it said, has this line.
has() { grep -qxF -- "$2" "$1" || fail "expected '$2', found: $(cat "$1")"; }

for i in 1 2 3 4; do
  make_run "a$i" CartPole-v0 0 0 "1$i"
  make_run "b$i" CartPole-v0 0 0 "2$i"
  make_run "c$i" CartPole-v0 0 0 "1$i"
done

echo '== sets that differ, and sets that do not'
"$compare" 'a?' b='b[1-4]' 'c=c1,c2,c3,c4' >out 2>err
has out '| set | runs | tasks | interquartile mean | 95 % interval | lowest | highest |'
has out '| a? | 4 | 1 | 12.5 | 11 to 14 | 11 | 14 |'
has out '| a? | b | 0 | 0 to 0 | yes |'
has out '| b | c | 1 | 1 to 1 | yes |'
grep -qE '^\| a\? \| c \| 0\.5 \| 0\.[0-9]+ to 0\.[0-9]+ \| not shown \|$' out || fail "$(cat out)"
[ ! -s err ] || fail "$(cat err)"

echo '== the same by JSON; equal arguments give equal results'
"$compare" --json a='a?' b='b?' >first.json
"$compare" --json a='a?' b='b?' >second.json
cmp first.json second.json
python3 - <<'EOP' || fail "$(cat first.json)"
import json
result = json.load(open("first.json"))
assert result["sets"][0]["scores"] == {"CartPole-v0": [11, 12, 13, 14]}, result
assert result["sets"][1]["iqm"] == 22.5 and result["confidence"] == 0.95, result
pair = {"first": "a", "second": "b", "probability": 0, "interval": [0, 0], "differ": True}
assert result["pairs"] == [pair], result
EOP

echo '== the score is the mean of the last values up to a step'
make_run late CartPole-v0 1 2 3 4
make_run early CartPole-v0 5 6
"$compare" late early >out 2>err
has out '| late | 1 | 1 | 4 | - | 4 | 4 |'
has out '| late | early | 0 | - | - |'
has err "tools/compare: 'late' has one run of each task: no interval can be computed; train it with more seeds"
has err 'tools/compare: 1 and 1 runs are too few to tell at a confidence of 0.95 whether sets differ, whatever their scores are; train more seeds'
has err 'tools/compare: the runs end between step 100 and 300; --at compares them at one step'
"$compare" --at 250 --smooth 2 late early >out 2>err
has out '| late | 1 | 1 | 2.5 | - | 2.5 | 2.5 |'
refused "'late/log/metrics.csv' has no value of 'evaluator_step/reward_mean' up to step -1; its first is at 0" --at -1 late early

echo '== three seeds are too few, however far apart they are'
"$compare" a=a1,a2,a3 b=b1,b2,b3 >out 2>err
has out '| a | b | 0 | 0 to 0 | - |'
grep -q '3 and 3 runs are too few' err || fail "$(cat err)"

echo '== several tasks'
for i in 1 2; do
  make_run "x$i" CartPole-v0 "10$i"; make_run "y$i" Pendulum-v1 "-30$i"
  make_run "v$i" CartPole-v0 "15$i"; make_run "w$i" Pendulum-v1 "-20$i"
done
sed -i 's/Pendulum-v1"/gymnasium"\n  params {\n    [type.googleapis.com\/ding.GymnasiumConfig] {\n      id: "Pendulum-v1"\n    }\n  }/' [yw]?/total_config.textproto
ranges=(--range CartPole-v0=0,200 --range 'gymnasium Pendulum-v1=-400,0')
"$compare" "${ranges[@]}" --confidence 0.9 --out several.svg old='[xy]?' new='[vw]?' >out 2>err
has out '| old | 2 | 2 | 0.3762 | 0.375 to 0.3788 | 0.245 | 0.51 |'
has out '| old | new | 0 | 0 to 0 | yes |'
python3 - <<'EOP' || fail "$(cat several.svg)"
import xml.etree.ElementTree as tree
root = tree.parse("several.svg").getroot()
ids = {group.get("id") for group in root.iter("{http://www.w3.org/2000/svg}g")}
assert {"mean-0", "interval-1", "profile-0", "profile-1", "band-1", "legend"} <= ids, ids
texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
assert {"old", "new", "score (evaluator_step/reward_mean, normalized)", "interquartile mean and its 90 % interval"} <= texts, texts
EOP
"$compare" --out one.png late early >out 2>err
[ "$(head -c 8 one.png | od -An -tx1)" = ' 89 50 4e 47 0d 0a 1a 0a' ] || fail 'no PNG signature'
refused "scores of several tasks have no common mean; write which scores count as 0 and as 1: --range 'gymnasium Pendulum-v1=LOW,HIGH'" \
  --range CartPole-v0=0,200 old='[xy]?' new='[vw]?'
refused "the tasks differ, so the sets cannot be compared: 'old' has CartPole-v0, gymnasium Pendulum-v1; 'new' has CartPole-v0." \
  "${ranges[@]}" old='[xy]?' new='v?'
refused "the set 'old' has 2 of CartPole-v0, 1 of gymnasium Pendulum-v1; expected the same number of runs of each task" \
  "${ranges[@]}" old=x1,x2,y1 new=v1,v2,w1

echo '== what is refused'
POLICY=ppo make_run other CartPole-v0 1
refused "the runs of 'm' are mixed: one curve of them means nothing, because their policy differs" m=a1,other b1
refused "the run 'a1' is in two sets" m=a1,a2 n=a1,a3
refused "cannot read 'nowhere/log/metrics.csv'" a1 nowhere
refused "no run matches 'nothing*'" a1 'nothing*'
mkdir -p damaged/log && printf 'step,tag,value\nx,evaluator_step/reward_mean,1\n' >damaged/log/metrics.csv
refused "'damaged/log/metrics.csv' is damaged: line 2 has the step 'x'" a1 damaged
make_run nan CartPole-v0 nan
refused "but these have not:
  nan/log/metrics.csv" a1 nan
refused "the 2 runs have no values of 'reward'" --tag reward a1 b1
refused "--range is 'CartPole-v0=1', expected TASK=LOW,HIGH" --range CartPole-v0=1 a1 b1
refused "--range is 'CartPole-v0=1,1', expected TASK=LOW,HIGH with LOW less than HIGH" --range CartPole-v0=1,1 a1 b1
refused "--range is given twice for 'CartPole-v0'" --range CartPole-v0=0,1 --range CartPole-v0=0,2 a1 b1
refused "--range is given for 'Pong', but the tasks are: CartPole-v0" --range Pong=0,1 a1 b1
refused '--smooth is 0, expected at least 1' --smooth 0 a1
refused '--samples is 5, expected 100 to 1000000' --samples 5 a1
refused '--confidence is 1.0, expected at least 0.5 and less than 1' --confidence 1 a1
refused '--seed is -1, expected 0 or more' --seed -1 a1
refused "--out is 'x.pdf', expected a name that ends with .svg or .png" --out x.pdf a1
refused 'the following arguments are required: SET; see tools/compare --help'
echo passed
