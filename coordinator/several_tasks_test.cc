// Several learner tasks in one run: what happens to one leaves the others alone. Tasks with
// settings, and tasks that begin with the parameters of another policy.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr uint32_t kLearner1 = 4;  // kLearner trains policy_0
constexpr uint32_t kSpare = 5;

class SeveralTasksTest : public CoordinatorTest {
 protected:
  SeveralTasksTest() {
    commander_options_.learner_task_space = 2;
    commander_options_.collector_task_space = 2;
    options_.collectors = 2;
  }
  // Both learners train. kCollector collects for policy_0, and kOther for policy_1.
  void StartBoth() {
    Start();
    JoinLearners(kLearner, kLearner1);
    Join(kCollector, Hello::COLLECTOR);
    Join(kOther, Hello::COLLECTOR);
    collector_ = FinishEvaluation(kCollector, "policy_0");
    collector_1_ = FinishEvaluation(kOther, "policy_1");
  }
  void JoinLearners(uint32_t first, uint32_t second) {
    Join(first, Hello::LEARNER);
    Join(second, Hello::LEARNER);
    learner_ = TakeLearnerTask(first);
    learner_1_ = TakeLearnerTask(second);
    Handle(first, Started(learner_.task_id()));
    Handle(second, Started(learner_1_.task_id()));
    Publish(first, learner_);
    Publish(second, learner_1_);
  }
  void Publish(uint32_t worker, const LearnerTask& task, uint64_t after = 0) {
    Handle(worker, Version(task.policy_id(), task.first_version() + after, worker));
  }
  // Returns the collecting task that follows.
  CollectorTask FinishEvaluation(uint32_t worker, const std::string& policy_id) {
    const CollectorTask evaluation = TakeCollectorTask(worker);
    EXPECT_TRUE(evaluation.eval_flag());
    EXPECT_EQ(evaluation.policy_id(), policy_id);
    Handle(worker, Finished(evaluation.task_id(), 1));
    const CollectorTask task = TakeCollectorTask(worker);
    EXPECT_FALSE(task.eval_flag());
    EXPECT_EQ(task.policy_id(), policy_id);
    return task;
  }
  void Push(uint32_t worker, const CollectorTask& task, uint64_t sequence, int64_t rows) {
    const auto chunk = Chunk(worker, static_cast<uint32_t>(sequence) - 1);
    pushed_[worker] += rows;
    Handle(worker, Data(task.task_id(), sequence, TestItemsOfChunk(chunk, rows), pushed_[worker]));
  }
  int64_t EnvStepOfAnswer(uint32_t learner, const LearnerTask& task) {
    Handle(learner, Demand(task.task_id(), 1, 1));
    const std::vector<LearnerData> answers = TakeAnswers(learner);
    EXPECT_THAT(answers, SizeIs(1));
    return answers.empty() ? -1 : answers[0].envstep();
  }

  LearnerTask learner_1_;
  CollectorTask collector_1_;
  std::map<uint32_t, int64_t> pushed_;  // rows, by collector
};

TEST_F(SeveralTasksTest, EachHasItsBufferItsVersionsAndItsEnvSteps) {
  StartBoth();
  EXPECT_THAT(buffers_made_, ElementsAre("buffer_0", "buffer_1"));
  Push(kCollector, collector_, 1, 3);
  Push(kOther, collector_1_, 1, 2);
  EXPECT_EQ(EnvStepOfAnswer(kLearner, learner_), 3);
  EXPECT_EQ(EnvStepOfAnswer(kLearner1, learner_1_), 2);
  sender_.Take(kCollector);
  sender_.Take(kOther);
  Publish(kLearner1, learner_1_, 1);
  EXPECT_THAT(sender_.Take(kCollector), IsEmpty());
  EXPECT_THAT(sender_.Take(kOther), SizeIs(1));
  const RunStatus status = coordinator_->status();
  EXPECT_EQ(status.envstep(), 5);
  ASSERT_THAT(status.trained_policy(), SizeIs(2));
  EXPECT_EQ(status.trained_policy(0).policy_version(), 1);
  EXPECT_EQ(status.trained_policy(1).policy_version(), 2);
}

