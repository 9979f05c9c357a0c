// The bytes of a value where a store keeps it in one piece, in a file or in a string of Redis:
//
//     "DSTO" | version u16 = 2 | size of the name u16 | size of the value u64 | CRC-32C u32 | name |
//     value
//
// All numbers are little endian; the checksum is of everything but itself. The name says which value
// it is, in which store ("run7/data/3/1f"), so that one that lies in the place of another, or comes
// from the store of another run, is found out. What is wrong with a header is known before memory is
// taken for the value.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
#define DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// The size of the header of a value with that name.
int64_t ValueHeaderBytes(absl::string_view name);

// What stands before the value, whose pieces have `size` bytes together.
std::string MakeValueHeader(absl::string_view name, absl::Span<const absl::string_view> pieces,
                            int64_t size);

// How the `stored` bytes that begin with `header` are not a value of that name, for a message; empty:
// only their checksum can tell. `header` has ValueHeaderBytes(name) bytes, or all that there are.
std::string DamageOfHeader(absl::string_view name, absl::string_view header, int64_t stored);

// Empty: `value` is what was put with `header`. Else how it is damaged.
std::string DamageOfValue(absl::string_view name, absl::string_view header,
                          absl::string_view value);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_VALUE_FORMAT_H_
