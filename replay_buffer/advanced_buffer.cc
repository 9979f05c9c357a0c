#include "ding_worker/replay_buffer/advanced_buffer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/priority_table.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {
namespace {

RowCapacity CapacityOf(const AdvancedReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes, PriorityTable::kRowBytes, options.files};
}

std::unique_ptr<PrioritizedDraws> DrawsOf(const AdvancedReplayBuffer::Options& options) {
  return std::make_unique<PrioritizedDraws>(
      PrioritizedDrawOptions{options.nstep, options.gamma, options, options.max_use,
                             options.max_staleness, options.sample_min_limit_ratio},
      options.name, options.sampled_data_attr, options.metrics);
}

}  // namespace

AdvancedReplayBuffer::AdvancedReplayBuffer(const Options& options)
    : ComposedBuffer(
          {options.name, options.seed, CapacityOf(options), options.metrics,
           options.periodic_thruput_seconds, options.clock, options.on_removed, options.max_wait},
          {DrawsOf(options), SelectorOr<ProportionalSelector>(options.selector),
           std::make_unique<ThruputController>(options.thruput, options.clock), options.remover}) {}

std::vector<std::string> AdvancedReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  AppendPriorityProblems(options, &problems);
  const auto at_least = [&problems](absl::string_view name, int64_t value, int64_t least) {
    if (value >= least) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", expected at least ", least));
  };
  at_least("max_use", options.max_use.value_or(1), 1);
  at_least("max_staleness", options.max_staleness.value_or(1), 1);
  if (!(options.sample_min_limit_ratio >= 1 && std::isfinite(options.sample_min_limit_ratio))) {
    problems.push_back(absl::StrCat("sample_min_limit_ratio is ", options.sample_min_limit_ratio,
                                    ", expected a finite number of at least 1"));
  }
  ThruputController::AppendProblems(options.thruput, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  SampledDataAttrMonitor::AppendProblems(options.sampled_data_attr, &problems);
  return problems;
}

absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer>> AdvancedReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), options.name));
  return std::unique_ptr<AdvancedReplayBuffer>(new AdvancedReplayBuffer(options));
}

const PrioritizedDraws& AdvancedReplayBuffer::draws() const {
  return static_cast<const PrioritizedDraws&>(kind());
}

const PrioritizedSource* AdvancedReplayBuffer::rows() const {
  return static_cast<const PrioritizedSource*>(source());
}

double AdvancedReplayBuffer::beta() const {
  MutexLock lock(&mutex_);
  return draws().beta();
}

double AdvancedReplayBuffer::max_priority() const {
  MutexLock lock(&mutex_);
  return rows() == nullptr ? 1 : rows()->max_priority();
}

AdvancedReplayBuffer::Counters AdvancedReplayBuffer::counters() const {
  MutexLock lock(&mutex_);
  return draws().counters();
}

int64_t AdvancedReplayBuffer::staleness_runs() const {
  MutexLock lock(&mutex_);
  return rows() == nullptr ? 0 : rows()->staleness_runs();
}

}  // namespace ding
