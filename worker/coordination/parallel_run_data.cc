#include "ding_worker/worker/coordination/parallel_run_data.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"
#include "ding_worker/worker/coordination/run_files.h"
#include "ding_worker/worker/coordination/stored_file.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/run_folder/run_folder.h"

namespace ding {
namespace {

// The name of the coordinator's logs.
constexpr char kProcess[] = "coordinator";
// The journal in the folder of a store, which has no key of this form.
constexpr char kJournalInFolder[] = ".journal";

// At an orderly end, copies the values of the run's store (chunks and policies) that its journal
// refers to into the run's folder, in place of what was saved there before; no other process of the
// run may work meanwhile. Values that `store` has lost or that are damaged are not saved, and
// neither are those with which the copy would have more than `max_bytes`; both are logged. After an
// error, such as of a full disk, the copy is incomplete and is not read again.
absl::Status SaveValues(const Journal& journal, int64_t max_bytes, Store* store,
                        const RunFolder& folder) {
  const std::string saved_path = JoinPath(folder.path(), run_files::kSavedFolder);
  DING_RETURN_IF_ERROR(RemoveRecursively(JoinPath(folder.path(), run_files::kSaved)));
  DING_RETURN_IF_ERROR(RemoveRecursively(saved_path));
  DING_RETURN_IF_ERROR(CreateDirectories(saved_path));
  // The store is opened by its path, since not every path can be part of a URL.
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved, FileStore::Create(saved_path));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, journal.LiveKeys());
  SavedRun manifest;
  std::string value;
  for (const std::string& key : keys) {
    const absl::Status read = store->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before.
    if (absl::IsDataLoss(read)) {
      DING_LOG(WARNING) << "a chunk is damaged and not saved: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    const auto bytes = static_cast<int64_t>(value.size());
    if (manifest.bytes() + bytes > max_bytes) {
      manifest.set_left_out(manifest.left_out() + 1);
      continue;
    }
    DING_RETURN_IF_ERROR(saved->Put(key, {absl::string_view(value)}));
    manifest.set_values(manifest.values() + 1);
    manifest.set_bytes(manifest.bytes() + bytes);
  }
  DING_LOG_IF(WARNING, manifest.left_out() > 0)
      << manifest.left_out() << " chunks are not saved: the others have " << manifest.bytes()
      << " bytes, and resume.max_replay_bytes allows " << max_bytes
      << "; a run that continues from here lacks their rows";
  return folder.WriteText(run_files::kSaved, PrintRunFile(manifest));
}

// When the run is resumed, copies back the saved values that `store` does not have: all of them
// after an orderly end, and some of them if an earlier copy was interrupted. OK if the run has not
// come to an orderly end.
absl::Status RestoreValues(const Journal& journal, const RunFolder& folder, Store* store) {
  if (!PathExists(JoinPath(folder.path(), run_files::kSaved))) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> listed, store->List(""));
  const std::unordered_set<std::string> present(listed.begin(), listed.end());
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved,
                        FileStore::Create(JoinPath(folder.path(), run_files::kSavedFolder)));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, journal.LiveKeys());
  std::string value;
  for (const std::string& key : keys) {
    if (present.count(key) > 0) continue;
    const absl::Status read = saved->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before, or left out.
    if (absl::IsDataLoss(read)) {
      DING_LOG(WARNING) << "a saved chunk is damaged and left out: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    DING_RETURN_IF_ERROR(store->Put(key, {absl::string_view(value)}));
  }
  return absl::OkStatus();
}

LogSync SyncOf(CoordinatorConfig::JournalSync sync) {
  return sync == CoordinatorConfig::NONE    ? LogSync::kNone
         : sync == CoordinatorConfig::EVERY ? LogSync::kEvery
                                            : LogSync::kPeriodic;
}

