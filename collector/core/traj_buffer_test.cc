// Tests of layouts, storage and errors; sample_serial_collector_exactness_test.cc compares the
// collected rows with a model.
#include "ding_worker/collector/core/traj_buffer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_manager.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TrajLayout Layout(bool with_level_seed = false) {
  return *TrajLayout::Create(*MakeSpec({Box("obs/a", {2}), Scalar("obs/b", DType::kUint8)}),
                             *MakeSpec({Discrete("action", 3)}), with_level_seed);
}

TrajBuffer::Options Envs(int env_num) {
  TrajBuffer::Options options;
  options.env_num = env_num;
  return options;
}

// Acts as an env manager whose observations count up.
class Feed {
 public:
  explicit Feed(int env_num) : rows_(*BatchBuilder::Create(Layout().observation, env_num)) {}

  ReadyObs Ready(std::vector<int> env_ids) {
    ids_ = std::move(env_ids);
    for (size_t i = 0; i < ids_.size(); ++i) {
      ++count_;
      rows_.column<float>(0)[2 * i] = count_;
      rows_.column<float>(0)[2 * i + 1] = -count_;
      rows_.column<uint8_t>(1)[i] = static_cast<uint8_t>(count_);
    }
    return {ids_, rows_.view().Slice(0, static_cast<int64_t>(ids_.size()))};
  }

  // Appends a row for each env and stores the answers; the envs in `ends` terminate.
  void Step(TrajBuffer* buffer, std::vector<int> env_ids, std::vector<uint8_t> ends) {
    const absl::StatusOr<TrajBuffer::Appended> added =
        buffer->Append(Ready(std::move(env_ids)), 5, {});
    ASSERT_THAT(added, IsOk());
    for (int64_t& action : added->output.column<int64_t>(0)) action = 2;
    EXPECT_THAT(buffer->Store(Answer(std::move(ends))), IsOk());
  }

  Timesteps Answer(std::vector<uint8_t> ends) {
    ends_ = std::move(ends);
    none_.assign(ends_.size(), 0);
    reward_.assign(ends_.size(), 1.5f);
    finished_.clear();
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] == 0) continue;
      FinishedEpisode finished;
      finished.row = static_cast<int>(i);
      finished_.push_back(finished);
    }
    Timesteps steps;
    steps.env_ids = ids_;
    steps.reward = reward_;
    steps.terminated = ends_;
    steps.truncated = none_;
    steps.abnormal = none_;
    steps.finished = finished_;
    steps.final_obs = rows_.view().Slice(0, static_cast<int64_t>(finished_.size()));
    return steps;
  }

 private:
  BatchBuilder rows_;
  std::vector<int> ids_;
  float count_ = 0;
  std::vector<uint8_t> ends_;
  std::vector<uint8_t> none_;
  std::vector<float> reward_;
  std::vector<FinishedEpisode> finished_;
};

TEST(TrajLayoutTest, OrdersItsFields) {
  const TrajLayout layout = Layout(/*with_level_seed=*/true);
  std::vector<std::string> names;
  for (const FieldSpec& field : layout.row->fields()) names.push_back(field.name);
  EXPECT_THAT(names,
              ElementsAre("obs/a", "obs/b", "action", "reward", "collect_iter", "level_seed"));
  EXPECT_EQ(layout.reward, 3);
  EXPECT_EQ(layout.collect_iter, 4);
  EXPECT_EQ(layout.level_seed, 5);
  EXPECT_NE(layout, Layout());
  EXPECT_EQ(Layout(), Layout());
}

