#include "ding_worker/env/env.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::HasSubstr;

EnvSpec SpecOf(std::vector<FieldSpec> observation, std::vector<FieldSpec> action) {
  EnvSpec spec;
  spec.name = "Mine";
  spec.observation = *MakeSpec(std::move(observation));
  spec.action = *MakeSpec(std::move(action));
  return spec;
}

auto IsInvalid(const std::string& what) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("env 'Mine': " + what));
}

TEST(ValidateEnvSpecTest, AcceptsSupportedSpecs) {
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("obs", {4})}, {Discrete("action", 2)})), IsOk());
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("obs/arm", {4}), Scalar("obs/mask", DType::kBool)},
                                     {Box("action", {2}, {-1}, {1})})),
              IsOk());
}

TEST(ValidateEnvSpecTest, NamesTheProblem) {
  const FieldSpec obs = Box("obs", {4});
  const FieldSpec action = Discrete("action", 2);
  EnvSpec nothing;
  nothing.name = "Mine";
  EXPECT_THAT(ValidateEnvSpec(nothing), IsInvalid("its spec has no observation fields"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({}, {action})), IsInvalid("its spec has no observation"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("state", {4})}, {action})),
              IsInvalid("observation field 'state' must be named 'obs'"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("observation", {4})}, {action})),
              IsInvalid("observation field 'observation' must be named"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Scalar("obs", DType::kFloat64)}, {action})),
              IsInvalid("observation field 'obs' is float64"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {})), IsInvalid("its spec must have exactly one"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {Discrete("move", 2)})),
              IsInvalid("its spec must have exactly one action field, named 'action'"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {Scalar("action", DType::kInt32)})),
              IsInvalid("action is int32[], expected discrete or float32"));
  EnvSpec limit = SpecOf({obs}, {action});
  limit.max_episode_steps = -1;
  EXPECT_THAT(ValidateEnvSpec(limit), IsInvalid("max_episode_steps is -1"));
}

// The minimum that an env must define.
class PlainEnv : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef&) override { return absl::OkStatus(); }
  absl::Status Step(const RowView&, const RowRef&, StepResult*) override {
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_ = SpecOf({Box("obs", {1})}, {Discrete("action", 2)});
};

TEST(EnvTest, SavingAndRenderingAreOptional) {
  PlainEnv env;
  StateDict state;
  const auto cannot = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kUnimplemented,
                    HasSubstr("Mine cannot " + std::string(what)));
  };
  EXPECT_THAT(env.SaveState(&state), cannot("save"));
  EXPECT_THAT(env.LoadState(&state), cannot("load"));
  EXPECT_THAT(env.Render(), cannot("render"));
}

}  // namespace
}  // namespace ding
