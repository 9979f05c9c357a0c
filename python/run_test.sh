#!/usr/bin/env bash
# Trains for a moment with //worker:serial, records episodes with //worker:evaluate, and reads all that with Python.
set -euo pipefail
. python/testing/python.sh

# train NAME ENV N_EPISODE POLICY: a run of this policy section.
train() {
  local folder=$TEST_TMPDIR/runs/$1
  mkdir -p "$folder"
  cat >"$folder/config" <<END
exp_name: "$1"
max_env_step: 600
env { type: "$2" collector_env_num: 4 evaluator_env_num: 2 n_evaluator_episode: 2 stop_value: 1e9 }
policy { $4 }
END
  worker/serial --config="$folder/config" --exp_dir="$folder/run" --seed=3 >"$folder/out" 2>"$folder/err" || {
    cat "$folder/err" >&2
    exit 1
  }
  worker/evaluate --checkpoint="$(ls -d "$folder"/run/ckpt/iteration_* | sort -V | tail -n 1)" --episodes="$3" \
    --record_episodes="$folder/episodes" >"$folder/returns"
}

train dqn CartPole-v0 5 '
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [32, 16] dueling: true } } }
  collect { n_sample: 8 }'
train ppo_box Pendulum-v1 2 '
  type: "ppo"
  params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
    model { encoder_hidden_size: 16 activation: TANH head_layer_num: 0 }
    critic { encoder_hidden_size: 16 activation: TANH head_layer_num: 0 }
    normalize_obs: true
  } } }
  collect { n_sample: 256 }'
train ppo_mask TicTacToe-vs-random 10 '
  type: "ppo"
  params { [type.googleapis.com/ding.PpoConfig] { actor_critic { model { encoder_hidden_size: 16 } } } }
  collect { n_sample: 256 }'
train ppo_lstm CartPole-v1-masked-velocity 5 '
  type: "ppo"
  params { [type.googleapis.com/ding.PpoConfig] { actor_critic {
    model { type: "rnn" encoder_hidden_size: 16 recurrent { cell: LSTM hidden_size: 8 } }
  } } }
  learn { batch_size: 8 }
  collect { n_sample: 64 unroll_len: 16 }'

"$python" python/tests/run_test.py "$TEST_TMPDIR/runs" docs/reference/python.md
