// What the functions of this package that policies share do with sizes and actions that nobody
// should give them. Run it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <limits>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(PolicyMisuse, Masks_OfImpossibleCounts_AreRefused) {
  const std::vector<uint8_t> mask(6, 1);
  ASSERT_THAT(CheckLegal(mask, {2, 1}), IsOk());
  ASSERT_THAT(CheckTaken(mask, {2, 1}, {1, 0, 0, 0}), IsOk());
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{
           {}, {0}, {-1}, {2, 0}, {2, -1}, {kMin}, {kMax}, {kMax, kMax}, {kMax, kMax, 8}, {4}}) {
    EXPECT_THAT(CheckLegal(mask, counts), IsInvalid());
    EXPECT_THAT(CheckTaken(mask, counts, {0, 0}), IsInvalid());
  }
  EXPECT_THAT(CheckLegal({}, {}), IsOk());
}

TEST(PolicyMisuse, Masks_ActionsThatDoNotExist_AreRefused) {
  const std::vector<uint8_t> mask(6, 1);
  for (const int64_t action : {int64_t{-1}, int64_t{3}, kMin, kMax}) {
    EXPECT_THAT(CheckTaken(mask, {3}, {0, action}), IsInvalid()) << action;
  }
  EXPECT_THAT(CheckTaken(mask, {3}, {0}), IsInvalid()) << "one action for two rows";
  EXPECT_THAT(CheckTaken(mask, {3}, {0, 0, 0}), IsInvalid()) << "three actions";
}

TEST(PolicyMisuse, Masks_WiderThan64Bits_AreRefused) {
  FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
  mask.shape = {2};
  const SpecPtr observation = MakeSpec({Box("obs/x", {1}), mask}).value();
  FieldSpec action = Discrete("action", kMax);
  action.shape = {3};
  EXPECT_THAT(FindActionMask(*observation, *MakeSpec({action}).value()), IsInvalid());
}

TEST(PolicyMisuseDeathTest, Sizes_ThatDoNotFit_EndTheProgramWithASentence) {
  EXPECT_DEATH(Argmax({}), "no value to choose from");
  EXPECT_DEATH(Argmax({1, 2}, {1}), "1 and 2");
  std::vector<float> target(2);
  EXPECT_DEATH(UpdateTarget({}, 0, {1}, absl::MakeSpan(target)), "1 and 2");
}

TEST(PolicyMisuse, TargetUpdate_NumbersOutOfRange_AreRefusedOrHarmless) {
  std::vector<float> target(1);
  for (const int64_t freq : {int64_t{0}, int64_t{-1}, kMin}) {
    const TargetUpdate update = {freq, 0};
    EXPECT_THAT(Validate(update), IsInvalid()) << freq;
    UpdateTarget(update, kMin, {1}, absl::MakeSpan(target));
  }
  EXPECT_THAT(Validate({0, std::numeric_limits<double>::quiet_NaN()}), IsInvalid());
}

}  // namespace
}  // namespace ding
