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

# The result is x + 10 * kind + seed / 10, and better with a larger budget. kind=9 fails (in a population from the second interval on), and kind=8 has no result. Lines of `calls`
# are begin or resume, the folder, the budget; and end. With a schedule, x is added to the file `weights` of the run.
cat >fake <<'EOP'
#!/usr/bin/env bash
x=0 kind=0 budget=0 begun=begin
for argument in "$@"; do
  case $argument in
    --set=x=*) x=${argument##*=} ;;
    --set=kind=*) kind=${argument##*=} ;;
    --set=policy.schedule=*'"y"'*) echo "policy: schedule[0].field is 'y', expected a field that may change: x, kind" >&2; exit 1 ;;
    --set=policy.schedule=*) schedule=${argument#*=*=} ;;
    --set=*) echo "fake: --set: cannot set '${argument#--set=}'; it has: x, kind" >&2; exit 1 ;;
    --seed=*) seed=${argument#*=} ;;
    --exp_dir=*) folder=${argument#*=} ;;
    --max_env_step=*) budget=${argument#*=} ;;
    --resume) begun=resume ;;
    --print_config) print=true ;;
  esac
done
last() { sed -nE "s/.*\"$1\" type: \"constant\" unit: ENV_STEP start: ([^ ]+) steps.*/\1/p" <<<"$schedule"; }
[ -z "${schedule-}" ] || { x=$(last x) kind=$(last kind); }
[ -z "${print-}" ] || { echo "x: $x kind: $kind budget: $budget $schedule"; grep -s . config.textproto; exit 0; }
there=begin
[ ! -e "$folder/total_config.textproto" ] || there=resume
[ $begun = $there ] || exit 7
mkdir -p "$folder"
touch "$folder/total_config.textproto"
echo "$begun $folder $budget" >>calls
[ "$kind" != 9 ] || { [ -n "${schedule-}" ] && [ "$budget" = 10 ]; } || { sleep "${FAIL_AFTER-0}"; echo 'it broke | in two' >&2; exit 3; }
trap 'echo "interrupted $folder" >>calls; exit 130' INT USR1
for ((i = 0; i < ${SLOW:-0}; i++)); do sleep 0.05; done
value=$(awk "BEGIN { print $x + 10 * $kind + $seed / 10 + $budget / 1000 }")
if [ -n "${schedule-}" ]; then
  read -r trained value <"$folder/weights" 2>/dev/null || trained=0 value=0
  [ "$trained" = "$budget" ] || value=$(awk "BEGIN { print $value + $x }")
  echo "$budget $value" >"$folder/weights.new"
  mv "$folder/weights.new" "$folder/weights"
fi
[ "$kind" != 8 ] || value=null
echo "{\"stop\": false, \"eval_value\": $value, \"env_step\": $budget, \"why\": \"\"}" >"$folder/result.new"
mv "$folder/result.new" "$folder/result.json"
echo "end $folder $budget $value" >>calls
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
  rm -rf refused
  make_sweep refused "$@"
  if "$sweep" --out=refused refused.textproto >out 2>err; then fail "'$*' was not refused"; fi
  grep -qF -- "$message" err && [ "$(head -c 13 err)" = 'tools/sweep: ' ] || fail "'$*' was refused with: $(cat err)"
}

has() { grep -qF -- "$2" "$1" || fail "expected '$2' in $1, found: $(cat "$1")"; }
count() { grep -csE -- "$1" calls || true; }
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
# A run that has only begun to start must not stay behind either.
mkdir late
printf '#!/bin/sh\nsleep 0.2\nexec %s "$@"\n' "$(command -v setpriv)" >late/setpriv
chmod +x late/setpriv
PATH=$PWD/late:$PATH SLOW=6 "$sweep" --jobs=2 killed.textproto >out 2>err &
pid=$!
until [ "$(count end 2>/dev/null)" -ge 3 ] 2>/dev/null; do sleep 0.02; done
kill -9 $pid
wait $pid 2>/dev/null || true
ended=$(count end) begun=$(count begin)
sleep 1
[ "$(count end)" = "$ended" ] || fail 'a run went on after the sweep was killed'
"$sweep" --jobs=2 killed.textproto >out 2>err || fail "$(cat err)"
# Two were running, and two may have ended unrecorded.
[ "$(count end)" -le 14 ] && [ "$(grep end calls | sort -u | wc -l)" = 10 ] || fail "$(cat calls)"
[ "$(count 'begin|resume')" -le 14 ] && [ "$(count resume)" -ge $((begun - ended)) ] || fail "$(cat calls)"

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

