// How a saved state names the files of a disk tier (RowFiles), and how their rows come back into a
// store.
//
//   files/folder      where they lie
//   files/rows        rows of a file
//   files/numbers, files/checksums   int64[files]; the rows of the first file may begin before
//                                    begin_id
//
// Threads: the caller holds the owner's lock, except for RowFilesSnapshot::Write().
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_STATE_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/storage/linked_rows.h"
#include "ding_worker/replay_buffer/storage/row_files.h"

namespace ding {

// The files at one moment. The blocks must stay pinned.
struct RowFilesSnapshot {
  std::shared_ptr<RowFiles> files;  // null: rows in memory
  std::shared_ptr<RowFiles::Save> save;
  int64_t count = 0;  // of files
  int64_t rows_per_file = 0;

  absl::Status Write(StateWriter* writer) const;
};
RowFilesSnapshot SnapshotRowFiles(const LinkedRows& rows);

// Rows of files that are missing or damaged. Those before `end` cannot be used, although they have
// been loaded, as zeros; the others are whole.
struct LostRows {
  int64_t end = 0;   // an id
  absl::Status why;  // ok: nothing is lost
};

// The files of a saved state, to be loaded into `rows`.
class SavedRowFiles {
 public:
  // Not set if the state has the rows themselves. kInvalidArgument, with found and expected, if it
  // cannot have been saved. `rows` must outlive the result.
  static absl::StatusOr<std::optional<SavedRowFiles>> Read(StateReader* reader, int64_t begin_id,
                                                           int64_t size, LinkedRows* rows);

  // For a store with a disk tier whose files have as many rows: maps the files that lie in its
  // folder, and copies the others there. `rows` takes these blocks when it next reserves some.
  // Returns the errors of RowFiles::New(), and errors of reading other than kNotFound and kDataLoss.
  absl::Status Map();
  // For all other stores: copies the rows into the blocks of `rows`. Returns errors like these.
  absl::Status Copy();

  const LostRows& lost() const { return lost_; }

 private:
  explicit SavedRowFiles(LinkedRows* rows) : rows_(rows) {}
  absl::StatusOr<std::string> ReadFile(size_t index) const;
  absl::StatusOr<RowFiles::Block> MapFile(size_t index);
  absl::Status NoteLost(size_t index, const absl::Status& why);

  LinkedRows* rows_;
  std::string folder_;
  int64_t rows_per_file_ = 0;
  int64_t first_row_ = 0;  // the id of the first row of the first file
  std::vector<RowFiles::Saved> files_;
  bool is_mapped_ = false;
  LostRows lost_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_ROW_FILES_STATE_H_
