#include "ding_worker/base/call_user.h"

#include <functional>
#include <memory>
#include <stdexcept>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(CallUser, ReturnsTheResultOfTheCall) {
  EXPECT_THAT(CallUser("the hook", [] { return absl::OkStatus(); }), IsOk());
  EXPECT_THAT(CallUser("the hook", [] { return absl::DataLossError("torn"); }),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
  const absl::StatusOr<int> seven = CallUser("the source", [] { return absl::StatusOr<int>(7); });
  ASSERT_THAT(seven, IsOk());
  EXPECT_EQ(*seven, 7);
}

TEST(CallUser, TurnsAnExceptionIntoAnError) {
  EXPECT_THAT(
      CallUser("the hook", []() -> absl::Status { throw std::runtime_error("out of ideas"); }),
      StatusIs(absl::StatusCode::kInternal, "the hook threw an exception: out of ideas"));
  const absl::StatusOr<int> none =
      CallUser("the source", []() -> absl::StatusOr<int> { throw std::runtime_error("empty"); });
  EXPECT_THAT(none.status(),
              StatusIs(absl::StatusCode::kInternal, "the source threw an exception: empty"));
}

TEST(CallUser, TurnsOtherThrownValuesIntoErrors) {
  EXPECT_THAT(CallUser("the hook", []() -> absl::Status { throw 42; }),
              StatusIs(absl::StatusCode::kInternal,
                       "the hook threw an exception that is not a std::exception"));
}

using Made = absl::StatusOr<std::unique_ptr<int>>;

absl::Status StatusOf(const std::function<Made()>& factory) {
  return CallFactory("buffer", "mine", factory).status();
}

TEST(CallFactoryTest, ReturnsWhatTheFactoryReturns) {
  const Made seven = CallFactory("buffer", "mine", [] { return Made(std::make_unique<int>(7)); });
  ASSERT_THAT(seven, IsOk());
  EXPECT_EQ(**seven, 7);
  EXPECT_THAT(StatusOf([] { return absl::DataLossError("torn"); }),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

TEST(CallFactoryTest, NamesATypeWhoseFactoryReturnsNoneOrThrows) {
  EXPECT_THAT(StatusOf([] { return nullptr; }),
              StatusIs(absl::StatusCode::kInternal, "the factory of buffer 'mine' returned none"));
  EXPECT_THAT(StatusOf([]() -> Made { throw std::runtime_error("out of ideas"); }),
              StatusIs(absl::StatusCode::kInternal,
                       "the factory of buffer 'mine' threw an exception: out of ideas"));
  EXPECT_THAT(StatusOf(nullptr), IsError(absl::StatusCode::kInternal,
                                         "the factory of buffer 'mine' threw an exception"))
      << "an empty function";
}

}  // namespace
}  // namespace ding
