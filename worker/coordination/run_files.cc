#include "ding_worker/worker/coordination/run_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"
#include "ding_worker/worker/coordination/stored_file.h"
#include "ding_worker/worker/run_folder/run_folder.h"

namespace ding {
namespace {

constexpr char kWhat[] = "a file of the run in the store";  // for SaveOutage
constexpr char kOwner[] = "owner";
constexpr absl::string_view kEnded = " ended";
constexpr absl::string_view kLogs = "log/";
constexpr char kManifest[] = "manifest.json";
// A log gets its last piece again each time that it has grown, so its pieces are small.
constexpr int64_t kLogPieceBytes = int64_t{16} << 10;
// How often a file may be replaced while it is read.
constexpr int kMaxReadAttempts = 10;
constexpr absl::Duration kFollowPeriod = absl::Seconds(2);
constexpr absl::Duration kStopPeriod = absl::Milliseconds(50);

bool IsTemporary(absl::string_view name) {
  return absl::StartsWith(name, ".") || absl::StrContains(name, ".tmp.") ||
         absl::StrContains(name, ".old.");
}

int64_t TrainIterationOf(const std::string& checkpoint) {
  const absl::StatusOr<CheckpointInfo> info = CheckpointReader::ReadInfo(checkpoint);
  int64_t iteration = -1;
  if (!info.ok()) return iteration;
  const auto field = info->fields.find("train_iter");
  const bool found = field != info->fields.end() && absl::SimpleAtoi(field->second, &iteration);
  return found ? iteration : -1;
}

// Calls `found(path, is_checkpoint)` for each file and checkpoint below `root`. Returns false if
// something disappeared meanwhile.
bool ForEachUnit(const std::string& root,
                 const std::function<void(const std::string& path, bool checkpoint)>& found) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().string();
    const bool folder = fs::is_directory(it->symlink_status(error)) && !error;
    const bool checkpoint = folder && PathExists(JoinPath(path, kManifest));
    const bool temporary = IsTemporary(Basename(path));
    if (folder && (checkpoint || temporary)) it.disable_recursion_pending();
    if (!temporary && (!folder || checkpoint)) found(path.substr(root.size() + 1), checkpoint);
  }
  return !error;
}

}  // namespace

std::string RunFilesUrl(absl::string_view store_url) {
  const size_t settings = std::min(store_url.find('?'), store_url.size());
  return absl::StrCat(store_url.substr(0, settings), ".files", store_url.substr(settings));
}

RunFiles::RunFiles(std::unique_ptr<Store> store, std::string folder, std::string writer)
    : store_(std::move(store)),
      folder_(std::move(folder)),
      writer_(std::move(writer)),
      outage_(Clock::Real()) {}

RunFiles::~RunFiles() { StopThread(); }

absl::StatusOr<RunFiles::Owner> RunFiles::ReadOwner() {
  Owner owner;
  const absl::Status read = store_->Get(kOwner, &owner.opening);
  if (absl::IsNotFound(read) || absl::IsDataLoss(read)) return Owner();
  if (!read.ok()) return read;
  if (absl::EndsWith(owner.opening, kEnded)) {
    owner.ended = true;
    owner.opening.resize(owner.opening.size() - kEnded.size());
  }
  return owner;
}

absl::Status RunFiles::Lead(const std::string& opening) {
  const MutexLock lock(&working_);
  leads_ = true;
  opening_ = opening;
  return store_->Put(kOwner, {absl::string_view(opening)});
}

absl::Status RunFiles::CheckOwner() {
  DING_ASSIGN_OR_RETURN(const Owner owner, ReadOwner());
  const std::string& opening = owner.opening;
  if (opening.empty() && leads_) {
    known_.clear();  // The store has lost all files, too.
    return store_->Put(kOwner, {absl::string_view(opening_)});
  }
  if (opening_.empty()) opening_ = opening;
  if (opening.empty() || opening == opening_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("another coordinator goes on with the run: the files of ",
                                         writer_, " are not sent to ", store_->url(), " any more"));
}

