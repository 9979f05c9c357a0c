#include "ding_worker/worker/run_folder/paths.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
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
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kFileScheme = "file:";
// Settings of a store that name files.
constexpr absl::string_view kFileSettings[] = {
    "password_file=", "tls_ca=", "tls_cert=", "tls_key="};

using google::protobuf::Any;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

enum class PathKind { kPath, kProgram, kStoreUrl };

struct PathField {
  absl::string_view message;
  absl::string_view field;
  PathKind kind = PathKind::kPath;
};

constexpr PathField kPathFields[] = {
    {"ding.DataSetSection", "path"},
    {"ding.EvalSection", "opponent_checkpoint"},
    {"ding.GymnasiumConfig", "python", PathKind::kProgram},
    {"ding.GymnasiumConfig", "python_path"},
    {"ding.LearnerHookConfig", "path"},
    {"ding.LearnerHooksConfig", "load_ckpt_before_run"},
    {"ding.MjcfParams", "model_file"},
    {"ding.OpponentSection", "checkpoint"},
    {"ding.SystemSection", "store_url", PathKind::kStoreUrl},
};

absl::StatusOr<std::string> Absolute(PathKind kind, const std::string& text) {
  if (kind == PathKind::kStoreUrl) return AbsoluteStoreUrl(text);
  if (kind == PathKind::kProgram && !absl::StrContains(text, '/')) return text;
  return AbsolutePath(text);
}

absl::Status MakePathFieldsAbsolute(Message* message) {
  const Reflection& reflection = *message->GetReflection();
  for (const PathField& path : kPathFields) {
    if (message->GetDescriptor()->full_name() != path.message) continue;
    const FieldDescriptor* const field =
        message->GetDescriptor()->FindFieldByName(std::string(path.field));
    if (!field->is_repeated()) {
      if (!reflection.HasField(*message, field)) continue;
      DING_ASSIGN_OR_RETURN(std::string made,
                            Absolute(path.kind, reflection.GetString(*message, field)));
      reflection.SetString(message, field, std::move(made));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      DING_ASSIGN_OR_RETURN(std::string made,
                            Absolute(path.kind, reflection.GetRepeatedString(*message, field, i)));
      reflection.SetRepeatedString(message, field, i, std::move(made));
    }
  }
  return absl::OkStatus();
}

// The module that a Python env names, without the modules in it: "envs" of "envs.mine:Env"; empty:
// it names none.
std::string ModuleOf(const Message& python_env) {
  for (const char* name : {"entry_point", "id"}) {
    const FieldDescriptor* const field = python_env.GetDescriptor()->FindFieldByName(name);
    const std::string text = python_env.GetReflection()->GetString(python_env, field);
    const size_t colon = text.find(':');
    if (colon != std::string::npos) return text.substr(0, std::min(colon, text.find('.')));
  }
  return "";
}

absl::Status KeepPythonFolder(Message* message) {
  if (message->GetDescriptor()->full_name() != "ding.GymnasiumConfig") return absl::OkStatus();
  const std::string module = ModuleOf(*message);
  if (module.empty() || !(PathExists(absl::StrCat(module, ".py")) || IsDirectory(module))) {
    return absl::OkStatus();
  }
  DING_ASSIGN_OR_RETURN(std::string folder, AbsolutePath("."));
  const FieldDescriptor* const path = message->GetDescriptor()->FindFieldByName("python_path");
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < reflection.FieldSize(*message, path); ++i) {
    if (reflection.GetRepeatedString(*message, path, i) == folder) return absl::OkStatus();
  }
  reflection.AddString(message, path, std::move(folder));
  return absl::OkStatus();
}

// Calls `visit` for the message and all in it, also in an Any whose type this program knows.
absl::Status VisitMessages(Message* message, absl::Status (*visit)(Message*)) {
  if (auto* const any = dynamic_cast<Any*>(message); any != nullptr) {
    if (TypeOfAny(*any) == nullptr) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Message> content, UnpackAny(*any));
    DING_RETURN_IF_ERROR(VisitMessages(content.get(), visit));
    any->set_value(content->SerializeAsString());
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(visit(message));
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      DING_RETURN_IF_ERROR(VisitMessages(reflection.MutableMessage(message, field), visit));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      DING_RETURN_IF_ERROR(
          VisitMessages(reflection.MutableRepeatedMessage(message, field, i), visit));
    }
  }
  return absl::OkStatus();
}

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
    for (const absl::string_view name : kFileSettings) {
      absl::string_view file = setting;
      if (!absl::ConsumePrefix(&file, name)) continue;
      DING_ASSIGN_OR_RETURN(const std::string path, AbsolutePath(file));
      setting = absl::StrCat(name, path);
      break;
    }
  }
  return absl::StrCat(made, "?", absl::StrJoin(settings, "&"));
}

absl::Status MakePathsAbsolute(ExperimentConfig* config) {
  return VisitMessages(config, MakePathFieldsAbsolute);
}

absl::Status KeepPythonFolders(ExperimentConfig* config) {
  return VisitMessages(config, KeepPythonFolder);
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