// Returns the config of the run in `exp_dir`. kInvalidArgument: `config` is that of another run.
absl::StatusOr<ExperimentConfig> ReadSameExperiment(const ExperimentConfig& config,
                                                    const std::string& exp_dir) {
  DING_ASSIGN_OR_RETURN(const std::string text, ReadRunConfig(exp_dir));
  DING_ASSIGN_OR_RETURN(ExperimentConfig saved,
                        ParseExperimentConfig(text, "the run's config", {}));
  DING_RETURN_IF_ERROR(CheckSameExperiment(saved, config));
  return saved;
}

}  // namespace

ParallelRunData::ParallelRunData(const ExperimentConfig& config, const Options& options)
    : config_(config),
      options_(options),
      resume_(options.resume ||
              (options.again && PathExists(JoinPath(options.exp_dir, run_files::kInfo)))) {}

absl::Status ParallelRunData::Open() {
  DING_RETURN_IF_ERROR(OpenFolder());
  DING_RETURN_IF_ERROR(folder_->WriteText(run_files::kConfig, PrintTextConfig(config_)));
  // This is written first, so that everything made from here on can be found when the run is
  // resumed.
  DING_RETURN_IF_ERROR(folder_->WriteText(run_files::kInfo, PrintRunFile(info_)));
  DING_RETURN_IF_ERROR(resume_ ? OpenStore() : MakeStore());
  DING_RETURN_IF_ERROR(OpenJournal());
  if (files_ != nullptr) DING_RETURN_IF_ERROR(files_->Start());
  return resume_ ? RestoreValues(*journal_, *folder_, store_.get()) : absl::OkStatus();
}

absl::Status ParallelRunData::OpenFolder() {
  if (!resume_) {
    const bool made = options_.again && PathExists(options_.exp_dir);
    DING_ASSIGN_OR_RETURN(
        folder_,
        made ? RunFolder::Continue(options_.exp_dir, kProcess, Clock::Real())
             : RunFolder::Create(options_.exp_dir, config_.exp_name(), kProcess, Clock::Real()));
    info_ = NameRun(folder_->path(), config_.system().store_url());
    if (FilesAreInStore(config_)) DING_RETURN_IF_ERROR(OpenFiles(folder_->path()));
    return CreateDirectories(JoinPath(folder_->path(), run_files::kCoordinatorFolder));
  }
  DING_ASSIGN_OR_RETURN(info_, ReadRunInfo(options_.exp_dir));
  DING_RETURN_IF_ERROR(ReadSameExperiment(config_, options_.exp_dir).status());
  if (config_.system().lockstep()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run in '", options_.exp_dir,
                     "' was in lockstep (system.lockstep) and cannot go on "
                     "exactly: expected a new run with the same seed, which gives the same"));
  }
  // The logs are continued, so they are brought here first.
  if (FilesAreInStore(config_)) DING_RETURN_IF_ERROR(OpenFiles(options_.exp_dir));
  DING_ASSIGN_OR_RETURN(folder_, RunFolder::Continue(options_.exp_dir, kProcess, Clock::Real()));
  return absl::OkStatus();
}

// Brings what the run needs to continue to `exp_dir`, and claims the files of the run.
absl::Status ParallelRunData::OpenFiles(const std::string& exp_dir) {
  const auto open = [&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store,
                          create_store(RunFilesUrl(info_.store_url())));
    files_ = std::make_unique<RunFiles>(std::move(store), exp_dir, kProcess);
    DING_ASSIGN_OR_RETURN(const RunFiles::Owner owner, files_->ReadOwner());
    // If another folder went on with the run since, its coordinator's files are newer.
    const bool is_last = options_.again || owner.opening == info_.opening();
    const absl::Status fetched = files_->Fetch([&](const StoredFile& file) {
      if (file.writer() == kProcess) return !is_last && file.path() != run_files::kAddress;
      return !options_.again || Basename(file.path()) == kResumeCheckpoint;
    });
    if (WorthTryingAgain(fetched)) return fetched;
    DING_LOG_IF(WARNING, !fetched.ok())
        << "the run goes on without some of its files: " << fetched.message();
    if (!options_.again || info_.opening().empty()) info_.set_opening(NewBlobName());
    return files_->Lead(info_.opening());
  };
  return options_.again ? RetryWhileStoreIsAway(open) : open();
}

