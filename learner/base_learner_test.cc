#include "ding_worker/learner/base_learner.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

Batch MakeBatch(int64_t rows) {
  SpecPtr spec = *MakeSpec({Box("obs", {1}), Scalar(kColumnReplayUniqueId, DType::kInt64),
                            Scalar(kColumnReplayBufferIdx, DType::kInt64)});
  BatchBuilder builder = *BatchBuilder::Create(spec, rows);
  for (int64_t i = 0; i < rows; ++i) {
    builder.column<float>(0)[i] = 0;
    builder.column<int64_t>(1)[i] = 100 + i;
    builder.column<int64_t>(2)[i] = i;
  }
  return std::move(builder).Seal(rows);
}

class BaseLearnerTest : public testing::Test {
 protected:
  BaseLearnerTest() {
    deps_.exp_dir = FreshTestFolder();
    deps_.name = "learner";
    deps_.metrics = sink_;
  }

  std::unique_ptr<ILearner> Create(const std::string& hook_config, ProcessGroup* group = nullptr) {
    LearnerConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(hook_config, config.mutable_hook()));
    config.set_train_iterations(10);
    absl::StatusOr<std::unique_ptr<ILearner>> learner =
        create_learner(config, &policy_, deps_, group);
    EXPECT_THAT(learner, IsOk());
    return *std::move(learner);
  }
  bool HasCheckpoint(absl::string_view name) const {
    return PathExists(JoinPath(deps_.exp_dir, absl::StrCat("ckpt/", name, "/manifest.json")));
  }
  std::vector<RecordingSink::ScalarRecord> Records(absl::string_view tag) const {
    std::vector<RecordingSink::ScalarRecord> records;
    for (const auto& record : sink_->scalars()) {
      if (record.tag == tag) records.push_back(record);
    }
    return records;
  }
  static absl::StatusOr<std::optional<TrainData>> NextBatch() { return MakeBatch(3); }

  FakeLearnMode policy_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  ComponentDeps deps_;
};

constexpr char kNoHooks[] =
    "log_show_after_iter: 0 save_ckpt_after_iter: 0 save_ckpt_after_run: false";

TEST_F(BaseLearnerTest, CallsHooksAroundIterations) {
  std::vector<std::string> calls;
  auto learner = Create(kNoHooks);
  for (const auto position : {HookPosition::kBeforeRun, HookPosition::kAfterRun,
                              HookPosition::kBeforeIter, HookPosition::kAfterIter}) {
    learner->RegisterHook(std::make_shared<FunctionHook>(position, [&, position](LearnerView* l) {
      calls.push_back(absl::StrCat(HookPositionName(position), " ", l->train_iter()));
      return absl::OkStatus();
    }));
  }
  policy_.steps_per_batch = 2;
  int batches = 0;
  EXPECT_THAT(learner->Start([&]() -> absl::StatusOr<std::optional<TrainData>> {
    if (batches++ == 2) return std::nullopt;
    return MakeBatch(3);
  }),
              IsOk());
  EXPECT_THAT(calls, ElementsAre("before_run 0", "before_iter 0", "after_iter 1", "after_iter 2",
                                 "before_iter 2", "after_iter 3", "after_iter 4", "after_run 4"));
  EXPECT_TRUE(learner->learn_info().learner_done);
}

TEST_F(BaseLearnerTest, TrainsAnotherPolicyFromResetPolicyOn) {
  const std::unique_ptr<ILearner> made = Create(kNoHooks);
  auto& learner = dynamic_cast<BaseLearner&>(*made);
  policy_.report_priority = true;
  ASSERT_THAT(learner.Train(MakeBatch(3)), IsOk());
  learner.monitor()->Add("total_loss", 1);
  FakeLearnMode other;
  other.weight = 9;
  EXPECT_THAT(learner.ResetPolicy(&other), IsOk());
  EXPECT_EQ(learner.policy(), &other);
  EXPECT_EQ(learner.monitor()->Average("total_loss"), std::nullopt);
  EXPECT_FALSE(learner.learn_info().priority_info.has_value());
  ASSERT_THAT(learner.Train(MakeBatch(3)), IsOk());
  EXPECT_EQ(policy_.weight, 1) << "it is left alone";
  EXPECT_EQ(other.weight, 10);
  EXPECT_EQ(learner.train_iter(), 2);
  EXPECT_THAT(learner.ResetPolicy(nullptr), IsInvalid());
  absl::Status within;
  learner.RegisterHook(std::make_shared<FunctionHook>(HookPosition::kAfterIter, [&](LearnerView*) {
    within = learner.ResetPolicy(&policy_);
    return absl::OkStatus();
  }));
  ASSERT_THAT(learner.Train(MakeBatch(3)), IsOk());
  EXPECT_THAT(within, IsFailedPrecondition());
  EXPECT_EQ(learner.policy(), &other);
}