TEST(TrajBufferTest, ATruncatedEpisodeThatAllowsNoActionAtItsEndIsTerminated) {
  struct End {
    std::vector<uint8_t> mask;  // of two elements, with two and three categories
    bool truncated;
    SegmentEnd expected;
  };
  const End ends[] = {{{0, 1, 0, 0, 1}, true, SegmentEnd::kTruncated},
                      {{0, 0, 0, 0, 0}, true, SegmentEnd::kTerminated},
                      {{1, 1, 0, 0, 0}, true, SegmentEnd::kTerminated},
                      {{0, 0, 0, 0, 0}, false, SegmentEnd::kTerminated},
                      {{1, 1, 1, 1, 1}, false, SegmentEnd::kTerminated}};
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {5};
  const SpecPtr observation = *MakeSpec({mask});
  TrajBuffer buffer(
      *TrajLayout::Create(observation, *MakeSpec({MultiDiscrete("action", {2, 3})}), false),
      Envs(1));
  const BatchBuilder row = *BatchBuilder::Create(observation, 1);
  for (const End& end : ends) {
    SCOPED_TRACE(testing::PrintToString(end.mask));
    std::fill_n(row.column<uint8_t>(0).begin(), 5, uint8_t{1});
    const std::vector<int> env_ids = {0};
    const ReadyObs ready = {env_ids, row.view()};
    DING_ASSERT_OK_AND_ASSIGN(const TrajBuffer::Appended added, buffer.Append(ready, 0, {}));
    std::fill_n(added.output.column<int64_t>(0).begin(), 2, 0);
    std::copy(end.mask.begin(), end.mask.end(), row.column<uint8_t>(0).begin());
    const float reward = 1;
    const uint8_t no = 0;
    const uint8_t terminated = end.truncated ? 0 : 1;
    const uint8_t truncated = end.truncated ? 1 : 0;
    const FinishedEpisode finished;
    Timesteps steps;
    steps.env_ids = env_ids;
    steps.reward = {&reward, 1};
    steps.terminated = {&terminated, 1};
    steps.truncated = {&truncated, 1};
    steps.abnormal = {&no, 1};
    steps.finished = {&finished, 1};
    steps.final_obs = row.view();
    ASSERT_THAT(buffer.Store(steps), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(1, {}));
    EXPECT_EQ(data.segments[0].end, end.expected);
  }
}

TEST(TrajBufferTest, StoresEveryField) {
  TrajBuffer buffer(Layout(true), Envs(2));
  Feed feed(2);
  DING_ASSERT_OK_AND_ASSIGN(const TrajBuffer::Appended added,
                            buffer.Append(feed.Ready({0, 1}), 9, {70, 71}));
  EXPECT_THAT(added.obs.column<float>(0), ElementsAre(1, -1, 2, -2));
  const MutableColumnsView output = added.output;
  ASSERT_EQ(output.spec().size(), 1);
  output.column<int64_t>(0)[0] = 1;
  output.column<int64_t>(0)[1] = 2;
  ASSERT_THAT(buffer.Store(feed.Answer({0, 1})), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(10, feed.Ready({0, 1})));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  EXPECT_THAT(data.rows.column<float>("obs/a"), ElementsAre(1, -1, 2, -2));
  EXPECT_THAT(data.rows.column<uint8_t>("obs/b"), ElementsAre(1, 2));
  EXPECT_THAT(data.rows.column<int64_t>("action"), ElementsAre(1, 2));
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(1.5, 1.5));
  EXPECT_THAT(data.rows.column<int64_t>("collect_iter"), ElementsAre(9, 9));
  EXPECT_THAT(data.rows.column<int64_t>("level_seed"), ElementsAre(70, 71));
  // The row of env 0 is followed by its current observation; the episode of env 1 ended with
  // final_obs, which this test fills with the first ready row.
  EXPECT_THAT(data.final_obs.column<float>("obs/a"), ElementsAre(3, -3, 1, -1));
}

TEST(TrajBufferTest, AcceptsSomeOfTheReadyEnvs) {
  TrajBuffer buffer(Layout(), Envs(3));
  Feed feed(3);
  const ReadyObs ready = feed.Ready({0, 1, 2});
  const std::vector<int> ids = {0, 2};
  DING_ASSERT_OK_AND_ASSIGN(const TrajBuffer::Appended added,
                            buffer.Append(ActingEnvs(ids, ready.obs, {0, 2}), 0, {}));
  EXPECT_THAT(added.obs.column<float>(0), ElementsAre(1, -1, 3, -3));
  EXPECT_TRUE(buffer.under_way(0));
  EXPECT_FALSE(buffer.under_way(1));
  EXPECT_TRUE(buffer.under_way(2));
}

