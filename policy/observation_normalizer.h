// Normalizes observations by the mean and standard deviation of the rows that were added to it
// (data/running_normalizer.h), each field by itself. The statistics are part of a model, so that a
// process that loads it normalizes as in training.
//
// Saved: "model/statistics/<field>/..." as RunningNormalizer::SaveState(), where actors look for
// the statistics.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_OBSERVATION_NORMALIZER_H_
#define DING_WORKER_POLICY_OBSERVATION_NORMALIZER_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"

namespace ding {

class ObservationNormalizer {
 public:
  // `clip` bounds normalized observations, above 0. Until rows are added, observations are only
  // clipped.
  //   kInvalidArgument  a field is not float32, or `clip` is not above 0
  static absl::StatusOr<ObservationNormalizer> Create(const SpecPtr& observation, double clip);

  // Replaces the statistics by the statistics of `rows`, which it loads part by part. The first
  // fields of `rows` are the observation, which must be finite and not normalized. Returns the
  // errors of rows.load.
  absl::Status Set(const RowParts& rows);
  // Adds `rows`, with the same fields, to the statistics.
  void Update(const ColumnsView& rows);
  // Does the same for the rows of a group (RunningNormalizer::Update()). Nothing is changed if
  // `sum` fails.
  absl::Status Update(const ColumnsView& rows, GroupSum sum);

  // Returns the normalized rows of `obs`, in `memory`, which has the spec of the observation.
  absl::StatusOr<ColumnsView> Normalize(const ColumnsView& obs, ScratchColumns* memory) const;
  // Normalizes in place the fields of the observation, which are among the fields of `rows`.
  void NormalizeInPlace(const MutableColumnsView& rows) const;

  // The names of its state below "model".
  const std::set<std::string>& names() const { return names_; }
  absl::Status SaveState(StateWriter* writer) const;
  // kInvalidArgument if the statistics do not fit; nothing is changed.
  absl::Status LoadState(StateReader* reader);

 private:
  ObservationNormalizer(SpecPtr observation, double clip);

  std::string ScopeInModel(size_t field) const;
  std::string Scope(size_t field) const;

  SpecPtr observation_;
  double clip_;
  std::vector<RunningNormalizer> fields_;
  std::set<std::string> names_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_OBSERVATION_NORMALIZER_H_
