// What a session puts into one message of its connection.
//
//     message bytes | kind u8 | sequence u64 | acknowledged u64 | taken u64 | check u32
//
// little-endian. The fields lie behind the message, so that nobody has to move it.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_SESSION_FRAME_H_
#define DING_WORKER_INTERACTION_SESSION_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ding {

struct SessionFrame {
  enum class Kind : uint8_t {
    kAcknowledgement,  // a sign of life; has no number and no message
    kMessage,
    kClose,  // the last of its numbers; the message is the reason
  };

  Kind kind = Kind::kAcknowledgement;
  uint64_t sequence = 0;      // of messages and the close, counted from 1
  uint64_t acknowledged = 0;  // all up to this number have arrived
  uint64_t taken = 0;         // and all up to this one have been received by the user
  std::string message;
};

inline constexpr size_t kSessionFrameBytes = 1 + 3 * sizeof(uint64_t) + sizeof(uint32_t);

std::string EncodeSessionFrame(SessionFrame frame);

// kDataLoss if that is no frame.
absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SESSION_FRAME_H_
