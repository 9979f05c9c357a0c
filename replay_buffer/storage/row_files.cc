#include "ding_worker/replay_buffer/storage/row_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kLock[] = "lock";
constexpr char kSaved[] = "saved";
constexpr absl::string_view kKept = "kept";
constexpr absl::string_view kBegun = "begun";
constexpr absl::string_view kExtension = ".rows";

std::string RowFilePath(absl::string_view folder, int64_t number) {
  return JoinPath(folder, absl::StrCat(number, kExtension));
}

// The number of the file `name`; -1: it is none of ours.
int64_t NumberOf(absl::string_view name) {
  int64_t number;
  return absl::ConsumeSuffix(&name, kExtension) && absl::SimpleAtoi(name, &number) ? number : -1;
}

// The mapped files, for the handler of SIGBUS, which may read only atomics. Entries are used again,
// but never freed.
struct MappedRange {
  std::atomic<std::byte*> begin{nullptr};  // null: the entry is free
  std::atomic<int64_t> bytes{0};
  std::atomic<std::atomic<bool>*> failed{nullptr};
  MappedRange* next = nullptr;
};
std::atomic<MappedRange*> first_range{nullptr};
struct sigaction action_before;

// Puts memory of zeros in the place of a file that can no longer be read or written, and says so.
// If the address is none of ours, it does what would have happened without this handler.
void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  for (MappedRange* range = first_range.load(); range != nullptr; range = range->next) {
    std::byte* const begin = range->begin.load();
    const int64_t bytes = range->bytes.load();
    if (begin == nullptr || at < begin || at >= begin + bytes) continue;
    if (mmap(begin, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
      break;
    }
    range->failed.load()->store(true);
    errno = error;
    return;
  }
  sigaction(signal, &action_before, nullptr);  // The instruction is repeated.
}

void InstallHandler() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &action_before) == 0;
  }();
  DING_CHECK(installed) << "no handler of SIGBUS";
}

Mutex& RangesMutex() {
  static auto* const mutex = new Mutex();
  return *mutex;
}

void AddRange(std::byte* begin, int64_t bytes, std::atomic<bool>* failed) {
  MutexLock lock(&RangesMutex());
  MappedRange* range = first_range.load();
  while (range != nullptr && range->begin.load() != nullptr) range = range->next;
  const bool is_new = range == nullptr;
  if (is_new) range = new MappedRange();
  range->bytes.store(bytes);
  range->failed.store(failed);
  range->begin.store(begin);
  if (!is_new) return;
  range->next = first_range.load();
  first_range.store(range);
}

void RemoveRange(const std::byte* begin) {
  MutexLock lock(&RangesMutex());
  MappedRange* range = first_range.load();
  while (range->begin.load() != begin) range = range->next;
  range->begin.store(nullptr);
}

}  // namespace

class RowFiles::Save {
 public:
  explicit Save(std::vector<Part> parts) : parts_(std::move(parts)) {}

 private:
  friend class RowFiles;

  const std::vector<Part> parts_;
  std::set<int64_t> numbers_;  // set before any other thread sees it
  Mutex mutex_;                // held while it is written; before RowFiles::mutex_
  bool is_written_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Saved> written_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::shared_ptr<RowFiles>> RowFiles::Open(const std::string& folder) {
  InstallHandler();
  DING_RETURN_IF_ERROR(CreateDirectories(folder));
  const std::string path = JoinPath(folder, kLock);
  DING_ASSIGN_OR_RETURN(OpenFile lock, OpenRegularFile(path, O_RDWR | O_CREAT, 0644));
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("another replay buffer keeps its rows in '",
                                                      folder, "' and holds '", path,
                                                      "', expected a folder for each buffer"));
  }
  std::error_code error;
  const auto absolute = std::filesystem::absolute(folder, error).lexically_normal();
  std::shared_ptr<RowFiles> files(
      new RowFiles(error ? folder : absolute.string(), std::move(lock)));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  MutexLock hold(&files->mutex_);
  for (const std::string& name : names) {
    const int64_t number = NumberOf(name);
    if (number < 0) continue;
    files->present_.insert(number);
    files->next_ = std::max(files->next_, number + 1);
  }
  DING_RETURN_IF_ERROR(files->ReadSaved());
  files->RemoveUnused();
  return files;
}

