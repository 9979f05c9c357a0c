#include "ding_worker/worker/run/paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kFileScheme = "file:";
constexpr absl::string_view kPasswordFile = "password_file=";

}  // namespace

absl::StatusOr<std::string> AbsolutePath(absl::string_view path) {
  if (path.empty()) return std::string();
  fs::path whole(path.begin(), path.end());
  std::error_code error;
  if (whole.is_relative()) {
    const fs::path current = fs::current_path(error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", path,
                       "' is seen from the current folder, which was removed or cannot be "
                       "read (",
                       error.message(),
                       "): go to another folder, or give a path that "
                       "begins with '/'"));
    }
    whole = current / whole;
  }
  fs::path resolved;
  for (const fs::path& part : whole) {
    resolved /= part;
    if (part != "..") continue;
    // A path that does not exist yet has no links.
    const fs::path without_links = fs::weakly_canonical(resolved, error);
    if (!error) resolved = without_links;
  }
  std::string text = resolved.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::Status MakeAbsolute(std::initializer_list<std::string*> paths) {
  for (std::string* const path : paths) {
    DING_ASSIGN_OR_RETURN(*path, AbsolutePath(*path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AbsoluteStoreUrl(absl::string_view url) {
  const size_t question = std::min(url.find('?'), url.size());
  absl::string_view place = url.substr(0, question);
  std::string made(place);
  if (absl::ConsumePrefix(&place, kFileScheme) && !place.empty()) {
    DING_ASSIGN_OR_RETURN(const std::string folder, AbsolutePath(place));
    made = absl::StrCat(kFileScheme, folder);
  }
  if (question == url.size()) return made;
  std::vector<std::string> settings = absl::StrSplit(url.substr(question + 1), '&');
  for (std::string& setting : settings) {
    absl::string_view file = setting;
    if (!absl::ConsumePrefix(&file, kPasswordFile)) continue;
    DING_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(file));
    setting = absl::StrCat(kPasswordFile, path);
  }
  return absl::StrCat(made, "?", absl::StrJoin(settings, "&"));
}

absl::Status MakePathsAbsolute(ExperimentConfig* config) {
  std::vector<std::string*> paths;
  if (config->data_set().has_path()) paths.push_back(config->mutable_data_set()->mutable_path());
  if (config->policy().eval().has_opponent_checkpoint()) {
    paths.push_back(config->mutable_policy()->mutable_eval()->mutable_opponent_checkpoint());
  }
  if (config->policy().learn().learner().has_hook()) {
    LearnerHooksConfig* const hooks =
        config->mutable_policy()->mutable_learn()->mutable_learner()->mutable_hook();
    if (hooks->has_load_ckpt_before_run()) paths.push_back(hooks->mutable_load_ckpt_before_run());
    for (LearnerHookConfig& hook : *hooks->mutable_hook()) {
      if (hook.has_path()) paths.push_back(hook.mutable_path());
    }
  }
  for (std::string* const path : paths) DING_RETURN_IF_ERROR(MakeAbsolute({path}));
  if (!config->system().has_store_url()) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(*config->mutable_system()->mutable_store_url(),
                        AbsoluteStoreUrl(config->system().store_url()));
  return absl::OkStatus();
}

std::string CallersFolder() {
  const char* const caller = std::getenv("BUILD_WORKING_DIRECTORY");
  if (caller == nullptr || *caller == '\0') return "";
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const fs::path current = fs::current_path(error);
  // Children of such a program also have the variable, so the current folder is checked, too.
  const bool by_bazel =
      !error && absl::StartsWith(current.string(), absl::StrCat(program.string(), ".runfiles/"));
  return by_bazel ? caller : "";
}

absl::Status EnterCallersFolder() {
  const std::string folder = CallersFolder();
  if (folder.empty()) return absl::OkStatus();
  std::error_code error;
  fs::current_path(folder, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(),
                     absl::StrCat("cannot go to '", folder, "', from where bazel was called"));
}

std::string ShellWord(absl::string_view path) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/._-+=:,@%", c);
  };
  if (!path.empty() && std::all_of(path.begin(), path.end(), is_plain)) return std::string(path);
  return absl::StrCat("'", absl::StrReplaceAll(path, {{"'", R"('\'')"}}), "'");
}

}  // namespace ding
