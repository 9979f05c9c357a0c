// Action spaces as policies use them: masks of legal categories, and bounds of continuous actions.
//
// Ownership: takes no ownership.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_ACTION_SPACE_H_
#define DING_WORKER_POLICY_ACTION_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Action masks: the field "obs/action_mask" of an observation (kActionMaskField) says which actions
// are legal. It is bool or uint8, with one element per category of the discrete action; 0 is
// illegal. The categories of the elements of a multi-discrete action follow one another:
//
//     action   MultiDiscrete {2, 3}
//     mask     [1 1 | 0 1 1]           category 0 of element 1 is illegal
//
// Policies choose legal actions only. The mask is not an input of their networks.
//
// Shapes: mask [B, sum of counts] row-major, or empty: every action is legal.

// Returns the index of the mask among the fields of `observation`, if there is one.
//   kInvalidArgument  the dtype or the number of elements of the mask does not fit `action`
absl::StatusOr<std::optional<int>> FindActionMask(const Spec& observation, const Spec& action);

// Returns the fields that networks read; `observation` itself if it has no mask.
SpecPtr WithoutActionMask(const SpecPtr& observation);

// Returns the number of categories of each element of a discrete action field.
std::vector<int64_t> CategoryCounts(const FieldSpec& action);

// Returns the column of the mask in `obs`; empty if there is none.
absl::Span<const uint8_t> ActionMaskOf(const ColumnsView& obs, std::optional<int> mask_field);

// Returns the number of legal categories of one element.
int64_t CountLegal(absl::Span<const uint8_t> mask);

// Checks that every element of every row has a legal category. kInvalidArgument names the first row
// and element without a legal category, or says that `mask` does not have whole rows.
absl::Status CheckLegal(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts);

// Checks that every category of `action` [B, elements] is legal; without a mask all are.
// kInvalidArgument names the first row and element whose category is illegal or does not exist.
absl::Status CheckTaken(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts,
                        absl::Span<const int64_t> action);

// Converts continuous actions between the bounds of an action space and [-1, 1], in which networks
// and algorithms compute.
//
//   action = low + (unit + 1) / 2 * (high - low)
//
// Ownership: a value.   Threads: immutable.
class ActionScale {
 public:
  // Whether `field` is a float32 box with finite bounds.
  static bool Fits(const FieldSpec& field);
  // `action` must be one field "action" that fits. Messages begin with `algorithm`, such as "sac".
  //   kInvalidArgument  any other action space
  static absl::StatusOr<ActionScale> Create(const Spec& action, absl::string_view algorithm);
  // `field` must pass Fits().
  explicit ActionScale(const FieldSpec& field);

  // Number of elements of an action.
  size_t width() const { return low_.size(); }
  // Converts element `i` of an action. `unit` is clipped to [-1, 1].
  float FromUnit(float unit, size_t i) const;
  // Does the inverse; returns 0 for an element with a single legal value.
  double ToUnit(float action, size_t i) const;

  // Convert rows [B, width()] in the same way. The spans have the same length and may be the same.
  void FromUnit(absl::Span<const float> unit, absl::Span<float> action) const;
  void ToUnit(absl::Span<const float> action, absl::Span<float> unit) const;

 private:
  std::vector<float> low_;
  std::vector<float> high_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTION_SPACE_H_
