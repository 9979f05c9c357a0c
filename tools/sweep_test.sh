#!/usr/bin/env bash
# Tests tools/sweep with a program that only computes a result: what it reports, how it goes on after it was killed, and what it refuses.
# The ready sweep is tried with the real program.
set -euo pipefail
sweep=$PWD/tools/sweep
serial=$PWD/worker/serial
ready=$PWD/worker/sweeps/cartpole_ppo.textproto
/usr/bin/python3 -c 'import optuna, sklearn, matplotlib, google.protobuf' || { echo 'run tools/setup sweep plot' >&2; exit 1; }
cd "$TEST_TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# The result is x + 10 * kind + seed / 10, and better with a larger budget. kind=9 fails, and kind=8 has no result. Lines of `calls`
# are begin or resume, the folder, the budget; and end.
cat >fake <<'EOP'
#!/usr/bin/env bash
x=0 kind=0 budget=0 begun=begin
for argument in "$@"; do
  case $argument in
    --set=x=*) x=${argument##*=} ;;
    --set=kind=*) kind=${argument##*=} ;;
    --set=*) echo "fake: --set: cannot set '${argument#--set=}'; it has: x, kind" >&2; exit 1 ;;
    --seed=*) seed=${argument#*=} ;;
    --exp_dir=*) folder=${argument#*=} ;;
    --max_env_step=*) budget=${argument#*=} ;;
    --resume) begun=resume ;;
    --print_config) print=true ;;
  esac
done
[ -z "${print-}" ] || { echo "x: $x kind: $kind budget: $budget"; exit 0; }
there=begin
[ ! -e "$folder/total_config.textproto" ] || there=resume
[ $begun = $there ] || exit 7
mkdir -p "$folder"
touch "$folder/total_config.textproto"
echo "$begun $folder $budget" >>calls
[ "$kind" != 9 ] || { echo 'it broke | in two' >&2; exit 3; }
trap 'exit 130' INT
for ((i = 0; i < ${SLOW:-0}; i++)); do sleep 0.05; done
value=$(awk "BEGIN { print $x + 10 * $kind + $seed / 10 + $budget / 1000 }")
[ "$kind" != 8 ] || value=null
echo "{\"stop\": false, \"eval_value\": $value, \"env_step\": $budget, \"why\": \"\"}" >"$folder/result.json"
echo "end $folder $budget" >>calls
EOP
chmod +x fake
touch config.textproto

# make_sweep FILE LINE...
make_sweep() {
  local file=$1
  shift
  printf '%s\n' 'config: "config.textproto"' 'program: "fake"' "$@" >"$file.textproto"
}

# refused 'PART OF THE MESSAGE' LINE...: a sweep with these lines.
refused() {
  local message=$1
  shift
  make_sweep refused "$@"
  if "$sweep" --out=refused refused.textproto >out 2>err; then fail "'$*' was not refused"; fi
  grep -qF -- "$message" err && [ "$(head -c 13 err)" = 'tools/sweep: ' ] || fail "'$*' was refused with: $(cat err)"
}

has() { grep -qF -- "$2" "$1" || fail "expected '$2' in $1, found: $(cat "$1")"; }
count() { grep -cE -- "$1" calls || true; }
kinds='parameter { path: "kind" value: ["1", "2", "9", "8"] }'
xs='parameter { path: "x" range { low: 0 high: 1 points: 3 } }'

echo '== a grid: table, failures, best config, pictures; a second call runs nothing'
make_sweep grid "$kinds" "$xs" 'method: GRID seeds: 2'
"$sweep" --jobs=3 grid.textproto >out 2>err || fail "$(cat err)"
has out '| trial | kind | x | score (eval_value) | 95 % interval | lowest | highest | state |'
[ "$(grep -m1 complete out)" = '| 5 | 2 | 1 | 21.05 | 21 to 21.1 | 21 | 21.1 | complete |' ] || fail "$(cat out)"
has out ': fake ended with status 3: it broke \| in two |'
grep -q '^| 6 | kind=9, x=0 | seed [01]: fake' out || fail "$(cat out)"
has out '| 11 | kind=8, x=1 | seed'
has out 'its eval_value is null, expected a finite number |'
has err '12 of 12 trials'
has sweep_grid/best.textproto 'x: 1.0 kind: 2'
has sweep_grid/best.textproto '# Trial 5 of the sweep grid: eval_value 21.05 with 2 seeds.'
cmp -s <(head -n -6 out) sweep_grid/sweep.md || fail "sweep.md differs: $(diff out sweep_grid/sweep.md)"
python3 - <<'EOP'
import json
import xml.etree.ElementTree as tree
found = json.load(open("sweep_grid/sweep.json"))
assert found["best"] == 5 and found["trials"][0]["values"] == [21, 21.1], found
assert found["importance"]["kind"] > 0.9 and abs(sum(found["importance"].values()) - 1) < 1e-6, found
assert [row["state"] for row in found["trials"]] == ["complete"] * 6 + ["failed"] * 6, found
parallel = {group.get("id") for group in tree.parse("sweep_grid/parallel.svg").getroot().iter("{http://www.w3.org/2000/svg}g")}
assert {"trial-0", "trial-5"} <= parallel and "trial-6" not in parallel, parallel
tree.parse("sweep_grid/importance.svg")
EOP
cp calls before
"$sweep" grid.textproto >again 2>err
cmp calls before && cmp out again || fail 'a sweep that had ended was run again'