TrajBuffer::Options WholeEpisodes(int env_num) {
  TrajBuffer::Options options = Envs(env_num);
  options.whole_episodes = true;
  return options;
}

TEST(TrajBufferTest, ReshapesTheRewardsOfAnEpisode) {
  TrajBuffer buffer(Layout(), WholeEpisodes(2));
  Feed feed(2);
  feed.Step(&buffer, {0, 1}, {1, 0});  // an episode of env 0 before
  feed.Step(&buffer, {0, 1}, {0, 0});
  feed.Step(&buffer, {0, 1}, {1, 0});
  EXPECT_THAT(buffer.ReshapeRewards(0,
                                    [](const ColumnsView&, absl::Span<float> rewards) {
                                      rewards[0] = 99;
                                      return absl::InternalError("no");
                                    }),
              StatusIs(absl::StatusCode::kInternal));
  const auto reshape = [](const ColumnsView& rows, absl::Span<float> rewards) {
    EXPECT_THAT(rows.column<float>(0), ElementsAre(3, -3, 5, -5));
    EXPECT_THAT(rewards, ElementsAre(1.5f, 1.5f));
    rewards[0] = 7;
    rewards[1] = 8;
    return absl::OkStatus();
  };
  ASSERT_THAT(buffer.ReshapeRewards(0, reshape), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(10, feed.Ready({0, 1})));
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(1.5f, 7, 8));
}

TEST(TrajBufferTest, TakingNoRowsReleasesTheRows) {
  TrajBuffer buffer(Layout(), Envs(1));
  Feed feed(1);
  feed.Step(&buffer, {0}, {0});
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch none, buffer.Take(0, feed.Ready({0})));
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(buffer.held_rows(), 0);
  feed.Step(&buffer, {0}, {0});
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(5, feed.Ready({0})));
  ASSERT_EQ(data.segments.size(), 1u);
  EXPECT_EQ(data.segments[0].first_step, 1);
}

TEST(TrajBufferTest, StreamsAreAStrideApart) {
  TrajBuffer::Options options = Envs(2);
  options.stream_base = 10;
  options.stream_stride = 3;
  TrajBuffer buffer(Layout(), options);
  Feed feed(2);
  feed.Step(&buffer, {0, 1}, {0, 0});
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(5, feed.Ready({0, 1})));
  ASSERT_EQ(data.segments.size(), 2u);
  EXPECT_EQ(data.segments[0].stream, 10);
  EXPECT_EQ(data.segments[1].stream, 13);
}

TEST(TrajBufferTest, GrowsAndKeepsItsRows) {
  TrajBuffer buffer(Layout(), Envs(1));
  Feed feed(1);
  for (int i = 0; i < 100; ++i) feed.Step(&buffer, {0}, {0});
  EXPECT_EQ(buffer.ready_rows(), 100);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(100, feed.Ready({0})));
  ASSERT_EQ(data.segments.size(), 1u);
  for (int64_t row = 0; row < 100; ++row) {
    EXPECT_EQ(data.rows.column<float>("obs/a")[2 * row], static_cast<float>(row + 1));
  }
}

