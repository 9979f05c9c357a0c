#!/usr/bin/env bash
# Tests what tools/new_env writes and refuses. Its output for a workspace of its own must equal examples/new_env, which
# tools/test builds, tests and trains; the environment in Python is trained here.
set -euo pipefail
new_env=$(readlink -f tools/new_env)
serial=$(readlink -f worker/serial)
root=$(dirname "$(dirname "$new_env")")
# Not $TEST_TMPDIR, which may lie below a WORKSPACE.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# expect_refusal TEXT ARGUMENT...: status 1, the text, and nothing written.
expect_refusal() {
  local text=$1 output status=0 before
  shift
  before=$(find . | sort)
  output=$("$new_env" "$@" 2>&1) || status=$?
  [ "$status" -eq 1 ] || fail "new_env $*: status $status, expected 1" "$output"
  [[ $output == *"$text"* ]] || fail "new_env $*: expected '$text', got:" "$output"
  [ "$(find . | sort)" = "$before" ] || fail "new_env $*: it wrote something"
}

# The same as the example, but for where this repository is: a workspace, and in it a package with continuous actions.
unset XDG_CACHE_HOME
"$new_env" Corridor --folder=alone/corridor >stdout
"$new_env" Room --actions=continuous --folder=alone/corridor/room >stdout_room
grep -q '^  bazel test //room:room_test$' stdout_room || fail "no line says how to test it:" "$(cat stdout_room)"
grep -q '^  bazel test //:corridor_test$' stdout || fail "no line says how to test it:" "$(cat stdout)"
grep -q '^  bazel run //:parallel -- --config=.*/corridor_dqn.textproto ' stdout || fail "no line says how to train in parallel:" "$(cat stdout)"
for config in ppo sac; do
  grep -q "^  bazel run //room:train -- --config=.*/room_$config.textproto " stdout_room || fail "no line trains by $config:" "$(cat stdout_room)"
done
[ "$(grep -o ' --\(exp_dir\|checkpoint\)=.*' stdout_room | sort -u | wc -l)" = 5 ] || fail "two runs in one folder:" "$(cat stdout_room)"
# The package of GoogleTest is in group `test`, before what needs it.
grep -qF "  $root/tools/setup build test " <<<"$(sed -n 2p stdout)" || fail "the set-up of the test is not named first:" "$(cat stdout)"
grep -q '^test libgmock-dev$' "$root/tools/packages" || fail "tools/setup test does not install GoogleTest"
grep -qF "path = \"$root\"" alone/corridor/WORKSPACE || fail "the WORKSPACE does not name $root"
sed -i 's|path = ".*"|path = "../.."|' alone/corridor/WORKSPACE
diff -r -x 'bazel-*' -x run "$root/examples/new_env" alone/corridor ||
  fail "examples/new_env is not what tools/new_env writes: rm -r examples/new_env, write it anew, set its path to ../.."

# It compiles as this repository does, and as the other examples do: then they all share what is in the disk cache.
for flag in $(sed -E '/^#/d; s/^(build|test) //' alone/corridor/.bazelrc); do
  grep -qxF -- "$flag" <<<"$(grep -E '^(build|test) ' "$root/.bazelrc" | tr ' ' '\n')" || fail ".bazelrc has $flag, and this repository has not"
