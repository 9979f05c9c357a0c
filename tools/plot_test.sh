#!/usr/bin/env bash
# Tests what tools/plot draws of small runs, and what it refuses.
set -euo pipefail
plot=$PWD/tools/plot
picture=$PWD/tools/plot_test_picture.py
packages=$PWD/tools/packages
cd "$TEST_TMPDIR"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

/usr/bin/python3 -c 'import matplotlib' || fail 'matplotlib is missing; run tools/setup plot'

# make_run FOLDER VALUE...: a run whose evaluations at the env steps 0, 100, ... gave these returns, each after 10 train
# iterations and 2.5 seconds.
make_run() {
  local folder=$1 i=0 value
  shift
  mkdir -p "$folder/log"
  echo 'step,tag,value,wall_time' >"$folder/log/metrics.csv"
  for value in "$@"; do
    echo "$((i * 10)),evaluator_iter/reward_mean,$value,$((1700000000 + i * 5 / 2)).$((i * 25 % 10))00"
    echo "$((i * 100)),evaluator_step/reward_mean,$value,$((1700000000 + i * 5 / 2)).$((i * 25 % 10))00"
    echo "$((i * 100)),evaluator_step/reward_std,1,1700000000.5"
    echo "$((i * 100)),evaluator_step/info/reward_mean,-12345,1700000000.5"
    echo "$((i * 10)),learner_iter/loss_avg,0.00000${value#-},1700000000.5"
    i=$((i + 1))
  done >>"$folder/log/metrics.csv"
}

# refused 'PART OF THE MESSAGE' ARGUMENT...
refused() {
  local message=$1
  shift
  if "$plot" --out refused.svg "$@" >out 2>err; then fail "'$*' was not refused"; fi
  grep -qF -- "$message" err || fail "'$*' was refused with: $(cat err)"
  [ "$(head -c 12 err)" = 'tools/plot: ' ] || fail "'$*' was refused with: $(cat err)"
  for file in refused.*; do [ ! -e "$file" ] || fail "'$*' left $file"; done
}

# says 'LINE': the last output has this line.
says() { grep -qxF -- "$1" out || fail "expected '$1', found: $(cat out)"; }

# drawn FILE CHECK...: the picture holds the checks of plot_test_picture.py.
drawn() { python3 "$picture" "$@" || fail "$1"; }

make_run a 0 10 20 30
make_run b 0 30 50
make_run none
make_run rising 0 1 2 3 4 5 6 7 8 9
make_run falling 9 8 7 6 5 4 3 2 1 0

echo '== a median, which keeps the last value of a run that ended, and a run; each end is marked'
"$plot" --line 25 'both<1>=a,b' a >out
says 'both<1>: last 40 at 300 env steps, lowest 0, highest 40'
says 'a: last 30 at 300 env steps, lowest 0, highest 30'
says plot.svg
drawn plot.svg curves=2 bands=1 ends=3 panels=1 'name=both<1> (median of 2)' 'name=line at 25' 'name=end of a run' \
  'end=300,30' 'end=200,50' 'x=0 50 100 150 200 250 300' 'x_unit=env steps' 'y_unit=reward_mean (return of an episode)' \
  title=evaluator_step/reward_mean

echo '== the mean of the last two'
"$plot" --smooth 2 --out smooth.svg a >out
says 'a: last 25 at 300 env steps, lowest 0, highest 25'

echo '== names of any kind are in the legend, above the curves'
make_run noise $(for i in $(seq 300); do echo $((i * 7919 % 101)); done)
"$plot" --out long.svg "$(printf 'long%.0s' {1..60})=noise" "$(printf 'a longer name %.0s' {1..60})=a" >out
drawn long.svg curves=2
"$plot" --out names.svg --title '$a$ & _' '_$x_1$=a' $'two\nlines\x01=b' >out
drawn names.svg 'name=_$x_1$' 'name=two?lines?' 'title=$a$ & _'

echo '== the picture of very many values is small'
python3 -c '
print("step,tag,value")
for i in range(200000): print(f"{i},evaluator_step/reward_mean,{i * 7919 % 101}")' >dense.csv
sed 's/,1$/,2/' dense.csv >dense2.csv
"$plot" --out dense.svg dense.csv >out; drawn dense.svg points=4000
"$plot" --out dense.svg m=dense.csv,dense2.csv >out; drawn dense.svg points=9000

