#include "ding_worker/metrics/mlflow.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

using ::ding::internal_metrics::AppendFile;

constexpr size_t kRunIdDigits = 32;

// MLflow takes letters, digits and "_-. /" in names of metrics and parameters, and no parts of a path that are empty or
// dots.
std::string AllowedName(absl::string_view name) {
  std::string allowed(name);
  for (char& c : allowed) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        absl::string_view("_-. /").find(c) == absl::string_view::npos) {
      c = '_';
    }
  }
  allowed = absl::StrReplaceAll(allowed, {{"//", "/_"}, {"..", "__"}});
  if (allowed.empty() || allowed[0] == '/') allowed.insert(0, "_");
  if (allowed.back() == '/') allowed.push_back('_');
  return allowed;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}, {"\n", " "}}), "'");
}

bool IsRunId(absl::string_view text) {
  if (text.size() != kRunIdDigits) return false;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c)) || absl::ascii_isupper(c))
      return false;
  }
  return true;
}

// Returns the id in the file, or a new one, which it writes there.
absl::StatusOr<std::string> KeepRunId(const MlflowSink::Options& options) {
  if (PathExists(options.run_id_file)) {
    DING_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.run_id_file));
    const absl::string_view id = absl::StripAsciiWhitespace(text);
    if (IsRunId(id)) return std::string(id);
    return absl::DataLossError(
        absl::StrCat("'", options.run_id_file, "' has no MLflow run id, expected ", kRunIdDigits,
                     " hexadecimal digits; delete the file to begin a new run there"));
  }
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(options.clock->Now()));
  const auto process = static_cast<uint64_t>(getpid());
  const std::string id = absl::StrFormat("%016x%016x", Rng::DeriveSeed(now, "mlflow/run", process),
                                         Rng::DeriveSeed(now, "mlflow/run_low", process));
  DING_RETURN_IF_ERROR(WriteFileAtomically(options.run_id_file, absl::StrCat(id, "\n")));
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MlflowSink>> MlflowSink::Create(const Options& options) {
  DING_ASSIGN_OR_RETURN(std::string run_id, KeepRunId(options));
  // MLflow makes random ids of 18 digits; this one is the same for all runs of the experiment.
  const uint64_t hash = Rng::DeriveSeed(0, absl::string_view(options.experiment));
  std::string experiment_id = absl::StrFormat("%018d", hash % 1'000'000'000'000'000'000u);
  std::unique_ptr<MlflowSink> sink(
      new MlflowSink(options, std::move(experiment_id), std::move(run_id)));
  for (const char* const part : {"params", "metrics", "artifacts"}) {
    DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(sink->run_folder_, part)));
  }
  DING_RETURN_IF_ERROR(sink->WriteExperiment());
  DING_RETURN_IF_ERROR(sink->WriteRun(kRunning, /*end_millis=*/0));
  return sink;
}

MlflowSink::MlflowSink(const Options& options, std::string experiment_id, std::string run_id)
    : options_(options),
      experiment_id_(std::move(experiment_id)),
      run_id_(std::move(run_id)),
      experiment_folder_(JoinPath(options.folder, experiment_id_)),
      run_folder_(JoinPath(experiment_folder_, run_id_)),
      start_millis_(NowMillis()) {}

absl::Status MlflowSink::WriteExperiment() const {
  const std::string path = JoinPath(experiment_folder_, "meta.yaml");
  if (PathExists(path)) return absl::OkStatus();
  return WriteFileAtomically(path, absl::StrCat("artifact_location: ", Quoted(experiment_folder_),
                                                "\n", "creation_time: ", start_millis_, "\n",     //
                                                "experiment_id: ", Quoted(experiment_id_), "\n",  //
                                                "last_update_time: ", start_millis_, "\n",        //
                                                "lifecycle_stage: active\n",                      //
                                                "name: ", Quoted(options_.experiment), "\n"));
}

absl::Status MlflowSink::WriteRun(Status status, int64_t end_millis) const {
  const std::string end = end_millis == 0 ? "null" : absl::StrCat(end_millis);
  return WriteFileAtomically(
      JoinPath(run_folder_, "meta.yaml"),
      absl::StrCat("artifact_uri: ", Quoted(JoinPath(run_folder_, "artifacts")), "\n",
                   "end_time: ", end, "\n",                                  //
                   "entry_point_name: ''\n",                                 //
                   "experiment_id: ", Quoted(experiment_id_), "\n",          //
                   "lifecycle_stage: active\n",                              //
                   "run_id: ", Quoted(run_id_), "\n",                        //
                   "run_name: ", Quoted(options_.run_name), "\n",            //
                   "run_uuid: ", Quoted(run_id_), "\n",                      //
                   "source_name: ''\nsource_type: 4\nsource_version: ''\n",  // 4: LOCAL
                   "start_time: ", start_millis_, "\n",                      //
                   "status: ", static_cast<int>(status), "\n",               //
                   "tags: []\nuser_id: ''\n"));
}

AppendFile* MlflowSink::FileOf(absl::string_view tag) {
  const auto found = files_.find(tag);
  if (found != files_.end()) return found->second.get();
  std::unique_ptr<AppendFile>& file = files_[std::string(tag)];
  const std::string path = JoinPath(JoinPath(run_folder_, "metrics"), AllowedName(tag));
  const auto open = [&]() -> absl::Status {
    DING_RETURN_IF_ERROR(CreateDirectories(path.substr(0, path.rfind('/'))));
    AppendFile::Options file_options;
    file_options.clock = options_.clock;
    file_options.flush_interval = options_.flush_interval;
    file_options.record_end = '\n';
    DING_ASSIGN_OR_RETURN(file, AppendFile::Open(path, file_options));
    return absl::OkStatus();
  };
  error_.Update(open());
  return file.get();
}

void MlflowSink::Scalar(absl::string_view tag, int64_t step, double value) {
  const int64_t now = NowMillis();
  MutexLock lock(&mutex_);
  AppendFile* const file = FileOf(tag);
  if (file == nullptr) return;
  // Python's float() reads "nan" and "inf".
  file->Append(absl::StrFormat("%d %.17g %d\n", now, value, step));
}

void MlflowSink::BeginRun(const RunDescription& run) {
  absl::Status written;
  for (const auto& [name, value] : run.hyperparameters) {
    const std::string path = JoinPath(JoinPath(run_folder_, "params"), AllowedName(name));
    written.Update(WriteFileAtomically(path, value));
  }
  MutexLock lock(&mutex_);
  error_.Update(written);
}

void MlflowSink::EndRun(RunEnd end, int64_t step, const RunResults& results) {
  for (const auto& [name, value] : results) Scalar(absl::StrCat("result/", name), step, value);
  const Status status = end == RunEnd::kFinished ? kFinished
                        : end == RunEnd::kFailed ? kFailed
                                                 : kKilled;
  const absl::Status written = WriteRun(status, NowMillis());
  MutexLock lock(&mutex_);
  error_.Update(written);
}

absl::Status MlflowSink::Flush() {
  MutexLock lock(&mutex_);
  absl::Status first = std::exchange(error_, absl::OkStatus());
  for (const auto& [tag, file] : files_) {
    if (file != nullptr) first.Update(file->Flush());
  }
  return first;
}

}  // namespace ding
