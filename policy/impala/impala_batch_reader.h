// Reads the columns of B sequences of T rows (data/sample_columns.h) for IMPALA.
//
// Needed are observations, action, reward, discount, next observations and "log_prob". "mask" and
// "is_first" are read where they exist, and where "n_step" and "burn_in" exist, it is checked that a row
// is one step and no row is burn-in. Values that would silently damage training are refused, as by
// SampledTransitionReader.
//
// Ownership: owns working memory that grows with the largest batch.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_IMPALA_IMPALA_BATCH_READER_H_
#define DING_WORKER_POLICY_IMPALA_IMPALA_BATCH_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/sampled_transition_reader.h"

namespace ding {

struct ImpalaBatch {
  int64_t length = 1;                          // T
  TransitionView rows;                         // [B * T]; `action` has the one field `taken`
  absl::Span<const float> behaviour_log_prob;  // [B * T]
  // [B * T]; 0: padding, which is at the end of a sequence. Empty: no row is padding.
  absl::Span<const uint8_t> mask;
  // [B * T]; 1: the episode ends with the row, or the next row of the sequence is missing.
  absl::Span<const uint8_t> end;
  // The ends whose episode has not terminated, in their order: their targets need V(next_obs).
  absl::Span<const int64_t> bootstrap_rows;
};

class ImpalaBatchReader {
 public:
  // `taken` is the field whose log-probability is column "log_prob" (ActionDistribution::taken_field()).
  ImpalaBatchReader(SpecPtr observation, const FieldSpec& taken);

  // The views are valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  as SampledTransitionReader; padding before a row, or a sequence of padding;
  //                     burn-in; rows of several steps; importance weights
  //   kInternal         a value is NaN or infinite; names column and row
  absl::StatusOr<ImpalaBatch> Read(const Batch& batch);

 private:
  // A column that a batch may have.
  struct OptionalColumn {
    explicit OptionalColumn(const FieldSpec& field);
    absl::Status Resolve(const Spec& batch);

    ColumnBinding binding;
    bool exists = false;
  };

  absl::Status Resolve(const Spec& batch);
  absl::Status CheckWindows(const ColumnsView& columns);
  absl::Status FindEnds(ImpalaBatch* read, absl::Span<const uint8_t> is_first);

  SampledTransitionReader transitions_;
  ColumnBinding log_prob_;
  OptionalColumn mask_;
  OptionalColumn is_first_;
  OptionalColumn burn_in_;
  OptionalColumn n_step_;
  SpecPtr resolved_;  // spec of the last batch

  // Working space, kept between calls.
  std::vector<uint8_t> end_;
  std::vector<int64_t> bootstrap_rows_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_IMPALA_IMPALA_BATCH_READER_H_