absl::Status RowFiles::ReadSaved() {
  const std::string path = JoinPath(folder_, kSaved);
  if (!PathExists(path)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  for (const absl::string_view line : absl::StrSplit(content, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    std::set<int64_t> numbers;
    bool is_valid = !words.empty() && (words[0] == kKept || words[0] == kBegun);
    for (size_t i = 1; i < words.size(); ++i) {
      int64_t number = -1;
      is_valid = absl::SimpleAtoi(words[i], &number) && is_valid;
      numbers.insert(number);
    }
    if (!is_valid) {
      return absl::DataLossError(absl::StrCat("'", path, "' is damaged: '", absl::CHexEscape(line),
                                              "', expected '", kKept, "' or '", kBegun,
                                              "' and numbers of files"));
    }
    named_.push_back({words[0] == kKept, std::move(numbers)});
    must_resume_ = must_resume_ || (named_.back().is_kept && !present_.empty());
  }
  return absl::OkStatus();
}

// Writes the file `saved`, which also flushes the names in the folder to the disk.
absl::Status RowFiles::WriteSaved() {
  const MutexLock lock(&saved_mutex_);
  std::string content;
  const auto add = [&content](absl::string_view what, const std::set<int64_t>& numbers) {
    absl::StrAppend(&content, what, " ", absl::StrJoin(numbers, " "), "\n");
  };
  {
    MutexLock hold(&mutex_);
    for (const Named& named : named_) add(named.is_kept ? kKept : kBegun, named.numbers);
    for (const std::weak_ptr<const Save>& begun : saves_) {
      if (const auto save = begun.lock(); save != nullptr) add(kBegun, save->numbers_);
    }
  }
  return WriteFileAtomically(JoinPath(folder_, kSaved), content);
}

std::string RowFiles::PathOf(int64_t number) const { return RowFilePath(folder_, number); }

absl::Status RowFiles::CheckNew() const {
  MutexLock hold(&mutex_);
  if (!must_resume_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "'", folder_, "' has ", present_.size(),
      " files of rows that an earlier run has saved, expected none when a run begins: resume that "
      "run, remove the folder, or choose another"));
}

void RowFiles::Resume() {
  MutexLock hold(&mutex_);
  must_resume_ = false;
}

absl::Status RowFiles::CheckRoom(int64_t bytes) const {
  struct statvfs disk;
  if (statvfs(folder_.c_str(), &disk) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot look at the disk of '", folder_, "'"));
  }
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (static_cast<double>(bytes) <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("the rows of the whole capacity take %.1f MB, more than the %.1f MB that are "
                      "free on the disk of '%s': expected a smaller capacity, or another path",
                      static_cast<double>(bytes) * 1e-6, free * 1e-6, folder_));
}

absl::Status RowFiles::status() const {
  if (!failed_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the disk of '", folder_,
                   "' has failed: rows could not be read or written. Resume the run when the disk "
                   "is back"));
}

absl::StatusOr<RowFiles::Block> RowFiles::New(const Sizes& sizes) {
  File file = {};
  {
    MutexLock hold(&mutex_);
    file.number = next_++;
  }
  const std::string path = PathOf(file.number);
  DING_ASSIGN_OR_RETURN(const OpenFile opened,
                        OpenRegularFile(path, O_RDWR | O_CREAT | O_EXCL, 0644));
  // Without space of its own, a mapped file would fail when a row is copied into it.
  const int error = posix_fallocate(opened.fd(), 0, sizes.file_bytes);
  absl::StatusOr<Block> block =
      error == 0 ? Map(file, opened.fd(), sizes, /*writable=*/true)
                 : ErrnoStatus(error, absl::StrCat("cannot make '", path, "' of ", sizes.file_bytes,
                                                   " bytes"));
  if (!block.ok()) unlink(path.c_str());
  return block;
}

absl::StatusOr<RowFiles::Block> RowFiles::Load(const Saved& saved, const Sizes& sizes) {
  // It is read before it is mapped, so that a disk that fails here is this file's error.
  DING_RETURN_IF_ERROR(ReadRowFile(folder_, saved).status());
  const std::string path = PathOf(saved.number);
  DING_ASSIGN_OR_RETURN(const OpenFile opened, OpenRegularFile(path, O_RDONLY));
  if (opened.size_bytes() < sizes.file_bytes) {
    return absl::DataLossError(absl::StrCat("'", path, "' is damaged: it has ", opened.size_bytes(),
                                            " bytes, expected ", sizes.file_bytes));
  }
  return Map({saved.number, saved.bytes, saved.crc32c}, opened.fd(), sizes, /*writable=*/false);
}

