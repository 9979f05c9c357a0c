// Parses protocol buffers from peers, stores and files, which need not be trusted.
//
// A few bytes can become much memory: 16 MB of empty strings are 475 MB of objects, and nested
// messages use up the stack. Therefore the bytes are scanned before they are parsed. The scan reads
// every tag and length and computes, from the type's descriptor, an upper bound of the memory that
// the message may take:
//
//     bytes ──► scan of tags and lengths ──► upper bound of memory and depth ──► parsed, or refused
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

// The most memory that a parsed message from a peer may take. (Such a message has at most 16 MiB.)
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 20;
// The greatest depth of nested messages. Ours have less than ten levels.
inline constexpr int kMaxParsedDepth = 64;

// Parses `bytes` into *message, which is cleared first and holds no meaningful content after an
// error.
//   kInvalidArgument    the bytes are no message of this type, or one nested deeper than
//                       kMaxParsedDepth
//   kResourceExhausted  the message may take more than `max_bytes` of memory
absl::Status ParseProto(absl::string_view bytes, google::protobuf::Message* message,
                        int64_t max_bytes = kMaxParsedBytes);

}  // namespace ding

#endif  // DING_WORKER_BASE_PARSE_PROTO_H_
