#!/usr/bin/env bash
# Runs scrape_test.py. Its tests that need Prometheus and promtool are left out where these are missing, unless DING_TEST_PROMETHEUS=1.
set -euo pipefail
for program in prometheus promtool; do
  if [ "${DING_TEST_PROMETHEUS:-}" = 1 ] && ! command -v $program >/dev/null; then
    echo "scrape_test cannot run: $program is missing; run tools/setup prometheus" >&2
    exit 1
  fi
done
exec python3 worker/prometheus/scrape_test.py
