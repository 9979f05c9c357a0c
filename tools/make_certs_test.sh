#!/usr/bin/env bash
# Tests that tools/make_certs writes the files that it lists, that no other user can read them, and that it never changes
# existing files. //worker:parallel_test and //worker:hosts_test check that the programs accept the files.
set -euo pipefail
make_certs=$(readlink -f tools/make_certs)
cd "$TEST_TMPDIR"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}
# refused 'PART OF THE MESSAGE' ARGUMENT...
refused() {
  local message=$1
  shift
  if "$make_certs" "$@" >out 2>&1; then fail "'$*' was not refused:" "$(cat out)"; fi
  grep -qF -- "$message" out || fail "'$*' was refused with:" "$(cat out)"
}
verify() { openssl verify "$@" >out 2>&1; }

umask 022
"$make_certs" --days=7 new/run trainer.lan 10.0.0.7 fd00::7 >said
for role in coordinator learner collector operator; do
  [ "$(ls new/run/$role | xargs)" = "ca.pem cert.pem key.pem tokens" ] || fail "$(ls new/run/$role)"
  grep -qF -- "--tls_key=$role/key.pem --token_file=$role/tokens" said || fail "$(cat said)"
  verify -CAfile new/run/ca/ca.pem -purpose sslclient new/run/$role/cert.pem || fail "$(cat out)"
  openssl x509 -in new/run/$role/cert.pem -noout -checkend $((6 * 86400)) >/dev/null || fail "$role: less than 6 days"
  if openssl x509 -in new/run/$role/cert.pem -noout -checkend $((8 * 86400)) >/dev/null; then fail "$role: 8 days"; fi
  if [ $role != coordinator ]; then
    [[ $(cat new/run/$role/tokens) =~ ^$role\ [0-9a-f]{64}$ ]] || fail "tokens of $role"
    grep -qFx "$(cat new/run/$role/tokens)" new/run/coordinator/tokens || fail "the coordinator does not know the $role"
    if verify -CAfile new/run/ca/ca.pem -purpose sslserver new/run/$role/cert.pem; then fail "a $role may listen"; fi
  fi
done
[ "$(wc -l <new/run/coordinator/tokens)" = 3 ] || fail "tokens of the coordinator"
for host in trainer.lan localhost; do
  verify -CAfile new/run/ca/ca.pem -purpose sslserver -verify_hostname $host new/run/coordinator/cert.pem || fail "$(cat out)"
done
for address in 10.0.0.7 fd00::7 127.0.0.1 ::1; do
  verify -CAfile new/run/ca/ca.pem -verify_ip $address new/run/coordinator/cert.pem || fail "$(cat out)"
done
if verify -CAfile new/run/ca/ca.pem -verify_hostname other.lan new/run/coordinator/cert.pem; then fail "other.lan"; fi
open=$(find new/run -perm /077)
[ -z "$open" ] || fail "others can read:" "$open"
[ "$(ls new/run | xargs)" = "ca collector coordinator learner operator" ] || fail "$(ls new/run)"
[ "$(ls new)" = run ] || fail "left behind: $(ls new)"

before=$(find new -type f -exec md5sum {} + | sort)
refused "'new/run' exists" new/run trainer.lan
[ "$before" = "$(find new -type f -exec md5sum {} + | sort)" ] || fail "something was overwritten"

# With the same authority: new certificates and tokens, which the old ones' peers trust.
"$make_certs" --ca=new/run next trainer.lan >said
verify -CAfile new/run/ca/ca.pem next/collector/cert.pem || fail "$(cat out)"
if cmp -s new/run/collector/tokens next/collector/tokens; then fail "the same token again"; fi
# Without: no trust.
"$make_certs" other trainer.lan >said
if verify -CAfile new/run/ca/ca.pem other/collector/cert.pem; then fail "two authorities are one"; fi

refused 'FOLDER and a HOST are needed' alone
refused 'FOLDER and a HOST are needed'
refused "--days is '0'" --days=0 x host
refused "--days is 'many'" --days=many x host
refused "unknown argument '--force'" --force x host
refused "'trainer.lan:7235,DNS:evil'" x trainer.lan:7235,DNS:evil
refused "'a b' is not a name" x 'a b'
refused "no key 'none/ca/ca.key'" --ca=none x host
refused 'failed' x 1.2.3.4.5
[ "$(ls | xargs)" = "new next other out said" ] || fail "left behind: $(ls | xargs)"
grep -q 'tools/make_certs \[--days=N\]' <<<"$("$make_certs" --help)" || fail "no help"
