// What the factories of all buffers read from a config in the same way.
//
// Threads: thread-safe.
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "google/protobuf/message.h"

namespace ding {

// Reads `params` into `*params`, if it is set, and checks what no buffer's options check. Null: this
// type of buffer has none. Adds a sentence for each problem.
void ReadBufferConfig(const BufferConfig& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems);

// Reads the capacity into the options of a buffer; what is not set keeps its default.
template <typename Options>
void ReadCapacity(const BufferConfig& config, Options* options) {
  if (config.has_replay_buffer_size()) options->capacity_rows = config.replay_buffer_size();
  if (config.has_replay_buffer_bytes()) options->capacity_bytes = config.replay_buffer_bytes();
}

// kInvalidArgument with all problems, if there are any.
absl::Status BufferProblemsToStatus(absl::string_view name,
                                    const std::vector<std::string>& problems);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_CONFIG_H_
