#include <cstdint>
#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/worker/coordination/run_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

RunStatus Status() {
  RunStatus status;
  status.set_run("cartpole-7");
  status.set_elapsed_seconds(75.4);
  status.set_envstep(81920);
  status.set_train_iter(4000);
  status.set_policy_version(400);
  status.set_workers_joined(4);
  status.set_wanted_collectors(2);
  status.set_workers_lost(1);
  WorkerStatus* worker = status.add_worker();
  worker->set_worker(1);
  worker->set_name("learner-0");
  worker->set_role(Hello::LEARNER);
  worker->set_pid(4711);
  worker->mutable_resources()->set_cpus(8);
  worker->mutable_resources()->set_memory_bytes(int64_t{16} << 30);
  worker->mutable_resources()->set_gpus(2);
  worker->set_task_id("learner_task_0");
  worker->set_steps_per_second(3981.4);
  worker = status.add_worker();
  worker->set_worker(2);
  worker->set_name("collector-0");
  worker->set_role(Hello::COLLECTOR);
  worker->set_pid(4712);
  worker->mutable_resources()->set_cpus(1.5);
  worker->mutable_resources()->set_memory_bytes(int64_t{1} << 29);
  worker->set_task_id("collector_task_7");
  worker->set_evaluates(true);
  worker->set_waits_for("the buffer: too few draws");
  worker = status.add_worker();
  worker->set_worker(3);
  worker->set_name("collector-1");
  worker->set_role(Hello::COLLECTOR);
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id("buffer_0");
  buffer->set_count(1000);
  buffer->set_push_count(81920);
  buffer->set_sample_count(256000);
  buffer->set_chunks(640);
  return status;
}

TEST(StatusTextTest, HasALineForEachWorkerAndBuffer) {
  EXPECT_EQ(
      FormatRunStatus(Status()),
      "run cartpole-7 for 1:15  env_step 81920  train_iter 4000  policy 400  joined 4  lost 1  "
      "collectors wanted 2\n"
      "worker  name           role            pid  resources                   "
      "task                              rate  "
      "waits for\n"
      "     1  learner-0      learner        4711  8 cpus, 16 GiB, 2 gpus      "
      "learner_task_0                  3981/s  \n"
      "     2  collector-0    collector      4712  1.5 cpus, 0.5 GiB           "
      "collector_task_7, eval             0/s  "
      "the buffer: too few draws\n"
      "     3  collector-1    collector         0  -                           "
      "-                                  0/s  \n"
      "buffer buffer_0: 1000 rows of 81920 pushed, 256000 drawn, 640 chunks, 3.12 drawn per "
      "row pushed\n");
}

TEST(StatusTextTest, ShowsTheReplayRatioOfABufferWithBounds) {
  RunStatus status = Status();
  status.mutable_buffer(0)->set_replay_ratio(3.25);
  EXPECT_THAT(FormatRunStatus(status),
              testing::HasSubstr("3.12 drawn per row pushed (replay_ratio 3.25)\n"));
  status.mutable_buffer(0)->set_too_old_count(17);
  EXPECT_THAT(FormatRunStatus(status), testing::HasSubstr(", 17 rows too old to learn from\n"));
}

TEST(StatusTextTest, LearnersStandUnderTheirAggregator) {
  RunStatus status = Status();
  status.mutable_worker(0)->set_name("aggregator-0");
  WorkerStatus* const member = status.mutable_worker(0)->add_member();
  member->set_worker(7);
  member->set_name("learner-1");
  member->set_role(Hello::LEARNER);
  member->set_pid(4713);
  member->set_task_id("learner_task_0");
  member->set_waits_for("the group");
  EXPECT_THAT(FormatRunStatus(status),
              HasSubstr("\n"
                        "     1  aggregator-0   learner        4711  8 cpus, 16 GiB, 2 gpus      "
                        "learner_task_0                  3981/s  \n"
                        "          learner-1    learner        4713  -                           "
                        "learner_task_0                     0/s  the group\n"
                        "     2  collector-0 "));
}

TEST(StatusTextTest, ShowsOptionalValuesWhenSet) {
  RunStatus status = Status();
  EXPECT_THAT(FormatRunStatus(status), Not(HasSubstr("converged")));
  status.set_eval_value(187.25);
  status.set_converged(true);
  status.mutable_buffer(0)->set_staleness_iterations(210.3);
  EXPECT_THAT(FormatRunStatus(status), HasSubstr("train_iter 4000  eval 187.25  policy 400"));
  EXPECT_THAT(FormatRunStatus(status), HasSubstr("collectors wanted 2  converged\n"));
  EXPECT_THAT(FormatRunStatus(status), HasSubstr("drawn rows are 210 train iterations old\n"));
}

TEST(StatusTextTest, NamesStallsBadChunksAndWarnings) {
  RunStatus status = Status();
  status.mutable_worker(0)->set_waits_for("the store, which has not given 'data/2/5' for 14s");
  status.mutable_worker(0)->set_stalled_seconds(75);
  status.mutable_worker(1)->set_waits_for("");
  status.mutable_worker(1)->set_bad_chunks(2);
  status.mutable_buffer(0)->set_bad_chunks(2);
  status.add_warning("collector-7 (worker 9, pid 12) is sent away: it lies");
  const std::string text = FormatRunStatus(status);
  EXPECT_THAT(text, HasSubstr("'data/2/5' for 14s (no progress for 1:15)\n"));
  EXPECT_THAT(text, HasSubstr("/s  2 bad chunks\n"));
  EXPECT_THAT(text, HasSubstr(", 2 bad chunks\n"));
  EXPECT_THAT(text, HasSubstr("\nwarning: collector-7 (worker 9, pid 12) is sent away: it lies\n"));
}

