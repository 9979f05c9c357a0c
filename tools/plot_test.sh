#!/usr/bin/env bash
# Tests what tools/plot draws of two small runs, and what it refuses.
set -euo pipefail
plot=$PWD/tools/plot
cd "$TEST_TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# make_run FOLDER VALUE...: a run whose evaluations at the steps 0, 100, ... gave these returns.
make_run() {
  local folder=$1 step=0 value
  shift
  mkdir -p "$folder/log"
  echo 'step,tag,value,wall_time' >"$folder/log/metrics.csv"
  for value in "$@"; do
    echo "$step,evaluator_step/reward_mean,$value,1.5" >>"$folder/log/metrics.csv"
    echo "$step,evaluator_step/reward_std,1,1.5" >>"$folder/log/metrics.csv"
    step=$((step + 100))
  done
}
make_run a 0 10 20 30
make_run b 0 30 50
make_run nothing

# refused 'PART OF THE MESSAGE' ARGUMENT...
refused() {
  local message=$1
  shift
  if "$plot" --out refused.svg "$@" >out 2>err; then fail "'$*' was not refused"; fi
  grep -qF -- "$message" err || fail "'$*' was refused with: $(cat err)"
  [ ! -e refused.svg ] || fail "'$*' left a picture"
}

"$plot" --line 25 'both<1>=a,b' a >out
grep -qx 'both<1>: last 40 at 300, best 40' out || fail "the median, where b keeps its last value: $(cat out)"
grep -qx 'a: last 30 at 300, best 30' out || fail "$(cat out)"
[ "$(grep -c '<polyline' plot.svg)" = 2 ] && [ "$(grep -c '<polygon' plot.svg)" = 1 ] || fail 'two curves, one band'
grep -q 'both&lt;1&gt; (median of 2)' plot.svg || fail 'the name of a curve is not escaped'
grep -q 'stroke-dasharray' plot.svg || fail 'no line at 25'
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse("plot.svg")' || fail 'no XML'

"$plot" --smooth 2 --out smooth.svg a >out
grep -qx 'a: last 25 at 300, best 25' out || fail "the mean of the last two: $(cat out)"

refused "cannot read 'nowhere/log/metrics.csv'" nowhere
refused 'evaluator_step/reward_std' --tag reward a
refused "'nothing/log/metrics.csv' has no values" nothing
refused '--smooth is 0, expected at least 1' --smooth 0 a
printf 'a,b\n1,2\n' >other.csv
refused "'other.csv' has the columns ['a', 'b'], expected step, tag and value" other.csv
printf 'step,tag,value\nx,evaluator_step/reward_mean,1\n' >damaged.csv
refused "'damaged.csv' is damaged" damaged.csv
if "$plot" --out no/folder/plot.svg a 2>err; then fail 'it wrote into no folder'; fi
grep -q "cannot write 'no/folder/plot.svg'" err || fail "$(cat err)"
