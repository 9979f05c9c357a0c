// Converts continuous actions between the bounds of an action space and [-1, 1], in which networks and
// algorithms compute.
//
//   action = low + (unit + 1) / 2 * (high - low)
//
// Ownership: a value.   Threads: immutable, so thread-safe.
#ifndef DING_WORKER_POLICY_ACTION_SCALE_H_
#define DING_WORKER_POLICY_ACTION_SCALE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/spec.h"

namespace ding {

class ActionScale {
 public:
  // Whether `field` is a float32 box with finite bounds.
  static bool Fits(const FieldSpec& field);
  // `action` must be one field "action" that fits. Messages begin with `algorithm`, such as "sac".
  //   kInvalidArgument  any other action space
  static absl::StatusOr<ActionScale> Create(const Spec& action, absl::string_view algorithm);
  // The field must fit.
  explicit ActionScale(const FieldSpec& field);

  // Number of elements of an action.
  size_t width() const { return low_.size(); }
  // Converts element `i` of an action. `unit` is clipped to [-1, 1].
  float FromUnit(float unit, size_t i) const;
  // The inverse; 0 for an element with a single legal value.
  double ToUnit(float action, size_t i) const;

  // Likewise for rows [B, width()]. The spans have the same length and may be the same.
  void FromUnit(absl::Span<const float> unit, absl::Span<float> action) const;
  void ToUnit(absl::Span<const float> action, absl::Span<float> unit) const;

 private:
  std::vector<float> low_;
  std::vector<float> high_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTION_SCALE_H_