TEST_F(SeveralTasksTest, ALearnerThatIsLostLeavesTheOtherAlone) {
  StartBoth();
  Lose(kLearner);
  Push(kOther, collector_1_, 1, 2);
  Push(kCollector, collector_, 1, 3);
  EXPECT_THAT(TakeAcks(kOther), ElementsAre(1));
  EXPECT_THAT(TakeAcks(kCollector), ElementsAre(1)) << "its collector goes on, too";
  Handle(kLearner1, Info(learner_1_.task_id(), 30));
  EXPECT_EQ(EnvStepOfAnswer(kLearner1, learner_1_), 2);

  Join(kSpare, Hello::LEARNER);
  const LearnerTask again = TakeLearnerTask(kSpare);
  EXPECT_EQ(again.policy_id(), "policy_0");
  EXPECT_EQ(again.buffer_id(), "buffer_0");
  EXPECT_EQ(again.name(), "policy_0");
  EXPECT_TRUE(again.resume());
  EXPECT_EQ(again.first_version(), 2);
  Handle(kSpare, Info(again.task_id(), 12));
  EXPECT_EQ(coordinator_->status().train_iter(), 42);
  EXPECT_THAT(buffers_made_, SizeIs(2));
}

TEST_F(SeveralTasksTest, TheRunEndsWhenBothHaveConverged) {
  commander_options_.collector_task_space = 1;
  options_.collectors = 1;
  Start();
  JoinLearners(kLearner, kLearner1);
  Handle(kLearner, Info(learner_.task_id(), 5));
  Handle(kLearner1, Info(learner_1_.task_id(), 5));
  Join(kCollector, Hello::COLLECTOR);
  CollectorTask task = TakeCollectorTask(kCollector);
  ASSERT_TRUE(task.eval_flag());
  EXPECT_EQ(task.policy_id(), "policy_0");
  Handle(kCollector, Finished(task.task_id(), 200, 10, 5));
  sender_.Take(kLearner);
  Handle(kLearner, Info(learner_.task_id(), 6));
  const std::vector<CoordinatorMessage> told = sender_.Take(kLearner);
  ASSERT_THAT(told, SizeIs(1)) << "no other task";
  EXPECT_EQ(told[0].close_task().task_id(), learner_.task_id());
  ASSERT_THAT(coordinator_->status().buffer(), SizeIs(1));
  EXPECT_EQ(coordinator_->status().buffer(0).buffer_id(), "buffer_1");
  EXPECT_FALSE(coordinator_->status().converged());

  task = TakeCollectorTask(kCollector);
  ASSERT_TRUE(task.eval_flag());
  EXPECT_EQ(task.policy_id(), "policy_1");
  Handle(kCollector, Finished(task.task_id(), 150, 10, 5));
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()), IsOk());
  EXPECT_TRUE(coordinator_->status().converged());
  EXPECT_EQ(coordinator_->status().eval_value(), 150) << "the lowest";
  EXPECT_EQ(coordinator_->status().trained_policy(0).eval_value(), 200);
}

// A learner task that always fails ends the run, though the other one trains well.
TEST_F(SeveralTasksTest, TheSuccessOfOneDoesNotHideThatTheOtherFails) {
  StartBoth();
  int64_t trained = 0;
  for (int i = 0; i < 3; ++i) {
    Handle(kLearner1, Info(learner_1_.task_id(), ++trained));
    Handle(kLearner, Failed(learner_.task_id(), absl::StatusCode::kInternal));
    Handle(kLearner1, Info(learner_1_.task_id(), ++trained));
    learner_ = TakeLearnerTask(kLearner);
  }
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("3 tasks failed in a row")));
}

