#include "ding_worker/worker/parallel_run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/file_journal.h"
#include "ding_worker/coordinator/journal.h"
#include "ding_worker/coordinator/recovery.h"
#include "ding_worker/coordinator/store_journal.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/parallel_setup.h"
#include "ding_worker/worker/paths.h"
#include "ding_worker/worker/resume.h"
#include "ding_worker/worker/run_folder.h"
#include "ding_worker/worker/run_memory.h"
#include "ding_worker/worker/run_result.h"
#include "ding_worker/worker/status_text.h"
#include "ding_worker/worker/text_config.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

// Pause between two checks for interrupts and processes, with an update of the status line.
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(50);
// Time for workers to end their tasks (a learner saves a checkpoint) and leave.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(20);
// How long to retry while the address of a resumed run is taken: its last coordinator may be
// ending.
constexpr absl::Duration kListenPatience = absl::Seconds(5);
constexpr absl::Duration kListenRetry = absl::Milliseconds(20);
// How long to wait at the end of the run for a store that is away, such as a Redis that is being
// restarted.
constexpr absl::Duration kStorePatience = absl::Seconds(15);
constexpr absl::Duration kStoreRetry = absl::Milliseconds(200);
constexpr char kProcess[] = "coordinator";
constexpr char kFolder[] = "coordinator";
constexpr char kInfoName[] = "coordinator/run.textproto";
constexpr char kAddressName[] = "coordinator/address";
constexpr char kJournalName[] = "coordinator/journal";
constexpr char kSavedFolder[] = "coordinator/saved";
constexpr char kSavedName[] = "coordinator/saved.textproto";
constexpr char kResultName[] = "result.json";
constexpr char kConfigName[] = "total_config.textproto";
constexpr size_t kMaxNameBytes = 100;
// Keys in the store.
constexpr char kStoredInfo[] = "run/info";
constexpr char kStoredConfig[] = "run/config";

