// The file format of a journal. FileJournal writes it, and journal_check.h examines damaged files.
//
//   file    "DINGJNL2" | group ...
//   group   the records of one append, which are valid together or not at all
//   record  length u32 | CRC-32C u32 of the bytes | CRC-32C u32 of the record's place in the file
//           (u64), the length and the first CRC | bytes of a JournalRecord | 0xE5
//
// All numbers are little endian. Bit 30 of the length is set if the record begins a group, and bit 31 if it ends one. A
// record is valid only at the place where it was written, not if it was moved or copied. Since a record ends with a byte
// that is not 0, a file that ends in zeros has a torn end.
//
// A torn end, which a crash leaves, differs from damage:
//
//   [ r r r ][ a part of a group         torn: the process or the machine ended meanwhile
//   [ r r r ][ part ] 0 0 0 0 0          torn: the machine ended before the rest was on the disk
//   [ r r r ][ part ] 0 0 0 [ part ]     the same, with at least one sector (512 bytes) of zeros
//   [ r ] ? ? ? [ r r ]                  damage: there are whole records behind it
//   [ r r r ] ? ? ?                      damage: no crash leaves that
//
// Threads: thread-compatible; pure functions are thread-safe.
// Errors:  every message names the file.
#ifndef DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_FILE_H_
#define DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/coordinator/journal/journal.pb.h"

namespace ding {

inline constexpr absl::string_view kJournalMagic = "DINGJNL2";
inline constexpr int kJournalVersion = 2;
inline constexpr int64_t kJournalBegin =
    int64_t{kJournalMagic.size()};  // where the first record begins

// Append the frames of these records, as one group, to `frames`. PlaceJournalFrames() must complete them.
void AppendJournalGroup(absl::Span<const JournalRecord> records, std::string* frames);
void AppendJournalGroup(absl::Span<const absl::string_view> payloads, std::string* frames);
// Completes the frames for the place in the file where they will be written.
void PlaceJournalFrames(int64_t place, std::string* frames);

// Writes all bytes at `place`, with as many calls of pwrite(2) as it takes.
absl::Status WriteJournalBytes(int fd, const std::string& path, absl::string_view bytes,
                               int64_t place);

struct JournalFrame {
  absl::string_view payload;  // the bytes of a JournalRecord
  bool begins_group = false;
  bool ends_group = false;
};

// Returns the record with these bytes, whose checksum is right. kDataLoss: they are no JournalRecord; a resume refuses the
// journal, and `ctl journal check` counts the record as damaged.
absl::StatusOr<JournalRecord> ParseJournalRecord(absl::string_view payload,
                                                 const std::string& path);

// Goes through the records of [begin, end) of a file. Does not own the descriptor.
class JournalScanner {
 public:
  JournalScanner(int fd, const std::string& path, int64_t begin, int64_t end);

  // Where the record begins that Next() will return; after the last whole record, where that ended.
  int64_t position() const { return next_; }
  // Where the last whole group ended; at first, `begin`.
  int64_t group_end() const { return group_end_; }
  // Returns the next record, which is valid until the next call; nullopt if there is no whole record at position().
  //   kInternal  the file cannot be read
  absl::StatusOr<std::optional<JournalFrame>> Next();

 private:
  // Returns `size` bytes from the next record on, or fewer at the end of the range.
  absl::StatusOr<absl::string_view> Peek(int64_t size);

  const int fd_;
  const std::string path_;
  int64_t next_;
  int64_t group_end_;
  int64_t read_;  // where the bytes in buffer_ end
  int64_t end_;
  std::string buffer_;
};

// The bytes behind the last group of a sequence of whole groups.
struct JournalEnd {
  enum class Kind { kClean, kTorn, kDamaged };
  Kind kind = Kind::kClean;
  int64_t begin = 0;
  // For kDamaged: the place where the next whole record begins, or the file ends.
  int64_t end = 0;
  bool records_follow = false;
};

// Examines the bytes behind group_end() of `scanner`, which has returned its last record. `size` is that of the file.
absl::StatusOr<JournalEnd> ExamineJournalEnd(int fd, const std::string& path,
                                             const JournalScanner& scanner, int64_t size);

// Returns where the records of a file begin: kJournalBegin, or 0 if the file is empty or its first write was torn.
//   kFailedPrecondition  the file is not a journal, or has another version, which the message names
absl::StatusOr<int64_t> FindJournalBegin(int fd, const std::string& path, int64_t size);

// Locks a journal that is open for writing, by fcntl(2). The kernel releases the lock at the end of the process.
//   kFailedPrecondition  another process has locked it; the message names the process
absl::Status LockJournalFile(int fd, const std::string& path);
// Returns the process that has locked the file; nullopt if no other process has.
std::optional<int64_t> JournalFileUser(int fd);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_FILE_H_