absl::Status ParallelRunData::FinishFiles(const std::function<bool()>& stop) {
  if (files_ == nullptr) return absl::OkStatus();
  folder_->FlushLogs().IgnoreError();  // Clear() has reported it.
  DING_RETURN_IF_ERROR(files_->Finish(stop));
  const absl::Status fetched =
      files_->Fetch([](const StoredFile& file) { return file.writer() != kProcess; });
  DING_LOG_IF(WARNING, !fetched.ok()) << "some files of the run are in the store, and not in '"
                                      << folder_->path() << "': " << fetched.message();
  return absl::OkStatus();
}

absl::Status ParallelRunData::MakeStore() {
  if (!info_.memory().empty()) {
    for (const std::string& dead : RemoveDeadRuns(RunMemoryBase())) {
      DING_LOG(WARNING) << "removed what run " << dead << ", which was killed, left in "
                        << RunMemoryBase();
    }
    DING_ASSIGN_OR_RETURN(memory_, RunMemory::Create(RunMemoryBase(), info_.run()));
  }
  DING_ASSIGN_OR_RETURN(store_, create_store(info_.store_url()));
  return absl::OkStatus();
}

absl::Status ParallelRunData::OpenStore() {
  if (!info_.memory().empty()) {
    DING_ASSIGN_OR_RETURN(memory_, RunMemory::Reopen(RunMemoryBase(), info_.run()));
  }
  const auto open = [this]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(store_, create_store(info_.store_url()));
    return absl::OkStatus();
  };
  // A person who resumes the run wants to know at once. A coordinator that dies is only started
  // again.
  return options_.again ? RetryWhileStoreIsAway(open) : open();
}

absl::Status ParallelRunData::OpenJournal() {
  LogOptions options;
  options.run = info_.run();
  options.sync = SyncOf(config_.system().coordinator().journal_sync());
  absl::StatusOr<std::unique_ptr<Log>> log;
  if (journal_is_in_store()) {
    // A coordinator that was killed before it listened had not promised anything to anybody.
    options.must_exist = options_.resume || ReadRunAddress(folder_->path()).ok();
    const std::string folder = FolderOfStore(store_->url());
    log = folder.empty() ? store_->OpenLog(options)
                         : SqliteLog::Open(JoinPath(folder, kJournalInFolder), options);
  } else {
    log = SqliteLog::Open(JoinPath(folder_->path(), run_files::kJournal), options);
  }
  DING_RETURN_IF_ERROR(log.status());
  DING_ASSIGN_OR_RETURN(journal_, Journal::Open(*std::move(log)));
  return journal_is_in_store() ? PutDescription(info_, config_, store_.get()) : absl::OkStatus();
}

void ParallelRunData::NoteConverged() {
  SavedRun nothing;
  nothing.set_converged(true);
  const absl::Status noted = folder_->WriteText(run_files::kSaved, PrintRunFile(nothing));
  if (!noted.ok())
    DING_LOG(WARNING) << "cannot note that the run has converged: " << noted.message();
}