echo '== a population: the worst quarter takes over runs of the best quarter with other settings'
cat >check_population.py <<'EOP'
import json, sys
members = {row["trial"]: row for row in json.load(open(f"sweep_{sys.argv[1]}/sweep.json"))["trials"]}
least, copies, near = "least" in sys.argv, 0, 0
values, kinds = {}, ["0", "1", "2", "3"]
for line in open("calls"):
    name, folder, budget, *value = line.split()
    if name == "end":
        values[int(folder.split("trial_")[1].split("/")[0]), int(budget) // 10 - 1] = float(value[0])
for rung in range(6):
    ranked = sorted((n for n in members if (n, rung - 1) in values), key=lambda n: (values[n, rung - 1] * (1 if least else -1), n))
    for number, row in members.items():
        if (number, rung) not in values:
            continue
        now = row["intervals"][rung]
        before, source, x = row["intervals"][rung - 1]["settings"], now["copied"], float(now["settings"]["x"])
        weights = 0 if rung == 0 else values[number if source is None else source, rung - 1]
        assert abs(values[number, rung] - weights - x) < 1e-4, (number, rung, values, now)
        assert 0.1 <= x <= 1, now
        if source is None:
            assert rung == 0 or number in ranked[:-2] and now["settings"] == before, (number, rung, ranked, now, before)
            continue
        assert source in ranked[:2] and number in ranked[-2:], (number, source, rung, ranked)
        old = members[source]["intervals"][rung - 1]["settings"]
        assert now["settings"]["x"] != old["x"] and now["settings"]["kind"] != old["kind"], (now, old)
        copies += 1
        ratio = x / float(old["x"])
        near += abs(kinds.index(now["settings"]["kind"]) - kinds.index(old["kind"])) == 1
        near += min(abs(ratio - 1.5), abs(ratio - 1 / 1.5)) < 1e-9 or x in (0.1, 1)
assert copies == 10 and near > copies, (copies, near)
EOP
population='parameter { path: "x" range { low: 0.1 high: 1 log: true } } parameter { path: "kind" value: ["0", "1", "2", "3"] }
  method: PBT trials: 8 max_env_step: 60 pbt { interval: 10 factor: 1.5 }'
# Each interval of each member trains once, in the folder of the run that it has, to the budget of the interval.
check_population() {
  python3 check_population.py "$@" || fail "$(cat out calls)"
  [ "$(grep ^end calls | sort -u | wc -l)" = 48 ] && [ "$(count '^begin')" = 8 ] || fail "$(cat calls)"
}
rm calls
make_sweep population "$population"
"$sweep" --jobs=3 population.textproto >out 2>err || fail "$(cat err)"
check_population population
[ "$(count '^end')" = 48 ] && [ "$(count '^resume')" = 40 ] || fail "$(cat calls)"
grep -qE '^\| [0-7] \| .*\| from [0-7]: [0-9.]+ \([0-9.]+, [0-3]\) \|' out || fail "$(cat out)"
has out '## Score (x, kind) after each interval'
has err 'interval 5 of 6 has ended, 8 members go on'
[ "$(grep -o steps sweep_population/best.textproto | wc -l)" = 12 ] || fail "$(cat sweep_population/best.textproto)"
cp calls before
"$sweep" population.textproto >again 2>err && cmp calls before && cmp out again || fail 'a population that had ended was run again'

echo '== a population with less is better, killed again and again: the same as if it had not been'
rm calls
make_sweep lessens "$population minimize: true"
"$sweep" --out=sweep_whole lessens.textproto >whole 2>err || fail "$(cat err)"
: >calls
for ((kills = 0; kills < 5; ++kills)); do
  begun=$(count '^end')
  SLOW=1 "$sweep" --jobs=2 lessens.textproto >out 2>err &
  pid=$!
  until [ "$(count '^end')" -ge $((begun + 7)) ]; do sleep 0.02; done
  kill -9 $pid
  wait $pid 2>/dev/null || true
done
"$sweep" --jobs=2 lessens.textproto >out 2>err || fail "$(cat err)"
check_population lessens least
[ "$(count '^end')" -le $((48 + 2 * kills)) ] || fail "$(cat calls)"
cmp <(head -n -5 out) <(head -n -5 whole) || fail "$(cat out whole)"

echo '== members that fail are listed, and the others go on'
rm calls
make_sweep members 'parameter { path: "x" range { low: 0.1 high: 1 } } parameter { path: "kind" value: ["9", "1"] }' \
  'method: PBT trials: 6 max_env_step: 30 pbt { interval: 10 }'
FAIL_AFTER=2 "$sweep" --jobs=6 members.textproto >out 2>err || fail "$(cat err)"
grep -qE '^\| [0-5] \| x=[0-9.]+, kind=9 \| seed 0: fake ended with status 3: it broke' out || fail "$(cat out)"
has out ' complete |'

echo '== all trials fail'
make_sweep none 'parameter { path: "kind" value: ["9"] } method: GRID'
status=0
"$sweep" none.textproto >out 2>err || status=$?
[ $status = 1 ] && has out 'it broke' && [ ! -e sweep_none/best.textproto ] || fail "$(cat out err)"

echo '== a run that takes too long is ended in order, and listed'
rm calls
make_sweep slow "$kinds" 'method: GRID seeds: 1 max_seconds: 1'
sed -i 's/^for /[ "$kind" != 2 ] || SLOW=400; for /' fake
"$sweep" slow.textproto >out 2>err || fail "$(cat err)"
sed -i 's/^.*SLOW=400; for /for /' fake
has out '| 1 | kind=2 | seed 0: it was ended after 1 s |'
grep -q '| complete |' out && [ "$(count '^interrupted')" = 1 ] || fail "$(cat out calls)"

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
refused 'has no parameter; write parameter { path: "policy.learn.batch_size" value:' 'trials: 1'
refused 'write one of GRID, RANDOM, TPE, PBT: method: TPE' "$kind trials: 1 method: BAYES"
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
pbt='method: PBT trials: 4 max_env_step: 90 pbt { interval: 30 }'
refused 'has no parameter; write parameter { path: "learning_rate" range' "$pbt"
x='parameter { path: "x" range { low: 0.1 high: 1 } }'
refused "a parameter is not one that PBT can change: fake ended with status 1: policy: schedule[0].field is 'y', expected a field that may change: x" \
  "parameter { path: 'y' range { low: 0 high: 1 } } $pbt"
refused "parameter 'a.x' is no field of policy.schedule, which PBT writes" "parameter { path: 'a.x' range { low: 0 high: 1 } } $pbt"
refused "has integers, which PBT cannot change; write range" "parameter { path: 'x' integers { low: 0 high: 1 } } $pbt"
refused "has one value, which PBT cannot change; write two or more" "$kind $pbt"
refused "has the value 'TANH', but PBT changes numbers only" "parameter { path: 'x' value: ['TANH', 'RELU'] } $pbt"
refused "parameter 'x' has points, which only a grid has" "$xs $pbt"
refused "parameter 'x' has points, which only a grid has" "$xs trials: 2"
refused 'has method: PBT, which needs the budget of each member; write max_env_step: 100000' "$x method: PBT trials: 4 pbt { interval: 30 }"
refused 'has pbt { interval: 0 } with max_env_step: 90; write 1 to less than 90: pbt { interval: 9 }' "$x method: PBT trials: 4 max_env_step: 90"
refused 'has pbt { interval: 90 } with max_env_step: 90' "$x method: PBT trials: 4 max_env_step: 90 pbt { interval: 90 }"
refused 'has halving and method: PBT, which ends no run early' "$x $pbt halving { first: 9 }"
refused 'has seeds, but each member of PBT has one seed' "$x $pbt seeds: 3"
refused 'has 1 trials, but PBT compares its members; write 2 or more' "$x method: PBT trials: 1 max_env_step: 90 pbt { interval: 30 }"
refused 'factor is 1; write a number above 1' "$x method: PBT trials: 4 max_env_step: 90 pbt { interval: 30 factor: 1 }"
refused 'has pbt and method: TPE; write method: PBT' "$x trials: 4 max_env_step: 90 pbt { interval: 30 }"
refused 'max_seconds is 0; write 1 or more' "$x trials: 4 max_seconds: 0"
printf 'policy {\n  schedule {\n' >config.textproto
refused 'the config has policy.schedule, which PBT writes' "$x $pbt"
: >config.textproto
mv config.textproto fake_parallel.textproto
make_sweep parallel "$x $pbt"
sed -i 's/"config/"fake_parallel/' parallel.textproto
! "$sweep" parallel.textproto 2>err && has err "config is 'fake_parallel.textproto', but PBT needs a serial run" || fail "$(cat err)"
mv fake_parallel.textproto config.textproto
! env -u SLURM_JOB_ID "$sweep" --slurm grid.textproto 2>err && has err 'write: salloc -n 8 tools/sweep --slurm SWEEP' || fail "$(cat err)"
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

echo '== a population with the real program: the learning rate of an interval is in effect, and the run is that of the member taken over'
sed -e "s|\"\.\./|\"$(dirname "$(dirname "$ready")")/|" -e 's/^max_env_step:.*/max_env_step: 6144/; s/^pbt.*/pbt { interval: 2048 }/' \
  "${ready%.*}_population.textproto" >real.textproto
printf '%s\n' "program: \"$serial\"" 'set: "policy.learn.learner.hook.log_show_after_iter=8"' >>real.textproto
"$sweep" real.textproto >out 2>err || fail "$(cat err)"
python3 - <<'EOP' || fail "$(cat out)"
import json
members = {row["trial"]: row for row in json.load(open("sweep_real/sweep.json"))["trials"]}
copies = 0
for row in members.values():
    rates, member = [], row
    for rung in (2, 1, 0):
        now = member["intervals"][rung]
        rates.insert(0, now["settings"]["learning_rate"])
        if now["copied"] is not None:
            member, copies = members[now["copied"]], copies + 1
    begun = max(i for i in range(3) if i == 0 or row["intervals"][i]["copied"] is not None)
    seen = []
    for line in open(f"{row['folder']}/interval_{begun + 1}/log/metrics.csv"):
        step, name, value, *_ = line.split(",")
        if name.endswith("/cur_lr_avg"):
            seen.append((int(step), float(value)))
    assert len(seen) > 20, seen
    # The averages near the ends of an interval mix two rates.
    exact = [(value, rates[(step - 1) // 2048]) for step, value in seen if (step - 1) % 2048 >= 1024]
    assert len(exact) >= 6 and all(abs(value / rate - 1) < 1e-6 for value, rate in exact), (row, rates, seen)
assert copies, members
EOP
grep -qE '^# Trial [0-9]+ of .* with seed [0-9]+\.$' sweep_real/best.textproto || fail "$(head -n 1 sweep_real/best.textproto)"
seed=$(sed -nE '1s/.* with seed ([0-9]+)\.$/\1/p' sweep_real/best.textproto)
grep -qx "seed: $seed" sweep_real/best.textproto || fail "$(cat sweep_real/best.textproto)"
"$serial" --config=sweep_real/best.textproto --print_config >printed && [ "$(grep -c 'field: "learning_rate"' printed)" = 3 ] || fail "$(cat printed)"
