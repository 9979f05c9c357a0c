// The example of docs/reference/env.md.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Walk left or right; the further from 0, the worse.
class Walk : public Env {
 public:
  static absl::StatusOr<std::unique_ptr<Env>> Create() {
    EnvSpec spec;
    spec.name = "Walk-v0";
    DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({Box("obs", {1}, {-1.2}, {1.2})}));
    DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
    spec.max_episode_steps = 50;
    return std::unique_ptr<Env>(new Walk(spec));
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    x_ = static_cast<float>(Rng(start.seed, "walk/start").Uniform(-0.5, 0.5));
    steps_ = 0;
    obs.field<float>(0)[0] = x_;
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    x_ += action.scalar<int64_t>(0) == 1 ? 0.1f : -0.1f;
    obs.field<float>(0)[0] = x_;
    result->reward = -std::abs(x_);
    result->terminated = std::abs(x_) > 1;
    result->truncated = ++steps_ == spec_.max_episode_steps;
    return absl::OkStatus();
  }

 private:
  explicit Walk(const EnvSpec& spec) : spec_(spec) {}

  const EnvSpec spec_;
  float x_ = 0;
  int64_t steps_ = 0;
};

// Plays `episodes` episodes with four walkers that always turn back to 0; returns the mean return.
absl::StatusOr<double> MeanReturn(int episodes) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<BaseEnvManager> manager,
                        BaseEnvManager::Create({}, std::vector<EnvFactory>(4, Walk::Create)));
  DING_RETURN_IF_ERROR(manager->Seed(0, /*dynamic=*/true));
  DING_RETURN_IF_ERROR(manager->Launch());
  double sum = 0;
  for (int finished = 0; finished < episodes;) {
    const ReadyObs ready = manager->ready_obs();
    std::vector<int64_t> actions;
    for (const float x : ready.obs.column<float>(0)) actions.push_back(x < 0 ? 1 : 0);
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    const ColumnsView action_rows(manager->env_spec().action.get(), &column, 0, ready.obs.rows());
    DING_ASSIGN_OR_RETURN(const Timesteps* const steps, manager->Step(ready.env_ids, action_rows));
    for (const FinishedEpisode& episode : steps->finished) {
      sum += episode.episode_return;
      ++finished;
    }
  }
  return sum / episodes;
}

TEST(EnvExampleTest, WalkersStayNearTheMiddle) {
  DING_ASSERT_OK_AND_ASSIGN(const double mean, MeanReturn(4));
  // At most 5 steps towards the middle, then at most 0.1 away from it.
  EXPECT_LT(mean, 0);
  EXPECT_GT(mean, -50 * 0.1 - 5 * 0.5);
}

INSTANTIATE_TEST_SUITE_P(Walk, EnvConformance,
                         testing::Values(EnvConformanceCase{"v0", Walk::Create}),
                         EnvConformanceName);

}  // namespace
}  // namespace ding
