#include "ding_worker/interaction/control/session_frame.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/bytes.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

constexpr uint8_t kVersion = 2;

// The checksum covers the fields and not the message, because transports keep bytes intact. It
// detects a peer that speaks another protocol.
uint32_t Check(absl::string_view fields) {
  uint32_t hash = 0x811C9DC5;  // FNV-1a
  for (const char c : fields) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

absl::Status NoFrame(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("bytes that are not a frame of a session: ", why));
}

}  // namespace

std::string EncodeSessionFrame(SessionFrame frame) {
  std::string bytes = std::move(frame.message);
  const size_t message_bytes = bytes.size();
  bytes.reserve(message_bytes + kSessionFrameBytes);
  AppendNumber(static_cast<uint8_t>(frame.kind), &bytes);
  AppendNumber(frame.sequence, &bytes);
  AppendNumber(frame.taken, &bytes);
  AppendNumber(frame.window_bytes, &bytes);
  AppendNumber(kVersion, &bytes);
  AppendNumber(Check(absl::string_view(bytes).substr(message_bytes)), &bytes);
  return bytes;
}

absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes) {
  if (bytes.size() < kSessionFrameBytes) {
    return NoFrame(absl::StrCat(bytes.size(), " bytes, expected at least ", kSessionFrameBytes));
  }
  const size_t message_bytes = bytes.size() - kSessionFrameBytes;
  const absl::string_view fields = absl::string_view(bytes).substr(message_bytes);
  ByteCursor cursor(fields);
  SessionFrame frame;
  const auto kind = cursor.Take<uint8_t>();
  frame.kind = static_cast<Kind>(kind);
  frame.sequence = cursor.Take<uint64_t>();
  frame.taken = cursor.Take<uint64_t>();
  frame.window_bytes = cursor.Take<uint64_t>();
  const auto version = cursor.Take<uint8_t>();
  if (cursor.Take<uint32_t>() != Check(fields.substr(0, fields.size() - sizeof(uint32_t)))) {
    return NoFrame("its checksum is wrong");
  }
  if (version != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a frame of version ", version, " of the session's protocol, expected version ", kVersion,
        ": start all processes of a run from one build"));
  }
  if (kind > static_cast<uint8_t>(Kind::kClose)) {
    return NoFrame(absl::StrCat("its kind is ", kind));
  }
  const bool numbered = frame.kind != Kind::kSignOfLife;
  if (numbered != (frame.sequence > 0) || (!numbered && message_bytes > 0)) {
    return NoFrame(absl::StrCat("kind ", kind, " with number ", frame.sequence, " and ",
                                message_bytes, " bytes of message"));
  }
  bytes.resize(message_bytes);
  frame.message = std::move(bytes);
  return frame;
}

}  // namespace ding
