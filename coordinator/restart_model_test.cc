// A coordinator that is killed again and again, compared with a model of its rows.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/restart_fixture.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::UnorderedElementsAreArray;

class RestartModelTest : public RestartTest {};
INSTANTIATE_TEST_SUITE_P(Journal, RestartModelTest,
                         testing::Values(JournalMedium::kFile, JournalMedium::kMem),
                         JournalMediumName);

// The coordinator is killed at random moments of a random sequence of messages. Its successor has
// the rows that the model expects: the newest of all that were acknowledged.
TEST_P(RestartModelTest, EqualsTheModelAfterEveryKill) {
  const uint64_t seed = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Rng rng(seed, "restart");
  ASSERT_THAT(Begin(), IsOk());
  JoinAll();
  int64_t step = 0;
  for (int i = 0; i < 1500; ++i) {
    FinishEvaluations();
    PlayedWorker* const collector = &collectors_[rng.UniformInt(kCollectors)];
    switch (rng.UniformInt(12)) {
      case 0:
        Publish();
        break;
      case 1:
        Info(++step);
        break;
      case 2:
        if (!acknowledged_.empty()) Demand();
        break;
      case 3:
        Finish(collector);
        break;
      case 4:
        coordinator()->WorkerLost(collector->number, absl::UnavailableError("it was killed"));
        Settle(*coordinator());
        collector->number = 0;
        Join(Hello::COLLECTOR, "collector-x", collector);
        break;
      case 5:
        if (rng.UniformInt(4) > 0) break;
        if (rng.UniformInt(2) == 0) StoreChunk(collector);
        Kill();
        ASSERT_THAT(Begin(), IsOk());
        ASSERT_THAT(Rows(), UnorderedElementsAreArray(ExpectedRows())) << "after step " << i;
        EXPECT_EQ(coordinator()->status().train_iter(), step);
        EXPECT_EQ(coordinator()->status().policy_version(), newest_version_);
        if (!acknowledged_.empty()) ExpectBooksBalance();
        JoinAll();
        ExpectDataOf(ExpectedRows());
        break;
      default:
        Push(collector, 1 + static_cast<int>(rng.UniformInt(2)),
             1 + static_cast<int64_t>(rng.UniformInt(6)));
    }
    ASSERT_FALSE(HasFailure()) << "step " << i;
  }
  EXPECT_GT(life_->journal->size_bytes(), 0);
  EXPECT_LT(life_->journal->size_bytes(), 1 << 20) << "the journal is compacted";
}

}  // namespace
}  // namespace ding
