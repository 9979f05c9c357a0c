#!/bin/sh
# Passes if the command fails with status 1 and says the text.
#   expect_failure.sh TEXT COMMAND [ARGUMENT...]
text=$1
shift
output=$("$@" 2>&1)
status=$?
printf '%s\n' "$output"
[ "$status" -eq 1 ] || { echo "expected status 1, got $status" >&2; exit 1; }
case $output in *"$text"*) ;; *) echo "expected the text '$text'" >&2; exit 1 ;; esac
