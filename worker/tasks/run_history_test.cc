#include "ding_worker/worker/tasks/run_history.h"

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunHistoryTest : public testing::Test, private LogSink {
 protected:
  RunHistoryTest() : before_(SetLogSink(this)) {
    journal_ =
        Journal::Open(SqliteLog::Open(JoinPath(folder_, "journal"), {"a-1"}).value()).value();
  }
  ~RunHistoryTest() override { SetLogSink(before_); }

  void WriteState(int64_t train_iter) {
    JournalRecord record;
    record.mutable_state()->set_run("a-1");
    record.mutable_state()->set_envstep(70);
    record.mutable_state()->set_train_iter(train_iter);
    ASSERT_THAT(journal_->Append({record}), IsOk());
  }
  void Save(const std::string& name, const std::string& run, const std::string& train_iter) {
    const std::string path = JoinPath(folder_, name);
    ASSERT_THAT(CreateDirectories(path.substr(0, path.rfind('/'))), IsOk());
    CheckpointInfo info{kCheckpointKind, {{"train_iter", train_iter}}};
    if (!run.empty()) info.fields[kRunField] = run;
    if (!run.empty()) info.fields[kPolicyField] = "policy_0";
    ASSERT_THAT(WriteCheckpoint(path, info, {}), IsOk());
  }
  auto Check() { return CheckHistory(folder_, "a-1", *journal_); }

  const std::string folder_ = FreshTestFolder();
  std::unique_ptr<Journal> journal_;
  std::string log_;

 private:
  void Send(const LogLine& line) override { absl::StrAppend(&log_, line.message, "\n"); }

  LogSink* const before_;
};

TEST_F(RunHistoryTest, AnEmptyJournalBesideACheckpointIsRefused) {
  EXPECT_THAT(Check().value(), IsEmpty()) << "nothing has begun";
  Save("ckpt/iteration_10", "", "10");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("iteration_10")));
  Save("ckpt/learner_resume", "a-1", "10");
  EXPECT_THAT(
      Check(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("is empty"),
                     HasSubstr(absl::StrCat("load_ckpt_before_run=", folder_,
                                            "/ckpt/learner_resume --set policy.learn.resume")))));
}

TEST_F(RunHistoryTest, ALaterCheckpointIsAdoptedWithASentence) {
  WriteState(5);
  Save("ckpt/learner_resume", "a-1", "12");
  EXPECT_THAT(Check().value(), ElementsAre("policy_0"));
  EXPECT_THAT(log_, AllOf(HasSubstr("ends at train iteration 5 of policy_0"),
                          HasSubstr("is of iteration 12"), HasSubstr("from 70 on")));
  WriteState(12);
  log_.clear();
  EXPECT_THAT(Check().value(), ElementsAre("policy_0"));
  EXPECT_EQ(log_, "") << "both are of the same iteration";
}

TEST_F(RunHistoryTest, ALostCheckpointIsReported) {
  WriteState(5);
  EXPECT_THAT(Check().value(), IsEmpty());
  EXPECT_THAT(log_, HasSubstr("the learner begins anew"));
}

TEST_F(RunHistoryTest, WhatIsOfAnotherRunIsRefused) {
  WriteState(5);
  Save("ckpt_policy_0/learner_resume", "b-2", "5");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("'b-2'"), HasSubstr("expected 'a-1'"))));
  EXPECT_THAT(CheckHistory(folder_, "c-3", *journal_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'a-1'"), HasSubstr("expected 'c-3'"))));
}

TEST_F(RunHistoryTest, ACheckpointOfAnEarlierVersionMayBeAnybodys) {
  WriteState(5);
  Save("ckpt/learner_resume", "", "5");
  EXPECT_THAT(Check().value(), IsEmpty());
  CheckpointInfo info;
  EXPECT_TRUE(MayBeOf(info, "policy_0"));
  info.fields[kPolicyField] = "policy_0";
  EXPECT_TRUE(MayBeOf(info, "policy_0"));
  EXPECT_FALSE(MayBeOf(info, "policy_1"));
}

// Returns the config of a run that loads a checkpoint with these fields.
ExperimentConfig ConfigWith(const std::string& name,
                            const std::map<std::string, std::string>& fields) {
  const std::string path = absl::StrCat(testing::TempDir(), "/earlier_run_", name);
  EXPECT_THAT(WriteCheckpoint(path, {kCheckpointKind, fields}, {}), IsOk());
  ExperimentConfig config;
  LearnSection& learn = *config.mutable_policy()->mutable_learn();
  learn.set_resume_training(true);
  learn.mutable_learner()->mutable_hook()->set_load_ckpt_before_run(path);
  return config;
}

TEST(EarlierRunTest, GoesOnFromTheStepsOfTheCheckpoint) {
  ExperimentConfig config = ConfigWith("steps", {{"env_step", "1234"}});
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 1234);
  config.mutable_policy()->mutable_learn()->set_resume_training(false);
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 0);
  EXPECT_EQ(FirstEnvStep(ConfigWith("untrained", {{"env_step", "-1"}}), nullptr).value(), 0);
}

TEST(EarlierRunTest, WithoutACheckpointItBeginsAtZero) {
  ExperimentConfig config;
  config.mutable_policy()->mutable_learn()->set_resume_training(true);
  EXPECT_EQ(FirstEnvStep(config, nullptr).value(), 0);
}

TEST(EarlierRunTest, ACheckpointThatDoesNotSayIsRefused) {
  EXPECT_THAT(FirstEnvStep(ConfigWith("silent", {}), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("earlier_run_silent"), HasSubstr("resume_training"))));
  ExperimentConfig config = ConfigWith("gone", {});
  config.mutable_policy()
      ->mutable_learn()
      ->mutable_learner()
      ->mutable_hook()
      ->set_load_ckpt_before_run(absl::StrCat(testing::TempDir(), "/nowhere"));
  EXPECT_THAT(FirstEnvStep(config, nullptr), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace ding
