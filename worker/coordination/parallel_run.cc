#include "ding_worker/worker/coordination/parallel_run.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/learner/comm/unsaved_checkpoints.h"
#include "ding_worker/metrics/event_log.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/run_budget.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/coordination/best_checkpoints.h"
#include "ding_worker/worker/coordination/parallel_run_data.h"
#include "ding_worker/worker/coordination/parallel_run_folder.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/coordination/run_files.h"
#include "ding_worker/worker/coordination/run_memory.h"
#include "ding_worker/worker/coordination/run_status_text.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "ding_worker/worker/run_folder/run_result.h"
#include "ding_worker/worker/run_folder/save_outage.h"
#include "ding_worker/worker/setup/experiment_setup.h"

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

// How long to try to write what is left at the end. Learners take as long.
constexpr absl::Duration kEndPatience = absl::Seconds(10);

constexpr char kProcess[] = "coordinator";  // for metrics.sink

// The coordinator of one run, with its data.
class Run {
 public:
  Run(const ExperimentConfig& config, const ParallelRunOptions& options)
      : config_(config),
        options_(options),
        data_(config, {options.exp_dir, options.resume, options.again}) {}

  absl::Status Start(Transport* transport);
  // Removes the folder of a run that could not start, since it holds nothing yet. The folder of a
  // run that was to be resumed stays as it is.
  void GiveUp();
  // Waits until the run is over. Returns the reason if it is an error.
  absl::Status Watch();
  // Tells the sinks how the run ended.
  void TellSinks(const absl::Status& status);
  // Lets the workers leave, and cleans up.
  void Finish();
  // Returns the result, and writes it to the folder.
  absl::StatusOr<std::string> WriteResult();
  const std::string& exp_dir() { return data_.folder()->path(); }
  // With system.run_files: STORE, sends the last files to the store. Returns the status for
  // ParallelOutcome::saved. Call it after Finish(), when all files are written.
  absl::Status FinishFiles();

 private:
  absl::Status Listen(Transport* transport);
  void EndWorkers();
  void SaveData();
  void LogRows() const;
  // Adds to saved_ that checkpoints are not saved.
  void NoteUnsavedCheckpoints();
  // Returns a function that says when to give up trying to write.
  std::function<bool()> EndPatience() const;

  const ExperimentConfig& config_;
  const ParallelRunOptions& options_;
  ParallelRunData data_;
  std::shared_ptr<MetricSink> metrics_;  // null until the folder is open
  absl::Status saved_;
  absl::Status unsaved_checkpoints_;
  bool gives_up_ = false;  // the run could not start
  std::unique_ptr<CommCoordinator> comm_;
  CoordinatorParts parts_;
};

absl::Status Run::Start(Transport* transport) {
  DING_RETURN_IF_ERROR(data_.Open());
  DING_RETURN_IF_ERROR(Listen(transport));
  RunFolder* const folder = data_.folder();
  ComponentDeps deps;
  metrics_ = folder->metrics();
  DING_RETURN_IF_ERROR(AddSinks(config_, folder->path(), kProcess, &metrics_));
  metrics_->BeginRun(DescribeRunForSinks(config_));
  deps.metrics = metrics_;
  deps.exp_dir = folder->path();
  deps.seed = config_.seed();
  // A person who resumes a stopped run wants it to continue.
  const bool by_hand = options_.resume && !options_.again;
  DING_ASSIGN_OR_RETURN(parts_, MakeCoordinator(config_, data_.info().run(), deps, data_.store(),
                                                comm_.get(), data_.journal(), by_hand));
  const RunStatus status = parts_.coordinator->status();
  const bool is_new = status.incarnation() == 1;
  DING_LOG_IF(WARNING, by_hand && is_new)
      << "the run in '" << folder->path() << "' had not begun: it begins now";
  if (by_hand) {
    const std::string spent = SpentBudgets(config_, status.envstep(), status.train_iter());
    DING_LOG_IF(WARNING, !spent.empty()) << spent;
  }
  DING_LOG_EVENT(
      INFO, {EventKind::kStart, is_new ? "new" : "resumed", status.envstep(), status.train_iter()})
      << "the run " << (is_new ? "begins" : "goes on") << "; workers join at " << comm_->address();
  parts_.coordinator->Start();
  DING_RETURN_IF_ERROR(comm_->Start(parts_.coordinator.get()));
  DING_RETURN_IF_ERROR(folder->WriteText(run_files::kAddress, comm_->address()));
  std::fprintf(stderr, "run folder: %s\ncoordinator: %s\n", folder->path().c_str(),
               comm_->address().c_str());
  if (FilesAreInStore(config_)) {
    std::fprintf(stderr, "run files: %s\n", data_.info().store_url().c_str());
  }
  return absl::OkStatus();
}

