// What a coordinator checks of its options.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {
namespace {

// Their product does not overflow.
constexpr int64_t kMaxRoundRows = int64_t{1} << 40;
constexpr int64_t kMaxRoundsAhead = int64_t{1} << 20;

}  // namespace

std::vector<std::string> Coordinator::Problems(const Options& options) {
  std::vector<std::string> problems;
  const auto check = [&problems](bool fits, const char* name, const auto& found,
                                 const std::string& expected) {
    if (!fits) problems.push_back(absl::StrCat(name, " is ", found, ", expected ", expected));
  };
  const auto check_time = [&check](const char* name, absl::Duration found) {
    check(found > absl::ZeroDuration(), name, absl::FormatDuration(found), "more than 0");
  };
  check_time("collector_task_timeout", options.collector_task_timeout);
  check_time("learner_task_timeout", options.learner_task_timeout);
  check_time("stall_timeout", options.stall_timeout);
  check(options.collectors >= 0, "collectors", options.collectors, "at least 0");
  check(options.wanted_collectors >= 0, "wanted_collectors", options.wanted_collectors,
        "at least 0");
  check(options.max_collectors >= 1, "max_collectors", options.max_collectors, "at least 1");
  check(options.max_task_failures >= 1, "max_task_failures", options.max_task_failures,
        "at least 1");
  check(options.min_return <= options.max_return, "min_return", options.min_return,
        absl::StrCat("at most ", options.max_return, ", which is max_return"));
  if (options.replay_ratio.has_value()) {
    ReplayRatioLimiter::AppendProblems(*options.replay_ratio, /*draw_rows=*/0, &problems);
  }
  if (options.lockstep_tasks > 0 && options.replay_ratio.has_value()) {
    problems.push_back("lockstep_tasks and replay_ratio are set, expected one of them");
  }
  if (options.rounds.has_value() &&
      (options.rounds->rows < 1 || options.rounds->hand_over_rows < 1 ||
       options.rounds->ahead < 0 || options.rounds->rows > kMaxRoundRows ||
       options.rounds->hand_over_rows > kMaxRoundRows || options.rounds->ahead > kMaxRoundsAhead)) {
    problems.push_back(absl::StrCat("rounds are of ", options.rounds->rows, " rows, hand-overs of ",
                                    options.rounds->hand_over_rows, ", and ", options.rounds->ahead,
                                    " rounds are collected ahead, expected 1 to ", kMaxRoundRows,
                                    " rows, and 0 to ", kMaxRoundsAhead, " rounds"));
  }
  check(options.first_env_step >= 0 && options.first_env_step <= kMaxSavedCount, "first_env_step",
        options.first_env_step, absl::StrCat("0 to ", kMaxSavedCount));
  check(options.random_collect_size >= 0, "random_collect_size", options.random_collect_size,
        "at least 0");
  if (options.max_env_step < 0 || options.max_train_iter < 0 ||
      options.max_time < absl::ZeroDuration()) {
    problems.push_back("a budget is below 0, expected 0 for none");
  }
  return problems;
}

}  // namespace ding