absl::StatusOr<StoredFile> RunFiles::GetFile(const std::string& key) {
  std::string bytes;
  DING_RETURN_IF_ERROR(store_->Get(key, &bytes));
  StoredFile file;
  if (!ParseProto(bytes, &file).ok() || StoredFileKey(file.path()) != key) {
    return absl::DataLossError(absl::StrCat("'", key, "' in ", store_->url(), " is damaged"));
  }
  DING_RETURN_IF_ERROR(CheckStoredFile(file));
  return file;
}

absl::Status RunFiles::Publish() {
  const MutexLock lock(&working_);
  return PublishLocked();
}

absl::Status RunFiles::PublishLocked() {
  DING_RETURN_IF_ERROR(CheckOwner());
  std::map<std::string, Unit> units;
  const bool complete = ForEachUnit(folder_, [&](const std::string& path, bool checkpoint) {
    std::string signature = SignatureOf(JoinPath(folder_, path), checkpoint);
    if (!signature.empty()) units[path] = {checkpoint, std::move(signature)};
  });
  absl::Status first;
  for (const auto& [path, unit] : units) {
    const auto known = known_.find(path);
    if (known != known_.end() && known->second.signature == unit.signature) continue;
    const absl::Status put = PutUnit(path, unit);
    if (WorthTryingAgain(put)) return put;
    first.Update(Annotate(put, JoinPath(folder_, path)));
  }
  if (!complete) return first;  // The next round sees what is gone.
  for (auto it = known_.begin(); it != known_.end();) {
    const bool gone = units.count(it->first) == 0;
    if (gone) DING_RETURN_IF_ERROR(RemoveUnit(it->second));
    it = gone ? known_.erase(it) : std::next(it);
  }
  return first;
}

absl::Status RunFiles::PutUnit(const std::string& path, const Unit& unit) {
  const std::string key = StoredFileKey(path);
  const std::string local = JoinPath(folder_, path);
  const absl::StatusOr<StoredFile> stored = GetFile(key);
  const bool missing = absl::IsNotFound(stored.status());
  if (!stored.ok() && !missing && !absl::IsDataLoss(stored.status())) return stored.status();
  const auto before = known_.find(path);
  const bool has_grown = before != known_.end() && before->second.own && !unit.checkpoint &&
                         stored.ok() && stored->blob() == before->second.file.blob() &&
                         BeginsWith(local, before->second.file.part(0));
  Known known = {{}, unit.signature, /*own=*/true};
  StoredFile& file = known.file;
  std::vector<std::string> sources = {local};
  if (has_grown) {
    file = before->second.file;
  } else {
    // A known file that is missing means that the store has lost its data.
    if (before != known_.end() && missing) known_.clear();
    file.set_path(path);
    file.set_writer(writer_);
    file.set_blob(NewBlobName());
    file.set_piece_bytes(absl::StartsWith(path, kLogs) ? kLogPieceBytes : kMaxPieceBytes);
    file.set_checkpoint(unit.checkpoint);
    if (unit.checkpoint) {
      if (Basename(path) == kResumeCheckpoint) file.set_train_iter(TrainIterationOf(local));
      DING_ASSIGN_OR_RETURN(sources, ListDirectory(local));
    }
    for (std::string& source : sources) {
      file.add_part()->set_name(unit.checkpoint ? source : "");
      source = JoinPath(local, source);
    }
    // The coordinator's folder has what it has fetched of others, which may have gone on since.
    const bool of_another = stored.ok() && leads_ && stored->writer() != writer_;
    if (of_another || (stored.ok() && stored->train_iter() > file.train_iter())) {
      known_[path] = {{}, unit.signature, /*own=*/false};
      return absl::OkStatus();
    }
  }
  absl::Status put;
  for (int part = 0; put.ok() && part < file.part_size(); ++part) {
    put = PutPart(sources[static_cast<size_t>(part)], part, has_grown, &file);
  }
  // A checkpoint that was replaced meanwhile is published in the next round.
  const bool replaced = unit.checkpoint && SignatureOf(local, true) != unit.signature;
  if (put.ok() && !replaced) put = store_->Put(key, {absl::string_view(file.SerializeAsString())});
  if (!put.ok() || replaced) {
    if (!has_grown) DeletePieces(file);
    return absl::IsNotFound(put) || replaced ? absl::OkStatus() : put;
  }
  if (!has_grown && stored.ok()) DeletePieces(*stored);
  known_[path] = std::move(known);
  return absl::OkStatus();
}