absl::Status ParallelRunData::Save(const absl::Status& journal) {
  absl::Status status = journal;
  const std::string& exp_dir = folder_->path();
  if (journal_is_in_store()) {
    KeepStore();
    // The store may have lost the description.
    if (status.ok()) {
      status =
          RetryWhileStoreIsAway([this] { return PutDescription(info_, config_, store_.get()); });
    }
    DING_LOG(INFO) << "journal, chunks and policies stay in " << info_.store_url()
                   << ", from which the run can continue";
    if (status.ok() || absl::IsAborted(status)) return absl::OkStatus();
    return Annotate(status, absl::StrCat("what the run needs to continue may be incomplete in ",
                                         info_.store_url()));
  }
  if (status.ok()) {
    status = RetryWhileStoreIsAway([this] {
      return SaveValues(*journal_, config_.resume().max_replay_bytes(), store_.get(), *folder_);
    });
  }
  if (status.ok()) return status;
  const std::string journal_path = JoinPath(exp_dir, run_files::kJournal);
  if (!PathExists(journal_path)) {
    DING_LOG(WARNING) << "the run cannot continue, and its data are deleted: '" << journal_path
                      << "', which describes them, was removed";
    return absl::OkStatus();
  }
  KeepStore();
  // An incomplete copy is useless, and takes up space that the rest of the folder may need.
  const absl::Status removed = RemoveRecursively(JoinPath(exp_dir, run_files::kSavedFolder));
  if (!removed.ok()) DING_LOG(WARNING) << removed.message();
  return Annotate(status, absl::StrCat("the data of this run are not saved; they stay in ",
                                       DescribePlace(info_),
                                       ". When the following problem is solved, continue with "
                                       "them by: ",
                                       ResumeCommand(exp_dir)));
}

void ParallelRunData::KeepStore() {
  keeps_store_ = true;
  if (memory_ == nullptr) return;
  memory_->Keep();
  const absl::Status kept = KeepRunMemory(memory_->path());
  if (!kept.ok()) DING_LOG(WARNING) << kept.message();
}

void ParallelRunData::Clear() {
  const absl::Status cleared = store_ == nullptr || keeps_store_
                                   ? absl::OkStatus()
                                   : RetryWhileStoreIsAway([this] { return store_->Clear(); });
  if (!cleared.ok()) DING_LOG(WARNING) << "the store could not be cleared: " << cleared.message();
  if (folder_ == nullptr) return;
  const absl::Status logs = folder_->FlushLogs();
  if (!logs.ok()) DING_LOG(WARNING) << "some of the logs could not be written: " << logs.message();
}

void ParallelRunData::KeepMemory() {
  if (memory_ != nullptr) memory_->Keep();
}

void ParallelRunData::RemoveFolder() {
  if (folder_ == nullptr) return;
  const std::string path = folder_->path();
  if (files_ != nullptr) {
    const absl::Status cleared = files_->Clear();
    if (!cleared.ok()) DING_LOG(WARNING) << cleared.message();
  }
  folder_.reset();
  const absl::Status removed = RemoveRecursively(path);
  if (!removed.ok()) DING_LOG(WARNING) << removed.message();
}

absl::StatusOr<std::optional<std::string>> ResultOfConvergedRun(const ExperimentConfig& config,
                                                                const std::string& exp_dir) {
  const absl::StatusOr<SavedRun> saved = ReadSavedRun(exp_dir);
  const absl::StatusOr<std::string> result = ReadFile(ResultPath(exp_dir));
  if (!saved.ok() || !saved->converged() || !result.ok()) return std::nullopt;
  DING_ASSIGN_OR_RETURN(const ExperimentConfig before, ReadSameExperiment(config, exp_dir));
  if (config.env().stop_value() > before.env().stop_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run in '", exp_dir, "' had converged, at env.stop_value ", before.env().stop_value(),
        ", and has deleted its rows: it cannot continue to ", config.env().stop_value(),
        ". A new run can start from its policy with --set policy.learn.learner.hook."
        "load_ckpt_before_run=",
        ShellWord(JoinPath(exp_dir, "ckpt/learner_resume"))));
  }
  DING_LOG(WARNING)
      << "the run in '" << exp_dir
      << "' had converged and has deleted its rows: it has nothing from which to continue, and "
         "this is its result";
  return std::string(absl::StripTrailingAsciiWhitespace(*result));
}

}  // namespace ding
