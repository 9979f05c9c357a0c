// Tests of the core as a building block; those of the evaluators test the rest of it.
#include "ding_worker/collector/evaluator/eval_core.h"

#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Three envs. An evaluation begins with a reset; the returns of the second episodes are 100 + 101 +
// 102.
struct Fixture : SerialParts {
  explicit Fixture(EvalCore::Options options)
      : SerialParts({}, {}, "e"),
        core(*EvalCore::Create(std::move(options), &envs, {&policy}, deps)) {
    eval.train_iter = 1;
    eval.save_checkpoint = [this](absl::string_view) {
      ++saved;
      return absl::OkStatus();
    };
  }
  std::unique_ptr<EvalCore> core;
  EvalOptions eval;
  int saved = 0;
};

TEST(EvalCoreTest, JudgesByTheMeanReturn) {
  EvalCore::Options options;
  options.common.n_episode = 3;
  options.common.stop_value = 303;
  Fixture f(options);
  DING_ASSERT_OK_AND_ASSIGN(const EvalCore::Outcome outcome, f.core->Eval(f.eval, nullptr));
  EXPECT_EQ(outcome.score, 303);
  EXPECT_TRUE(outcome.stop);
  EXPECT_EQ(outcome.ToResult().mean_return, 303);
  EXPECT_THAT(outcome.ToResult().episode_return, ElementsAre(303, 303, 303));
  EXPECT_THAT(f.sink->ValuesOf("e_iter/score"), IsEmpty());
}

TEST(EvalCoreTest, AScoreDecidesWhatIsBestAndWhenToStop) {
  double score = 5;
  EvalCore::Options options;
  options.common.n_episode = 3;
  options.common.stop_value = 4;
  options.score = [&score](const VectorEvalMonitor& episodes) {
    EXPECT_TRUE(episodes.is_finished());
    return score;
  };
  Fixture f(options);
  DING_ASSERT_OK_AND_ASSIGN(const EvalCore::Outcome first, f.core->Eval(f.eval, nullptr));
  EXPECT_TRUE(first.stop);
  EXPECT_EQ(first.ToResult().mean_return, 5);
  EXPECT_EQ(f.saved, 1);
  score = 3;
  DING_ASSERT_OK_AND_ASSIGN(const EvalCore::Outcome second, f.core->Eval(f.eval, nullptr));
  EXPECT_FALSE(second.stop);
  score = std::numeric_limits<double>::quiet_NaN();
  DING_ASSERT_OK_AND_ASSIGN(const EvalCore::Outcome third, f.core->Eval(f.eval, nullptr));
  EXPECT_FALSE(third.stop);
  EXPECT_EQ(f.saved, 1) << "neither is better";
  EXPECT_EQ(f.core->best_score(), 5);
  ASSERT_EQ(f.sink->ValuesOf("e_iter/score").size(), 3u);
  EXPECT_EQ(f.sink->ValuesOf("e_iter/score")[1], 3);
}

TEST(EvalCoreTest, AScoreThatThrowsFailsTheEvaluation) {
  EvalCore::Options options;
  options.common.n_episode = 3;
  options.score = [](const VectorEvalMonitor&) -> double { throw std::runtime_error("odd"); };
  Fixture f(options);
  EXPECT_THAT(
      f.core->Eval(f.eval, nullptr),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("e: score() threw an exception: odd")));
  EXPECT_EQ(f.saved, 0);
}

TEST(EvalCoreTest, ReportsAllProblemsAtOnce) {
  EvalCore::Options options;
  options.common.n_episode = 0;
  options.common.problems = {"params are wrong"};
  EXPECT_THAT(EvalCore::Create(options, nullptr, PoliciesOf(static_cast<EvalMode*>(nullptr)), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("n_episode is 0"), HasSubstr("params are wrong"),
                             HasSubstr("no env manager"), HasSubstr("no policy"))));
}

}  // namespace
}  // namespace ding
