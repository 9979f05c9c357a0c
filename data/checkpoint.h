// A checkpoint: a folder of named parts of a program's state, complete or absent.
//
//   iteration_1200/
//     manifest.json        readable: version, kind, fields, the files with sizes and checksums
//     model.safetensors    one file for each component
//     optimizer.safetensors
//
// It is written under a temporary name beside its place and renamed when all of it is on the disk.
// One of the same name is replaced in the same step: whatever fails, the old one stays. A reader
// checks every byte before it hands out anything.
//
// Threads: a CheckpointReader is thread-compatible.
//
// Example:
//   DING_RETURN_IF_ERROR(WriteCheckpoint(
//       path, {"train", {{"iteration", "1200"}}},
//       {{"model", [&](StateWriter* writer) { return model.SaveState(writer); }},
//        {"buffer", [&](StateWriter* writer) { return buffer.SaveState(writer); }}}));
//
//   DING_ASSIGN_OR_RETURN(CheckpointReader checkpoint, CheckpointReader::Open(path));
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<StateReader> state, checkpoint.Component("model"));
//   DING_RETURN_IF_ERROR(model.LoadState(state.get()));
#ifndef DING_WORKER_DATA_CHECKPOINT_H_
#define DING_WORKER_DATA_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"

namespace ding {

struct CheckpointComponent {
  // Name of the file: letters, digits, '_', '-' and '.', not beginning with '.'.
  std::string name;
  // Writes the component; called several times (see WriteSafetensors).
  std::function<absl::Status(StateWriter*)> save;
};

// Facts that the writer gives to the reader, who gets them before it loads anything.
struct CheckpointInfo {
  std::string kind;                           // what it is for: the writer's word
  std::map<std::string, std::string> fields;  // any text
};

// Writes all components and the manifest; the parent folder of `path` must exist.
//   kInvalidArgument     a component's name is not fit for a file, or stands twice; text not UTF-8
//   kFailedPrecondition  something that is no checkpoint is at `path`
//   kResourceExhausted   disk full; others as of WriteFileAtomically; others of `save`
absl::Status WriteCheckpoint(const std::string& path, const CheckpointInfo& info,
                             absl::Span<const CheckpointComponent> components);

class CheckpointReader {
 public:
  // Reads the manifest and compares size and checksum of every file.
  //   kNotFound            there is no checkpoint at `path`
  //   kDataLoss            a file is missing, truncated or changed: names it
  //   kFailedPrecondition  written by another major version
  static absl::StatusOr<CheckpointReader> Open(const std::string& path);
  // Reads what the manifest says, and does not look at the files. Errors as of Open().
  static absl::StatusOr<CheckpointInfo> ReadInfo(const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  // Names of the components in the order written.
  std::vector<std::string> Components() const;
  // The state of a component; kNotFound lists those there are.
  absl::StatusOr<std::unique_ptr<StateReader>> Component(absl::string_view name) const;

 private:
  CheckpointReader() = default;

  std::string path_;
  CheckpointInfo info_;
  std::vector<std::string> files_;
};

namespace internal_data {

// The content of manifest.json, for checkpoint.cc and its tests.
struct ManifestFile {
  std::string name;
  int64_t size_bytes = 0;
  uint32_t crc32c = 0;
};
struct Manifest {
  CheckpointInfo info;
  std::vector<ManifestFile> files;
};

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest);
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text);
// The last lines of a manifest whose other bytes are `body`: they hold the checksum of `body`.
std::string ManifestEnd(absl::string_view body);

}  // namespace internal_data
}  // namespace ding

#endif  // DING_WORKER_DATA_CHECKPOINT_H_
