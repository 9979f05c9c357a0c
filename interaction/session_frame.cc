#include "ding_worker/interaction/session_frame.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {
namespace {

constexpr size_t kCheckedBytes = kSessionFrameBytes - sizeof(uint32_t);

template <typename Integer>
void Append(Integer value, std::string* out) {
  for (size_t i = 0; i < sizeof(value); ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

template <typename Integer>
Integer Take(absl::string_view* bytes) {
  Integer value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    value |= static_cast<Integer>(static_cast<uint8_t>((*bytes)[i])) << (8 * i);
  }
  bytes->remove_prefix(sizeof(value));
  return value;
}

// Of the fields, not of the message: transports keep bytes intact. What it finds is a peer that
// speaks something else.
uint32_t Check(absl::string_view fields) {
  uint32_t hash = 0x811C9DC5;  // FNV-1a
  for (const char c : fields) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

absl::Status NoFrame(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("no frame of a session: ", why));
}

}  // namespace

std::string EncodeSessionFrame(SessionFrame frame) {
  std::string bytes = std::move(frame.message);
  bytes.reserve(bytes.size() + kSessionFrameBytes);
  Append(static_cast<uint8_t>(frame.kind), &bytes);
  Append(frame.sequence, &bytes);
  Append(frame.acknowledged, &bytes);
  Append(frame.taken, &bytes);
  Append(Check(absl::string_view(bytes).substr(bytes.size() - kCheckedBytes)), &bytes);
  return bytes;
}

absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes) {
  if (bytes.size() < kSessionFrameBytes) {
    return NoFrame(absl::StrCat(bytes.size(), " bytes, expected at least ", kSessionFrameBytes));
  }
  const size_t message_bytes = bytes.size() - kSessionFrameBytes;
  absl::string_view rest = absl::string_view(bytes).substr(message_bytes);
  const uint32_t check = Check(rest.substr(0, kCheckedBytes));
  SessionFrame frame;
  const auto kind = Take<uint8_t>(&rest);
  frame.kind = static_cast<SessionFrame::Kind>(kind);
  frame.sequence = Take<uint64_t>(&rest);
  frame.acknowledged = Take<uint64_t>(&rest);
  frame.taken = Take<uint64_t>(&rest);
  if (Take<uint32_t>(&rest) != check) return NoFrame("its check sum is wrong");
  if (kind > static_cast<uint8_t>(SessionFrame::Kind::kClose)) {
    return NoFrame(absl::StrCat("its kind is ", kind));
  }
  if (frame.taken > frame.acknowledged) {
    return NoFrame(absl::StrCat("it says that ", frame.taken, " messages were taken of ",
                                frame.acknowledged, " that arrived"));
  }
  const bool numbered = frame.kind != SessionFrame::Kind::kAcknowledgement;
  if (numbered != (frame.sequence > 0) || (!numbered && message_bytes > 0)) {
    return NoFrame(absl::StrCat("kind ", kind, " with number ", frame.sequence, " and ",
                                message_bytes, " bytes of message"));
  }
  bytes.resize(message_bytes);
  frame.message = std::move(bytes);
  return frame;
}

}  // namespace ding
