#include "ding_worker/replay_buffer/selection/rate_limiter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

// The part of a row that still counts after the window.
constexpr double kLeftAfterWindow = 0.01;
// A faded count of drawn rows below this counts as zero.
constexpr double kNoSamples = 1e-5;

}  // namespace

void ReplayRatioLimiter::AppendProblems(const Options& options, int64_t draw_rows,
                                        std::vector<std::string>* problems) {
  const bool min_is_good = options.min >= 0 && std::isfinite(options.min);
  if (!min_is_good) {
    problems->push_back(absl::StrCat("replay_ratio.min is ", options.min,
                                     ", expected a finite number of at least 0"));
  }
  if (!(options.max > 0)) {
    problems->push_back(absl::StrCat("replay_ratio.max is ", options.max, ", expected above 0"));
  } else if (min_is_good && options.min > options.max) {
    problems->push_back(absl::StrCat("replay_ratio.min is ", options.min,
                                     ", expected at most its max, ", options.max));
  }
  if (options.min_size < 0) {
    problems->push_back(
        absl::StrCat("replay_ratio.min_size is ", options.min_size, ", expected at least 0"));
  }
  if (options.error_buffer < draw_rows) {
    problems->push_back(absl::StrCat("replay_ratio.error_buffer is ", options.error_buffer,
                                     ", expected at least ", draw_rows,
                                     ", the rows of a batch: with less between both bounds, the "
                                     "learner and the collectors could "
                                     "wait for each other"));
  }
}

double ReplayRatioLimiter::counted() const {
  return static_cast<double>(std::max<int64_t>(0, pushed_ - options_.min_size));
}

std::string ReplayRatioLimiter::Counts() const {
  const std::string first =
      options_.min_size > 0 ? absl::StrCat(" after the first ", options_.min_size) : "";
  return absl::StrCat(sampled_, " rows are drawn and ", counted(), " pushed", first);
}

absl::Status ReplayRatioLimiter::CheckPush(int64_t rows) {
  const double wanted = options_.min * counted();
  if (static_cast<double>(sampled_) + static_cast<double>(options_.error_buffer) >= wanted)
    return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("more draws before ", rows,
                                             " rows are pushed (replay_ratio.min is ", options_.min,
                                             ": ", Counts(), ")"));
}

absl::Status ReplayRatioLimiter::CheckSample(int64_t rows) {
  if (pushed_ < options_.min_size) {
    return absl::FailedPreconditionError(absl::StrCat("more rows before the first draw (", pushed_,
                                                      " of ", options_.min_size, " are pushed)"));
  }
  if (std::isinf(options_.max)) return absl::OkStatus();
  if (static_cast<double>(sampled_) + static_cast<double>(rows) <= options_.max * counted())
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("more rows before ", rows,
                                                    " are drawn (replay_ratio.max is ",
                                                    options_.max, ": ", Counts(), ")"));
}

void ReplayRatioLimiter::Restore(int64_t pushed, int64_t sampled) {
  pushed_ = pushed;
  sampled_ = sampled;
}

double ReplayRatioLimiter::ratio() const {
  return counted() > 0 ? static_cast<double>(sampled_) / counted() : 0;
}

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
