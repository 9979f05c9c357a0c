#!/usr/bin/env bash
# On a machine that does not allow namespaces, hosts_test fails with a sentence, and is left out only if it is told so.
set -euo pipefail

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

mkdir "$TEST_TMPDIR/bin"
printf '#!/bin/sh\nexit 1\n' >"$TEST_TMPDIR/bin/unshare"
chmod +x "$TEST_TMPDIR/bin/unshare"
export PATH=$TEST_TMPDIR/bin:$PATH

# expect STATUS TEXT [VALUE]: how hosts_test ends if DING_TEST_WITHOUT_NAMESPACES has this value.
expect() {
  local status=0 output
  output=$(DING_TEST_WITHOUT_NAMESPACES=${3-} worker/hosts_test.sh 2>&1) || status=$?
  [ "$status" = "$1" ] || fail "with '${3-}': status $status, expected $1" "$output"
  grep -qF -- "$2" <<<"$output" || fail "with '${3-}': expected '$2' in:" "$output"
}
expect 1 'hosts_test cannot run: this machine does not allow network namespaces'
expect 1 'leave the test out by --test_env=DING_TEST_WITHOUT_NAMESPACES=1; see docs/explanation/testing.md'
expect 1 'hosts_test cannot run' 0
expect 0 'left out by DING_TEST_WITHOUT_NAMESPACES=1' 1
