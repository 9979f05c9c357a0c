#include "ding_worker/policy/gradient_learn_mode.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Parameters whose gradients the test sets.
struct Parameters {
  std::vector<float> critic = {1, 2};
  std::vector<float> d_critic = {3, 4};
  std::vector<float> actor = {5};
  std::vector<float> d_actor = {6};
};

// Two groups, the second of which steps every other iteration.
class TwoGroups : public GradientLearnMode {
 public:
  static std::unique_ptr<TwoGroups> Make(Parameters* parameters,
                                         GradientReducer* reducer = nullptr) {
    std::vector<TrainedGroup> groups;
    groups.push_back({*GroupAdam::Create({{"critic",
                                           {},
                                           absl::MakeSpan(parameters->critic),
                                           absl::MakeSpan(parameters->d_critic)}},
                                         AdamOptions(), /*grad_clip_norm=*/0),
                      "critic_rate"});
    groups.push_back({*GroupAdam::Create({{"actor",
                                           {},
                                           absl::MakeSpan(parameters->actor),
                                           absl::MakeSpan(parameters->d_actor)}},
                                         AdamOptions(), /*grad_clip_norm=*/0),
                      "actor_rate", /*period=*/2});
    return std::unique_ptr<TwoGroups>(new TwoGroups(reducer, std::move(groups)));
  }

  absl::Status SaveModel(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadModel(StateReader* /*reader*/) override { return absl::OkStatus(); }

  absl::Status compute_status;  // what ComputeGradients() returns
  int64_t steps = 0;

 private:
  TwoGroups(GradientReducer* reducer, std::vector<TrainedGroup> groups)
      : GradientLearnMode({"two", "two groups", {}, reducer, {"cur_lr"}}, std::move(groups)) {
    AddTrainIter();
    adam(0).AddTo(state());
    adam(1).AddTo(state());
  }

  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& /*settings*/,
                                           LearnStep* step) override {
    if (!compute_status.ok()) return compute_status;
    step->scalars.Set("loss", 0.5);
    return data.rows();
  }
  void AfterStep(LearnStep* /*step*/) override { steps = train_iter(); }
};

Batch Rows() { return std::move(*BatchBuilder::Create(*MakeSpec({Box("obs", {1})}), 4)).Seal(4); }

// Multiplies by 0.5, and remembers what it was given.
class HalvingReducer : public GradientReducer {
 public:
  absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                       const absl::Status& status) override {
    seen.clear();
    for (const absl::Span<float> piece : values) {
      for (float& value : piece) {
        seen.push_back(value);
        value *= 0.5f;
      }
    }
    seen_rows = rows;
    seen_status = status;
    return status;
  }
  absl::Status Sum(absl::Span<double> /*values*/, const absl::Status& status) override {
    return status;
  }

  std::vector<float> seen;
  int64_t seen_rows = 0;
  absl::Status seen_status;
};

TEST(GradientLearnModeTest, Forward_StepsTheGroupsThatAreDue) {
  Parameters parameters;
  const auto mode = TwoGroups::Make(&parameters);
  std::vector<LearnStep> steps;
  ASSERT_THAT(mode->Forward(Rows(), {}, &steps), IsOk());
  EXPECT_LT(parameters.critic[0], 1);
  EXPECT_EQ(parameters.actor[0], 5);
  EXPECT_EQ(mode->steps, 1);
  EXPECT_EQ(steps[0].scalars.Get("cur_lr"), 0.001);
  EXPECT_EQ(steps[0].scalars.Get("grad_norm"), 5);
  EXPECT_EQ(steps[0].scalars.Get("loss"), 0.5);
  ASSERT_THAT(mode->Forward(Rows(), {}, &steps), IsOk());
  EXPECT_LT(parameters.actor[0], 5);
}

