#include "ding_worker/replay_buffer/sequence_buffer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/monitors/periodic_thruput_monitor.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/prioritized_sequence_source.h"
#include "ding_worker/replay_buffer/selection/priority_table.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/selection/sequence_index.h"
#include "ding_worker/replay_buffer/selection/sequence_source.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_layout.h"

namespace ding {
namespace {

SequenceIndex::Options IndexOptions(const SequenceReplayBuffer::Options& options) {
  SequenceIndex::Options index;
  index.rows = options.unroll_len;
  // Problems() refuses any other overlap.
  if (options.overlap.has_value() && IsRange(*options.overlap, 1, options.unroll_len.value_or(0))) {
    index.period = *options.unroll_len - *options.overlap;
  }
  index.padding = options.padding;
  index.cross_episodes = options.cross_episodes;
  return index;
}

RowCapacity CapacityOf(const SequenceReplayBuffer::Options& options) {
  return {options.capacity_rows, options.capacity_bytes,
          SequenceIndex::RowBytes(IndexOptions(options)) +
              (options.priority.has_value() ? PriorityTable::kRowBytes : 0),
          options.files};
}

// Items that are limited by their bytes may be episodes of any length.
int64_t ItemRowsOf(const SequenceReplayBuffer::Options& options) {
  return options.capacity_bytes.has_value() ? kMaxCapacityRows : options.capacity_rows;
}

std::unique_ptr<DrawKind> DrawsOf(const SequenceReplayBuffer::Options& options) {
  const SequenceDrawOptions sequences = {IndexOptions(options), options.burn_in, options.nstep,
                                         options.gamma, ItemRowsOf(options)};
  if (!options.priority.has_value()) return std::make_unique<SequenceDraws>(sequences);
  return std::make_unique<PrioritizedSequenceDraws>(sequences, *options.priority);
}

std::shared_ptr<ISelector> SelectorOf(const SequenceReplayBuffer::Options& options) {
  return options.priority.has_value() ? SelectorOr<ProportionalSelector>(options.selector)
                                      : SelectorOr<UniformSelector>(options.selector);
}

SequenceReplayBuffer::Options WholeEpisodes(const EpisodeReplayBuffer::Options& options) {
  SequenceReplayBuffer::Options sequences;
  static_cast<RingOptions&>(sequences) = options;
  sequences.unroll_len = std::nullopt;
  return sequences;
}

}  // namespace

SequenceReplayBuffer::SequenceReplayBuffer(const Options& options, OnRemoved on_removed)
    : ComposedBuffer({options.name, options.seed, CapacityOf(options), options.metrics,
                      options.periodic_thruput_seconds, options.clock, std::move(on_removed)},
                     {DrawsOf(options), SelectorOf(options), /*limiter=*/nullptr}) {}

std::vector<std::string> SequenceReplayBuffer::Problems(const Options& options) {
  std::vector<std::string> problems;
  AppendRingProblems(CapacityOf(options), options.nstep, options.gamma, &problems);
  PeriodicThruputMonitor::AppendProblems(options.periodic_thruput_seconds, &problems);
  if (options.priority.has_value()) AppendPriorityProblems(*options.priority, &problems);
  const auto in_range = [&problems](absl::string_view name, int64_t value, int64_t low,
                                    int64_t high) {
    if (value >= low && value <= high) return;
    problems.push_back(absl::StrCat(name, " is ", value, ", expected ", low, " to ", high));
  };
  // How many rows fit in capacity_bytes shows at the first push.
  const int64_t longest = options.capacity_bytes.has_value()
                              ? kMaxCapacityRows
                              : std::max<int64_t>(options.capacity_rows, 1);
  if (!options.unroll_len.has_value()) {
    if (options.burn_in < 0) in_range("burn_in", options.burn_in, 0, longest);
    if (options.overlap.has_value()) problems.emplace_back("overlap is set for whole episodes");
    if (options.padding) problems.emplace_back("padding is set for whole episodes");
    if (options.cross_episodes) problems.emplace_back("cross_episodes is set for whole episodes");
    return problems;
  }
  in_range("unroll_len", *options.unroll_len, 1, longest);
  const int64_t last = std::max<int64_t>(*options.unroll_len, 1) - 1;
  in_range("burn_in", options.burn_in, 0, last);
  in_range("overlap", options.overlap.value_or(0), 0, last);
  return problems;
}

absl::StatusOr<std::unique_ptr<SequenceReplayBuffer>> SequenceReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), options.name));
  return std::unique_ptr<SequenceReplayBuffer>(new SequenceReplayBuffer(options));
}

std::vector<int64_t> SequenceReplayBuffer::SequenceLengths() const {
  MutexLock lock(&mutex_);
  if (source() == nullptr) return {};
  return source()->Lengths();
}

std::vector<std::string> EpisodeReplayBuffer::Problems(const Options& options) {
  return SequenceReplayBuffer::Problems(WholeEpisodes(options));
}

absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> EpisodeReplayBuffer::Create(
    const Options& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), options.name));
  return std::unique_ptr<EpisodeReplayBuffer>(
      new EpisodeReplayBuffer(WholeEpisodes(options), options.on_removed));
}

}  // namespace ding
