#include "absl/status/status.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ProblemsToStatus, ReturnsOkWithoutProblems) {
  EXPECT_THAT(ProblemsToStatus({}, "policy"), IsOk());
}

TEST(ProblemsToStatus, ListsAllProblemsInOneError) {
  EXPECT_THAT(
      ProblemsToStatus({"lr is 0, must be above 0", "n_sample is 0, must be at least 1"}, "policy"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "policy: lr is 0, must be above 0; n_sample is 0, must be at least 1"));
}

}  // namespace
}  // namespace ding
