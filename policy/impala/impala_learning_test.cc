// IMPALA learns a task from data of a policy that is several updates old.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/impala/impala.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Cells 0 to 5 in a row. Action 1 goes to the right, action 0 to the left. Each step costs 0.1;
// cell 5 gives 1 and ends the episode. After 20 steps it is truncated. The best policy gets 0.5,
// one that goes to the left -2.
class Corridor {
 public:
  static constexpr int kCells = 5;
  struct Result {
    float reward;
    bool terminated;
    bool truncated;
  };

  int cell() const { return cell_; }
  Result Step(int64_t action) {
    cell_ = action == 1 ? cell_ + 1 : (cell_ > 0 ? cell_ - 1 : 0);
    ++steps_;
    const bool terminated = cell_ == kCells;
    return {terminated ? 0.9f : -0.1f, terminated, !terminated && steps_ == 20};
  }
  void Reset() { cell_ = steps_ = 0; }

 private:
  int cell_ = 0;
  int steps_ = 0;
};

constexpr int64_t kEnvs = 8;
constexpr int64_t kSteps = 8;

// Writes `cell` as one-hot; nothing for the last cell.
void Write(int cell, size_t row, absl::Span<float> obs) {
  for (size_t i = 0; i < Corridor::kCells; ++i) {
    obs[row * Corridor::kCells + i] = static_cast<int>(i) == cell ? 1.0f : 0.0f;
  }
}

class Training {
 public:
  explicit Training(uint64_t seed) {
    ImpalaConfig impala;
    ActorCriticConfig& common = *impala.mutable_actor_critic();
    common.mutable_model()->add_encoder_hidden_size(16);
    common.set_learning_rate(0.01);
    common.set_entropy_weight(0.01);
    common.set_gae_lambda(1);
    PolicyConfig config;
    config.set_type("impala");
    config.mutable_params()->PackFrom(impala);
    observation_ = *MakeSpec({Box("obs", {Corridor::kCells})});
    policy_ = *create_policy(config, {observation_, *MakeSpec({Discrete("action", 2)}), seed, {}});
    rows_ =
        *MakeSpec({Box("obs", {Corridor::kCells}), Discrete("action", 2),
                   Scalar(kColumnLogProb, DType::kFloat32), Scalar(kColumnReward, DType::kFloat32),
                   Scalar(kColumnDiscount, DType::kFloat32), Box("next_obs", {Corridor::kCells}),
                   Scalar(kColumnIsFirst, DType::kBool)});
  }

  // Learns from the batch that was collected `lag` updates ago.
  void Update(size_t lag) {
    waiting_.push_back(Collect());
    if (waiting_.size() <= lag) return;
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy_->learn_mode()->Forward(waiting_.front(), {}, &steps), IsOk());
    waiting_.pop_front();
  }

  // Returns the return of an episode without exploration.
  double Evaluate() {
    Corridor env;
    const BatchBuilder obs = *BatchBuilder::Create(observation_, 1);
    const BatchBuilder out = *BatchBuilder::Create(policy_->eval_mode()->output_spec(), 1);
    double sum = 0;
    while (true) {
      Write(env.cell(), 0, obs.column<float>(0));
      EXPECT_THAT(policy_->eval_mode()->Forward(obs.view(), {0}, {}, out.view()), IsOk());
      const Corridor::Result result = env.Step(out.column<int64_t>(0)[0]);
      sum += result.reward;
      if (result.terminated || result.truncated) return sum;
    }
  }

 private:
  // Returns kEnvs sequences of kSteps rows, which cross the ends of episodes.
  Batch Collect() {
    BatchBuilder rows = *BatchBuilder::Create(rows_, kEnvs * kSteps);
    const BatchBuilder obs = *BatchBuilder::Create(observation_, kEnvs);
    const BatchBuilder out = *BatchBuilder::Create(policy_->collect_mode()->output_spec(), kEnvs);
    for (size_t t = 0; t < kSteps; ++t) {
      for (size_t i = 0; i < kEnvs; ++i) Write(envs_[i].cell(), i, obs.column<float>(0));
      EXPECT_THAT(policy_->collect_mode()->Forward(obs.view(), {}, {}, out.view()), IsOk());
      for (size_t i = 0; i < kEnvs; ++i) {
        const size_t row = i * kSteps + t;
        Write(envs_[i].cell(), row, rows.column<float>(0));
        rows.column<uint8_t>(6)[row] = begins_[i] ? 1 : 0;
        rows.column<int64_t>(1)[row] = out.column<int64_t>(0)[i];
        rows.column<float>(2)[row] = out.column<float>(1)[i];
        const Corridor::Result result = envs_[i].Step(out.column<int64_t>(0)[i]);
        Write(envs_[i].cell(), row, rows.column<float>(5));
        rows.column<float>(3)[row] = result.reward;
        rows.column<float>(4)[row] = result.terminated ? 0.0f : 0.95f;
        begins_[i] = result.terminated || result.truncated;
        if (begins_[i]) envs_[i].Reset();
      }
    }
    return std::move(rows).Seal(kEnvs * kSteps).AsSequences(kSteps);
  }

  SpecPtr observation_;
  SpecPtr rows_;
  std::unique_ptr<Policy> policy_;
  std::array<Corridor, kEnvs> envs_;
  std::array<bool, kEnvs> begins_ = {true, true, true, true, true, true, true, true};
  std::deque<Batch> waiting_;
};

TEST(ImpalaLearning, FindsTheWayFromFreshAndFromOldData) {
  for (const size_t lag : {0, 8}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Training training(seed);
      for (int i = 0; i < 150; ++i) training.Update(lag);
      EXPECT_NEAR(training.Evaluate(), 0.5, 1e-5) << "lag " << lag << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ding
