// Reads the columns of a sampled batch of sequences (data/sample_columns.h) for R2D2: those of
// SampledTransitionReader, and
//
//   rnn_state  required  the one of row b * T is the state before sequence b
//   mask       optional
//   burn_in    optional  the first rows of each sequence, equally many in all
//   is_first   optional
//   weight     optional  the one of row b * T is that of sequence b
//   n_step     optional  1 everywhere: R2D2 sums n steps itself
//
// Ownership: owns copies of the states and weights.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_R2D2_SAMPLED_SEQUENCE_READER_H_
#define DING_WORKER_POLICY_R2D2_SAMPLED_SEQUENCE_READER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/loss/r2d2_loss.h"
#include "ding_worker/policy/sampled_transition_reader.h"

namespace ding {

// Rows [B * T].
struct SequenceView {
  TransitionView transitions;
  SequenceRows rows;
  absl::Span<const float> state;   // [B, S]
  absl::Span<const float> weight;  // [B]; empty: all weights are 1
};

class SampledSequenceReader {
 public:
  SampledSequenceReader(SpecPtr observation, SpecPtr action, int64_t state_size);

  // The view is valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  besides what SampledTransitionReader says: single rows, burn-in that differs between
  //                     sequences or leaves no row, windows of several steps
  //   kInternal         a value is NaN or infinite; names column and row
  absl::StatusOr<SequenceView> Read(const Batch& batch);

 private:
  absl::Status Resolve(const Spec& batch);
  absl::StatusOr<int64_t> ReadBurnIn(const Batch& batch) const;
  absl::Status CheckOneStep(const Batch& batch) const;

  SampledTransitionReader transitions_;
  ColumnBinding state_;
  std::vector<float> first_states_;
  std::vector<float> weights_;
  SpecPtr resolved_;  // spec of the last batch
  // Indices in it; not set: there is no such column.
  std::optional<int> mask_;
  std::optional<int> burn_in_;
  std::optional<int> is_first_;
  std::optional<int> n_step_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_R2D2_SAMPLED_SEQUENCE_READER_H_
