#include "ding_worker/coordinator/journal/file_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal/compaction.h"
#include "ding_worker/coordinator/journal/journal_file.h"

namespace ding {
namespace {

constexpr int64_t kWriteBytes = int64_t{1} << 20;
constexpr mode_t kFileMode = 0644;

// Calls `visit(record, payload)` for each record of [begin, end), which are whole.
template <typename Visit>
absl::Status Scan(int fd, const std::string& path, int64_t begin, int64_t end, Visit visit) {
  JournalScanner scanner(fd, path, begin, end);
  while (scanner.position() < end) {
    DING_ASSIGN_OR_RETURN(const std::optional<JournalFrame> frame, scanner.Next());
    if (!frame.has_value()) {
      return absl::DataLossError(absl::StrCat("journal '", path, "' was changed or cut at byte ",
                                              scanner.position(), " of ", end,
                                              " by another process while it was in use"));
    }
    DING_ASSIGN_OR_RETURN(const JournalRecord record, ParseJournalRecord(frame->payload, path));
    DING_RETURN_IF_ERROR(visit(record, frame->payload));
  }
  return absl::OkStatus();
}

// Opens and locks the file. Until the lock is ours, the process that had it before may put another file in its
// place: then the other one is opened.
absl::StatusOr<OpenFile> OpenLocked(const std::string& path) {
  for (;;) {
    DING_ASSIGN_OR_RETURN(OpenFile file, OpenRegularFile(path, O_RDWR | O_CREAT, kFileMode));
    DING_RETURN_IF_ERROR(LockJournalFile(file.fd(), path));
    struct stat opened, found;
    if (fstat(file.fd(), &opened) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot look at '", path, "'"));
    }
    if (stat(path.c_str(), &found) == 0 && found.st_dev == opened.st_dev &&
        found.st_ino == opened.st_ino) {
      return file;
    }
  }
}

absl::Status Damaged(const std::string& path, const JournalEnd& end) {
  return absl::DataLossError(absl::StrCat(
      "journal '", path, "' is damaged: the record at byte ", end.begin,
      " is not as it was written",
      end.records_follow ? absl::StrCat(", and whole ones follow from byte ", end.end, " on")
                         : ", and no crash leaves that",
      "; `ctl journal check ", path, "` lists the readable records, `ctl journal repair ", path,
      "` makes a journal of them"));
}

// Flushes the name of the file to the disk.
absl::Status FlushFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
  const int error = errno;
  if (fd >= 0) close(fd);
  return flushed ? absl::OkStatus()
                 : ErrnoStatus(error, absl::StrCat("cannot flush folder '", folder, "'"));
}

absl::Status FlushFile(int fd, const std::string& path) {
  if (fdatasync(fd) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot flush '", path, "'"));
}

}  // namespace

// A compaction under way: the file that will take the place of the journal.
struct FileJournal::Rewrite {
  ~Rewrite() {
    if (fd < 0) return;
    close(fd);
    unlink(path.c_str());
  }
  absl::Status WriteRecord(absl::string_view payload) {
    return WriteGroup(absl::MakeConstSpan(&payload, 1));
  }
  template <typename Record>
  absl::Status WriteGroup(absl::Span<const Record> records) {
    AppendJournalGroup(records, &buffer);
    return buffer.size() < static_cast<size_t>(kWriteBytes) ? absl::OkStatus() : WriteOut();
  }
  absl::Status WriteOut() {
    PlaceJournalFrames(size_bytes, &buffer);
    DING_RETURN_IF_ERROR(WriteJournalBytes(fd, path, buffer, size_bytes));
    size_bytes += static_cast<int64_t>(buffer.size());
    buffer.clear();
    return absl::OkStatus();
  }
  // Writes the buffer and flushes the file to the disk.
  absl::Status Flush() {
    DING_RETURN_IF_ERROR(WriteOut());
    return FlushFile(fd, path);
  }
  // Copies the pushes and removals in bytes [copied, end) of the journal.
  absl::Status CopyTail(int from, const std::string& from_path, int64_t end) {
    DING_RETURN_IF_ERROR(Scan(from, from_path, copied, end,
                              [this](const JournalRecord& record, absl::string_view payload) {
                                return StaysInTail(record) ? WriteRecord(payload)
                                                           : absl::OkStatus();
                              }));
    copied = end;
    return absl::OkStatus();
  }

