#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

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
      EXPECT_THAT(groups.Step(measured),
                  StatusIs(absl::StatusCode::kInternal, testing::HasSubstr("of 'b' is inf")));
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

}  // namespace
}  // namespace ding