std::string PrintText(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

// Calls `act`, repeatedly for as long as the store is away.
absl::Status WhenStoreIsThere(const std::function<absl::Status()>& act) {
  const Timer waited(Clock::Real());
  while (true) {
    absl::Status done = act();
    if (!absl::IsUnavailable(done) || waited.Elapsed() > kStorePatience) return done;
    absl::SleepFor(kStoreRetry);
  }
}

// A readable name that is unique on this machine. It becomes a part of URLs and of names of
// folders.
std::string RunName(const std::string& exp_dir) {
  std::string name(Basename(exp_dir).substr(0, kMaxNameBytes));
  for (char& c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (!plain && c != '.') c = '_';
  }
  return absl::StrCat(name, "-", absl::ToUnixMicros(Clock::Real()->Now()), "-", getpid());
}

// The command that resumes the run in `exp_dir`.
std::string ResumeCommand(const std::string& exp_dir) {
  return absl::StrCat("parallel --resume --exp_dir=", ShellWord(exp_dir));
}

// Describes to people where the data are from which a run can continue.
std::string PlaceOf(const ParallelRunInfo& info) {
  return info.memory().empty()
             ? info.store_url()
             : absl::StrCat(info.memory(),
                            ", memory of this machine, which is lost when it goes "
                            "down; to give them up: rm -r ",
                            ShellWord(info.memory()));
}

absl::StatusOr<SavedRun> ReadSaved(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, kSavedName);
  DING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  SavedRun saved;
  if (google::protobuf::TextFormat::ParseFromString(text, &saved)) return saved;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

// The folder for the stores of runs whose config names none.
std::string MemoryBase() { return absl::StrCat("/dev/shm/ding_worker-", geteuid()); }

// The URL of `base` with the folder `run` appended.
std::string StoreUrl(const std::string& base, const std::string& run) {
  const size_t settings = base.find('?');
  return settings == std::string::npos
             ? absl::StrCat(base, "/", run)
             : absl::StrCat(base.substr(0, settings), "/", run, base.substr(settings));
}

// The parts of one run, in the order in which they are made.
class Run {
 public:
  Run(const ExperimentConfig& config, const ParallelRunOptions& options)
      : config_(config),
        options_(options),
        resume_(options.resume ||
                (options.again && PathExists(JoinPath(options.exp_dir, kInfoName)))) {}

  absl::Status Start(Transport* transport);
  // Removes the folder of a run that could not start, since it holds nothing yet. The folder of a
  // run that was to be resumed stays as it is.
  void GiveUp();
  // Waits until the run is over. Returns the reason if it is an error.
  absl::Status Watch();
  // Lets the workers leave, and cleans up.
  void Finish();
  // Returns the result, and writes it to the folder.
  absl::StatusOr<std::string> WriteResult();
  // The status for ParallelOutcome; valid after Finish().
  const absl::Status& saved() const { return saved_; }

 private:
  absl::Status OpenFolder();
  void NameRun();
  absl::Status MakeStore();
  absl::Status OpenStore();
  absl::Status OpenJournal();
  // Writes the description of the run for those who have access to the store, but not to the
  // folder.
  absl::Status DescribeInStore() const;
  absl::Status Listen(Transport* transport, const std::string& config_text);
  void EndWorkers();
  // Makes sure that what the run needs to continue is still there after this process has ended.
  // `goes_on` says whether this is wanted at all.
  absl::Status SaveAll(bool goes_on, const absl::Status& journal);
  void KeepStore();
  bool journal_is_in_store() const {
    return config_.system().coordinator().journal() == JOURNAL_IN_STORE;
  }
  // Copies the store's values that the journal refers to into the folder, and back, for a run that
  // is resumed later.
  absl::Status SaveValues() const;
  absl::Status RestoreValues() const;
  void LogRows() const;

  const ExperimentConfig& config_;
  const ParallelRunOptions& options_;
  const bool resume_;
  std::unique_ptr<RunFolder> folder_;
  ParallelRunInfo info_;
  std::unique_ptr<RunMemory> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Journal> journal_;
  absl::Status saved_;
  bool gives_up_ = false;     // the run could not start
  bool keeps_store_ = false;  // for a resumed run, or for another coordinator
  std::unique_ptr<CommCoordinator> comm_;
  CoordinatorParts parts_;
};

absl::Status Run::Start(Transport* transport) {
  const std::string config_text = PrintTextConfig(config_);
  DING_RETURN_IF_ERROR(OpenFolder());
  DING_RETURN_IF_ERROR(folder_->WriteText(kConfigName, config_text));
  // This is written first, so that everything made from here on can be found when the run is
  // resumed.
  DING_RETURN_IF_ERROR(folder_->WriteText(kInfoName, PrintText(info_)));
  DING_RETURN_IF_ERROR(resume_ ? OpenStore() : MakeStore());
  DING_RETURN_IF_ERROR(OpenJournal());
  if (resume_) DING_RETURN_IF_ERROR(RestoreValues());
  DING_RETURN_IF_ERROR(Listen(transport, config_text));
  ComponentDeps deps;
  deps.metrics = folder_->metrics();
  deps.exp_dir = folder_->path();
  deps.seed = config_.seed();
  // A person who resumes a stopped run wants it to continue.
  const bool by_hand = options_.resume && !options_.again;
  DING_ASSIGN_OR_RETURN(parts_, MakeCoordinator(config_, info_.run(), deps, store_.get(),
                                                comm_.get(), journal_.get(), by_hand));
  parts_.coordinator->Start();
  DING_RETURN_IF_ERROR(comm_->Start(parts_.coordinator.get()));
  DING_RETURN_IF_ERROR(folder_->WriteText(kAddressName, comm_->address()));
  std::fprintf(stderr, "run folder: %s\ncoordinator: %s\n", folder_->path().c_str(),
               comm_->address().c_str());
  return absl::OkStatus();
}

absl::Status Run::OpenFolder() {
  if (!resume_) {
    const bool made = options_.again && PathExists(options_.exp_dir);
    DING_ASSIGN_OR_RETURN(
        folder_,
        made ? RunFolder::Continue(options_.exp_dir, kProcess, Clock::Real())
             : RunFolder::Create(options_.exp_dir, config_.exp_name(), kProcess, Clock::Real()));
    NameRun();
    return CreateDirectories(JoinPath(folder_->path(), kFolder));
  }
  DING_ASSIGN_OR_RETURN(info_, ReadRunInfo(options_.exp_dir));
  DING_ASSIGN_OR_RETURN(const std::string saved_text, ReadRunConfig(options_.exp_dir));
  DING_ASSIGN_OR_RETURN(const ExperimentConfig saved,
                        ParseExperimentConfig(saved_text, "the run's config", {}));
  DING_RETURN_IF_ERROR(CheckSameExperiment(saved, config_));
  DING_ASSIGN_OR_RETURN(folder_, RunFolder::Continue(options_.exp_dir, kProcess, Clock::Real()));
  return absl::OkStatus();
}

absl::Status Run::Listen(Transport* transport, const std::string& config_text) {
  CommCoordinator::Options comm;
  comm.address = options_.listen;
  comm.welcome.set_run(info_.run());
  comm.welcome.set_config(config_text);
  comm.welcome.set_store_url(info_.store_url());
  comm.welcome.set_exp_dir(folder_->path());
  comm.welcome.set_lease_seconds(config_.system().coordinator().lease_seconds());
  comm.welcome.set_rejoin_seconds(config_.system().coordinator().rejoin_seconds());
  comm.config_digest = ConfigDigest(config_);
  comm.session.lease = absl::Seconds(config_.system().coordinator().lease_seconds());
  comm.report = [](const std::string& what) { LOG(WARNING) << what; };
  const absl::StatusOr<std::string> before = ReadRunAddress(folder_->path());
  if (options_.as_before && before.ok()) comm.address = *before;
  const Timer waited(Clock::Real());
  while (true) {
    absl::StatusOr<std::unique_ptr<CommCoordinator>> made =
        CommCoordinator::Create(comm, transport);
    if (made.ok()) {
      comm_ = *std::move(made);
      return absl::OkStatus();
    }
    const bool taken = (options_.resume || options_.again) && absl::IsAlreadyExists(made.status());
    if (!taken || waited.Elapsed() >= kListenPatience) return made.status();
    absl::SleepFor(kListenRetry);
  }
}

void Run::GiveUp() {
  if (resume_) {
    if (memory_ != nullptr) memory_->Keep();
    return;
  }
  gives_up_ = true;
  Finish();
  if (folder_ == nullptr) return;
  const std::string path = folder_->path();
  folder_.reset();
  const absl::Status removed = RemoveRecursively(path);
  if (!removed.ok()) LOG(WARNING) << removed.message();
}

void Run::NameRun() {
  info_.set_run(RunName(folder_->path()));
  if (config_.system().store_url().empty()) {
    info_.set_memory(JoinPath(MemoryBase(), info_.run()));
    info_.set_store_url(absl::StrCat("file:", info_.memory()));
  } else {
    info_.set_store_url(StoreUrl(config_.system().store_url(), info_.run()));
  }
}

absl::Status Run::MakeStore() {
  if (!info_.memory().empty()) {
    for (const std::string& dead : RemoveDeadRuns(MemoryBase())) {
      LOG(WARNING) << "removed what run " << dead << ", which was killed, left in " << MemoryBase();
    }
    DING_ASSIGN_OR_RETURN(memory_, RunMemory::Create(MemoryBase(), info_.run()));
  }
  DING_ASSIGN_OR_RETURN(store_, create_store(info_.store_url()));
  return absl::OkStatus();
}

absl::Status Run::OpenStore() {
  if (!info_.memory().empty()) {
    DING_ASSIGN_OR_RETURN(memory_, RunMemory::Reopen(MemoryBase(), info_.run()));
  }
  DING_ASSIGN_OR_RETURN(store_, create_store(info_.store_url()));
  return absl::OkStatus();
}

absl::Status Run::OpenJournal() {
  if (!journal_is_in_store()) {
    DING_ASSIGN_OR_RETURN(journal_, FileJournal::Open({JoinPath(folder_->path(), kJournalName)}));
    return absl::OkStatus();
  }
  StoreJournal::Options journal;
  journal.store = store_.get();
  // A coordinator that was killed before it listened had not promised anything to anybody.
  journal.must_exist = options_.resume || ReadRunAddress(folder_->path()).ok();
  DING_ASSIGN_OR_RETURN(journal_, StoreJournal::Open(journal));
  return DescribeInStore();
}

absl::Status Run::DescribeInStore() const {
  DING_RETURN_IF_ERROR(store_->Put(kStoredInfo, {absl::string_view(PrintText(info_))}));
  return store_->Put(kStoredConfig, {absl::string_view(PrintTextConfig(config_))});
}

absl::Status Run::SaveValues() const {
  const std::string folder = JoinPath(folder_->path(), kSavedFolder);
  DING_RETURN_IF_ERROR(RemoveRecursively(JoinPath(folder_->path(), kSavedName)));
  DING_RETURN_IF_ERROR(RemoveRecursively(folder));
  DING_RETURN_IF_ERROR(CreateDirectories(folder));
  // The store is opened by its path, since not every path can be part of a URL.
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved, FileStore::Create(folder));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, LiveKeys(*journal_));
  SavedRun manifest;
  std::string value;
  for (const std::string& key : keys) {
    const absl::Status read = store_->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before.
    if (absl::IsDataLoss(read)) {
      LOG(WARNING) << "a chunk is damaged and not saved: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    const auto bytes = static_cast<int64_t>(value.size());
    if (manifest.bytes() + bytes > config_.resume().max_replay_bytes()) {
      manifest.set_left_out(manifest.left_out() + 1);
      continue;
    }
    DING_RETURN_IF_ERROR(saved->Put(key, {absl::string_view(value)}));
    manifest.set_values(manifest.values() + 1);
    manifest.set_bytes(manifest.bytes() + bytes);
  }
  LOG_IF(WARNING, manifest.left_out() > 0)
      << manifest.left_out() << " chunks are left out of what is saved, which has "
      << manifest.bytes() << " bytes of the " << config_.resume().max_replay_bytes()
      << " of resume.max_replay_bytes: a run that goes on from here lacks their rows";
  return folder_->WriteText(kSavedName, PrintText(manifest));
}