TEST(StatusTextTest, ALeague) {
  RunStatus status = Status();
  LeagueStatus* const league = status.mutable_league();
  league->set_player_id("main");
  league->set_historical_players(3);
  league->set_rating(1.5);
  league->set_rating_sigma(0.25);
  league->set_eval_opponent("perfect");
  EXPECT_THAT(
      FormatRunStatus(status),
      HasSubstr("\nleague: main has 3 historical players, rating 1.50 +- 0.25, is evaluated "
                "against perfect\n"));
  league->set_min_win_rate(0.456);
  EXPECT_THAT(FormatRunStatus(status), HasSubstr("players, wins 46 % against the strongest, "));
}

TEST(StatusTextTest, SeveralPolicies) {
  RunStatus status;
  TrainedPolicyStatus* policy = status.add_trained_policy();
  policy->set_policy_id("policy_0");
  policy->set_task_id("learner_task_0");
  policy->set_envstep(300);
  policy->set_train_iter(20);
  policy = status.add_trained_policy();
  *policy = status.trained_policy(0);
  policy->set_policy_id("policy_1");
  policy->set_eval_value(195.5);
  policy->set_policy_version(4);
  policy->set_converged(true);
  EXPECT_THAT(FormatRunStatus(status),
              HasSubstr("\npolicy policy_0: learner_task_0  env_step 300  train_iter 20\n"
                        "policy policy_1: learner_task_0  env_step 300  train_iter 20  eval 195.5  "
                        "version 4  converged\n"));
}

TEST(StatusTextTest, ARunThatHasNotBegun) {
  EXPECT_THAT(FormatRunStatus(RunStatus()), HasSubstr("env_step 0  train_iter 0"));
  EXPECT_EQ(ProgressOf(RunStatus()).detail, "");
  EXPECT_THAT(ProgressValuesOf(RunStatus()), ElementsAre(Pair("workers", 0)));
}

TEST(StatusTextTest, TheProgressLineNamesAWaitingWorker) {
  RunStatus status = Status();
  status.set_eval_value(20);
  status.set_best_eval_value(30);
  const ProgressState state = ProgressOf(status);
  EXPECT_EQ(state.env_step, 81920);
  EXPECT_EQ(state.train_iter, 4000);
  EXPECT_EQ(state.last_eval, 20);
  EXPECT_EQ(state.best_eval, 30);
  EXPECT_EQ(state.detail,
            "evaluating (collector-0), collector-0 waits for the buffer: too few draws");
  EXPECT_FALSE(ProgressOf(Status()).last_eval.has_value());
}

TEST(StatusTextTest, TheProgressLineSaysWhoEvaluates) {
  RunStatus status;
  status.add_worker()->set_name("learner-0");
  WorkerStatus* const worker = status.add_worker();
  worker->set_name("collector-1");
  worker->set_task_id("collector_task_7");
  worker->set_evaluates(true);
  EXPECT_EQ(ProgressOf(status).detail, "evaluating (collector-1)");
}

TEST(StatusTextTest, TheProgressLineShowsWhatLearnerAndCollectorsReport) {
  RunStatus status = Status();
  for (const auto& [name, value] : ProgressValues{{"return", 187.5}, {"loss", 0.25}}) {
    Setting* const shown = status.add_shown();
    shown->set_name(name);
    shown->set_value(value);
  }
  status.mutable_buffer(0)->set_staleness_iterations(210);
  EXPECT_THAT(ProgressValuesOf(status),
              ElementsAre(Pair("return", 187.5), Pair("loss", 0.25), Pair("workers", 3),
                          Pair("staleness", 210), Pair("drawn/pushed", 3.125)));
  EXPECT_THAT(FormatRunStatus(status),
              HasSubstr("train_iter 4000  return 187.5  loss 0.25  policy"));
}

TEST(StatusTextTest, LinesAreFoldedToTheWidthOfATerminal) {
  EXPECT_EQ(FoldLines("twelve chars\n\n", 20), "twelve chars\n\n");
  EXPECT_EQ(FoldLines("run a for 0:02  env_step 5272  train_iter 3260\nshort\n", 24),
            "run a for 0:02\n"
            "        env_step 5272\n"
            "        train_iter 3260\n"
            "short\n");
  EXPECT_EQ(FoldLines("     3  learner-0      learner        5639", 30),
            "     3  learner-0      learner\n"
            "        5639\n");
  // A word that is too long is cut.
  EXPECT_EQ(FoldLines(std::string(45, 'x'), 20), std::string(20, 'x') + "\n        " +
                                                     std::string(12, 'x') + "\n        " +
                                                     std::string(12, 'x') + "\n        x\n");
  const std::string status = FoldLines(FormatRunStatus(Status()), 80);
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(StatusTextTest, ATextThatIsTooHighForATerminalSaysWhatIsMissing) {
  EXPECT_EQ(KeepFirstLines("a\nb\nc\n", 3), "a\nb\nc\n");
  EXPECT_EQ(KeepFirstLines("a\nb\nc\nd\n", 3), "a\nb\n... 2 lines more\n");
  EXPECT_EQ(KeepFirstLines("a\nb\nc\n", 0), "a\n... 2 lines more\n");
}

}  // namespace
}  // namespace ding
