#include "ding_worker/replay_buffer/hindsight_buffer.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr float kOwnGoal = -7;
constexpr float kOwnReward = -1;

SpecPtr ObsSpec() {
  return *MakeSpec({Box("obs/achieved_goal", {2}), Box("obs/desired_goal", {2})});
}

// Rows `first` to `first + length - 1` of an episode: the goal that is achieved before row t is
// {episode, t}.
SegmentBatch Rows(int64_t episode, int64_t first, int64_t length, SegmentEnd end) {
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs/achieved_goal", {2}), Box("obs/desired_goal", {2}), Discrete("action", 2),
                 Scalar("reward", DType::kFloat32), Scalar("collect_iter", DType::kInt64)}),
      length);
  BatchBuilder last = *BatchBuilder::Create(ObsSpec(), 1);
  const auto fill = [&](const BatchBuilder& to, int64_t row, int64_t t) {
    to.column<float>(0)[2 * row] = static_cast<float>(episode);
    to.column<float>(0)[2 * row + 1] = static_cast<float>(t);
    to.column<float>(1)[2 * row] = to.column<float>(1)[2 * row + 1] = kOwnGoal;
  };
  for (int64_t i = 0; i < length; ++i) {
    fill(rows, i, first + i);
    rows.column<int64_t>(2)[i] = 0;
    rows.column<float>(3)[i] = kOwnReward;
    rows.column<int64_t>(4)[i] = 0;
  }
  fill(last, 0, first + length);
  SegmentBatch batch;
  batch.rows = std::move(rows).Seal(length);
  batch.final_obs = std::move(last).Seal(1);
  // The stream of an episode is its number modulo 2, so that two streams interleave.
  batch.segments.push_back({episode % 2, 100 * (episode / 2) + first, 0, length, end});
  return batch;
}

HindsightReplayBuffer::Options OptionsOf(HindsightGoal goal, double ratio = 1) {
  HindsightReplayBuffer::Options options;
  options.capacity_rows = 1000;
  options.hindsight = {goal, ratio, /*radius=*/0.5};
  options.seed = 3;
  return options;
}

// Fills a buffer with four episodes of 6 rows, in pieces that interleave.
void Fill(HindsightReplayBuffer* buffer) {
  for (const int64_t episode : {0, 2}) {
    for (const int64_t first : {0, 3}) {
      for (const int64_t other : {0, 1}) {
        ASSERT_THAT(buffer->Push(Rows(episode + other, first, 3,
                                      first == 3 ? SegmentEnd::kTruncated : SegmentEnd::kCut),
                                 0),
                    IsOk());
      }
    }
  }
}

struct Counts {
  std::map<int64_t, int64_t> ahead;  // goals by their distance from the row
  int64_t own = 0;
  int64_t last = 0;
};

// Draws many rows and checks that each new goal is of the row's episode and has its reward.
Counts Draw(HindsightReplayBuffer* buffer) {
  Counts counts;
  for (int draw = 0; draw < 200; ++draw) {
    const Batch batch = buffer->Sample(16, 0).value();
    for (int64_t row = 0; row < 16; ++row) {
      const auto at = [&](const char* column, int64_t i) {
        return batch.column<float>(column)[2 * row + i];
      };
      EXPECT_EQ(at("obs/desired_goal", 0), at("next_obs/desired_goal", 0));
      EXPECT_EQ(at("obs/desired_goal", 1), at("next_obs/desired_goal", 1));
      const float reward = batch.column<float>("reward")[row];
      if (at("obs/desired_goal", 0) == kOwnGoal) {
        ++counts.own;
        EXPECT_EQ(reward, kOwnReward);
        continue;
      }
      EXPECT_EQ(at("obs/desired_goal", 0), at("obs/achieved_goal", 0)) << "another episode";
      const float goal = at("obs/desired_goal", 1);
      EXPECT_EQ(reward, goal == at("next_obs/achieved_goal", 1) ? 0 : -1);
      ++counts.ahead[static_cast<int64_t>(goal - at("obs/achieved_goal", 1))];
      if (goal == 6) ++counts.last;
    }
  }
  return counts;
}

