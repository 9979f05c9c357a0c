#include "ding_worker/adapter/gloo/gloo_all_reduce.h"

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/all_reduce.h"
#include "ding_worker/interaction/all_reduce_conformance.h"
#include "ding_worker/interaction/testing/rank_threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Gloo, AllReduceConformance, testing::Values(ConnectGloo));

TEST(GlooAllReduceTest, AHostThatIsNoneIsRefused) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.host = "no.such.host.invalid";
  const auto group = ConnectGloo(options, &rendezvous);
  EXPECT_FALSE(group.ok());
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("no.such.host.invalid"));
}

TEST(GlooAllReduceTest, ARankThatNeverComesIsNotWaitedForForEver) {
  LocalRendezvous rendezvous;
  AllReduceOptions options;
  options.group = "a";
  options.world_size = 2;
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(ConnectGloo(options, &rendezvous), StatusIs(absl::StatusCode::kDeadlineExceeded));
}

}  // namespace
}  // namespace ding