TEST(TrajBufferTest, ReturnsContiguousRowsWithoutACopy) {
  TrajBuffer buffer(Layout(), Envs(2));
  Feed feed(2);
  const auto take = [&](int steps) {
    const std::byte* arena = nullptr;
    for (int i = 0; i < steps; ++i) {
      const absl::StatusOr<TrajBuffer::Appended> added = buffer.Append(feed.Ready({0, 1}), 0, {});
      EXPECT_THAT(added, IsOk());
      if (i == 0) arena = added->output.raw_column(0);
      EXPECT_THAT(buffer.Store(feed.Answer({0, 0})), IsOk());
    }
    const absl::StatusOr<SegmentBatch> data = buffer.Take(100, feed.Ready({0, 1}));
    EXPECT_THAT(data, IsOk());
    return data->rows.view().raw_column(2) == arena;
  };
  ASSERT_THAT(buffer.Reserve(4), IsOk());
  EXPECT_TRUE(take(1));
  ASSERT_THAT(buffer.Reserve(4), IsOk());
  EXPECT_FALSE(take(2));
}

TEST(TrajBufferTest, KeepsTheNewestRowsOfALongEpisode) {
  TrajBuffer::Options options = Envs(1);
  options.whole_episodes = true;
  options.maxlen = 3;
  TrajBuffer buffer(Layout(), options);
  Feed feed(1);
  // The last observation counts up from 1; an episode of 3 rows is kept whole.
  for (int step = 1; step <= 3; ++step) feed.Step(&buffer, {0}, {step == 3});
  for (int step = 4; step <= 1000; ++step) feed.Step(&buffer, {0}, {step == 1000});
  EXPECT_EQ(buffer.ready_rows(), 6);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(100, {}));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  ASSERT_EQ(data.segments.size(), 2u);
  EXPECT_THAT(data.rows.column<uint8_t>(1),
              ElementsAre(1, 2, 3, uint8_t{998 % 256}, uint8_t{999 % 256}, uint8_t{1000 % 256}));
  EXPECT_EQ(data.segments[1].first_step, 997) << "dropped rows keep their number";
  EXPECT_EQ(data.segments[1].end, SegmentEnd::kTerminated);
  EXPECT_EQ(buffer.held_rows(), 0);
}

// Without whole_episodes, maxlen rows are a trajectory.
TEST(TrajBufferTest, Maxlen_RowsAreReadyByTrajectories) {
  TrajBuffer::Options options = Envs(2);
  options.maxlen = 2;
  TrajBuffer buffer(Layout(), options);
  Feed feed(2);
  feed.Step(&buffer, {0, 1}, {0, 1});
  EXPECT_EQ(buffer.ready_rows(), 1) << "the episode of env 1 is over";
  feed.Step(&buffer, {0, 1}, {0, 0});
  EXPECT_EQ(buffer.ready_rows(), 2 + 1) << "env 0 has two rows";
  feed.Step(&buffer, {0}, {0});
  EXPECT_EQ(buffer.held_rows(), 2);
  StateDict state;
  ASSERT_THAT(buffer.SaveState(&state), IsOk());
  TrajBuffer restored(Layout(), options);
  ASSERT_THAT(restored.LoadState(&state), IsOk());
  EXPECT_EQ(restored.ready_rows(), 2 + 1);
  EXPECT_EQ(restored.held_rows(), 2);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, restored.Take(100, feed.Ready({0, 1})));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  ASSERT_EQ(data.segments.size(), 2u);
  EXPECT_EQ(data.segments[0].length, 2);
  EXPECT_EQ(data.segments[0].end, SegmentEnd::kCut);
  feed.Step(&restored, {0, 1}, {0, 0});
  EXPECT_EQ(restored.ready_rows(), 2 + 2) << "both trajectories go on with the rows that waited";
}

// An env answers later than another one that was asked after it; then old rows are dropped.
TEST(TrajBufferTest, KeepsTheLastObservationOfEachEpisodeWhenItDropsOldRows) {
  TrajBuffer::Options options = Envs(2);
  options.whole_episodes = true;
  options.maxlen = 2;
  TrajBuffer buffer(Layout(), options);
  Feed feed(2);
  ASSERT_THAT(buffer.Append(feed.Ready({1}), 0, {}), IsOk());
  feed.Step(&buffer, {0}, {1});
  feed.Ready({1});
  ASSERT_THAT(buffer.Store(feed.Answer({1})), IsOk());
  for (int step = 0; step < 50; ++step) feed.Step(&buffer, {0}, {0});
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(100, {}));
  EXPECT_THAT(data.rows.column<uint8_t>(1), ElementsAre(1, 2)) << "of env 1, of env 0";
  EXPECT_THAT(data.final_obs.column<uint8_t>(1), ElementsAre(3, 2));
}

