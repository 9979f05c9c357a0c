// The disk tier of a RowStore: each block of rows is a file that is mapped into memory. The system
// keeps in memory what was used last, and reads the rest again when a row of it is drawn.
//
//     <folder>/lock      held by the RowFiles that uses the folder
//     <folder>/saved     the files that saves name: a line for each of the last saves that were kept,
//                        and for those that may still be
//     <folder>/17.rows   the rows of a block, as RowLayout lays them out
//
//     New(), Load() ──► a block ──► dropped ──► held back by the last kKeptSaves that were kept, and
//                                               by saves that may still be ──► removed
//
// A row is written once and never changes. So a save names files and their checksums instead of
// copying rows, and a process that is killed at any moment leaves the files that its last save
// names. Only rows lie in files: what a block holds after them (links) is memory.
//
// If the disk fails under a mapping, the process would be ended by SIGBUS. Instead zeros are read,
// and status() is an error from then on.
//
// Ownership: a block keeps its RowFiles alive, and unmaps its file when it is dropped.
// Threads:   thread-safe.
// Errors:    name the file.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"

namespace ding {

class RowFiles : public std::enable_shared_from_this<RowFiles> {
 public:
  using Block = std::shared_ptr<std::byte>;

  // The sizes of a block. The first is a multiple of kAlignment.
  struct Sizes {
    int64_t file_bytes;   // of its rows
    int64_t block_bytes;  // of all
  };
  static constexpr int64_t kAlignment = int64_t{64} << 10;  // at least a page of any machine

  // One more than the resume points of a run, since a resumed run soon saves the first one again.
  static constexpr int64_t kKeptSaves = 3;

  // A file as a save names it. The checksum is of its first `bytes`.
  struct Saved {
    int64_t number;
    int64_t bytes;
    uint32_t crc32c;
  };

  // A part of a save: the first `bytes` of a block, which the caller keeps alive.
  struct Part {
    const std::byte* block;
    int64_t bytes;
  };
  class Save;

  // Makes the folder if there is none, and removes the files that no save names.
  //   kFailedPrecondition  another RowFiles uses the folder
  //   others               as of CreateDirectories()
  static absl::StatusOr<std::shared_ptr<RowFiles>> Open(const std::string& folder);
  RowFiles(const RowFiles&) = delete;
  RowFiles& operator=(const RowFiles&) = delete;

  // An absolute path.
  const std::string& folder() const { return folder_; }

  // kFailedPrecondition if a save that was kept names files of the folder, and Resume() was not
  // called: new rows would take their place.
  absl::Status CheckNew() const;
  // Says that a state was loaded, or that the rows of an earlier run are given up: CheckNew() then
  // succeeds.
  void Resume();

  // Makes a file of zeros and maps it, with memory behind it.
  //   kResourceExhausted                       the disk is full, or memory is
  //   kNotFound, kPermissionDenied, kInternal  it cannot be written
  absl::StatusOr<Block> New(const Sizes& sizes);
  // Maps the rows of a file, which must not be written.
  //   kNotFound, kDataLoss  it is missing, or damaged
  absl::StatusOr<Block> Load(const Saved& saved, const Sizes& sizes);

  // Begins a save of blocks that New() and Load() have made. It holds back their files while it
  // exists, and after Keep() until kKeptSaves later ones are kept.
  std::shared_ptr<Save> BeginSave(std::vector<Part> parts);
  // Flushes the files to the disk and returns their names. Called again, it returns the same.
  absl::StatusOr<std::vector<Saved>> Write(Save* save);
  // Says that a state with these names can be loaded from now on.
  void Keep(const Save& save);

  // Asks the disk for the pages of these bytes, which will be read soon, without waiting for them.
  static void ReadAhead(const std::byte* at, int64_t bytes);

  // kDataLoss once rows could not be read or written.
  absl::Status status() const;
  // kResourceExhausted if the disk has no room for so many bytes of rows.
  absl::Status CheckRoom(int64_t bytes) const;

 private:
  // The files that a save names.
  struct Named {
    bool is_kept;  // false: the process that began the save ended before it could say so
    std::set<int64_t> numbers;
  };
  // A file that is mapped.
  struct File {
    int64_t number;
    int64_t flushed = 0;  // bytes that are known to be on the disk
    uint32_t crc32c = 0;  // of these
  };

  RowFiles(const std::string& folder, OpenFile lock) : folder_(folder), lock_(std::move(lock)) {}
  std::string PathOf(int64_t number) const;
  absl::Status ReadSaved() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteSaved();
  absl::StatusOr<Block> Map(const File& file, int fd, const Sizes& sizes, bool writable);
  void Drop(std::byte* block, const Sizes& sizes);
  absl::StatusOr<Saved> Flush(const Part& part);
  void RemoveUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const OpenFile lock_;
  std::atomic<bool> failed_{false};

  Mutex saved_mutex_;  // held while the file `saved` is written; before mutex_
  mutable Mutex mutex_;
  bool must_resume_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int64_t> present_ ABSL_GUARDED_BY(mutex_);  // the numbers of the files in the folder
  absl::flat_hash_map<const std::byte*, File> mapped_ ABSL_GUARDED_BY(mutex_);  // by block
  std::vector<std::weak_ptr<const Save>> saves_ ABSL_GUARDED_BY(mutex_);
  std::deque<Named> named_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

// Reads the first saved.bytes of a file in `folder`. Returns the errors of RowFiles::Load().
absl::StatusOr<std::string> ReadRowFile(const std::string& folder, const RowFiles::Saved& saved);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_H_
