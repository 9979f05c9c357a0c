// Parses protocol buffers that others wrote: peers, stores, files.
//
// A few bytes can become much memory: 16 MB of empty strings are 475 MB of objects, and nested messages
// use up the stack. So the memory is bounded before it is taken, by the descriptors:
//
//     bytes ──► every tag, and how long what is behind it is ──► an upper bound ──► parsed, or refused
//
// Threads: thread-safe (pure functions).
//
// Example:
//   WorkerMessage message;
//   DING_RETURN_IF_ERROR(ParseProto(bytes, &message));
#ifndef DING_WORKER_BASE_PARSE_PROTO_H_
#define DING_WORKER_BASE_PARSE_PROTO_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace ding {

// The memory that a message from a peer, of at most 16 MiB, may take when it is parsed.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 20;
// The depth to which messages may be nested. Ours have less than ten levels.
inline constexpr int kMaxParsedDepth = 64;

// Clears *message before.
//   kInvalidArgument    no message of this type, or one nested deeper than kMaxParsedDepth
//   kResourceExhausted  one that may take more than `max_bytes` of memory
absl::Status ParseProto(absl::string_view bytes, google::protobuf::Message* message,
                        int64_t max_bytes = kMaxParsedBytes);

}  // namespace ding

#endif  // DING_WORKER_BASE_PARSE_PROTO_H_
