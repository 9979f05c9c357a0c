// A ring of transitions that is drawn in proportion to their priorities: prioritized experience
// replay (Schaul et al., "Prioritized experience replay", ICLR 2016; proportional variant, section
// 3.3).
//
//   P(i) = p_i^alpha / sum_k p_k^alpha       a batch: one row of each of B equal strata of the sum
//   weight_i = (P(i) / min_k P(k))^-beta     in (0, 1]; the minimum is over all valid rows
//
// beta grows from its first value to 1 in `anneal_step` draws. The buffer adds 1e-5 to each
// priority that it is given. A row that is pushed without a priority gets the largest priority that
// Update() was ever given, at least 1.
//
// Drawn batches have the columns of data/sample_columns.h, including those of prioritized buffers:
//   priority           the stored priority at the moment of the draw
//   use                how often the row was drawn, this draw included. If a row is twice in a
//                      batch, the counts are n and n + 1
//   staleness          cur_learner_iter - collect_iter, at least 0; -1 if the rows have no
//                      collect_iter, or a negative one
//   replay_buffer_idx  replay_unique_id modulo the capacity
// A column "priority" (float32[]) of the pushed rows gives their first priorities. The buffer never
// writes into what was pushed.
//
// If the ring is full, a push evicts the oldest rows. A draw retires rows: at its end, the rows
// that were drawn `max_use` times; at its beginning, the rows whose staleness is `max_staleness` or
// more, even if the draw is then refused because too few rows are left. A retired row is not drawn
// and not counted, and no update makes it valid again. Its memory is freed when the ring reaches
// it.
//
// SampleOptions::newest and range count valid rows. A row whose weight is more than 1/B of the sum
// can occur more than once in a batch; this keeps its importance weight correct.
// SampleOptions::replace only means that the batch may be larger than the buffer.
//
// Rows may be items (data/items.h) if nstep is 1: a batch then has no next_obs, discount and
// n_step.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe. Rows are chosen under the lock and copied after it. A snapshot holds the
//            lock while it copies 8 bytes per row.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   AdvancedReplayBuffer::Options options;
//   options.capacity_rows = 100000;
//   DING_ASSIGN_OR_RETURN(const auto buffer, AdvancedReplayBuffer::Create(options));
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));
//   DING_RETURN_IF_ERROR(buffer->Update({new_priorities, ids, slots}));
#ifndef DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/monitors/sampled_data_attr_monitor.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/prioritized_source.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {

class AdvancedReplayBuffer : public ComposedBuffer {
 public:
  struct Options : PriorityOptions {
    int64_t capacity_rows = 4096;  // replay_buffer_size of the config
    // replay_buffer_bytes of the config. If set, the capacity is as many rows as fit (RowCapacity),
    // and capacity_rows is ignored.
    std::optional<int64_t> capacity_bytes;
    // Where the rows lie, for data larger than memory; null: in memory. It belongs to one buffer.
    std::shared_ptr<RowFiles> files;
    int64_t nstep = 1;
    double gamma = 0.99;                   // discount_factor of the config
    std::optional<int64_t> max_use;        // not set: no limit
    std::optional<int64_t> max_staleness;  // in learner iterations; not set: no limit
    // A draw of n rows without SampleOptions::replace needs this times n valid rows; at least 1.
    double sample_min_limit_ratio = 1;
    // The limits on the rates of pushes and draws; the default has none.
    ThruputController::Options thruput;
    const Clock* clock = Clock::Real();  // for `thruput` and periodic_thruput_seconds
    // How long a call waits for other threads before it fails: a push or draw that exceeds the rate
    // limits, or a draw for which there are too few rows. Zero: it does not wait.
    absl::Duration max_wait = absl::ZeroDuration();
    uint64_t seed = 0;
    std::string name = "replay_buffer";  // prefix of errors and metrics; names the random stream
    // Where both monitors write their reports; null: nothing is measured.
    std::shared_ptr<MetricSink> metrics;
    double periodic_thruput_seconds = 60;
    SampledDataAttrMonitor::Options sampled_data_attr;
    OnRemoved on_removed;  // only for rows that are items
    // Null: ProportionalSelector. With a selector that does not draw by priority, all importance
    // weights are 1. A selector belongs to one buffer.
    std::shared_ptr<ISelector> selector;
    // Removes rows in addition to max_use and max_staleness; null: none. A remover belongs to one
    // buffer.
    std::shared_ptr<IRemover> remover;
  };

  using Counters = PrioritizedDraws::Counters;

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // Returns kInvalidArgument, with all Problems(), if there are any.
  static absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer>> Create(const Options& options);

  // Besides what IBuffer says, Push() returns
  //   kInvalidArgument     the fields are not those that TransitionReader needs; "priority" is not
  //                        float32[], or "collect_iter" is not int64[]; a priority is NaN, negative
  //                        or infinite; on_removed is set, and the rows are not items
  //   kUnavailable         Options::thruput does not allow so many rows pushed per row drawn
  //   kResourceExhausted   at the first push: the capacity exceeds this machine's memory (the
  //                        message shows the sum); later: out of memory
  // Sample() returns
  //   kFailedPrecondition  Options::thruput demands more rows pushed per row drawn
  // Update() skips and counts rows that have left the buffer, and returns
  //   kInvalidArgument     a priority is NaN, negative or infinite, or the columns differ in
  //                        length; nothing changes then
  // LoadState() returns
  //   kInvalidArgument     the saved buffer has another max_use, beta or anneal_step, on which its
  //                        saved uses and its current beta depend. alpha, nstep, gamma and
  //                        max_staleness may differ; the values of this buffer apply

  // The exponent of the importance weights of the next draw.
  double beta() const;
  double max_priority() const;
  // Counted since the buffer was created; Clear() and LoadState() do not change the counters.
  Counters counters() const;
  // The number of entries in the index that max_staleness needs; each takes about 50 bytes.
  int64_t staleness_runs() const;

 private:
  explicit AdvancedReplayBuffer(const Options& options);

  const PrioritizedDraws& draws() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Null until the first push.
  const PrioritizedSource* rows() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_
