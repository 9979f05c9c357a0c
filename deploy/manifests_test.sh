#!/usr/bin/env bash
# The manifests of deploy/kubernetes have only fields that Kubernetes knows, and refer only to what is there; faults are found. Left out
# with a sentence where python3-kubernetes is missing, unless DING_TEST_CLUSTER=1 asks for it.
set -euo pipefail

if ! /usr/bin/python3 -c 'import kubernetes, yaml' 2>/dev/null; then
  if [ "${DING_TEST_CLUSTER-}" = 1 ]; then
    echo "manifests_test cannot run: python3-kubernetes is missing; run tools/setup cluster" >&2
    exit 1
  fi
  echo "left out: python3-kubernetes is missing, and DING_TEST_CLUSTER=1 does not ask for it (tools/setup cluster)"
  exit 0
fi

check() { /usr/bin/python3 deploy/check_manifests.py "$1"; }
# faulty FILE SED 'PART OF THE MESSAGE'
faulty() {
  rm -rf "$TEST_TMPDIR/kubernetes"
  cp -rL deploy/kubernetes "$TEST_TMPDIR/kubernetes"
  chmod -R u+w "$TEST_TMPDIR/kubernetes"
  sed -E "$2" "deploy/kubernetes/$1" >"$TEST_TMPDIR/kubernetes/$1"
  ! cmp -s "deploy/kubernetes/$1" "$TEST_TMPDIR/kubernetes/$1" || { echo "'$2' does not change $1" >&2; exit 1; }
  if check "$TEST_TMPDIR/kubernetes" >"$TEST_TMPDIR/out"; then echo "not found in $1: $2" >&2; exit 1; fi
  grep -qF -- "$3" "$TEST_TMPDIR/out" || { echo "'$2' in $1: expected '$3', found:" "$(cat "$TEST_TMPDIR/out")" >&2; exit 1; }
}

check deploy/kubernetes
faulty workers.yaml 's/automountServiceAccountToken/automountServiceAcountToken/' "has no field 'automountServiceAcountToken'"
faulty coordinator.yaml 's/failureThreshold: 2$/failureTreshold: 2/' "readinessProbe: has no field 'failureTreshold'"
faulty workers.yaml 's/replicas: 1 /replicas: "1" /' "spec.replicas: is '1', expected int"
faulty redis.yaml 's/^  serviceName: .*//' "Invalid value for \`service_name\`"
faulty coordinator.yaml 's|batch/v1|batch/v2|' "apiVersion 'batch/v2'"
faulty workers.yaml 's/secretName: learner-secrets/secretName: learner-secret/' "nothing makes Secret 'learner-secret'"
faulty network.yaml 's/values: \[learner, collector\]/values: [learner, colector]/' 'no pod has the label role: colector'
faulty network.yaml 's/port: coordinator/port: coordinater/' "no container has a port 'coordinater'"
faulty workers.yaml 's/name: files, mountPath/name: file, mountPath/' "volume 'file' is mounted, but not there"
faulty redis.yaml 's/DING_REDIS_MEMORY/DING_REDIS_MEMORIES/' 'deploy/start does not know DING_REDIS_MEMORIES'
faulty kustomization.yaml '/network.yaml/d' 'kustomization.yaml: resources are'
