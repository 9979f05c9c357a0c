#include "ding_worker/env/process_deadline.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {
namespace {

// For a killed process to be gone.
constexpr absl::Duration kPatience = absl::Seconds(5);

struct TimeLimit {
  absl::Duration time;  // zero: no limit
  absl::string_view key;
  absl::string_view what;
};

TimeLimit LimitOf(EnvCall call, const ProcessDeadline::Limits& limits) {
  switch (call) {
    case EnvCall::kStarting:
    case EnvCall::kBuild:
      return {limits.connect_timeout, "connect_timeout", "start"};
    case EnvCall::kStep:
      return {limits.step_timeout, "step_timeout", "finish a step"};
    case EnvCall::kIdle:
      return {limits.connect_timeout, "connect_timeout", "begin the requested call"};
    case EnvCall::kWaiting:
      return {absl::ZeroDuration(), "", ""};
    default:
      return {limits.reset_timeout, "reset_timeout", "finish a reset"};
  }
}

}  // namespace

void ProcessDeadline::Start(absl::Time now, uint32_t progress) {
  progress_ = progress;
  since_ = now;
  kill_cause_ = absl::OkStatus();
}

void ProcessDeadline::Watch(absl::Time now, uint32_t progress) {
  if (progress == progress_ && watched_) return;
  progress_ = progress;
  since_ = now;
  watched_ = true;
}

absl::StatusOr<ProcessDeadline::Verdict> ProcessDeadline::Check(absl::Time now, uint32_t progress,
                                                                EnvCall call,
                                                                const Limits& limits) {
  if (!kill_cause_.ok()) {
    if (now - since_ < kPatience) return Verdict::kInTime;
    return absl::InternalError(absl::StrCat("a process that was killed ",
                                            absl::FormatDuration(kPatience),
                                            " ago is still there; ", kill_cause_.message()));
  }
  if (progress != progress_) {
    progress_ = progress;
    since_ = now;
    return Verdict::kInTime;
  }
  const TimeLimit limit = LimitOf(call, limits);
  if (limit.time <= absl::ZeroDuration() || now - since_ <= limit.time) return Verdict::kInTime;
  kill_cause_ = absl::DeadlineExceededError(absl::StrCat("its process did not ", limit.what, " in ",
                                                         absl::FormatDuration(limit.time), " (",
                                                         limit.key, ")"));
  since_ = now;
  return Verdict::kKill;
}

}  // namespace ding
