#!/bin/sh
# Says what Bazel 7 has looked up for a build of replay_buffer:naive_buffer by Bzlmod, and fails if that is more than it needs.
#   fetched.sh OUTPUT_USER_ROOT      of the build, which was the first one there
set -eu
cd "$1"/*/external
ls >/dev/null
status=0

# Repositories of packages of the distribution: Abseil's alone.
packages=$(find . -maxdepth 1 -name '*~~system~*' ! -name '@*' | sed 's/.*~~system~//' | sort | paste -sd' ' -)
expected="com_google_absl ding_worker_proto_rules"
[ "$packages" = "$expected" ] || { echo "packages that were looked up: '$packages', expected '$expected'" >&2; status=1; }

# Modules. Those of our MODULE.bazel and what Bazel itself brings; Google Benchmark is for our own tests only.
modules=$(find . -maxdepth 1 -name '*~' ! -name '*~~*' | sed 's|^\./||; s/~$//' | sort | paste -sd' ' -)
count=$(echo "$modules" | wc -w)
echo "a consumer of naive_buffer resolves $count modules: $modules"
[ "$count" -le 25 ] || { echo "expected at most 25 modules" >&2; status=1; }
case " $modules " in *" google_benchmark "*) echo "a module of our tests is among them: google_benchmark" >&2; status=1 ;; esac
exit $status
