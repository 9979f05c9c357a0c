#include "ding_worker/worker/coordination/run_status_text.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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
  worker->set_lease_seconds_left(4.75);
  worker->set_staleness_iterations(209.6);
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
      "task                              rate    lease  behind  "
      "waits for\n"
      "     1  learner-0      learner        4711  8 cpus, 16 GiB, 2 gpus      "
      "learner_task_0                  3981/s    4.8 s     210  \n"
      "     2  collector-0    collector      4712  1.5 cpus, 0.5 GiB           "
      "collector_task_7, eval             0/s        -       -  "
      "the buffer: too few draws\n"
      "     3  collector-1    collector         0  -                           "
      "-                                  0/s        -       -  \n"
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
                        "learner_task_0                  3981/s    4.8 s     210  \n"
                        "          learner-1    learner        4713  -                           "
                        "learner_task_0                     0/s        -       -  the group\n"
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
  EXPECT_THAT(text, HasSubstr("-  2 bad chunks\n"));
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

// The keys and an example of every kind of value, as programs of users read them.
TEST(StatusJsonTest, TheKeysStayAsTheyAre) {
  RunStatus status;
  status.set_run("cartpole-7");
  status.set_elapsed_seconds(75.5);
  status.set_envstep(81920);
  status.set_train_iter(4000);
  status.set_eval_value(187.5);
  status.set_best_eval_value(195);
  status.set_policy_version(400);
  Setting* const shown = status.add_shown();
  shown->set_name("loss");
  shown->set_value(0.5);
  status.set_workers_joined(4);
  status.set_workers_lost(1);
  status.set_wanted_collectors(2);
  status.set_coordinator_pid(4710);
  WorkerStatus* const worker = status.add_worker();
  worker->set_worker(1);
  worker->set_name("aggregator-0");
  worker->set_role(Hello::LEARNER);
  worker->set_pid(4711);
  worker->set_task_id("learner_task_0");
  worker->set_waits_for("data");
  worker->set_lease_seconds_left(4.5);
  worker->set_staleness_iterations(210);
  worker->mutable_resources()->set_cpus(8);
  worker->mutable_resources()->set_memory_bytes(1024);
  worker->add_member()->set_name("learner-0");
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id("buffer_0");
  buffer->set_count(1000);
  buffer->set_push_count(81920);
  buffer->set_sample_count(256000);
  buffer->set_staleness_iterations(210);
  status.add_trained_policy()->set_policy_id("policy_0");
  status.mutable_league()->set_player_id("main");
  status.add_warning("a \"quoted\" warning\xff");
  EXPECT_EQ(
      RunStatusToJson(status),
      R"({"run":"cartpole-7","elapsed_seconds":75.5,"env_step":81920,"train_iter":4000,)"
      R"("eval":187.5,"best_eval":195.0,"converged":false,"policy_version":400,)"
      R"("values":{"loss":0.5},"workers_joined":4,"workers_lost":1,"wanted_collectors":2,)"
      R"("coordinator_pid":4710,"workers":[{"worker":1,"name":"aggregator-0","role":"learner",)"
      R"("pid":4711,"task":"learner_task_0","evaluates":false,"draining":false,)"
      R"("alive_seconds":0.0,"steps_per_second":0.0,"lease_seconds_left":4.5,"staleness":210.0,)"
      R"("waits_for":"data","stalled_seconds":null,)"
      R"("bad_chunks":0,"cpus":8.0,"memory_bytes":1024,"gpus":0,"members":[{"worker":0,)"
      R"("name":"learner-0","role":"collector","pid":0,"task":null,"evaluates":false,)"
      R"("draining":false,"alive_seconds":0.0,"steps_per_second":0.0,"lease_seconds_left":null,)"
      R"("staleness":null,"waits_for":null,)"
      R"("stalled_seconds":null,"bad_chunks":0,"cpus":null,"memory_bytes":null,"gpus":null,)"
      R"("members":[]}]}],"buffers":[{"buffer":"buffer_0","rows":1000,"pushed":81920,)"
      R"("drawn":256000,"removed":0,"too_old":0,"lost":0,"chunks":0,"bad_chunks":0,)"
      R"("staleness":210.0,"replay_ratio":null}],"policies":[{"policy":"policy_0","task":"",)"
      R"("env_step":0,"train_iter":0,"eval":null,"version":null,"converged":false}],)"
      R"("league":{"player":"main","historical_players":0,"min_win_rate":null,"rating":0.0,)"
      R"("rating_sigma":0.0,"eval_opponent":""},"warnings":["a \"quoted\" warning�"]})");
}

