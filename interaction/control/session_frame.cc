#include "ding_worker/interaction/control/session_frame.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ding {
namespace {

using Kind = SessionFrame::Kind;

constexpr size_t kCheckedBytes = kSessionFrameBytes - sizeof(uint32_t);
// Version 1 has the kind and three numbers, as later versions do, but no version number.
constexpr size_t kVersion1CheckedBytes = kCheckedBytes - sizeof(uint8_t);

// Writes `value` to *out, and moves *out behind it.
template <typename Integer>
void Put(Integer value, char** out) {
  for (size_t i = 0; i < sizeof(value); ++i) *(*out)++ = static_cast<char>(value >> (8 * i));
}

// Reads a value from the front of *bytes, and removes it.
template <typename Integer>
Integer Take(absl::string_view* bytes) {
  Integer value = 0;
  for (size_t i = 0; i < sizeof(value); ++i) {
    value |= static_cast<Integer>(static_cast<uint8_t>((*bytes)[i])) << (8 * i);
  }
  bytes->remove_prefix(sizeof(value));
  return value;
}

// The checksum covers the fields and not the message, because transports keep bytes intact. It detects a peer
// that speaks another protocol.
uint32_t Check(absl::string_view fields) {
  uint32_t hash = 0x811C9DC5;  // FNV-1a
  for (const char c : fields) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

// Whether `bytes` end with the checksum of the `checked` bytes before it.
bool IsChecked(absl::string_view bytes, size_t checked) {
  if (bytes.size() < checked + sizeof(uint32_t)) return false;
  absl::string_view sum = bytes.substr(bytes.size() - sizeof(uint32_t));
  return Check(bytes.substr(bytes.size() - sizeof(uint32_t) - checked, checked)) ==
         Take<uint32_t>(&sum);
}

absl::Status NoFrame(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("bytes that are not a frame of a session: ", why));
}

absl::Status OtherVersion(int version) {
  return absl::FailedPreconditionError(
      absl::StrCat("a frame of version ", version, " of the session's protocol, expected version ",
                   kSessionFrameVersion, ": start all processes of a run from one build"));
}

}  // namespace

std::string EncodeSessionFrame(const SessionFrame& frame) {
  char fields[kSessionFrameBytes];
  char* end = fields;
  Put(static_cast<uint8_t>(frame.kind), &end);
  Put(frame.sequence, &end);
  Put(frame.taken, &end);
  Put(frame.window_bytes, &end);
  Put(static_cast<uint8_t>(kSessionFrameVersion), &end);
  Put(Check(absl::string_view(fields, kCheckedBytes)), &end);
  return absl::StrCat(frame.message, absl::string_view(fields, sizeof(fields)));
}

std::string EncodeCloseForVersion1(absl::string_view reason) {
  char fields[kVersion1CheckedBytes + sizeof(uint32_t)];
  char* end = fields;
  Put(static_cast<uint8_t>(Kind::kClose), &end);
  Put(uint64_t{1}, &end);  // sequence
  Put(uint64_t{0}, &end);  // acknowledged
  Put(uint64_t{0}, &end);  // taken
  Put(Check(absl::string_view(fields, kVersion1CheckedBytes)), &end);
  return absl::StrCat(reason, absl::string_view(fields, sizeof(fields)));
}

absl::StatusOr<SessionFrame> DecodeSessionFrame(std::string bytes) {
  if (!IsChecked(bytes, kCheckedBytes)) {
    if (IsChecked(bytes, kVersion1CheckedBytes)) return OtherVersion(1);
    if (bytes.size() < kSessionFrameBytes) {
      return NoFrame(absl::StrCat(bytes.size(), " bytes, expected at least ", kSessionFrameBytes));
    }
    return NoFrame("its checksum is wrong");
  }
  const size_t message_bytes = bytes.size() - kSessionFrameBytes;
  absl::string_view rest = absl::string_view(bytes).substr(message_bytes);
  SessionFrame frame;
  const auto kind = Take<uint8_t>(&rest);
  frame.kind = static_cast<Kind>(kind);
  frame.sequence = Take<uint64_t>(&rest);
  frame.taken = Take<uint64_t>(&rest);
  frame.window_bytes = Take<uint64_t>(&rest);
  const auto version = Take<uint8_t>(&rest);
  if (version != kSessionFrameVersion) return OtherVersion(version);
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
