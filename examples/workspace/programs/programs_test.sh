#!/usr/bin/env bash
# Each program starts and says what it links.
#   programs_test.sh PROGRAM...
set -euo pipefail
[ $# -gt 0 ] || { echo "no program is given" >&2; exit 1; }
for program in "$@"; do
  said=$("$program")
  [[ $said == *" is linked" ]] || { echo "$program says '$said'" >&2; exit 1; }
done
