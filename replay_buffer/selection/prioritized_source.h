// Draws single rows with priorities, importance weights and counted uses, and retires rows that are
// used up or too stale. AdvancedReplayBuffer draws in this way; advanced_buffer.h has the formulas.
//
// Threads: as DrawKind.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/monitors/sampled_data_attr_monitor.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/priority_table.h"
#include "ding_worker/replay_buffer/selection/staleness_remover.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

struct PrioritizedDrawOptions {
  int64_t nstep = 1;
  double gamma = 0.99;
  PriorityOptions priority;
  std::optional<int64_t> max_use;
  std::optional<int64_t> max_staleness;
  double sample_min_limit_ratio = 1;
};

// The state that outlives the rows: beta, the counters, and the monitor of drawn rows.
class PrioritizedDraws : public DrawKind {
 public:
  // Counted since the buffer was created; Clear() and LoadState() do not change the counters.
  struct Counters {
    int64_t retired_by_use = 0;
    int64_t retired_by_staleness = 0;
    int64_t retired_by_remover = 0;
    int64_t skipped_updates = 0;  // priorities of rows that had left the buffer
  };

  // If `metrics` is null, nothing is measured.
  PrioritizedDraws(const PrioritizedDrawOptions& options, const std::string& name,
                   const SampledDataAttrMonitor::Options& attr,
                   const std::shared_ptr<MetricSink>& metrics);

  absl::string_view state_type() const override { return "advanced"; }
  int64_t state_version() const override { return 2; }
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;
  double NeededFor(int64_t size) const override {
    return options_.sample_min_limit_ratio * static_cast<double>(size);
  }
  absl::Status CheckUpdate(const PriorityInfo& info) const override;
  void Update(const PriorityInfo& info, DrawSource* source) override;
  StateSnapshot Snapshot() const override;
  absl::StatusOr<std::function<void()>> Read(StateReader* reader) override;

  // The exponent of the importance weights of the next draw.
  double beta() const { return beta_.value(); }
  const Counters& counters() const { return counters_; }

 private:
  friend class PrioritizedSource;

  const PrioritizedDrawOptions options_;
  AnnealedBeta beta_;
  Counters counters_;
  std::optional<SampledDataAttrMonitor> attr_monitor_;  // has a lock of its own
};

class PrioritizedSource : public DrawSource {
 public:
  // `draws` outlives the source.
  static absl::StatusOr<std::unique_ptr<PrioritizedSource>> Create(PrioritizedDraws* draws,
                                                                   std::shared_ptr<RowStore> store);

  int64_t size() const override { return priorities_->count(); }
  int64_t rows() const override { return size(); }
  absl::Status Check(const SegmentBatch& data) const override;
  void Append(const SegmentBatch& data, int64_t first_id) override;
  void Clear() override;
  void RetireStale(int64_t learner_iter, RetiredRows retired) override;
  void Retire(int64_t id, RetiredRows retired) override;
  bool IsRetired(int64_t id) const override { return !priorities_->IsValid(id); }
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override;
  DrawFacts Commit(const DrawRequest& request, TransitionDraw* draw, RetiredRows retired) override;
  void Finish(const DrawFacts& facts, TransitionDraw* draw) const override;
  StateSnapshot Snapshot() const override { return priorities_->Snapshot(); }
  absl::Status Load(StateReader* reader) override;

  // Returns how many of the rows had left the buffer.
  int64_t Update(const PriorityInfo& info) { return priorities_->Update(info); }
  float max_priority() const { return priorities_->max_priority(); }
  int64_t staleness_runs() const { return staleness_.runs(); }

 protected:
  bool RanksToIds(absl::Span<int64_t> ranks) const override;
  absl::Status DrawByPriority(const DrawRequest& request, absl::Span<int64_t> ids) override;

 private:
  // The fields of a batch that a draw fills, and the fields of the rows that it reads.
  struct Fields {
    int weight;
    int use;
    int staleness;
    int priority;
    int buffer_idx;
    std::optional<int> collect_iter;  // of the rows, if they have it
    bool given_priority;              // whether the rows have a column "priority"
  };

  PrioritizedSource(PrioritizedDraws* draws, const Fields& fields,
                    std::shared_ptr<TransitionReader> reader,
                    std::unique_ptr<PriorityTable> priorities);

  absl::Span<const float> GivenPriorities(const SegmentBatch& data) const;

  PrioritizedDraws* const draws_;
  const Fields fields_;
  const std::unique_ptr<PriorityTable> priorities_;
  StalenessRemover staleness_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITIZED_SOURCE_H_
