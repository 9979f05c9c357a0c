// A journal in a store. It is for a run whose coordinator may be started again on another machine, which shares only the
// store (Redis) with the first one.
//
//   journal/owner                   the coordinator that owns the journal: <since>-<random>. The string of a later owner
//                                   is greater
//   journal/<owner>/<number>/1..    one entry for each append. Each compaction begins a new <number>, a "generation".
//                       .../head    It is put when the generation is complete, and has the number of entries with which
//                                   the generation begins
//
// The content of the journal is the greatest generation that has a head, with all of its entries. A gap in the entries is
// damage, and is refused.
//
// An append puts an entry, and then checks (1) that the entry before it and (2) that `owner` are still in the store.
//
// (1) The first append after the store has lost data (it was restarted empty or without its last second, or emptied by
// hand) notices the loss before it is acknowledged. Everything in the journal is also in memory, and is written to a new
// generation. A restart of the coordinator counts the lost chunks. If the store loses single entries (a Redis that evicts
// keys), the next coordinator notices that.
//
// (2) A coordinator that opens the journal makes itself the owner before it reads. So it reads every append whose writer
// has seen that it was the owner after it put the entry. A former owner that hung and wakes up writes entries that nobody
// reads, and gets kAborted from then on.
//
// An append whose outcome is unknown (kUnavailable) may take effect later, when another entry has its key. Therefore the
// next append begins a new generation, which costs as much as a compaction.
//
// Limits: the whole journal is held in memory, which is up to twice what is still needed, or min_compaction_bytes. If two
// coordinators open it at the same moment, one of them fails. A coordinator that hung and wakes up after the store was
// emptied believes that it is the owner until the real owner appends.
//
// Ownership: the store must outlive it.
// Threads:   as Journal.
// Blocking:  Append() waits for three commands of the store, and for the appends before it; FinishCompaction() for some
//            more commands.
// Errors:    those of Journal and of Store; every message names the store.
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

// The beginning of all keys of a journal.
inline constexpr char kJournalPrefix[] = "journal/";

class StoreJournal : public Journal {
 public:
  struct Options {
    Store* store = nullptr;
    // Whether it is an error if the store has no journal.
    bool must_exist = false;
    // A smaller journal is not worth compacting.
    int64_t min_compaction_bytes = kMinCompactionBytes;
    // A compaction puts an entry as soon as it has this size.
    int64_t entry_bytes = int64_t{1} << 20;
  };

  // Makes the caller the owner of the journal, and reads it.
  //   kNotFound            there is no journal, and must_exist is set
  //   kDataLoss            an entry is damaged or missing; the message says which
  //   kFailedPrecondition  the journal has another version
  //   kAborted             another coordinator has opened the journal at the same moment
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

  // These write to the store.
  Generation NewGeneration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Add(absl::string_view frames, Generation* generation) const;
  absl::Status Flush(Generation* generation) const;
  absl::Status PutNext(const std::string& key, absl::string_view value,
                       std::string* last_key) const;
  absl::Status Publish(Generation* generation) const;
  absl::Status CheckOwner() const;
  void DropKeys(std::vector<std::string>* keys) const;

  // Begins a new generation with all entries and `entry`, unless that is null.
  absl::Status Renew(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Replace(Generation generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abandon(const Generation& generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Remembers what the error `status` means for the journal. Returns the error for the caller.
  absl::Status Note(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Store* const store_;
  const std::string owner_;
  mutable Mutex mutex_;
  std::unique_ptr<Generation> current_ ABSL_GUARDED_BY(mutex_);
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;  // the number of the last generation
  bool must_renew_ ABSL_GUARDED_BY(mutex_) = true;   // whether the next append begins a new one
  absl::Status replaced_ ABSL_GUARDED_BY(mutex_);    // an error if another coordinator is the owner
  absl::Status last_failure_ ABSL_GUARDED_BY(mutex_);         // the last kUnavailable
  std::vector<std::string> dropped_ ABSL_GUARDED_BY(mutex_);  // keys that are to be deleted
  // Keys that may be deleted when a later generation is published. Until then a coordinator may read them.
  std::vector<std::string> dropped_later_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Rewrite> rewrite_;  // only the thread that compacts uses it
  std::atomic<int64_t> failures_{0};  // the number of kUnavailable errors
  std::atomic<int64_t> size_bytes_{0};
  std::atomic<int64_t> compacted_bytes_{0};  // size after the last compaction
  std::atomic<int64_t> compactions_{0};
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_STORE_JOURNAL_H_