absl::Status Run::Listen(Transport* transport) {
  CommCoordinator::Options comm;
  comm.address = options_.listen;
  comm.welcome.set_run(data_.info().run());
  comm.welcome.set_config(PrintTextConfig(config_));
  comm.welcome.set_store_url(data_.info().store_url());
  // Workers have folders of their own if the files of the run are in the store.
  if (!FilesAreInStore(config_)) comm.welcome.set_exp_dir(data_.folder()->path());
  comm.welcome.set_lease_seconds(config_.system().coordinator().lease_seconds());
  comm.welcome.set_rejoin_seconds(config_.system().coordinator().rejoin_seconds());
  comm.config_digest = ConfigDigest(config_);
  comm.session.lease = absl::Seconds(config_.system().coordinator().lease_seconds());
  comm.report = [](const std::string& what) {
    DING_LOG_EVENT(WARNING, {EventKind::kRefusal}) << what;
  };
  const absl::StatusOr<std::string> before = ReadRunAddress(data_.folder()->path());
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
  if (data_.is_resumed()) {
    data_.KeepMemory();
    return;
  }
  gives_up_ = true;
  Finish();
  data_.RemoveFolder();
}

absl::Status Run::Watch() {
  ProgressOptions progress_options = options_.progress;
  RunStatus status = parts_.coordinator->status();
  progress_options.start = ProgressOf(status);
  progress_options.values = [&status] { return ProgressValuesOf(status); };
  if (config_.max_env_step() > 0) progress_options.max_env_step = config_.max_env_step();
  if (config_.max_train_iter() > 0) progress_options.max_train_iter = config_.max_train_iter();
  if (config_.system().max_seconds() > 0) {
    progress_options.max_seconds = config_.system().max_seconds() - status.elapsed_seconds();
  }
  Progress progress(progress_options);
  BestCheckpoints best(config_, data_.folder()->path(), data_.store());
  options_.show(status, parts_.coordinator->stage_times());
  RunRates rates(status, /*has_env_steps=*/!IsSupervised(config_), metrics_.get());
  while (!options_.interrupted()) {
    const absl::Status done = parts_.coordinator->WaitUntilDone(kWatchPeriod);
    status = parts_.coordinator->status();
    progress.Update(ProgressOf(status));
    options_.show(status, parts_.coordinator->stage_times());
    rates.WriteIfDue(status);
    const absl::Status files = data_.FilesStatus();
    if (absl::IsDeadlineExceeded(done) && files.ok()) {
      best.Update(status);
      continue;
    }
    if (!files.ok()) {
      parts_.coordinator->RequestEnd(std::string(files.message()));
      return files;
    }
    rates.Write(status);
    unsaved_checkpoints_ = best.Finish(status, EndPatience());
    if (done.ok() && status.workers_joined() == 0) {
      return absl::UnavailableError(absl::StrCat(
          "no worker joined before the run ended (", status.end_reason(), "); they join at ",
          comm_->address(), ", and their own output says why they could not"));
    }
    return done;
  }
  parts_.coordinator->RequestEnd("it was interrupted");
  status = parts_.coordinator->status();
  rates.Write(status);
  unsaved_checkpoints_ = best.Finish(status, EndPatience());
  return absl::OkStatus();
}

void Run::NoteUnsavedCheckpoints() {
  if (!saved_.ok()) {
    saved_ = Annotate(saved_, unsaved_checkpoints_.message());
  } else if (parts_.coordinator->status().converged()) {
    saved_ = unsaved_checkpoints_;
  } else {
    saved_ = Annotate(
        unsaved_checkpoints_,
        absl::StrCat(
            "not all of the run is saved. When the following problem is solved, continue from "
            "earlier checkpoints by: ",
            ResumeCommand(exp_dir())));
  }
}

std::function<bool()> Run::EndPatience() const {
  return [this, waited = Timer(Clock::Real())] {
    return options_.interrupted() || waited.Elapsed() >= kEndPatience;
  };
}

void Run::TellSinks(const absl::Status& status) {
  const RunStatus run = parts_.coordinator->status();
  std::optional<double> eval_value;
  if (run.has_eval_value()) eval_value = run.eval_value();
  const RunEnd end = !status.ok()             ? RunEnd::kFailed
                     : options_.interrupted() ? RunEnd::kInterrupted
                                              : RunEnd::kFinished;
  metrics_->EndRun(end, run.envstep(),
                   ResultsForSinks(eval_value, run.envstep(), run.elapsed_seconds()));
  DING_LOG_EVENT(INFO, {EventKind::kEnd, std::string(NameOf(end)), run.envstep(), run.train_iter(),
                        eval_value.value_or(std::nan(""))})
      << (status.ok() ? "the run ended: " : "the run failed: ")
      << (status.ok() ? absl::string_view(run.end_reason()) : status.message());
}

