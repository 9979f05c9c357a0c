// Says which field of a message a person may have meant by a name that the message does not have.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_WORKER_CONFIG_FIELD_SUGGESTION_H_
#define DING_WORKER_WORKER_CONFIG_FIELD_SUGGESTION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// Returns the end of an error text: "did you mean 'batch_size'?", or "it has: ..." with the names
// of all fields if none of them is near to `name`.
std::string SuggestField(const google::protobuf::Descriptor& descriptor, absl::string_view name);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_FIELD_SUGGESTION_H_
