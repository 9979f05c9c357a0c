#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/policy/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<ParameterInfo>& Layout() {
  static const auto* const layout =
      new std::vector<ParameterInfo>{{"encoder/0/weight", {3, 2}, 0}, {"encoder/0/bias", {3}, 6}};
  return *layout;
}

std::vector<float> Values() { return {1, 2, 3, 4, 5, 6, 7, 8, 9}; }

TEST(ParameterState, SavesUnderTheNamesOfTheParametersAndLoadsTheSame) {
  StateDict state;
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  EXPECT_THAT(state.Names(), ElementsAre("model/encoder/0/weight", "model/encoder/0/bias"));
  EXPECT_EQ(state.tensors().Find("model/encoder/0/weight")->shape(), (Shape{3, 2}));
  std::vector<float> loaded(9);
  ASSERT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)), IsOk());
  EXPECT_EQ(loaded, Values());
}

TEST(ParameterState, IgnoresOtherScopesOfTheState) {
  StateDict state;
  ASSERT_THAT(state.WriteInt("train_iter", 3), IsOk());
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  std::vector<float> loaded(9);
  EXPECT_THAT(LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)), IsOk());
}

TEST(ParameterState, RefusesAModelThatDoesNotFitWithAllProblems) {
  StateDict state;
  const std::vector<ParameterInfo> other = {{"encoder/0/weight", {2, 3}, 0}, {"head/bias", {3}, 6}};
  ASSERT_THAT(SaveParameters(other, Values(), "model", &state), IsOk());
  std::vector<float> loaded(9, -1.0f);
  EXPECT_THAT(
      LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("the saved 'model' does not fit"),
                     HasSubstr("'encoder/0/weight' is float32[2, 3], expected float32[3, 2]"),
                     HasSubstr("'encoder/0/bias' [3] is missing"),
                     HasSubstr("'head/bias' is unknown"))));
  EXPECT_EQ(loaded, std::vector<float>(9, -1.0f));
}

TEST(ParameterState, RefusesAModelWithNan) {
  StateDict state;
  std::vector<float> values = Values();
  values[7] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_THAT(SaveParameters(Layout(), values, "model", &state), IsOk());
  std::vector<float> loaded(9, -1.0f);
  EXPECT_THAT(
      LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'encoder/0/bias' is not finite")));
  EXPECT_EQ(loaded, std::vector<float>(9, -1.0f));
}

TEST(ParameterState, LeavesNamesOfOthersAlone) {
  StateDict state;
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  ASSERT_THAT(state.WriteDouble("model/statistics/mean", 1), IsOk());
  std::vector<float> loaded(9);
  EXPECT_THAT(
      LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'statistics/mean' is unknown")));
  EXPECT_THAT(
      LoadParameters(Layout(), "model", &state, absl::MakeSpan(loaded), {"statistics/mean"}),
      IsOk());
}

TEST(ParameterState, APolicyWithoutParametersRefusesAModel) {
  StateDict state;
  EXPECT_THAT(LoadEmptyModel(&state), IsOk());
  ASSERT_THAT(SaveParameters(Layout(), Values(), "model", &state), IsOk());
  EXPECT_THAT(LoadEmptyModel(&state), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("'encoder/0/weight' is unknown")));
}

}  // namespace
}  // namespace ding
