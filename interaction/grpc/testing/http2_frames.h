// Builds HTTP/2 frames by hand (RFC 9113, with the HPACK of RFC 7541), for tests of input that gRPC's
// clients never send.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_TESTING_HTTP2_FRAMES_H_
#define DING_WORKER_INTERACTION_GRPC_TESTING_HTTP2_FRAMES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {

inline std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                              absl::string_view body = "") {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame.push_back(static_cast<char>(body.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return frame.append(body.data(), body.size());
}

// Returns the first bytes of a client. They acknowledge the server's settings before it has sent them.
inline std::string Http2Hello() {
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2Frame(4, 0, 0), Http2Frame(4, 1, 0));
}

// Returns the HEADERS frame of a gRPC call, without its data.
inline std::string Http2Call(uint32_t stream, absl::string_view path) {
  const auto field = [](absl::string_view name, absl::string_view value) {
    return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                        std::string(1, static_cast<char>(value.size())), value);
  };
  // The first two bytes are entries of the static table: POST and http.
  return Http2Frame(
      1, 4, stream,
      absl::StrCat("\x83\x86", field(":path", path), field(":authority", "localhost"),
                   field("te", "trailers"), field("content-type", "application/grpc")));
}

inline std::string Http2Reset(uint32_t stream) {
  return Http2Frame(3, 0, stream, absl::string_view("\0\0\0\x8", 4));
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_TESTING_HTTP2_FRAMES_H_