// Copies back the saved values that the store does not have: all of them after an orderly end, and
// some of them if an earlier copy was interrupted.
absl::Status Run::RestoreValues() const {
  if (!PathExists(JoinPath(folder_->path(), kSavedName))) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> listed, store_->List(""));
  const std::unordered_set<std::string> present(listed.begin(), listed.end());
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved,
                        FileStore::Create(JoinPath(folder_->path(), kSavedFolder)));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, LiveKeys(*journal_));
  std::string value;
  for (const std::string& key : keys) {
    if (present.count(key) > 0) continue;
    const absl::Status read = saved->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before, or left out.
    if (absl::IsDataLoss(read)) {
      LOG(WARNING) << "a saved chunk is damaged and left out: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    DING_RETURN_IF_ERROR(store_->Put(key, {absl::string_view(value)}));
  }
  return absl::OkStatus();
}

absl::Status Run::Watch() {
  ProgressOptions progress_options = ProgressTo(stderr);
  progress_options.start = ProgressOf(parts_.coordinator->status());
  if (config_.max_env_step() > 0) progress_options.max_env_step = config_.max_env_step();
  if (config_.max_train_iter() > 0) progress_options.max_train_iter = config_.max_train_iter();
  Progress progress(progress_options);
  while (!options_.interrupted()) {
    const absl::Status done = parts_.coordinator->WaitUntilDone(kWatchPeriod);
    progress.Update(ProgressOf(parts_.coordinator->status()));
    if (!absl::IsDeadlineExceeded(done)) return done;
  }
  return absl::OkStatus();
}

