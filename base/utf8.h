// Texts from outside (names of metrics, of runs) in files that readers expect to be UTF-8.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_BASE_UTF8_H_
#define DING_WORKER_BASE_UTF8_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ding {

bool IsUtf8(absl::string_view text);

// Returns the text as UTF-8 in one line: each byte that is not UTF-8, or belongs to a control
// character or line break that is not in `keep`, becomes "\xNN", its two hexadecimal digits.
std::string PrintableUtf8(absl::string_view text, absl::string_view keep = "");

}  // namespace ding

#endif  // DING_WORKER_BASE_UTF8_H_
