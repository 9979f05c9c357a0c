#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/pixel_game/orchard.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kSize = kOrchardSize;
constexpr int kGround = kSize - 1;

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& type) {
  EnvConfig config;
  config.set_type(type);
  return create_env(config);
}

INSTANTIATE_TEST_SUITE_P(
    Orchard, EnvConformance,
    testing::Values(EnvConformanceCase{"v0", [] { return Create("Orchard-v0"); }},
                    EnvConformanceCase{"stack4", [] { return Create("Orchard-v0-stack4"); }}),
    EnvConformanceName);

// An env with its rows.
class Game {
 public:
  explicit Game(const std::string& type = "Orchard-v0")
      : env_(*Create(type)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  Env& env() { return *env_; }
  absl::Span<const uint8_t> pixels() const { return row_.column<uint8_t>(0); }
  // A pixel of the newest picture.
  uint8_t At(int row, int column) const {
    return pixels()[pixels().size() - kSize * kSize + static_cast<size_t>(kSize * row + column)];
  }
  int basket() const {
    int column = 0;
    while (At(kGround, column) != 170) ++column;
    return column;
  }

  void Reset(uint64_t seed) { EXPECT_THAT(env_->Reset({seed, {}}, row_.view().row(0)), IsOk()); }

  StepResult Step(int64_t action) {
    StepResult result;
    EXPECT_THAT(TryStep(action, &result), IsOk());
    return result;
  }
  absl::Status TryStep(int64_t action, StepResult* result) {
    action_.column<int64_t>(0)[0] = action;
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), result);
  }

 private:
  const std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
};

// The piece that lands in step t: its column and its reward.
struct Landing {
  int step = 0;
  int column = 0;
  int value = 0;
};

// All landings of an episode, found by watching its pictures.
std::vector<Landing> Watch(uint64_t seed) {
  Game game;
  game.Reset(seed);
  std::vector<Landing> landings;
  for (int step = 0; step <= kOrchardLength; ++step) {
    for (int column = 0; column < kSize; ++column) {
      const uint8_t pixel = game.At(0, column);
      if (pixel != 0) landings.push_back({step + kGround, column, pixel == 255 ? 1 : -1});
    }
    if (step < kOrchardLength) game.Step(1);
  }
  return landings;
}

// The best return from `landings` when the basket is at `start` after `now` steps, by dynamic
// programming over (step, column) from the end. values[a] is the return after taking action a now.
std::array<int, 3> BestReturns(const std::vector<Landing>& landings, int now, int start) {
  const int end = landings.empty() ? now + 1 : landings.back().step;
  std::array<int, kSize> later{};  // after step t
  for (int t = end; t > now + 1; --t) {
    std::array<int, kSize> gained = later;
    for (const Landing& landing : landings) {
      if (landing.step == t) gained[static_cast<size_t>(landing.column)] += landing.value;
    }
    for (int x = 0; x < kSize; ++x) {
      int best = gained[static_cast<size_t>(x)];
      if (x > 0) best = std::max(best, gained[static_cast<size_t>(x - 1)]);
      if (x < kGround) best = std::max(best, gained[static_cast<size_t>(x + 1)]);
      later[static_cast<size_t>(x)] = best;
    }
  }
  std::array<int, 3> values;
  for (int action = 0; action < 3; ++action) {
    const int x = std::clamp(start + action - 1, 0, kGround);
    int value = later[static_cast<size_t>(x)];
    for (const Landing& landing : landings) {
      if (landing.step == now + 1 && landing.column == x) value += landing.value;
    }
    values[static_cast<size_t>(action)] = value;
  }
  return values;
}

TEST(OrchardTest, TheBestPossibleReturnIsTheRipeFruit) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<Landing> landings = Watch(seed);
    ASSERT_EQ(landings.size(), kOrchardRipe + kOrchardRotten);
    EXPECT_EQ(landings.back().step, kOrchardLength);
    Game game;
    game.Reset(seed);
    const std::array<int, 3> best = BestReturns(landings, 0, game.basket());
    EXPECT_EQ(*std::max_element(best.begin(), best.end()), kOrchardRipe) << "seed " << seed;
  }
}

// Plans with the fruit in the picture, and keeps to the middle without any.
int64_t PlanFromPicture(const Game& game) {
  std::vector<Landing> landings;
  for (int row = kGround - 1; row >= 0; --row) {
    for (int column = 0; column < kSize; ++column) {
      const uint8_t pixel = game.At(row, column);
      if (pixel != 0) landings.push_back({kGround - row, column, pixel == 255 ? 1 : -1});
    }
  }
  const int basket = game.basket();
  const std::array<int, 3> values = BestReturns(landings, 0, basket);
  const int best = *std::max_element(values.begin(), values.end());
  int64_t choice = -1;
  const auto off_center = [basket](int64_t action) {
    return std::abs(2 * (basket + static_cast<int>(action) - 1) - kGround);
  };
  for (const int64_t action : {1, 0, 2}) {
    if (values[static_cast<size_t>(action)] < best) continue;
    if (choice < 0 || off_center(action) < off_center(choice)) choice = action;
  }
  return choice;
}

