// The format in which a store keeps a value in one piece, in a file or in a string of Redis:
//
//     "DSTO" | version u16 = 2 | name size u16 | value size u64 | CRC-32C u32 | name | value
//
// All numbers are little endian; the checksum covers everything except itself. The name identifies
// the value and its store ("run7/data/3/1f"), so that a swapped value, or a value of another run's
// store, is detected. The header is checked before memory is allocated for the value.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
#define DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// Returns the size of the header of a value with that name.
int64_t ValueHeaderBytes(absl::string_view name);

// Returns the header of a value whose pieces have `size` bytes together.
std::string MakeValueHeader(absl::string_view name, absl::Span<const absl::string_view> pieces,
                            int64_t size);

// Describes, for a message, why the `stored` bytes that begin with `header` are not a value of that
// name. Returns "" if only the checksum can tell. `header` has ValueHeaderBytes(name) bytes, or all
// bytes if there are fewer.
std::string DamageOfHeader(absl::string_view name, absl::string_view header, int64_t stored);

// Returns "" if `value` is what was put with `header`, else a description of the damage.
std::string DamageOfValue(absl::string_view name, absl::string_view header,
                          absl::string_view value);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
