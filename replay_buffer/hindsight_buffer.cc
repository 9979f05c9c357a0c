#include "ding_worker/replay_buffer/hindsight_buffer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {
namespace {

RowCapacity CapacityOf(const HindsightReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes, /*owner_row_bytes=*/0, options.files};
}

}  // namespace

HindsightReplayBuffer::HindsightReplayBuffer(const Options& options)
    : ComposedBuffer({options.name, options.seed, CapacityOf(options), options.metrics,
                      options.periodic_thruput_seconds, options.clock, /*on_removed=*/nullptr},
                     {std::make_unique<HindsightDraws>(options.hindsight, options.gamma),
                      SelectorOr<UniformSelector>(options.selector), /*limiter=*/nullptr}) {}

std::vector<std::string> HindsightReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  if (options.nstep > 1) {
    problems.push_back(absl::StrCat("nstep is ", options.nstep,
                                    ", expected 1: the rewards of a window have no common goal"));
  }
  const HindsightOptions& hindsight = options.hindsight;
  if (!(hindsight.relabel_ratio >= 0 && hindsight.relabel_ratio <= 1)) {
    problems.push_back(
        absl::StrCat("relabel_ratio is ", hindsight.relabel_ratio, ", expected 0 to 1"));
  }
  if (!(hindsight.radius > 0 && std::isfinite(hindsight.radius))) {
    problems.push_back(absl::StrCat("radius is ", hindsight.radius,
                                    ", expected above 0: how close to a goal the env gives "
                                    "reward_at_goal"));
  }
  if (!std::isfinite(hindsight.reward_at_goal) || !std::isfinite(hindsight.reward_elsewhere) ||
      hindsight.reward_at_goal == hindsight.reward_elsewhere) {
    problems.push_back(absl::StrCat("reward_at_goal is ", hindsight.reward_at_goal,
                                    " and reward_elsewhere ", hindsight.reward_elsewhere,
                                    ", expected two different numbers: those of the env"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<HindsightReplayBuffer>> HindsightReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), options.name));
  return std::unique_ptr<HindsightReplayBuffer>(new HindsightReplayBuffer(options));
}

}  // namespace ding
