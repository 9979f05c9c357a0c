#include "ding_worker/worker/run_folder/run_result.h"

#include <cstdlib>
#include <limits>

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RunResultTest, IsOneLineOfJson) {
  RunResult result;
  result.stop = true;
  result.why = "env.stop_value 195 was reached";
  result.env_step = 1080;
  result.train_iter = 640;
  result.eval_value = 197.5;
  result.eval_value_raw = {195, 200};
  result.wall_seconds = 0.5;
  result.finish_time = absl::FromUnixSeconds(86400);
  EXPECT_EQ(ToJson(result),
            R"({"stop":true,"env_step":1080,"train_iter":640,"eval_value":197.5,)"
            R"("eval_value_raw":[195.0,200.0],"why":"env.stop_value 195 was reached",)"
            R"("wall_seconds":0.5,)"
            R"("finish_time":"1970-01-02T00:00:00Z"})");
}

TEST(RunResultTest, HasAMetricIfThereIsOne) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("metric"), std::string::npos);
  result.metric = {{"accuracy", 0.5}, {"loss", 2}};
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("metric":{"accuracy":0.5,"loss":2.0})"), std::string::npos) << json;
}

TEST(RunResultTest, HasWhatIsNotSavedIfThereIsSomething) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("unsaved"), std::string::npos);
  result.unsaved = "the disk is full";
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("unsaved":"the disk is full")"), std::string::npos) << json;
}

TEST(RunResultTest, HasTheBestEvaluationIfThereIsOne) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("best"), std::string::npos);
  result.best = {199.5, 600, "ckpt_best"};
  std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("best":{"value":199.5,"train_iter":600,"checkpoint":"ckpt_best"})"),
            std::string::npos)
      << json;
  result.best->train_iter = -1;
  json = ToJson(result);
  EXPECT_NE(json.find(R"("train_iter":null,"checkpoint":"ckpt_best"})"), std::string::npos) << json;
}

TEST(RunResultTest, HasTheConfirmationIfThereIsOne) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("confirmation"), std::string::npos);
  result.confirmation = {100, 199.5, 0.25};
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("confirmation":{"episodes":100,"mean":199.5,"standard_error":0.25})"),
            std::string::npos)
      << json;
}

TEST(RunResultTest, HasTheTimeOfCollectingIfThereIsOne) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("collecting"), std::string::npos);
  result.collecting_seconds = 0.25;
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("collecting_seconds":0.25)"), std::string::npos) << json;
}

TEST(RunResultTest, HasAllPoliciesIfSeveralWereTrained) {
  RunResult result;
  EXPECT_EQ(ToJson(result).find("policies"), std::string::npos);
  result.policies.resize(2);
  result.policies[0].policy_id = "policy_0";
  result.policies[0].stop = true;
  result.policies[0].env_step = 30;
  result.policies[0].eval_value = 2.5;
  result.policies[0].eval_value_raw = {2, 3};
  result.policies[1].policy_id = "policy_2";
  result.policies[1].train_iter = 7;
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("policies":[{"policy":"policy_0","stop":true,"env_step":30,)"
                      R"("train_iter":0,"eval_value":2.5,"eval_value_raw":[2.0,3.0]},)"
                      R"({"policy":"policy_2","stop":false,"env_step":0,"train_iter":7,)"
                      R"("eval_value":null,"eval_value_raw":[]}],"wall_seconds")"),
            std::string::npos)
      << json;
}

TEST(RunResultTest, TheShortFormHasFiveNumbersOfAList) {
  RunResult result;
  result.eval_value_raw = {1, 2, 3, 4, 5};
  result.policies.resize(1);
  result.policies[0].eval_value_raw = {1, 2, 3, 4, 5, 6, 7};
  const std::string json = ShortenJson(ToJson(result));
  EXPECT_NE(json.find(R"("eval_value_raw":[1.0,2.0,3.0,4.0,5.0],)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("eval_value_raw":[1.0,2.0,3.0,4.0,5.0,"... 2 more"])"), std::string::npos)
      << json;
  EXPECT_EQ(ShortenJson("no JSON"), "no JSON");
}

TEST(RunResultTest, ResultText_OnATerminal_IsASummaryWithCommands) {
  RunResult result;
  result.why = "env.stop_value 200 was reached";
  result.env_step = 1080;
  result.train_iter = 40;
  result.wall_seconds = 1.5;
  result.eval_value = 200;
  result.eval_value_raw = {199, 201};
  result.best = {200, 40, "ckpt_best"};
  result.confirmation = ReturnEstimate{100, 199.5, 0.5};
  const std::string json = ToJson(result);
  EXPECT_EQ(ResultText(json, "my run", /*on_terminal=*/false),
            "result " + ShortenJson(json) + "\n");
  unsetenv("DING_WORKER_COMMAND");
  const std::string summary =
      "the run is over: env.stop_value 200 was reached\n"
      "  1080 env steps, 40 train iterations, 1.5 s\n"
      "  last evaluation: 200 in 2 episodes\n"
      "  best evaluation: 200 at train iteration 40, kept as ckpt_best\n"
      "  confirmation: 199.5 in 100 fresh episodes\n"
      "  folder: my run\n";
  EXPECT_EQ(ResultText(json, "my run", /*on_terminal=*/true), summary);
  setenv("DING_WORKER_COMMAND", "tools/train --parallel", /*overwrite=*/1);
  EXPECT_EQ(ResultText(json, "my run", /*on_terminal=*/true),
            summary +
                "next:\n  play it    tools/evaluate 'my run'\n  draw it    tools/plot 'my run'\n"
                "  export it  tools/export 'my run'\n");
  unsetenv("DING_WORKER_COMMAND");
}

TEST(RunResultTest, MissingAndNanValuesAreNull) {
  RunResult result;
  result.eval_value_raw = {std::numeric_limits<double>::quiet_NaN()};
  const std::string json = ToJson(result);
  EXPECT_NE(json.find(R"("eval_value":null,"eval_value_raw":[null])"), std::string::npos) << json;
}

}  // namespace
}  // namespace ding
