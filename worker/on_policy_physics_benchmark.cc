// Measures training by PPO on envs with physics, by worker/configs/lunar_lander_ppo.textproto, and
// walker2d_ppo.textproto with another env. The learning rate is 0, so that the episodes stay as
// they are at the beginning of a run:
//   Lander, HalfCheetah             a round, collecting and learning, as the loop of the pipeline
//                                   does it
//   LanderBaseline, HalfCheetahBaseline   the physics of as many steps, and the passes of actor and
//                                   critic: Infer() for each step of all envs, Forward() and
//                                   Backward() for each minibatch; without env, distribution, loss,
//                                   optimizer
// Items are env steps. The working folder must be the root of the checkout.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/box2d/lunar_lander.h"
#include "ding_worker/env/classic_control/classic_env.h"
#include "ding_worker/env/mujoco/bare_half_cheetahs.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/testing/benchmark_parts.h"

namespace ding {
namespace {

constexpr int64_t kMaxSteps = 1000;  // of an episode of the lander

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// What the baseline repeats of a config.
struct Round {
  int64_t envs;
  int64_t rows;
  int64_t epochs;
  int64_t obs_size;
  FieldSpec actor_output;
};
Round LanderRound() { return {16, 4096, 4, 8, Box("logit", {4})}; }
Round HalfCheetahRound() { return {8, 2048, 10, 17, Box("mean", {6})}; }

void RunLoop(benchmark::State& state, const std::string& config_name, const std::string& env,
             const Round& round) {
  absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig("worker/configs/" + config_name + ".textproto",
                           {"policy.params.actor_critic.learning_rate=0", "env.type=" + env});
  Check(config.status());
  CartPolePipeline pipeline(*config);
  int64_t rounds = 0;
  for (auto _ : state) {
    CollectOptions options;
    options.train_iter = pipeline->learner()->train_iter();
    const absl::StatusOr<SegmentBatch> data = pipeline->collector()->Collect(options);
    Check(data.status());
    DING_CHECK(data->size() == round.rows) << data->size();
    Check(pipeline->learner()->Train(data->rows, pipeline->collector()->envstep()));
    ++rounds;
  }
  DING_CHECK(pipeline->learner()->train_iter() ==
             rounds * round.epochs * round.rows / BareNetwork::kMinibatchRows)
      << pipeline->learner()->train_iter();
  state.SetItemsProcessed(rounds * round.rows);
  state.SetLabel("aim=0.83");
}

// Lets `step(env)` move the physics of one env by a step.
template <typename Step>
void RunBaseline(benchmark::State& state, const Round& round, const Step& step) {
  BareNetwork actor(round.envs, round.obs_size, round.actor_output);
  BareNetwork critic(round.envs, round.obs_size, Box("value", {}));
  for (auto _ : state) {
    for (int64_t i = 0; i < round.rows / round.envs; ++i) {
      actor.Infer();
      critic.Infer();
      for (int64_t env = 0; env < round.envs; ++env) step(static_cast<size_t>(env));
    }
    for (int64_t i = 0; i < round.epochs * round.rows / BareNetwork::kMinibatchRows; ++i) {
      actor.ForwardBackward();
      critic.ForwardBackward();
    }
  }
  state.SetItemsProcessed(state.iterations() * round.rows);
}

void BM_Lander(benchmark::State& state) {
  RunLoop(state, "lunar_lander_ppo", "LunarLander-v3", LanderRound());
}
BENCHMARK(BM_Lander)->Unit(benchmark::kMillisecond);

void BM_LanderBaseline(benchmark::State& state) {
  struct Episode {
    std::unique_ptr<DiscreteLunarLander> game;
    int64_t steps = 0;
  };
  uint64_t seed = 0;
  const auto start = [&seed] {
    return Episode{std::make_unique<DiscreteLunarLander>(LunarLanderOptions(), seed++)};
  };
  std::vector<Episode> episodes;
  for (int64_t i = 0; i < LanderRound().envs; ++i) episodes.push_back(start());
  Rng rng(0, "bench/actions");
  std::vector<float> obs(DiscreteLunarLander::kObsSize);
  RunBaseline(state, LanderRound(), [&](size_t env) {
    Episode& episode = episodes[env];
    const auto action = static_cast<int64_t>(rng.UniformInt(4));
    const ClassicOutcome outcome = episode.game->Step({&action, 1});
    episode.game->Observe(absl::MakeSpan(obs));
    benchmark::DoNotOptimize(obs.data());
    if (outcome.terminated || ++episode.steps == kMaxSteps) episode = start();
  });
}
BENCHMARK(BM_LanderBaseline)->Unit(benchmark::kMillisecond);

void BM_HalfCheetah(benchmark::State& state) {
  RunLoop(state, "walker2d_ppo", "HalfCheetah-v4", HalfCheetahRound());
}
BENCHMARK(BM_HalfCheetah)->Unit(benchmark::kMillisecond);

void BM_HalfCheetahBaseline(benchmark::State& state) {
  BareHalfCheetahs cheetahs(static_cast<size_t>(HalfCheetahRound().envs));
  RunBaseline(state, HalfCheetahRound(), [&cheetahs](size_t env) { cheetahs.Step(env); });
}
BENCHMARK(BM_HalfCheetahBaseline)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ding
