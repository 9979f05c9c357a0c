// Writes a spec as JSON and reads it again: for manifests, and for readers in other languages.
//
//   [{"name":"obs","dtype":"float32","shape":[4],"low":[-4.8],"high":[4.8]},
//    {"name":"obs/action_mask","dtype":"bool","shape":[2]}]
//
// Each member of the array is a field of the spec. "categories" is FieldSpec::num_categories,
// "frame_stack_axis" is FieldSpec::frame_stack_axis; "low", "high", "categories" and
// "frame_stack_axis" are left out if they are not set. If low and high are the same for all
// elements, they are written once; null is -infinity in "low" and infinity in "high".
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_DATA_SPEC_JSON_H_
#define DING_WORKER_DATA_SPEC_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"

namespace ding {

std::string SpecToJson(const Spec& spec);

// kInvalidArgument says which part of the text does not have the form above, or which field is not
// valid.
absl::StatusOr<SpecPtr> SpecFromJson(absl::string_view text);

}  // namespace ding

#endif  // DING_WORKER_DATA_SPEC_JSON_H_
