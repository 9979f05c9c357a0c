// Values as files of a folder: of tmpfs for the processes of one machine, of a file system that
// several machines share for more.
//
//     <folder>/data/3/1f       header and value (value_format.h)
//     <folder>/data/3/.tmp.*   being written; renamed when it is whole
//
// Nothing is flushed to a disk: the data need not survive the machine. Whatever remains after it
// went down is found out by the checksum.
//
// The folder is made by Create(), those of keys on demand. A folder that is gone later (unmounted,
// removed) is not made again, since that might be on another disk: kUnavailable until it is back.
//
// Writers that are killed leave their temporary file. RemoveTemporaryFiles() removes them; Create()
// does for those that nobody has written to for an hour. Folders of keys stay.
//
// A value names the last folder of the store and its key, so that one of another key, or copied from
// the store of another run, is damage: the folder may be mounted elsewhere by each machine, under the
// same last name.
//
// Limits: a key cannot be the folder of another one ('a' and 'a/b'). Who may write into the folder is
// trusted not to mean harm, but may err: what is not a regular file in the place of a value, a FIFO, a
// device or a link, is kDataLoss at once. A link in the place of a folder is followed.
//
// Threads: thread-safe, also across processes and machines. Two that put the same key at a time:
//          one of them is last.
// Errors:  kResourceExhausted  disk full, quota, file too large
//          kUnavailable        any other error of the system: no rights, read-only, I/O
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
  // kInvalidArgument: `folder` is not absolute. Processes of different working folders share it.
  static absl::StatusOr<std::unique_ptr<FileStore>> Create(const std::string& folder);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  const std::string& url() const override { return url_; }

  // Those last written before that time. A writer that lives all the same fails with kUnavailable.
  absl::Status RemoveTemporaryFiles(absl::Time written_before);

 private:
  explicit FileStore(const std::string& folder);

  absl::StatusOr<int> OpenTemporary(absl::string_view key, std::string* path);
  absl::Status WriteAndRename(int fd, const std::string& temporary, absl::string_view key,
                              absl::Span<const absl::string_view> pieces, int64_t size) const;
  // What `error`, an errno, of that action means.
  absl::Status ErrorOf(int error, absl::string_view action, absl::string_view key) const;
  absl::Status Damaged(absl::string_view key, absl::string_view how) const;
  // As of value_format.h.
  std::string ValueName(absl::string_view key) const;
  absl::Status Read(const OpenFile& file, absl::string_view key, std::string* value) const;

  const std::string url_;
  const std::string folder_;
  const std::string name_;            // the last part of the folder
  const std::string temporary_name_;  // with the process, of this object and no other
  std::atomic<uint64_t> next_temporary_{0};
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_FILE_STORE_H_
