#include "ding_worker/worker/coordination/stored_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"

namespace ding {

std::string StoredFileKey(absl::string_view path) {
  std::string key(kStoredFilePrefix);
  char before = '/';
  for (const char c : path) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '/' ||
                       (c == '.' && before != '/');
    if (plain) {
      key.push_back(c);
    } else if (c == '_') {
      key.append("__");
    } else {
      absl::StrAppend(&key, "_", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
    before = c;
  }
  return key;
}

std::string PieceKey(const StoredFile& file, int part, int64_t piece) {
  return absl::StrCat("blob/", file.blob(), "/", part, "-", piece);
}

int64_t PieceCount(const StoredFile& file, int part) {
  return (file.part(part).bytes() + file.piece_bytes() - 1) / file.piece_bytes();
}

std::string NewBlobName() {
  static std::atomic<uint32_t> count{0};
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, HOST_NAME_MAX) != 0) host[0] = '\0';
  return absl::StrCat(absl::Hex(absl::ToUnixMicros(Clock::Real()->Now())), "-",
                      absl::Hex(Crc32c(host)), "-", getpid(), "-", count.fetch_add(1));
}

absl::Status CheckStoredFile(const StoredFile& file) {
  const auto is_name = [](absl::string_view name) {
    return !name.empty() && name != "." && name != ".." && !absl::StrContains(name, '/') &&
           !absl::StrContains(name, '\0');
  };
  bool valid = absl::c_all_of(absl::StrSplit(file.path(), '/'), is_name) &&
               file.piece_bytes() > 0 && file.piece_bytes() <= kMaxPieceBytes &&
               file.part_size() > 0 && (file.checkpoint() || file.part_size() == 1);
  for (const StoredFile::Part& part : file.part()) {
    valid = valid && part.bytes() >= 0 && (!file.checkpoint() || is_name(part.name()));
  }
  if (valid) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("'", file.path(), "' does not describe a run's file"));
}

std::string SignatureOf(const std::string& path, bool checkpoint) {
  std::string signature;
  if (checkpoint) {
    for (const std::string& name : ListDirectory(path).value_or(std::vector<std::string>())) {
      absl::StrAppend(&signature, name, "=", SignatureOf(JoinPath(path, name), false));
    }
    return signature;
  }
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  return absl::StrCat(info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec, " ");
}

bool BeginsWith(const std::string& path, const StoredFile::Part& part) {
  const auto file = RandomAccessFile::Open(path);
  std::string buffer;
  uint32_t crc = 0;
  for (int64_t at = 0; at < part.bytes(); at += static_cast<int64_t>(buffer.size())) {
    buffer.resize(static_cast<size_t>(std::min(kMaxPieceBytes, part.bytes() - at)));
    if (!file.ok() || !(*file)->ReadAt(at, absl::MakeSpan(buffer)).ok()) return false;
    crc = Crc32c(buffer, crc);
  }
  return file.ok() && crc == part.crc32c();
}

int64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  return error ? -1 : bytes;
}

}  // namespace ding