TEST(OrchardTest, APolicyThatSeesOnePictureReachesTheBestReturn) {
  Game game;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    game.Reset(seed);
    StepResult result;
    float sum = 0;
    int steps = 0;
    while (!result.terminated) {
      result = game.Step(PlanFromPicture(game));
      sum += result.reward;
      ++steps;
    }
    ASSERT_EQ(sum, kOrchardRipe) << "seed " << seed;
    ASSERT_EQ(steps, kOrchardLength);
  }
}

TEST(OrchardTest, RandomPlayGetsALowReturn) {
  Game game;
  Rng rng(3, "test/random");
  double sum = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    game.Reset(seed);
    StepResult result;
    while (!result.terminated) {
      result = game.Step(static_cast<int64_t>(rng.UniformInt(3)));
      sum += result.reward;
    }
  }
  EXPECT_LT(sum / 300, 3);
  EXPECT_GT(sum / 300, 0);
}

TEST(OrchardTest, TheFruitFollowsTheRules) {
  std::set<int> first_columns;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Landing> landings = Watch(seed);
    int ripe = 0;
    for (size_t i = 0; i < landings.size(); ++i) {
      EXPECT_EQ(landings[i].step, kGround + kOrchardPeriod * static_cast<int>(i));
      ripe += landings[i].value == 1;
      if (i > 0) {
        EXPECT_LE(std::abs(landings[i].column - landings[i - 1].column), kOrchardMaxShift);
      }
    }
    EXPECT_EQ(ripe, kOrchardRipe);
    first_columns.insert(landings[0].column);
  }
  EXPECT_EQ(first_columns.size(), kSize);
}

TEST(OrchardTest, TheBasketStopsAtTheBorder) {
  Game game;
  game.Reset(4);
  for (int i = 0; i < 12; ++i) game.Step(0);
  EXPECT_EQ(game.basket(), 0);
  game.Step(2);
  EXPECT_EQ(game.basket(), 1);
  for (int i = 0; i < 12; ++i) game.Step(2);
  EXPECT_EQ(game.basket(), kGround);
}

TEST(OrchardTest, TheStackIsTheLastFourPicturesOldestFirst) {
  Game one;
  Game four("Orchard-v0-stack4");
  EXPECT_EQ(four.env().spec().observation->field(0).frame_stack_axis, 0);
  one.Reset(8);
  four.Reset(8);
  std::vector<std::vector<uint8_t>> seen(4, {one.pixels().begin(), one.pixels().end()});
  Rng rng(1, "test/actions");
  for (int step = 0; step <= kOrchardLength; ++step) {
    std::vector<uint8_t> expected;
    for (const auto& picture : std::vector(seen.end() - 4, seen.end())) {
      expected.insert(expected.end(), picture.begin(), picture.end());
    }
    ASSERT_THAT(four.pixels(), testing::ElementsAreArray(expected)) << "step " << step;
    if (step == kOrchardLength) break;
    const auto action = static_cast<int64_t>(rng.UniformInt(3));
    one.Step(action);
    four.Step(action);
    seen.emplace_back(one.pixels().begin(), one.pixels().end());
  }
}

TEST(OrchardTest, RefusesInvalidCalls) {
  Game game;
  StepResult result;
  EXPECT_THAT(game.TryStep(1, &result), IsFailedPrecondition("Reset()"));
  EXPECT_THAT(CreateOrchard("mine", 2), IsInvalid("2 frames, expected 1 or 4"));
  StateDict broken;
  ASSERT_THAT(broken.WriteInt("seed", 1), IsOk());
  ASSERT_THAT(broken.WriteInt("steps", 105), IsOk());
  ASSERT_THAT(broken.WriteSpan<int32_t>("baskets", {1, 2, 3, 4}), IsOk());
  EXPECT_THAT(game.env().LoadState(&broken), IsInvalid("expected 0..104"));
}

TEST(OrchardTest, RendersThePicture) {
  Game game;
  game.Reset(0);
  DING_ASSERT_OK_AND_ASSIGN(const Image image, game.env().Render());
  EXPECT_EQ(image.width, 200);
  const auto at = [&image](int row, int column) {
    return image.rgb[static_cast<size_t>(3 * ((20 * row + 10) * image.width + 20 * column + 10))];
  };
  for (int row = 0; row < kSize; ++row) {
    for (int column = 0; column < kSize; ++column) EXPECT_EQ(at(row, column), game.At(row, column));
  }
}

}  // namespace
}  // namespace ding
