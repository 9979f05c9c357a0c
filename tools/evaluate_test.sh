#!/usr/bin/env bash
# Tests which program tools/evaluate and tools/export build and start, and with which arguments, in a checkout of its own, whose Bazel and
# programs are shell scripts. train_test.sh fakes its checkout in the same way: each test shows all that its tool sees.
set -euo pipefail
mkdir -p "$TEST_TMPDIR/repo/tools"
cp "$(readlink -f tools/evaluate)" "$(readlink -f tools/export)" "$(readlink -f tools/lib.sh)" "$TEST_TMPDIR/repo/tools"
cd "$TEST_TMPDIR/repo"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

cat >tools/setup <<'EOS'
#!/usr/bin/env bash
echo "setup: $*"
EOS
mkdir -p fake bin/worker
cat >fake/bazel <<'EOS'
#!/usr/bin/env bash
case $1 in
  info) echo "$FAKE_BIN" ;;
  build) echo "build: ${*: -1}" ;;
esac
EOS
for program in evaluate evaluate_torch evaluate_physics evaluate_mp4 evaluate_torch_mp4 evaluate_torch_physics_mp4 export export_torch; do
  printf '#!/usr/bin/env bash\necho "%s: $*"\n' $program >bin/worker/$program
done
chmod +x tools/setup fake/bazel bin/worker/*
export PATH=$PWD/fake:$PATH FAKE_BIN=$PWD/bin
mkdir -p plain/ckpt/ckpt_best torch/ckpt/ckpt_best moved
echo 'policy { type: "dqn" }' >plain/total_config.textproto
echo '  type: "torch_cnn"' >torch/total_config.textproto
echo '"config": "model {\n type: \"torch_mlp\"\n }"' >moved/manifest.json

tool=evaluate
# expect 'LINES' ARGUMENT...: what setup, Bazel and the program were called with.
expect() {
  local expected=$1
  shift
  tools/$tool "$@" >out 2>&1 || fail "'$*' failed:" "$(cat out)"
  [ "$(cat out)" = "$expected" ] || fail "'$*' gave:" "$(cat out)" "expected:" "$expected"
}
# refuse 'TEXT' ARGUMENT...: it fails, and says so.
refuse() {
  local expected=$1
  shift
  ! tools/$tool "$@" >out 2>&1 || fail "'$*' did not fail"
  grep -qF -- "$expected" out || fail "'$*' said:" "$(cat out)" "expected:" "$expected"
}

expect $'setup: build\nbuild: //worker:evaluate\nevaluate: --checkpoint=plain' plain
expect $'setup: build\nbuild: //worker:evaluate\nevaluate: --checkpoint=plain --episodes 5 --json --set env.type=E' \
  plain --episodes 5 --json --set env.type=E
expect $'setup: build\nbuild: //worker:evaluate\nevaluate: --video=a.gif --checkpoint=plain --checkpoint=plain/ckpt' \
  --video=a.gif plain plain/ckpt
expect $'setup: build\nbuild: //worker:evaluate\nevaluate: --checkpoint plain --env E' --checkpoint plain --env E
expect $'setup: build\nbuild: //worker:evaluate\nevaluate: --checkpoint=plain --python /usr/bin/python3' plain --python /usr/bin/python3
expect $'setup: build torch\nbuild: //worker:evaluate_torch\nevaluate_torch: --checkpoint=torch' torch
expect $'setup: build torch\nbuild: //worker:evaluate_torch\nevaluate_torch: --checkpoint=plain --checkpoint=torch/ckpt/ckpt_best' \
  plain torch/ckpt/ckpt_best
expect $'setup: build torch\nbuild: //worker:evaluate_torch\nevaluate_torch: --checkpoint=moved' moved
expect $'setup: build video\nbuild: //worker:evaluate_mp4\nevaluate_mp4: --checkpoint=plain --video a.mp4' plain --video a.mp4
expect $'setup: build torch video\nbuild: //worker:evaluate_torch_mp4\nevaluate_torch_mp4: --checkpoint=torch --video=a.mp4' \
  torch --video=a.mp4

mkdir -p lander/ckpt/ckpt_best
echo '  type: "BipedalWalker-v3"' >lander/total_config.textproto
expect $'setup: build physics\nbuild: //worker:evaluate_physics\nevaluate_physics: --checkpoint=lander' lander
expect $'setup: build physics\nbuild: //worker:evaluate_physics\nevaluate_physics: --checkpoint=plain --env=MJCF' plain --env=MJCF
expect $'setup: build torch physics video\nbuild: //worker:evaluate_torch_physics_mp4\nevaluate_torch_physics_mp4: --checkpoint=torch --checkpoint=lander --video=a.mp4' \
  torch lander --video=a.mp4

refuse "there is no folder 'nowhere'" nowhere
mkdir plain/log
touch plain/result.json plain/log/metrics.csv
refuse "'plain/result.json' is a file, expected the folder of a run or checkpoint, such as 'plain'" plain/result.json
refuse "'plain/log/metrics.csv' is a file, expected the folder of a run or checkpoint, such as 'plain'" plain/log/metrics.csv
refuse "'moved/manifest.json' is a file, expected the folder of a run or checkpoint, such as 'moved'" moved/manifest.json
refuse "tools/evaluate RUN [flags]"
tools/evaluate --help >out
grep -q 'tools/evaluate RUN RUN' out || fail "no help: $(cat out)"

tool=export
expect $'setup: build\nbuild: //worker:export\nexport: --checkpoint=plain --format=onnx --output=plain/export/onnx' plain
expect $'setup: build\nbuild: //worker:export\nexport: --checkpoint=moved --format=c --output=x y' moved --format=c --output='x y'
expect $'setup: build torch\nbuild: //worker:export_torch\nexport_torch: --checkpoint=plain --format=torchscript --output=plain/export/torchscript' \
  plain --format=torchscript
refuse "there is no folder 'nowhere'" nowhere
refuse "'moved' is a checkpoint: expected --output=FOLDER" moved
refuse "'plain/result.json' is a file, expected the folder of a run or checkpoint, such as 'plain'" plain/result.json
refuse "--format is 'tflite', expected onnx, c or torchscript" plain --format=tflite
refuse "one run at most, got 'plain' and 'torch'" plain torch
refuse "unknown flag '--to=x'" plain --to=x
refuse 'tools/export RUN [--format=FORMAT]'
tools/export --help >out
grep -q 'tools/export RUN' out || fail "no help: $(cat out)"