void Run::Finish() {
  if (parts_.coordinator != nullptr) EndWorkers();
  const absl::Status cleared = store_ == nullptr || keeps_store_
                                   ? absl::OkStatus()
                                   : WhenStoreIsThere([this] { return store_->Clear(); });
  if (!cleared.ok()) LOG(WARNING) << "the store is not clean: " << cleared.message();
  if (folder_ == nullptr) return;
  const absl::Status logs = folder_->FlushLogs();
  if (!logs.ok()) LOG(WARNING) << "some of the logs could not be written: " << logs.message();
}

void Run::EndWorkers() {
  parts_.coordinator->RequestEnd("the run is over");
  if (!comm_->WaitForWorkersToLeave(kLeaveTimeout)) {
    LOG(WARNING) << "some workers have not left within " << absl::FormatDuration(kLeaveTimeout);
  }
  comm_->Close("the run is over");
  LogRows();
  const absl::Status kept = WhenStoreIsThere([this] { return parts_.coordinator->CloseJournal(); });
  // A run that has converged is not continued.
  const bool goes_on =
      absl::IsAborted(kept) || (!gives_up_ && !parts_.coordinator->status().converged());
  saved_ = SaveAll(goes_on, kept);
  const absl::Status closed = parts_.coordinator->Close("the run is over");
  if (!closed.ok()) LOG(WARNING) << "some data are not deleted: " << closed.message();
}

void Run::KeepStore() {
  keeps_store_ = true;
  parts_.coordinator->KeepData();
  if (memory_ == nullptr) return;
  memory_->Keep();
  const absl::Status kept = KeepRunMemory(memory_->path());
  if (!kept.ok()) LOG(WARNING) << kept.message();
}