TEST_F(BaseLearnerTest, ResumesFromACheckpointAndSavesByFrequency) {
  {
    auto learner = Create(kNoHooks);
    for (int i = 0; i < 5; ++i) ASSERT_THAT(learner->Train(MakeBatch(3), 40 + i), IsOk());
    ASSERT_THAT(learner->SaveCheckpoint(), IsOk());
  }
  EXPECT_TRUE(HasCheckpoint("iteration_5"));
  policy_.weight = 0;
  auto learner = Create(absl::StrCat(
      "log_show_after_iter: 0 save_ckpt_after_iter: 0 load_ckpt_before_run: '", deps_.exp_dir,
      "/ckpt/iteration_5' hook { type: 'save_ckpt' freq: 5 priority: 40 name: 'often' }"));
  ASSERT_THAT(learner->Start(NextBatch), IsOk());
  EXPECT_EQ(learner->train_iter(), 15);
  EXPECT_EQ(learner->collector_envstep(), 44);
  EXPECT_EQ(policy_.weight, 15);
  for (const int saved : {5, 10, 15}) {
    EXPECT_TRUE(HasCheckpoint(absl::StrCat("iteration_", saved))) << saved;
  }
  for (const int not_saved : {0, 4, 7, 12}) {
    EXPECT_FALSE(HasCheckpoint(absl::StrCat("iteration_", not_saved))) << not_saved;
  }
  ASSERT_THAT(learner->SaveCheckpoint("best"), IsOk());
  EXPECT_TRUE(HasCheckpoint("best"));
}

TEST_F(BaseLearnerTest, RefusesADamagedCheckpoint) {
  auto learner = Create(kNoHooks);
  ASSERT_THAT(learner->Train(MakeBatch(3)), IsOk());
  ASSERT_THAT(learner->SaveCheckpoint("here"), IsOk());
  const std::string path = learner->CheckpointPath("here");
  const std::string file = JoinPath(path, "model.safetensors");
  DING_ASSERT_OK_AND_ASSIGN(std::string content, ReadFile(file));
  ASSERT_THAT(WriteFileAtomically(file, content.substr(0, content.size() - 1)), IsOk());
  policy_.weight = 99;
  EXPECT_THAT(LoadLearnerCheckpoint(path, learner.get()), IsDataLoss("model.safetensors"));
  content.back() ^= 1;
  ASSERT_THAT(WriteFileAtomically(file, content), IsOk());
  EXPECT_THAT(LoadLearnerCheckpoint(path, learner.get()), IsDataLoss("model.safetensors"));
  EXPECT_EQ(policy_.weight, 99);
  EXPECT_THAT(LoadLearnerCheckpoint("/nowhere", learner.get()), IsNotFound("/nowhere"));
}

TEST_F(BaseLearnerTest, ErrorsNameTheIterationAndTheHook) {
  auto learner = Create(kNoHooks);
  ASSERT_THAT(learner->Train(MakeBatch(3)), IsOk());
  policy_.next_error = absl::InternalError("loss is nan");
  EXPECT_THAT(learner->Train(MakeBatch(3)), IsInternal("learner: train iteration 2: loss is nan"));
  EXPECT_EQ(learner->train_iter(), 1);
  policy_.next_error = absl::InternalError("dqn, train iteration 2: loss is nan");
  EXPECT_EQ(learner->Train(MakeBatch(3)).message(), "learner: dqn, train iteration 2: loss is nan");

  learner->RegisterHook(std::make_shared<FunctionHook>(
      HookPosition::kAfterIter,
      [](LearnerView*) -> absl::Status { throw std::runtime_error("out of ideas"); }, 0, "mine"));
  EXPECT_THAT(learner->Train(MakeBatch(3)),
              IsInternal("hook 'mine' (after_iter) at iteration 2: the hook threw an "
                         "exception: out of ideas"));
}