echo '== eight curves can be told apart'
for i in 1 2 3 4 5 6 7 8; do make_run "run$i" 0 "$i" "${i}0"; done
"$plot" --out eight.svg run[1-8] >out
drawn eight.svg curves=8 colors=8 dashed=1 ends=8

echo '== thousands, very large and very small values, a constant, a single value'
make_run large 0 -4000 12000 1234567
"$plot" --out large.svg large >out; drawn large.svg 'y=0 200,000 400,000 600,000 800,000 1,000,000 1,200,000'
make_run negative -1600 -1200
"$plot" --out negative.svg negative >out; drawn negative.svg 'y=−1,600 −1,550 −1,500 −1,450 −1,400 −1,350 −1,300 −1,250 −1,200'
make_run huge 0 40e9 80e9
"$plot" --out huge.svg huge >out; drawn huge.svg 'y=0 10 20 30 40 50 60 70 80' 'y_unit=reward_mean (return of an episode) (in 10⁹)'
make_run extreme 1.7e308 -1.7e308 1.7e308
"$plot" --out extreme.svg extreme >out; drawn extreme.svg 'y=−150 −100 −50 0 50 100 150' 'y_unit=reward_mean (return of an episode) (in 10³⁰⁶)'
make_run tiny 5e-324 0
"$plot" --out tiny.svg tiny >out; drawn tiny.svg 'y=−1 −0.5 0 0.5 1'
make_run constant 200 200
"$plot" --out constant.svg constant >out; drawn constant.svg 'y=190 195 200 205 210'
make_run single 7
"$plot" --out single.svg --x seconds single >out; drawn single.svg ends=1 'end=0,7' 'x_unit=seconds'
make_run many $(seq 101)
sed -i 's/^\([0-9]*\)00,evaluator_step/\100000,evaluator_step/' many/log/metrics.csv
"$plot" --out many.svg many >out; drawn many.svg 'x=0 2 4 6 8 10' 'x_unit=env steps (in 10⁶)'
says 'many: last 101 at 10,000,000 env steps, lowest 1, highest 101'

echo '== a statistic of the env, of any unit'
"$plot" --out info.svg --tag evaluator_step/info/reward_mean a >out
drawn info.svg 'y_unit=info/reward_mean' title=evaluator_step/info/reward_mean
says 'a: last -12345 at 300 env steps, lowest -12345, highest -12345'

echo '== panels, over seconds and iterations'
"$plot" --out panels.svg --title 'a & b' --tag evaluator_step/reward_mean --tag learner_iter/loss_avg --tag evaluator_step/reward_std \
  --line evaluator_step/reward_mean=25 'm=a,b' a >out
drawn panels.svg panels=3 curves=6 bands=3 ends=9 'x_unit=env steps | train iterations | env steps' \
  'y_unit=reward_mean (return of an episode) | loss_avg (in 10⁻⁶) | reward_std (return of an episode)' \
  'title=a & b | evaluator_step/reward_mean | learner_iter/loss_avg | evaluator_step/reward_std'
says 'a, learner_iter/loss_avg: last 3e-06 at 30 train iterations, lowest 0, highest 3e-06'
"$plot" --out seconds.svg --x seconds a b >out
drawn seconds.svg 'x_unit=seconds' 'x=0 1 2 3 4 5 6 7' 'end=7.5,30' 'end=5,50'
says 'b: last 50 at 5.0 seconds, lowest 0, highest 50'
"$plot" --out iterations.svg --x iteration a >out
drawn iterations.svg 'x_unit=train iterations' title=evaluator_iter/reward_mean
says 'a: last 30 at 30 train iterations, lowest 0, highest 30'
"$plot" --out steps.svg --x step --tag evaluator_iter/reward_mean a >out
says 'a: last 30 at 300 env steps, lowest 0, highest 30'

echo '== what the learner of a parallel run has measured is beside what its coordinator has'
make_run parallel 0 10
printf 'step,tag,value,wall_time\n100,learner_step/loss,5,1700000001.0\n200,learner_step/loss,4,1700000003.0\n' \
  >parallel/log/learner-0.csv