absl::Status Run::SaveAll(bool goes_on, const absl::Status& journal) {
  if (gives_up_ && !goes_on) return absl::OkStatus();
  absl::Status status = journal;
  const std::string& exp_dir = folder_->path();
  if (!goes_on) {
    SavedRun nothing;
    nothing.set_converged(true);
    const absl::Status noted = folder_->WriteText(kSavedName, PrintText(nothing));
    if (!noted.ok()) LOG(WARNING) << "not noted that the run has converged: " << noted.message();
    return absl::OkStatus();
  }
  if (journal_is_in_store()) {
    KeepStore();
    // The store may have lost the description.
    if (status.ok()) status = WhenStoreIsThere([this] { return DescribeInStore(); });
    LOG(INFO) << "journal, chunks and policies stay in " << info_.store_url()
              << ", for a run that goes on";
    if (status.ok() || absl::IsAborted(status)) return absl::OkStatus();
    return Annotate(status, absl::StrCat("what the run needs to go on may not be complete in ",
                                         info_.store_url()));
  }
  if (status.ok()) status = WhenStoreIsThere([this] { return SaveValues(); });
  if (status.ok()) return status;
  if (!PathExists(JoinPath(exp_dir, kJournalName))) {
    LOG(WARNING) << "the run cannot go on, and its data go: '" << JoinPath(exp_dir, kJournalName)
                 << "', which says what they are, was removed";
    return absl::OkStatus();
  }
  KeepStore();
  // An incomplete copy is useless, and takes up space that the rest of the folder may need.
  const absl::Status removed = RemoveRecursively(JoinPath(exp_dir, kSavedFolder));
  if (!removed.ok()) LOG(WARNING) << removed.message();
  return Annotate(
      status,
      absl::StrCat("the data of this run are not saved; they stay in ", PlaceOf(info_),
                   ". When what follows is mended, go on with them by: ", ResumeCommand(exp_dir)));
}

// Logs that no acknowledged row is lost: each is in the buffer, or has left it by its rules.
void Run::LogRows() const {
  const Coordinator::Counters counters = parts_.coordinator->counters();
  LOG(INFO) << "rows: " << counters.rows_pushed << " pushed, " << counters.rows_acknowledged
            << " acknowledged";
  const RunStatus status = parts_.coordinator->status();
  for (const BufferStatus& buffer : status.buffer()) {
    LOG(INFO) << buffer.buffer_id() << ": " << buffer.push_count() << " rows pushed, "
              << buffer.count() << " in it, " << buffer.removed_count() << " evicted, "
              << buffer.lost_count() << " lost";
  }
}

absl::StatusOr<std::string> Run::WriteResult() {
  const RunStatus status = parts_.coordinator->status();
  RunResult result;
  result.stop = status.converged();
  result.env_step = status.envstep();
  result.train_iter = status.train_iter();
  if (status.has_eval_value()) result.eval_value = status.eval_value();
  result.eval_value_raw.assign(status.eval_return().begin(), status.eval_return().end());
  result.wall_seconds = status.elapsed_seconds();  // includes the time under earlier coordinators
  if (status.has_collecting_seconds()) result.collecting_seconds = status.collecting_seconds();
  result.finish_time = Clock::Real()->Now();
  std::string json = ToJson(result);
  DING_RETURN_IF_ERROR(folder_->WriteText(kResultName, absl::StrCat(json, "\n")));
  return json;
}

// Returns the result of the run in `exp_dir` if the run has converged, and thus deleted its data.
absl::StatusOr<std::optional<std::string>> ResultOfConverged(const ExperimentConfig& config,
                                                             const std::string& exp_dir) {
  const absl::StatusOr<SavedRun> saved = ReadSaved(exp_dir);
  const absl::StatusOr<std::string> result = ReadFile(ResultPath(exp_dir));
  if (!saved.ok() || !saved->converged() || !result.ok()) return std::nullopt;
  DING_ASSIGN_OR_RETURN(const std::string text, ReadRunConfig(exp_dir));
  DING_ASSIGN_OR_RETURN(const ExperimentConfig before,
                        ParseExperimentConfig(text, "the run's config", {}));
  DING_RETURN_IF_ERROR(CheckSameExperiment(before, config));
  if (config.env().stop_value() > before.env().stop_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run in '", exp_dir, "' had converged, at env.stop_value ", before.env().stop_value(),
        ", and let its rows go: it cannot go on to ", config.env().stop_value(),
        ". A new run learns on from its policy with --set policy.learn.learner.hook."
        "load_ckpt_before_run=",
        ShellWord(JoinPath(exp_dir, "ckpt/learner_resume"))));
  }
  LOG(WARNING)
      << "the run in '" << exp_dir
      << "' had converged and let its rows go: there is nothing to go on with, and this is "
         "its result";
  return std::string(absl::StripTrailingAsciiWhitespace(*result));
}

}  // namespace

