#!/usr/bin/env bash
# Builds the image of deploy/Dockerfile on a Debian made by debootstrap, with programs that are built already, and runs the cluster of
# deploy/compose.yaml: containers are killed, the run goes on, and ends in order. It takes minutes, root and a mirror of Debian, so it is
# left out unless DING_TEST_CLUSTER=1 asks for it.
set -euo pipefail

if [ "${DING_TEST_CLUSTER-}" != 1 ]; then
  echo "left out: it builds images for minutes, and DING_TEST_CLUSTER=1 does not ask for it"
  exit 0
fi
export PATH=/usr/sbin:/sbin:/usr/local/bin:$PATH HOME=${HOME:-/root}
for program in podman podman-compose debootstrap; do
  command -v $program >/dev/null || { echo "containers_test cannot run: $program is missing; run tools/setup cluster" >&2; exit 1; }
done
# shellcheck disable=SC1091
. tools/lib.sh
# shellcheck disable=SC1091
. tools/bare_root.sh

# A project of its own, which leaves nothing behind.
export CONTAINERS_CONF=$TEST_TMPDIR/containers.conf CONFIG=$TEST_TMPDIR/config.textproto
# A machine may not raise limits, and mixes versions of cgroups, which crun refuses.
printf '%s\n' '[containers]' 'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]' '[engine]' 'runtime = "runc"' >"$CONTAINERS_CONF"
sed '/max_seconds/d' worker/configs/cartpole_dqn_soak.textproto >"$CONFIG"
chmod 644 "$CONFIG"
mkdir "$TEST_TMPDIR/deploy"
sed "s|image: ding_worker|image: localhost/ding_test|" deploy/compose.yaml >"$TEST_TMPDIR/deploy/compose.yaml"
compose() { podman-compose --project-name ding_test --file "$TEST_TMPDIR/deploy/compose.yaml" "$@" >>"$TEST_TMPDIR/compose.log" 2>&1; }
clean_up() {
  compose down --volumes --timeout 5 || true
  podman network rm --force ding_test_default >/dev/null 2>&1 || true
  podman image rm --force localhost/ding_test localhost/ding_test_programs ${base_is_new:+localhost/ding_test_base} >/dev/null 2>&1 || true
  [ -z "${place-}" ] || rm -rf --one-file-system "$place"
}
trap clean_up EXIT
fail() {
  printf '%s\n' "$@" >&2
  tail -n 30 "$TEST_TMPDIR/compose.log" >&2
  for role in coordinator learner collector redis; do podman logs --tail 15 "ding_test_${role}_1" >&2 || true; done
  exit 1
}

# ---- the image

if ! podman image exists localhost/ding_test_base; then
  base_is_new=yes
  open_root bookworm "" --keep
  tar -C "$place" --exclude='./project/*' --exclude='./dev/*' --exclude='./proc/*' --exclude='./var/lib/apt/lists/*' \
    --exclude='./var/cache/apt/*' -c . | podman import - localhost/ding_test_base >/dev/null 2>&1
fi
mkdir "$TEST_TMPDIR/programs"
install --strip worker/parallel worker/ctl "$TEST_TMPDIR/programs"
printf '%s\n' 'FROM scratch' 'COPY parallel ctl /programs/' >"$TEST_TMPDIR/programs/Dockerfile"
podman build --quiet --tag localhost/ding_test_programs "$TEST_TMPDIR/programs" >/dev/null
context=$TEST_TMPDIR/context
mkdir -p "$context/tools" "$context/deploy"
cp -L tools/make_certs tools/lib.sh "$context/tools"
cp -L deploy/Dockerfile deploy/start deploy/libraries "$context/deploy"
podman build --network=host --build-arg BASE=localhost/ding_test_base --build-arg PROGRAMS=localhost/ding_test_programs \
  --tag localhost/ding_test --file "$context/deploy/Dockerfile" "$context" >"$TEST_TMPDIR/build.log" 2>&1 || fail "$(tail -n 30 "$TEST_TMPDIR/build.log")"
size() { podman image inspect --format '{{.Size}}' "$1"; }
added=$(($(size localhost/ding_test) - $(size localhost/ding_test_base)))
echo "the image adds $((added / 1000000)) MB to its base"
[ $added -lt 80000000 ] || fail "the image adds $added bytes, expected less than 80 MB"
grep -q 'uid=10001' <<<"$(podman run --rm --network=none --entrypoint id localhost/ding_test)" || fail "the image runs as another user"

# ---- the cluster

in_coordinator() { podman exec ding_test_coordinator_1 "$@"; }
status() { in_coordinator start ctl status 2>/dev/null; }
env_step() { status | sed -nE '1s/.* env_step ([0-9]+) .*/\1/p' | grep . || echo 0; }
workers() { status | grep -cE '^ +[0-9]+ +(learner|collector)-' || true; }
wait_until() {
  local end=$((SECONDS + 300))
  until eval "$1"; do
    [ $SECONDS -lt $end ] || fail "not within five minutes: $1" "$(status || true)"
    sleep 1
  done
}
before=0
goes_on() {
  wait_until "[ \$(workers) -ge 3 ] && [ \$(env_step) -gt $before ]"
  before=$(($(env_step) + 500))
}
compose down --volumes || true  # of a test that was killed
compose up --detach || fail "compose up"
goes_on
echo "began: $(status | head -n 1)"
if podman exec ding_test_collector_1 touch /usr/bin/x 2>/dev/null; then fail "the root of a container can be written"; fi
[ "$(podman exec ding_test_collector_1 ls /etc/ding_worker/secrets | xargs)" = "ca.pem cert.pem key.pem redis_password tokens" ] ||
  fail "other secrets than those of a collector"
for role in collector learner redis coordinator; do
  kill -9 "$(podman inspect --format '{{.State.Pid}}' ding_test_${role}_1)"  # A `podman kill` would be an order to stay away.
  goes_on
  echo "after the death of $role: $(status | head -n 1)"
done
in_coordinator start ctl stop >/dev/null
[ "$(podman wait ding_test_coordinator_1)" = 0 ] || fail "the coordinator failed"
grep -q '^result {' <<<"$(podman logs ding_test_coordinator_1 2>/dev/null | tail -n 1)" || fail "there is no result"