TEST(GradientLearnModeTest, Forward_NonFiniteGradientOfTheLastGroup_ChangesNothing) {
  Parameters parameters;
  const auto mode = TwoGroups::Make(&parameters);
  std::vector<LearnStep> steps;
  ASSERT_THAT(mode->Forward(Rows(), {}, &steps), IsOk());
  StateDict before;
  ASSERT_THAT(mode->SaveTrainState(&before), IsOk());
  const std::vector<float> critic = parameters.critic;
  parameters.d_actor[0] = kNan;
  EXPECT_THAT(mode->Forward(Rows(), {}, &steps),
              IsInternal("two, train iteration 2: gradient 0 of 1 of 'actor' is nan"));
  EXPECT_EQ(parameters.critic, critic);
  StateDict after;
  ASSERT_THAT(mode->SaveTrainState(&after), IsOk());
  for (const auto& [name, tensor] : before.tensors()) {
    EXPECT_TRUE(BitwiseEqual(tensor, *after.tensors().Find(name))) << name;
  }
}

TEST(GradientLearnModeTest, Forward_ReadsTheRateOfEachGroup) {
  Parameters parameters;
  const auto mode = TwoGroups::Make(&parameters);
  std::vector<LearnStep> steps;
  ASSERT_THAT(mode->Forward(Rows(), {{"critic_rate", 0.25}, {"actor_rate", 0.125}}, &steps),
              IsOk());
  EXPECT_EQ(steps[0].scalars.Get("cur_lr"), 0.25);
  StateDict state;
  ASSERT_THAT(mode->SaveTrainState(&state), IsOk());
  EXPECT_EQ(*state.ReadDouble("actor/lr"), 0.125);
  EXPECT_THAT(mode->Forward(Rows(), {{"actor_rate", -1}}, &steps), IsInvalid("actor_rate"));
}

TEST(GradientLearnModeTest, Forward_AveragesDueGradientsAndAllRates) {
  Parameters parameters;
  HalvingReducer reducer;
  const auto mode = TwoGroups::Make(&parameters, &reducer);
  const NamedValues rates = {{"critic_rate", 0.25}, {"actor_rate", 0.125}};
  std::vector<LearnStep> steps;
  ASSERT_THAT(mode->Forward(Rows(), rates, &steps), IsOk());
  EXPECT_THAT(reducer.seen, ElementsAre(3, 4, 0.25, 0.125));
  EXPECT_EQ(reducer.seen_rows, 4);
  EXPECT_EQ(steps[0].scalars.Get("grad_norm"), 2.5);
  EXPECT_EQ(steps[0].scalars.Get("cur_lr"), 0.125);
  ASSERT_THAT(mode->Forward(Rows(), rates, &steps), IsOk());
  EXPECT_THAT(reducer.seen, ElementsAre(1.5, 2, 6, 0.25, 0.125));
}

TEST(GradientLearnModeTest, Forward_AfterAnError_StillMeetsTheOtherLearners) {
  Parameters parameters;
  HalvingReducer reducer;
  const auto mode = TwoGroups::Make(&parameters, &reducer);
  mode->compute_status = absl::InternalError("bad batch");
  std::vector<LearnStep> steps;
  EXPECT_THAT(mode->Forward(Rows(), {}, &steps), IsInternal("bad batch"));
  EXPECT_EQ(reducer.seen.size(), 4);
  EXPECT_THAT(reducer.seen_status, IsInternal());
  EXPECT_EQ(mode->steps, 0);
}

// Two groups of parameters, and the same parameters in one piece.
class GroupAdamTest : public testing::Test {
 protected:
  absl::StatusOr<GroupAdam> Make(double clip) {
    return GroupAdam::Create({{"a", {}, absl::MakeSpan(a_), absl::MakeSpan(d_a_)},
                              {"b", {}, absl::MakeSpan(b_), absl::MakeSpan(d_b_)}},
                             AdamOptions(), clip);
  }

  std::vector<float> a_ = {1, 2, 3};
  std::vector<float> b_ = {4};
  std::vector<float> d_a_ = {3, 0, -1};
  std::vector<float> d_b_ = {12};
};

