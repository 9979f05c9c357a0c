#!/bin/sh
# Runs every benchmark of a binary for a moment: it must not crash or report an error.
#   benchmark_smoke_test.sh BINARY
output=$("$1" --benchmark_min_time=0.001 2>&1)
status=$?
printf '%s\n' "$output"
[ "$status" -eq 0 ] || exit "$status"
case $output in
  *"ERROR OCCURRED"*) echo "a benchmark reported an error" >&2; exit 1 ;;
esac
