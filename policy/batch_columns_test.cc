#include "ding_worker/policy/batch_columns.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/observation_normalizer.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::IsEmpty;

SpecPtr Observation() {
  return *MakeSpec({Box("obs/position", {2}), Scalar("obs/ticks", DType::kUint8)});
}

// The columns in another order, with further ones.
std::vector<FieldSpec> Fields() {
  return {Scalar("discount", DType::kFloat32),
          Discrete("action", 3),
          Scalar("next_obs/ticks", DType::kUint8),
          Scalar("obs/ticks", DType::kUint8),
          Scalar("logit", DType::kFloat32),
          Box("next_obs/position", {2}),
          Box("obs/position", {2}),
          Scalar("reward", DType::kFloat32)};
}

// Makes rows whose float column i has the values 10 i, 10 i + 1, ...; categories and bytes count
// from 0.
BatchBuilder MakeRows(std::vector<FieldSpec> fields, int64_t rows) {
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), rows);
  for (int i = 0; i < builder.spec().size(); ++i) {
    int64_t n = 0;
    switch (builder.spec().field(i).dtype) {
      case DType::kFloat32:
        for (float& value : builder.column<float>(i)) value = static_cast<float>(10 * i + n++);
        break;
      case DType::kInt64:
        for (int64_t& value : builder.column<int64_t>(i)) value = n++ % 3;
        break;
      default:
        for (uint8_t& value : builder.column<uint8_t>(i)) value = static_cast<uint8_t>(i + n++);
    }
  }
  return builder;
}

TEST(SampledTransitionReader, FindsColumnsByNameInSlicesToo) {
  SampledTransitionReader reader(Observation(), DiscreteAction());
  const Batch batch = MakeRows(Fields(), 4).Seal(4).Slice(1, 2);
  DING_ASSERT_OK_AND_ASSIGN(const TransitionView view, reader.Read(batch));
  EXPECT_EQ(view.obs.rows(), 2);
  EXPECT_THAT(view.obs.column<float>(0), ElementsAre(62, 63, 64, 65));
  EXPECT_THAT(view.obs.column<uint8_t>(1), ElementsAre(4, 5));
  EXPECT_THAT(view.next_obs.column<float>(0), ElementsAre(52, 53, 54, 55));
  EXPECT_THAT(view.next_obs.column<uint8_t>(1), ElementsAre(3, 4));
  EXPECT_THAT(view.action.column<int64_t>(0), ElementsAre(1, 2));
  EXPECT_THAT(view.reward, ElementsAre(71, 72));
  EXPECT_THAT(view.discount, ElementsAre(1, 2));
  EXPECT_THAT(view.weight, IsEmpty());
}

TEST(SampledTransitionReader, AcceptsAnotherLayoutInTheNextBatch) {
  SampledTransitionReader reader(Observation(), DiscreteAction());
  const Batch plain = MakeRows(Fields(), 2).Seal(2);
  std::vector<FieldSpec> fields = Fields();
  fields.insert(fields.begin(), Scalar("weight", DType::kFloat32));
  const Batch weighted = MakeRows(std::move(fields), 2).Seal(2);
  ASSERT_THAT(reader.Read(plain), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const TransitionView with, reader.Read(weighted));
  EXPECT_THAT(with.weight, ElementsAre(0, 1));
  EXPECT_THAT(with.reward, ElementsAre(80, 81));
  DING_ASSERT_OK_AND_ASSIGN(const TransitionView without, reader.Read(plain));
  EXPECT_THAT(without.weight, IsEmpty());
  EXPECT_THAT(without.reward, ElementsAre(70, 71));
}

TEST(SampledTransitionReader, RefusesMissingColumnsAndOtherTypes) {
  SampledTransitionReader reader(Observation(), DiscreteAction());
  for (size_t i = 0; i < Fields().size(); ++i) {
    std::vector<FieldSpec> fields = Fields();
    const std::string name = fields[i].name;
    if (name == "logit") continue;
    fields[i] = Scalar(name, DType::kInt32);
    BatchBuilder other = *BatchBuilder::Create(*MakeSpec(fields), 1);
    EXPECT_THAT(reader.Read(std::move(other).Seal(1)),
                IsInvalid("'" + name + "' is int32", "expected"));
    fields.erase(fields.begin() + static_cast<int>(i));
    BatchBuilder without = *BatchBuilder::Create(*MakeSpec(fields), 1);
    EXPECT_THAT(reader.Read(std::move(without).Seal(1)),
                IsInvalid("column '" + name + "' is missing"));
  }
  EXPECT_THAT(reader.Read(MakeRows(Fields(), 1).Seal(0)), IsInvalid("no rows"));
}