TEST_F(GroupAdamTest, StepsAsOnOnePiece) {
  for (const double clip : {0.0, 0.5, 1000.0}) {
    a_ = {1, 2, 3};
    b_ = {4};
    DING_ASSERT_OK_AND_ASSIGN(GroupAdam groups, Make(clip));
    std::vector<float> whole = {1, 2, 3, 4};
    DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(AdamOptions(), 4));
    for (int i = 0; i < 3; ++i) {
      d_a_ = {3.0f + static_cast<float>(i), 0, -1};
      d_b_ = {12};
      std::vector<float> gradient = {3.0f + static_cast<float>(i), 0, -1, 12};
      if (clip > 0) {
        DING_ASSERT_OK_AND_ASSIGN(const double norm,
                                  ClipGradientNorm(absl::MakeSpan(gradient), clip));
        double found = 0;
        ASSERT_THAT(groups.Step(&found), IsOk());
        EXPECT_DOUBLE_EQ(found, norm);
      } else {
        double norm = 0;
        ASSERT_THAT(groups.Step(&norm), IsOk());
        EXPECT_DOUBLE_EQ(norm, GradientNorm({absl::MakeSpan(gradient)}));
      }
      ASSERT_THAT(adam.Step(gradient, absl::MakeSpan(whole)), IsOk());
    }
    EXPECT_THAT(a_, testing::ElementsAre(testing::FloatNear(whole[0], 1e-6f), whole[1],
                                         testing::FloatNear(whole[2], 1e-6f)));
    EXPECT_NEAR(b_[0], whole[3], 1e-6);
  }
}

TEST_F(GroupAdamTest, ANonFiniteGradientChangesNoGroup) {
  d_b_[0] = std::numeric_limits<float>::infinity();
  double norm = 0;
  for (double* const measured : {&norm, static_cast<double*>(nullptr)}) {
    for (const double clip : {0.0, 0.5}) {
      DING_ASSERT_OK_AND_ASSIGN(GroupAdam groups, Make(clip));
      EXPECT_THAT(groups.Step(measured), IsInternal("of 'b' is inf"));
      EXPECT_THAT(a_, testing::ElementsAre(1, 2, 3));
    }
  }
}

TEST_F(GroupAdamTest, RestoresTheRememberedState) {
  DING_ASSERT_OK_AND_ASSIGN(GroupAdam groups, Make(0));
  ASSERT_THAT(groups.Step(), IsOk());
  TrainState state;
  groups.AddTo(&state);
  StateDict before;
  ASSERT_THAT(state.Save(&before), IsOk());
  const std::vector<float> a = a_;
  groups.Remember();
  ASSERT_THAT(groups.Step(), IsOk());
  ASSERT_THAT(groups.set_lr(0.5), IsOk());
  EXPECT_NE(a_, a);
  groups.GoBack();
  EXPECT_EQ(a_, a);
  StateDict after;
  ASSERT_THAT(state.Save(&after), IsOk());
  for (const auto& [name, tensor] : before.tensors()) {
    EXPECT_TRUE(BitwiseEqual(tensor, *after.tensors().Find(name))) << name;
  }
}

TEST_F(GroupAdamTest, AddTo_SavesBelowTheScope) {
  DING_ASSERT_OK_AND_ASSIGN(GroupAdam groups, Make(0));
  TrainState state;
  groups.AddTo(&state, "optimizer");
  StateDict saved;
  ASSERT_THAT(state.Save(&saved), IsOk());
  EXPECT_NE(saved.tensors().Find("optimizer/a/first_moment"), nullptr);
  EXPECT_NE(saved.tensors().Find("optimizer/b/lr"), nullptr);
}

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
  EXPECT_THAT(load(1.5, 0, 1), IsInvalid("'level' is 1.5, expected 0 to 1"));
  EXPECT_THAT(load(kInfinity, -kInfinity, kInfinity), IsInvalid("expected a finite number"));
}

}  // namespace
}  // namespace ding
