#include "ding_worker/policy/observation_normalizer.h"

#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::FloatNear;
using testing::HasSubstr;

SpecPtr Observation() { return *MakeSpec({Box("obs/place", {2}), Box("obs/goal", {1})}); }

// Rows whose places are (1, 10) and (3, 30), and goals 5 and 7, before a column that is not
// observed.
Batch Rows() {
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs/place", {2}), Box("obs/goal", {1}), Box("action", {1})}), 2);
  const float place[] = {1, 10, 3, 30};
  const float goal[] = {5, 7};
  for (size_t i = 0; i < 4; ++i) rows.column<float>(0)[i] = place[i];
  for (size_t i = 0; i < 2; ++i) {
    rows.column<float>(1)[i] = goal[i];
    rows.column<float>(2)[i] = 0;
  }
  return std::move(rows).Seal(2);
}

TEST(ObservationNormalizer, UsesTheStatisticsOfTheLastRowsOnly) {
  DING_ASSERT_OK_AND_ASSIGN(auto normalizer, ObservationNormalizer::Create(Observation(), 10));
  ScratchColumns memory(Observation());
  DING_ASSERT_OK_AND_ASSIGN(ColumnsView out, normalizer.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(0), testing::ElementsAre(1, 10, 3, 10)) << "only clipped";
  for (int repetition = 0; repetition < 2; ++repetition) {
    normalizer.Set(Rows().Slice(0, 1 + repetition).view());
  }
  DING_ASSERT_OK_AND_ASSIGN(out, normalizer.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(0), testing::ElementsAre(FloatNear(-1, 1e-5), FloatNear(-1, 1e-5),
                                                         FloatNear(1, 1e-5), FloatNear(1, 1e-5)));
  EXPECT_THAT(out.column<float>(1), testing::ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
}

TEST(ObservationNormalizer, AddsRowsAndNormalizesInPlace) {
  DING_ASSERT_OK_AND_ASSIGN(auto at_once, ObservationNormalizer::Create(Observation(), 10));
  at_once.Set(Rows().view());
  DING_ASSERT_OK_AND_ASSIGN(auto step_by_step, ObservationNormalizer::Create(Observation(), 10));
  step_by_step.Update(Rows().Slice(0, 1).view());
  step_by_step.Update(Rows().Slice(1, 1).view());
  for (const auto* const normalizer : {&at_once, &step_by_step}) {
    // The fields of the observation stand among others, in another order.
    const BatchBuilder rows = *BatchBuilder::Create(
        *MakeSpec({Box("obs/goal", {1}), Box("mask", {1}), Box("obs/place", {2})}), 1);
    rows.column<float>(0)[0] = 7;
    rows.column<float>(1)[0] = 3;
    rows.column<float>(2)[0] = 1;
    rows.column<float>(2)[1] = 30;
    normalizer->NormalizeInPlace(rows.view());
    EXPECT_THAT(rows.column<float>(0), testing::ElementsAre(FloatNear(1, 1e-5)));
    EXPECT_THAT(rows.column<float>(1), testing::ElementsAre(3));
    EXPECT_THAT(rows.column<float>(2),
                testing::ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
  }
}

TEST(ObservationNormalizer, ContinuesFromItsSavedState) {
  DING_ASSERT_OK_AND_ASSIGN(auto saved, ObservationNormalizer::Create(Observation(), 10));
  saved.Set(Rows().view());
  StateDict state;
  ASSERT_THAT(saved.SaveState(&state), IsOk());
  EXPECT_THAT(state.Names(), testing::Contains("model/statistics/obs/goal/mean"));
  DING_ASSERT_OK_AND_ASSIGN(auto loaded, ObservationNormalizer::Create(Observation(), 10));
  ASSERT_THAT(loaded.LoadState(&state), IsOk());
  ScratchColumns memory(Observation());
  DING_ASSERT_OK_AND_ASSIGN(const ColumnsView out, loaded.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(1), testing::ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
}

TEST(ObservationNormalizer, RefusesWhatItCannotNormalize) {
  const SpecPtr picture = *MakeSpec({Scalar("obs", DType::kUint8)});
  EXPECT_THAT(ObservationNormalizer::Create(picture, 10).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("normalize_obs is set, but 'obs' is")));
  EXPECT_THAT(ObservationNormalizer::Create(Observation(), 0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("obs_clip is 0")));
  DING_ASSERT_OK_AND_ASSIGN(const auto normalizer,
                            ObservationNormalizer::Create(Observation(), 10));
  ScratchColumns memory(Observation());
  const Batch other = std::move(*BatchBuilder::Create(*MakeSpec({Box("obs", {2})}), 1)).Seal(1);
  EXPECT_THAT(normalizer.Normalize(other.view(), &memory).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ding