  std::string path;
  int fd = -1;
  int64_t size_bytes = kJournalBegin;
  int64_t copied = 0;  // the bytes of the journal that are copied
  std::string buffer;  // records that are not written yet
};

FileJournal::FileJournal(Options options, int fd, int64_t size_bytes)
    : options_(std::move(options)),
      fd_(fd),
      size_bytes_(size_bytes),
      flushed_(size_bytes > kJournalBegin) {}

FileJournal::~FileJournal() {
  MutexLock lock(&mutex_);
  close(fd_);
}

absl::StatusOr<std::unique_ptr<FileJournal>> FileJournal::Open(const Options& options) {
  const std::string& path = options.path;
  absl::StatusOr<OpenFile> file = OpenLocked(path);
  if (!file.ok()) return Annotate(file.status(), "journal");
  const int fd = file->fd();
  const int64_t size = file->size_bytes();
  DING_ASSIGN_OR_RETURN(const int64_t begin, FindJournalBegin(fd, path, size));
  JournalScanner scanner(fd, path, begin, size);
  while (begin > 0) {
    DING_ASSIGN_OR_RETURN(const std::optional<JournalFrame> frame, scanner.Next());
    if (!frame.has_value()) break;
    DING_RETURN_IF_ERROR(ParseJournalRecord(frame->payload, path).status());
  }
  DING_ASSIGN_OR_RETURN(JournalEnd end, ExamineJournalEnd(fd, path, scanner, size));
  // The file has bytes, but its beginning was never written whole.
  if (begin == 0 && size > 0) end.kind = JournalEnd::Kind::kTorn;
  if (end.kind == JournalEnd::Kind::kDamaged) return Damaged(path, end);
  if (end.kind == JournalEnd::Kind::kTorn) {
    DING_LOG(WARNING)
        << "journal '" << path << "' ended torn, as a process or machine that goes down "
        << "leaves it: the last " << size - end.begin << " of its " << size << " bytes, from byte "
        << end.begin << " on, are not whole and are dropped. If "
        << "only the process ended, they had not been acknowledged; if the machine did, rows "
        << "acknowledged in its last seconds are lost";
  }
  if (ftruncate(fd, end.begin) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut journal '", path, "'"));
  }
  DING_RETURN_IF_ERROR(WriteJournalBytes(fd, path, kJournalMagic, 0));
  return absl::WrapUnique(
      new FileJournal(options, file->Release(), std::max(end.begin, kJournalBegin)));
}

absl::Status FileJournal::Read(const Visitor& visit) const {
  int fd = -1;
  int64_t end = 0;
  {
    MutexLock lock(&mutex_);
    fd = fd_;
    end = size_bytes_;
  }
  return Scan(fd, options_.path, kJournalBegin, end,
              [&visit](const JournalRecord& record, absl::string_view) { return visit(record); });
}

absl::Status FileJournal::Append(absl::Span<const JournalRecord> records) {
  std::string frames;
  AppendJournalGroup(records, &frames);
  MutexLock lock(&mutex_);
  if (has_torn_end_) DING_RETURN_IF_ERROR(CutTornEnd());
  PlaceJournalFrames(size_bytes_, &frames);
  absl::Status written = WriteJournalBytes(fd_, options_.path, frames, size_bytes_);
  if (written.ok() && !flushed_) {
    written = FlushFile(fd_, options_.path);
    if (written.ok()) written = FlushFolderOf(options_.path);
  }
  if (written.ok()) {
    flushed_ = true;
    size_bytes_ += static_cast<int64_t>(frames.size());
    return absl::OkStatus();
  }
  has_torn_end_ = true;
  CutTornEnd().IgnoreError();  // If it fails, the next append tries again.
  return written;
}

absl::Status FileJournal::CutTornEnd() {
  if (ftruncate(fd_, size_bytes_) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut journal '", options_.path, "'"));
  }
  has_torn_end_ = false;
  return absl::OkStatus();
}

bool FileJournal::WantsCompaction() const {
  MutexLock lock(&mutex_);
  return IsWorthCompacting(size_bytes_, compacted_bytes_, options_.min_compaction_bytes);
}

absl::Status FileJournal::BeginCompaction(const IsAlive& alive) {
  auto rewrite = std::make_unique<Rewrite>();
  rewrite->path = absl::StrCat(options_.path, ".new");
  DING_RETURN_IF_ERROR(RemoveFile(rewrite->path));  // A process that was killed may have left it.
  rewrite->fd = open(rewrite->path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  if (rewrite->fd < 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot make '", rewrite->path, "'"));
  }
  DING_RETURN_IF_ERROR(LockJournalFile(rewrite->fd, rewrite->path));
  DING_RETURN_IF_ERROR(WriteJournalBytes(rewrite->fd, rewrite->path, kJournalMagic, 0));
  int fd = -1;
  int64_t end = 0;
  const auto look = [&] {
    MutexLock lock(&mutex_);
    fd = fd_;
    end = size_bytes_;
  };
  look();
  LivePushes live(alive);
  DING_RETURN_IF_ERROR(Scan(fd, options_.path, kJournalBegin, end,
                            [&live](const JournalRecord& record, absl::string_view) {
                              live.NoteRemoved(record);
                              return absl::OkStatus();
                            }));
  DING_RETURN_IF_ERROR(Scan(fd, options_.path, kJournalBegin, end,
                            [&](const JournalRecord& record, absl::string_view payload) {
                              return live.Keeps(record) ? rewrite->WriteRecord(payload)
                                                        : absl::OkStatus();
                            }));
  if (live.still_removed().has_removed()) {
    DING_RETURN_IF_ERROR(rewrite->WriteRecord(live.still_removed().SerializeAsString()));
  }
  rewrite->copied = end;
  for (int i = 0; i < kMaxTailRounds; ++i) {
    look();
    if (end - rewrite->copied <= kShortTailBytes) break;
    DING_RETURN_IF_ERROR(rewrite->CopyTail(fd, options_.path, end));
  }
  DING_RETURN_IF_ERROR(rewrite->Flush());
  rewrite_ = std::move(rewrite);
  return absl::OkStatus();
}

absl::Status FileJournal::FinishCompaction(absl::Span<const JournalRecord> state) {
  const std::unique_ptr<Rewrite> rewrite = std::move(rewrite_);
  MutexLock lock(&mutex_);
  DING_RETURN_IF_ERROR(rewrite->CopyTail(fd_, options_.path, size_bytes_));
  // The state is written twice. No earlier record holds it, and the pushes are worth nothing without it. Damage to
  // the end of the file then costs no more than one copy.
  DING_RETURN_IF_ERROR(rewrite->WriteGroup(state));
  DING_RETURN_IF_ERROR(rewrite->WriteGroup(state));
  // The new file must be on the disk before it takes the place of the old one, which may be there already.
  DING_RETURN_IF_ERROR(rewrite->Flush());
  if (rename(rewrite->path.c_str(), options_.path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot replace '", options_.path, "'"));
  }
  close(fd_);
  fd_ = std::exchange(rewrite->fd, -1);
  size_bytes_ = rewrite->size_bytes;
  has_torn_end_ = false;
  compacted_bytes_ = size_bytes_;
  ++compactions_;
  // If this fails, the next append tries again.
  flushed_ = FlushFolderOf(options_.path).ok();
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
