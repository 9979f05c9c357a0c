// The bytes of a value where a store keeps it in one piece, in a file or in a string of Redis:
//
//     "DSTO" | version u16, 0 u16 | size u64 | CRC-32C u32 | value
//
// All numbers are little endian; the checksum is of what comes before it and of the value.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
#define DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

inline constexpr int64_t kValueHeaderBytes = 20;

// What stands before the value, whose pieces have `size` bytes together.
std::string MakeValueHeader(absl::Span<const absl::string_view> pieces, int64_t size);

// Empty: `value` is what was put with `header`. Else how it is damaged, for a message.
std::string DamageOfValue(absl::string_view header, absl::string_view value);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