TEST(HindsightReplayBuffer, FutureTakesGoalsOfTheRowAndThoseBehindIt) {
  const auto buffer = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kFuture));
  Fill(buffer.get());
  const Counts counts = Draw(buffer.get());
  EXPECT_EQ(counts.own, 0);
  EXPECT_EQ(counts.ahead.begin()->first, 1);
  EXPECT_EQ(counts.ahead.rbegin()->first, 6);
  // A goal is one step ahead with the probability (1 + 1/2 + ... + 1/6) / 6.
  EXPECT_NEAR(static_cast<double>(counts.ahead.at(1)) / 3200, 2.45 / 6, 0.05);
}

TEST(HindsightReplayBuffer, FinalTakesTheLastGoal) {
  const auto buffer = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kFinal));
  Fill(buffer.get());
  EXPECT_EQ(Draw(buffer.get()).last, 3200);
}

TEST(HindsightReplayBuffer, EpisodeTakesAllGoalsAlsoAfterLoading) {
  const auto buffer = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kEpisode));
  Fill(buffer.get());
  // An episode that goes on after the state was saved.
  ASSERT_THAT(buffer->Push(Rows(4, 0, 3, SegmentEnd::kCut), 0), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto loaded = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kEpisode));
  ASSERT_THAT(loaded->LoadState(&state), IsOk());
  for (HindsightReplayBuffer* const each : {buffer.get(), loaded.get()}) {
    ASSERT_THAT(each->Push(Rows(4, 3, 3, SegmentEnd::kTruncated), 0), IsOk());
  }
  const Counts counts = Draw(buffer.get());
  EXPECT_EQ(Draw(loaded.get()).ahead, counts.ahead) << "a resumed run draws the same";
  EXPECT_EQ(counts.ahead.begin()->first, -4);
  EXPECT_EQ(counts.ahead.rbegin()->first, 6);
  EXPECT_NEAR(static_cast<double>(counts.last) / 3200, 1.0 / 6, 0.03);
}

TEST(HindsightReplayBuffer, GoalsStayWithinTheRowsThatAreLeft) {
  HindsightReplayBuffer::Options options = OptionsOf(HindsightGoal::kEpisode);
  options.capacity_rows = 20;  // of 24
  const auto buffer = *HindsightReplayBuffer::Create(options);
  Fill(buffer.get());
  const Counts counts = Draw(buffer.get());
  EXPECT_FALSE(counts.ahead.empty());
}

TEST(HindsightReplayBuffer, KeepsTheOwnGoalsOfTheOtherRows) {
  const auto buffer = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kFuture, 0.8));
  Fill(buffer.get());
  EXPECT_NEAR(static_cast<double>(Draw(buffer.get()).own) / 3200, 0.2, 0.03);
}

// Rows of one episode that goes from {0, 0} along the second axis towards {0, 3}, with these
// rewards.
SegmentBatch TowardsGoal(const std::vector<float>& rewards) {
  const auto length = static_cast<int64_t>(rewards.size());
  SegmentBatch batch = Rows(0, 0, length, SegmentEnd::kTruncated);
  BatchBuilder changed = *BatchBuilder::Create(batch.rows.spec_ptr(), length);
  CopyRows(batch.rows.view(), changed.view(), 0);
  for (size_t i = 0; i < rewards.size(); ++i) {
    changed.column<float>(1)[2 * i] = 0;
    changed.column<float>(1)[2 * i + 1] = 3;
    changed.column<float>(3)[i] = rewards[i];
  }
  batch.rows = std::move(changed).Seal(length);
  return batch;
}