TEST_F(SeveralTasksTest, BothGoOnUnderANewCoordinator) {
  const std::string path = absl::StrCat(testing::TempDir(), "/several_tasks_journal");
  ASSERT_THAT(RemoveRecursively(path), IsOk());  // An earlier test may have left it.
  journal_ = Journal::Open(SqliteLog::Open(path, {}).value()).value();
  commander_options_.prepare = [](const TrainedPolicies& others, LearnerTask* task) {
    task->add_setting(absl::StrCat("rate=", others.size()));
  };
  check_settings_ = [](const StartTask&) { return absl::OkStatus(); };
  std::vector<std::string> settings_of_buffers;
  make_buffer_ = [&settings_of_buffers, make = make_buffer_](const std::string& id,
                                                             absl::Span<const std::string> settings,
                                                             OnRemoved on_removed) {
    settings_of_buffers.insert(settings_of_buffers.end(), settings.begin(), settings.end());
    return make(id, settings, std::move(on_removed));
  };
  StartBoth();
  Push(kCollector, collector_, 1, 3);
  Push(kOther, collector_1_, 1, 2);
  Handle(kLearner, Info(learner_.task_id(), 60));
  Handle(kLearner1, Info(learner_1_.task_id(), 39));
  Push(kOther, collector_1_, 2, 4);
  coordinator_->RequestEnd("interrupted");
  ASSERT_THAT(coordinator_->CloseJournal(), IsOk());
  coordinator_->KeepData();
  EXPECT_THAT(coordinator_->Close("interrupted"), IsOk());

  coordinator_.reset();
  journal_.reset();
  journal_ = Journal::Open(SqliteLog::Open(path, {}).value()).value();
  buffers_made_.clear();
  settings_of_buffers.clear();
  Start();
  EXPECT_THAT(buffers_made_, ElementsAre("buffer_0", "buffer_1"));
  EXPECT_THAT(settings_of_buffers, ElementsAre("rate=0", "rate=1"));
  EXPECT_EQ(coordinator_->status().envstep(), 9);
  EXPECT_EQ(coordinator_->status().train_iter(), 99);
  EXPECT_EQ(coordinator_->status().buffer(0).count(), 3);
  EXPECT_EQ(coordinator_->status().buffer(1).count(), 6);
  const uint32_t first = 11;
  const uint32_t second = 12;
  JoinLearners(first, second);
  EXPECT_EQ(learner_.policy_id(), "policy_0");
  EXPECT_EQ(learner_1_.policy_id(), "policy_1");
  EXPECT_TRUE(learner_.resume());
  EXPECT_TRUE(learner_1_.resume());
  EXPECT_THAT(learner_1_.setting(), ElementsAre("rate=1"));
  EXPECT_EQ(learner_1_.first_version(), 2);
  EXPECT_EQ(EnvStepOfAnswer(first, learner_), 3);
  EXPECT_EQ(EnvStepOfAnswer(second, learner_1_), 6);
  Handle(second, Info(learner_1_.task_id(), 40));
  EXPECT_EQ(coordinator_->status().train_iter(), 100);
}

class SettingsTest : public SeveralTasksTest {
 protected:
  // The second policy has settings.
  SettingsTest() {
    commander_options_.prepare = [](const TrainedPolicies& others, LearnerTask* task) {
      if (!others.empty()) task->add_setting("policy.lern=1");
    };
  }
};

TEST_F(SettingsTest, AreRefusedByAProgramThatTakesNone) {
  Start();
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("settings")));
}

TEST_F(SettingsTest, InvalidSettingsEndTheRunBeforeAnythingIsCollected) {
  check_settings_ = [](const StartTask& task) {
    return absl::InvalidArgumentError(
        absl::StrCat(task.learner().task_id(), " has setting ", task.learner().setting(0)));
  };
  Start();
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("learner_task_"), HasSubstr("policy.lern=1"))));
  EXPECT_THAT(buffers_made_, IsEmpty());
}

