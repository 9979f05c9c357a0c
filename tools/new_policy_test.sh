#!/usr/bin/env bash
# Tests what tools/new_policy writes and refuses. tools/test builds, tests and trains the algorithms of examples/own_policies: of these,
# huber_td3 must be what the tool writes, and each other one at most 80 lines more than that, all in its own files.
set -euo pipefail
new_policy=$(readlink -f tools/new_policy)
root=$(dirname "$(dirname "$new_policy")")
# Not $TEST_TMPDIR, which may lie below a WORKSPACE.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset XDG_CACHE_HOME

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# expect_refusal TEXT ARGUMENT...: status 1, the text, and nothing written.
expect_refusal() {
  local text=$1 output status=0 before
  shift
  before=$(find . | sort)
  output=$("$new_policy" "$@" 2>&1) || status=$?
  [ "$status" -eq 1 ] || fail "new_policy $*: status $status, expected 1" "$output"
  [[ $output == *"$text"* ]] || fail "new_policy $*: expected '$text', got:" "$output"
  [ "$(find . | sort)" = "$before" ] || fail "new_policy $*: it wrote something"
}

# Lines that the second folder has beside those of the first.
added_lines() {
  diff -r "$1" "$2" | grep -c '^>' || true
}

mkdir examples
cp "$root/examples/own_policies/WORKSPACE" examples
(
  cd examples
  "$new_policy" HuberTd3 --from=td3 >../stdout
  "$new_policy" Munchausen --from=dqn >/dev/null
  "$new_policy" DualClip --from=ppo >/dev/null
  "$new_policy" Tsallis --from=sac >/dev/null
)
grep -q '^  bazel test //huber_td3:huber_td3_test$' stdout || fail "no line says how to test it:" "$(cat stdout)"
diff -r "$root/examples/own_policies/huber_td3" examples/huber_td3 ||
  fail "examples/own_policies/huber_td3 is not what tools/new_policy writes: remove it, and write it anew"
for own in munchausen dual_clip tsallis; do
  for file in BUILD train_test.sh; do
    diff "$root/examples/own_policies/$own/$file" "examples/$own/$file" ||
      fail "examples/own_policies/$own/$file is not what tools/new_policy writes"
  done
  added=$(added_lines "examples/$own" "$root/examples/own_policies/$own")
  ((added > 0 && added <= 80)) || fail "examples/own_policies/$own has $added lines that tools/new_policy does not write, expected 1 to 80"
done

# Alone it is a workspace that compiles as this repository does; includes begin at the root of a workspace.
"$new_policy" MyDqn --from=dqn alone/my_dqn >/dev/null
diff "$root/examples/own_policies/.bazelrc" alone/my_dqn/.bazelrc || fail "it compiles with other flags than the examples"
grep -qF "path = \"$root\"" alone/my_dqn/WORKSPACE || fail "the WORKSPACE does not name $root"
grep -q '^#include "my_dqn.pb.h"$' alone/my_dqn/my_dqn.cc || fail "wrong include"
mkdir -p other
echo 'module(name = "mine")' >other/MODULE.bazel
(cd other && "$new_policy" MySac2 --from=sac policies/soft >../stdout 2>../stderr)
grep -q '^#include "policies/soft/my_sac2.pb.h"$' other/policies/soft/my_sac2.cc || fail "wrong include in a workspace"
grep -q '^  bazel test //policies/soft:my_sac2_test$' stdout || fail "$(cat stdout)"
grep -q 'does not know @ding_worker yet; see .*/examples/bzlmod/MODULE.bazel$' stderr || fail "$(cat stderr)"
grep -q ' needs: bazel_dep(name = "protobuf", version = .*, repo_name = "com_google_protobuf")$' stderr || fail "$(cat stderr)"
! grep -rnE '@[A-Z_]+@' examples alone other || fail "a name was not filled in"

expect_refusal "exists, expected a folder that does not" MyDqn --from=dqn alone/my_dqn
expect_refusal "'my-dqn' is not a name for an algorithm: expected a capital letter" my-dqn --from=dqn
expect_refusal "name of a program" Parallel --from=dqn
expect_refusal "'sac' is the name of an algorithm of ding_worker" Sac --from=sac
expect_refusal "the name of the algorithm is missing" --from=dqn
expect_refusal "--from is missing: expected --from=dqn, --from=ppo, --from=sac or --from=td3" MyDqn
expect_refusal "'--from=a2c': expected --from=dqn" MyA2c --from=a2c
expect_refusal "--from needs its value behind '=', such as --from=td3" MyTd3 --from td3
expect_refusal "unknown flag '--folder=x'" MyDqn --folder=x
expect_refusal "a name and a folder at most, got 'A', 'b' and 'c'" A b c
expect_refusal "is in the workspace of ding_worker, expected a folder outside of it" MyDqn --from=dqn "$root/policy/my_dqn"
grep -q 'tools/new_policy NAME' <<<"$("$new_policy" --help)" || fail "--help does not help"
