#include "ding_worker/interaction/all_reduce/all_reduce_conformance.h"

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::Eq;
using testing::SizeIs;

constexpr absl::Duration kLong = absl::Minutes(1);

TEST_P(AllReduceConformance, SumsAreTheSameInAllRanks) {
  for (const int world_size : {1, 2, 3, 4}) {
    Mutex mutex;
    std::vector<std::vector<float>> sums;
    RunRanks(GetParam(), world_size, kLong, [&](AllReduce* group) {
      EXPECT_EQ(group->world_size(), world_size);
      for (const size_t size : {1, 7, 100000}) {
        std::vector<float> values(size);
        for (size_t i = 0; i < size; ++i) {
          values[i] = static_cast<float>(group->rank() + 1) / static_cast<float>(i + 3);
        }
        ASSERT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
        const auto ranks = static_cast<float>(world_size * (world_size + 1) / 2);
        EXPECT_FLOAT_EQ(values.front(), ranks / 3);
        EXPECT_FLOAT_EQ(values.back(), ranks / static_cast<float>(size + 2));
        MutexLock lock(&mutex);
        if (size > 7) sums.push_back(values);
      }
    });
    EXPECT_THAT(sums, AllOf(SizeIs(static_cast<size_t>(world_size)), Each(Eq(sums.front()))));
  }
}

TEST_P(AllReduceConformance, SumsDoublesWithTheirPrecision) {
  RunRanks(GetParam(), 2, kLong, [](AllReduce* group) {
    std::vector<double> values = {1e-12 + group->rank(), 2};
    ASSERT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
    EXPECT_THAT(values, ElementsAre(testing::DoubleEq(1 + 2e-12), 4));
  });
}

TEST_P(AllReduceConformance, NanReachesAllRanks) {
  RunRanks(GetParam(), 2, kLong, [](AllReduce* group) {
    std::vector<float> values = {1, 1};
    if (group->rank() == 1) values[0] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
    EXPECT_TRUE(values[0] != values[0]);
    EXPECT_EQ(values[1], 2);
  });
}

TEST_P(AllReduceConformance, BroadcastsTheBytesOfRankZero) {
  for (const size_t size : {0, 1, 1000000}) {
    RunRanks(GetParam(), 3, kLong, [size](AllReduce* group) {
      std::string bytes = group->rank() == 0 ? std::string(size, 'x') : "something else";
      ASSERT_THAT(group->Broadcast(&bytes), IsOk());
      EXPECT_TRUE(bytes == std::string(size, 'x')) << bytes.size();
    });
  }
}

// The group cannot be used any more, and each call says so without waiting.
TEST_P(AllReduceConformance, ALostRankIsNoticedAtOnce) {
  RunRanks(GetParam(), 3, kLong, [](AllReduce* group) {
    std::vector<float> values = {1};
    ASSERT_THAT(group->Sum(absl::MakeSpan(values)), IsOk());
    if (group->rank() == 1) return;  // Its AllReduce is destroyed.
    const Deadline deadline = Deadline::After(kLong / 2);
    EXPECT_THAT(group->Sum(absl::MakeSpan(values)), StatusIs(absl::StatusCode::kUnavailable));
    group->Abort();
    EXPECT_FALSE(group->Sum(absl::MakeSpan(values)).ok());
    EXPECT_FALSE(deadline.Passed());
  });
}

TEST_P(AllReduceConformance, AbortWakesWaitingRanks) {
  Mutex mutex;
  CondVar changed;
  int over = 0;
  RunRanks(GetParam(), 2, kLong, [&](AllReduce* group) {
    std::vector<float> values = {1};
    if (group->rank() == 0) {
      EXPECT_THAT(
          group->Sum(absl::MakeSpan(values)),
          AnyOf(StatusIs(absl::StatusCode::kUnavailable), StatusIs(absl::StatusCode::kCancelled)));
    } else {
      group->Abort();
    }
    MutexLock lock(&mutex);
    ++over;
    changed.SignalAll();
    // Keeps this rank's AllReduce alive: Abort() must wake the other rank, not the destructor.
    while (over < 2) changed.WaitFor(&mutex, absl::Seconds(1));
  });
}

// As at the end of a run, when all ranks are told at the same time, and some of them wait for
// others.
TEST_P(AllReduceConformance, RanksThatAbortWakeTheirOwnCalls) {
  RunRanks(GetParam(), 3, kLong, [&](AllReduce* group) {
    if (group->rank() == 2) {
      absl::SleepFor(absl::Milliseconds(50));
      group->Abort();
      return;
    }
    std::thread aborts([group] {
      absl::SleepFor(absl::Milliseconds(50));
      group->Abort();
    });
    std::vector<float> values(100000, 1);
    const Deadline deadline = Deadline::After(kLong / 2);
    EXPECT_THAT(group->Sum(absl::MakeSpan(values)), AnyOf(StatusIs(absl::StatusCode::kUnavailable),
                                                          StatusIs(absl::StatusCode::kCancelled)));
    EXPECT_FALSE(deadline.Passed());
    aborts.join();
  });
}

TEST_P(AllReduceConformance, AbortWakesTheRankItselfWhileTheOthersDoNothing) {
  Mutex mutex;
  CondVar changed;
  bool over = false;
  RunRanks(GetParam(), 2, kLong, [&](AllReduce* group) {
    if (group->rank() == 0) {
      std::thread aborts([group] {
        absl::SleepFor(absl::Milliseconds(50));
        group->Abort();
      });
      std::vector<float> values = {1};
      const Deadline deadline = Deadline::After(kLong / 2);
      EXPECT_THAT(
          group->Sum(absl::MakeSpan(values)),
          AnyOf(StatusIs(absl::StatusCode::kUnavailable), StatusIs(absl::StatusCode::kCancelled)));
      EXPECT_FALSE(deadline.Passed());
      aborts.join();
    }
    MutexLock lock(&mutex);
    if (group->rank() == 0) over = true;
    changed.SignalAll();
    while (!over) changed.WaitFor(&mutex, absl::Seconds(1));
  });
}

TEST_P(AllReduceConformance, AMissingRankIsWaitedForUntilTheTimeout) {
  Mutex mutex;
  CondVar changed;
  bool over = false;
  RunRanks(GetParam(), 2, absl::Milliseconds(1500), [&](AllReduce* group) {
    if (group->rank() == 0) {
      std::vector<float> values = {1};
      EXPECT_THAT(group->Sum(absl::MakeSpan(values)),
                  AnyOf(StatusIs(absl::StatusCode::kDeadlineExceeded),
                        StatusIs(absl::StatusCode::kUnavailable)));
    }
    MutexLock lock(&mutex);
    if (group->rank() == 0) over = true;
    changed.SignalAll();
    while (!over) changed.WaitFor(&mutex, absl::Seconds(1));
  });
}

TEST_P(AllReduceConformance, RanksOutsideTheGroupAreRefused) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "nobody's";
  options.rank = 2;
  options.world_size = 2;
  EXPECT_THAT(GetParam()(options, &rendezvous), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AllReduceConformance);

}  // namespace ding