absl::StatusOr<RowFiles::Block> RowFiles::Map(const File& file, int fd, const Sizes& sizes,
                                              bool writable) {
  DING_CHECK(sizes.file_bytes > 0 && sizes.file_bytes % kAlignment == 0 &&
             sizes.file_bytes <= sizes.block_bytes)
      << sizes.file_bytes << " bytes of " << sizes.block_bytes;
  const auto block_bytes = static_cast<size_t>(sizes.block_bytes);
  const auto failed = [&] {
    return ErrnoStatus(errno, absl::StrCat("cannot map '", PathOf(file.number), "'"));
  };
  void* const at =
      mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return failed();
  if (mmap(at, static_cast<size_t>(sizes.file_bytes), PROT_READ | (writable ? PROT_WRITE : 0),
           MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const absl::Status status = failed();
    munmap(at, block_bytes);
    return status;
  }
  // The rows around one that is drawn are not needed soon.
  madvise(at, static_cast<size_t>(sizes.file_bytes), MADV_RANDOM);
  auto* const block = static_cast<std::byte*>(at);
  AddRange(block, sizes.file_bytes, &failed_);
  MutexLock hold(&mutex_);
  present_.insert(file.number);
  mapped_[block] = file;
  const auto drop = [files = shared_from_this(), sizes](std::byte* dropped) {
    files->Drop(dropped, sizes);
  };
  return Block(block, drop);
}

void RowFiles::ReadAhead(const std::byte* at, int64_t bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(at) & ~(page - 1);
  const auto end = reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(bytes);
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void RowFiles::Drop(std::byte* block, const Sizes& sizes) {
  MutexLock hold(&mutex_);
  mapped_.erase(block);
  RemoveRange(block);
  // From here on another block may get these addresses.
  munmap(block, static_cast<size_t>(sizes.block_bytes));
  RemoveUnused();
}

// Removes the files that are neither mapped nor held back by a save. A file that cannot be removed
// is tried again later.
void RowFiles::RemoveUnused() {
  std::set<int64_t> needed;
  for (const auto& [block, file] : mapped_) needed.insert(file.number);
  for (const Named& named : named_) needed.insert(named.numbers.begin(), named.numbers.end());
  for (size_t i = saves_.size(); i-- > 0;) {
    if (const std::shared_ptr<const Save> save = saves_[i].lock(); save != nullptr) {
      needed.insert(save->numbers_.begin(), save->numbers_.end());
    } else {
      saves_.erase(saves_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  for (auto number = present_.begin(); number != present_.end();) {
    const bool removed = needed.count(*number) == 0 && RemoveFile(PathOf(*number)).ok();
    number = removed ? present_.erase(number) : std::next(number);
  }
}

std::shared_ptr<RowFiles::Save> RowFiles::BeginSave(std::vector<Part> parts) {
  auto save = std::make_shared<Save>(std::move(parts));
  MutexLock hold(&mutex_);
  for (const Part& part : save->parts_) {
    save->numbers_.insert(mapped_.find(part.block)->second.number);
  }
  saves_.push_back(save);
  return save;
}

absl::StatusOr<std::vector<RowFiles::Saved>> RowFiles::Write(Save* save) {
  MutexLock write(&save->mutex_);
  if (save->is_written_) return save->written_;
  save->written_.clear();
  for (const Part& part : save->parts_) {
    DING_ASSIGN_OR_RETURN(const Saved saved, Flush(part));
    save->written_.push_back(saved);
  }
  DING_RETURN_IF_ERROR(WriteSaved());
  // Zeros in the place of rows have a checksum, too.
  DING_RETURN_IF_ERROR(status());
  save->is_written_ = true;
  return save->written_;
}

void RowFiles::Keep(const Save& save) {
  {
    MutexLock hold(&mutex_);
    const bool again =
        !named_.empty() && named_.back().is_kept && named_.back().numbers == save.numbers_;
    if (!again) named_.push_back({/*is_kept=*/true, save.numbers_});
    auto kept =
        std::count_if(named_.begin(), named_.end(), [](const Named& n) { return n.is_kept; });
    while (kept > kKeptSaves || (kept == kKeptSaves && !named_.front().is_kept)) {
      if (named_.front().is_kept) --kept;
      named_.pop_front();
    }
  }
  // If this fails, the old list stays. It has the files of this save in a line "begun".
  WriteSaved().IgnoreError();
  MutexLock hold(&mutex_);
  RemoveUnused();
}

absl::StatusOr<RowFiles::Saved> RowFiles::Flush(const Part& part) {
  const auto find = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> File& {
    return mapped_.find(part.block)->second;
  };
  File file;
  {
    MutexLock hold(&mutex_);
    file = find();
  }
  if (file.flushed > part.bytes) file.flushed = file.crc32c = 0;  // A later save was written first.
  if (file.flushed < part.bytes) {
    const auto* const rows = reinterpret_cast<const char*>(part.block);
    file.crc32c =
        Crc32c({rows + file.flushed, static_cast<size_t>(part.bytes - file.flushed)}, file.crc32c);
    if (msync(const_cast<std::byte*>(part.block), static_cast<size_t>(part.bytes), MS_SYNC) != 0) {
      failed_ = true;  // The system reports it once, and may drop the pages.
      return ErrnoStatus(errno, absl::StrCat("cannot flush '", PathOf(file.number), "'"));
    }
    file.flushed = part.bytes;
    MutexLock hold(&mutex_);
    if (find().flushed < part.bytes) find() = file;
  }
  return Saved{file.number, part.bytes, file.crc32c};
}

absl::StatusOr<std::string> ReadRowFile(const std::string& folder, const RowFiles::Saved& saved) {
  const std::string path = RowFilePath(folder, saved.number);
  DING_ASSIGN_OR_RETURN(const auto file, RandomAccessFile::Open(path));
  if (file->size_bytes() < saved.bytes) {
    return absl::DataLossError(absl::StrCat("'", path, "' is damaged: it has ", file->size_bytes(),
                                            " bytes, expected ", saved.bytes));
  }
  std::string rows(static_cast<size_t>(saved.bytes), 0);
  DING_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(rows)));
  const uint32_t crc32c = Crc32c(rows);
  if (crc32c == saved.crc32c) return rows;
  return absl::DataLossError(
      absl::StrFormat("'%s' is damaged: the checksum of its rows is %08x, expected %08x", path,
                      crc32c, saved.crc32c));
}

}  // namespace ding
