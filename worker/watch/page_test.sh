#!/usr/bin/env bash
# Runs page_test.py, in a headless Chromium that chromedriver drives. Left out where they are missing, unless DING_TEST_BROWSER=1.
set -euo pipefail
for program in chromium chromedriver; do
  command -v $program >/dev/null && continue
  if [ "${DING_TEST_BROWSER:-}" = 1 ]; then
    echo "page_test cannot run: $program is missing; run tools/setup browser" >&2
    exit 1
  fi
  echo "left out: $program is missing, and DING_TEST_BROWSER=1 does not ask for it (tools/setup browser)"
  exit 0
done
exec python3 worker/watch/page_test.py worker/watch/watch worker/parallel
