#include "ding_worker/interaction/grpc/grpc_log.h"

#include <grpcpp/version_info.h>

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

#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
#include "absl/log/log.h"
#else
#include <grpc/support/log.h>
#endif

namespace ding {
namespace {

// As gRPC of this version does it.
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
void LogError(const std::string& message) { LOG(ERROR) << message; }
void LogInfo(const std::string& message) { LOG(INFO) << message; }
void Connect() {}
void AskForInfo() {}
#else
void LogError(const std::string& message) { gpr_log(GPR_ERROR, "%s", message.c_str()); }
void LogInfo(const std::string& message) { gpr_log(GPR_INFO, "%s", message.c_str()); }
void Connect() { gpr_log_verbosity_init(); }  // among other things
void AskForInfo() { gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO); }
#endif

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
  Connect();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 25; ++n) LogError("Handshake failed: 7");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(take(), ElementsAre("gRPC: Handshake failed: 7"));
  clock->Advance(absl::Seconds(1));
  EXPECT_THAT(take(), IsEmpty());
  LogError("Handshake failed: 8");
  EXPECT_THAT(take(), ElementsAre("gRPC: Handshake failed: 8 (and 99 other errors before)"));
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
  // A failed assertion of a later gRPC is of another severity, and ends the process.
  LogError("assertion failed: the sky is up");
  EXPECT_THAT(take(), ElementsAre("gRPC: assertion failed: the sky is up")) << "it says why";
#endif

  // Refused connections have a rate limit of their own.
  for (int i = 0; i < 5; ++i) ReportRefusal(absl::StrCat("connection ", i, " was refused"));
  EXPECT_THAT(take(), ElementsAre("connection 0 was refused"));
  clock->Advance(absl::Seconds(1));
  ReportRefusal("connection 5 was refused");
  EXPECT_THAT(take(), ElementsAre("connection 5 was refused (and 4 others before)"));

  AskForInfo();
  for (int i = 0; i < 2; ++i) LogInfo("asked for");
  EXPECT_THAT(take(), ElementsAre("gRPC: asked for", "gRPC: asked for"));
}

}  // namespace
}  // namespace ding
