// What a session puts into one message of its connection.
//
//     message bytes | kind u8 | sequence u64 | taken u64 | window bytes u64 | version u8 | check u32
//
// little-endian. The fields lie behind the message, so that its receiver need not move it. Version 1
// had other fields and no number of its version; its frames are recognized, and refused by name.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_SESSION_FRAME_H_
#define DING_WORKER_INTERACTION_SESSION_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

inline constexpr int kSessionFrameVersion = 2;

struct SessionFrame {
  enum class Kind : uint8_t {
    kSignOfLife,  // has no number and no message
    kMessage,
    kClose,  // the last of its numbers; the message is the reason
  };

  Kind kind = Kind::kSignOfLife;
  uint64_t sequence = 0;      // of messages and the close: 1, 2, 3 and so on
  uint64_t taken = 0;         // messages that the user has received
  uint64_t window_bytes = 0;  // that may be under way to the sender of this frame; never shrinks
  std::string message;
};

inline constexpr size_t kSessionFrameBytes =
    2 * sizeof(uint8_t) + 3 * sizeof(uint64_t) + sizeof(uint32_t);

std::string EncodeSessionFrame(const SessionFrame& frame);

//   kDataLoss            that is no frame
//   kFailedPrecondition  one of another version; names both
absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes);

// The first frame of a session of version 1, which closes it: so a peer of that version learns why.
std::string EncodeCloseForVersion1(absl::string_view reason);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_SESSION_FRAME_H_
