// Which actions are legal: the field "obs/action_mask" of an observation (kActionMaskField), bool or
// uint8, with one element for each category of the discrete action; 0 is illegal. The categories of a multi-discrete action stand side by side:
//
//     action   MultiDiscrete {2, 3}
//     mask     [1 1 | 0 1 1]           category 0 of element 1 is illegal
//
// Policies obey it; it is no input of their networks.
//
// Shapes: mask [B, sum of counts] row-major, or empty: every action is legal.
// Ownership: none is taken.   Threads: thread-safe (pure functions).
#ifndef DING_WORKER_POLICY_ACTION_MASK_H_
#define DING_WORKER_POLICY_ACTION_MASK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

// The index of the mask among the fields of `observation`, if there is one.
//   kInvalidArgument  its dtype, or its number of elements, does not fit `action`
absl::StatusOr<std::optional<int>> FindActionMask(const Spec& observation, const Spec& action);

// The fields that networks read: `observation` itself if it has no mask.
SpecPtr WithoutActionMask(const SpecPtr& observation);

// Categories of each element of a discrete action field.
std::vector<int64_t> CategoryCounts(const FieldSpec& action);

// The columns of the mask in `obs`; empty if there is none.
absl::Span<const uint8_t> ActionMaskOf(const ColumnsView& obs, std::optional<int> mask_field);

// The number of legal categories of one element.
int64_t CountLegal(absl::Span<const uint8_t> mask);

// OK if every element of every row has a legal category. Else InvalidArgument that names the first
// row, and the element, that has none.
absl::Status CheckLegal(absl::Span<const uint8_t> mask, absl::Span<const int64_t> counts);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTION_MASK_H_