TEST_F(SettingsTest, ATaskThatIsGivenBackMayHaveValidSettingsTheNextTime) {
  int checks = 0;
  check_settings_ = [&checks](const StartTask&) {
    return ++checks < 3 ? absl::InvalidArgumentError("wrong") : absl::OkStatus();
  };
  std::vector<std::string> settings_of_buffers;
  make_buffer_ = [&settings_of_buffers, make = make_buffer_](const std::string& id,
                                                             absl::Span<const std::string> settings,
                                                             OnRemoved on_removed) {
    settings_of_buffers.insert(settings_of_buffers.end(), settings.begin(), settings.end());
    return make(id, settings, std::move(on_removed));
  };
  StartBoth();
  EXPECT_EQ(checks, 3);
  EXPECT_THAT(settings_of_buffers, ElementsAre("policy.lern=1")) << "of the second policy";
  EXPECT_THAT(buffers_made_, ElementsAre("buffer_0", "buffer_1"));
  EXPECT_THAT(coordinator_->status().warning(), Contains("wrong"));
}

TEST_F(SettingsTest, SettingsOfCollectorTasksAreCheckedToo) {
  commander_options_.prepare = nullptr;
  check_settings_ = [](const StartTask& task) {
    return absl::InvalidArgumentError(absl::StrCat(task.collector().task_id(), " is wrong"));
  };
  prepare_collect_ = [](CollectorTask* task) { task->add_setting("env.params.gravity=20"); };
  Start();
  EXPECT_THAT(coordinator_->WaitUntilDone(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collector_task_")));
}

TEST_F(SeveralTasksTest, TensorsOfACollectorTask_ReachTheCollector) {
  TensorMap tensors;
  tensors.Set("goal", Tensor::FromSpan<float>({2}, {0.5f, -1}));
  prepare_collect_ = [&tensors](CollectorTask* task) {
    ASSERT_THAT(SetCollectTensors(tensors, task), IsOk());
  };
  StartBoth();
  DING_ASSERT_OK_AND_ASSIGN(const auto told, DecodeState(collector_.collect_tensors(), "the task"));
  EXPECT_THAT(told->Names(), ElementsAre("goal"));
  std::array<float, 2> goal;
  ASSERT_THAT(told->ReadSpan<float>("goal", absl::MakeSpan(goal)), IsOk());
  EXPECT_THAT(goal, ElementsAre(0.5f, -1));
}

TEST_F(SeveralTasksTest, TensorsThatCannotBeSentOrRead_EndTheRun) {
  const auto end_with = [this](const std::string& bytes) {
    prepare_collect_ = [&bytes](CollectorTask* task) { task->set_collect_tensors(bytes); };
    Start();
    return coordinator_->WaitUntilDone(absl::ZeroDuration());
  };
  EXPECT_THAT(end_with("no state"), StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("collect_tensors of collector_task_")));
  coordinator_.reset();
  EXPECT_THAT(end_with(std::string((1 << 20) + 1, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("have 1048577 bytes, expected at most 1048576"))));
}

// A version with which a task began is kept for as long as the task may have to begin again.
TEST_F(SeveralTasksTest, TheInitPolicyOfATaskIsKept) {
  commander_options_.prepare = [](const TrainedPolicies& others, LearnerTask* task) {
    if (!others.empty() && others[0].has_newest()) {
      *task->mutable_init_policy() = others[0].newest();
    }
  };
  StartBoth();
  const std::string init = PolicyKey("policy_0", 1, kLearner);
  Handle(kLearner1, Info(learner_1_.task_id(), 9, /*done=*/true));
  const LearnerTask next = TakeLearnerTask(kLearner1);
  EXPECT_EQ(next.policy_id(), "policy_2");
  EXPECT_EQ(next.init_policy().key(), init);
  for (uint64_t after = 1; after <= 4; ++after) Publish(kLearner, learner_, after);
  EXPECT_THAT(DeletedWhen(3),
              AllOf(Contains(PolicyKey("policy_0", 2, kLearner)),
                    Contains(PolicyKey("policy_0", 3, kLearner)), Not(Contains(init))));
  Lose(kLearner1);
  Publish(kLearner, learner_, 5);
  Join(kSpare, Hello::LEARNER);
  EXPECT_EQ(TakeLearnerTask(kSpare).init_policy().key(), init);
  EXPECT_THAT(store_.deleted(), Not(Contains(init)));
}

}  // namespace
}  // namespace ding