TEST_F(BaseLearnerTest, ReportsPrioritiesOfTheLastBatchOnly) {
  auto learner = Create(kNoHooks);
  policy_.report_priority = true;
  policy_.steps_per_batch = 3;
  ASSERT_THAT(learner->Train(MakeBatch(2)), IsOk());
  const LearnInfo info = learner->learn_info();
  EXPECT_EQ(info.learner_step, 3);
  ASSERT_TRUE(info.priority_info.has_value());
  EXPECT_THAT(info.priority_info->priority, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(info.priority_info->replay_unique_id, ElementsAre(100, 101));
  EXPECT_THAT(info.priority_info->replay_buffer_idx, ElementsAre(0, 1));
  policy_.report_priority = false;
  ASSERT_THAT(learner->Train(MakeBatch(2)), IsOk());
  EXPECT_FALSE(learner->learn_info().priority_info.has_value());
}

TEST_F(BaseLearnerTest, ReportsPrioritiesOfSequencesByTheirFirstRows) {
  auto learner = Create(kNoHooks);
  policy_.report_priority = true;
  policy_.priorities = 2;
  ASSERT_THAT(learner->Train(MakeBatch(6).AsSequences(3)), IsOk());
  const LearnInfo info = learner->learn_info();
  ASSERT_TRUE(info.priority_info.has_value());
  EXPECT_THAT(info.priority_info->priority, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(info.priority_info->replay_unique_id, ElementsAre(100, 103));
  EXPECT_THAT(info.priority_info->replay_buffer_idx, ElementsAre(0, 3));
}

TEST_F(BaseLearnerTest, RefusesPrioritiesThatAreNotOfTheRowsOrSequences) {
  auto learner = Create(kNoHooks);
  policy_.report_priority = true;
  EXPECT_THAT(learner->Train(MakeBatch(6).AsSequences(3)),
              IsInvalid("learner: train iteration 1: the policy reports 6 priorities, "
                        "expected 2: one for each sequence of 3 rows of the batch"));
  policy_.priorities = 2;
  EXPECT_THAT(learner->Train(MakeBatch(6)),
              IsInvalid("reports 2 priorities, expected 6: one for each row"));
  EXPECT_FALSE(learner->learn_info().priority_info.has_value());
  EXPECT_EQ(learner->train_iter(), 0);
}

TEST_F(BaseLearnerTest, LogsAveragesByIterationAndByEnvStep) {
  auto learner = Create("log_show_after_iter: 2 save_ckpt_after_iter: 0");
  ASSERT_THAT(learner->Train(MakeBatch(3), 8), IsOk());
  EXPECT_EQ(Records("learner_iter/total_loss_avg").size(), 0u);
  ASSERT_THAT(learner->Train(MakeBatch(3), 16), IsOk());
  const auto by_iter = Records("learner_iter/total_loss_avg");
  ASSERT_EQ(by_iter.size(), 1u);
  EXPECT_EQ(by_iter[0].step, 2);
  EXPECT_DOUBLE_EQ(by_iter[0].value, (1.0 + 0.5) / 2);
  const auto by_step = Records("learner_step/total_loss_avg");
  ASSERT_EQ(by_step.size(), 1u);
  EXPECT_EQ(by_step[0].step, 16);
  // The time of this iteration, not of the one before.
  EXPECT_EQ(Records("learner_iter/train_time_avg").size(), 1u);
  // A value that was never reported is missing, not 0.
  EXPECT_EQ(Records("learner_iter/never_avg").size(), 0u);
}

// Rank 1 of two; the other rank always reports 10.
class TwoRanks : public ProcessGroup {
 public:
  explicit TwoRanks(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  int world_size() const override { return 2; }
  absl::Status AllReduceMean(absl::Span<double> values) override {
    for (double& value : values) value = (value + 10) / 2;
    return absl::OkStatus();
  }

 private:
  const int rank_;
};

TEST_F(BaseLearnerTest, ReducesOverRanksBeforeLogging) {
  TwoRanks group(0);
  auto learner = Create("log_show_after_iter: 1 log_reduce_after_iter: true", &group);
  ASSERT_THAT(learner->Train(MakeBatch(3), 8), IsOk());
  EXPECT_DOUBLE_EQ(Records("learner_iter/total_loss_avg").at(0).value, (1.0 + 10) / 2);
  EXPECT_DOUBLE_EQ(Records("learner_iter/noreduce_weight_avg").at(0).value, 1);
}

TEST_F(BaseLearnerTest, OtherRanksNeitherLogNorSave) {
  TwoRanks group(1);
  auto learner = Create("log_show_after_iter: 1 save_ckpt_after_iter: 1", &group);
  ASSERT_THAT(learner->Train(MakeBatch(3), 8), IsOk());
  EXPECT_EQ(Records("learner_iter/total_loss_avg").size(), 0u);
  EXPECT_FALSE(HasCheckpoint("iteration_1"));
}

TEST_F(BaseLearnerTest, OtherRanks_OfAMultitaskPipeline_Log) {
  TwoRanks group(1);
  LearnerConfig config;
  config.mutable_hook()->set_log_show_after_iter(1);
  config.set_is_multitask_pipeline(true);
  ASSERT_TRUE(config.only_monitor_rank0());
  DING_ASSERT_OK_AND_ASSIGN(const auto learner, create_learner(config, &policy_, deps_, &group));
  ASSERT_THAT(learner->Train(MakeBatch(3), 8), IsOk());
  EXPECT_DOUBLE_EQ(Records("learner_iter/total_loss_avg").at(0).value, 1);
  EXPECT_TRUE(learner->monitors());
}

TEST_F(BaseLearnerTest, RefusesInvalidOptions) {
  EXPECT_THAT(create_learner(LearnerConfig(), nullptr, deps_), IsInvalid("learn mode"));
  LearnerConfig config;
  config.set_type("fancy");
  EXPECT_THAT(create_learner(config, &policy_, deps_),
              IsNotFound("unknown learner type 'fancy'; this program has: base"));
  config = LearnerConfig();
  config.set_train_iterations(0);
  EXPECT_THAT(create_learner(config, &policy_, deps_), IsInvalid("train_iterations is 0"));
}

TEST_F(BaseLearnerTest, UsesTheEnvstepOfTheSource) {
  auto learner = Create(kNoHooks);
  const std::vector<int64_t> envsteps = {30, -1, 50};
  std::vector<int64_t> seen;
  size_t next = 0;
  ASSERT_THAT(learner->Start([&]() -> absl::StatusOr<std::optional<TrainData>> {
    if (next > 0) seen.push_back(learner->collector_envstep());
    if (next == envsteps.size()) return std::nullopt;
    return TrainData(MakeBatch(3), envsteps[next++]);
  }),
              IsOk());
  EXPECT_THAT(seen, ElementsAre(30, 30, 50));
}

TEST_F(BaseLearnerTest, TheEndOfTheSourceEndsTheRunWithItsHooks) {
  auto learner = Create("log_show_after_iter: 0 save_ckpt_after_iter: 0");
  auto source = AsyncDataLoader::Create(
      {},
      []() -> absl::StatusOr<std::optional<BatchLoader>> {
        return [] { return TrainData(MakeBatch(3)); };
      },
      nullptr);
  ASSERT_THAT(source, IsOk());
  std::optional<std::thread> closer;
  ASSERT_THAT(learner->Start([&] {
    if (learner->train_iter() == 3) closer.emplace([&] { (*source)->Close(); });
    if (learner->train_iter() == 4) closer->join();
    return (*source)->Next();
  }),
              IsOk());
  if (closer->joinable()) closer->join();
  EXPECT_TRUE(learner->learn_info().learner_done);
  EXPECT_LE(learner->train_iter(), 4);
  EXPECT_TRUE(HasCheckpoint(absl::StrCat("iteration_", learner->train_iter())));
}

TEST_F(BaseLearnerTest, AFailureOfTheSourceEndsTheRun) {
  auto learner = Create("log_show_after_iter: 0 save_ckpt_after_iter: 0");
  EXPECT_THAT(learner->Start([&]() -> absl::StatusOr<std::optional<TrainData>> {
    if (learner->train_iter() == 2) return absl::DataLossError("chunk 7 is gone");
    return TrainData(MakeBatch(3));
  }),
              IsDataLoss("learner: data for train iteration 3: chunk 7 is gone"));
  EXPECT_THAT(learner->Start([&]() -> absl::StatusOr<std::optional<TrainData>> {
    throw std::runtime_error("out of reach");
  }),
              IsInternal("the source threw an exception: out of reach"));
  EXPECT_FALSE(learner->learn_info().learner_done);
  EXPECT_FALSE(HasCheckpoint("iteration_2"));
}

TEST_F(BaseLearnerTest, SavesACheckpointThatAKilledLearnerResumesFrom) {
  SimulatedClock clock;
  deps_.clock = &clock;
  policy_.steps_per_batch = 2;
  auto learner = Create(
      "log_show_after_iter: 0 save_ckpt_after_iter: 0 save_ckpt_after_run: false "
      "save_ckpt_seconds: 30");
  const auto saved_iter = [&]() -> int64_t {
    if (!HasCheckpoint(kResumeCheckpoint)) return -1;
    auto reader = OpenTrainCheckpoint(learner->CheckpointPath(kResumeCheckpoint));
    EXPECT_THAT(reader, IsOk());
    FakeLearnMode policy;
    auto other = *BaseLearner::Create({}, &policy, {}, deps_);
    EXPECT_THAT(LoadLearnerComponents(*reader, other.get()), IsOk());
    EXPECT_EQ(policy.weight, static_cast<double>(other->train_iter()));
    return other->train_iter();
  };
  std::vector<int64_t> saved;
  for (int i = 0; i < 8; ++i) {
    ASSERT_THAT(learner->Train(MakeBatch(3)), IsOk());
    saved.push_back(saved_iter());
    clock.Advance(absl::Seconds(10));
  }
  // After the first batch; every second until 30 s are over; then every 30 s.
  EXPECT_THAT(saved, ElementsAre(2, 4, 6, 6, 6, 12, 12, 12));
}

TEST_F(BaseLearnerTest, ContinuesFromASavedState) {
  auto learner = Create("log_show_after_iter: 4 save_ckpt_after_iter: 0");
  for (int i = 0; i < 3; ++i) ASSERT_THAT(learner->Train(MakeBatch(3), i), IsOk());
  StateDict state;
  ASSERT_THAT(learner->SaveState(&state), IsOk());
  auto resumed = Create("log_show_after_iter: 4 save_ckpt_after_iter: 0");
  ASSERT_THAT(resumed->LoadState(&state), IsOk());
  ASSERT_THAT(resumed->Train(MakeBatch(3), 3), IsOk());
  EXPECT_DOUBLE_EQ(Records("learner_iter/total_loss_avg").at(0).value,
                   (1 + 1. / 2 + 1. / 3 + 1. / 4) / 4);
}

TEST_F(BaseLearnerTest, WithoutAPolicyAtFirst_TrainsOnceItHasOne) {
  DING_ASSERT_OK_AND_ASSIGN(const auto learner,
                            BaseLearner::Create(BaseLearner::Options(), nullptr, {}, deps_));
  EXPECT_THAT(learner->Train(MakeBatch(3)), IsFailedPrecondition("without a policy"));
  EXPECT_THAT(learner->SaveCheckpoint("early"), IsFailedPrecondition("without a policy"));
  ASSERT_THAT(learner->ResetPolicy(&policy_), IsOk());
  EXPECT_THAT(learner->Train(MakeBatch(3)), IsOk());
  EXPECT_EQ(learner->train_iter(), 1);
}

TEST_F(BaseLearnerTest, SaveCheckpoint_RunsTheHook) {
  for (const bool saves : {true, false}) {
    const std::string name = saves ? "by_hook" : "by_learner";
    int calls = 0;
    auto learner = Create(kNoHooks);
    learner->RegisterHook(std::make_shared<FunctionHook>(
        HookPosition::kAfterRun,
        [&](LearnerView* l) {
          ++calls;
          return saves ? l->SaveCheckpoint() : absl::OkStatus();
        },
        100, "save_ckpt_after_run"));
    EXPECT_THAT(learner->SaveCheckpoint(name), IsOk());
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(HasCheckpoint(name));
  }
  auto learner = Create("save_ckpt_after_run: true");
  EXPECT_THAT(learner->SaveCheckpoint("at_iteration_0"), IsOk());
  EXPECT_TRUE(HasCheckpoint("at_iteration_0"));
}

TEST_F(BaseLearnerTest, Close_FlushesTheMetrics) {
  auto learner = Create(kNoHooks);
  EXPECT_THAT(learner->Close(), IsOk());
  EXPECT_THAT(learner->Close(), IsOk());
  EXPECT_EQ(sink_->flush_count(), 2);
  sink_->set_flush_status(absl::DataLossError("full"));
  EXPECT_THAT(learner->Close(), IsDataLoss());
}

}  // namespace
}  // namespace ding
