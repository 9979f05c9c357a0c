#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// One part of each kind.
struct Parts {
  explicit Parts(TrainState* state) {
    state->AddParameters("target", {{"weight", {3}, 0}}, absl::MakeSpan(weights));
    state->AddAdam("optimizer", &adam);
    state->AddRng("rng", &rng);
    state->AddCount("train_iter", &count);
    state->AddSeed("noise_seed", &seed);
    state->AddNumber(
        "level", 0, 1, [this] { return level; }, [this](double value) { level = value; });
  }

  std::vector<float> weights = {0, 0, 0};
  Adam adam = *Adam::Create(AdamOptions(), 3);
  Rng rng = Rng(1, "test");
  int64_t count = 0;
  uint64_t seed = 0;
  double level = 0;
};

StateDict TrainedState() {
  TrainState state;
  Parts parts(&state);
  EXPECT_THAT(parts.adam.Step({1, 2, 3}, absl::MakeSpan(parts.weights)), IsOk());
  parts.rng.UniformInt(10);
  parts.count = 7;
  parts.seed = std::numeric_limits<uint64_t>::max();
  parts.level = 0.5;
  StateDict saved;
  EXPECT_THAT(state.Save(&saved), IsOk());
  return saved;
}

TEST(TrainStateTest, Save_WritesTheParts_InTheirOrder) {
  EXPECT_THAT(TrainedState().Names(),
              testing::ElementsAre("target/weight", "optimizer/first_moment",
                                   "optimizer/second_moment", "optimizer/num_steps", "optimizer/lr",
                                   "rng", "train_iter", "noise_seed", "level"));
}

TEST(TrainStateTest, Load_RestoresEveryPart) {
  StateDict saved = TrainedState();
  TrainState state;
  Parts parts(&state);
  ASSERT_THAT(state.Load(&saved), IsOk());
  EXPECT_EQ(parts.count, 7);
  EXPECT_EQ(parts.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parts.level, 0.5);
  StateDict again;
  ASSERT_THAT(state.Save(&again), IsOk());
  for (const auto& [name, tensor] : saved.tensors()) {
    EXPECT_TRUE(BitwiseEqual(tensor, *again.tensors().Find(name))) << name;
  }
}

TEST(TrainStateTest, Load_OnePartMissing_ChangesNothing) {
  const StateDict saved = TrainedState();
  for (const std::string& missing : saved.Names()) {
    TensorMap tensors;
    for (const auto& [name, tensor] : saved.tensors()) {
      if (name != missing) tensors.Set(name, tensor);
    }
    StateDict broken(tensors, "broken");
    TrainState state;
    const Parts parts(&state);
    StateDict before;
    ASSERT_THAT(state.Save(&before), IsOk());
    EXPECT_FALSE(state.Load(&broken).ok()) << missing;
    StateDict after;
    ASSERT_THAT(state.Save(&after), IsOk());
    for (const auto& [name, tensor] : before.tensors()) {
      EXPECT_TRUE(BitwiseEqual(tensor, *after.tensors().Find(name))) << name << ", " << missing;
    }
  }
}

TEST(TrainStateTest, Load_NumberOutOfRange_IsRefused) {
  const auto load = [](double number, double least, double most) {
    double level = 0;
    TrainState state;
    state.AddNumber(
        "level", least, most, [&] { return level; }, [&](double value) { level = value; });
    StateDict saved;
    EXPECT_THAT(saved.WriteDouble("level", number), IsOk());
    return state.Load(&saved);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(load(0.5, 0, 1), IsOk());
  EXPECT_THAT(load(1.5, 0, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                        testing::HasSubstr("'level' is 1.5, expected 0 to 1")));
  EXPECT_THAT(
      load(kInfinity, -kInfinity, kInfinity),
      StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("expected a finite number")));
}

}  // namespace
}  // namespace ding
