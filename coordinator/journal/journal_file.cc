#include "ding_worker/coordinator/journal/journal_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/bytes.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/journal/journal.h"

namespace ding {
namespace {

constexpr int64_t kHeaderBytes = 12;
constexpr int64_t kMarkBytes = 1;
constexpr char kMark = '\xE5';
// Two flags in the bits above the length, which is always smaller: no message of a worker is that large.
constexpr uint32_t kBeginsGroup = uint32_t{1} << 30;
constexpr uint32_t kEndsGroup = uint32_t{1} << 31;
constexpr int64_t kReadBytes = int64_t{1} << 20;
// A disk writes whole sectors of this size.
constexpr int64_t kSectorBytes = 512;

struct Header {
  uint32_t flags_and_length = 0;
  uint32_t payload_crc = 0;
  uint32_t header_crc = 0;

  uint32_t length() const { return flags_and_length & ~(kBeginsGroup | kEndsGroup); }
  int64_t record_bytes() const { return kHeaderBytes + length() + kMarkBytes; }
};

uint32_t HeaderCrc(int64_t place, const Header& header) {
  char bytes[sizeof(place) + sizeof(header.flags_and_length) + sizeof(header.payload_crc)];
  std::memcpy(bytes, &place, sizeof(place));
  std::memcpy(bytes + sizeof(place), &header.flags_and_length, sizeof(header.flags_and_length));
  std::memcpy(bytes + sizeof(place) + sizeof(header.flags_and_length), &header.payload_crc,
              sizeof(header.payload_crc));
  return Crc32c({bytes, sizeof(bytes)});
}

// Returns the header at the beginning of `bytes`; nullopt if there are too few, or if they were not written at
// `place`.
std::optional<Header> ParseHeader(absl::string_view bytes, int64_t place) {
  ByteCursor cursor(bytes);
  Header header;
  header.flags_and_length = cursor.Take<uint32_t>();
  header.payload_crc = cursor.Take<uint32_t>();
  header.header_crc = cursor.Take<uint32_t>();
  if (!cursor.ok() || header.header_crc != HeaderCrc(place, header)) return std::nullopt;
  return header;
}

// Whether the bytes of `record` are those that were written. It has as many as the header says.
bool IsWhole(absl::string_view record, const Header& header) {
  return record.back() == kMark &&
         Crc32c(record.substr(kHeaderBytes, header.length())) == header.payload_crc;
}

bool AllZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

// Reads the part of [offset, offset + size) that exists.
absl::StatusOr<std::string> ReadPiece(int fd, const std::string& path, int64_t offset,
                                      int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n =
        pread(fd, &bytes[got], bytes.size() - got, offset + static_cast<int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("cannot read '", path, "'"));
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

// Returns the place of the first whole record that begins in [from, size); nullopt if there is none.
absl::StatusOr<std::optional<int64_t>> FindRecord(int fd, const std::string& path, int64_t from,
                                                  int64_t size) {
  for (; from + kHeaderBytes + kMarkBytes <= size; from += kReadBytes) {
    DING_ASSIGN_OR_RETURN(
        const std::string bytes,
        ReadPiece(fd, path, from, std::min(kReadBytes + kHeaderBytes, size - from)));
    const int64_t places = std::min(kReadBytes, static_cast<int64_t>(bytes.size()) - kHeaderBytes);
    for (int64_t i = 0; i < places; ++i) {
      const int64_t place = from + i;
      const std::optional<Header> header =
          ParseHeader(absl::string_view(bytes).substr(static_cast<size_t>(i), kHeaderBytes), place);
      if (!header.has_value() || header->record_bytes() > size - place) continue;
      DING_ASSIGN_OR_RETURN(const std::string record,
                            ReadPiece(fd, path, place, header->record_bytes()));
      if (static_cast<int64_t>(record.size()) == header->record_bytes() &&
          IsWhole(record, *header)) {
        return place;
      }
    }
  }
  return std::nullopt;
}

// Whether [begin, size) ends in a zero, or holds a sector of zeros. A record that was written whole never does.
absl::StatusOr<bool> HasUnwrittenBytes(int fd, const std::string& path, int64_t begin,
                                       int64_t size) {
  DING_ASSIGN_OR_RETURN(const std::string last, ReadPiece(fd, path, size - 1, 1));
  if (AllZero(last)) return true;
  const int64_t first_sector = (begin + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
  for (int64_t at = first_sector; at + kSectorBytes <= size; at += kReadBytes) {
    DING_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadPiece(fd, path, at, std::min(kReadBytes, size - at)));
    for (size_t i = 0; i + kSectorBytes <= bytes.size(); i += kSectorBytes) {
      if (AllZero(absl::string_view(bytes).substr(i, kSectorBytes))) return true;
    }
  }
  return false;
}

// Appends these records as one group. `write` writes each record into its place in `frames`, so that its bytes are
// copied once.
template <typename Record, typename SizeOf, typename Write>
void AppendGroup(absl::Span<const Record> records, const SizeOf& size_of, const Write& write,
                 std::string* frames) {
  std::vector<size_t> sizes;
  size_t at = frames->size();
  size_t end = at;
  for (const Record& record : records) {
    sizes.push_back(size_of(record));
    end += kHeaderBytes + sizes.back() + kMarkBytes;
  }
  frames->resize(end);
  for (size_t i = 0; i < records.size(); ++i) {
    char* const header = &(*frames)[at];
    char* const payload = header + kHeaderBytes;
    write(records[i], payload);
    auto flags_and_length = static_cast<uint32_t>(sizes[i]);
    if (i == 0) flags_and_length |= kBeginsGroup;
    if (i + 1 == records.size()) flags_and_length |= kEndsGroup;
    const uint32_t crc = Crc32c({payload, sizes[i]});
    std::memcpy(header, &flags_and_length, sizeof(flags_and_length));
    std::memcpy(header + sizeof(flags_and_length), &crc, sizeof(crc));
    payload[sizes[i]] = kMark;
    at += kHeaderBytes + sizes[i] + kMarkBytes;
  }
}

}  // namespace

void AppendJournalGroup(absl::Span<const JournalRecord> records, std::string* frames) {
  AppendGroup(
      records, [](const JournalRecord& record) { return record.ByteSizeLong(); },
      [](const JournalRecord& record, char* to) {
        record.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(to));
      },
      frames);
}

void AppendJournalGroup(absl::Span<const absl::string_view> payloads, std::string* frames) {
  AppendGroup(
      payloads, [](absl::string_view payload) { return payload.size(); },
      [](absl::string_view payload, char* to) { std::memcpy(to, payload.data(), payload.size()); },
      frames);
}

void PlaceJournalFrames(int64_t place, std::string* frames) {
  for (size_t at = 0; at < frames->size();) {
    ByteCursor cursor(absl::string_view(*frames).substr(at));
    Header header;
    header.flags_and_length = cursor.Take<uint32_t>();
    header.payload_crc = cursor.Take<uint32_t>();
    const uint32_t crc = HeaderCrc(place + static_cast<int64_t>(at), header);
    std::memcpy(&(*frames)[at + kHeaderBytes - sizeof(crc)], &crc, sizeof(crc));
    at += static_cast<size_t>(header.record_bytes());
  }
}

absl::Status WriteJournalBytes(int fd, const std::string& path, absl::string_view bytes,
                               int64_t place) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), place);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("cannot write '", path, "'"));
    bytes.remove_prefix(static_cast<size_t>(written));
    place += written;
  }
  return absl::OkStatus();
}

