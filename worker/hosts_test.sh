#!/usr/bin/env bash
# A run on three hosts, each a network namespace with an address of its own, and a switch whose links are cut and healed:
#
#   trainer 10.7.0.1  coordinator          ─┐
#   gpu     10.7.0.2  learner              ─┼─ switch
#   rollout 10.7.0.3  collectors           ─┘
#
# The hosts share a folder, as by NFS. Workers that end with an error are started again, as systemd would. The test needs no
# rights where users may make namespaces. Where they may not, it fails, unless DING_TEST_WITHOUT_NAMESPACES=1 leaves it out.
set -euo pipefail

if [ "${1:-}" != inside ]; then
  if ! unshare --user --map-root-user --net --mount true 2>/dev/null; then
    refused='this machine does not allow network namespaces (unshare --user --map-root-user --net --mount)'
    if [ "${DING_TEST_WITHOUT_NAMESPACES-}" = 1 ]; then
      echo "left out by DING_TEST_WITHOUT_NAMESPACES=1: $refused"
      exit 0
    fi
    echo "hosts_test cannot run: $refused." \
      "Allow them, or leave the test out by --test_env=DING_TEST_WITHOUT_NAMESPACES=1; see docs/explanation/testing.md" >&2
    exit 1
  fi
  command -v ip >/dev/null || { echo "ip is missing; run tools/setup test" >&2; exit 1; }
  # The processes of the run end with this one, whatever happens.
  exec unshare --user --map-root-user --net --mount --pid --fork --kill-child -- "$0" inside
fi

parallel=$PWD/worker/parallel ctl=$PWD/worker/ctl config=$PWD/worker/configs/cartpole_dqn_soak.textproto
shared=$TEST_TMPDIR/shared
mkdir "$shared"
tools/make_certs "$TEST_TMPDIR/certs" trainer.lan 10.7.0.1 >/dev/null

