#include "ding_worker/worker/watch/watched_run.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr int64_t kAll = int64_t{1} << 30;
const char kMetrics[] = "step,tag,value,wall_time\n1,evaluator_step/reward_mean,7,100\n";

// Writes a file of a run, and the folders above it.
void Write(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = JoinPath(folder, name);
  ASSERT_THAT(CreateDirectories(path.substr(0, path.rfind('/'))), IsOk());
  OverwriteFile(path, text);
}

TEST(FlattenConfigTest, Blocks_BecomePaths) {
  EXPECT_THAT(FlattenConfig("seed: 3\n"
                            "policy {\n"
                            "  type: \"dqn\"\n"
                            "  params {\n"
                            "    [type.googleapis.com/ding.DqnConfig] {\n"
                            "      gamma: 0.99\n"
                            "    }\n"
                            "  }\n"
                            "}\n"
                            "hook { \n"
                            "  type: \"a: b\"\n"
                            "}\n"
                            "hook {\n"
                            "  type: \"c\"\n"
                            "}\n"
                            "}\n"),
              ElementsAre(Pair("hook.type", "\"a: b\", \"c\""),
                          Pair("policy.params.DqnConfig.gamma", "0.99"),
                          Pair("policy.type", "\"dqn\""), Pair("seed", "3")));
}

TEST(WatchedRunTest, Refresh_RunThatRunsAndEnds_SaysSo) {
  const std::string folder = FreshTestFolder();
  WatchedRun run(folder, "run");
  run.Refresh(kAll);
  EXPECT_THAT(run.damage(), HasSubstr("has no metrics.csv"));
  EXPECT_EQ(run.State(absl::Now()), "has not written yet");
  Write(folder, "log/metrics.csv", kMetrics);
  Write(folder, "log/learner-0.csv", "step,tag,value,wall_time\n1,learner_step/loss,3,105\n");
  Write(folder, "log/collector-0.csv", "step,tag,value,wall_time\n1,collector_step/x,3,105\n");
  EXPECT_TRUE(run.Refresh(kAll));
  EXPECT_EQ(run.damage(), "");
  EXPECT_EQ(run.State(absl::Now()), "running");
  EXPECT_EQ(run.State(absl::Now() + absl::Minutes(5) + absl::Seconds(3)), "silent for 5m");
  EXPECT_FALSE(run.Refresh(kAll));
  EXPECT_EQ(run.FindCurve("learner_step/loss").start_time, 100);
  EXPECT_EQ(run.FindCurve("collector_step/x").curve, nullptr);
  Write(folder, "result.json", "{\"why\": \"max_env_step is reached\"}");
  EXPECT_TRUE(run.Refresh(kAll));
  EXPECT_EQ(run.State(absl::Now()), "ended: max_env_step is reached");
  ASSERT_THAT(RemoveFile(JoinPath(folder, "result.json")), IsOk());
  EXPECT_TRUE(run.Refresh(kAll));
  EXPECT_FALSE(run.ended());
}

TEST(WatchedRunTest, Refresh_Damage_IsNamed) {
  const std::string folder = FreshTestFolder();
  Write(folder, "log/metrics.csv", absl::StrCat(kMetrics, "what\n"));
  WatchedRun run(folder, "run");
  run.Refresh(kAll);
  EXPECT_THAT(run.damage(), HasSubstr("line 3"));
  EXPECT_NE(run.FindCurve("evaluator_step/reward_mean").curve, nullptr);
  Write(folder, "log/metrics.csv", kMetrics);
  Write(folder, "result.json", "[");
  run.Refresh(kAll);
  EXPECT_THAT(run.damage(), HasSubstr("result.json"));
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  run.Refresh(kAll);
  EXPECT_THAT(run.damage(), HasSubstr("is no folder any more"));
}

TEST(WatchedRunTest, Experiment_IsEqualForSeeds) {
  std::vector<std::string> experiments;
  for (const char* config : {"seed: 1\nexp_name: \"a\"\nx: 1\n", "seed: 2\nx: 1\n", "x: 2\n"}) {
    const std::string folder = FreshTestFolder();
    Write(folder, "total_config.textproto", config);
    WatchedRun run(folder, "run");
    run.Refresh(kAll);
    experiments.push_back(run.experiment());
  }
  EXPECT_EQ(experiments[0], experiments[1]);
  EXPECT_NE(experiments[0], experiments[2]);
}

TEST(WatchedRunTest, TailLog_Filter_KeepsLinesWithAllWords) {
  const std::string folder = FreshTestFolder();
  Write(folder, "log/serial_logger.txt", "one Red\ntwo red\nthree blue red\nfour\n");
  Write(folder, "log/metrics.csv", kMetrics);
  Write(folder, "secret.txt", "secret");
  const WatchedRun run(folder, "run");
  EXPECT_THAT(run.ListLogs(), ElementsAre("serial_logger.txt"));
  EXPECT_EQ(run.TailLog("serial_logger.txt", "RED", 2).value(), "two red\nthree blue red");
  EXPECT_EQ(run.TailLog("serial_logger.txt", " red  three", 9).value(), "three blue red");
  for (const char* other : {"metrics.csv", "../secret.txt", "", "/etc/passwd"}) {
    EXPECT_THAT(run.TailLog(other, "", 9), StatusIs(absl::StatusCode::kNotFound)) << other;
  }
  Write(folder, "log/long.txt", absl::StrCat(std::string(3 << 20, 'x'), "\nlast\n"));
  EXPECT_EQ(run.TailLog("long.txt", "", 9).value(), "last");
}

TEST(WatchedRunTest, Videos_OnlyTheyAreRead) {
  const std::string folder = FreshTestFolder();
  Write(folder, "videos/evaluation_episode_1.gif", "GIF");
  Write(folder, "videos/notes.txt", "no");
  const WatchedRun run(folder, "run");
  EXPECT_THAT(run.ListVideos(), ElementsAre("evaluation_episode_1.gif"));
  EXPECT_EQ(run.ReadVideo("evaluation_episode_1.gif").value(), "GIF");
  EXPECT_THAT(run.ReadVideo("notes.txt"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(run.ReadVideo("../videos/evaluation_episode_1.gif"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(FindRunsTest, FolderOfRuns_NamesThem) {
  const std::string folder = FreshTestFolder();
  EXPECT_THAT(FindRuns(folder), StatusIs(absl::StatusCode::kNotFound, HasSubstr("is no run")));
  Write(folder, "a/log/metrics.csv", kMetrics);
  Write(folder, "b/total_config.textproto", "");
  Write(folder, "c/notes", "");
  EXPECT_THAT(FindRuns(folder).value(), ElementsAre(JoinPath(folder, "a"), JoinPath(folder, "b")));
  EXPECT_THAT(FindRuns(JoinPath(folder, "a")).value(), SizeIs(1));
}

TEST(NameRunsTest, Names_TellRunsApart) {
  EXPECT_THAT(NameRuns({"/x/dqn/1", "/x/ppo/1"}), ElementsAre("dqn/1", "ppo/1"));
  EXPECT_THAT(NameRuns({"/x/a", "/y/b"}), ElementsAre("a", "b"));
  EXPECT_THAT(NameRuns({"/x/a", "/x/a"}), ElementsAre("x/a", "x/a"));
  EXPECT_THAT(NameRuns({}), IsEmpty());
}

}  // namespace
}  // namespace ding
