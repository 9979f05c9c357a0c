#!/usr/bin/env bash
# systemd understands each line of the units in deploy/systemd, and a misspelt one is found. The units are not started. Left out with a
# sentence where systemd is missing, unless DING_TEST_CLUSTER=1 asks for it.
set -euo pipefail

if ! command -v systemd-analyze >/dev/null; then
  if [ "${DING_TEST_CLUSTER-}" = 1 ]; then
    echo "units_test cannot run: systemd-analyze is missing; run tools/setup cluster" >&2
    exit 1
  fi
  echo "left out: systemd-analyze is missing, and DING_TEST_CLUSTER=1 does not ask for it (tools/setup cluster)"
  exit 0
fi

# verify UNIT [SED]: prints what systemd says of a unit. Its program is one of this checkout.
verify() {
  local folder
  folder=$(mktemp -d "$TEST_TMPDIR/units.XXXXXX")
  sed -E -e "s|^ExecStart=/opt/ding_worker/|ExecStart=$PWD/|" -e "${2-}" "deploy/systemd/$1" >"$folder/$1"
  ! grep -q /opt/ding_worker/deploy "$folder/$1" || echo "$1: its program is not /opt/ding_worker/deploy/start"
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$folder/${1/@/@1}" 2>&1
}
# faulty UNIT SED 'PART OF THE MESSAGE'
faulty() {
  verify "$1" "$2" >"$TEST_TMPDIR/out" || true
  grep -qF -- "$3" "$TEST_TMPDIR/out" || { echo "'$2' in $1: expected '$3', found:" "$(cat "$TEST_TMPDIR/out")" >&2; exit 1; }
}

for unit in deploy/systemd/*.service; do
  said=$(verify "${unit##*/}") || said+=" (status $?)"
  [ -z "$said" ] || { printf '%s\n' "$unit:" "$said" >&2; exit 1; }
  # Each credential that deploy/start wants is one of the role.
  grep -q "^LoadCredential=redis_password:/etc/ding_worker/[a-z]*/redis_password$" "$unit" || { echo "$unit: no password of Redis" >&2; exit 1; }
done
faulty ding-collector@.service 's/^Restart=/Restrat=/' "Unknown key 'Restrat'"
faulty ding-learner@.service 's/^MemoryMax=8G/MemoryMax=8Q/' "Invalid memory limit '8Q'"
faulty ding-coordinator@.service 's/^\[Service\]/[Servise]/' "Unknown section 'Servise'"
faulty ding-redis.service 's/start redis/started redis/' 'is not executable'
