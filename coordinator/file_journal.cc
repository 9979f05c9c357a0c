#include "ding_worker/coordinator/file_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/compaction.h"

namespace ding {
namespace {

constexpr absl::string_view kMagic = "DINGJNL1";
constexpr int64_t kHeaderBytes = 12;
// More than the largest message of a worker.
constexpr uint32_t kMaxRecordBytes = uint32_t{1} << 30;
constexpr int64_t kReadBytes = int64_t{1} << 20;
constexpr mode_t kFileMode = 0644;

void PutU32(uint32_t value, std::string* bytes) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes->push_back(static_cast<char>(value >> shift));
  }
}

uint32_t GetU32(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

void PutRecord(const JournalRecord& record, std::string* bytes) {
  const std::string payload = record.SerializeAsString();
  std::string length;
  PutU32(static_cast<uint32_t>(payload.size()), &length);
  bytes->append(length);
  PutU32(Crc32c(length), bytes);
  PutU32(Crc32c(payload), bytes);
  bytes->append(payload);
}

bool AllZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

absl::Status WriteAt(int fd, const std::string& path, absl::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("cannot write '", path, "'"));
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

// Goes through [begin, end) of a journal, record by record.
class Scanner {
 public:
  Scanner(int fd, const std::string& path, int64_t begin, int64_t end)
      : fd_(fd), path_(path), next_(begin), read_(begin), end_(end) {}

  // Where the last record that Next() returned ended.
  int64_t position() const { return next_; }

  // The next record as it lies in the file; empty: there is no whole one left.
  absl::StatusOr<absl::string_view> Next() {
    absl::string_view bytes;
    DING_ASSIGN_OR_RETURN(bytes, Peek(kHeaderBytes));
    if (bytes.size() < static_cast<size_t>(kHeaderBytes)) return absl::string_view();
    const uint32_t length = GetU32(bytes);
    if (Crc32c(bytes.substr(0, 4)) != GetU32(bytes.substr(4))) return ZerosOrDamage();
    if (length > kMaxRecordBytes) return Damage("its length cannot be");
    DING_ASSIGN_OR_RETURN(bytes, Peek(kHeaderBytes + length));
    if (bytes.size() < static_cast<size_t>(kHeaderBytes) + length) return absl::string_view();
    if (Crc32c(bytes.substr(kHeaderBytes)) != GetU32(bytes.substr(8))) {
      return Damage("its checksum is another");
    }
    next_ += kHeaderBytes + length;
    return bytes;
  }

 private:
  absl::Status Damage(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("journal '", path_, "' is damaged: the record at byte ",
                                            next_, " of ", end_,
                                            " is not as it was written: ", what));
  }
  // A machine that went down may leave zeros where nothing had reached the disk.
  absl::StatusOr<absl::string_view> ZerosOrDamage() {
    for (int64_t at = next_; at < end_; at += kReadBytes) {
      DING_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(at, std::min(kReadBytes, end_ - at)));
      if (!AllZero(bytes)) return Damage("its length is damaged");
    }
    return absl::string_view();
  }
  absl::StatusOr<std::string> ReadAt(int64_t offset, int64_t size) const {
    std::string bytes(static_cast<size_t>(size), '\0');
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t n =
          pread(fd_, &bytes[got], bytes.size() - got, offset + static_cast<int64_t>(got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, absl::StrCat("cannot read '", path_, "'"));
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }
  // `size` bytes from the next record on, or what there is of them.
  absl::StatusOr<absl::string_view> Peek(int64_t size) {
    if (next_ + size > read_ && read_ < end_) {
      buffer_.erase(0, static_cast<size_t>(next_ - (read_ - static_cast<int64_t>(buffer_.size()))));
      const int64_t wanted = std::max(kReadBytes, next_ + size - read_);
      DING_ASSIGN_OR_RETURN(const std::string more, ReadAt(read_, std::min(wanted, end_ - read_)));
      buffer_ += more;
      read_ += static_cast<int64_t>(more.size());
      if (more.empty()) end_ = read_;
    }
    const auto begin = static_cast<size_t>(next_ - (read_ - static_cast<int64_t>(buffer_.size())));
    return absl::string_view(buffer_).substr(begin, static_cast<size_t>(size));
  }

  const int fd_;
  const std::string& path_;
  int64_t next_;  // record
  int64_t read_;  // the buffer ends there
  int64_t end_;
  std::string buffer_;
};