// Rows that wait for their answer survive the copy to a smaller arena.
TEST(TrajBufferTest, KeepsPendingRowsWhenItDropsOldOnes) {
  TrajBuffer::Options options = Envs(2);
  options.whole_episodes = true;
  options.maxlen = 2;
  TrajBuffer buffer(Layout(), options);
  Feed feed(2);
  ASSERT_THAT(buffer.Append(feed.Ready({1}), 0, {}), IsOk());
  for (int step = 0; step < 50; ++step) feed.Step(&buffer, {0}, {0});
  EXPECT_TRUE(buffer.under_way(1));
  EXPECT_EQ(buffer.held_rows(), 2 + 1);
  feed.Ready({1});
  ASSERT_THAT(buffer.Store(feed.Answer({1})), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(100, {}));
  EXPECT_THAT(data.rows.column<uint8_t>(1), ElementsAre(1));
}

TEST(TrajBufferTest, ReturnsNothingWithoutReadyRows) {
  TrajBuffer buffer(Layout(), Envs(1));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, buffer.Take(10, {}));
  EXPECT_EQ(data.size(), 0);
  EXPECT_TRUE(data.segments.empty());
}

TEST(TrajBufferTest, RefusesContradictionsOfAnEnvManager) {
  TrajBuffer buffer(Layout(), Envs(2));
  Feed feed(3);
  EXPECT_THAT(buffer.Append(feed.Ready({2}), 0, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("env 2 is ready")));
  ASSERT_THAT(buffer.Append(feed.Ready({0}), 0, {}), IsOk());
  EXPECT_THAT(buffer.Append(feed.Ready({0}), 0, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("being stepped")));
  feed.Ready({1});
  EXPECT_THAT(buffer.Store(feed.Answer({0})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("env 1, which was not stepped")));
  feed.Ready({0});
  Timesteps ended = feed.Answer({1});
  ended.finished = {};
  EXPECT_THAT(buffer.Store(ended),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("env 0"), HasSubstr("without last observation"))));
}

TEST(TrajBufferTest, AnEnvInMidEpisodeMustHaveItsObservation) {
  TrajBuffer buffer(Layout(), Envs(2));
  Feed feed(2);
  feed.Step(&buffer, {0, 1}, {0, 0});
  EXPECT_THAT(buffer.Take(10, feed.Ready({0})),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("env 1")));
  EXPECT_EQ(buffer.ready_rows(), 2);
}

TEST(TrajBufferTest, DoesNotSaveAPendingRow) {
  TrajBuffer buffer(Layout(), Envs(2));
  Feed feed(2);
  feed.Step(&buffer, {0}, {0});
  ASSERT_THAT(buffer.Append(feed.Ready({1}), 0, {}), IsOk());
  StateDict state;
  ASSERT_THAT(buffer.SaveState(&state), IsOk());
  TrajBuffer restored(Layout(), Envs(2));
  ASSERT_THAT(restored.LoadState(&state), IsOk());
  EXPECT_EQ(restored.ready_rows(), 1);
  EXPECT_EQ(restored.held_rows(), 0);
  EXPECT_FALSE(restored.under_way(1));
  EXPECT_EQ(restored.next_step()[1], 1) << "its number is not used again";
}

