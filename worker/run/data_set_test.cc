#include "ding_worker/worker/run/data_set.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int64_t kEpisodes = 6;
constexpr int64_t kLength = 3;

// Episodes of 3 rows: row t of episode e has the observation 10 e + t and the reward 100 e + t, and the observation
// after the episode is 10 e + 9. Odd episodes are terminated and even ones truncated.
std::string WriteSmallEpisodes(const FieldSpec& reward) {
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs", {1}), Discrete("action", 2), reward}), kEpisodes * kLength);
  BatchBuilder last = *BatchBuilder::Create(*MakeSpec({Box("obs", {1})}), kEpisodes);
  EpisodeSet set;
  set.env = "small";
  for (int64_t e = 0; e < kEpisodes; ++e) {
    for (int64_t t = 0; t < kLength; ++t) {
      rows.column<float>(0)[e * kLength + t] = static_cast<float>(10 * e + t);
      rows.column<int64_t>(1)[e * kLength + t] = t % 2;
      rows.column<float>(2)[e * kLength + t] = static_cast<float>(100 * e + t);
    }
    last.column<float>(0)[e] = static_cast<float>(10 * e + 9);
    set.episodes.segments.push_back(
        {e, 0, e * kLength, kLength,
         e % 2 == 1 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated});
  }
  set.episodes.rows = std::move(rows).Seal(kEpisodes * kLength);
  set.episodes.final_obs = std::move(last).Seal(kEpisodes);
  const std::string path = absl::StrCat(testing::TempDir(), "/small.episodes");
  EXPECT_THAT(WriteEpisodes(path, set), IsOk());
  return path;
}

TEST(DataSetTest, TransitionsHaveNStepReturnsAndTheObservationAfterThem) {
  const std::string path = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  for (const int64_t nstep : {1, 2, 5}) {
    DING_ASSERT_OK_AND_ASSIGN(
        const DataSet data,
        LoadDataSet({path, 0.2, 1, TransitionOptions{nstep, 0.5}}, /*env=*/nullptr));
    ASSERT_EQ(data.training.rows(), (kEpisodes - 1) * kLength);
    for (int64_t row = 0; row < data.training.rows(); ++row) {
      const auto obs = static_cast<int64_t>(data.training.column<float>("obs")[row]);
      const int64_t e = obs / 10;
      const int64_t t = obs % 10;
      const int64_t end = std::min(t + nstep, kLength);
      double reward = 0;
      for (int64_t k = t; k < end; ++k) {
        reward += std::pow(0.5, k - t) * static_cast<double>(100 * e + k);
      }
      const bool ends = end == kLength;
      SCOPED_TRACE(absl::StrCat("episode ", e, " row ", t, " nstep ", nstep));
      EXPECT_FLOAT_EQ(data.training.column<float>("reward")[row], static_cast<float>(reward));
      EXPECT_EQ(data.training.column<float>("next_obs")[row],
                static_cast<float>(10 * e + (ends ? 9 : end)));
      EXPECT_FLOAT_EQ(data.training.column<float>("discount")[row],
                      ends && e % 2 == 1 ? 0 : static_cast<float>(std::pow(0.5, end - t)));
      EXPECT_EQ(data.training.column<int64_t>("action")[row], t % 2);
    }
  }
}

TEST(DataSetTest, WithoutTransitionsThereAreObservationAndActionOnly) {
  const std::string path = WriteSmallEpisodes(Scalar("reward", DType::kFloat32));
  DING_ASSERT_OK_AND_ASSIGN(const DataSet data, LoadDataSet({path, 0.2, 1}, nullptr));
  EXPECT_EQ(data.training.spec().size(), 2);
}

TEST(DataSetTest, TransitionsNeedARewardOfOneNumber) {
  const std::string path = WriteSmallEpisodes(Box("gain", {}));
  EXPECT_THAT(LoadDataSet({path, 0.2, 1, TransitionOptions{}}, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reward")));
}

}  // namespace
}  // namespace ding
