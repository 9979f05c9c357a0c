// The bytes of a journal in a file: for FileJournal, which writes them, and journal_check.h, which
// says what is left of a damaged one.
//
//   file    "DINGJNL2" | group ...
//   group   the records of one append: all of them count, or none
//   record  length u32 | CRC-32C u32 of the bytes | CRC-32C u32 of the record's place in the file
//           (u64), the length and the first CRC | bytes of a JournalRecord | 0xE5
//
// All numbers are little endian. Bit 30 of the length: the record begins a group; bit 31: it ends one.
// A record is whole only where it was written: one that was moved or copied is not. Since it ends
// with a byte that is not 0, a file that ends in zeros ends torn.
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
// Errors:  name the file.
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
inline constexpr int64_t kJournalBegin = int64_t{kJournalMagic.size()};  // of the first record

// Appends the group of these records to `frames`, which are not placed yet.
void AppendJournalGroup(absl::Span<const JournalRecord> records, std::string* frames);
void AppendJournalGroup(absl::Span<const absl::string_view> payloads, std::string* frames);
// Makes the frames what they are from `place` in the file on.
void PlaceJournalFrames(int64_t place, std::string* frames);

// Writes all of it at `place`, whatever write(2) takes at once.
absl::Status WriteJournalBytes(int fd, const std::string& path, absl::string_view bytes,
                               int64_t place);

struct JournalFrame {
  absl::string_view payload;  // of a JournalRecord
  bool begins_group = false;
  bool ends_group = false;
};

// Goes through the records of [begin, end) of a file. Does not own the descriptor.
class JournalScanner {
 public:
  JournalScanner(int fd, const std::string& path, int64_t begin, int64_t end);

  // Where the record that Next() will return begins; after the last whole one, where that ended.
  int64_t position() const { return next_; }
  // Where the last whole group ended; at first, `begin`.
  int64_t group_end() const { return group_end_; }
  // The next record, valid until the next call; none: there is no whole one at position().
  //   kInternal  the file cannot be read
  absl::StatusOr<std::optional<JournalFrame>> Next();

 private:
  // `size` bytes from the next record on, or what there is of them.
  absl::StatusOr<absl::string_view> Peek(int64_t size);

  const int fd_;
  const std::string path_;
  int64_t next_;
  int64_t group_end_;
  int64_t read_;  // The buffer ends there.
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

// Looks at what is behind group_end() of a scanner of [.., size) that has found no more.
absl::StatusOr<JournalEnd> ExamineJournalEnd(int fd, const std::string& path,
                                             const JournalScanner& scanner, int64_t size);

// Where the records of a file begin: kJournalBegin; 0: the file is empty, or its first write was torn.
//   kFailedPrecondition  no journal, or one of another version: says which
absl::StatusOr<int64_t> FindJournalBegin(int fd, const std::string& path, int64_t size);

// A journal is locked while it is open to write: fcntl(2), which the kernel undoes with the process.
//   kFailedPrecondition  another process has it open: names it
absl::Status LockJournalFile(int fd, const std::string& path);
// The process that has locked it; none: nobody else.
std::optional<int64_t> JournalFileUser(int fd);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_JOURNAL_JOURNAL_FILE_H_