absl::Status RunFiles::PutPart(const std::string& source, int part, bool has_grown,
                               StoredFile* file) {
  DING_ASSIGN_OR_RETURN(const auto opened, RandomAccessFile::Open(source));
  StoredFile::Part& described = *file->mutable_part(part);
  const int64_t full_pieces = has_grown ? described.bytes() / file->piece_bytes() : 0;
  described.set_bytes(opened->size_bytes());
  std::string piece;
  uint32_t crc = 0;
  for (int64_t i = 0; i < PieceCount(*file, part); ++i) {
    const int64_t at = i * file->piece_bytes();
    piece.resize(static_cast<size_t>(std::min(file->piece_bytes(), described.bytes() - at)));
    DING_RETURN_IF_ERROR(opened->ReadAt(at, absl::MakeSpan(piece)));
    crc = Crc32c(piece, crc);
    if (i < full_pieces) continue;
    DING_RETURN_IF_ERROR(store_->Put(PieceKey(*file, part, i), {absl::string_view(piece)}));
  }
  described.set_crc32c(crc);
  return absl::OkStatus();
}

absl::Status RunFiles::RemoveUnit(const Known& known) {
  const absl::StatusOr<StoredFile> stored = GetFile(StoredFileKey(known.file.path()));
  if (WorthTryingAgain(stored.status())) return stored.status();
  if (!stored.ok() || stored->blob() != known.file.blob()) return absl::OkStatus();
  DING_RETURN_IF_ERROR(store_->Delete(StoredFileKey(known.file.path())));
  DeletePieces(*stored);
  return absl::OkStatus();
}

void RunFiles::DeletePieces(const StoredFile& file) {
  for (int part = 0; part < file.part_size(); ++part) {
    for (int64_t i = 0; i < PieceCount(file, part); ++i) {
      // What stays takes up room until the files of the run are removed.
      if (!store_->Delete(PieceKey(file, part, i)).ok()) return;
    }
  }
}

absl::Status RunFiles::Fetch(const std::function<bool(const StoredFile&)>& wanted) {
  const MutexLock lock(&working_);
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store_->List(kStoredFilePrefix));
  absl::Status first;
  for (const std::string& key : keys) {
    const absl::StatusOr<StoredFile> file = GetFile(key);
    if (WorthTryingAgain(file.status())) return file.status();
    if (absl::IsNotFound(file.status())) continue;
    const absl::Status got = !file.ok()      ? file.status()
                             : wanted(*file) ? Download(*file)
                                             : absl::OkStatus();
    if (WorthTryingAgain(got)) return got;
    first.Update(got);
  }
  return first;
}

absl::Status RunFiles::FetchPath(const std::string& path) {
  const MutexLock lock(&working_);
  const absl::StatusOr<StoredFile> file = GetFile(StoredFileKey(path));
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  return file.ok() ? Download(*file) : file.status();
}

absl::Status RunFiles::Download(StoredFile file) {
  for (int attempt = 0;; ++attempt) {
    const absl::Status got = DownloadOnce(file);
    const bool replaced = absl::IsNotFound(got) || absl::IsDataLoss(got);
    if (!replaced || attempt == kMaxReadAttempts) {
      return Annotate(got, absl::StrCat("'", file.path(), "' of the run"));
    }
    absl::StatusOr<StoredFile> newer = GetFile(StoredFileKey(file.path()));
    if (absl::IsNotFound(newer.status())) return absl::OkStatus();  // It was removed.
    if (!newer.ok()) return newer.status();
    file = *std::move(newer);
  }
}

