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
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("two, train iteration 2: gradient 0 of 1 of 'actor' is nan")));
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
  EXPECT_THAT(mode->Forward(Rows(), {{"actor_rate", -1}}, &steps),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("actor_rate")));
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
  EXPECT_THAT(mode->Forward(Rows(), {}, &steps),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("bad batch")));
  EXPECT_EQ(reducer.seen.size(), 4);
  EXPECT_THAT(reducer.seen_status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(mode->steps, 0);
}

}  // namespace
}  // namespace ding