void Run::Finish() {
  if (parts_.coordinator != nullptr) EndWorkers();
  if (metrics_ != nullptr) {
    const absl::Status flushed = metrics_->Flush();
    DING_LOG_IF(WARNING, !flushed.ok())
        << "some of the logs could not be written: " << flushed.message();
  }
  data_.Clear();
}

void Run::EndWorkers() {
  parts_.coordinator->RequestEnd("the run is over");
  if (!comm_->WaitForWorkersToLeave(kLeaveTimeout)) {
    DING_LOG(WARNING) << "some workers have not left within "
                      << absl::FormatDuration(kLeaveTimeout);
  }
  comm_->Close("the run is over");
  const absl::Status taken = TakeUnsaved(data_.store());
  // If the store is away, whoever saves the rows says so.
  if (absl::IsResourceExhausted(taken)) unsaved_checkpoints_.Update(taken);
  LogRows();
  SaveData();
  if (!unsaved_checkpoints_.ok()) NoteUnsavedCheckpoints();
  const absl::Status closed = parts_.coordinator->Close("the run is over");
  if (!closed.ok()) DING_LOG(WARNING) << "some data are not deleted: " << closed.message();
}

// Saves what the run needs to continue, if it is to be continued.
void Run::SaveData() {
  const absl::Status closed =
      RetryWhileStoreIsAway([this] { return parts_.coordinator->CloseJournal(); });
  if (!absl::IsAborted(closed)) {  // Otherwise another coordinator continues the run.
    if (gives_up_) return;
    if (parts_.coordinator->status().converged()) {
      data_.NoteConverged();
      return;
    }
  }
  saved_ = data_.Save(closed);
  if (data_.keeps_store()) parts_.coordinator->KeepData();
}

// Logs that no acknowledged row is lost: each is in the buffer, or has left it by its rules.
void Run::LogRows() const {
  const Coordinator::Counters counters = parts_.coordinator->counters();
  DING_LOG(INFO) << "rows: " << counters.rows_pushed << " pushed, " << counters.rows_acknowledged
                 << " acknowledged";
  const RunStatus status = parts_.coordinator->status();
  for (const BufferStatus& buffer : status.buffer()) {
    DING_LOG(INFO) << buffer.buffer_id() << ": " << buffer.push_count() << " rows pushed, "
                   << buffer.count() << " in it, " << buffer.removed_count() << " evicted, "
                   << buffer.lost_count() << " lost";
  }
}

absl::Status Run::FinishFiles() {
  const absl::Status sent = data_.FinishFiles(EndPatience());
  if (sent.ok() || saved_.ok()) return sent.ok() ? saved_ : sent;
  return Annotate(saved_, sent.message());
}

absl::StatusOr<std::string> Run::WriteResult() {
  const RunStatus status = parts_.coordinator->status();
  RunResult result;
  result.stop = status.converged();
  result.why = status.end_reason();
  if (status.has_confirmation()) {
    result.confirmation = {status.confirmation().episodes(), status.confirmation().mean(),
                           status.confirmation().standard_error()};
  }
  if (status.best_policy_size() == 1 && status.best_policy(0).name().empty()) {
    const BestPolicy& best = status.best_policy(0);
    result.best = {best.mean_return(), best.policy().train_iter(),
                   IsSupervised(config_) ? "ckpt_best_return" : "ckpt_best"};
  }
  result.env_step = status.envstep();
  result.train_iter = status.train_iter();
  if (status.has_eval_value()) result.eval_value = status.eval_value();
  result.eval_value_raw.assign(status.eval_return().begin(), status.eval_return().end());
  for (const TrainedPolicyStatus& trained : status.trained_policy()) {
    PolicyResult& policy = result.policies.emplace_back();
    policy.policy_id = trained.policy_id();
    policy.stop = trained.converged();
    policy.env_step = trained.envstep();
    policy.train_iter = trained.train_iter();
    if (trained.has_eval_value()) policy.eval_value = trained.eval_value();
    policy.eval_value_raw.assign(trained.eval_return().begin(), trained.eval_return().end());
  }
  result.wall_seconds = status.elapsed_seconds();  // includes the time under earlier coordinators
  if (status.has_collecting_seconds()) result.collecting_seconds = status.collecting_seconds();
  result.finish_time = Clock::Real()->Now();
  result.unsaved = std::string(saved_.message());
  std::string json = ToJson(result);
  const auto write = [&] {
    return data_.folder()->WriteText(run_files::kResult, absl::StrCat(json, "\n"));
  };
  DING_RETURN_IF_ERROR(SaveOutage(Clock::Real()).Wait(run_files::kResult, write, EndPatience()));
  return json;
}

}  // namespace

