// A journal in a file on this machine. journal_file.h describes its bytes.
//
// An append is one write(2). Records that were written survive the end of the process, however it ends. If the machine
// goes down, the records that the kernel had not written to the disk yet are lost (about the last 30 seconds). The first
// append to a new file and each compaction are flushed to the disk, with the name of the file. So a coordinator that has
// answered anybody leaves a journal, whatever happens to the machine.
//
// A crash can leave a torn end. Open() cuts it off and logs how many bytes were cut off, and where. Any other damage is
// refused, because records behind it were acknowledged; journal_check.h (`ctl journal`) reports what can still be read
// and makes a journal of it.
//
// The file is locked, so that a second process cannot open it.
//
// Ownership: the file is open from Open() to destruction.
// Threads:   as Journal.
// Errors:    every message names the file.
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

  // Opens the file, or creates it, and cuts off a torn end.
  //   kDataLoss            the file is damaged; the message says where, and what to do
  //   kFailedPrecondition  the file is not a journal, has another version, or is in use by another process
  //   kInvalidArgument     the path is not a regular file
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

  // Cuts off the bytes that a failed append has left, because a later, shorter append would not cover them.
  absl::Status CutTornEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_);
  bool has_torn_end_ ABSL_GUARDED_BY(mutex_) = false;
  bool flushed_
      ABSL_GUARDED_BY(mutex_);  // whether the file's first record was flushed, and its name
  int64_t compacted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // size after the last compaction
  int64_t compactions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Rewrite> rewrite_;  // only the thread that compacts uses it
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_FILE_JOURNAL_H_
