// Checks that observations keep to the bounds and categories of their spec, for envs whose code is not ours to trust.
//
// Ownership: keeps copies of the bounds.
// Threads:   thread-safe after construction.
//
// Example:
//   const ObservationBounds bounds(*spec.observation);
//   DING_RETURN_IF_ERROR(bounds.Check(row));
#ifndef DING_WORKER_ENV_OBSERVATION_BOUNDS_H_
#define DING_WORKER_ENV_OBSERVATION_BOUNDS_H_

#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

class ObservationBounds {
 public:
  explicit ObservationBounds(const Spec& spec);

  // `row` must have the spec. kInternal names the first element outside of its bounds, its value and the bounds.
  absl::Status Check(const RowView& row) const;

 private:
  // A field that has bounds, with the bounds of each element in the precision of the values.
  struct Field {
    int index = 0;
    std::vector<double> low;
    std::vector<double> high;
  };

  template <typename T>
  static absl::Status CheckField(const Field& field, const RowView& row);

  std::vector<Field> fields_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_OBSERVATION_BOUNDS_H_
