#include "ding_worker/interaction/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A process can set the function only once, so one test covers everything.
TEST(ReportGrpcErrorsTest, LimitsTheRateOfErrors) {
  static SimulatedClock* const clock = new SimulatedClock();
  static Mutex* const mutex = new Mutex();
  static std::vector<std::string>* const lines = new std::vector<std::string>();
  const auto take = [] {
    MutexLock lock(mutex);
    return std::exchange(*lines, {});
  };
  ReportGrpcErrors(
      [](const std::string& line) {
        MutexLock lock(mutex);
        lines->push_back(line);
      },
      clock);
  gpr_log_verbosity_init();  // gRPC does the same when it connects.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 25; ++n) gpr_log(GPR_ERROR, "Handshake failed: %d", 7);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(take(), ElementsAre("gRPC: Handshake failed: 7"));
  clock->Advance(absl::Seconds(1));
  EXPECT_THAT(take(), IsEmpty());
  gpr_log(GPR_ERROR, "Handshake failed: %d", 8);
  EXPECT_THAT(take(), ElementsAre("gRPC: Handshake failed: 8 (and 99 other errors before)"));
  gpr_log(GPR_ERROR, "assertion failed: %s", "the sky is up");
  EXPECT_THAT(take(), ElementsAre("gRPC: assertion failed: the sky is up")) << "it says why";

  // Refused connections have a rate limit of their own.
  for (int i = 0; i < 5; ++i) ReportRefusal(absl::StrCat("connection ", i, " was refused"));
  EXPECT_THAT(take(), ElementsAre("connection 0 was refused"));
  clock->Advance(absl::Seconds(1));
  ReportRefusal("connection 5 was refused");
  EXPECT_THAT(take(), ElementsAre("connection 5 was refused (and 4 others before)"));

  gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
  for (int i = 0; i < 2; ++i) gpr_log(GPR_INFO, "asked for");
  EXPECT_THAT(take(), ElementsAre("gRPC: asked for", "gRPC: asked for"));
}

}  // namespace
}  // namespace ding
