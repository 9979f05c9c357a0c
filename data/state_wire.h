// Encodes a small state (the parameters of a policy) as bytes for another process, and decodes it. The bytes are a batch
// of one row whose fields are the tensors (data/wire.h), so that they are checked in the same way.
//
// Threads: thread-safe (pure functions).
//
// Example:
//   DING_ASSIGN_OR_RETURN(const EncodedBatch model, EncodeState([&](StateWriter* writer) {
//                           return policy->learn_mode()->SaveModel(writer);
//                         }));
//   DING_RETURN_IF_ERROR(store->Put(key, model.pieces()));
#ifndef DING_WORKER_DATA_STATE_WIRE_H_
#define DING_WORKER_DATA_STATE_WIRE_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"

namespace ding {

// Encodes a copy of the state that `save` writes.
//   kInvalidArgument  a tensor has no elements, which a spec does not allow
//   other codes       the errors of `save`
absl::StatusOr<EncodedBatch> EncodeState(const std::function<absl::Status(StateWriter*)>& save);

// Returns a reader of the state in `bytes`. Its error messages name `source`. Returns the errors of DecodeBatch().
absl::StatusOr<std::shared_ptr<StateReader>> DecodeState(absl::string_view bytes,
                                                         absl::string_view source);

}  // namespace ding

#endif  // DING_WORKER_DATA_STATE_WIRE_H_
