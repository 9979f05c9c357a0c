// State in files of the safetensors format (https://github.com/huggingface/safetensors, "Format"):
// readable from Python, and nothing in them is ever executed.
//
//   8 bytes   length of the header, little endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//             "__metadata__": {"key": "value", ...}}, padded with spaces to a multiple of 8
//   data      the tensors, one after the other without a gap
//
// Tensors stand in the data by falling element size, which keeps all of them aligned (readers map
// them); in the header they stand in the order in which they were written.
//
// Threads: SafetensorsReader is thread-safe once open.
#ifndef DING_WORKER_DATA_SAFETENSORS_H_
#define DING_WORKER_DATA_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/state.h"

namespace ding {

// Version of our use of the format; stands in the metadata as `ding_worker_version`. Files without
// one are anyone's and read as they are.
inline constexpr absl::string_view kSafetensorsVersion = "1.0";

using StringMap = std::map<std::string, std::string>;

struct SafetensorsFileInfo {
  int64_t size_bytes = 0;
  uint32_t crc32c = 0;  // of the whole file
};

// The last tensor of a file that checks itself, uint8[4]: the CRC-32C of all bytes before it.
inline constexpr absl::string_view kSafetensorsChecksum = "crc32c";

// Writes what `save` writes to `path`, through a temporary file; a failure leaves what was at
// `path`. `self_checked` adds kSafetensorsChecksum, for files whose checksum is kept nowhere else.
// Streams: `save` is called once to measure and once for each element size that occurs, and
// must write the same names, types and shapes every time.
//   kAlreadyExists       a name is written twice
//   kInvalidArgument     a name that is no UTF-8 or is "__metadata__", parts that do not add up
//   kFailedPrecondition  `save` writes different things from one call to the next
//   kResourceExhausted   disk full; others as of WriteFileAtomically; others of `save`
absl::StatusOr<SafetensorsFileInfo> WriteSafetensors(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata = {}, bool self_checked = false);

class SafetensorsReader : public StateReader {
 public:
  // Checks everything about the file but the values: header, names, types, sizes, no gap and no
  // overlap. With `expected_crc` it reads the whole file once and compares its CRC-32C.
  //   kNotFound            no such file
  //   kDataLoss            truncated, corrupted or not of this format; says which and where
  //   kUnimplemented       an element type that we have not (F16, ...)
  //   kFailedPrecondition  written by a later major version
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(
      const std::string& path, std::optional<uint32_t> expected_crc = std::nullopt);
  // Opens a file that checks itself, and reads all of it once to compare its checksum. Errors as above,
  // and
  //   kDataLoss            its checksum is another
  //   kInvalidArgument     it has none
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenSelfChecked(
      const std::string& path);

  absl::StatusOr<TensorInfo> Info(absl::string_view name) const override;
  absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) override;
  // In the order of the header.
  std::vector<std::string> Names() const override;

  const StringMap& metadata() const { return metadata_; }

 private:
  struct Entry {
    TensorInfo info;
    int64_t begin;  // in the file
    int64_t size;
  };
  SafetensorsReader() = default;
  absl::StatusOr<const Entry*> Find(absl::string_view name) const;

  std::unique_ptr<RandomAccessFile> file_;
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> entries_;
  StringMap metadata_;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_SAFETENSORS_H_