TEST(SampledTransitionReader, RefusesNonFiniteValuesAndUnknownCategories) {
  SampledTransitionReader reader(Observation(), DiscreteAction());
  std::vector<FieldSpec> fields = Fields();
  fields.push_back(Scalar("weight", DType::kFloat32));
  for (const char* name : {"obs/position", "next_obs/position", "reward", "discount", "weight"}) {
    BatchBuilder builder = MakeRows(fields, 3);
    const int index = *builder.spec().Find(name);
    builder.column<float>(index).back() = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(reader.Read(std::move(builder).Seal(3)),
                IsInternal(std::string("'") + name + "', row 2 holds nan"));
  }
  for (const int64_t action : {-1, 3}) {
    BatchBuilder builder = MakeRows(fields, 3);
    builder.column<int64_t>(1)[1] = action;
    EXPECT_THAT(reader.Read(std::move(builder).Seal(3)),
                IsInvalid("'action', row 1", "expected 0..2"));
  }
}

SpecPtr Place() { return *MakeSpec({Box("obs/place", {2}), Box("obs/goal", {1})}); }

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
  DING_ASSERT_OK_AND_ASSIGN(auto normalizer, ObservationNormalizer::Create(Place(), 10));
  ScratchColumns memory(Place());
  DING_ASSERT_OK_AND_ASSIGN(ColumnsView out, normalizer.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(0), ElementsAre(1, 10, 3, 10)) << "only clipped";
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_THAT(normalizer.Set(OnePart(Rows().Slice(0, 1 + repetition))), IsOk());
  }
  DING_ASSERT_OK_AND_ASSIGN(out, normalizer.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(0), ElementsAre(FloatNear(-1, 1e-5), FloatNear(-1, 1e-5),
                                                FloatNear(1, 1e-5), FloatNear(1, 1e-5)));
  EXPECT_THAT(out.column<float>(1), ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
}

TEST(ObservationNormalizer, AddsRowsAndNormalizesInPlace) {
  DING_ASSERT_OK_AND_ASSIGN(auto at_once, ObservationNormalizer::Create(Place(), 10));
  ASSERT_THAT(at_once.Set(OnePart(Rows())), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(auto step_by_step, ObservationNormalizer::Create(Place(), 10));
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
    EXPECT_THAT(rows.column<float>(0), ElementsAre(FloatNear(1, 1e-5)));
    EXPECT_THAT(rows.column<float>(1), ElementsAre(3));
    EXPECT_THAT(rows.column<float>(2), ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
  }
}

TEST(ObservationNormalizer, ContinuesFromItsSavedState) {
  DING_ASSERT_OK_AND_ASSIGN(auto saved, ObservationNormalizer::Create(Place(), 10));
  ASSERT_THAT(saved.Set(OnePart(Rows())), IsOk());
  StateDict state;
  ASSERT_THAT(saved.SaveState(&state), IsOk());
  EXPECT_THAT(state.Names(), testing::Contains("model/statistics/obs/goal/mean"));
  DING_ASSERT_OK_AND_ASSIGN(auto loaded, ObservationNormalizer::Create(Place(), 10));
  ASSERT_THAT(loaded.LoadState(&state), IsOk());
  ScratchColumns memory(Place());
  DING_ASSERT_OK_AND_ASSIGN(const ColumnsView out, loaded.Normalize(Rows().view(), &memory));
  EXPECT_THAT(out.column<float>(1), ElementsAre(FloatNear(-1, 1e-5), FloatNear(1, 1e-5)));
}

TEST(ObservationNormalizer, RefusesWhatItCannotNormalize) {
  const SpecPtr picture = *MakeSpec({Scalar("obs", DType::kUint8)});
  EXPECT_THAT(ObservationNormalizer::Create(picture, 10).status(),
              IsInvalid("normalize_obs is set, but 'obs' is"));
  EXPECT_THAT(ObservationNormalizer::Create(Place(), 0).status(), IsInvalid("obs_clip is 0"));
  DING_ASSERT_OK_AND_ASSIGN(const auto normalizer, ObservationNormalizer::Create(Place(), 10));
  ScratchColumns memory(Place());
  const Batch other = std::move(*BatchBuilder::Create(*MakeSpec({Box("obs", {2})}), 1)).Seal(1);
  EXPECT_THAT(normalizer.Normalize(other.view(), &memory).status(), IsInvalid());
}

TEST(Argmax, TakesTheLowestOfEqualValues) {
  EXPECT_EQ(Argmax({1, 3, 3, 2}), 1);
  EXPECT_EQ(Argmax({-1}), 0);
}

TEST(Argmax, TakesLegalValuesOnly) {
  EXPECT_EQ(Argmax({1, 3, 3}, {1, 1, 1}), 1);
  EXPECT_EQ(Argmax({1, 3, 3}, {1, 0, 1}), 2);
  EXPECT_EQ(Argmax({1, 3, 3}, {0, 0, 0}), -1);
}

}  // namespace
}  // namespace ding
