#!/usr/bin/env bash
# Tests tools/bench with programs that only print: when it refuses to judge, what stands beside a row, and what the table says.
set -euo pipefail
repo=$TEST_TMPDIR/repo
mkdir -p "$repo/tools" "$repo/bin/pkg" "$repo/bin/tools/floors" "$repo/path"
cp tools/bench tools/bench_table.py tools/lib.sh "$repo/tools"
cd "$repo"
export PATH=$repo/path:$PATH OPENBLAS_CORETYPE=Prescott OPENBLAS_L2_SIZE=262144

fail() {
  printf '%s\n' "FAILED: $*" >&2
  exit 1
}

# script FILE: what stands on stdin.
script() {
  (echo '#!/usr/bin/env bash' && cat) >"$1"
  chmod +x "$1"
}
script tools/setup <<<''
script path/nproc <<<'cat "$(dirname "$0")/cores"'
script path/bazel <<'PROGRAM'
case $1 in
  query) echo //pkg:some_benchmark ;;
  info) echo "$PWD/bin" ;;
esac
PROGRAM

# Each of these takes i times as long at its i-th measurement.
script bin/pkg/some_benchmark <<'PROGRAM'
[ "$OPENBLAS_CORETYPE$OPENBLAS_L2_SIZE" = Prescott262144 ] || exit 1  # They stay here.
filter=${1#--benchmark_filter=}
line() { # NAME NANOSECONDS ITEMS LABEL
  [[ $1 =~ $filter ]] || return 0
  calls=calls_${1//[^A-Za-z]/}
  echo >>"$calls"
  echo "\"$1\",10,1,$(($2 * $(wc -l <"$calls"))),ns,,$3,\"$4\",,"
}
names=(BM_Fast/8 BM_Slow 'BM_Of<int>/1/iterations:5/real_time' BM_SlowBaseline BM_Alone)
[ "$filter" != --benchmark_list_tests=true ] || { printf '%s\n' "${names[@]}"; exit 0; }
cd "$(dirname "$0")"
line BM_Fast/8 100 4000000 ''
line BM_Slow 2000 '' aim=0.9
line BM_SlowBaseline 1000 '' ''
line BM_Alone 1000 '' aim=6us
[[ $filter != *Of* ]] || echo '"BM_Of<int>/1/iterations:5/real_time",5,7,1,us,,,,,'
PROGRAM
script bin/tools/floors/floors <<'PROGRAM'
[ -z "${OPENBLAS_L2_SIZE:-}" ] || exit 1
echo "OpenBLAS kernel: ${OPENBLAS_CORETYPE:-Generic}" >&2
[ "$1" != --benchmark_list_tests=true ] || { printf '%s\n' some_benchmark:Fast/8 'some_benchmark:Of<int>/1/real_time' other:Slow; exit 0; }
case $1 in
  *Fast*)
    echo >>calls
    echo "\"some_benchmark:Fast/8\",10,1,$((60 * $(wc -l <calls))),ns,,,\"aim=0.6\",,"
    ;;
  *) echo '"some_benchmark:Of<int>/1/real_time",5,3.5,1,us,,,,,' ;;
esac
PROGRAM

# table ARGUMENT...: runs it from the beginning, with output in out and err.
table() {
  rm -f calls bin/pkg/calls*
  tools/bench "$@" >out 2>err
}
# has 'LINE': the last output has this line, spaces aside.
has() { grep -qxF -- "$1" <<<"$(sed -E 's/ +/ /g' out)" || fail "expected '$1', found: $(cat out err)"; }

echo '== above the load it refuses to judge'
echo -1 >path/cores
! table || fail "it judged: $(cat out)"
[ ! -s out ] && grep -qE '^tools/bench: the load is [0-9.]+ on -1 cores, above 0\.5 per core: ' err || fail "$(cat out err)"
grep -qF -- '--unjudged' err || fail "$(cat err)"
table --list || fail "$(cat err)"

echo '== --unjudged measures and says so'
table --unjudged || fail "$(cat err)"
grep -q '^NOT JUDGED' out || fail "$(cat out)"
has 'some_benchmark Fast/8 500 ns 4.00 M/s floor 300 ns 0.60 0.6 not judged'

echo '== the table of an idle machine'
echo 1000000 >path/cores
table || fail "$(cat err)"
! grep -qi 'not judged' out || fail "$(cat out)"
has 'benchmark time rate beside reach aim'
has 'some_benchmark Fast/8 500 ns 4.00 M/s floor 300 ns 0.60 0.6 reached'
has 'some_benchmark Slow 10.0 us baseline 5.00 us 0.50 0.9 MISSED'
has 'some_benchmark Of<int>/1 7.00 us floor 3.50 us 0.50'
has 'some_benchmark Alone 1.00 us 6 us reached'
kernel=Generic
! grep -qw avx2 /proc/cpuinfo || kernel=Haswell
! grep -qw avx512f /proc/cpuinfo || kernel=SkylakeX
grep -qF "in floors OpenBLAS $kernel" out || fail "$(cat out)"

echo '== a floor that fails'
sed -i '2i[[ $1 != *Fast* ]] || { echo "floors: a product differs" >\&2; exit 1; }' bin/tools/floors/floors
! table || fail 'it did not notice'
grep -qF 'floors: a product differs' err && grep -qF 'failed: //pkg:some_benchmark Fast/8' err || fail "$(cat err)"
has 'some_benchmark Slow 10.0 us baseline 5.00 us 0.50 0.9 MISSED'
