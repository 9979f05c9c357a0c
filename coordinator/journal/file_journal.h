// A journal in a file of this machine; its bytes: journal_file.h.
//
// An append is one write(2): what that has taken survives the end of the process, however it ends.
// The end of the machine may cost what the kernel had not yet brought to the disk, the last 30
// seconds or so; compacting flushes.
//
// A torn end, as a crash leaves it, is cut off by Open(), and the log says how many bytes and where.
// Any other damage is refused: records behind it were acknowledged. journal_check.h (`ctl journal`)
// says what is left, and makes a journal of it.
//
// The file is locked: a second process is refused.
//
// Ownership: the file is open from Open() on.
// Threads:   as Journal.
// Errors:    name the file.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_FILE_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_FILE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/journal/compaction.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"

namespace ding {

class FileJournal : public Journal {
 public:
  struct Options {
    std::string path;
    // A smaller file is not worth compacting.
    int64_t min_compaction_bytes = kMinCompactionBytes;
  };

  // Opens the file, made if there is none; cuts off a torn end.
  //   kDataLoss            it is damaged; says where, and what to do
  //   kFailedPrecondition  it is no journal, of another version, or in use by another process
  //   kInvalidArgument     not a regular file
  static absl::StatusOr<std::unique_ptr<FileJournal>> Open(const Options& options);
  FileJournal(const FileJournal&) = delete;
  FileJournal& operator=(const FileJournal&) = delete;
  ~FileJournal() override;

  absl::Status Read(const Visitor& visit) const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Append(absl::Span<const JournalRecord> records) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool WantsCompaction() const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BeginCompaction(const IsAlive& alive) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FinishCompaction(absl::Span<const JournalRecord> state) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t size_bytes() const override ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t compactions() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Rewrite;

  FileJournal(Options options, int fd, int64_t size_bytes);

  // Cuts off the bytes that a failed append left: a later, shorter append would not cover them.
  absl::Status CutTornEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_);
  bool has_torn_end_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t compacted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // size after the last time
  int64_t compactions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Rewrite> rewrite_;  // of who compacts
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_FILE_JOURNAL_H_