TEST(StatusJsonTest, ARunThatHasNotBegunHasAllKeysToo) {
  const auto empty = nlohmann::ordered_json::parse(RunStatusToJson(RunStatus()));
  EXPECT_EQ(empty.size(), 18u);
  EXPECT_TRUE(empty["eval"].is_null());
  EXPECT_TRUE(empty["league"].is_null());
  EXPECT_TRUE(empty["workers"].empty() && empty["workers"].is_array());
  EXPECT_TRUE(empty["values"].is_object());
}

TEST(StatusJsonTest, NumbersThatJsonDoesNotHaveAreNull) {
  RunStatus status;
  status.set_eval_value(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(RunStatusToJson(status).find(R"("eval":null)"), std::string::npos);
}

RunStatus StatusAt(double seconds, int64_t env_step, int64_t train_iter) {
  RunStatus status;
  status.set_elapsed_seconds(seconds);
  status.set_envstep(env_step);
  status.set_train_iter(train_iter);
  return status;
}

// Each value as "tag step value".
std::vector<std::string> Written(const RecordingSink& sink) {
  std::vector<std::string> lines;
  for (const RecordingSink::ScalarRecord& record : sink.scalars()) {
    lines.push_back(absl::StrCat(record.tag, " ", record.step, " ", record.value));
  }
  return lines;
}

TEST(RunRatesTest, WritesWhatWasDoneInEachSecondAndAtTheEnd) {
  RecordingSink sink;
  RunRates rates(StatusAt(10, 1000, 500), /*has_env_steps=*/true, &sink);
  rates.WriteIfDue(StatusAt(10.9, 1500, 600));
  EXPECT_THAT(Written(sink), IsEmpty());
  rates.WriteIfDue(StatusAt(12, 2000, 600));
  EXPECT_THAT(Written(sink), ElementsAre("run_step/env_steps_per_second 2000 500",
                                         "run_step/updates_per_second 2000 50"));
  rates.WriteIfDue(StatusAt(12.5, 2100, 601));
  rates.Write(StatusAt(12.5, 2100, 601));
  rates.Write(StatusAt(13, 2100, 601));  // Nothing was done.
  EXPECT_THAT(
      Written(sink),
      ElementsAre("run_step/env_steps_per_second 2000 500", "run_step/updates_per_second 2000 50",
                  "run_step/env_steps_per_second 2100 200", "run_step/updates_per_second 2100 2"));
}

TEST(RunRatesTest, DescribesTheBufferOrEachOfSeveral) {
  RecordingSink sink;
  RunStatus status = StatusAt(0, 0, 0);
  RunRates rates(status, /*has_env_steps=*/true, &sink);
  status = StatusAt(1, 10, 0);
  BufferStatus* const buffer = status.add_buffer();
  buffer->set_buffer_id("buffer_0");
  buffer->set_count(8);
  rates.WriteIfDue(status);
  EXPECT_THAT(Written(sink),
              ElementsAre("run_step/env_steps_per_second 10 10", "run_step/updates_per_second 10 0",
                          "replay_buffer_step/rows 10 8"));

  RecordingSink other;
  RunRates rates_of_two(StatusAt(0, 0, 0), /*has_env_steps=*/true, &other);
  buffer->set_push_count(10);
  buffer->set_sample_count(40);
  buffer->set_staleness_iterations(3);
  *status.add_buffer() = *buffer;
  status.mutable_buffer(1)->set_buffer_id("buffer_1");
  rates_of_two.Write(status);
  EXPECT_THAT(Written(other),
              ElementsAre("run_step/env_steps_per_second 10 10", "run_step/updates_per_second 10 0",
                          "buffer_0_step/rows 10 8", "buffer_0_step/age 10 3",
                          "buffer_0_step/drawn_per_pushed 10 4", "buffer_1_step/rows 10 8",
                          "buffer_1_step/age 10 3", "buffer_1_step/drawn_per_pushed 10 4"));
}

TEST(RunRatesTest, ARunWithADataSetCountsTrainIterations) {
  RecordingSink sink;
  RunRates rates(StatusAt(0, 0, 0), /*has_env_steps=*/false, &sink);
  rates.WriteIfDue(StatusAt(2, 0, 500));
  EXPECT_THAT(Written(sink), ElementsAre("run_iter/updates_per_second 500 250"));
}

}  // namespace
}  // namespace ding
