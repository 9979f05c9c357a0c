// The files of the page, in the program (embed.sh).
#ifndef DING_WORKER_WORKER_WATCH_PAGE_FILES_H_
#define DING_WORKER_WORKER_WATCH_PAGE_FILES_H_

#include "absl/strings/string_view.h"

namespace ding {

// The content of the file with this name; empty: there is none.
absl::string_view PageFile(absl::string_view name);

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_PAGE_FILES_H_
