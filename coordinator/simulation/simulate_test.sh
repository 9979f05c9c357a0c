#!/usr/bin/env bash
# Runs 2,000 simulations; a failure prints the seed. Also checks the exit codes, and that a process repeats what another
# one has done.
set -euo pipefail

readonly simulate=coordinator/simulation/simulate

fail() {
  echo "FAILED: $1" >&2
  cat output >&2
  exit 1
}

# Sets `status` to the exit code, and writes the output to a file.
run() {
  status=0
  "$simulate" "$@" >output 2>&1 || status=$?
}

run --runs=2000 --threads=2
[[ $status == 0 ]] || fail "a run breaks a rule"
head -n 1 output

run --runs=50 --seed=7 --threads=1
grep digest output >first
run --runs=50 --seed=7 --threads=2
grep digest output | cmp - first || fail "the digest was $(cat first)"

run --runs=1000 --plant=7
[[ $status == 1 ]] || fail "the exit code of a broken rule is $status"
grep -Eq '^seed [0-9]+ breaks a rule: .* \(step [0-9]+\)$' output || fail "no seed, rule and step"
grep -q 'BROKEN: no env step counts twice' output || fail "no trace"

for wrong in --runs=0 --plant=11 --threads=0 word; do
  run "$wrong"
  [[ $status == 2 ]] || fail "the exit code of '$wrong' is $status"
done
