// Says what a person may have meant by a name that does not exist.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_SUGGESTION_H_
#define DING_WORKER_WORKER_CONFIG_SUGGESTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// Returns the name that is nearest to `name`, or "" if none is near.
std::string NearestName(const std::vector<std::string>& names, absl::string_view name);

// Returns the end of an error text: "did you mean 'batch_size'?", or "it has: ..." with all names if none of them is
// near to `name`.
std::string SuggestName(const std::vector<std::string>& names, absl::string_view name);
// Does so for a name that is no field of the message.
std::string SuggestField(const google::protobuf::Descriptor& descriptor, absl::string_view name);

// The names of all values of an enum.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& descriptor);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_SUGGESTION_H_
