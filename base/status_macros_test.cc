#include "ding_worker/base/status_macros.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Not;

absl::Status ReturnIfError(const absl::Status& status, bool* went_on) {
  DING_RETURN_IF_ERROR(status);
  *went_on = true;
  return absl::OkStatus();
}

TEST(ReturnIfError, ReturnsErrorsAndGoesOnOtherwise) {
  bool went_on = false;
  EXPECT_THAT(ReturnIfError(absl::AbortedError("why"), &went_on),
              StatusIs(absl::StatusCode::kAborted, "why"));
  EXPECT_FALSE(went_on);
  EXPECT_THAT(ReturnIfError(absl::OkStatus(), &went_on), IsOk());
  EXPECT_TRUE(went_on);
}

// Uses the macro twice in one scope, with move-only values, for a declaration and for an
// assignment.
absl::StatusOr<int> Sum(absl::StatusOr<std::unique_ptr<int>> a,
                        absl::StatusOr<std::unique_ptr<int>> b) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, std::move(a));
  std::unique_ptr<int> second;
  DING_ASSIGN_OR_RETURN(second, std::move(b));
  return *first + *second;
}

TEST(AssignOrReturn, UnwrapsOrReturnsTheError) {
  DING_ASSERT_OK_AND_ASSIGN(const int sum, Sum(std::make_unique<int>(2), std::make_unique<int>(3)));
  EXPECT_EQ(sum, 5);
  EXPECT_THAT(Sum(std::make_unique<int>(2), absl::NotFoundError("no b")),
              StatusIs(absl::StatusCode::kNotFound, "no b"));
}

TEST(Annotate, PrefixesErrorsAndKeepsTheCode) {
  EXPECT_THAT(Annotate(absl::DataLossError("short"), "env 3"),
              StatusIs(absl::StatusCode::kDataLoss, "env 3: short"));
  EXPECT_THAT(Annotate(absl::OkStatus(), "env 3"), IsOk());
}

TEST(StatusMatchers, DistinguishCodesAndMessages) {
  EXPECT_THAT(absl::StatusOr<int>(3), IsOk());
  EXPECT_THAT(absl::AbortedError("a"), Not(IsOk()));
  EXPECT_THAT(absl::AbortedError("a"), Not(StatusIs(absl::StatusCode::kUnknown)));
  EXPECT_THAT(absl::AbortedError("abc"), Not(IsError(absl::StatusCode::kAborted, "d")));
}

TEST(ProblemsToStatus, ReturnsOkWithoutProblems) {
  EXPECT_THAT(ProblemsToStatus({}, "policy"), IsOk());
}

TEST(ProblemsToStatus, ListsAllProblemsInOneError) {
  EXPECT_THAT(
      ProblemsToStatus({"lr is 0, must be above 0", "n_sample is 0, must be at least 1"}, "policy"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "policy: lr is 0, must be above 0; n_sample is 0, must be at least 1"));
  EXPECT_THAT(ProblemsToStatus({"lr is 0", "eps is 0"}),
              StatusIs(absl::StatusCode::kInvalidArgument, "lr is 0; eps is 0"));
}

}  // namespace
}  // namespace ding
