#include "ding_worker/worker/evaluation/evaluation_report.h"

#include <cmath>
#include <string>
#include <vector>

#include "ding_worker/worker/evaluation/evaluation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ReportedEvaluation Evaluated(const std::string& checkpoint, std::vector<double> returns) {
  ReportedEvaluation evaluation;
  evaluation.checkpoint = checkpoint;
  evaluation.options.n_episode = static_cast<int64_t>(returns.size());
  evaluation.options.seed = 7;
  evaluation.result.env = "Env";
  evaluation.result.train_iter = 10;
  evaluation.result.env_step = 40;
  evaluation.result.envstep_count = 3 * static_cast<int64_t>(returns.size());
  evaluation.result.mean_return = Statistics(returns).mean;
  evaluation.result.episode_return = std::move(returns);
  return evaluation;
}

TEST(EvaluationReportTest, QuantilesOfStudentsT) {
  // From a table of the distribution.
  EXPECT_NEAR(StudentT975(1), 12.706, 0.001);
  EXPECT_NEAR(StudentT975(4), 2.776, 0.001);
  EXPECT_NEAR(StudentT975(10), 2.228, 0.001);
  EXPECT_NEAR(StudentT975(11), 2.201, 0.001);
  EXPECT_NEAR(StudentT975(15), 2.131, 0.001);
  EXPECT_NEAR(StudentT975(30), 2.042, 0.001);
  EXPECT_NEAR(StudentT975(120), 1.980, 0.001);
  EXPECT_NEAR(StudentT975(1000000), 1.960, 0.001);
}

TEST(EvaluationReportTest, StatisticsAreThoseOfASample) {
  const ReturnStatistics four = Statistics({2, 8, 4, 6});
  EXPECT_DOUBLE_EQ(four.mean, 5);
  EXPECT_DOUBLE_EQ(four.median, 5);
  EXPECT_DOUBLE_EQ(four.min, 2);
  EXPECT_DOUBLE_EQ(four.max, 8);
  EXPECT_NEAR(*four.deviation, std::sqrt(20.0 / 3), 1e-12);
  const double half = 3.1824 * std::sqrt(20.0 / 3) / 2;
  EXPECT_NEAR(four.interval->first, 5 - half, 1e-9);
  EXPECT_NEAR(four.interval->second, 5 + half, 1e-9);
  EXPECT_DOUBLE_EQ(Statistics({3, 1, 2}).median, 2);
  const ReturnStatistics one = Statistics({2});
  EXPECT_DOUBLE_EQ(one.mean, 2);
  EXPECT_FALSE(one.deviation.has_value());
  EXPECT_FALSE(one.interval.has_value());
}

TEST(EvaluationReportTest, TextOfOneEvaluation) {
  ReportedEvaluation evaluation = Evaluated("/run/ckpt/ckpt_best", {2, 8, 4, 6});
  EXPECT_EQ(EvaluationText({evaluation}),
            "checkpoint  /run/ckpt/ckpt_best (train iteration 10, env step 40)\n"
            "env         Env\n"
            "episodes    4, seed 7, greedy actions, 3 steps on average\n"
            "returns     2 8 4 6\n"
            "mean        5 (95 % interval 0.891539 to 9.10846)\n"
            "deviation   2.58199\n"
            "range       2 to 8, median 5\n");
  evaluation.options.sample = true;
  evaluation.options.video.path = "/out.gif";
  evaluation.result.video_return = 4;
  evaluation.result.video_is_cut = true;
  evaluation.result.mean_return = 0.5;
  const double nan = std::nan("");
  evaluation.result.episode_info = {{"info/is_success", {1, 0, 1, 1}},
                                    {"info/mean", {1, nan, 2}},
                                    {"info/lost", {nan}},
                                    {"return_0", {1, 2, 3, 4}}};
  const std::string more = EvaluationText({evaluation});
  EXPECT_THAT(more, HasSubstr("sampled actions"));
  EXPECT_THAT(more, HasSubstr("\ninfo/is_success mean 0.75\n"
                              "info/lost   no mean (in 0 of 4 episodes, and not finite in 1)\n"
                              "info/mean   mean 1.5 (in 2 of 4 episodes, and not finite in 1)\n"
                              "return_0    mean 2.5\nscore       0.5\n"));
  EXPECT_THAT(more, HasSubstr("\nvideo       /out.gif (the median of the first 4 episodes, "
                              "return 4, cut)\n"));
  const std::string long_one = EvaluationText({Evaluated("c", std::vector<double>(21, 1.0))});
  EXPECT_THAT(long_one, Not(HasSubstr("returns")));
  EXPECT_THAT(EvaluationText({Evaluated("c", {2})}), HasSubstr("mean        2\nrange"));
}

