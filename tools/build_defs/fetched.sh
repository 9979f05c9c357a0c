#!/bin/sh
# Says what Bazel 7 has looked up for a build of replay_buffer:buffers by Bzlmod, and fails if that is more than it needs.
#   fetched.sh OUTPUT_USER_ROOT      of the build, which was the first one there
set -eu
cd "$1"/*/external
ls >/dev/null
status=0

# Repositories of packages of the distribution: Abseil's alone.
packages=$(find . -maxdepth 1 -name '*~~system~*' ! -name '@*' | sed 's/.*~~system~//' | sort | paste -sd' ' -)
expected="com_google_absl ding_worker_proto_rules"
[ "$packages" = "$expected" ] || { echo "packages that were looked up: '$packages', expected '$expected'" >&2; status=1; }

# Modules: those of our MODULE.bazel and what Bazel itself brings, without those that are for our own tests or optional.
modules=$(find . -maxdepth 1 -name '*~' ! -name '*~~*' | sed 's|^\./||; s/~$//' | sort | paste -sd' ' -)
count=$(echo "$modules" | wc -w)
echo "a consumer of the buffers resolves $count modules: $modules"
[ "$count" -le 22 ] || { echo "expected at most 22 modules" >&2; status=1; }
for module in google_benchmark grpc hiredis openssl; do
  case " $modules " in *" $module "*) echo "$module is among them" >&2; status=1 ;; esac
done
exit $status
