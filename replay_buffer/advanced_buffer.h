// A ring of transitions, drawn in proportion to their priorities: prioritized experience replay
// (Schaul et al., "Prioritized experience replay", ICLR 2016; proportional variant, section 3.3).
//
//   P(i) = p_i^alpha / sum_k p_k^alpha       a batch: one row of each of B equal strata of the sum
//   weight_i = (P(i) / min_k P(k))^-beta     in (0, 1]; the minimum is over all valid rows
//
// beta goes from its first value to 1 in `anneal_step` draws. A priority that is given is stored
// + 1e-5; a row that comes without one has the largest that Update() was ever given, at first 1.
//
// Drawn batches have the columns of data/sample_columns.h, those of prioritized buffers included:
//   priority           stored with the row when it was drawn
//   use                of a row that comes twice in a batch: n, then n + 1
//   staleness          cur_learner_iter - collect_iter, at least 0; -1 if the rows have no
//                      collect_iter or it is below 0
//   replay_buffer_idx  replay_unique_id modulo the capacity
// A column "priority" (float32[]) of the pushed rows gives their first priorities; nothing is ever
// written into what was pushed.
//
// A row leaves when it is the oldest of a full ring, when it was drawn `max_use` times (at the end
// of that draw), or at the first draw where its staleness is `max_staleness` or more. The latter two
// are retired: their memory goes when the ring comes round, but they are not drawn, not counted, and
// no update brings them back. They go also if the draw that finds them is then refused for want of
// rows.
//
// SampleOptions::newest counts valid rows from the newest. A row whose weight is more than 1/B of
// the sum comes more than once in a batch, else its importance weight were wrong;
// SampleOptions::replace says only that the batch may be larger than the buffer.
//
// Rows may be items (data/items.h), if nstep is 1: a batch then has no next_obs, discount and n_step.
//
// Ownership: copies what it is pushed.
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
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/prioritized_source.h"
#include "ding_worker/replay_buffer/removed_items.h"
#include "ding_worker/replay_buffer/sampled_data_attr_monitor.h"
#include "ding_worker/replay_buffer/selector.h"
#include "ding_worker/replay_buffer/thruput_controller.h"

namespace ding {

class AdvancedReplayBuffer : public ComposedBuffer {
 public:
  struct Options {
    int64_t capacity_rows = 4096;  // replay_buffer_size of the config
    // replay_buffer_bytes of the config. Set: as many rows as fit in (RowCapacity), whatever
    // capacity_rows is.
    std::optional<int64_t> capacity_bytes;
    int64_t nstep = 1;
    double gamma = 0.99;                   // discount_factor of the config
    double alpha = 0.6;                    // 0: uniform draws
    double beta = 0.4;                     // 0: all importance weights 1
    int64_t anneal_step = 100000;          // draws until beta is 1; 0: it stays
    std::optional<int64_t> max_use;        // not set: no limit
    std::optional<int64_t> max_staleness;  // in learner iterations; not set: no limit
    // A draw without SampleOptions::replace needs this many times its size of valid rows; at least 1.
    double sample_min_limit_ratio = 1;
    // What is refused as too fast; without limits nothing is.
    ThruputController::Options thruput;
    const Clock* clock = Clock::Real();  // of that, and of periodic_thruput_seconds
    // How long a push or draw that would be refused for its rate, or a draw for want of rows, waits
    // for other threads to change that; zero: it is refused at once.
    absl::Duration max_wait = absl::ZeroDuration();
    uint64_t seed = 0;
    std::string name = "replay_buffer";  // stands in errors and names the random stream and metrics
    // Where both monitors write; null: nothing is measured.
    std::shared_ptr<MetricSink> metrics;
    double periodic_thruput_seconds = 60;
    SampledDataAttrMonitor::Options sampled_data_attr;
    OnRemoved on_removed;  // for rows that are items only
    // Null: in proportion to the priorities. With another one all importance weights are 1. Belongs to
    // one buffer.
    std::shared_ptr<ISelector> selector;
  };

  using Counters = PrioritizedDraws::Counters;

  // A sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // kInvalidArgument lists them.
  static absl::StatusOr<std::unique_ptr<AdvancedReplayBuffer>> Create(const Options& options);

  // Beside what IBuffer says, Push():
  //   kInvalidArgument    the fields are not those that TransitionReader needs, "priority" is not
  //                       float32[] or "collect_iter" not int64[]; a priority is NaN, negative or
  //                       infinite: nothing is pushed;
  //                       on_removed is set, and the rows are no items
  //   kUnavailable        more rows per row drawn than Options::thruput allows; nothing is pushed
  //   kResourceExhausted  at the first push: the capacity is more than this machine's memory, with
  //                       the sum; later: out of memory
  // Sample():
  //   kFailedPrecondition also if fewer rows per row drawn were pushed than Options::thruput asks for
  // Update():
  //   kInvalidArgument    a priority is NaN, negative or infinite, or the columns differ in length;
  //                       then nothing changes. Rows that are gone are skipped and counted
  // LoadState():
  //   kInvalidArgument    also if what was saved is of another max_use, beta or anneal_step: uses and
  //                       beta have come about under them. alpha, nstep, gamma and max_staleness are
  //                       those of this buffer

  // The exponent of the importance weights of the next draw.
  double beta() const;
  double max_priority() const;
  // Since the buffer was made; Clear() and LoadState() leave them.
  Counters counters() const;
  // Entries of the index of rows by age: what max_staleness takes in memory, about 50 bytes each.
  int64_t staleness_runs() const;

 private:
  explicit AdvancedReplayBuffer(const Options& options);

  const PrioritizedDraws& draws() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Null until the first push.
  const PrioritizedSource* rows() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_ADVANCED_BUFFER_H_