echo '== more trials of the same sweep; another sweep is refused'
rm calls
line='parameter { path: "x" range { low: 0.01 high: 1 log: true } } parameter { path: "kind" integers { low: 1 high: 3 } } seeds: 1'
make_sweep more "$line trials: 4 method: RANDOM"
"$sweep" more.textproto >out 2>err
has err 'one seed: no interval can be computed'
make_sweep more "$line trials: 7 method: RANDOM"
"$sweep" more.textproto >out 2>err
[ "$(count end)" = 7 ] && [ "$(sort -u calls | wc -l)" = 14 ] || fail "$(cat calls)"
[ "$(python3 -c 'import json; print(len({row["settings"]["x"] for row in json.load(open("sweep_more/sweep.json"))["trials"]}))')" = 7 ] ||
  fail 'a setting was drawn again after the restart'
make_sweep more "$line trials: 7 method: TPE"
! "$sweep" more.textproto >out 2>err && has err "'sweep_more' has another sweep, or this one with other fields"

echo '== killed and started again: what had ended is not repeated, and no run stays behind'
rm calls
make_sweep killed "$line trials: 10"
SLOW=6 "$sweep" --jobs=2 killed.textproto >out 2>err &
pid=$!
until [ "$(count end 2>/dev/null)" -ge 3 ] 2>/dev/null; do sleep 0.02; done
kill -9 $pid
wait $pid 2>/dev/null || true
ended=$(count end)
sleep 0.5
[ "$(count end)" = "$ended" ] || fail 'a run went on after the sweep was killed'
"$sweep" --jobs=2 killed.textproto >out 2>err || fail "$(cat err)"
# Two were running, and two may have ended unrecorded.
[ "$(count end)" -le 14 ] && [ "$(grep end calls | sort -u | wc -l)" = 10 ] || fail "$(cat calls)"
[ "$(count 'begin|resume')" -le 14 ] && [ "$(count resume)" -ge 1 ] || fail "$(cat calls)"

echo '== Ctrl-C'
rm calls
make_sweep interrupted "$line trials: 4"
python3 - "$sweep" <<'EOP'
import os, signal, subprocess, sys, time
command = [sys.argv[1], "--jobs=2", "interrupted.textproto"]
process = subprocess.Popen(command, env={**os.environ, "SLOW": "400"}, stdout=subprocess.DEVNULL, stderr=open("err", "w"), start_new_session=True)
while not os.path.exists("calls") or len(open("calls").readlines()) < 2:
    time.sleep(0.02)
shown = subprocess.run([*command, "--show"], capture_output=True, text=True)
assert shown.returncode == 1 and "No trial has a score." in shown.stdout, shown
process.send_signal(signal.SIGINT)
assert process.wait(20) == 130, process.returncode
EOP
has err 'tools/sweep: interrupted; the same command goes on'
"$sweep" --jobs=2 interrupted.textproto >out 2>err || fail "$(cat err)"
[ "$(count end)" = 4 ] && [ "$(count resume)" = 2 ] || fail "$(cat calls)"

echo '== successive halving: a third goes on, with --resume'
rm calls
make_sweep halving "$xs" 'parameter { path: "kind" value: ["3", "2", "1"] }' 'method: GRID seeds: 2 max_env_step: 90 halving { first: 10 factor: 3 }'
"$sweep" --jobs=2 halving.textproto >out 2>err || fail "$(cat err)"
[ "$(count '^begin .* 10$')" = 18 ] && [ "$(count '^begin')" = 18 ] || fail "$(cat calls)"
[ "$(count '^resume .* 30$')" -lt 18 ] && [ "$(count '^resume .* 90$')" -ge 2 ] || fail "$(cat calls)"
grep -qE '^\| [0-9]+ \| 1 \| 3 \| 90 \| 31\.14 \|.* complete \|$' out || fail "$(cat out)"
grep -qE '^\| [0-9]+ \| 0(\.5)? \| 1 \| 10 \|.* pruned \|$' out || fail "$(cat out)"