std::string ResultPath(const std::string& exp_dir) { return JoinPath(exp_dir, kResultName); }

absl::StatusOr<std::string> SettleDeadRun(const std::string& exp_dir) {
  if (!PathExists(JoinPath(exp_dir, kInfoName))) return "";  // The run had not begun.
  DING_ASSIGN_OR_RETURN(const ParallelRunInfo info, ReadRunInfo(exp_dir));
  const std::string how = absl::StrCat("; go on with them by: ", ResumeCommand(exp_dir));
  const bool in_memory = !info.memory().empty();
  if (in_memory && (!PathExists(info.memory()) || IsKeptRunMemory(info.memory()))) return "";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(info.store_url()));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(""));
  if (keys.empty()) {
    DING_RETURN_IF_ERROR(in_memory ? RemoveRunMemory(info.memory()) : store->Clear());
    return "";
  }
  if (in_memory) DING_RETURN_IF_ERROR(KeepRunMemory(info.memory()));
  return absl::StrCat("the data of this run stay in ", PlaceOf(info), how);
}

absl::StatusOr<std::string> ReadRunConfig(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, kConfigName));
}

absl::StatusOr<std::string> ReadRunAddress(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, kAddressName));
}

absl::StatusOr<ParallelRunInfo> ReadRunInfo(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, kInfoName);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(absl::StrCat("there is no parallel run to go on with in '", exp_dir,
                                            "': ", text.status().message()));
  }
  ParallelRunInfo info;
  if (google::protobuf::TextFormat::ParseFromString(*text, &info)) return info;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

absl::Status AdoptRun(const std::string& store_url, const std::string& exp_dir) {
  if (PathExists(JoinPath(exp_dir, kInfoName))) return absl::OkStatus();
  if (PathExists(exp_dir)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", exp_dir, "' is there, and no run: expected a new folder for the run of ", store_url));
  }
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(store_url));
  std::string info_text;
  std::string config_text;
  const std::string what = absl::StrCat("there is no run to go on with in ", store_url);
  DING_RETURN_IF_ERROR(Annotate(store->Get(kStoredInfo, &info_text), what));
  DING_RETURN_IF_ERROR(Annotate(store->Get(kStoredConfig, &config_text), what));
  ParallelRunInfo info;
  if (!google::protobuf::TextFormat::ParseFromString(info_text, &info)) {
    return absl::DataLossError(absl::StrCat("'", kStoredInfo, "' in ", store_url, " is damaged"));
  }
  info.set_store_url(store_url);  // the address as this machine reaches it
  DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(exp_dir, kFolder)));
  DING_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(exp_dir, kConfigName), config_text));
  return WriteFileAtomically(JoinPath(exp_dir, kInfoName), PrintText(info));
}

absl::StatusOr<ParallelOutcome> RunParallel(const ExperimentConfig& config,
                                            const ParallelRunOptions& options,
                                            Transport* transport) {
  ParallelOutcome outcome;
  if (options.resume && !options.again) {
    DING_ASSIGN_OR_RETURN(const std::optional<std::string> result,
                          ResultOfConverged(config, options.exp_dir));
    if (result.has_value()) {
      outcome.result = *result;
      return outcome;
    }
  }
  Run run(config, options);
  const absl::Status started = run.Start(transport);
  if (!started.ok()) {
    run.GiveUp();
    return started;
  }
  const absl::Status status = run.Watch();
  if (!status.ok()) LOG(INFO) << "the run failed: " << status.message();
  run.Finish();
  outcome.saved = run.saved();
  // The error that ended the run comes first, but it must not hide that the data are still there.
  if (!status.ok()) {
    if (!outcome.saved.ok()) LOG(ERROR) << outcome.saved.message();
    return status;
  }
  absl::StatusOr<std::string> result = run.WriteResult();
  if (result.ok()) {
    outcome.result = *std::move(result);
  } else if (outcome.saved.ok()) {
    return result.status();
  } else {
    outcome.saved = Annotate(result.status(), outcome.saved.message());
  }
  return outcome;
}

}  // namespace ding
