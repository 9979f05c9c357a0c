// A journal in a file of this machine.
//
//   file    magic | record ...
//   record  length u32 | CRC-32C u32 of the length | CRC-32C u32 of the bytes | a JournalRecord
//
// An append is one write(2): what that has taken survives the end of the process, however it ends.
// The end of the machine may cost what the kernel had not yet brought to the disk; compacting
// flushes.
//
// A record that the file ends in the middle of was being written when the process ended: it is cut
// off, and nobody was told of it. Any other record that is not as it was written is damage, and the
// journal is refused: what follows it was acknowledged.
//
// Whether another process has it open is not looked after: the run's folder belongs to one process.
//
// Ownership: the file is open from Open() on.
// Threads:   as Journal.
// Errors:    name the file.
#ifndef DING_WORKER_COORDINATOR_FILE_JOURNAL_H_
#define DING_WORKER_COORDINATOR_FILE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/compaction.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/coordinator/journal.pb.h"

namespace ding {

class FileJournal : public Journal {
 public:
  struct Options {
    std::string path;
    // A smaller file is not worth compacting.
    int64_t min_compaction_bytes = kMinCompactionBytes;
  };

  // Opens the file, made if there is none; cuts off a torn end.
  //   kDataLoss            it is damaged; says where
  //   kFailedPrecondition  it is no journal, or of another version
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
  const Options options_;
  mutable Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_);
  int64_t compacted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // size after the last time
  int64_t compactions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Rewrite> rewrite_;  // of who compacts
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_FILE_JOURNAL_H_
