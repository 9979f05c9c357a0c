// Where the columns of a batch of transitions (data/sample_columns.h) stand:
//
//   the fields of the rows | "next_" + each observation field | discount | n_step |
//   replay_unique_id | added columns
//
// An added column that the rows have too, of the same dtype and shape, stands in its place among
// them. Of items (data/items.h): the same without next_, discount and n_step.
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
  SpecPtr spec;             // of the batches
  std::vector<int> stored;  // fields of the rows that the batches show: no added one replaces them
  int reward = -1;          // -1: of items
  int first_next_obs = 0;
  int discount = 0;
  int n_step = 0;
  int replay_unique_id = 0;
};

// `rows` begin with `obs_fields` fields of the observation.
//   kInvalidArgument  the rows have no float32 scalar "reward", an observation field is not named
//                     "obs" or "obs/...", or a field has the name of a column that is added here;
//                     items: a field is missing or wrong
absl::StatusOr<TransitionLayout> MakeTransitionLayout(const Spec& rows, int obs_fields,
                                                      absl::Span<const FieldSpec> added);

}  // namespace ding

#endif  // DING_WORKER_DATA_TRANSITION_LAYOUT_H_
