// Tests of rewards of several components, for all types of buffer: each component is what a buffer
// of that component alone draws with the same seed, which the other tests compare with brute force;
// and the n-step returns are those of a brute-force recorder.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kComponents = 3;

float ComponentOf(float reward, int64_t c) {
  return static_cast<float>(c + 1) * reward - static_cast<float>(c * c);
}

// Returns the rows with rewards of `shape`: {R} for the components 0 to R - 1 (first 0), {} for the
// number that is component `first`.
SegmentBatch WithRewards(const SegmentBatch& data, int64_t first, const Shape& shape) {
  const Spec& spec = data.rows.spec();
  const int reward = *spec.Find(kColumnReward);
  std::vector<FieldSpec> fields(spec.fields().begin(), spec.fields().end());
  fields[static_cast<size_t>(reward)] = Box(kColumnReward, shape);
  BatchBuilder made = *BatchBuilder::Create(*MakeSpec(fields), data.size());
  for (int field = 0; field < spec.size(); ++field) {
    if (field == reward) continue;
    std::copy_n(data.rows.view().raw_column(field), data.size() * spec.row_bytes(field),
                made.view().raw_column(field));
  }
  const int64_t width = NumElements(shape);
  for (int64_t row = 0; row < data.size(); ++row) {
    for (int64_t c = 0; c < width; ++c) {
      made.column<float>(reward)[row * width + c] =
          ComponentOf(data.rows.column<float>(reward)[row], first + c);
    }
  }
  SegmentBatch with = data;
  with.rows = std::move(made).Seal(data.size());
  return with;
}

class RewardComponentsTest : public testing::TestWithParam<BufferType> {};

void ExpectSameButReward(const Batch& all, const Batch& one, int64_t component) {
  ASSERT_EQ(all.rows(), one.rows());
  for (int field = 0; field < one.spec().size(); ++field) {
    const FieldSpec& spec = one.spec().field(field);
    if (spec.name != kColumnReward) {
      const int64_t bytes = one.rows() * one.spec().row_bytes(field);
      EXPECT_TRUE(std::equal(one.view().raw_column(field), one.view().raw_column(field) + bytes,
                             all.view().raw_column(field)))
          << spec.name;
      continue;
    }
    EXPECT_EQ(all.spec().field(field), Box(kColumnReward, {kComponents}));
    for (int64_t row = 0; row < one.rows(); ++row) {
      EXPECT_EQ(all.column<float>(field)[row * kComponents + component],
                one.column<float>(field)[row])
          << "row " << row;
    }
  }
}

TEST_P(RewardComponentsTest, EachComponentIsThatOfABufferOfItAlone) {
  for (const int64_t nstep : {1, 4}) {
    SCOPED_TRACE(absl::StrCat("nstep ", nstep));
    BufferSettings settings;
    settings.nstep = nstep;
    const std::unique_ptr<IBuffer> all = GetParam().make(settings);
    std::vector<std::unique_ptr<IBuffer>> one;
    for (int64_t c = 0; c < kComponents; ++c) one.push_back(GetParam().make(settings));
    TestStreams streams;
    Rng rng(3, "pushes");
    int64_t draws = 0;
    for (int i = 0; i < 40; ++i) {
      const SegmentBatch data = RandomPush(&streams, &rng, 6);
      ASSERT_THAT(all->Push(WithRewards(data, 0, {kComponents}), i), IsOk());
      for (int64_t c = 0; c < kComponents; ++c) {
        ASSERT_THAT(one[c]->Push(WithRewards(data, c, {}), i), IsOk());
      }
      SampleOptions replace;
      replace.replace = true;
      const absl::StatusOr<Batch> batch = all->Sample(5, i, replace);
      for (int64_t c = 0; c < kComponents; ++c) {
        const absl::StatusOr<Batch> of_one = one[c]->Sample(5, i, replace);
        ASSERT_EQ(batch.status(), of_one.status());
        if (!batch.ok()) continue;
        ExpectSameButReward(*batch, *of_one, c);
        ++draws;
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(draws, 60);
  }
}

TEST_P(RewardComponentsTest, ALoadedBufferDrawsTheSame) {
  BufferSettings settings;
  settings.nstep = 2;
  const std::unique_ptr<IBuffer> saved = GetParam().make(settings);
  TestStreams streams;
  Rng rng(4, "pushes");
  for (int i = 0; i < 30; ++i) {
    const SegmentBatch data = RandomPush(&streams, &rng, 6);
    ASSERT_THAT(saved->Push(WithRewards(data, 0, {kComponents}), i), IsOk());
  }
  const std::unique_ptr<IBuffer> loaded = GetParam().make(settings);
  ASSERT_THAT(LoadFrom(loaded.get(), Saved(*saved)), IsOk());
  SampleOptions replace;
  replace.replace = true;
  DING_ASSERT_OK_AND_ASSIGN(const Batch expected, saved->Sample(4, 0, replace));
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, loaded->Sample(4, 0, replace));
  EXPECT_TRUE(SameBytes(batch, expected));
  EXPECT_EQ(batch.spec().field(*batch.spec().Find(kColumnReward)).shape, Shape{kComponents});
}

TEST_P(RewardComponentsTest, RowsOfAnotherShapeAreRefused) {
  const std::unique_ptr<IBuffer> buffer = GetParam().make({});
  TestStreams streams;
  const SegmentBatch data = streams.Make({{0, 12, SegmentEnd::kTerminated}});
  ASSERT_THAT(buffer->Push(WithRewards(data, 0, {2}), 0), IsOk());
  const SegmentBatch more = streams.Make({{0, 12, SegmentEnd::kTerminated}});
  EXPECT_THAT(buffer->Push(WithRewards(more, 0, {3}), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("float32[3]")));
  EXPECT_THAT(buffer->Push(more, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("float32[]")));
}

// The windows of two episodes and of a stream that goes on, from a list of all rewards.
TEST_P(RewardComponentsTest, NStepReturnsEqualBruteForce) {
  if (!GetParam().of_rows) GTEST_SKIP() << "it draws whole sequences";
  BufferSettings settings;
  settings.nstep = 3;
  settings.gamma = 0.7;
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  TestStreams streams;
  const SegmentBatch data = WithRewards(
      streams.Make({{0, 7, SegmentEnd::kTerminated}, {1, 5, SegmentEnd::kTruncated}, {2, 6}}), 0,
      {kComponents});
  ASSERT_THAT(buffer->Push(data, 0), IsOk());
  const int reward = *data.rows.spec().Find(kColumnReward);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(18, 0));
  for (int64_t i = 0; i < 18; ++i) {
    const int64_t id = batch.column<int64_t>(kColumnReplayUniqueId)[i];
    const int64_t end = id < 7 ? 7 : id < 12 ? 12 : 18;
    for (int64_t c = 0; c < kComponents; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < 3 && id + k < end; ++k) {
        sum += std::pow(0.7, static_cast<double>(k)) *
               data.rows.column<float>(reward)[(id + k) * kComponents + c];
      }
      EXPECT_NEAR(batch.column<float>(kColumnReward)[i * kComponents + c], sum,
                  1e-5 * (1 + std::abs(sum)))
          << "row " << id << " component " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RewardComponentsTest, testing::ValuesIn(BufferTypes()),
                         NameOfBufferType);

}  // namespace
}  // namespace ding
