#include "ding_worker/worker/run_folder/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/message_differencer.h"

namespace ding {
namespace {

constexpr int kMaxFolderNames = 100;
constexpr char kResultName[] = "result.json";
// Before the path of a file of the logs: the field with its size, in the manifest of a resume
// point.
constexpr absl::string_view kLogPrefix = "log_bytes:";
// Files by which a sink finds its run again, also if the run begins anew.
constexpr char kRunIdEnd[] = "_run_id.txt";
// When a run is killed, the processes of its envs still hold the lock of its folder for a moment,
// until they end.
constexpr absl::Duration kMaxLockWait = absl::Seconds(2);
constexpr absl::Duration kLockRetryPeriod = absl::Milliseconds(10);

// The names that a run may get, the preferred one first.
std::string FolderName(const std::string& exp_name, int number, const Clock* clock) {
  if (number == 0) return exp_name;
  const std::string stamp = absl::FormatTime("_%y%m%d_%H%M%S", clock->Now(), absl::LocalTimeZone());
  return absl::StrCat(exp_name, stamp, number == 1 ? std::string() : absl::StrCat("_", number));
}

absl::Status ExistsAlready(const std::string& exp_dir) {
  return absl::AlreadyExistsError(
      absl::StrCat("--exp_dir ", exp_dir,
                   " exists already and is not overwritten: name another folder or remove it"));
}

absl::StatusOr<std::string> MakeFolder(const std::string& exp_dir, const std::string& exp_name,
                                       const Clock* clock) {
  if (!exp_dir.empty()) {
    const absl::Status status = CreateNewDirectory(exp_dir);
    if (!absl::IsAlreadyExists(status)) {
      if (!status.ok()) return status;
      return exp_dir;
    }
    return ExistsAlready(exp_dir);
  }
  for (int i = 0; i < kMaxFolderNames; ++i) {
    const std::string path = FolderName(exp_name, i, clock);
    const absl::Status status = CreateNewDirectory(path);
    if (status.ok()) return path;
    if (!absl::IsAlreadyExists(status)) return status;
  }
  return absl::AlreadyExistsError(
      absl::StrCat("folders ", exp_name, "_<time>_<n> exist already: name one by --exp_dir"));
}

absl::StatusOr<LogSizes> MeasureFiles(const std::string& folder) {
  namespace fs = std::filesystem;
  LogSizes sizes;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const std::string path = fs::path(it->path()).lexically_relative(folder).string();
    sizes[path] = static_cast<int64_t>(it->file_size(error));
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot read '", folder, "'"));
  return sizes;
}

// Flushes the files to the disk, so that a resume point never says more than is left of them after
// a power loss.
absl::Status SyncFiles(const std::string& folder, const LogSizes& sizes) {
  for (const auto& [name, bytes] : sizes) {
    const std::string path = JoinPath(folder, name);
    DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY | O_CLOEXEC));
    if (fdatasync(file.fd()) != 0) {
      return ErrnoStatus(errno, absl::StrCat("cannot flush '", path, "' to the disk"));
    }
  }
  return absl::OkStatus();
}

absl::Status CutBackLogs(const std::string& folder, const LogSizes& sizes) {
  if (!IsDirectory(folder)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const LogSizes found, MeasureFiles(folder));
  for (const auto& [name, bytes] : found) {
    const std::string path = JoinPath(folder, name);
    const auto wanted = sizes.find(name);
    if (name == kEventsName) continue;  // What has happened is not undone.
    std::error_code error;
    if (wanted == sizes.end()) {
      if (absl::EndsWith(name, kRunIdEnd)) continue;
      std::filesystem::remove(path, error);
    } else if (bytes > wanted->second) {
      std::filesystem::resize_file(path, static_cast<uint64_t>(wanted->second), error);
    }
    if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot cut back '", path, "'"));
  }
  for (const auto& [name, bytes] : sizes) {
    const auto it = found.find(name);
    if (it != found.end() && it->second >= bytes) continue;
    DING_LOG(WARNING) << "'" << JoinPath(folder, name) << "' has "
                      << (it == found.end() ? 0 : it->second) << " bytes, expected " << bytes
                      << ": a part of the log is lost";
  }
  return absl::OkStatus();
}

