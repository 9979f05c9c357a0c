// The header of a safetensors file, as text: which tensors the file has, and where.
// data/safetensors.h describes the format, and reads and writes the files.
//
//   entries, metadata ──MakeSafetensorsHeader──► bytes ──► file ──► text ──ParseSafetensorsHeader──►
//   entries, metadata ──CheckSafetensorsLayout──► true to the size of the data
//
// Threads: thread-safe (pure functions).
// Errors:  a message names the tensor and says what was found; the caller adds the name of the
//          file.
#ifndef DING_WORKER_DATA_SAFETENSORS_HEADER_H_
#define DING_WORKER_DATA_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"

namespace ding {

// The header begins with the length of its text, which the reference implementation limits.
inline constexpr int64_t kSafetensorsLengthBytes = 8;
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100000000;
// The size of the tensor kSafetensorsChecksum.
inline constexpr int64_t kSafetensorsChecksumBytes = sizeof(uint32_t);
// The entry of the header that has the metadata. No tensor may have this name.
inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

// The key of the metadata whose value is the version of our use of the format.
inline constexpr absl::string_view kSafetensorsVersionKey = "ding_worker_version";

// One tensor as the header describes it. Offsets count from the beginning of the data.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kUint8;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the text
  std::map<std::string, std::string> metadata;
};

// Returns the padded text, with its length before it.
//   kInvalidArgument  a name or a string of the metadata is not UTF-8, or there are too many
//                     tensors
absl::StatusOr<std::string> MakeSafetensorsHeader(const SafetensorsHeader& header);

// Parses the text, which comes without its length. Does not check the offsets; see
// CheckSafetensorsLayout().
//   kDataLoss       the text does not have the format
//   kUnimplemented  a tensor has an element type that is not supported (F16, ...)
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& text);

// Checks where the tensors are.
//   kDataLoss  they do not fill [0, data_bytes) without gap or overlap, or one does not have the
//              size that its type and shape say
absl::Status CheckSafetensorsLayout(const std::vector<SafetensorsEntry>& entries,
                                    int64_t data_bytes);

}  // namespace ding

#endif  // DING_WORKER_DATA_SAFETENSORS_HEADER_H_
