#include "ding_worker/replay_buffer/selection/replay_ratio_limiter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace ding {

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

}  // namespace ding
