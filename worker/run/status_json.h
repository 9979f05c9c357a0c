// The status of a parallel run as JSON, for other programs: `ctl status --json`. Its keys are always all there and keep
// their meaning; new ones may come. docs/reference/parallel.md describes them.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_WORKER_RUN_STATUS_JSON_H_
#define DING_WORKER_WORKER_RUN_STATUS_JSON_H_

#include <string>

#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Returns one line, without a line end. A value that is not known, or is not a finite number, is null.
std::string RunStatusToJson(const RunStatus& status);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_STATUS_JSON_H_