TEST(HindsightReplayBuffer, ARewardThatARelabelledRowWouldNotGetIsRefused) {
  const auto push = [](float at_goal, float elsewhere, const std::vector<float>& rewards) {
    HindsightReplayBuffer::Options options = OptionsOf(HindsightGoal::kFuture);
    options.hindsight.reward_at_goal = at_goal;
    options.hindsight.reward_elsewhere = elsewhere;
    return (*HindsightReplayBuffer::Create(options))->Push(TowardsGoal(rewards), 0);
  };
  // Row i achieves {0, i + 1}; the third one is at the goal.
  EXPECT_THAT(push(0, -1, {-1, -1, 0, -1}), IsOk());
  EXPECT_THAT(push(1, 0, {0, 0, 1, 0}), IsOk());
  EXPECT_THAT(push(0.3f, -0.1f, {-0.1f, -0.1f, 0.1f * 3, -0.1f}), IsOk()) << "rounding";
  EXPECT_THAT(push(0, -1, {0, 0, 1, 0}),
              IsInvalid("row 0 (step 0 of stream 0): the env's reward is 0, but a relabelled "
                        "row with these goals would get -1",
                        "set reward_elsewhere: 0"));
  EXPECT_THAT(push(0, -1, {-1, -1, 1, -1}), IsInvalid("row 2",
                                                      "reward_at_goal is 0, and the achieved "
                                                      "goal is 0 from the desired one",
                                                      "set reward_at_goal: 1"));
  EXPECT_THAT(push(0, -1, {-1, -1, -1, 0}), IsInvalid()) << "the last row, by the last observation";
  // A dense reward.
  EXPECT_THAT(push(0, -1, {-2, -1, 0, -1}), IsInvalid("cannot be relabelled"));
}

TEST(HindsightReplayBuffer, ADistanceThatIsTheRadiusButForRoundingIsNotJudged) {
  HindsightReplayBuffer::Options options = OptionsOf(HindsightGoal::kFuture);
  options.hindsight.radius = 1 - 1e-7;
  const auto buffer = *HindsightReplayBuffer::Create(options);
  EXPECT_THAT(buffer->Push(TowardsGoal({-1, 0, 0, 0}), 0), IsOk());
}

TEST(HindsightReplayBuffer, RelabelledRowsGetTheConfiguredRewards) {
  HindsightReplayBuffer::Options options = OptionsOf(HindsightGoal::kFuture);
  options.hindsight.reward_at_goal = 1;
  options.hindsight.reward_elsewhere = 0;
  const auto buffer = *HindsightReplayBuffer::Create(options);
  ASSERT_THAT(buffer->Push(TowardsGoal({0, 0, 1, 0}), 0), IsOk());
  for (int draw = 0; draw < 20; ++draw) {
    const Batch batch = buffer->Sample(4, 0).value();
    for (int64_t row = 0; row < 4; ++row) {
      const bool there = batch.column<float>("obs/desired_goal")[2 * row + 1] ==
                         batch.column<float>("next_obs/achieved_goal")[2 * row + 1];
      EXPECT_EQ(batch.column<float>("reward")[row], there ? 1 : 0);
    }
  }
}

TEST(HindsightReplayBuffer, RefusesRowsWithoutGoalsAndOptionsOutOfRange) {
  const auto buffer = *HindsightReplayBuffer::Create(OptionsOf(HindsightGoal::kFuture));
  SegmentBatch plain = Rows(0, 0, 3, SegmentEnd::kCut);
  BatchBuilder rows = *BatchBuilder::Create(
      *MakeSpec({Box("obs", {2}), Discrete("action", 2), Scalar("reward", DType::kFloat32),
                 Scalar("collect_iter", DType::kInt64)}),
      3);
  plain.rows = std::move(rows).Seal(3);
  plain.final_obs = (*BatchBuilder::Create(*MakeSpec({Box("obs", {2})}), 1)).Seal(1);
  EXPECT_THAT(buffer->Push(plain, 0), IsInvalid("the env has no goals"));
  HindsightReplayBuffer::Options options = OptionsOf(HindsightGoal::kFuture, 1.5);
  options.nstep = 3;
  options.hindsight.radius = 0;
  options.hindsight.reward_at_goal = -1;
  EXPECT_THAT(HindsightReplayBuffer::Create(options),
              IsInvalid("nstep is 3", "relabel_ratio is 1.5", "radius is 0, expected above 0",
                        "reward_at_goal is -1 and reward_elsewhere -1, expected two "
                        "different numbers"));
}

}  // namespace
}  // namespace ding
