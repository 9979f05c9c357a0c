#!/usr/bin/env bash
# Tests that the schema of tools/config_schema reads the configs of this repository and those of one's own modules, with their
# params, and what it refuses.
set -euo pipefail
config_schema=$(readlink -f tools/config_schema)
root=$(dirname "$(dirname "$config_schema")")
cd "$TEST_TMPDIR"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# reads SCHEMA CONFIG: whether the descriptor set has everything that the config names.
reads() {
  protoc --descriptor_set_in="$1/config.binpb" --encode=ding.ExperimentConfig <"$2" >/dev/null 2>err
}

"$config_schema" >stdout
configs=("$root"/worker/configs/*.textproto)
for config in "${configs[@]}"; do
  reads .config_schema "$config" || fail "the schema does not read $config:" "$(cat err)"
  grep -qx '# proto-message: ding.ExperimentConfig' <<<"$(sed '/^[^#]/q' "$config")" || fail "$config does not name its message"
  file=$(sed -n 's/^# proto-file: //p' "$config" | head -1)
  [ -r ".config_schema/protos/$file" ] || fail "$config names '$file', which is not below the import root"
done
reads .config_schema "$root/examples/own_modules/serial.textproto" && fail 'messages that are not there are read'
echo 'policy { params { [type.googleapis.com/ding.DqnConfig] { learning_rat: 1 } } }' >wrong.textproto
reads .config_schema wrong.textproto && fail 'a misspelt field is read'

# The last line of the output is a command that works.
cp "$root/worker/configs/cartpole_dqn.textproto" CONFIG
command=$(sed -n 's/^check a config: *//p' stdout)
bash -c "${command/<CONFIG/< CONFIG}" || fail "this does not work: $command"
# The comments are there.
grep -qa 'rows per training batch' .config_schema/config.binpb || fail 'the descriptor set has no comments'

# Again, and with files of one's own.
cp "$root/examples/own_modules/own_modules.proto" .
"$config_schema" own_modules.proto >stdout
reads .config_schema "$root/examples/own_modules/serial.textproto" || fail "own messages are not read:" "$(cat err)"

# refused TEXT ARGUMENT...: status 1 and the text.
refused() {
  local text=$1 status=0
  shift
  "$config_schema" "$@" >stdout 2>&1 || status=$?
  [ "$status" -eq 1 ] && grep -qF -- "$text" stdout || fail "config_schema $*: expected '$text', got:" "$(cat stdout)"
}
mkdir full
refused "'full' exists and was not written by tools/config_schema" --out=full
refused "cannot read 'missing.proto'" missing.proto
refused "is no .proto file" wrong.textproto
refused "must be below the current folder" /etc/own.proto
refused "no option '--output=x'" --output=x