TEST(TrajBufferTest, RefusesAStateOfAnotherLayoutAndAnImpossibleOne) {
  TrajBuffer buffer(Layout(), Envs(2));
  Feed feed(2);
  feed.Step(&buffer, {0, 1}, {0, 1});
  StateDict state;
  ASSERT_THAT(buffer.SaveState(&state), IsOk());

  TrajBuffer with_seed(Layout(true), Envs(2));
  EXPECT_THAT(with_seed.LoadState(&state),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rows/level_seed")));
  TrajLayout wide =
      *TrajLayout::Create(*MakeSpec({Box("obs/a", {5}), Scalar("obs/b", DType::kUint8)}),
                          *MakeSpec({Discrete("action", 3)}), false);
  TrajBuffer wider(wide, Envs(2));
  EXPECT_THAT(wider.LoadState(&state),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rows/obs/a"), HasSubstr("[2, 5]"))));
  TrajBuffer one(Layout(), Envs(1));
  EXPECT_THAT(one.LoadState(&state), StatusIs(absl::StatusCode::kInvalidArgument));

  for (const char* const name : {"row_env", "row_state"}) {
    TensorMap tensors = state.tensors();
    tensors.Set(name, Tensor::FromSpan<int64_t>({2}, {0, 9}));
    StateDict broken(std::move(tensors), "broken");
    EXPECT_THAT(buffer.LoadState(&broken), StatusIs(absl::StatusCode::kDataLoss)) << name;
  }
  EXPECT_EQ(buffer.ready_rows(), 2);
  EXPECT_THAT(buffer.LoadState(&state), IsOk());
  EXPECT_EQ(buffer.ready_rows(), 2);
}

TrajBuffer::Options SamplesOf(int64_t unroll_len) {
  TrajBuffer::Options options = Envs(1);
  options.unroll_len = unroll_len;
  return options;
}

TEST(TrajBufferTest, CountsSamples) {
  TrajBuffer buffer(Layout(), SamplesOf(2));
  Feed feed(1);
  for (const uint8_t ends : {0, 0, 0, 0, 1, 0, 0, 0}) feed.Step(&buffer, {0}, {ends});
  EXPECT_EQ(buffer.ready_samples(), 4) << "2 + 2 + 1 rows, 2 rows, and a row of an unfinished one";
  EXPECT_THAT(buffer.Take(8, feed.Ready({0})), IsOk());
  EXPECT_THAT(buffer.taken_samples(), ElementsAre(3, 1));
  EXPECT_EQ(buffer.ready_samples(), 0);
  feed.Step(&buffer, {0}, {0});
  EXPECT_EQ(buffer.ready_samples(), 1) << "with the row of before";
}

TEST(TrajBufferTest, SamplesBeginAnewAfterDroppedRows) {
  TrajBuffer buffer(Layout(), SamplesOf(3));
  Feed feed(1);
  for (int i = 0; i < 5; ++i) feed.Step(&buffer, {0}, {0});
  EXPECT_THAT(buffer.Take(4, ReadyObs()), IsOk());  // The fifth row is dropped.
  EXPECT_THAT(buffer.taken_samples(), ElementsAre(1));
  for (int i = 0; i < 2; ++i) feed.Step(&buffer, {0}, {0});
  EXPECT_EQ(buffer.ready_samples(), 0);
  feed.Step(&buffer, {0}, {0});
  EXPECT_EQ(buffer.ready_samples(), 1);
}

TEST(TrajBufferTest, SamplesGoOnInABufferThatTakesOverWithoutALoss) {
  for (const bool lost : {false, true}) {
    SCOPED_TRACE(lost);
    TrajBuffer old(Layout(), SamplesOf(3));
    Feed feed(1);
    for (int i = 0; i < 2; ++i) feed.Step(&old, {0}, {0});
    if (!lost) {
      EXPECT_THAT(old.Take(2, feed.Ready({0})), IsOk());
    }
    TrajBuffer buffer(Layout(), SamplesOf(3));
    buffer.ContinueAfter(old);
    feed.Step(&buffer, {0}, {0});
    EXPECT_EQ(buffer.ready_samples(), lost ? 0 : 1);
    EXPECT_FALSE(buffer.Fits(TrajBuffer(Layout(), SamplesOf(2))));
  }
}

}  // namespace
}  // namespace ding
