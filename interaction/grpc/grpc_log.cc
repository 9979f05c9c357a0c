#include "ding_worker/interaction/grpc/grpc_log.h"

#include <grpcpp/version_info.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/interaction/transport/rate_bound.h"

// From version 1.65 on, gRPC logs by Abseil and has no function of its own to set.
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 65
#define DING_GRPC_LOGS_BY_ABSL 1
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#else
#define DING_GRPC_LOGS_BY_ABSL 0
#include <grpc/support/log.h>
#endif

namespace ding {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);

struct Sink {
  std::function<void(const std::string& line)> say;
  RateBound errors;
  RateBound refusals;
};
// Lives until the process ends, because gRPC may log until then.
Sink* sink = nullptr;

void Say(const std::string& line) {
  CallUserWhoMustNotThrow("the function that reports gRPC's errors", [&] { sink->say(line); });
}

void Report(absl::string_view message, bool is_error) {
  std::string line = absl::StrCat("gRPC: ", message);
  if (is_error) {
    const std::optional<int64_t> left_out = sink->errors.Pass();
    if (!left_out.has_value()) return;
    if (*left_out > 0) absl::StrAppend(&line, " (and ", *left_out, " other errors before)");
  }
  Say(line);
}

// The process ends after a failed assertion, so its line must not be left out: it says why.
#if DING_GRPC_LOGS_BY_ABSL
class AbslSink : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    Report(entry.text_message(), entry.log_severity() == absl::LogSeverity::kError);
  }
};

void TakeLines() {
  absl::InitializeLog();  // before this, Abseil writes all lines to stderr
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::AddLogSink(new AbslSink);
}
#else
void ReportGprLine(gpr_log_func_args* args) {
  const bool is_last = absl::StartsWith(args->message, "assertion failed");
  Report(args->message, args->severity == GPR_LOG_SEVERITY_ERROR && !is_last);
}

void TakeLines() { gpr_set_log_function(ReportGprLine); }
#endif

}  // namespace

void ReportGrpcErrors(std::function<void(const std::string& line)> say, const Clock* clock) {
  DING_CHECK(sink == nullptr) << "gRPC's errors are reported already";
  DING_CHECK(say != nullptr) << "gRPC's errors are reported to nobody";
  sink = new Sink{std::move(say), {1, kPeriod, clock}, {1, kPeriod, clock}};
  TakeLines();
}

void ReportRefusal(absl::string_view what) {
  if (sink == nullptr) return;
  const std::optional<int64_t> left_out = sink->refusals.Pass();
  if (!left_out.has_value()) return;
  Say(*left_out == 0 ? std::string(what)
                     : absl::StrCat(what, " (and ", *left_out, " others before)"));
}

}  // namespace ding
