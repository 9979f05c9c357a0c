#!/usr/bin/env bash
# Trains a policy and exports it; names what is wrong.
set -euo pipefail
run=$TEST_TMPDIR/run
worker/serial --config=worker/configs/cartpole_dqn.textproto --exp_dir="$run" --max_env_step=1500 >/dev/null 2>&1

for format in onnx c; do
  worker/export --checkpoint="$run" --format="$format" --output="$TEST_TMPDIR/$format" >"$TEST_TMPDIR/files" 2>"$TEST_TMPDIR/which"
  grep -qxF "exporting $run/ckpt/ckpt_best" "$TEST_TMPDIR/which" || { cat "$TEST_TMPDIR/which" >&2; exit 1; }
  while read -r file; do [ -s "$file" ]; done <"$TEST_TMPDIR/files"
  [ -s "$TEST_TMPDIR/$format/golden.json" ]
done

refused() {
  local expected=$1
  shift
  if worker/export "$@" >/dev/null 2>"$TEST_TMPDIR/error"; then echo "not refused: $*" >&2; exit 1; fi
  grep -qF -- "$expected" "$TEST_TMPDIR/error" || { cat "$TEST_TMPDIR/error" >&2; exit 1; }
}
refused '--format is missing' --checkpoint="$run" --output="$TEST_TMPDIR/x"
refused "unknown export format type 'tflite'; this program has: c, onnx" --checkpoint="$run" --format=tflite --output="$TEST_TMPDIR/x"
refused '//worker:export_torch' --checkpoint="$run" --format=torchscript --output="$TEST_TMPDIR/x"
refused "$TEST_TMPDIR/nowhere" --checkpoint="$TEST_TMPDIR/nowhere" --format=c --output="$TEST_TMPDIR/x"

# The page names the formats and the flags of the program.
for word in $(worker/export --help | grep -oE -- '--(checkpoint|format|output)|onnx|torchscript' | sort -u); do
  grep -qF -- "$word" docs/how_to/deploy.md || { echo "docs/how_to/deploy.md does not name $word" >&2; exit 1; }
done