absl::StatusOr<JournalRecord> Parse(absl::string_view bytes, const std::string& path) {
  bytes.remove_prefix(kHeaderBytes);
  JournalRecord record;
  if (record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return record;
  return absl::DataLossError(absl::StrCat("journal '", path, "' has a record that is none"));
}

// Calls `visit(record, bytes)` for each record of [begin, end).
template <typename Visit>
absl::Status Scan(int fd, const std::string& path, int64_t begin, int64_t end, Visit visit) {
  Scanner scanner(fd, path, begin, end);
  while (true) {
    DING_ASSIGN_OR_RETURN(const absl::string_view bytes, scanner.Next());
    if (bytes.empty()) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const JournalRecord record, Parse(bytes, path));
    DING_RETURN_IF_ERROR(visit(record, bytes));
  }
}

}  // namespace

// The file that is to take the journal's place.
struct FileJournal::Rewrite {
  ~Rewrite() {
    if (fd < 0) return;
    close(fd);
    unlink(path.c_str());
  }
  absl::Status Write(absl::string_view bytes) {
    buffer.append(bytes.data(), bytes.size());
    return buffer.size() < static_cast<size_t>(kReadBytes) ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    DING_RETURN_IF_ERROR(WriteAt(fd, path, buffer, size_bytes));
    size_bytes += static_cast<int64_t>(buffer.size());
    buffer.clear();
    return absl::OkStatus();
  }
  // Pushes and removals of [copied, end) of the journal.
  absl::Status CopyTail(int from, const std::string& from_path, int64_t end) {
    DING_RETURN_IF_ERROR(Scan(from, from_path, copied, end,
                              [this](const JournalRecord& record, absl::string_view bytes) {
                                return StaysInTail(record) ? Write(bytes) : absl::OkStatus();
                              }));
    copied = end;
    return absl::OkStatus();
  }

  std::string path;
  int fd = -1;
  int64_t size_bytes = 0;
  int64_t copied = 0;  // of the journal
  std::string buffer;
};

FileJournal::FileJournal(Options options, int fd, int64_t size_bytes)
    : options_(std::move(options)), fd_(fd), size_bytes_(size_bytes) {}

FileJournal::~FileJournal() {
  MutexLock lock(&mutex_);
  close(fd_);
}

absl::StatusOr<std::unique_ptr<FileJournal>> FileJournal::Open(const Options& options) {
  const std::string& path = options.path;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open journal '", path, "'"));
  auto journal = absl::WrapUnique(new FileJournal(options, fd, 0));
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot look at journal '", path, "'"));
  }
  std::string magic(kMagic.size(), '\0');
  const ssize_t got = pread(fd, magic.data(), magic.size(), 0);
  if (got < 0) return ErrnoStatus(errno, absl::StrCat("cannot read journal '", path, "'"));
  magic.resize(static_cast<size_t>(got));
  int64_t whole = static_cast<int64_t>(kMagic.size());
  if (magic == kMagic) {
    Scanner scanner(fd, path, whole, info.st_size);
    while (true) {
      DING_ASSIGN_OR_RETURN(const absl::string_view bytes, scanner.Next());
      if (bytes.empty()) break;
      DING_RETURN_IF_ERROR(Parse(bytes, path).status());
    }
    whole = scanner.position();
  } else if (kMagic.substr(0, magic.size()) == magic) {  // Its first write was torn.
    DING_RETURN_IF_ERROR(WriteAt(fd, path, kMagic, 0));
  } else {
    const absl::string_view name = kMagic.substr(0, kMagic.size() - 1);
    const bool is_later = absl::StartsWith(magic, name) && magic.size() == kMagic.size();
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path, "' is no journal of this version of the coordinator: ",
        is_later ? absl::StrCat("it has version ", magic.substr(name.size()),
                                ", this program reads version ", kMagic.substr(name.size()))
                 : "it does not begin like one"));
  }
  if (ftruncate(fd, whole) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut journal '", path, "'"));
  }
  MutexLock lock(&journal->mutex_);
  journal->size_bytes_ = whole;
  return journal;
}

