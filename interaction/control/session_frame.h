// The frame of a session: one message of its connection.
//
//     message | kind u8 | sequence u64 | taken u64 | window bytes u64 | version u8 | check u32
//
// The fields come after the message, so that neither side moves the message.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_CONTROL_SESSION_FRAME_H_
#define DING_WORKER_INTERACTION_CONTROL_SESSION_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace ding {

struct SessionFrame {
  enum class Kind : uint8_t {
    kSignOfLife,  // renews the lease; has no number and no message
    kMessage,
    kClose,  // has the last number; the message is the reason
  };

  Kind kind = Kind::kSignOfLife;
  uint64_t sequence = 0;  // numbers the messages and the close: 1, 2, 3 and so on
  uint64_t taken = 0;     // the number of messages that the sender's user has received
  // How many bytes of messages may be under way to the sender of this frame. It never shrinks.
  uint64_t window_bytes = 0;
  std::string message;
};

inline constexpr size_t kSessionFrameBytes =
    2 * sizeof(uint8_t) + 3 * sizeof(uint64_t) + sizeof(uint32_t);

std::string EncodeSessionFrame(SessionFrame frame);

//   kDataLoss            `bytes` are not a valid frame
//   kFailedPrecondition  the frame has another version; the message names both versions
absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_SESSION_FRAME_H_