TEST(EvaluationReportTest, SeveralEvaluationsAreATable) {
  const std::string text = EvaluationText({Evaluated("/a/run/ckpt/iteration_5", {1, 2, 3}),
                                           Evaluated("/a/run/ckpt/iteration_10", {10})});
  EXPECT_EQ(
      text,
      "Env, 3 episodes each, seed 7, greedy actions; low and high are the 95 % interval of the "
      "mean\n"
      "checkpoint    train_iter   mean  deviation  low    high    min    max\n"
      "iteration_5           10   2.00  1.00       -0.48  4.48   1.00   3.00\n"
      "iteration_10          10  10.00  -          -      -     10.00  10.00\n");
  EXPECT_THAT(
      EvaluationText({Evaluated("/a/x/ckpt/best", {1, 2}), Evaluated("/a/y/ckpt/best", {2, 3})}),
      HasSubstr("\nx/ckpt/best"));
  ReportedEvaluation other = Evaluated("/a/run/ckpt/iteration_10", {10});
  other.result.env = "Other";
  EXPECT_THAT(EvaluationText({Evaluated("/a/run/ckpt/iteration_5", {1, 2, 3}), other}),
              AllOf(StartsWith("3 episodes each, seed 7"),
                    HasSubstr("\ncheckpoint    env    train_iter   mean"),
                    HasSubstr("\niteration_5   Env            10   2.00"),
                    HasSubstr("\niteration_10  Other          10  10.00")));
}

TEST(EvaluationReportTest, JsonIsOneObject) {
  ReportedEvaluation evaluation = Evaluated("/run/ckpt/\xff", {2, 8, 4, 6});
  evaluation.options.video.path = "/out.gif";
  evaluation.result.video_return = 4;
  const std::string text = EvaluationJson({evaluation});
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const json one = json::parse(text);
  EXPECT_EQ(one["mean"], 5);
  EXPECT_NEAR(one["interval"][0].get<double>(), 0.891539, 1e-6);
  EXPECT_EQ(one["returns"], json({2, 8, 4, 6}));
  EXPECT_EQ(one["actions"], "greedy");
  EXPECT_EQ(one["mean_length"], 3);
  EXPECT_EQ(one["video"], json({{"path", "/out.gif"}, {"return", 4}, {"cut", false}}));
  EXPECT_FALSE(one.contains("score"));
  EXPECT_FALSE(one.contains("info"));
  evaluation.result.episode_info = {{"eval_episode_return", {2, 8, 4, 6}},
                                    {"info/is_success", {1, 0, 1, 1}}};
  EXPECT_EQ(json::parse(EvaluationJson({evaluation}))["info"], json({{"is_success", 0.75}}));
  evaluation.result.episode_info = {
      {"return_0", {1, 2, 3, 4}}, {"info/return_0", {5, 5}}, {"info/mean", {std::nan(""), 6}}};
  const json partial = json::parse(EvaluationJson({evaluation}));
  EXPECT_EQ(partial["mean"], 5);
  EXPECT_EQ(partial["return_0"], 2.5);
  EXPECT_EQ(partial["info"], json({{"return_0", 5}, {"mean", 6}}));
  EXPECT_EQ(partial["info_count"], json({{"return_0", 2}, {"mean", 1}}));
  EXPECT_EQ(partial["info_not_finite"], json({{"mean", 1}}));

  const json single = json::parse(EvaluationJson({Evaluated("a", {2})}));
  EXPECT_TRUE(single["deviation"].is_null());
  EXPECT_TRUE(single["interval"].is_null());

  const json both =
      json::parse(EvaluationJson({Evaluated("a", {2}), Evaluated("b", {3}), Evaluated("c", {1})}));
  EXPECT_EQ(both["best"], "b");
  EXPECT_EQ(both["mean"], 3);
  EXPECT_EQ(both["evaluations"].size(), 3u);
  EXPECT_EQ(both["evaluations"][2]["mean"], 1);
}

}  // namespace
}  // namespace ding
