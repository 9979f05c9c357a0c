// How BaseEnvManager uses a VectorEnv: in which steps, with which results, and after which
// failures. classic_control_test compares the steps of our vector envs with single steps.
#include "ding_worker/env/vector_env.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

// What the envs of a test do, and what was called.
struct Orders {
  int calls_of_all = 0;  // of StepAll()
  int calls_of_one = 0;  // of Step()
  bool refuses = false;
  bool throws = false;
  bool throws_at_end = false;
  bool one_is_nan = false;
};

// Counts up from 0 by the action; an episode ends above 9, and after 20 steps.
class Counter : public VectorEnv {
 public:
  Counter(SpecPtr info, Orders* orders) : orders_(orders) {
    spec_.name = "Counter";
    spec_.observation = *MakeSpec({Box("obs", {1})});
    spec_.action = *MakeSpec({Discrete("action", 3)});
    spec_.info = std::move(info);
    spec_.max_episode_steps = 20;
  }

  const EnvSpec& spec() const override { return spec_; }

  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    count_ = steps_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++orders_->calls_of_one;
    count_ += action.scalar<int64_t>(0);
    obs.field<float>(0)[0] = static_cast<float>(count_);
    result->reward = 0.5f * static_cast<float>(count_);
    result->terminated = count_ > 9;
    result->truncated = ++steps_ == spec_.max_episode_steps;
    if (result->terminated || result->truncated) SetEndInfo(&result->info);
    return absl::OkStatus();
  }

  bool StepAll(const AllEnvs& all) override {
    ++orders_->calls_of_all;
    if (orders_->refuses) return false;
    const absl::Span<const int64_t> actions = all.actions.column<int64_t>(0);
    const absl::Span<float> obs = all.obs.column<float>(0);
    for (size_t i = 0; i < all.envs.size(); ++i) {
      auto* const env = static_cast<Counter*>(all.envs[i]);
      env->count_ += actions[i];
      obs[i] = static_cast<float>(env->count_);
      all.reward[i] = 0.5f * obs[i];
      all.terminated[i] = env->count_ > 9;
      all.truncated[i] = ++env->steps_ == spec_.max_episode_steps;
      if (orders_->throws && i == 1) throw std::runtime_error("no power");
      if (orders_->one_is_nan && i == 1) obs[i] /= 0.0f * obs[i];
    }
    return true;
  }
  void SetEndInfo(NamedValues* info) override {
    if (orders_->throws_at_end) throw std::runtime_error("no end");
    info->Set("eval_episode_return", static_cast<double>(10 * steps_));
  }

 private:
  EnvSpec spec_;
  Orders* const orders_;
  int64_t count_ = 0;
  int64_t steps_ = 0;
};

// The same env with another class.
class OtherCounter : public Counter {
  using Counter::Counter;
};

class VectorEnvTest : public testing::Test {
 protected:
  void Start(std::vector<EnvFactory> factories) {
    DING_ASSERT_OK_AND_ASSIGN(envs_, BaseEnvManager::Create({}, std::move(factories)));
    ASSERT_THAT(envs_->Launch(), IsOk());
  }
  EnvFactory Make(SpecPtr info = nullptr) {
    return [this, info] { return std::make_unique<Counter>(info, &orders_); };
  }
  absl::StatusOr<const Timesteps*> Step(std::vector<int64_t> actions, std::vector<int> ids = {}) {
    for (int i = 0; ids.size() < actions.size(); ++i) ids.push_back(i);
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    return envs_->Step(ids, ColumnsView(envs_->env_spec().action.get(), &column, 0,
                                        static_cast<int64_t>(actions.size())));
  }
  std::vector<float> Obs() {
    const absl::Span<const float> obs = envs_->ready_obs().obs.column<float>(0);
    return {obs.begin(), obs.end()};
  }

  Orders orders_;
  std::unique_ptr<BaseEnvManager> envs_;
};

TEST_F(VectorEnvTest, AllEnvsAreSteppedAtOnce) {
  Start({Make(), Make(), Make()});
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* steps, Step({0, 1, 2}));
  EXPECT_THAT(steps->reward, ElementsAre(0, 0.5, 1));
  for (int i = 0; i < 4; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(steps, Step({0, 1, 2}));
  }
  EXPECT_THAT(steps->terminated, ElementsAre(0, 0, 1));
  ASSERT_EQ(steps->finished.size(), 1);
  EXPECT_EQ(steps->finished[0].row, 2);
  EXPECT_EQ(steps->finished[0].length, 5);
  EXPECT_EQ(steps->finished[0].episode_return, 50) << "SetEndInfo() says so";
  EXPECT_THAT(steps->final_obs.column<float>(0), ElementsAre(10));
  EXPECT_THAT(Obs(), ElementsAre(0, 5, 0));
  DING_ASSERT_OK_AND_ASSIGN(steps, Step({0, 1, 2}));
  EXPECT_THAT(steps->terminated, ElementsAre(0, 0, 0));
  EXPECT_TRUE(steps->finished.empty());
  EXPECT_EQ(orders_.calls_of_all, 6);
  EXPECT_EQ(orders_.calls_of_one, 0);
}

