#include "ding_worker/replay_buffer/selection/thruput_controller.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

// The part of a row that still counts after the window.
constexpr double kLeftAfterWindow = 0.01;
// A faded count of drawn rows below this counts as zero.
constexpr double kNoSamples = 1e-5;

}  // namespace

void ThruputController::AppendProblems(const Options& options, std::vector<std::string>* problems) {
  if (!(options.max_push_sample_ratio > 0)) {
    problems->push_back(absl::StrCat("push_sample_rate_limit.max is ",
                                     options.max_push_sample_ratio, ", expected above 0"));
  }
  if (!(options.min_push_sample_ratio >= 0 &&
        options.min_push_sample_ratio < std::numeric_limits<double>::infinity())) {
    problems->push_back(absl::StrCat("push_sample_rate_limit.min is ",
                                     options.min_push_sample_ratio,
                                     ", expected a finite number of at least 0"));
  } else if (options.min_push_sample_ratio > options.max_push_sample_ratio) {
    problems->push_back(absl::StrCat("push_sample_rate_limit.min is ",
                                     options.min_push_sample_ratio, ", expected at most its max, ",
                                     options.max_push_sample_ratio));
  }
  if (!(options.window_seconds > 0)) {
    problems->push_back(
        absl::StrCat("window_seconds is ", options.window_seconds, ", expected above 0"));
  }
}

ThruputController::ThruputController(const Options& options, const Clock* clock)
    : options_(options), clock_(clock), last_nanos_(clock->MonotonicNanos()) {}

void ThruputController::Fade() {
  const int64_t now = clock_->MonotonicNanos();
  const double seconds = 1e-9 * static_cast<double>(now - last_nanos_);
  last_nanos_ = now;
  const double left = std::pow(kLeftAfterWindow, seconds / options_.window_seconds);
  pushed_ *= left;
  sampled_ *= left;
}

absl::Status ThruputController::CheckPush(int64_t rows) {
  Fade();
  if (sampled_ < kNoSamples) return absl::OkStatus();
  const double ratio = (pushed_ + static_cast<double>(rows)) / sampled_;
  if (ratio <= options_.max_push_sample_ratio) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a push of ", rows, " rows would raise the rows pushed per row drawn to ", ratio,
                   " (recently ", pushed_, " pushed, ", sampled_, " drawn), expected at most ",
                   options_.max_push_sample_ratio));
}

absl::Status ThruputController::CheckSample(int64_t rows) {
  Fade();
  const double ratio = pushed_ / (sampled_ + static_cast<double>(rows));
  if (ratio >= options_.min_push_sample_ratio) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a draw of ", rows, " rows would lower the rows pushed per row drawn to ", ratio,
                   " (recently ", pushed_, " pushed, ", sampled_, " drawn), expected at least ",
                   options_.min_push_sample_ratio));
}

void ThruputController::CountPush(int64_t rows) {
  Fade();
  pushed_ += static_cast<double>(rows);
}

void ThruputController::CountSample(int64_t rows) {
  Fade();
  sampled_ += static_cast<double>(rows);
}

void ThruputController::Reset() { pushed_ = sampled_ = 0; }

}  // namespace ding