absl::StatusOr<JournalRecord> ParseJournalRecord(absl::string_view payload,
                                                 const std::string& path) {
  JournalRecord record;
  const absl::Status parsed = ParseProto(payload, &record, kMaxParsedRecordBytes);
  if (parsed.ok()) return record;
  return absl::DataLossError(absl::StrCat(
      "journal '", path, "' has a record that cannot be parsed; `ctl journal check ", path,
      "` lists the readable records, `ctl journal repair ", path, "` makes a journal of them"));
}

JournalScanner::JournalScanner(int fd, const std::string& path, int64_t begin, int64_t end)
    : fd_(fd), path_(path), next_(begin), group_end_(begin), read_(begin), end_(end) {}

absl::StatusOr<std::optional<JournalFrame>> JournalScanner::Next() {
  absl::string_view bytes;
  DING_ASSIGN_OR_RETURN(bytes, Peek(kHeaderBytes));
  const std::optional<Header> header = ParseHeader(bytes, next_);
  // A length beyond the end of the file is refused before memory is taken for it.
  if (!header.has_value() || header->record_bytes() > end_ - next_) return std::nullopt;
  DING_ASSIGN_OR_RETURN(bytes, Peek(header->record_bytes()));
  if (static_cast<int64_t>(bytes.size()) < header->record_bytes() || !IsWhole(bytes, *header)) {
    return std::nullopt;
  }
  next_ += header->record_bytes();
  JournalFrame frame;
  frame.payload = bytes.substr(kHeaderBytes, header->length());
  frame.begins_group = (header->flags_and_length & kBeginsGroup) != 0;
  frame.ends_group = (header->flags_and_length & kEndsGroup) != 0;
  if (frame.ends_group) group_end_ = next_;
  return frame;
}

