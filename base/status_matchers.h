// GoogleTest matchers for absl::Status and absl::StatusOr (Abseil 20220623 has none).
//
// Example:
//   EXPECT_THAT(buffer->Clear(), IsOk());
//   EXPECT_THAT(buffer->Sample(0, 0), IsInvalid("sample size is 0", "'main'"));
//   EXPECT_THAT(ReadFile("none"), IsNotFound("none"));
//   EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kAborted, "the whole message, or a matcher"));
#ifndef DING_WORKER_BASE_STATUS_MATCHERS_H_
#define DING_WORKER_BASE_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace internal_base {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

}  // namespace internal_base

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << internal_base::StatusOf(arg);
  return internal_base::StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << internal_base::StatusOf(arg);
  return internal_base::StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message_matcher,
           "has status code " + absl::StatusCodeToString(code) + " and a message that " +
               testing::DescribeMatcher<std::string>(message_matcher)) {
  const absl::Status& status = internal_base::StatusOf(arg);
  *result_listener << status;
  return status.code() == code && testing::Matches(message_matcher)(std::string(status.message()));
}

// Matches an error of this code whose message has each of `parts`, which are strings.
template <typename... Parts>
auto IsError(absl::StatusCode code, const Parts&... parts) {
  if constexpr (sizeof...(parts) == 0) {
    return StatusIs(code);
  } else {
    return StatusIs(code, testing::AllOf(testing::HasSubstr(std::string(parts))...));
  }
}

// IsError() for a fixed code, as in IsInternal("env 3", "nan").
#define DING_STATUS_MATCHER_(name, code)              \
  template <typename... Parts>                        \
  auto name(const Parts&... parts) {                  \
    return IsError(absl::StatusCode::code, parts...); \
  }
DING_STATUS_MATCHER_(IsInvalid, kInvalidArgument)
DING_STATUS_MATCHER_(IsDataLoss, kDataLoss)
DING_STATUS_MATCHER_(IsFailedPrecondition, kFailedPrecondition)
DING_STATUS_MATCHER_(IsInternal, kInternal)
DING_STATUS_MATCHER_(IsNotFound, kNotFound)
DING_STATUS_MATCHER_(IsResourceExhausted, kResourceExhausted)
DING_STATUS_MATCHER_(IsUnavailable, kUnavailable)
#undef DING_STATUS_MATCHER_

}  // namespace ding

#define DING_TEST_CONCAT_INNER_(a, b) a##b
#define DING_TEST_CONCAT_(a, b) DING_TEST_CONCAT_INNER_(a, b)

// Assigns the value of `expr`, a StatusOr, to `lhs`, which may be a declaration; or fails and ends
// the test.
#define DING_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  DING_ASSERT_OK_AND_ASSIGN_IMPL_(DING_TEST_CONCAT_(ding_test_value_, __LINE__), lhs, expr)
#define DING_ASSERT_OK_AND_ASSIGN_IMPL_(var, lhs, expr) \
  auto var = (expr);                                    \
  ASSERT_TRUE(var.ok()) << var.status();                \
  lhs = std::move(var).value()

#endif  // DING_WORKER_BASE_STATUS_MATCHERS_H_