printf 'step,tag,value,wall_time\n150,learner_step/loss,9,1700000001.0\n' >parallel/log/learner-1.csv
printf 'step,tag,value,wall_time\n150,collector_step/loss,9,1700000001.0\n' >parallel/log/collector-0.csv
: >parallel/log/learner-2.csv
"$plot" --out parallel.svg --x seconds --tag evaluator_step/reward_mean --tag learner_step/loss parallel >out
says 'parallel, evaluator_step/reward_mean: last 10 at 2.5 seconds, lowest 0, highest 10'
says 'parallel, learner_step/loss: last 4 at 3.0 seconds, lowest 4, highest 5'
refused "'parallel/log/metrics.csv' has no values of 'collector_step/loss' (did you mean 'learner_step/loss'?)" \
  --tag collector_step/loss parallel

echo '== equal arguments give equal bytes; the order of hashes has no part in them'
for seed in 1 2; do
  PYTHONHASHSEED=$seed "$plot" --out "same$seed.svg" 'm=a,b' rising falling >out
  PYTHONHASHSEED=$seed "$plot" --out "same$seed.png" 'm=a,b' rising falling >out
done
for kind in svg png; do cmp "same1.$kind" "same2.$kind" || fail 'two pictures of the same differ'; done

echo '== a PNG picture is twice as large'
[ "$(head -c 8 same1.png | od -An -tx1)" = ' 89 50 4e 47 0d 0a 1a 0a' ] || fail 'no PNG signature'
read -r width height < <(od -An -j16 -N8 -tu1 same1.png | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }')
read -r svg_width svg_height < <(sed -nE '/^<svg/s/.* width="([0-9]+)[0-9.]*pt" height="([0-9]+)[0-9.]*pt".*/\1 \2/p' same1.svg)
# A point is 4/3 pixels, and the hinting of the font rounds the widths of texts.
[ $((width - svg_width * 8 / 3)) -lt 10 ] && [ $((height - svg_height * 8 / 3)) -lt 10 ] && [ "$height" -gt "$svg_height" ] ||
  fail "the PNG picture has $width x $height pixels, the other $svg_width x $svg_height points"

echo '== patterns of runs and tags'
"$plot" --out pattern.svg 'run[1-3]' 'all=run*' >out
drawn pattern.svg curves=4 bands=1 'name=all (median of 8)' 'name=run2'
"$plot" --out pattern.svg --tag '*/reward_*' --tag learner_iter/loss_avg a >out
drawn pattern.svg panels=5 'title=evaluator_iter/reward_mean | evaluator_step/info/reward_mean | evaluator_step/reward_mean | evaluator_step/reward_std | learner_iter/loss_avg'
refused "no run matches 'walk*'" 'm=walk*'
refused "no tag of 'a' matches '*los'" --tag '*los' a

echo '== without matplotlib it says what to install'
mkdir bare
mkdir without && printf 'import importlib.util\nfind = importlib.util.find_spec\nimportlib.util.find_spec = lambda name: None if name == "matplotlib" else find(name)\n' >without/sitecustomize.py
if PYTHONPATH=$PWD/without "$plot" --out refused.svg a >out 2>err; then fail 'it drew without matplotlib'; fi
grep -q 'pictures are drawn by matplotlib, which is not installed' err || fail "$(cat err)"
package=$(sed -n 's/^  apt-get install --yes --no-install-recommends //p' err)
grep -qx "plot $package" "$packages" || fail "tools/packages has no '$package', which is to be installed: $(cat err)"

echo '== values that are not finite, steps that were run again, and half a last line, are left out or replaced'
make_run odd 0 nan 20 inf
printf '200,evaluator_step/reward_mean,21,1700000009.0\n300,evaluator_step/reward_me' >>odd/log/metrics.csv
"$plot" --out odd.svg odd >out 2>err || fail "$(cat err)"
says 'odd: last 21 at 200 env steps, lowest 0, highest 21'
grep -qF "'odd/log/metrics.csv': 2 values of 'evaluator_step/reward_mean' are not finite and are left out" err || fail "$(cat err)"
grep -qF "'odd/log/metrics.csv': its last line has no end and is left out" err || fail "$(cat err)"

echo '== runs of the same name are called by more of their path'
mkdir one two && cp -r a one/run && cp -r b two/run
"$plot" --out names.svg one/run two/run >out
says 'one/run: last 30 at 300 env steps, lowest 0, highest 30'
says 'two/run: last 50 at 200 env steps, lowest 0, highest 50'

echo '== what is refused'
refused "cannot read 'nowhere/log/metrics.csv'" nowhere
refused "the folder is there, but is not that of a run" bare
refused "'none/log/metrics.csv' has no values of 'evaluator_step/reward_mean'; the tags are:
  none" none
