#include "ding_worker/coordinator/commander/base_serial_commander.h"

#include <memory>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/testing/fake_command_mode.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

class FakeCollector : public ISerialCollector {
 public:
  absl::Status ResetEnv(EnvManager*) override { return absl::OkStatus(); }
  absl::Status ResetPolicy(CollectMode*) override { return absl::OkStatus(); }
  absl::Status Reset(CollectMode*, EnvManager*) override { return absl::OkStatus(); }
  absl::StatusOr<SegmentBatch> Collect(const CollectOptions&) override { return SegmentBatch(); }
  int64_t envstep() const override { return envstep_; }
  void set_envstep(int64_t envstep) override { envstep_ = envstep; }
  absl::Status DropEpisodes(absl::Span<const int>) override { return absl::OkStatus(); }
  int64_t total_episode_count() const override { return 0; }
  absl::Status SaveState(StateWriter*) const override { return absl::OkStatus(); }
  absl::Status LoadState(StateReader*) override { return absl::OkStatus(); }

 private:
  int64_t envstep_ = 0;
};

TEST(BaseSerialCommanderTest, KeepsEvaluatorAndBuffer) {
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, NaiveReplayBuffer::Create({}));
  const BaseSerialCommander without(nullptr, nullptr, nullptr);
  EXPECT_EQ(without.evaluator(), nullptr);
  const BaseSerialCommander commander(nullptr, nullptr, nullptr, nullptr, buffer.get());
  EXPECT_EQ(commander.buffer(), buffer.get());
}

TEST(BaseSerialCommanderTest, TellsThePolicyTheProgressOfTheRun) {
  FakeLearnMode policy;
  FakeCollector collector;
  FakeCommandMode command_mode;
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<BaseLearner> learner,
      BaseLearner::Create(BaseLearner::Options(), &policy, LearnerHooks(), ComponentDeps()));

  BaseSerialCommander commander(learner.get(), &collector, &command_mode);
  EXPECT_EQ(commander.Step().Get("eps"), 0);
  ASSERT_THAT(learner->Train(Batch()), IsOk());
  collector.set_envstep(24);
  EXPECT_EQ(commander.Step().Get("eps"), 1024);
  EXPECT_EQ(commander.info().Get("envstep"), 24);
}

TEST(BaseSerialCommanderTest, ReturnsNoSettingsWithoutACommandMode) {
  FakeLearnMode policy;
  FakeCollector collector;
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<BaseLearner> learner,
      BaseLearner::Create(BaseLearner::Options(), &policy, LearnerHooks(), ComponentDeps()));
  BaseSerialCommander commander(learner.get(), &collector, nullptr);
  EXPECT_TRUE(commander.Step().empty());
}

}  // namespace
}  // namespace ding
