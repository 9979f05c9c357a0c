#include "ding_worker/policy/recurrent_states.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(RecurrentStatesTest, BeginAtZero) {
  RecurrentStates states(2);
  EXPECT_THAT(states.Gather({7, 0}), ElementsAre(0, 0, 0, 0));
}

TEST(RecurrentStatesTest, AgreeWithAMapUnderRandomOperations) {
  constexpr int kSize = 3;
  Rng rng(/*seed=*/1, "test");
  RecurrentStates states(kSize);
  std::map<int, std::vector<float>> expected;
  for (int step = 0; step < 2000; ++step) {
    std::vector<int> envs;
    for (int env = 0; env < 6; ++env) {
      if (rng.UniformInt(2) == 0) envs.push_back(env);
    }
    if (rng.UniformInt(4) == 0) {
      if (envs.empty()) expected.clear();
      for (const int env : envs) expected.erase(env);
      states.Reset(envs);
      continue;
    }
    const absl::Span<float> rows = states.Gather(envs);
    for (size_t i = 0; i < envs.size(); ++i) {
      const auto found = expected.find(envs[i]);
      const absl::Span<float> row = rows.subspan(i * kSize, kSize);
      if (found == expected.end()) {
        ASSERT_THAT(row, Each(0)) << "env " << envs[i] << " in step " << step;
      } else {
        ASSERT_EQ(std::vector<float>(row.begin(), row.end()), found->second)
            << "env " << envs[i] << " in step " << step;
      }
      for (float& value : row) value = static_cast<float>(rng.Uniform(-1, 1));
      expected[envs[i]].assign(row.begin(), row.end());
    }
    states.Scatter(envs);
  }
}

TEST(RecurrentStatesTest, LoadWhatTheySaved) {
  RecurrentStates saved(2);
  absl::Span<float> rows = saved.Gather({1});
  rows[0] = 0.5f;
  rows[1] = -3;
  saved.Scatter({1});
  StateDict state;
  ASSERT_THAT(saved.SaveState(&state), IsOk());
  RecurrentStates loaded(2);
  ASSERT_THAT(loaded.LoadState(&state), IsOk());
  EXPECT_THAT(loaded.Gather({0, 1, 2}), ElementsAre(0, 0, 0.5f, -3, 0, 0));
}

TEST(RecurrentStatesTest, HaveMemoryForTheIdsThatWereUsed) {
  RecurrentStates states(int64_t{1} << 20);
  const std::vector<int> ids = {RecurrentStates::kMaxIds - 1, 3};
  states.Gather(ids)[0] = 5;
  states.Scatter(ids);  // 4 TiB, if all ids had a state
  EXPECT_EQ(states.Gather({3, RecurrentStates::kMaxIds - 1})[size_t{1} << 20], 5);
}

TEST(RecurrentStatesTest, RefuseStatesThatDoNotFitAndKeepTheirOwn) {
  RecurrentStates states(2);
  states.Gather({0})[0] = 4;
  states.Scatter({0});

  StateDict other_size;
  ASSERT_THAT(RecurrentStates(3).SaveState(&other_size), IsOk());
  EXPECT_THAT(states.LoadState(&other_size).ToString(), HasSubstr("of 3 floats, expected 2"));

  StateDict half_a_row;
  ASSERT_THAT(half_a_row.WriteInt("size", 2), IsOk());
  ASSERT_THAT(half_a_row.WriteSpan<float>("states", std::vector<float>{1, 2, 3}), IsOk());
  EXPECT_THAT(states.LoadState(&half_a_row).ToString(), HasSubstr("have 3 floats in all"));

  StateDict nan;
  ASSERT_THAT(nan.WriteInt("size", 2), IsOk());
  ASSERT_THAT(nan.WriteSpan<float>(
                  "states", std::vector<float>{1, 2, 3, std::numeric_limits<float>::quiet_NaN()}),
              IsOk());
  EXPECT_THAT(states.LoadState(&nan).ToString(), HasSubstr("state of env 1 holds nan"));

  EXPECT_THAT(states.Gather({0}), ElementsAre(4, 0));
}

}  // namespace
}  // namespace ding
