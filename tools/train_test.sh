#!/usr/bin/env bash
# Tests which program tools/train builds and starts, and with which arguments, in a checkout of its own, whose Bazel and
# programs are shell scripts. evaluate_test.sh fakes its checkout in the same way: each test shows all that its tool sees.
set -euo pipefail
mkdir -p "$TEST_TMPDIR/repo/tools" "$TEST_TMPDIR/repo/worker/configs"
cp "$(readlink -f tools/train)" "$(readlink -f tools/lib.sh)" "$TEST_TMPDIR/repo/tools"
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
for program in serial serial_torch serial_physics serial_torch_physics parallel parallel_torch parallel_physics evaluate; do
  printf '#!/usr/bin/env bash\necho "%s: $*"\n' $program >bin/worker/$program
done
chmod +x tools/setup fake/bazel bin/worker/*
export PATH=$PWD/fake:$PATH FAKE_BIN=$PWD/bin
echo 'policy { type: "dqn" }' >plain.textproto
echo 'model { type: "torch_cnn" }' >torch.textproto

# expect 'LINES' ARGUMENT...: what setup, Bazel and the program were called with.
expect() {
  local expected=$1
  shift
  tools/train "$@" >out 2>&1 || fail "'$*' failed:" "$(cat out)"
  [ "$(cat out)" = "$expected" ] || fail "'$*' gave:" "$(cat out)" "expected:" "$expected"
}
# refused 'PART OF THE MESSAGE' ARGUMENT...
refused() {
  local message=$1
  shift
  if tools/train "$@" >out 2>&1; then fail "'$*' was not refused:" "$(cat out)"; fi
  grep -qF -- "$message" out || fail "'$*' was refused with:" "$(cat out)"
  if grep -q '^setup\|^build' out; then fail "'$*' was refused late:" "$(cat out)"; fi
}

expect $'setup: build\nbuild: //worker:serial\nserial: --config=plain.textproto --seed=1' plain.textproto --seed=1
expect $'setup: build torch\nbuild: //worker:serial_torch\nserial_torch: --config=torch.textproto' torch.textproto
expect $'setup: build torch\nbuild: //worker:serial_torch\nserial_torch: --config=plain.textproto --set=a.type=torch_mlp' \
  plain.textproto --set=a.type=torch_mlp
expect $'setup: build grpc redis\nbuild: //worker:parallel\nparallel: --config=plain.textproto --max_seconds=60' \
  --parallel plain.textproto --max_seconds=60
expect $'setup: build grpc redis\nbuild: //worker:parallel\nparallel: --role=collector --coordinator=127.0.0.1:7235' \
  --parallel --role=collector --coordinator=127.0.0.1:7235
expect $'setup: build grpc redis\nbuild: //worker:parallel\n'"$PWD/bin/worker/parallel" --parallel --program plain.textproto
# The config and --parallel may stand behind flags.
expect $'setup: build grpc redis\nbuild: //worker:parallel\nparallel: --config=plain.textproto --seed 1 --resume' \
  --seed 1 plain.textproto --parallel --resume
expect $'setup: build torch\nbuild: //worker:serial_torch\nserial_torch: --config=torch.textproto --resume' --resume torch.textproto
expect $'setup: build\nbuild: //worker:serial\nserial: --seed=1 --config plain.textproto' --seed=1 --config plain.textproto
expect $'setup: build\nbuild: //worker:serial\n'"$PWD/bin/worker/serial" --program plain.textproto

expect $'setup: build torch grpc redis\nbuild: //worker:parallel_torch\nparallel_torch: --config=torch.textproto' \
  --parallel torch.textproto
expect $'setup: build torch grpc redis\nbuild: //worker:parallel_torch\nparallel_torch: --config=plain.textproto --set=a.all_reduce=gloo' \
  --parallel plain.textproto --set=a.all_reduce=gloo
expect $'setup: build grpc redis\nbuild: //worker:parallel\nparallel: --config=plain.textproto --set=a.learner_num=2' \
  --parallel plain.textproto --set=a.learner_num=2

expect $'setup: build\nbuild: //worker:serial\nserial: --exp_dir=run --resume' --exp_dir=run --resume

# The programs know by which command their run goes on.
echo 'echo "again by: $DING_WORKER_COMMAND"' | tee -a bin/worker/serial_torch >>bin/worker/parallel_torch
expect $'setup: build torch\nbuild: //worker:serial_torch\nserial_torch: --config=torch.textproto\nagain by: tools/train' torch.textproto
expect $'setup: build torch grpc redis\nbuild: //worker:parallel_torch\nparallel_torch: --config=torch.textproto\nagain by: tools/train --parallel' \
  --parallel torch.textproto

# An env on Box2D or MuJoCo.
echo 'env { type: "LunarLander-v3" }  # not "torch_cnn"' >lander.textproto
expect $'setup: build physics\nbuild: //worker:serial_physics\nserial_physics: --config=lander.textproto' lander.textproto
expect $'setup: build physics\nbuild: //worker:serial_physics\nserial_physics: --config=plain.textproto --set env.type=Hopper-v4' \
  plain.textproto --set env.type=Hopper-v4
expect $'setup: build torch physics\nbuild: //worker:serial_torch_physics\nserial_torch_physics: --config=lander.textproto --set=a.type="torch_mlp"' \
  lander.textproto '--set=a.type="torch_mlp"'
expect $'setup: build physics grpc redis\nbuild: //worker:parallel_physics\nparallel_physics: --config=lander.textproto' \
  --parallel lander.textproto

# Demonstrations that are missing are recorded by an agent that the config names, and those that are there are not.
cat >bc.textproto <<'EOS'
# demonstrations: 7 episodes of worker/configs/expert.textproto
data_set {
  path: "some.episodes"  # of an agent
}
EOS
# recorded FILE ARGUMENT...: whether tools/train has 7 episodes recorded into FILE before it trains.
recorded() {
  local file=$1
  shift
  tools/train "$@" >out 2>&1 || fail "'$*' failed:" "$(cat out)"
  sed -i -E 's|=/[^ ]*/tmp[.][^/]*|=TEMPORARY|g; s|=/tmp/tmp[.][^/]*|=TEMPORARY|g' out
  [ "$(cat out)" = "setup: build
build: //worker:serial
tools/train: there is no '$file': recording 7 episodes of an agent that worker/configs/expert.textproto trains
build: //worker:evaluate
serial: --config=$PWD/worker/configs/expert.textproto --exp_dir=TEMPORARY/run
evaluate: --checkpoint=TEMPORARY/run/ckpt/ckpt_best --episodes=7 --record_episodes=$file
serial: --config=$*" ] || fail "'$*' gave:" "$(cat out)"
}
recorded some.episodes bc.textproto --seed=1
recorded other.episodes bc.textproto --set=data_set.path=other.episodes
recorded other.episodes bc.textproto --set data_set.path=\"other.episodes\"
touch some.episodes
expect $'setup: build\nbuild: //worker:serial\nserial: --config=bc.textproto' bc.textproto
cat >offline.textproto <<'EOS'
# demonstrations: 7 episodes of worker/configs/expert.textproto max_env_step=9 seed=1 --actions=sampled
data_set { path: "offline.episodes" }
EOS
tools/train offline.textproto >out 2>&1 || fail "it does not train offline:" "$(cat out)"
grep -qE '^serial: --config=.*/expert.textproto --exp_dir=[^ ]+ --set=max_env_step=9 --set=seed=1$' out || fail "$(cat out)"
grep -qE '^evaluate: .* --record_episodes=offline.episodes --actions=sampled$' out || fail "$(cat out)"
echo 'data_set { path: "nowhere" }' >plain.textproto
expect $'setup: build\nbuild: //worker:serial\nserial: --config=plain.textproto' plain.textproto
rm some.episodes
echo 'exit 3' >>bin/worker/evaluate
if tools/train bc.textproto >out 2>&1; then fail "it trains without episodes:" "$(cat out)"; fi
! grep -q '^serial: --config=bc' out || fail "it trains without episodes:" "$(cat out)"

