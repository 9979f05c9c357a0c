#!/bin/sh
# The test behind no_path_test (deps_test.bzl).
#   no_path_test.sh FILE FROM TO...      FILE: the path that a query found, a label per line, empty if there is none
file=$1
from=$2
shift 2
[ -f "$file" ] || { echo "there is no file '$file'" >&2; exit 2; }
[ -s "$file" ] || exit 0
echo "$from must not depend on $*, but does:" >&2
sed 's/^/  /' "$file" >&2
exit 1