: >empty.csv
refused "'empty.csv' is empty" empty.csv
printf 'a,b\n1,2\n' >other.csv
refused "'other.csv' has the columns ['a', 'b'], expected step, tag and value" other.csv
refused "'a/log/metrics.csv' has no values of 'evaluator_step/reward_men' (did you mean 'evaluator_step/reward_mean'?); the tags are:
  evaluator_iter/reward_mean" --tag evaluator_step/reward_men a
refused "the 2 runs have no values of 'reward'" --tag reward a b
mkdir -p steps_only/log
sed 's/evaluator_iter/other_iter/' a/log/metrics.csv >steps_only/log/metrics.csv
refused "'steps_only/log/metrics.csv' has 'evaluator_step/reward_mean', but no values of 'evaluator_iter/reward_mean': a run writes these, \
too, with metrics { x_axis: BOTH }" --x iteration steps_only
cp -r b partly && sed -i '/reward_std/d' partly/log/metrics.csv
refused "the runs are mixed: some have values of 'evaluator_step/reward_std', but these have not:
  partly/log/metrics.csv
Leave them out" --tag evaluator_step/reward_std a partly
printf 'env {\n  type: "CartPole-v0"\n}\n' >a/total_config.textproto
printf 'env {\n  type: "Pendulum-v1"\n}\n' >b/total_config.textproto
refused "the runs of 'm' are mixed: one curve of them means nothing, because their env differs:
  a: CartPole-v0
  b: Pendulum-v1" m=a,b
"$plot" --out apart.svg a b >out || fail 'runs of two envs, each a curve, were refused'
make_run infinite inf nan
refused "no values of 'evaluator_step/reward_mean' that are finite" infinite
# damaged LINE MESSAGE: a file whose second line is damaged.
damaged() {
  printf 'step,tag,value,wall_time\n%s\n1,evaluator_step/reward_mean,1,5\n' "$1" >damaged.csv
  refused "'damaged.csv' is damaged: line 2 has $2" damaged.csv
}
damaged 'x,evaluator_step/reward_mean,1,5' "the step 'x', expected a whole number; mend or delete the line"
damaged '1,evaluator_step/reward_mean,one,5' "the value 'one', expected a number"
damaged '1,evaluator_step/reward_mean,1,noon' "the wall_time 'noon', expected a number"
damaged '1,evaluator_step/reward_mean' '2 fields, expected 4: step, tag, value, wall_time'
damaged "$(head -c 200000 /dev/zero | tr '\0' 9)" 'something that is not CSV (field larger than field limit (131072))'
printf 'step,tag,value\n1,evaluator_step/reward_mean,1\n' >timeless.csv
refused "'timeless.csv' has no column wall_time" --x seconds timeless.csv
refused "--x is 'step', but the name of 'reward' does not say what its steps count" --x step --tag reward a
refused "invalid choice: 'hours'" --x hours a
refused '--smooth is 0, expected at least 1' --smooth 0 a
refused "two panels would show 'evaluator_step/reward_mean'" --x step --tag evaluator_step/reward_mean --tag evaluator_iter/reward_mean a
refused "--line is 'high', expected a number" --line high a
refused "--line is 'nan', expected a number" --line nan a
refused "--line is '5', but there are several tags" --line 5 --tag evaluator_step/reward_mean --tag evaluator_step/reward_std a
refused "--line is 'loss=5', but no --tag is 'loss'" --line loss=5 a
refused "--line is given twice for 'evaluator_step/reward_mean'" --line 5 --line 6 a
refused "'m=' lacks a name or a folder, expected NAME=FOLDER,FOLDER,..." m=
refused "the run 'a' is given twice" a ./a
refused "the run 'a' is given twice" m=a,b,a
refused "two curves are called 'm'" m=a m=b
refused "--out is 'refused.pdf', expected a name that ends with .svg or .png" --out refused.pdf a
refused 'the following arguments are required: RUN; see tools/plot --help' --smooth 2
if "$plot" --out no/folder/plot.svg a 2>err; then fail 'it wrote into no folder'; fi
grep -q "cannot write 'no/folder/plot.svg'" err || fail "$(cat err)"
mkdir folder.svg
if "$plot" --out folder.svg a 2>err; then fail 'it replaced a folder'; fi
grep -q "cannot write 'folder.svg': Is a directory" err || fail "$(cat err)"
[ -z "$(find . -name '*.part')" ] || fail 'a part of a picture is left'
echo passed
