// A checkpoint is a folder with the named parts of a program's state. It exists as a whole or not
// at all. CheckpointWriter writes checkpoints in the background.
//
//   iteration_1200/
//     manifest.json        readable: version, kind, fields, the files with sizes and checksums
//     model.safetensors    one file for each component
//     optimizer.safetensors
//
// A checkpoint is first written under a temporary name beside its path. When all of it is on the
// disk, it is renamed, and replaces an old checkpoint at that path. If anything fails before, the
// old checkpoint stays. CheckpointReader::Open() checks every byte of all files.
//
// Threads: a CheckpointReader is thread-compatible, a CheckpointWriter is thread-safe.
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
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/state.h"

namespace ding {

struct CheckpointComponent {
  // The name of the component and of its file: at most 200 letters, digits, '_', '-' and '.', not
  // beginning with '.'.
  std::string name;
  // Writes the component. It is called several times, as by WriteSafetensors().
  std::function<absl::Status(StateWriter*)> save;
};

// The content of the manifest. A reader can look at it before it loads a component.
struct CheckpointInfo {
  std::string kind;                           // what the checkpoint is for, in the writer's words
  std::map<std::string, std::string> fields;  // any text
};

// Writes all components and the manifest; the parent folder of `path` must exist.
//   kInvalidArgument     a component's name cannot be a file name, or occurs twice; a text
//                        is not UTF-8
//   kFailedPrecondition  there is something at `path` that is not a checkpoint
//   kResourceExhausted   the disk is full
//   other codes          the errors of WriteFileAtomically() and of `save`
absl::Status WriteCheckpoint(const std::string& path, const CheckpointInfo& info,
                             absl::Span<const CheckpointComponent> components);

// Finds the checkpoint for a path that a user gave. Returns the first of these folders that holds
// one: `path`, `path`/ckpt/ckpt_best (`path` is the folder of a run), `path`/ckpt_best (it is the
// folder of a run's checkpoints). Returns `path` if none does.
std::string CheckpointFolder(const std::string& path);

class CheckpointReader {
 public:
  // Reads the manifest and compares size and checksum of every file.
  //   kNotFound            there is no checkpoint at `path`
  //   kDataLoss            a file is missing, truncated or changed; the message names it
  //   kFailedPrecondition  another major version wrote the checkpoint
  static absl::StatusOr<CheckpointReader> Open(const std::string& path);
  // Reads only the manifest; the other files are not checked. Returns the errors of Open().
  static absl::StatusOr<CheckpointInfo> ReadInfo(const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  // The names of the components, in the order in which they were written.
  std::vector<std::string> Components() const;
  // Returns the state of a component. kNotFound lists the existing components.
  absl::StatusOr<std::unique_ptr<StateReader>> Component(absl::string_view name) const;

 private:
  CheckpointReader() = default;

  std::string path_;
  CheckpointInfo info_;
  std::vector<std::string> files_;
};

// Writes checkpoints in the background. The caller passes snapshots of its components, and
// continues. The writer's thread writes the checkpoints, one after the other, and calls `done`. The
// writer holds the snapshots until their checkpoint is written.
//
// Example:
//   CheckpointWriter writer;
//   DING_ASSIGN_OR_RETURN(StateSnapshot model, CopyState(save_model));
//   writer.Write(path, info, {{"model", std::move(model)}}, [](const absl::Status& status) {...});
class CheckpointWriter {
 public:
  // The most checkpoints that wait while another one is written. More of them would only take
  // memory.
  static constexpr size_t kMaxWaiting = 2;

  CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  // Waits until all checkpoints are written.
  ~CheckpointWriter();

  // Writes the checkpoint as WriteCheckpoint() does and calls `done` with the result. The `save` of
  // each component must be a snapshot, because another thread calls it. If kMaxWaiting checkpoints
  // wait already, Write() first waits until there is room, for as long as the disk takes. If the
  // system could not start the writer's thread, Write() itself writes the checkpoint.
  void Write(std::string path, CheckpointInfo info, std::vector<CheckpointComponent> components,
             std::function<void(const absl::Status&)> done) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether no checkpoint is being written or waiting.
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until idle(), for as long as the disk takes.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Job {
    std::string path;
    CheckpointInfo info;
    std::vector<CheckpointComponent> components;
    std::function<void(const absl::Status&)> done;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;  // signalled when a member below has changed
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, because it uses the other members
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
// The last lines of a manifest, after the text `body`: they hold the checksum of `body`.
std::string ManifestEnd(absl::string_view body);

}  // namespace internal_data

}  // namespace ding

#endif  // DING_WORKER_DATA_CHECKPOINT_H_
