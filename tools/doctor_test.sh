#!/usr/bin/env bash
# Tests what tools/doctor says of machines that have or lack something: their programs are shell scripts.
set -euo pipefail
mkdir -p "$TEST_TMPDIR/repo/tools" "$TEST_TMPDIR/bin"
for file in doctor lib.sh packages setup; do cp "$(readlink -f "tools/$file")" "$TEST_TMPDIR/repo/tools"; done
cd "$TEST_TMPDIR"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# The machine has these programs and no others.
for program in awk basename bash cat cut date df dirname env git grep head id mktemp paste readlink rm sed sh tail timeout tr uname; do
  ln -s "$(command -v "$program")" "bin/$program" 2>/dev/null || true
done
# fake PROGRAM SCRIPT
fake() {
  rm -f "bin/$1"
  printf '#!/bin/bash\n%s\n' "$2" >"bin/$1"
  chmod +x "bin/$1"
}
sed '/^#/d; s/^[a-z]* /installed /; s/$/ /' repo/tools/packages >installed
fake dpkg-query "cat '$PWD/installed'"
fake apt-get 'exit 1'
fake nproc 'echo 2'
fake bazel 'echo bazel 6.0'
fake g++ 'echo g++ 12'
fake python3 'echo Python 3.11'
fake timedatectl 'echo yes'
fake redis-cli 'echo PONG'

# says STATUS LINE: the exit code, and a line that matches the regular expression.
says() {
  local status=0
  PATH=$PWD/bin repo/tools/doctor >out 2>err || status=$?
  [ "$status" -eq "$1" ] || fail "status $status, expected $1" "$(cat out err)"
  grep -qE -- "$2" out || fail "expected '$2', found:" "$(cat out err)"
  [ ! -s err ] || fail "$(cat err)"
}

says 0 '^ok +build +has all packages for a plain run$'
! grep -E '^(MISSING|note) +(build|torch|python|clock|Redis|packages|plot)' out || fail "$(cat out)"
says 0 '^ok +python +Python 3.11 at .*/bin/python3, with numpy and gymnasium$'
says 0 '^ok +CUDA +no NVIDIA driver'
says 0 '^ok +Slurm +none'
says 0 '^ok +version +ding_worker no Git checkout; .*; Linux '

# What a plain run needs.
cp installed all
sed -i '/libabsl-dev/d; /zlib1g-dev/d' installed
says 1 '^MISSING +build +for a plain run: run tools/setup build, which installs libabsl-dev zlib1g-dev$'
cp all installed
rm bin/bazel
says 1 '^MISSING +bazel +nothing can be built: run tools/setup build$'
fake bazel 'echo bazel 6.0'

# What only some runs need.
sed -i '/libtorch-dev/d' installed
says 0 '^note +torch +for networks by libtorch: run tools/setup torch, which installs libtorch-dev$'
cp all installed
fake python3 'case "$*" in *gymnasium*) exit 1 ;; *) echo Python 3.11 ;; esac'
says 0 "^note +python +.*, without gymnasium: for Python envs run 'pip install gymnasium' in a venv"
rm bin/python3
says 0 '^note +python +there is no python3'
fake timedatectl 'echo no'
says 0 '^note +clock +not synchronized'
rm bin/timedatectl
says 0 '^note +clock +nothing says'
fake redis-cli 'echo Could not connect; exit 1'
says 0 '^note +Redis server +none answers'
fake nvidia-smi 'echo "H100, 550"'
says 0 '^ok +CUDA +H100, 550;'
fake nvidia-smi 'echo "it has failed"; exit 9'
says 0 '^note +CUDA +nvidia-smi fails: it has failed$'
fake sinfo 'exit 1'
says 0 '^note +Slurm +sinfo fails'
fake sinfo 'echo slurm 22'
says 0 '^ok +Slurm +slurm 22, which answers$'
fake df 'echo head; echo x x x 100'
says 0 '^note +shared memory +100 MiB are free in /dev/shm'
says 0 '^note +disk +100 MiB are free at .*: a first build takes 5 GB$'
(ulimit -n 256; says 0 '^note +open files +at most 256')
rm bin/dpkg-query
says 0 '^note +packages +not a Debian system'

if repo/tools/doctor --all 2>err; then fail 'an unknown argument was not refused'; fi
grep -qxF "tools/doctor: unknown argument '--all'; see tools/doctor --help" err || fail "$(cat err)"
grep -q '^Says what this machine has' <<<"$(repo/tools/doctor --help)" || fail 'no help'
echo passed
