#include "ding_worker/worker/parallel_run/parallel_run_folder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "google/protobuf/text_format.h"

namespace ding {

std::string ResultPath(const std::string& exp_dir) { return JoinPath(exp_dir, run_files::kResult); }

absl::StatusOr<std::string> ReadRunConfig(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, run_files::kConfig));
}

absl::StatusOr<std::string> ReadRunAddress(const std::string& exp_dir) {
  return ReadFile(JoinPath(exp_dir, run_files::kAddress));
}

absl::StatusOr<ParallelRunInfo> ReadRunInfo(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, run_files::kInfo);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::NotFoundError(absl::StrCat("there is no parallel run to go on with in '", exp_dir,
                                            "': ", text.status().message()));
  }
  ParallelRunInfo info;
  if (google::protobuf::TextFormat::ParseFromString(*text, &info)) return info;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

absl::StatusOr<SavedRun> ReadSavedRun(const std::string& exp_dir) {
  const std::string path = JoinPath(exp_dir, run_files::kSaved);
  DING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  SavedRun saved;
  if (google::protobuf::TextFormat::ParseFromString(text, &saved)) return saved;
  return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
}

std::string PrintRunFile(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace ding