echo '== less is better'
make_sweep least "$xs" 'method: GRID seeds: 1 minimize: true'
"$sweep" least.textproto >out 2>err
[ "$(grep -m1 complete out)" = '| 0 | 0 | 0 | - | 0 | 0 | complete |' ] || fail "$(cat out)"

echo '== all trials fail'
make_sweep none 'parameter { path: "kind" value: ["9"] } method: GRID'
status=0
"$sweep" none.textproto >out 2>err || status=$?
[ $status = 1 ] && has out 'it broke' && [ ! -e sweep_none/best.textproto ] || fail "$(cat out err)"

echo '== what is refused'
kind='parameter { path: "kind" value: ["1"] }'
refused "parameter 'y' cannot be set to '1': fake: --set: cannot set 'y=1'; it has: x, kind" 'parameter { path: "y" value: ["1"] } trials: 1'
refused "the config cannot be run with the fixed values: fake: --set: cannot set 'z=1'" 'set: "z=1" trials: 1' "$kind"
refused 'has the empty range { low: 2 high: 1 }; write low less than high: range { low: 1 high: 10 }' 'parameter { path: "x" range { low: 2 high: 1 } } trials: 1'
refused 'has range { low: 0 high: 1 } on a log scale; write low above 0, or leave out log: true' 'parameter { path: "x" range { low: 0 high: 1 log: true } } trials: 1'
refused 'has integers { low: 0.5 high: 1 }; write whole numbers, or range instead of integers' 'parameter { path: "x" integers { low: 0.5 high: 1 } } trials: 1'
refused "parameter 'x' has no values; write one of value:" 'parameter { path: "x" } trials: 1'
refused "parameter 'x' has value and range; write one of value:" 'parameter { path: "x" value: "1" range { low: 0 high: 1 } } trials: 1'
refused "has the value '1' twice; write it once" 'parameter { path: "x" value: ["1", "1"] } trials: 1'
refused 'a parameter has no path; write path: "policy.learn.batch_size"' 'parameter { value: "1" } trials: 1'
refused "has two parameters 'kind'; write one" "$kind $kind trials: 1"
refused 'has no parameter; write parameter {' 'trials: 1'
refused 'write one of GRID, RANDOM, TPE: method: TPE' "$kind trials: 1 method: BAYES"
refused 'no field named "trails"; its fields are in tools/sweep.proto' "$kind trails: 1"
refused 'has 0 trials; write 1 to 10000: trials: 30' "$kind"
refused "parameter 'x' has no points, which a grid needs; write points: 5" 'parameter { path: "x" range { low: 0 high: 1 } } method: GRID'
refused 'trials is 2, but the grid has 1 combinations; leave out trials' "$kind method: GRID trials: 2"
refused 'seeds is 0; write 1 to 1000: seeds: 3' "$kind trials: 1 seeds: 0"
refused 'has halving, which needs the budget of the last rung; write max_env_step: 100000' "$kind trials: 1 halving { first: 5 }"
refused 'write first from 1 to less than 90, and factor 2 or more: halving { first: 10 factor: 3 }' "$kind trials: 1 max_env_step: 90 halving { first: 90 }"
refused 'has max_env_step and max_train_iter; write one of them' "$kind trials: 1 max_env_step: 90 max_train_iter: 9"
refused "goal is 'reward', which is not in 'refused/trial_0/seed_0/result.json'; write one of eval_value, env_step: goal: \"eval_value\"" \
  "$kind trials: 1 seeds: 1 goal: 'reward'"
printf 'config: "nowhere"' >nowhere.textproto
! "$sweep" nowhere.textproto 2>err && has err "config is 'nowhere', and there is no file" || fail "$(cat err)"
! "$sweep" nothing 2>err && has err "cannot read 'nothing': No such file or directory" || fail "$(cat err)"
! "$sweep" --show --out=nothing grid.textproto 2>err && has err "'nothing' has no sweep" || fail "$(cat err)"
! "$sweep" --jobs=0 grid.textproto 2>err && has err '--jobs is 0, expected 1 or more' || fail "$(cat err)"

echo '== the ready sweep, shortened, with the real program'
sed -e "s|\"\.\./|\"$(dirname "$(dirname "$ready")")/|" -e 's/^trials:.*/trials: 2/; s/^seeds:.*/seeds: 1/; s/^max_env_step:.*/max_env_step: 2000/' \
  -e 's/^halving.*/halving { first: 1000 factor: 2 }/' "$ready" >ready.textproto
echo "program: \"$serial\"" >>ready.textproto
"$sweep" ready.textproto >out 2>err || fail "$(cat err)"
"$serial" --config=sweep_ready/best.textproto --print_config | sed 's/  # default of .*//' | cmp - <(grep -v '^#' sweep_ready/best.textproto) || fail 'the best config is another one'
