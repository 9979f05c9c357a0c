// The order of the columns of a batch of transitions (data/sample_columns.h):
//
//   the fields of the rows | "next_" + each observation field | discount | n_step |
//   replay_unique_id | added columns
//
// An added column that the rows also have, with the same dtype and shape, replaces the column of the
// rows in its position. Batches of items (data/items.h) have no next_, discount and n_step.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_DATA_TRANSITION_LAYOUT_H_
#define DING_WORKER_DATA_TRANSITION_LAYOUT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"

namespace ding {

struct TransitionLayout {
  SpecPtr spec;             // the spec of the batches
  std::vector<int> stored;  // fields of the rows that no added column replaces
  int reward = -1;          // -1 for items; float32 [], or [R] for rewards of R components
  int first_next_obs = 0;
  int discount = 0;
  int n_step = 0;
  int replay_unique_id = 0;
};

// The first `obs_fields` fields of `rows` are the observation.
//   kInvalidArgument  the rows have no "reward" of float32[] or float32[R], an observation field is not named
//                     "obs" or "obs/...", or a field has the name of a column that is added here;
//                     items: a field is missing or wrong
absl::StatusOr<TransitionLayout> MakeTransitionLayout(const Spec& rows, int obs_fields,
                                                      absl::Span<const FieldSpec> added);

}  // namespace ding

#endif  // DING_WORKER_DATA_TRANSITION_LAYOUT_H_