fail() {
  printf '%s\n' "$@" >&2
  tail -n 40 "$TEST_TMPDIR"/*.err >&2
  exit 1
}

# ---- three hosts and a switch

mount -t tmpfs tmpfs /run
# LeakSanitizer finds the threads of a process in /proc, which has to show the processes by the numbers that they have here. Where
# nobody may mount one, parallel_test looks for leaks in the same programs.
mount -t proc proc /proc 2>/dev/null || export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
echo '10.7.0.1 trainer.lan' | cat /etc/hosts - >"$TEST_TMPDIR/hosts"
mount --bind "$TEST_TMPDIR/hosts" /etc/hosts
ip netns add switch
ip -n switch link add name bridge type bridge
ip -n switch link set dev bridge up
number=0
for host in trainer gpu rollout; do
  number=$((number + 1))
  ip netns add $host
  ip -n switch link add name to_$host type veth peer name eth0 netns $host
  ip -n switch link set dev to_$host master bridge up
  ip -n $host addr add 10.7.0.$number/24 dev eth0
  ip -n $host link set dev lo up
  ip -n $host link set dev eth0 up
done
cut_link() { ip -n switch link set dev "to_$1" down; }
heal_link() { ip -n switch link set dev "to_$1" up; }
on() { ip netns exec "$@"; }

# ---- the run

# link_flags ROLE
link_flags() {
  local folder=$TEST_TMPDIR/certs/$1
  echo "--tls_ca=$folder/ca.pem --tls_cert=$folder/cert.pem --tls_key=$folder/key.pem --token_file=$folder/tokens"
}
# worker HOST ROLE NAME
worker() {
  # shellcheck disable=SC2046  # flags
  until on "$1" "$parallel" --role="$2" --name="$3" --coordinator=trainer.lan:7235 $(link_flags "$2") 2>>"$TEST_TMPDIR/$3.err"; do
    sleep 0.2
  done
}
# shellcheck disable=SC2046  # flags
ip netns exec trainer "$parallel" --role=coordinator --config="$config" --exp_dir="$shared/run" --listen=0.0.0.0:7235 \
  --set=system.store_url="\"file:$shared/store\"" --set=system.max_seconds=0 \
  --set=system.coordinator.lease_seconds=15 $(link_flags coordinator) >"$TEST_TMPDIR/out" 2>"$TEST_TMPDIR/coordinator.err" &
coordinator=$!
worker gpu learner learner-0 &
worker rollout collector collector-0 &
worker rollout collector collector-1 &

# status: prints what the coordinator answers.
status() {
  # shellcheck disable=SC2046  # flags
  on trainer "$ctl" status --coordinator=trainer.lan:7235 --timeout=30 $(link_flags operator)
}
# value NAME: of the status in $now.
value() { sed -nE "1s/.* $1 +([0-9]+).*/\1/p" <<<"$now"; }
# numbers: of the workers that there are.
numbers() { awk '$2 ~ /^(learner|collector)-[0-9]$/ { print $2 "=" $1 }' <<<"$now" | sort | xargs; }
# wait_until WHAT: asks until the expression holds, for a time that only a broken program needs.
wait_until() {
  local end=$((SECONDS + 120))
  while true; do
    kill -0 $coordinator 2>/dev/null || fail "the coordinator has ended"
    if now=$(status) && eval "$1"; then return; fi
    [ $SECONDS -lt $end ] || fail "not within two minutes: $1" "$now"
    sleep 0.2
  done
}
everybody='[ "$(numbers | wc -w)" = 3 ]'
# goes_on: everybody is there, collects and trains.
goes_on() {
  wait_until "$everybody"
  local envstep policy
  envstep=$(value env_step) policy=$(value policy)
  wait_until "$everybody && [ \$(value env_step) -gt $((envstep + 500)) ] && [ \$(value policy) -gt $policy ]"
}
goes_on
echo "three hosts: $(head -n 1 <<<"$now")"

# Another host has the address, and none of the files.
if on rollout "$ctl" status --coordinator=trainer.lan:7235 >"$TEST_TMPDIR/stranger" 2>&1; then fail "a stranger was let in"; fi
grep -qF -- '--tls_ca, --token_file are missing' "$TEST_TMPDIR/stranger" || fail "$(cat "$TEST_TMPDIR/stranger")"

# For less than the lease: the same workers go on.
before=$(numbers)
for host in rollout gpu; do
  cut_link $host
  sleep 2
  heal_link $host
  goes_on
done
[ "$(numbers)" = "$before" ] && [ "$(value lost)" = 0 ] || fail "a short cut cost a worker; before: $before" "$now"
echo "after two cuts of two seconds: $(head -n 1 <<<"$now")"

# For longer: they are lost, the others go on, and successors come when the link is healed.
cut_link rollout
wait_until '[ "$(value lost)" = 2 ]'
policy=$(value policy)
wait_until "[ \$(value policy) -gt $policy ]"
heal_link rollout
goes_on
[ "$(numbers)" != "$before" ] || fail "nobody was replaced" "$now"
echo "after a long one: $(head -n 1 <<<"$now")"

# ---- its end

kill -TERM $coordinator
code=0
wait $coordinator || code=$?
[ $code = 143 ] || fail "the coordinator ended with $code"
wait  # The workers were told that the run is over.
grep -q '"stop":false' "$shared/run/result.json" || fail "$(cat "$shared/run/result.json")"
[ -z "$(find "$shared/store" -type f)" ] || fail "left in the store:" "$(find "$shared/store" -type f)"
for name in learner-0 collector-0 collector-1 coordinator; do
  [ -s "$shared/run/log/${name}_logger.txt" ] || fail "no log of $name: $(ls "$shared/run/log")"
done
rows=$(grep -o 'rows: [0-9]* pushed, [0-9]* acknowledged' "$shared/run/log/coordinator_logger.txt") || fail "no count of rows"
read -r _ pushed _ acknowledged _ <<<"$rows"
[ "$acknowledged" -gt 0 ] && [ "$acknowledged" -le "$pushed" ] || fail "acknowledged and lost: $rows"
echo "$rows"
