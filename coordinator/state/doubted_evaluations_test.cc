#include "ding_worker/coordinator/state/doubted_evaluations.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

CollectorFinished Result(const std::vector<double>& returns, uint64_t policy_version = 1) {
  CollectorFinished result;
  for (const double episode_return : returns) result.add_episode_return(episode_return);
  result.set_policy_version(policy_version);
  return result;
}

// Worker 2 reports `returns` for the commander's task "eval_0".
DoubtedEvaluation Evaluation(const std::vector<double>& returns) {
  DoubtedEvaluation evaluation;
  evaluation.worker = 2;
  evaluation.name = "collector-a";
  evaluation.task.set_task_id("eval_0");
  evaluation.task.mutable_policy()->set_version(9);
  TaskPlayer* const learns = evaluation.task.add_player();
  learns->set_update_policy(true);
  learns->mutable_policy()->set_version(9);
  evaluation.task.add_player()->mutable_policy()->set_version(3);
  evaluation.result = Result(returns);
  return evaluation;
}

PolicyVersion Version(uint64_t version) {
  PolicyVersion result;
  result.set_version(version);
  return result;
}

class DoubtedEvaluationsTest : public testing::Test {
 protected:
  // The mean return that counts, of an evaluation and that of its witness.
  double Counted(const std::vector<double>& returns, const std::vector<double>& of_witness) const {
    const auto verdict =
        doubted_.Compare(Evaluation(returns), "collector-b", Result(of_witness), false);
    return verdict.result.value().episode_return(0);
  }
  std::string Warning(const std::vector<double>& returns, const std::vector<double>& of_witness,
                      bool would_converge) const {
    return doubted_.Compare(Evaluation(returns), "collector-b", Result(of_witness), would_converge)
        .warning;
  }

  DoubtedEvaluations doubted_{/*min_return=*/0, /*max_return=*/200};
};

TEST_F(DoubtedEvaluationsTest, KnowsThePossibleMeanReturns) {
  EXPECT_TRUE(doubted_.IsPossible(Result({})));
  EXPECT_TRUE(doubted_.IsPossible(Result({200.1}))) << "sums of float32 are rounded";
  EXPECT_TRUE(doubted_.IsPossible(Result({300, 100})));
  EXPECT_FALSE(doubted_.IsPossible(Result({201})));
  EXPECT_FALSE(doubted_.IsPossible(Result({-1})));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(DoubtedEvaluations(-kInfinity, kInfinity).IsPossible(Result({1e300})));
  EXPECT_THAT(doubted_.DescribeImpossible(Evaluation({500})),
              HasSubstr("collector-a says that eval_0 has a mean return of 500, which does not "
                        "count: the env's reward bounds allow 0 to 200"));
}

TEST_F(DoubtedEvaluationsTest, AWitnessEvaluatesTheSameVersion) {
  const PolicyVersion version = Version(5);
  doubted_.Ask(Evaluation({190}), &version);
  const std::vector<CollectorTask> tasks = doubted_.TakeWaitingTasks();
  ASSERT_THAT(tasks, SizeIs(1));
  EXPECT_EQ(tasks[0].task_id(), "eval_0_again_1");
  EXPECT_EQ(tasks[0].policy().version(), 5u);
  EXPECT_EQ(tasks[0].player(0).policy().version(), 5u);
  EXPECT_EQ(tasks[0].player(1).policy().version(), 3u) << "its opponent stays";
  EXPECT_THAT(doubted_.TakeWaitingTasks(), IsEmpty());
}

TEST_F(DoubtedEvaluationsTest, TheWitnessGetsNoVersionIfNoneIsKnown) {
  doubted_.Ask(Evaluation({190}), nullptr);
  const std::vector<CollectorTask> tasks = doubted_.TakeWaitingTasks();
  ASSERT_THAT(tasks, SizeIs(1));
  EXPECT_FALSE(tasks[0].has_policy());
  EXPECT_FALSE(tasks[0].player(0).has_policy());
  EXPECT_EQ(tasks[0].player(1).policy().version(), 3u);
}

TEST_F(DoubtedEvaluationsTest, TasksOfWitnessesWaitUntilTheyAreTaken) {
  doubted_.Ask(Evaluation({190}), nullptr);
  doubted_.Ask(Evaluation({191}), nullptr);
  const auto is_first = [](const CollectorTask& task) {
    return task.task_id() == "eval_0_again_1";
  };
  EXPECT_TRUE(doubted_.HasWaitingTask(is_first));
  std::vector<CollectorTask> tasks = doubted_.TakeWaitingTasks();
  ASSERT_THAT(tasks, SizeIs(2));
  EXPECT_FALSE(doubted_.HasWaitingTask(is_first));
  doubted_.WaitAgain(tasks[0]);
  EXPECT_TRUE(doubted_.HasWaitingTask(is_first));

  EXPECT_EQ(doubted_.Find("eval_0"), nullptr) << "the commander's task is none of a witness";
  ASSERT_NE(doubted_.Find("eval_0_again_2"), nullptr);
  EXPECT_EQ(doubted_.Find("eval_0_again_2")->worker, 2u);
  std::vector<JournalRecord> records;
  doubted_.Save(&records);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].collector_task().task_id(), "eval_0");
  EXPECT_EQ(doubted_.Take("eval_0_again_2")->result.episode_return(0), 191);
  EXPECT_FALSE(doubted_.Take("eval_0_again_2").has_value());
  EXPECT_THAT(doubted_.TakeAll(), SizeIs(1));
  EXPECT_THAT(doubted_.TakeWaitingTasks(), IsEmpty());
}

TEST_F(DoubtedEvaluationsTest, TheLowerOfTwoResultsCounts) {
  EXPECT_EQ(Counted({190}, {50}), 50);
  EXPECT_EQ(Counted({50}, {190}), 50);
}

TEST_F(DoubtedEvaluationsTest, TwoImpossibleResultsBothDoNotCount) {
  const auto verdict = doubted_.Compare(Evaluation({500}), "collector-b", Result({500}), true);
  EXPECT_FALSE(verdict.result.has_value());
  EXPECT_THAT(verdict.warning, HasSubstr("500: neither is possible, and neither counts"));
}

TEST_F(DoubtedEvaluationsTest, APossibleResultCountsRatherThanAnImpossibleOne) {
  EXPECT_EQ(Counted({-7}, {50}), 50);
  EXPECT_EQ(Counted({50}, {-7}), 50);
}

TEST_F(DoubtedEvaluationsTest, NoEpisodesOfTheWitnessGiveNoResult) {
  const auto verdict = doubted_.Compare(Evaluation({190}), "collector-b", Result({}), false);
  EXPECT_FALSE(verdict.result.has_value());
  EXPECT_THAT(verdict.warning, HasSubstr("nothing: the possible one counts"));
}

TEST_F(DoubtedEvaluationsTest, WarnsOfResultsThatDiffer) {
  EXPECT_THAT(Warning({190}, {190}, /*would_converge=*/true), IsEmpty());
  EXPECT_THAT(Warning({190}, {50}, /*would_converge=*/false),
              HasSubstr("collector-a says that eval_0 has a mean return of 190, and collector-b, "
                        "which has evaluated the same policy, 50: the lower one counts"));
  EXPECT_THAT(Warning({500}, {190}, /*would_converge=*/true),
              HasSubstr("190: the possible one counts"));
}

}  // namespace
}  // namespace ding
