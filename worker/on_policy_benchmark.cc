// Measures training by worker/configs/cartpole_ppo.textproto: 8 CartPoles, 32 steps of each per
// round, 4 epochs x 4 minibatches of 64 rows, actor and critic 4-64-64 with tanh.
//   Round         collecting and learning, as the loop of the pipeline does it
//   RoundBaseline only the passes of the same networks: for both, 32 times Infer() of 8 rows and 16
//                 times Forward() and Backward() of 64 rows, without env, distribution, loss and
//                 optimizer
//   Collect       the first half of a round
//   CollectBaseline  the passes of that half
//   CollectRecurrent       collecting by worker/configs/cartpole_masked_ppo_lstm.textproto: 8
//                          CartPoles, 128 steps of each, actor and critic 2-64-LSTM 64 that keep a
//                          state per env
//   CollectRecurrentBaseline  the passes of these networks, one step at a time, and a loop over
//                          bare CartPoles
// Items are env steps. The working folder must be the root of the checkout.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/classic_control/bare_cartpoles.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/testing/benchmark_parts.h"

namespace ding {
namespace {

constexpr int kEnvs = 8;
constexpr int64_t kSteps = 32;
constexpr int64_t kRecurrentSteps = 128;
constexpr int64_t kMinibatches = 16;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

ExperimentConfig LoadConfig(const std::string& path) {
  absl::StatusOr<ExperimentConfig> config = LoadExperimentConfig(path, {});
  Check(config.status());
  return *std::move(config);
}

ExperimentConfig LoadPpoConfig() { return LoadConfig("worker/configs/cartpole_ppo.textproto"); }

SegmentBatch CollectOnce(SerialPipeline* pipeline) {
  CollectOptions options;
  options.train_iter = pipeline->learner()->train_iter();
  absl::StatusOr<SegmentBatch> data = pipeline->collector()->Collect(options);
  Check(data.status());
  return *std::move(data);
}

void BM_Round(benchmark::State& state) {
  CartPolePipeline pipeline(LoadPpoConfig());
  for (auto _ : state) {
    const SegmentBatch data = CollectOnce(pipeline.get());
    DING_CHECK(data.size() == kEnvs * kSteps) << data.size();
    Check(pipeline->learner()->Train(data.rows, pipeline->collector()->envstep()));
  }
  DING_CHECK(pipeline->learner()->train_iter() % kMinibatches == 0);
  state.SetItemsProcessed(state.iterations() * kEnvs * kSteps);
  state.SetLabel("aim=0.77");
}
BENCHMARK(BM_Round);

void BM_RoundBaseline(benchmark::State& state) {
  BareNetwork actor(kEnvs, /*obs_size=*/4, Box("logit", {2}));
  BareNetwork critic(kEnvs, /*obs_size=*/4, Box("value", {}));
  for (auto _ : state) {
    for (int64_t i = 0; i < kSteps; ++i) {
      actor.Infer();
      critic.Infer();
    }
    for (int64_t i = 0; i < kMinibatches; ++i) {
      actor.ForwardBackward();
      critic.ForwardBackward();
    }
  }
  state.SetItemsProcessed(state.iterations() * kEnvs * kSteps);
}
BENCHMARK(BM_RoundBaseline);

void BM_Collect(benchmark::State& state) {
  CartPolePipeline pipeline(LoadPpoConfig());
  for (auto _ : state) benchmark::DoNotOptimize(CollectOnce(pipeline.get()).segments.data());
  state.SetItemsProcessed(state.iterations() * kEnvs * kSteps);
}
BENCHMARK(BM_Collect);

void BM_CollectBaseline(benchmark::State& state) {
  BareNetwork actor(kEnvs, /*obs_size=*/4, Box("logit", {2}));
  BareNetwork critic(kEnvs, /*obs_size=*/4, Box("value", {}));
  for (auto _ : state) {
    for (int64_t i = 0; i < kSteps; ++i) {
      actor.Infer();
      critic.Infer();
    }
  }
  state.SetItemsProcessed(state.iterations() * kEnvs * kSteps);
}
BENCHMARK(BM_CollectBaseline);

void BM_CollectRecurrent(benchmark::State& state) {
  CartPolePipeline pipeline(LoadConfig("worker/configs/cartpole_masked_ppo_lstm.textproto"));
  for (auto _ : state) {
    benchmark::DoNotOptimize(CollectOnce(pipeline.get()).segments.data());
  }
  // Samples of several steps overlap at the ends of episodes: a collect has more rows than it takes
  // steps.
  state.SetItemsProcessed(pipeline->collector()->envstep());
  state.SetLabel("aim=0.77");
}
BENCHMARK(BM_CollectRecurrent);

// One recurrent network of the config, with the states of the envs.
class BareRecurrentNetwork {
 public:
  explicit BareRecurrentNetwork(const FieldSpec& output) {
    RnnOptions options;
    options.cell = RnnCell::kLstm;
    options.hidden_size = 64;
    options.mlp.encoder_hidden_size = {64};
    options.mlp.activation = MlpOptions::Activation::kTanh;
    options.mlp.head_layer_num = 0;
    network_ = *Rnn::Create(options, obs_, *MakeSpec({output}), 0);
    output_.emplace(*BatchBuilder::Create(network_->output_spec(), kEnvs));
    states_.resize(static_cast<size_t>(kEnvs * network_->state_size()));
  }

  // Goes on by one step of each env.
  void Infer() {
    Sequences step;
    step.rows = input_.view();
    step.length = 1;
    step.state = states_;
    Check(network_->InferSequences(step, output_->view(), absl::MakeSpan(states_)));
  }

 private:
  const SpecPtr obs_ = *MakeSpec({Box("obs", {2})});
  const Batch input_ = MakeObservationBatch(obs_, kEnvs, 1);
  std::unique_ptr<Rnn> network_;
  std::optional<BatchBuilder> output_;
  std::vector<float> states_;
};

void BM_CollectRecurrentBaseline(benchmark::State& state) {
  BareRecurrentNetwork actor(Box("logit", {2}));
  BareRecurrentNetwork critic(Box("value", {}));
  BareCartPoles<kEnvs> envs;
  CartPoleActions<kEnvs> actions;
  float obs[kEnvs * 4];
  for (auto _ : state) {
    for (int64_t i = 0; i < kRecurrentSteps; ++i) {
      actor.Infer();
      critic.Infer();
      envs.Step(actions.Next(), obs);
      benchmark::DoNotOptimize(obs);
    }
  }
  state.SetItemsProcessed(state.iterations() * kEnvs * kRecurrentSteps);
}
BENCHMARK(BM_CollectRecurrentBaseline);

}  // namespace
}  // namespace ding
