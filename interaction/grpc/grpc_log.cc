#include "ding_worker/interaction/grpc/grpc_log.h"

#include <grpc/support/log.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rate_bound.h"

namespace ding {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);

struct Sink {
  std::function<void(const std::string& line)> say;
  RateBound errors;
  RateBound refusals;
};
// gRPC takes a plain function without an argument for state, and calls it until the process ends.
Sink* sink = nullptr;

void Report(gpr_log_func_args* args) {
  std::string line = absl::StrCat("gRPC: ", args->message);
  // The process ends after a failed assertion, so this line must not be left out: it says why.
  const bool is_last = absl::StartsWith(args->message, "assertion failed");
  if (args->severity == GPR_LOG_SEVERITY_ERROR && !is_last) {
    const std::optional<int64_t> left_out = sink->errors.Pass();
    if (!left_out.has_value()) return;
    if (*left_out > 0) absl::StrAppend(&line, " (and ", *left_out, " other errors before)");
  }
  sink->say(line);
}

}  // namespace

void ReportGrpcErrors(std::function<void(const std::string& line)> say, const Clock* clock) {
  DING_CHECK(sink == nullptr) << "gRPC's errors are reported already";
  sink = new Sink{std::move(say), {1, kPeriod, clock}, {1, kPeriod, clock}};
  gpr_set_log_function(Report);
}

void ReportRefusal(absl::string_view what) {
  if (sink == nullptr) return;
  const std::optional<int64_t> left_out = sink->refusals.Pass();
  if (!left_out.has_value()) return;
  sink->say(*left_out == 0 ? std::string(what)
                           : absl::StrCat(what, " (and ", *left_out, " others before)"));
}

}  // namespace ding
