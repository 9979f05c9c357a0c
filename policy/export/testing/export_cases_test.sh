#!/usr/bin/env bash
# Exports all cases and compares them with the actor.   $1: the program that exports
set -euo pipefail
. python/testing/python.sh
"$1" "$TEST_TMPDIR/exports"
"$python" policy/export/testing/check_exports.py "$TEST_TMPDIR/exports"
