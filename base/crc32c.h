// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of our wire and file formats and of
// TensorBoard's records.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_CRC32C_H_
#define DING_WORKER_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace ding {

// The checksum of `bytes`. If they continue earlier data, pass the checksum of that data as `crc`:
// the result is the checksum of both together.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

namespace internal_base {

// Crc32c() without the processor's CRC instruction. Visible for its test only.
uint32_t Crc32cByTable(absl::string_view bytes, uint32_t crc = 0);

}  // namespace internal_base
}  // namespace ding

#endif  // DING_WORKER_BASE_CRC32C_H_
