// The header of a file of the safetensors format, as text: which tensors the file has, and where. The
// format is in data/safetensors.h, which reads and writes files.
//
//   entries, metadata ──MakeSafetensorsHeader──► bytes ──► file ──► text ──ParseSafetensorsHeader──►
//   entries, metadata ──CheckSafetensorsLayout──► true to the size of the data
//
// Ownership: nothing is kept.
// Threads:   thread-safe (pure functions).
// Errors:    say which tensor and what was found; the caller says which file.
#ifndef DING_WORKER_DATA_SAFETENSORS_HEADER_H_
#define DING_WORKER_DATA_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/spec.h"

namespace ding {

// The header begins with the length of its text, which the reference implementation limits.
inline constexpr int64_t kSafetensorsLengthBytes = 8;
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100000000;
// The size of the tensor kSafetensorsChecksum.
inline constexpr int64_t kSafetensorsChecksumBytes = sizeof(uint32_t);
// Stands for the metadata, and is no name of a tensor.
inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

// The metadata that says the version of our use of the format.
inline constexpr absl::string_view kSafetensorsVersionKey = "ding_worker_version";

// One tensor as the header describes it. Offsets count from the begin of the data.
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

// The text with its length before it, padded.
//   kInvalidArgument  a name or a metadata string that is no UTF-8, or too many tensors
absl::StatusOr<std::string> MakeSafetensorsHeader(const SafetensorsHeader& header);

// Parses the text without its length. CheckSafetensorsLayout() checks the offsets.
//   kDataLoss       not as the format says
//   kUnimplemented  an element type that we have not (F16, ...)
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(const std::string& text);

// kDataLoss: the tensors do not fill [0, data_bytes) without gap or overlap, or one is not as long as
// its type and shape say.
absl::Status CheckSafetensorsLayout(const std::vector<SafetensorsEntry>& entries,
                                    int64_t data_bytes);

}  // namespace ding

#endif  // DING_WORKER_DATA_SAFETENSORS_HEADER_H_