done
grep -qx 'test --test_output=errors' alone/corridor/.bazelrc || fail "a failed test does not show its error"
for workspace in "$root"/examples/*/WORKSPACE; do
  diff "${workspace%/*}/.bazelrc" alone/corridor/.bazelrc || fail "$workspace has other flags"
done
# In Python: its own tests pass, the config names the class, and what it trains solves it.
"$new_env" IceMaze --python >stdout_python
(cd ice_maze && /usr/bin/python3 ice_maze_test.py) || fail "the tests of the Python environment fail"
grep -q 'entry_point: "ice_maze:IceMaze"' ice_maze/ice_maze_dqn.textproto || fail "the config does not name the class"
grep -qF "python_path: \"$PWD/ice_maze\"" ice_maze/ice_maze_dqn.textproto || fail "the config does not name the folder"
grep -q 'tools/train .*ice_maze_dqn.textproto' stdout_python || fail "no line says how to train it:" "$(cat stdout_python)"
"$serial" --config=ice_maze/ice_maze_dqn.textproto --exp_dir=ice_maze_run --seed=0 --python=/usr/bin/python3 >stdout_run 2>stderr_run ||
  fail "the training of the Python environment fails:" "$(cat stderr_run)"
grep -q '^result {"stop":true,' <<<"$(tail -n 1 stdout_run)" || fail "the training does not solve the Python environment:" "$(tail -n 1 stdout_run)"
mkdir pyenv
printf '#!/bin/sh\nexit 1\n' >pyenv/python3
chmod +x pyenv/python3
PATH=$PWD/pyenv:$PATH "$new_env" IceHall --python >stdout_hall 2>stderr
grep -qF "$PWD/pyenv/python3 has no numpy: the commands name /usr/bin/python3" stderr || fail "$(cat stderr)"
[ "$(grep -c /usr/bin/python3 stdout_hall)" = 3 ] || fail "a command names the python3 without numpy:" "$(cat stdout_hall)"
"$new_env" IceArm --python --actions=continuous >stdout_arm
(cd ice_arm && /usr/bin/python3 ice_arm_test.py) || fail "the tests of the Python environment with continuous actions fail"
grep -q 'tools/train .*ice_arm_sac.textproto' stdout_arm || fail "no line says how to train it:" "$(cat stdout_arm)"
"$serial" --config=ice_arm/ice_arm_sac.textproto --exp_dir=ice_arm_run --seed=0 --python=/usr/bin/python3 >stdout_run 2>stderr_run ||
  fail "the training with continuous actions fails:" "$(cat stderr_run)"
grep -q '^result {"stop":true,' <<<"$(tail -n 1 stdout_run)" || fail "SAC does not solve the Python environment:" "$(tail -n 1 stdout_run)"
grep -q ',evaluator_step/info/success_mean,' ice_arm_run/log/metrics.csv || fail "evaluations do not say how many episodes succeed"

XDG_CACHE_HOME=/elsewhere "$new_env" Hall --folder=alone/hall >stdout
grep -q ' --disk_cache=/elsewhere/ding_worker/bazel$' alone/hall/.bazelrc || fail "not the cache of tools/train"

# In somebody's workspace: labels and includes from its root; it is told if it does not know this repository.
mkdir -p other/envs
touch other/WORKSPACE
(cd other/envs && "$new_env" MyMaze2D >../stdout 2>../stderr)
grep -q 'does not know @ding_worker yet' other/stderr || fail "nothing says that @ding_worker is missing"
grep -q '^  bazel test //envs/my_maze2_d:my_maze2_d_test$' other/stdout || fail "$(cat other/stdout)"
grep -q '^#include "envs/my_maze2_d/my_maze2_d.h"$' other/envs/my_maze2_d/my_maze2_d.cc || fail "wrong include"
grep -q '^#define ENVS_MY_MAZE2_D_MY_MAZE2_D_H_$' other/envs/my_maze2_d/my_maze2_d.h || fail "wrong header guard"
[ ! -e other/envs/my_maze2_d/WORKSPACE ] || fail "a workspace inside a workspace"

# A repository that has only a MODULE.bazel is a workspace, too.
mkdir -p module
echo 'module(name = "mine")' >module/MODULE.bazel
(cd module && "$new_env" Maze >../stdout 2>../stderr)
grep -q 'does not know @ding_worker yet; see .*/examples/bzlmod/MODULE.bazel$' stderr || fail "$(cat stderr)"
grep -q '^  bazel test //maze:maze_test$' stdout || fail "$(cat stdout)"
[ ! -e module/maze/WORKSPACE ] || fail "a WORKSPACE in a repository of modules"
grep -q ' needs: bazel_dep(name = "abseil-cpp", version = .*, repo_name = "com_google_absl")$' stderr || fail "$(cat stderr)"
echo 'bazel_dep(name = "ding_worker", version = "0.1.0")' >>module/MODULE.bazel
sed -n 's/^.* needs: //p' stderr >>module/MODULE.bazel
(cd module && "$new_env" Hall >/dev/null 2>../stderr)
[ ! -s stderr ] || fail "$(cat stderr)"

# In this workspace (a copy of what of it matters): the rules and names of the house.
mkdir -p house/tools house/env
cp -r "$new_env" "$(dirname "$new_env")/lib.sh" "$(dirname "$new_env")/new_module.sh" "$(dirname "$new_env")/new_env_templates" house/tools
touch house/WORKSPACE
house/tools/new_env Maze --folder=house/env/maze >stdout
grep -q '^#include "ding_worker/env/maze/maze.h"$' house/env/maze/maze.cc || fail "wrong include in the house"
grep -q '^#define DING_WORKER_ENV_MAZE_MAZE_H_$' house/env/maze/maze.h || fail "wrong header guard in the house"
grep -q '^ding_cc_library($' house/env/maze/BUILD || fail "not the rules of the house"
grep -q 'default_visibility = \["//env:__subpackages__"\]' house/env/maze/BUILD || fail "not private in the house"
house/tools/new_env Hall --actions=continuous --folder=house/env/hall >stdout
grep -q '^  bazel run //env/hall:train -- --config=.*/house/env/hall/hall_ppo.textproto ' stdout || fail "$(cat stdout)"
! grep -rn '@ding_worker\|ding::' house/env/maze house/env/hall || fail "names of another workspace in the house"

# Nothing is left to fill in.
! grep -rnE '@[A-Z]+@' alone other house/env || fail "a name was not filled in"

expect_refusal "exists, expected a folder that does not" Maze --folder=house/env/maze
expect_refusal "'my-maze' is not a name" my-maze
expect_refusal "'maze' is not a name" maze
expect_refusal "'../Maze' is not a name" ../Maze
expect_refusal "name of a program" Train
expect_refusal "the name of the environment is missing"
expect_refusal "unknown flag '--dir=x'" Maze --dir=x
expect_refusal "'--actions=both': expected --actions=discrete or --actions=continuous" Maze --actions=both
expect_refusal "--actions needs its value behind '='" Maze --actions continuous
expect_refusal "one name at most, got 'A' and 'B'" A B
grep -q 'tools/new_env NAME' <<<"$("$new_env" --help)" || fail "--help does not help"
