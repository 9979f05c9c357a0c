// Writes and reads state in files of the safetensors format
// (https://github.com/huggingface/safetensors, "Format"). Python can read such files, and nothing
// in them is ever executed.
//
//   8 bytes   length of the header, little endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//             "__metadata__": {"key": "value", ...}}, padded with spaces to a multiple of 8
//   data      the tensors, one after the other without a gap
//
// The data are sorted by element size, the largest first, so that all tensors are aligned for
// readers that map them into memory. The header has the tensors in the order in which they were
// written.
//
// Threads: an open SafetensorsReader is thread-safe.
#ifndef DING_WORKER_DATA_SAFETENSORS_H_
#define DING_WORKER_DATA_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/state.h"

namespace ding {

// The version of what we write in this format. The metadata hold it as `ding_worker_version`. Files
// of other programs have no version; they are read in the same way.
inline constexpr absl::string_view kSafetensorsVersion = "1.0";

using StringMap = std::map<std::string, std::string>;

struct SafetensorsFileInfo {
  int64_t size_bytes = 0;
  uint32_t crc32c = 0;  // checksum of the whole file
};

// The last tensor of a self-checked file, uint8[4]: the CRC-32C of all bytes before it.
inline constexpr absl::string_view kSafetensorsChecksum = "crc32c";

// Writes the tensors that `save` writes to a file at `path`, through a temporary file. After a
// failure the old file is still there. `self_checked` adds kSafetensorsChecksum, for files whose
// checksum is kept nowhere else. No copy of the state is held in memory: `save` is called once to
// measure and once for each element size that occurs, and must write the same names, types and
// shapes every time.
//   kAlreadyExists       `save` writes a name twice
//   kInvalidArgument     a name is not UTF-8 or is "__metadata__", or the parts of a tensor do not
//                        have its size
//   kFailedPrecondition  `save` writes other tensors in a later call
//   kResourceExhausted   the disk is full
//   other codes          the errors of WriteFileAtomically() and of `save`
absl::StatusOr<SafetensorsFileInfo> WriteSafetensors(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata = {}, bool self_checked = false);
// The same for one of several files, as in a checkpoint. Adds the functions that `save` passes to
// StateWriter::WhenKept() to `when_kept`. The caller calls them when all files are in their place.
absl::StatusOr<SafetensorsFileInfo> WriteSafetensorsPart(
    const std::string& path, const std::function<absl::Status(StateWriter*)>& save,
    const StringMap& metadata, bool self_checked, std::vector<std::function<void()>>* when_kept);

class SafetensorsReader : public StateReader {
 public:
  // Opens a file and checks everything except the values: the header, names, types and sizes, and
  // that the tensors have no gap and no overlap. With `expected_crc` it reads the whole file once
  // and compares its CRC-32C.
  //   kNotFound            there is no file at `path`
  //   kDataLoss            the file is truncated, corrupted or not of this format; the message says
  //                        which and where
  //   kUnimplemented       a tensor has an element type that is not supported (F16, ...)
  //   kFailedPrecondition  a later major version wrote the file
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(
      const std::string& path, std::optional<uint32_t> expected_crc = std::nullopt);
  // Opens a self-checked file, and reads all of it once to compare its checksum. Returns the errors
  // of Open(), and
  //   kDataLoss            the checksum differs
  //   kInvalidArgument     the file has no checksum
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenSelfChecked(
      const std::string& path);

  absl::StatusOr<TensorInfo> Info(absl::string_view name) const override;
  absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) override;
  absl::Status ReadInPieces(absl::string_view name, int64_t piece_bytes,
                            absl::FunctionRef<void(absl::string_view)> take) override;
  // The names of the tensors, in the order of the header.
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
