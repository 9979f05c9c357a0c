// Text for terminals.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_WORKER_CONFIG_WRAPPED_TEXT_H_
#define DING_WORKER_WORKER_CONFIG_WRAPPED_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace ding {

// Appends `line`, which is empty or ends with a space, and the words of `sentence` to `*text`, in lines of at most 100
// columns. The further lines begin at column `indent`.
void AppendWrapped(std::string line, size_t indent, absl::string_view sentence, std::string* text);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_WRAPPED_TEXT_H_