absl::StatusOr<absl::string_view> JournalScanner::Peek(int64_t size) {
  if (next_ + size > read_ && read_ < end_) {
    buffer_.erase(0, static_cast<size_t>(next_ - (read_ - static_cast<int64_t>(buffer_.size()))));
    const int64_t wanted = std::max(kReadBytes, next_ + size - read_);
    DING_ASSIGN_OR_RETURN(const std::string more,
                          ReadPiece(fd_, path_, read_, std::min(wanted, end_ - read_)));
    buffer_ += more;
    read_ += static_cast<int64_t>(more.size());
    if (more.empty()) end_ = read_;
  }
  const auto begin = static_cast<size_t>(next_ - (read_ - static_cast<int64_t>(buffer_.size())));
  return absl::string_view(buffer_).substr(begin, static_cast<size_t>(size));
}

absl::StatusOr<JournalEnd> ExamineJournalEnd(int fd, const std::string& path,
                                             const JournalScanner& scanner, int64_t size) {
  const int64_t position = scanner.position();
  JournalEnd end;
  end.begin = scanner.group_end();
  end.end = size;
  if (position == size) {
    if (end.begin < size) end.kind = JournalEnd::Kind::kTorn;  // It ends within a group.
    return end;
  }
  end.kind = JournalEnd::Kind::kDamaged;
  DING_ASSIGN_OR_RETURN(const std::optional<int64_t> record,
                        FindRecord(fd, path, position + 1, size));
  if (record.has_value()) {
    end.end = *record;
    end.records_follow = true;
    return end;
  }
  DING_ASSIGN_OR_RETURN(const std::string bytes, ReadPiece(fd, path, position, kHeaderBytes));
  const std::optional<Header> header = ParseHeader(bytes, position);
  const bool cut = header.has_value() ? header->record_bytes() > size - position
                                      : size - position < kHeaderBytes;
  DING_ASSIGN_OR_RETURN(const bool unwritten, HasUnwrittenBytes(fd, path, position, size));
  if (cut || unwritten) end.kind = JournalEnd::Kind::kTorn;
  return end;
}

absl::StatusOr<int64_t> FindJournalBegin(int fd, const std::string& path, int64_t size) {
  DING_ASSIGN_OR_RETURN(const std::string magic, ReadPiece(fd, path, 0, kJournalBegin));
  if (magic == kJournalMagic) return kJournalBegin;
  absl::string_view version = magic;
  if (absl::ConsumePrefix(&version, kJournalMagic.substr(0, kJournalMagic.size() - 1)) &&
      version >= "1" && version <= "9") {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path, "' is a journal of version ", version, ", this program reads version ",
        kJournalVersion, ": go on with that run with the program that began it"));
  }
  // A file with a whole record in its place is a journal, even if its first bytes are damaged.
  JournalScanner scanner(fd, path, kJournalBegin, size);
  DING_ASSIGN_OR_RETURN(const std::optional<JournalFrame> record, scanner.Next());
  if (record.has_value()) return kJournalBegin;
  const size_t written = std::min(magic.find_last_not_of('\0') + 1, magic.size());
  if (kJournalMagic.substr(0, written) == absl::string_view(magic).substr(0, written)) {
    bool torn = true;
    for (int64_t at = kJournalBegin; at < size && torn; at += kReadBytes) {
      DING_ASSIGN_OR_RETURN(const std::string bytes, ReadPiece(fd, path, at, kReadBytes));
      torn = AllZero(bytes);
    }
    if (torn) return 0;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' of ", size, " bytes is not a journal of a coordinator"));
}

absl::Status LockJournalFile(int fd, const std::string& path) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN)) {
    return absl::OkStatus();  // Some file systems have no locks.
  }
  const std::optional<int64_t> user = JournalFileUser(fd);
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' is in use by ", user.has_value() ? "process " : "another process",
                   user.has_value() ? absl::StrCat(*user) : "", ": end that one first"));
}

std::optional<int64_t> JournalFileUser(int fd) {
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  return lock.l_pid;
}

}  // namespace ding
