#include "ding_worker/env/env_manager.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EnvSpec SpecWith(FieldSpec action) {
  EnvSpec spec;
  spec.name = "Mine";
  spec.observation = *MakeSpec({Box("obs", {1})});
  spec.action = *MakeSpec({std::move(action)});
  return spec;
}

// Checks one row of `values` each for envs 4 and 7.
absl::Status CheckBox(const FieldSpec& action, const std::vector<float>& values) {
  const EnvSpec spec = SpecWith(action);
  BatchBuilder rows = *BatchBuilder::Create(spec.action, 2);
  for (size_t i = 0; i < values.size(); ++i) rows.column<float>(0)[i] = values[i];
  return CheckActions(spec, {4, 7}, rows.view());
}

auto IsIllegal(const std::string& env, const std::string& value) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(env + ": action " + value + " is not legal")));
}

TEST(CheckActionsTest, ChecksABoxWithOneBoundForAllElements) {
  const FieldSpec box = Box("action", {2}, {-2}, {2});
  EXPECT_THAT(CheckBox(box, {-2, 2, 0, 1}), IsOk());
  EXPECT_THAT(CheckBox(box, {0, 2.5, 0, 0}), IsIllegal("env 4", "2.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, -2.5, 0}), IsIllegal("env 7", "-2.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, 0, std::nanf("")}), IsIllegal("env 7", "nan"));
}

TEST(CheckActionsTest, ChecksABoxWithABoundForEachElement) {
  const FieldSpec box = Box("action", {2}, {-1, -10}, {0, 10});
  EXPECT_THAT(CheckBox(box, {-1, 10, 0, -10}), IsOk());
  EXPECT_THAT(CheckBox(box, {0.5, 10, 0, 0}), IsIllegal("env 4", "0.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, 0, 11}), IsIllegal("env 7", "11"));
}

TEST(CheckActionsTest, ChecksEachElementOfAMultiDiscreteAction) {
  const EnvSpec spec = SpecWith(MultiDiscrete("action", {2, 5}));
  const BatchBuilder rows = *BatchBuilder::Create(spec.action, 2);
  const auto check = [&](const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) rows.column<int64_t>(0)[i] = values[i];
    return CheckActions(spec, {4, 7}, rows.view());
  };
  EXPECT_THAT(check({1, 4, 0, 0}), IsOk());
  EXPECT_THAT(check({2, 4, 0, 0}), IsIllegal("env 4", "2"));
  EXPECT_THAT(check({1, 4, 0, 5}), IsIllegal("env 7", "5"));
  EXPECT_THAT(check({1, 4, 0, -1}), IsIllegal("env 7", "-1"));
}

TEST(CheckActionsTest, RequiresFiniteValuesOfABoxWithoutBounds) {
  const FieldSpec box = Box("action", {1});
  EXPECT_THAT(CheckBox(box, {1e30f, -1e30f}), IsOk());
  EXPECT_THAT(CheckBox(box, {0, HUGE_VALF}), IsIllegal("env 7", "inf"));
}

TEST(CheckActionsTest, RefusesAnotherLayoutOfTheFirstField) {
  const EnvSpec discrete = SpecWith(Discrete("action", 3));
  const BatchBuilder rows = *BatchBuilder::Create(SpecWith(Box("action", {1})).action, 1);
  EXPECT_THAT(CheckActions(discrete, {0}, rows.view()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("float32[1]"), HasSubstr("env 'Mine' expects 'action'"),
                             HasSubstr("int64[] in 0..2"))));
}

TEST(EnvStateNameTest, ReturnsTheNamesOfTheContract) {
  EXPECT_EQ(EnvStateName(EnvState::kNeedReset), "NEED_RESET");
  EXPECT_EQ(EnvStateName(EnvState::kVoid), "VOID");
}

}  // namespace
}  // namespace ding