// Clears the fields that may change when a run is resumed.
void ClearFieldsThatMayDiffer(ExperimentConfig* config) {
  config->clear_exp_name();
  config->clear_max_env_step();
  config->clear_max_train_iter();
  config->clear_resume();
  config->mutable_system()->clear_max_seconds();
  config->mutable_system()->clear_record_bytes();
  config->mutable_env()->clear_stop_value();
  config->mutable_env()->clear_n_confirm_episode();
  // What gets a run past a value that ended it.
  config->mutable_env()->clear_out_of_bounds();
  config->mutable_env()->mutable_manager()->clear_not_finite();
  config->clear_stopper();
  // A data set may have moved; its checksum shows whether it is the same.
  config->mutable_data_set()->clear_path();
  PolicySection* const policy = config->mutable_policy();
  LearnerHooksConfig* const hook = policy->mutable_learn()->mutable_learner()->mutable_hook();
  hook->clear_log_show_after_iter();
  hook->clear_log_reduce_after_iter();
  policy->mutable_collect()->mutable_collector()->clear_collect_print_freq();
  policy->mutable_eval()->mutable_evaluator()->clear_stop_value();
  policy->mutable_other()->mutable_replay_buffer()->clear_periodic_thruput_seconds();
}

// The threads that share the updates of a policy change no byte of a run.
class IgnoresThreads : public google::protobuf::util::MessageDifferencer::IgnoreCriteria {
 public:
  using SpecificField = google::protobuf::util::MessageDifferencer::SpecificField;
  bool IsIgnored(const google::protobuf::Message& /*before*/,
                 const google::protobuf::Message& /*after*/,
                 const google::protobuf::FieldDescriptor* field,
                 const std::vector<SpecificField>& /*parents*/) override {
    return field->name() == "learn_threads";
  }
};

}  // namespace

// A lock that belongs to one process at a time. The kernel releases it when that process ends, in
// whatever way.
class RunFolder::Lock {
 public:
  static absl::StatusOr<std::unique_ptr<Lock>> Take(const std::string& folder) {
    const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open run folder '", folder, "'"));
    auto lock = std::unique_ptr<Lock>(new Lock(fd));
    const Timer waited(Clock::Real());
    do {
      if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
      if (errno != EWOULDBLOCK) {
        return ErrnoStatus(errno, absl::StrCat("cannot lock run folder '", folder, "'"));
      }
      absl::SleepFor(kLockRetryPeriod);
    } while (waited.Elapsed() < kMaxLockWait);
    return absl::FailedPreconditionError(absl::StrCat(
        "run folder '", folder, "' is in use: another process trains in it; end that one first"));
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { close(fd_); }

 private:
  explicit Lock(int fd) : fd_(fd) {}
  const int fd_;
};

absl::StatusOr<std::shared_ptr<void>> RunFolder::TakeLock(const std::string& folder) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<Lock> lock, Lock::Take(folder));
  return lock;
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Create(const std::string& exp_dir,
                                                             const std::string& exp_name,
                                                             const std::string& process,
                                                             const Clock* clock) {
  DING_ASSIGN_OR_RETURN(const std::string wanted, AbsolutePath(exp_dir));
  DING_ASSIGN_OR_RETURN(std::string path, MakeFolder(wanted, exp_name, clock));
  DING_RETURN_IF_ERROR(MakeAbsolute({&path}));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Lock> lock, Lock::Take(path));
  return OpenLogs(std::move(path), std::move(lock), process, clock);
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Reopen(const std::string& exp_dir,
                                                             const LogSizes& logs,
                                                             const std::string& process,
                                                             const Clock* clock) {
  DING_ASSIGN_OR_RETURN(std::string path, AbsolutePath(exp_dir));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Lock> lock, Lock::Take(path));
  DING_RETURN_IF_ERROR(CutBackLogs(LogFolder(path), logs));
  DING_RETURN_IF_ERROR(RemoveRecursively(JoinPath(path, kResultName)));
  return OpenLogs(std::move(path), std::move(lock), process, clock);
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Continue(const std::string& exp_dir,
                                                               const std::string& process,
                                                               const Clock* clock) {
  DING_ASSIGN_OR_RETURN(std::string path, AbsolutePath(exp_dir));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Lock> lock, Lock::Take(path));
  DING_RETURN_IF_ERROR(RemoveRecursively(JoinPath(path, kResultName)));
  return OpenLogs(std::move(path), std::move(lock), process, clock);
}

