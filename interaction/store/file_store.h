// Keeps values as files in a folder. A folder on tmpfs serves the processes of one machine; a file
// system that several machines share serves more.
//
//     <folder>/data/3/1f       header and value (value_format.h)
//     <folder>/data/3/.tmp.*   a value that is being written; renamed when it is complete
//
// Nothing is flushed to a disk, because the data need not survive the machine. If the machine goes
// down, the checksum reveals which of the remaining values are damaged.
//
// Create() makes the folder, and Put makes the folders of keys when they are needed. If the folder
// disappears later (unmounted, removed), it is not made again, since it might then be on another
// disk: calls return kUnavailable until it is back.
//
// A writer that is killed leaves its temporary file. RemoveTemporaryFiles() removes such files, and
// Create() removes temporary files that were last written more than an hour ago. The folders of
// keys stay.
//
// A value contains the name of the store's last folder and its key. So a value that was stored
// under another key, or copied from the store of another run, counts as damaged. Each machine may
// mount the folder elsewhere, under the same last name.
//
// Limits: a key cannot be the folder of another key ('a' and 'a/b'). Processes that can write to
// the folder are trusted not to be hostile, but may make mistakes: a value that is not a regular
// file, such as a FIFO, a device or a link, is kDataLoss at once. Links to folders are followed.
//
// Threads: thread-safe, also across processes and machines. If two callers put the same key at
//          the same time, one of the two values remains.
// Errors:  kResourceExhausted  disk full, quota, file too large
//          kUnavailable        any other error of the system: no permission, read-only, I/O
#ifndef DING_WORKER_INTERACTION_STORE_FILE_STORE_H_
#define DING_WORKER_INTERACTION_STORE_FILE_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class FileStore : public Store {
 public:
  // Returns kInvalidArgument if `folder` is not an absolute path: a relative path would be another
  // folder in a process with another working directory.
  static absl::StatusOr<std::unique_ptr<FileStore>> Create(const std::string& folder);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  const std::string& url() const override { return url_; }

  // Removes the temporary files that were last written before `written_before`. If the writer of
  // such a file is still alive, its Put returns kUnavailable.
  absl::Status RemoveTemporaryFiles(absl::Time written_before);

 private:
  explicit FileStore(const std::string& folder);

  absl::StatusOr<int> OpenTemporary(absl::string_view key, std::string* path);
  absl::Status WriteAndRename(int fd, const std::string& temporary, absl::string_view key,
                              absl::Span<const absl::string_view> pieces, int64_t size) const;
  // Converts `error`, an errno of `action`, to a status.
  absl::Status ErrorOf(int error, absl::string_view action, absl::string_view key) const;
  absl::Status Damaged(absl::string_view key, absl::string_view how) const;
  // Returns the name of the value in its header, see value_format.h.
  std::string ValueName(absl::string_view key) const;
  absl::Status Read(const OpenFile& file, absl::string_view key, std::string* value) const;

  const std::string url_;
  const std::string folder_;
  const std::string name_;            // the last part of the folder
  const std::string temporary_name_;  // together with the process id, unique to this object
  std::atomic<uint64_t> next_temporary_{0};
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_FILE_STORE_H_
