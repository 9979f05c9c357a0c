// Collectors and evaluators with env managers that do not wait for all envs.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using MakeManager =
    std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(std::vector<EnvFactory>)>;

absl::StatusOr<std::unique_ptr<EnvManager>> Threads(std::vector<EnvFactory> factories) {
  AsyncThreadEnvManagerOptions options;
  options.wait_num = 1;
  options.num_threads = 2;
  return CreateAsyncThreadEnvManager(options, std::move(factories));
}

absl::StatusOr<std::unique_ptr<EnvManager>> Processes(std::vector<EnvFactory> factories) {
  SubprocessEnvManagerOptions options;
  options.wait_num = 1;
  return CreateSubprocessEnvManager(options, std::move(factories));
}

class AsyncEnvsTest : public testing::TestWithParam<std::pair<std::string, MakeManager>> {
 protected:
  AsyncEnvsTest() {
    std::vector<EnvFactory> factories;
    for (int i = 0; i < 4; ++i) {
      scripts_.push_back(std::make_shared<ScriptedEnvScript>());
      scripts_.back()->episode_length = 1 + 3 * i;
      scripts_.back()->action_count = 4;
      factories.push_back(ScriptedEnvFactory(scripts_.back()));
    }
    auto envs = GetParam().second(std::move(factories));
    EXPECT_THAT(envs, IsOk());
    envs_ = *std::move(envs);
    deps_.metrics = std::make_shared<RecordingSink>();
    deps_.clock = &clock_;
  }

  SimulatedClock clock_;
  ComponentDeps deps_;
  FakePolicy policy_;
  std::vector<std::shared_ptr<ScriptedEnvScript>> scripts_;
  std::unique_ptr<EnvManager> envs_;
};

TEST_P(AsyncEnvsTest, ACollectorLinksTheRowsOfEachEnv) {
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs_.get(), &policy_, deps_));
  CollectOptions collect;
  collect.target = 50;
  for (int i = 0; i < 20; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(collect));
    EXPECT_EQ(data.size(), 50);
    ASSERT_THAT(ValidateSegments(data), IsOk());
    for (size_t s = 0; s < data.segments.size(); ++s) {
      const Segment& segment = data.segments[s];
      // {episode, step, last action}
      const auto row = [&](int64_t r) {
        return data.rows.view().row(segment.begin + r).field<float>(0);
      };
      for (int64_t r = 1; r < segment.length; ++r) {
        EXPECT_EQ(row(r)[0], row(0)[0]);
        EXPECT_EQ(row(r)[1], row(0)[1] + static_cast<float>(r));
      }
      const absl::Span<const float> last =
          data.final_obs.view().row(static_cast<int64_t>(s)).field<float>(0);
      EXPECT_EQ(last[0], row(0)[0]);
      EXPECT_EQ(last[1], row(0)[1] + static_cast<float>(segment.length));
      EXPECT_EQ(segment.end == SegmentEnd::kTerminated,
                last[1] == static_cast<float>(
                               scripts_[static_cast<size_t>(segment.stream)]->episode_length));
    }
  }
  // A snapshot in the middle.
  StateDict envs;
  StateDict rows;
  ASSERT_THAT(envs_->SaveState(&envs), IsOk());
  ASSERT_THAT(collector->SaveState(&rows), IsOk());
  std::vector<int> restarted;
  ASSERT_THAT(envs_->LoadState(&envs, &restarted), IsOk());
  ASSERT_THAT(collector->LoadState(&rows), IsOk());
  ASSERT_THAT(collector->DropEpisodes(restarted), IsOk());
  EXPECT_THAT(collector->Collect(collect), IsOk());
}

TEST_P(AsyncEnvsTest, AnEvaluatorPlaysEachEnvsShare) {
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            InteractionSerialEvaluator::Create({}, envs_.get(), &policy_, deps_));
  EvalOptions eval;
  eval.n_episode = 8;
  for (int i = 0; i < 5; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, evaluator->Eval(eval));
    EXPECT_EQ(result.mean_return, (1 + 4 + 7 + 10) / 4.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Managers, AsyncEnvsTest,
                         testing::Values(std::make_pair("Threads", Threads),
                                         std::make_pair("Processes", Processes)),
                         [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace ding
