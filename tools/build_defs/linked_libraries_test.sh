#!/bin/sh
# The test behind linked_libraries_test (deps_test.bzl).
#   linked_libraries_test.sh PROGRAM FORBIDDEN...      FORBIDDEN: starts of the file names of shared libraries
program=$1
shift
loaded=$(ldd "$program") || { echo "ldd cannot read '$program'" >&2; exit 2; }
case $loaded in *libc.so*) ;; *) echo "not a dynamically linked program: $program" >&2; exit 2 ;; esac
status=0
for start in "$@"; do
  found=$(printf '%s\n' "$loaded" | awk -v start="$start" 'index($1, start) == 1 { print "  " $1 }')
  [ -z "$found" ] && continue
  echo "$program must not load $start*, but does:" >&2
  printf '%s\n' "$found" >&2
  status=1
done
exit $status