absl::StatusOr<ParallelOutcome> RunParallel(const ExperimentConfig& config,
                                            const ParallelRunOptions& options,
                                            Transport* transport) {
  ParallelOutcome outcome;
  if (options.resume && !options.again) {
    DING_ASSIGN_OR_RETURN(const std::optional<std::string> result,
                          ResultOfConvergedRun(config, options.exp_dir));
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
  options.began(run.exp_dir());
  outcome.exp_dir = run.exp_dir();
  const absl::Status status = run.Watch();
  run.TellSinks(status);
  run.Finish();
  // The error that ended the run comes first, but it must not hide that the data are still there.
  if (!status.ok()) {
    outcome.saved = run.FinishFiles();
    if (!outcome.saved.ok()) DING_LOG(ERROR) << outcome.saved.message();
    return status;
  }
  absl::StatusOr<std::string> result = run.WriteResult();
  outcome.saved = run.FinishFiles();
  if (result.ok()) {
    outcome.result = *std::move(result);
  } else if (outcome.saved.ok()) {
    return result.status();
  } else {
    outcome.saved = Annotate(result.status(), outcome.saved.message());
  }
  return outcome;
}

absl::Status AdoptRun(const std::string& store_url, const std::string& exp_dir) {
  if (PathExists(JoinPath(exp_dir, run_files::kInfo))) return absl::OkStatus();
  if (PathExists(exp_dir)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", exp_dir,
                     "' exists and is not the folder of a run: expected "
                     "a new folder for the run of ",
                     store_url));
  }
  absl::StatusOr<StoredDescription> found = GetDescription(store_url);
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  bool has_files = !found.ok();  // A run that has converged has nothing else in the store.
  if (found.ok()) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig config,
                          ParseExperimentConfig(found->config, "the run's config", {}));
    has_files = FilesAreInStore(config);
  }
  if (has_files) {
    const absl::Status fetched = FetchRun({store_url, exp_dir});
    const bool complete = PathExists(JoinPath(exp_dir, run_files::kInfo)) &&
                          PathExists(JoinPath(exp_dir, run_files::kConfig));
    if (WorthTryingAgain(fetched) || !complete) {
      RemoveRecursively(exp_dir).IgnoreError();
      return found.ok() ? fetched : found.status();
    }
    // The address of the last coordinator is one of its machine.
    DING_RETURN_IF_ERROR(RemoveFile(JoinPath(exp_dir, run_files::kAddress)));
    DING_ASSIGN_OR_RETURN(ParallelRunInfo info, ReadRunInfo(exp_dir));
    info.set_store_url(store_url);
    return WriteFileAtomically(JoinPath(exp_dir, run_files::kInfo), PrintRunFile(info));
  }
  StoredDescription description = *std::move(found);
  description.info.set_store_url(store_url);  // the address as this machine reaches it
  DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(exp_dir, run_files::kCoordinatorFolder)));
  DING_RETURN_IF_ERROR(
      WriteFileAtomically(JoinPath(exp_dir, run_files::kConfig), description.config));
  return WriteFileAtomically(JoinPath(exp_dir, run_files::kInfo), PrintRunFile(description.info));
}

absl::StatusOr<std::string> SettleDeadRun(const std::string& exp_dir) {
  if (!PathExists(JoinPath(exp_dir, run_files::kInfo))) return "";  // The run had not begun.
  DING_ASSIGN_OR_RETURN(const ParallelRunInfo info, ReadRunInfo(exp_dir));
  const bool in_memory = !info.memory().empty();
  if (in_memory && (!PathExists(info.memory()) || IsKeptRunMemory(info.memory()))) return "";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(info.store_url()));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(""));
  if (keys.empty()) {
    DING_RETURN_IF_ERROR(in_memory ? RemoveRunMemory(info.memory()) : store->Clear());
    return "";
  }
  if (in_memory) DING_RETURN_IF_ERROR(KeepRunMemory(info.memory()));
  return absl::StrCat("the data of this run stay in ", DescribePlace(info),
                      "; continue with them by: ", ResumeCommand(exp_dir));
}

}  // namespace ding
