#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Expects that `check` accepts `good`, and refuses it after `change` with an error that contains
// `says`.
template <typename Message>
void ExpectRefused(const Message& good, absl::Status (*check)(const Message&),
                   const std::function<void(Message*)>& change, const std::string& says) {
  EXPECT_THAT(check(good), IsOk());
  Message bad = good;
  change(&bad);
  EXPECT_THAT(check(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
}

TEST(ForPeopleTest, MakesOneLineOfLimitedLength) {
  EXPECT_EQ(ForPeople("the store is full"), "the store is full");
  EXPECT_EQ(ForPeople("a\nb\x1b[2Jc\x7f"), "a b [2Jc ");
  EXPECT_EQ(ForPeople(std::string(100000, 'x')).size(), kMaxTextBytes + 4);
}

TEST(CheckHelloFieldsTest, RefusesInvalidNamesAndResources) {
  Hello hello;
  hello.set_name("collector-0");
  const auto refused = [&hello](const std::function<void(Hello*)>& change,
                                const std::string& says) {
    ExpectRefused(hello, &CheckHelloFields, change, says);
  };
  refused([](Hello* bad) { bad->set_name(std::string(129, 'x')); }, "129 bytes");
  refused([](Hello* bad) { bad->set_name("a\nI1122 all is well"); }, "control characters");
  refused([](Hello* bad) { bad->mutable_resources()->set_cpus(kNaN); }, "nan cores");
  refused([](Hello* bad) { bad->mutable_resources()->set_cpus(kInf); }, "inf cores");
  refused([](Hello* bad) { bad->mutable_resources()->set_memory_bytes(-1); }, "-1 bytes");
  refused([](Hello* bad) { bad->mutable_resources()->set_gpus(-1); }, "-1 GPUs");
}

TEST(CheckProgressTest, RefusesCountsOutOfRange) {
  constexpr int64_t kMany = int64_t{1} << 41;
  const auto refused = [](const std::function<void(ProgressReport*)>& change,
                          const std::string& says) {
    ExpectRefused(ProgressReport(), &CheckProgress, change, says);
  };
  refused([](ProgressReport* bad) { bad->set_cur_step(kMany); }, "steps");
  refused([](ProgressReport* bad) { bad->set_cur_step(-1); }, "-1 steps");
  refused([](ProgressReport* bad) { bad->set_cur_sample(kMany); }, "samples");
  refused([](ProgressReport* bad) { bad->set_cur_episode(-1); }, "episodes");
}

TEST(CheckCollectorFinishedTest, RefusesInvalidCountsAndReturns) {
  CollectorFinished info;
  info.set_step_count(10);
  info.set_train_iter(-1);
  info.add_episode_return(-3.5);
  const auto refused = [&info](const std::function<void(CollectorFinished*)>& change,
                               const std::string& says) {
    ExpectRefused(info, &CheckCollectorFinished, change, says);
  };
  refused([](CollectorFinished* bad) { bad->set_step_count(-1); }, "-1 steps");
  refused([](CollectorFinished* bad) { bad->set_sample_count(-1); }, "samples");
  refused([](CollectorFinished* bad) { bad->set_env_num(-1); }, "envs");
  refused([](CollectorFinished* bad) { bad->set_predefined_episode_count(-1); }, "episodes");
  refused([](CollectorFinished* bad) { bad->set_real_episode_count(-1); }, "episodes");
  refused([](CollectorFinished* bad) { bad->set_train_iter(-2); }, "train iterations");
  refused([](CollectorFinished* bad) { bad->set_duration_seconds(kNaN); }, "nan seconds");
  refused([](CollectorFinished* bad) { bad->set_duration_seconds(-1); }, "-1 seconds");
  refused([](CollectorFinished* bad) { bad->add_episode_return(kInf); }, "return is inf");
  refused([](CollectorFinished* bad) { bad->add_episode_return(kNaN); }, "return is nan");
  refused([](CollectorFinished* bad) { bad->set_eval_score(kNaN); },
          "score of an evaluation is nan");
  refused([](CollectorFinished* bad) { bad->set_step_count(0); }, "1 episodes in 0 steps");
  refused(
      [](CollectorFinished* bad) {
        bad->add_game_result(TaskGameResult::WINS);
        bad->add_game_result(TaskGameResult::WINS);
      },
      "2 results for 1 games");
}

TEST(CheckPrioritiesTest, RefusesPrioritiesThatAreNegativeOrNotFinite) {
  LearnerInfo info;
  info.add_priority(0.5f);
  for (const double priority : {kNaN, kInf, -1.0}) {
    ExpectRefused<LearnerInfo>(
        info, &CheckPriorities,
        [priority](LearnerInfo* bad) { bad->add_priority(static_cast<float>(priority)); },
        "priority");
  }
}

TEST(CheckBadChunksTest, RefusesInvalidNumbersAndCounts) {
  BadChunks bad;
  bad.add_chunk()->set_chunk(7);
  const auto refused = [&bad](const std::function<void(BadChunks*)>& change,
                              const std::string& says) {
    ExpectRefused(bad, &CheckBadChunks, change, says);
  };
  refused([](BadChunks* none) { none->clear_chunk(); }, "0 chunks");
  refused([](BadChunks* below) { below->add_chunk()->set_chunk(-1); }, "below 0");
  refused(
      [](BadChunks* many) {
        for (int i = 0; i < kMaxBadChunks; ++i) many->add_chunk();
      },
      "1025 chunks");
}

}  // namespace
}  // namespace ding