# A folder is no config.
mkdir -p run some_folder
touch run/total_config.textproto
for argument in run --config=run '--config run'; do
  refused "'run' is the folder of a run, expected a config file" $argument
  grep -qx 'to go on with the run: tools/train --exp_dir=run --resume' out || fail "$(cat out)"
done
for argument in some_folder --config=some_folder '-config some_folder'; do
  refused "'some_folder' is a folder, expected a config file" $argument
done
refused "there is no file 'nothing.textproto'" --config=nothing.textproto --seed=1

# A signal reaches the program: the agent that is trained first (bc), or the run itself.
cat >bin/worker/serial <<'EOS'
#!/usr/bin/env bash
for name in TERM HUP USR1; do trap "echo serial got $name; exit 9" $name; done
touch started
while :; do sleep 0.05; done
EOS
for config in bc.textproto plain.textproto; do
  for name in TERM HUP USR1; do
    rm -f started
    tools/train $config >out 2>&1 &
    until [ -e started ]; do sleep 0.05; done
    kill -$name $!
    status=0
    wait $! || status=$?
    [ $status = 9 ] || fail "status $status after $name:" "$(cat out)"
    [ "$(tail -n 1 out)" = "serial got $name" ] || fail "$(cat out)"
  done
done

refused '--parallel needs a CONFIG' --parallel
refused '--program needs one CONFIG' --parallel --program
refused "there is no file 'nothing.textproto'" --parallel nothing.textproto
refused "there is no file 'nothing.textproto'" --seed=1 nothing.textproto
tools/train --help >out
grep -q 'tools/train --parallel CONFIG' out || fail "$(cat out)"

# A config that can be read only once is read here and by the program.
printf '#!/usr/bin/env bash\ncat "${1#--config=}" "${1#--config=}"\n' >bin/worker/serial_torch
twice=$'setup: build torch\nbuild: //worker:serial_torch\nmodel { type: "torch_cnn" }\nmodel { type: "torch_cnn" }'
piped() {
  [ "$(cat out)" = "$twice" ] || fail "'$*' gave:" "$(cat out)"
}
tools/train <(cat torch.textproto) >out 2>&1 || fail "$(cat out)"; piped '<(...)'
tools/train --config=/dev/stdin >out 2>&1 < <(cat torch.textproto) || fail "$(cat out)"; piped /dev/stdin
