#!/usr/bin/env bash
# promtool accepts the alerts and the example configuration of deploy/prometheus, and the alerts fire when they should. Left out where
# promtool is missing, unless DING_TEST_PROMETHEUS=1 asks for it.
set -euo pipefail
if ! command -v promtool >/dev/null; then
  if [ "${DING_TEST_PROMETHEUS-}" = 1 ]; then
    echo "prometheus_test cannot run: promtool is missing; run tools/setup prometheus" >&2
    exit 1
  fi
  echo "left out: promtool is missing, and DING_TEST_PROMETHEUS=1 does not ask for it (tools/setup prometheus)"
  exit 0
fi
cd deploy/prometheus
promtool check rules alerts.yml
promtool test rules alerts_test.yml
promtool check config --syntax-only prometheus.yml