TEST_F(VectorEnvTest, SomeEnvsAreSteppedOneByOne) {
  Start({Make(), Make(), Make()});
  EXPECT_THAT(Step({1, 2}, {0, 2}), IsOk());
  EXPECT_THAT(Step({1, 2, 0}, {2, 1, 0}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 0);
  EXPECT_THAT(Obs(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Step({1, 1, 1}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 1);
  EXPECT_EQ(orders_.calls_of_one, 5);
  EXPECT_THAT(Obs(), ElementsAre(2, 3, 4));
}

TEST_F(VectorEnvTest, EnvsThatRefuseAreSteppedOneByOne) {
  Start({Make(), Make()});
  orders_.refuses = true;
  EXPECT_THAT(Step({1, 2}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 1);
  EXPECT_EQ(orders_.calls_of_one, 2);
  EXPECT_THAT(Obs(), ElementsAre(1, 2));
}

TEST_F(VectorEnvTest, EnvsOfTwoClassesOrWithInfoAreSteppedOneByOne) {
  Start({Make(), [this] { return std::make_unique<OtherCounter>(nullptr, &orders_); }});
  EXPECT_THAT(Step({1, 2}), IsOk());
  Start(std::vector<EnvFactory>(2, Make(*MakeSpec({Scalar("info/fuel", DType::kFloat32)}))));
  EXPECT_THAT(Step({1, 2}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 0);
  EXPECT_EQ(orders_.calls_of_one, 4);
}

TEST_F(VectorEnvTest, FindsTheEnvsThatWereBuiltLast) {
  int built = 0;
  const EnvFactory changes = [&]() -> absl::StatusOr<std::unique_ptr<Env>> {
    if (++built > 1) return std::make_unique<OtherCounter>(nullptr, &orders_);
    return std::make_unique<Counter>(nullptr, &orders_);
  };
  Start({changes, Make()});
  EXPECT_THAT(Step({1, 2}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 1);
  envs_->Close();
  ASSERT_THAT(envs_->Launch(), IsOk());
  EXPECT_THAT(Step({1, 2}), IsOk());
  EXPECT_EQ(orders_.calls_of_all, 1);
  EXPECT_EQ(orders_.calls_of_one, 2);
}

TEST_F(VectorEnvTest, AnExceptionFailsTheStepOfAll) {
  Start({Make(), Make(), Make()});
  orders_.throws = true;
  EXPECT_THAT(Step({2, 2, 2}), IsInternal("env 0 (Counter)", "StepAll()", "no power"));
  EXPECT_EQ(envs_->env_state(0), EnvState::kError);
  EXPECT_EQ(envs_->env_state(1), EnvState::kNeedReset);
  EXPECT_EQ(envs_->env_state(2), EnvState::kNeedReset);
  orders_.throws = false;
  ASSERT_THAT(envs_->Reset(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step({0, 1, 2}));
  EXPECT_THAT(steps->reward, ElementsAre(0, 0.5, 1));
}

TEST_F(VectorEnvTest, TheEndsOfAFailedStepAreForgotten) {
  Start({Make(), Make()});
  for (int i = 0; i < 4; ++i) ASSERT_THAT(Step({2, 0}), IsOk());
  orders_.throws = true;
  EXPECT_THAT(Step({2, 0}), IsInternal("no power"));  // Env 0 was terminated.
  orders_.throws = false;
  ASSERT_THAT(envs_->Reset(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step({1}, {0}));
  EXPECT_THAT(steps->terminated, ElementsAre(0));
  EXPECT_TRUE(steps->finished.empty());
}

TEST_F(VectorEnvTest, AnExceptionAtAnEndNamesItsEnv) {
  Start({Make(), Make(), Make()});
  for (int i = 0; i < 4; ++i) ASSERT_THAT(Step({0, 2, 0}), IsOk());
  orders_.throws_at_end = true;
  EXPECT_THAT(Step({0, 2, 0}), IsInternal("env 1 (Counter)", "no end"));
  EXPECT_EQ(envs_->env_state(1), EnvState::kError);
  EXPECT_EQ(envs_->env_state(2), EnvState::kNeedReset);
  orders_.throws_at_end = false;
  ASSERT_THAT(envs_->Reset(), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, Step({1, 1}, {0, 1}));
  EXPECT_THAT(steps->terminated, ElementsAre(0, 0)) << "of the failed step";
}

TEST_F(VectorEnvTest, ANumberThatIsNotFiniteIsReportedForItsEnv) {
  Start({Make(), Make(), Make()});
  orders_.one_is_nan = true;
  EXPECT_THAT(Step({0, 2, 0}), IsInternal("env 1 (Counter): at step 1 of its episode"));
  EXPECT_EQ(envs_->env_state(1), EnvState::kError);
}

}  // namespace
}  // namespace ding