absl::Status FileJournal::Read(const Visitor& visit) const {
  int fd = -1;
  int64_t end = 0;
  {
    MutexLock lock(&mutex_);
    fd = fd_;
    end = size_bytes_;
  }
  return Scan(fd, options_.path, static_cast<int64_t>(kMagic.size()), end,
              [&visit](const JournalRecord& record, absl::string_view) { return visit(record); });
}

absl::Status FileJournal::Append(absl::Span<const JournalRecord> records) {
  std::string bytes;
  for (const JournalRecord& record : records) PutRecord(record, &bytes);
  MutexLock lock(&mutex_);
  const absl::Status written = WriteAt(fd_, options_.path, bytes, size_bytes_);
  if (written.ok()) {
    size_bytes_ += static_cast<int64_t>(bytes.size());
  } else if (ftruncate(fd_, size_bytes_) != 0) {
    // What was written is written over by the next append.
    return Annotate(written, "and what was written of a record is left");
  }
  return written;
}

bool FileJournal::WantsCompaction() const {
  MutexLock lock(&mutex_);
  return IsWorthCompacting(size_bytes_, compacted_bytes_, options_.min_compaction_bytes);
}

absl::Status FileJournal::BeginCompaction(const IsAlive& alive) {
  auto rewrite = std::make_unique<Rewrite>();
  rewrite->path = absl::StrCat(options_.path, ".new");
  rewrite->fd = open(rewrite->path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
  if (rewrite->fd < 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot make '", rewrite->path, "'"));
  }
  DING_RETURN_IF_ERROR(rewrite->Write(kMagic));
  int fd = -1;
  int64_t end = 0;
  const auto look = [&] {
    MutexLock lock(&mutex_);
    fd = fd_;
    end = size_bytes_;
  };
  look();
  const auto begin = static_cast<int64_t>(kMagic.size());
  LivePushes live(alive);
  DING_RETURN_IF_ERROR(
      Scan(fd, options_.path, begin, end, [&live](const JournalRecord& record, absl::string_view) {
        live.NoteRemoved(record);
        return absl::OkStatus();
      }));
  DING_RETURN_IF_ERROR(Scan(fd, options_.path, begin, end,
                            [&](const JournalRecord& record, absl::string_view bytes) {
                              return live.Keeps(record) ? rewrite->Write(bytes) : absl::OkStatus();
                            }));
  if (live.still_removed().has_removed()) {
    std::string bytes;
    PutRecord(live.still_removed(), &bytes);
    DING_RETURN_IF_ERROR(rewrite->Write(bytes));
  }
  rewrite->copied = end;
  for (int i = 0; i < kMaxTailRounds; ++i) {
    look();
    if (end - rewrite->copied <= kShortTailBytes) break;
    DING_RETURN_IF_ERROR(rewrite->CopyTail(fd, options_.path, end));
  }
  DING_RETURN_IF_ERROR(rewrite->Flush());
  if (fdatasync(rewrite->fd) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot flush '", rewrite->path, "'"));
  }
  rewrite_ = std::move(rewrite);
  return absl::OkStatus();
}

absl::Status FileJournal::FinishCompaction(absl::Span<const JournalRecord> state) {
  const std::unique_ptr<Rewrite> rewrite = std::move(rewrite_);
  std::string bytes;
  for (const JournalRecord& record : state) PutRecord(record, &bytes);
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(rewrite->CopyTail(fd_, options_.path, size_bytes_));
  DING_RETURN_IF_ERROR(rewrite->Write(bytes));
  DING_RETURN_IF_ERROR(rewrite->Flush());
  if (rename(rewrite->path.c_str(), options_.path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot replace '", options_.path, "'"));
  }
  close(fd_);
  fd_ = std::exchange(rewrite->fd, -1);
  size_bytes_ = rewrite->size_bytes;
  compacted_bytes_ = size_bytes_;
  ++compactions_;
  return absl::OkStatus();
}

int64_t FileJournal::size_bytes() const {
  MutexLock lock(&mutex_);
  return size_bytes_;
}

int64_t FileJournal::compactions() const {
  MutexLock lock(&mutex_);
  return compactions_;
}

}  // namespace ding
