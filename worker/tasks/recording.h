// The recording of a learner (system.record_bytes), from which tools/replay runs it again. Each
// time that a learner begins, also to resume a task, it begins another file:
//
//   <exp_dir>/recording/learner_<n>      RecordedParts: start, then chunks, batches, versions ...
//   <exp_dir>/recording/worker_<number>  the name of that collector
//
// A part is framed as a record of TensorBoard's event files, without the masks of the checksums:
//
//   size u64 | CRC-32C u32 of the size | part | CRC-32C u32 of the part
//
// A chunk stands in a file once, before the first batch that names it. Parts are written once a
// second or every MiB, so a learner that is killed loses about the last second of its recording,
// and nothing else. When the recordings of the run have record_bytes, or the disk is full,
// recording ends with a warning, and the run goes on.
#ifndef DING_WORKER_WORKER_TASKS_RECORDING_H_
#define DING_WORKER_WORKER_TASKS_RECORDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/recording.pb.h"

namespace ding {

// The folder of the recordings of the run in `exp_dir`.
std::string RecordingFolder(const std::string& exp_dir);
// Notes the name of a worker, so that a recording tells who has collected a row.
absl::Status NameRecordedWorker(const std::string& exp_dir, uint32_t worker,
                                absl::string_view name);
// Returns "worker <number>" if its name is not known.
std::string RecordedWorker(const std::string& exp_dir, uint32_t worker);

// Threads: as LearnRecorder.
class RecordingWriter : public LearnRecorder {
 public:
  // The config's system.record_bytes are the bound for all files of the folder.
  static absl::StatusOr<std::unique_ptr<RecordingWriter>> Create(const std::string& exp_dir,
                                                                 const ExperimentConfig& config,
                                                                 const LearnerTask& task,
                                                                 int place);
  ~RecordingWriter() override;

  void AddChunk(int64_t chunk, absl::string_view bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  void AddBatch(const LearnerView& learner, const TrainData& data) override;
  void AddEvaluation(const EvaluationResult& result) override;
  void AddVersion(const PolicyVersion& version, const LearnerView& learner) override;

 private:
  RecordingWriter(OpenFile file, RecordedStart start, int64_t max_bytes);

  // Adds the start, if it was not added yet.
  void BeginOnce(const LearnerView& learner) ABSL_LOCKS_EXCLUDED(mutex_);

  void Add(const RecordedPart& events) ABSL_LOCKS_EXCLUDED(mutex_);
  bool ended() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return ended_;
  }
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what is pending.
  void Commit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenFile file_;
  const int64_t max_bytes_;             // of this file
  std::optional<RecordedStart> start_;  // without what the learner knows; not set: it was added
  int64_t batches_ = 0;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes
  // What is not written yet: framed parts, and a part with all events.
  std::string pending_ ABSL_GUARDED_BY(mutex_);
  std::string events_ ABSL_GUARDED_BY(mutex_);
  Timer since_commit_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<int64_t> chunks_ ABSL_GUARDED_BY(mutex_);
};

// Threads: thread-compatible.
class RecordingReader {
 public:
  // Returns the files of the run in `exp_dir`, in their order.
  //   kFailedPrecondition  the run was not recorded
  static absl::StatusOr<std::vector<std::string>> Find(const std::string& exp_dir);
  // Reads the whole file, and checks that nothing is missing in it.
  //   kDataLoss            names the batch or chunk that is damaged or gone
  //   kFailedPrecondition  another version of ding_worker has recorded it, or it is in use
  static absl::StatusOr<std::unique_ptr<RecordingReader>> Open(const std::string& path);

  const RecordedStart& start() const { return start_; }
  // Returns the events one after the other; null after the last one. The event is valid until the
  // next call.
  absl::StatusOr<const RecordedEvent*> Next();
  // Returns a chunk by its key in the store (interaction/store/store.h). kNotFound: it was never
  // added.
  absl::StatusOr<std::string> Chunk(absl::string_view key);

 private:
  RecordingReader(OpenFile file, std::string path);

  absl::Status Scan();
  // Checks that it is the next one, and that its chunks are there.
  absl::Status CheckBatch(const RecordedBatch& batch);
  absl::Status Gone(absl::string_view what) const;
  // Reads the part at `place`, and sets `*next` to the place of the next one.
  //   kOutOfRange  the file ends before or in it
  //   kDataLoss    it is damaged; `*next` is 0 if its size is damaged, too
  absl::Status Read(int64_t place, RecordedPart* part, int64_t* next);

  const OpenFile file_;
  const std::string path_;
  RecordedStart start_;
  std::vector<int64_t> events_;  // the places in the file of the parts with events
  size_t next_part_ = 0;
  RecordedPart part_;  // the one before it
  int next_event_ = 0;
  std::string bytes_;                                 // working memory of Read()
  absl::flat_hash_map<std::string, int64_t> chunks_;  // their places, by key
  int64_t batches_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_RECORDING_H_
