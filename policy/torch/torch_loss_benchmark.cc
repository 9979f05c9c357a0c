// Measures an update of dqn, ppo and sac with the loss by autograd beside that by hand, for
// networks of 256-256 and 256 rows. The rest of an update is the same code.
//
// To compare, interleave them: --benchmark_enable_random_interleaving --benchmark_repetitions=9
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int64_t kRows = 256;
constexpr char kModel[] = "model { encoder_hidden_size: [256, 256] }";

struct Algorithm {
  std::string config;
  std::string losses;  // by autograd
  bool continuous = false;
  bool on_policy = false;
};

Algorithm Dqn() {
  return {
      absl::StrCat("type: 'dqn' params { [type.googleapis.com/ding.DqnConfig] { ", kModel, " } }"),
      "loss { type: 'td_autograd' }"};
}

Algorithm Ppo() {
  return {
      absl::StrCat("type: 'ppo' batch_size: 256 params { [type.googleapis.com/ding.PpoConfig] { ",
                   "actor_critic { ", kModel, " critic { encoder_hidden_size: [256, 256] } } ",
                   "epoch_per_collect: 1 } }"),
      "loss { type: 'ppo_autograd' }", false, true};
}

Algorithm Sac() {
  return {absl::StrCat("type: 'sac' params { [type.googleapis.com/ding.SacConfig] { continuous { ",
                       kModel, " } } }"),
          "loss { type: 'critics_autograd' } actor_loss { type: 'sac_actor_autograd' }", true};
}

void Update(benchmark::State& state, const Algorithm& of, bool autograd) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(of.config, autograd ? of.losses : ""), &config));
  const SpecPtr observation = *MakeSpec({Box("obs", {17})});
  const SpecPtr action = of.continuous ? BoxAction() : DiscreteAction(6);
  const auto policy = create_policy(config, {observation, action, 0, PolicyModes()});
  DING_CHECK(policy.ok()) << policy.status();
  const Batch batch = of.on_policy ? MakeOnPolicyBatch(observation, action, kRows, 1)
                                   : MakeTransitionBatch(observation, action, kRows, 1);
  std::vector<LearnStep> steps;
  for (auto _ : state) {
    const absl::Status status = (*policy)->learn_mode()->Forward(batch, {}, &steps);
    DING_CHECK(status.ok()) << status;
  }
}

void BM_DqnByHand(benchmark::State& state) { Update(state, Dqn(), /*autograd=*/false); }
void BM_DqnByAutograd(benchmark::State& state) { Update(state, Dqn(), /*autograd=*/true); }
void BM_PpoByHand(benchmark::State& state) { Update(state, Ppo(), /*autograd=*/false); }
void BM_PpoByAutograd(benchmark::State& state) { Update(state, Ppo(), /*autograd=*/true); }
void BM_SacByHand(benchmark::State& state) { Update(state, Sac(), /*autograd=*/false); }
void BM_SacByAutograd(benchmark::State& state) { Update(state, Sac(), /*autograd=*/true); }
BENCHMARK(BM_DqnByHand);
BENCHMARK(BM_DqnByAutograd);
BENCHMARK(BM_PpoByHand);
BENCHMARK(BM_PpoByAutograd);
BENCHMARK(BM_SacByHand);
BENCHMARK(BM_SacByAutograd);

}  // namespace
}  // namespace ding
