// A journal in a store: for a run whose coordinator may be started again on another machine, which
// shares nothing with the first one but Redis.
//
//   journal/owner                   the coordinator whose journal it is: <since>-<random>, so that a
//                                   later one is the greater string
//   journal/<owner>/<number>/1..    an entry for each append. After each compaction the place is a new
//                       .../head    one, a "generation". Its head is put when it is whole, and says
//                                   how many entries it begins with
//
// The journal is the greatest generation with a head: all entries that are there. A gap in them is
// damage and refused.
//
//   Append   Put the entry, then look whether (1) what was put before it and (2) `owner` are there
//
// (1) A store that has lost something (restarted empty, or without its last second; emptied by hand)
// is found out by the first append after that, before it is acknowledged. Everything that is in the
// journal is also in memory, and goes into a new generation. What the lost chunks were, a restart
// counts. What is lost one by one (a Redis that is told to evict) is found by the next coordinator.
//
// (2) Who opens the journal makes itself the owner, and then reads: an append whose writer has seen
// itself as the owner after it was put, is read. One who was the owner before, hung and wakes, writes
// where nobody reads, and gets kAborted from then on.
//
// An append whose outcome is unknown (kUnavailable) may take effect late, when its place was used
// again: the next one begins a new generation, too. It costs what a compaction does.
//
// Limits. All of it is held in memory: twice what lives, or min_compaction_bytes. Of two that open it
// in the same moment one fails. One that hung, and wakes after the store was emptied, takes itself for
// the owner until the owner appends.
//
// Ownership: the store outlives it.
// Threads:   as Journal.
// Blocking:  Append three commands of the store, with all other appends behind it; FinishCompaction
//            some more.
// Errors:    those of Journal and of Store; name the store.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_STORE_JOURNAL_H_
#define DING_WORKER_COORDINATOR_JOURNAL_STORE_JOURNAL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/journal/compaction.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// All keys of a journal begin with it.
inline constexpr char kJournalPrefix[] = "journal/";

class StoreJournal : public Journal {
 public:
  struct Options {
    Store* store = nullptr;
    // There is one already: none is an error.
    bool must_exist = false;
    // A smaller journal is not worth compacting.
    int64_t min_compaction_bytes = kMinCompactionBytes;
    // An entry that is larger is of one append.
    int64_t entry_bytes = int64_t{1} << 20;
  };

  // Makes itself the owner, and reads it.
  //   kNotFound            there is none, and must be
  //   kDataLoss            something in it is damaged, or missing; says what
  //   kFailedPrecondition  it is of another version
  //   kAborted             another coordinator has opened it in this moment
  static absl::StatusOr<std::unique_ptr<StoreJournal>> Open(const Options& options);
  StoreJournal(const StoreJournal&) = delete;
  StoreJournal& operator=(const StoreJournal&) = delete;
  ~StoreJournal() override;

  absl::Status Read(const Visitor& visit) const override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Append(absl::Span<const JournalRecord> records) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool WantsCompaction() const override;
  absl::Status BeginCompaction(const IsAlive& alive) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FinishCompaction(absl::Span<const JournalRecord> state) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DropReplaced() override ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t size_bytes() const override { return size_bytes_.load(); }
  int64_t compactions() const override { return compactions_.load(); }

 private:
  using Entry = std::shared_ptr<const std::string>;
  struct Generation;
  struct Rewrite;

  StoreJournal(const Options& options, std::string owner);

  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Entry> EntriesNow() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CopyLive(const IsAlive& alive, Rewrite* rewrite) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CopyTail(const std::vector<Entry>& source, Rewrite* rewrite) const;

  // Into the store.
  Generation NewGeneration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Add(absl::string_view frames, Generation* generation) const;
  absl::Status Flush(Generation* generation) const;
  absl::Status PutNext(const std::string& key, absl::string_view value,
                       std::string* last_key) const;
  absl::Status Publish(Generation* generation) const;
  absl::Status CheckOwner() const;
  void DropKeys(std::vector<std::string>* keys) const;

  // A new generation with all that there is, and `entry`, if it is not null.
  absl::Status Renew(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replace(Generation generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abandon(const Generation& generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Remembers what `status`, an error, says of the journal; returns what a caller is to be told.
  absl::Status Note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Store* const store_;
  const std::string owner_;
  mutable Mutex mutex_;
  std::unique_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;    // of a generation
  bool must_renew_ ABSL_GUARDED_BY(mutex_) = true;     // the next append begins a new one
  absl::Status replaced_ ABSL_GUARDED_BY(mutex_);      // by another coordinator, if it is not OK
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);  // kUnavailable
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mutex_);  // keys that are to be deleted
  // These when a later generation is published: until then they may be what is read.
  std::vector<std::string> dropped_later_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Rewrite> rewrite_;  // of who compacts
  std::atomic<int64_t> failures_{0};  // with kUnavailable
  std::atomic<int64_t> size_bytes_{0};
  std::atomic<int64_t> compacted_bytes_{0};  // size after the last time
  std::atomic<int64_t> compactions_{0};
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_STORE_JOURNAL_H_
