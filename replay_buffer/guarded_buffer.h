// Calls a buffer that a user may have written: an exception becomes an error of the call. If a function without a
// status throws, the next one with a status returns its error.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_GUARDED_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_GUARDED_BUFFER_H_

#include <memory>

#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

// Returns a buffer that passes all calls on to `buffer`, which is not null.
std::unique_ptr<IBuffer> GuardBuffer(std::unique_ptr<IBuffer> buffer);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_GUARDED_BUFFER_H_
