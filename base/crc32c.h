// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of our wire and file formats and of
// TensorBoard's records.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_CRC32C_H_
#define DING_WORKER_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace ding {

// The checksum of `bytes` appended to data whose checksum is `crc` (0 for none).
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

namespace internal_base {

// The path for machines without the instruction: for its test.
uint32_t Crc32cByTable(absl::string_view bytes, uint32_t crc = 0);

}  // namespace internal_base
}  // namespace ding

#endif  // DING_WORKER_BASE_CRC32C_H_
