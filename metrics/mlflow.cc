#include "ding_worker/metrics/mlflow.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/utf8.h"

namespace ding {
namespace {

constexpr size_t kRunIdDigits = 32;
constexpr absl::string_view kStatusKey = "\nstatus: ";
constexpr absl::string_view kStartKey = "\nstart_time: ";

// Shorter than MLflow's limit of 250 for a name.
constexpr size_t kMaxNameBytes = 250;
constexpr size_t kDigestDigits = 32;
constexpr size_t kWriteBytes = size_t{64} << 10;
constexpr size_t kBufferLimitBytes = size_t{8} << 20;

bool IsUpperHex(absl::string_view text, size_t i) {
  return i < text.size() &&
         ((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'A' && text[i] <= 'F'));
}

std::string Escaped(char c) { return absl::StrFormat("-%02X", static_cast<unsigned char>(c)); }

// Whether a byte of a name must be escaped, so that the name is a path of its own.
bool MustEscape(absl::string_view name, size_t i) {
  const char c = name[i];
  if (c == '-') return name.size() == 1 || (IsUpperHex(name, i + 1) && IsUpperHex(name, i + 2));
  if (c == '/') return i == 0 || i + 1 == name.size() || name[i - 1] == '/';
  if (c ==
      '.') {  // of a part that is "." or "..", or of a name that MLflow takes for a path out of its folder
    if (i == 0 && absl::StartsWith(name, "..")) return true;
    const size_t begin = name.rfind('/', i) + 1;  // npos + 1 is 0
    const absl::string_view part = name.substr(begin, name.find('/', i) - begin);
    return part == "." || part == "..";
  }
  return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != ' ';
}

// Returns the path of a name below a folder. Different names have different paths.
std::string FileOf(absl::string_view name) {
  if (name.empty()) return "-";
  std::string file;
  for (size_t i = 0; i < name.size() && file.size() < kMaxNameBytes; ++i) {
    if (MustEscape(name, i)) {
      absl::StrAppend(&file, Escaped(name[i]));
    } else {
      file.push_back(name[i]);
    }
  }
  if (file.size() < kMaxNameBytes) return file;
  // All such names have this length, which no other name has.
  file.resize(kMaxNameBytes - kDigestDigits - 1);
  absl::StrAppendFormat(&file, "-%016x%016x", Rng::DeriveSeed(0, name), Rng::DeriveSeed(1, name));
  return file;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(PrintableUtf8(text), {{"'", "''"}}), "'");
}

// Writes whole lines by one call, so that a reader sees no half of one. Returns an errno; 0: all is
// written.
int WriteAtOnce(int fd, absl::string_view bytes) {
  const ssize_t count = write(fd, bytes.data(), bytes.size());
  if (count < 0) return errno;
  return static_cast<size_t>(count) == bytes.size() ? 0 : ENOSPC;
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
  sink->KeepStartTime();
  DING_RETURN_IF_ERROR(sink->WriteRun(kRunning, /*end_millis=*/0));
  return sink;
}

MlflowSink::MlflowSink(const Options& options, std::string experiment_id, std::string run_id)
    : options_(options),
      experiment_id_(std::move(experiment_id)),
      run_id_(std::move(run_id)),
      experiment_folder_(JoinPath(options.folder, experiment_id_)),
      run_folder_(JoinPath(experiment_folder_, run_id_)),
      start_millis_(NowMillis()),
      last_write_nanos_(options.clock->MonotonicNanos()) {}

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
                   kStartKey.substr(1), start_millis_, "\n",                 //
                   kStatusKey.substr(1), static_cast<int>(status), "\n",     //
                   "tags: []\nuser_id: ''\n"));
}

void MlflowSink::KeepStartTime() {
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(run_folder_, "meta.yaml"));
  if (!text.ok()) return;
  const size_t found = absl::string_view(*text).find(kStartKey);
  if (found == absl::string_view::npos) return;
  const std::string after = text->substr(found + kStartKey.size());
  if (int64_t millis = 0; absl::SimpleAtoi(after.substr(0, after.find('\n')), &millis)) {
    start_millis_ = millis;
  }
}

absl::Status MlflowSink::OverwriteStatus(Status status) const {
  const std::string path = JoinPath(run_folder_, "meta.yaml");
  DING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const size_t found = absl::string_view(text).find(kStatusKey);
  if (found == absl::string_view::npos)
    return absl::DataLossError(absl::StrCat("'", path, "' has no status"));
  const char digit = static_cast<char>('0' + status);
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_WRONLY | O_CLOEXEC));
  const auto at = static_cast<off_t>(found + kStatusKey.size());
  if (pwrite(file.fd(), &digit, 1, at) == 1) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot write '", path, "'"));
}

std::string MlflowSink::PathOf(const Series& series) const {
  return JoinPath(JoinPath(run_folder_, "metrics"), series.file);
}