absl::Status RunFiles::DownloadOnce(const StoredFile& file) {
  const std::string path = JoinPath(folder_, file.path());
  const auto known = known_.find(file.path());
  const bool unchanged = known != known_.end() &&
                         known->second.signature == SignatureOf(path, file.checkpoint()) &&
                         known->second.file.SerializeAsString() == file.SerializeAsString();
  if (unchanged) return absl::OkStatus();
  const bool is_there = absl::c_all_of(file.part(), [&](const StoredFile::Part& part) {
    const std::string local = file.checkpoint() ? JoinPath(path, part.name()) : path;
    return SizeOf(local) == part.bytes() && BeginsWith(local, part);
  });
  if (!is_there) {
    DING_RETURN_IF_ERROR(CreateDirectories(path.substr(0, path.rfind('/'))));
    if (file.checkpoint()) {
      DING_ASSIGN_OR_RETURN(const std::string made, CreateTemporaryDirectory(path));
      absl::Status got;
      for (int i = 0; got.ok() && i < file.part_size(); ++i) {
        got = DownloadPart(file, i, JoinPath(made, file.part(i).name()));
      }
      if (got.ok()) got = ReplaceDirectory(made, path);
      RemoveRecursively(made).IgnoreError();  // It is gone if it has taken its place.
      if (!got.ok()) return got;
    } else if (!AppendTail(file, path).ok()) {
      DING_RETURN_IF_ERROR(DownloadPart(file, 0, path));
    }
  }
  known_[file.path()] = {file, SignatureOf(path, file.checkpoint()), /*own=*/false};
  return absl::OkStatus();
}

absl::Status RunFiles::GetPiece(const StoredFile& file, int part, int64_t piece,
                                std::string* bytes) {
  DING_RETURN_IF_ERROR(store_->Get(PieceKey(file, part, piece), bytes));
  const int64_t at = piece * file.piece_bytes();
  const auto wanted =
      static_cast<size_t>(std::min(file.piece_bytes(), file.part(part).bytes() - at));
  if (bytes->size() < wanted) return absl::DataLossError("it is shorter than its description says");
  bytes->resize(wanted);  // A log may have grown.
  return absl::OkStatus();
}

absl::Status RunFiles::DownloadPart(const StoredFile& file, int part, const std::string& path) {
  DING_ASSIGN_OR_RETURN(const auto writer, AtomicFileWriter::Create(path));
  std::string piece;
  uint32_t crc = 0;
  for (int64_t i = 0; i < PieceCount(file, part); ++i) {
    DING_RETURN_IF_ERROR(GetPiece(file, part, i, &piece));
    DING_RETURN_IF_ERROR(writer->Append(piece));
    crc = Crc32c(piece, crc);
  }
  if (crc != file.part(part).crc32c()) return absl::DataLossError("its checksum does not match");
  return writer->Commit();
}

// Adds what a log has in the store beyond what it has here, so that a program that follows it here
// finds the rest. After an error the caller replaces the whole log.
absl::Status RunFiles::AppendTail(const StoredFile& file, const std::string& path) {
  const int64_t have = SizeOf(path);
  if (have <= 0 || have >= file.part(0).bytes() || !absl::StartsWith(file.path(), kLogs)) {
    return absl::OutOfRangeError("it is no log that has grown");
  }
  DING_ASSIGN_OR_RETURN(const OpenFile opened, OpenRegularFile(path, O_WRONLY | O_CLOEXEC));
  std::string piece;
  for (int64_t i = have / file.piece_bytes(); i < PieceCount(file, 0); ++i) {
    DING_RETURN_IF_ERROR(GetPiece(file, 0, i, &piece));
    const int64_t at = i * file.piece_bytes();
    const absl::string_view rest = absl::ClippedSubstr(piece, std::max<int64_t>(0, have - at));
    if (pwrite(opened.fd(), rest.data(), rest.size(), std::max(have, at)) !=
        static_cast<ssize_t>(rest.size())) {
      return ErrnoStatus(errno, absl::StrCat("cannot write '", path, "'"));
    }
  }
  return BeginsWith(path, file.part(0)) ? absl::OkStatus()
                                        : absl::DataLossError("it is another log");
}