absl::Status RunFolder::CheckFree(const std::string& exp_dir) {
  return PathExists(exp_dir) ? ExistsAlready(exp_dir) : absl::OkStatus();
}

absl::StatusOr<std::string> RunFolder::ChoosePath(const std::string& exp_dir,
                                                  const std::string& exp_name, const Clock* clock) {
  if (!exp_dir.empty()) return AbsolutePath(exp_dir);
  int number = 0;
  while (PathExists(FolderName(exp_name, number, clock)) && number < kMaxFolderNames) ++number;
  return AbsolutePath(FolderName(exp_name, number, clock));
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::OpenLogs(std::string path,
                                                               std::unique_ptr<Lock> lock,
                                                               const std::string& process,
                                                               const Clock* clock) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ProcessLogs> logs,
                        ProcessLogs::Open(path, process, ProcessLogs::Of::kRun, clock));
  return std::unique_ptr<RunFolder>(
      new RunFolder(std::move(path), std::move(lock), std::move(logs)));
}

RunFolder::RunFolder(std::string path, std::unique_ptr<Lock> lock,
                     std::unique_ptr<ProcessLogs> logs)
    : path_(std::move(path)), lock_(std::move(lock)), logs_(std::move(logs)) {}

RunFolder::~RunFolder() = default;

absl::Status RunFolder::WriteText(absl::string_view name, absl::string_view content) const {
  return WriteFileAtomically(JoinPath(path_, name), content);
}

absl::StatusOr<LogSizes> RunFolder::MeasureLogs() {
  DING_RETURN_IF_ERROR(FlushLogs());
  DING_ASSIGN_OR_RETURN(LogSizes sizes, MeasureFiles(LogFolder(path_)));
  DING_RETURN_IF_ERROR(SyncFiles(LogFolder(path_), sizes));
  return sizes;
}

absl::Status CheckSameExperiment(const ExperimentConfig& saved, const ExperimentConfig& now) {
  ExperimentConfig before = saved;
  ExperimentConfig after = now;
  ClearFieldsThatMayDiffer(&before);
  ClearFieldsThatMayDiffer(&after);
  // Runs from before paths were made absolute have them as they were written.
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&before));
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&after));
  google::protobuf::util::MessageDifferencer differencer;
  differencer.AddIgnoreCriteria(new IgnoresThreads);  // which the differencer owns
  std::string report;
  differencer.ReportDifferencesToString(&report);
  differencer.set_report_ignores(false);
  if (differencer.Compare(before, after)) return absl::OkStatus();
  const std::vector<absl::string_view> lines = absl::StrSplit(report, '\n', absl::SkipEmpty());
  return absl::InvalidArgumentError(absl::StrCat(
      "the config is not that of the run to resume; undo these changes, or start a new run "
      "(stop value, stoppers, budgets, periods of logs, record_bytes, learn_threads and what bad "
      "values of envs mean may differ):\n  ",
      absl::StrJoin(lines, "\n  ")));
}

void DescribeLogs(const LogSizes& logs, CheckpointInfo* info) {
  for (const auto& [path, bytes] : logs) {
    info->fields[absl::StrCat(kLogPrefix, path)] = absl::StrCat(bytes);
  }
}

LogSizes LogsOfCheckpoint(const CheckpointInfo& info) {
  LogSizes logs;
  for (const auto& [name, value] : info.fields) {
    absl::string_view path = name;
    int64_t bytes = 0;
    if (absl::ConsumePrefix(&path, kLogPrefix) && absl::SimpleAtoi(value, &bytes)) {
      logs[std::string(path)] = bytes;
    }
  }
  return logs;
}

std::string ResumeCommand(absl::string_view program, const std::string& exp_dir) {
  const char* const command = std::getenv("DING_WORKER_COMMAND");
  return absl::StrCat(command != nullptr ? command : ShellWord(program),
                      " --resume --exp_dir=", ShellWord(exp_dir));
}

}  // namespace ding
