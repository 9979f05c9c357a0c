// The coordinator's memory beyond its process: a file to which it appends what must survive, before
// it tells anybody that it has happened.
//
//   push ─┐                          ┌── Read(): a new coordinator repeats what is in it
//   state ┼─Append─► [ r r r r r r ] ┤
//   over ─┘          one write(2)    └── Compact(): pushes of chunks that still live + the state
//
// What a write(2) has taken survives the end of the process, however it ends. The end of the machine
// may cost what the kernel had not yet brought to the disk; compacting flushes.
//
//   file    magic | record ...
//   record  length u32 | CRC-32C u32 of the length | CRC-32C u32 of the bytes | a JournalRecord
//
// A record that the file ends in the middle of was being written when the process ended: it is cut
// off, and nobody was told of it. Any other record that is not as it was written is damage, and the
// journal is refused: what follows it was acknowledged.
//
// Compacting reads and writes behind the appends and stops them only for the last few of them. It is
// worth it when the file has doubled since the last time, so that its cost per push is bounded.
//
// Ownership: the file is open from Open() on.
// Threads:   thread-safe; one at a time compacts.
// Errors:    name the file. An append that fails leaves the file as it was.
//
// Example: coordinator/journal_test.cc.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/journal.pb.h"

namespace ding {

class Journal {
 public:
  struct Options {
    std::string path;
    // A smaller file is not worth compacting.
    int64_t min_compaction_bytes = int64_t{16} << 20;
  };
  using Visitor = std::function<absl::Status(const JournalRecord&)>;

  // Opens the file, made if there is none; cuts off a torn end.
  //   kDataLoss            it is damaged; says where
  //   kFailedPrecondition  it is no journal, or of another version
  static absl::StatusOr<std::unique_ptr<Journal>> Open(const Options& options);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  // Calls `visit` for each record that is in it now, in their order, until one returns an error. Not
  // while somebody compacts.
  absl::Status Read(const Visitor& visit) const;

  // All or none of them.
  //   kResourceExhausted  the disk is full
  absl::Status Append(absl::Span<const JournalRecord> records) ABSL_LOCKS_EXCLUDED(mutex_);

  bool WantsCompaction() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Copies what is worth keeping while others append: pushes with a chunk that was not removed, into
  // a buffer that is `alive`. Slow.
  absl::Status BeginCompaction(const std::function<bool(const std::string& buffer_id)>& alive)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts the copy in the place of the file, with `state` at its end: all that is to be known now
  // beside pushes and removals, which alone may be appended meanwhile. Fast.
  absl::Status FinishCompaction(absl::Span<const JournalRecord> state) ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t size_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t compactions() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Rewrite;

  Journal(Options options, int fd, int64_t size_bytes);
  const Options options_;
  mutable Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
  int64_t size_bytes_ ABSL_GUARDED_BY(mutex_);
  int64_t compacted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // size after the last time
  int64_t compactions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Rewrite> rewrite_;  // of who compacts
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_H_