absl::Status RunFiles::Start() {
  DING_ASSIGN_OR_RETURN(thread_, StartThread("sending the files of the run", [this] { Run(); }));
  return absl::OkStatus();
}

void RunFiles::Run() {
  MutexLock lock(&mutex_);
  while (!done_) {
    mutex_.Unlock();
    const absl::Status published = Publish();
    // Whoever is replaced ends soon, and what may not pass is reported at the end.
    const absl::Status noted = SaveOutage::MayPass(published) || published.ok()
                                   ? outage_.Note(kWhat, published)
                                   : absl::OkStatus();
    mutex_.Lock();
    status_ = noted;
    if (!done_) changed_.WaitFor(&mutex_, kPeriod);
  }
}

absl::Status RunFiles::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

void RunFiles::StopThread() {
  {
    const MutexLock lock(&mutex_);
    done_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status RunFiles::Finish(const std::function<bool()>& stop) {
  StopThread();
  const auto publish = [this]() -> absl::Status {
    const MutexLock lock(&working_);
    DING_RETURN_IF_ERROR(PublishLocked());
    if (!leads_) return absl::OkStatus();
    return store_->Put(kOwner, {absl::string_view(opening_), kEnded});
  };
  const absl::Status published = outage_.Wait(kWhat, publish, stop);
  if (!absl::IsAborted(published)) {
    return Annotate(published, absl::StrCat("not all files of ", writer_, " are in ", store_->url(),
                                            "; they stay in '", folder_, "'"));
  }
  DING_LOG(WARNING) << published.message();
  return absl::OkStatus();
}

absl::Status RunFiles::Clear() {
  StopThread();
  return store_->Clear();
}

absl::Status FetchRun(const FetchRunOptions& options) {
  const absl::string_view url = options.store_url;
  const absl::string_view run = Basename(url.substr(0, url.find('?')));
  const std::vector<std::string> names =
      ListDirectory(options.folder).value_or(std::vector<std::string>());
  const absl::StatusOr<ParallelRunInfo> info = ReadRunInfo(options.folder);
  if (!names.empty() && (!info.ok() || info->run() != run)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", options.folder, "' has other files than those of run ", run,
                     ": expected a new folder, or one to which it was fetched before"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, create_store(RunFilesUrl(url)));
  RunFiles files(std::move(store), options.folder, "");
  DING_ASSIGN_OR_RETURN(const RunFiles::Owner owner, files.ReadOwner());
  if (owner.opening.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "there are no files of a run at '", url, "': expected the URL that a run with ",
        "system.run_files: STORE prints at its start, whose files were not removed"));
  }
  DING_RETURN_IF_ERROR(CreateDirectories(options.folder));
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<void> lock, RunFolder::TakeLock(options.folder));
  while (true) {
    // It is asked before: what a coordinator that has ended has published is there.
    const absl::StatusOr<RunFiles::Owner> now = files.ReadOwner();
    absl::Status got = now.status();
    // It comes first: by this file the next call knows whose folder this is.
    if (got.ok()) got = files.FetchPath(run_files::kInfo);
    if (got.ok() && !PathExists(JoinPath(options.folder, run_files::kInfo))) {
      got = absl::UnavailableError(absl::StrCat(
          "the run at '", url, "' has put no files there yet: try again, or give --follow"));
    }
    if (got.ok()) got = files.Fetch([](const StoredFile&) { return true; });
    const bool ended = now.ok() && now->ended;
    const bool may_pass = got.ok() || WorthTryingAgain(got) || absl::IsDataLoss(got);
    if (!options.follow || ended || !may_pass) {
      if (!got.ok() || !options.remove) return got;
      if (ended) return files.Clear();
      return absl::FailedPreconditionError(
          "the files are fetched and not removed: the run has not come to an end");
    }
    const Timer waited(Clock::Real());
    while (waited.Elapsed() < kFollowPeriod) {
      if (options.interrupted()) return absl::OkStatus();
      absl::SleepFor(kStopPeriod);
    }
  }
}

}  // namespace ding
