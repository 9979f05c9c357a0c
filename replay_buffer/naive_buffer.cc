#include "ding_worker/replay_buffer/naive_buffer.h"

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/row_source.h"
#include "ding_worker/replay_buffer/selection/selectors.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {
namespace {

RowCapacity CapacityOf(const NaiveReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes};
}

}  // namespace

NaiveReplayBuffer::NaiveReplayBuffer(const Options& options)
    : ComposedBuffer({options.name, options.seed, CapacityOf(options), options.metrics,
                      options.periodic_thruput_seconds, options.clock, options.on_removed},
                     {std::make_unique<RowDraws>(options.nstep, options.gamma),
                      SelectorOr<UniformSelector>(options.selector), /*limiter=*/nullptr}) {}

std::vector<std::string> NaiveReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<NaiveReplayBuffer>> NaiveReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(BufferProblemsToStatus(options.name, Problems(options)));
  return std::unique_ptr<NaiveReplayBuffer>(new NaiveReplayBuffer(options));
}

}  // namespace ding