MlflowSink::Series& MlflowSink::SeriesOf(absl::string_view tag) {
  const auto known = series_.find(tag);
  if (known != series_.end()) return known->second;
  Series& series = series_[std::string(tag)];
  series.file = FileOf(tag);
  // "a" and "a/b" cannot both be paths: "a" would be a file and a folder. The later one gets
  // another path.
  for (size_t slash = series.file.find('/'); slash != std::string::npos;
       slash = series.file.find('/', slash + 1)) {
    const std::string folder = series.file.substr(0, slash);
    const std::string path = PathOf({folder, ""});
    if (files_.count(folder) == 0 && (!PathExists(path) || IsDirectory(path))) continue;
    series.file.replace(slash, 1, Escaped('/'));
  }
  const auto inside = files_.lower_bound(absl::StrCat(series.file, "/"));
  if ((inside != files_.end() && absl::StartsWith(*inside, absl::StrCat(series.file, "/"))) ||
      IsDirectory(PathOf(series))) {
    const char last = series.file.back();
    series.file.pop_back();
    absl::StrAppend(&series.file, Escaped(last));
  }
  files_.insert(series.file);
  return series;
}

void MlflowSink::Scalar(absl::string_view tag, int64_t step, double value) {
  // Python's float() reads "nan" and "inf".
  const std::string line = absl::StrFormat("%d %.17g %d\n", NowMillis(), value, step);
  MutexLock lock(&mutex_);
  if (waiting_bytes_ + line.size() > kBufferLimitBytes) {
    ++lost_lines_;
  } else {
    absl::StrAppend(&SeriesOf(tag).lines, line);
    waiting_bytes_ += line.size();
  }
  const absl::Duration since_write =
      absl::Nanoseconds(options_.clock->MonotonicNanos() - last_write_nanos_);
  // After a failed write, waits for the interval before the next attempt.
  if (since_write >= options_.flush_interval || (waiting_bytes_ >= kWriteBytes && error_.ok())) {
    WriteLines();
  }
}

void MlflowSink::WriteLines() {
  last_write_nanos_ = options_.clock->MonotonicNanos();
  for (auto& [tag, series] : series_) {
    if (series.lines.empty()) continue;
    const std::string path = PathOf(series);
    const absl::Status written =
        PathExists(path) ? AppendTo(path, series.lines) : Place(path, series.lines);
    error_.Update(written);
    if (!written.ok()) continue;
    waiting_bytes_ -= series.lines.size();
    series.lines.clear();
  }
}

absl::Status MlflowSink::AppendTo(const std::string& path, absl::string_view lines) const {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDWR | O_APPEND | O_CLOEXEC));
  int64_t size = file.size_bytes();
  // A half line, of a write that the end of the machine cut off.
  char last = '\n';
  while (size > 0 && pread(file.fd(), &last, 1, size - 1) == 1 && last != '\n') --size;
  if (size < file.size_bytes() && ftruncate(file.fd(), size) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut off the torn last line of '", path, "'"));
  }
  const int error = WriteAtOnce(file.fd(), lines);
  if (error == 0) return absl::OkStatus();
  if (ftruncate(file.fd(), size) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot cut off the torn last line of '", path, "'"));
  }
  return ErrnoStatus(error, absl::StrCat("cannot write '", path, "'"));
}

// A temporary file beside it would be a metric or a parameter for MLflow, which may be gone when it
// reads it.
absl::Status MlflowSink::Place(const std::string& path, absl::string_view content) const {
  DING_RETURN_IF_ERROR(CreateDirectories(path.substr(0, path.rfind('/'))));
  const std::string temporary = JoinPath(run_folder_, "next_file");
  int error = 0;
  {
    DING_ASSIGN_OR_RETURN(
        const OpenFile file,
        OpenRegularFile(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    error = WriteAtOnce(file.fd(), content);
    // Otherwise the file could be empty after a power loss.
    if (error == 0 && fdatasync(file.fd()) != 0) error = errno;
  }
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  return error == 0 ? absl::OkStatus()
                    : ErrnoStatus(error, absl::StrCat("cannot write '", path, "'"));
}

void MlflowSink::BeginRun(const RunDescription& run) {
  MutexLock lock(&mutex_);
  for (const auto& [name, value] : run.hyperparameters) {
    // "hook[0].freq" is read more easily as "hook.0.freq".
    const std::string path = absl::StrReplaceAll(name, {{"[", "."}, {"]", ""}});
    error_.Update(Place(JoinPath(JoinPath(run_folder_, "params"), FileOf(path)), value));
  }
}

void MlflowSink::EndRun(RunEnd end, int64_t step, const RunResults& results) {
  for (const auto& [name, value] : results) Scalar(absl::StrCat("result/", name), step, value);
  const Status status = end == RunEnd::kFinished ? kFinished
                        : end == RunEnd::kFailed ? kFailed
                                                 : kKilled;
  MutexLock lock(&mutex_);
  ended_ = true;
  WriteLines();
  absl::Status written = WriteRun(status, NowMillis());
  if (!written.ok()) OverwriteStatus(status).IgnoreError();
  error_.Update(written);
}

MlflowSink::~MlflowSink() {
  MutexLock lock(&mutex_);
  WriteLines();
  if (ended_ || WriteRun(kFailed, NowMillis()).ok()) return;
  OverwriteStatus(kFailed).IgnoreError();
}

absl::Status MlflowSink::Flush() {
  MutexLock lock(&mutex_);
  WriteLines();
  if (lost_lines_ > 0) {
    error_.Update(absl::ResourceExhaustedError(
        absl::StrCat(std::exchange(lost_lines_, 0), " lines of '", run_folder_,
                     "' were lost: they could not be written, and the buffer is full")));
  }
  return std::exchange(error_, absl::OkStatus());
}

}  // namespace ding
