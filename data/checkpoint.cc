#include "ding_worker/data/checkpoint.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/safetensors.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using internal_data::Manifest;
using internal_data::ManifestFile;
using Json = nlohmann::json;

constexpr absl::string_view kManifestName = "manifest.json";
constexpr absl::string_view kFormat = "ding_worker checkpoint";
constexpr absl::string_view kSuffix = ".safetensors";
// Same major: older programs read it and ignore what they do not know.
constexpr int64_t kMajorVersion = 1;
constexpr int64_t kMinorVersion = 0;
constexpr int64_t kMaxManifestBytes = 1 << 20;
constexpr int kMaxManifestDepth = 8;

std::string HexCrc(uint32_t crc) { return absl::StrCat(absl::Hex(crc, absl::kZeroPad8)); }

bool IsFileName(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 200 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

absl::Status CheckNames(absl::Span<const CheckpointComponent> components) {
  std::set<std::string> names;
  for (const CheckpointComponent& component : components) {
    if (!IsFileName(component.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("component '", component.name,
                       "': a name is letters, digits, '_', '-' and '.', not '.' first"));
    }
    if (!names.insert(component.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("component '", component.name, "' appears twice"));
    }
  }
  return absl::OkStatus();
}

// Checks that `path` is free or a checkpoint: the folder that is replaced is removed.
absl::Status CheckReplaceable(const std::string& path) {
  if (!PathExists(path) || PathExists(JoinPath(path, kManifestName))) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("'", path, "' exists and is not a checkpoint; it is unchanged"));
}

absl::Status WriteInto(const std::string& folder, const CheckpointInfo& info,
                       absl::Span<const CheckpointComponent> components,
                       std::vector<std::function<void()>>* when_kept) {
  Manifest manifest;
  manifest.info = info;
  for (const CheckpointComponent& component : components) {
    const std::string file = absl::StrCat(component.name, kSuffix);
    DING_ASSIGN_OR_RETURN(const SafetensorsFileInfo written,
                          WriteSafetensorsPart(JoinPath(folder, file), component.save,
                                               /*metadata=*/{}, /*self_checked=*/false, when_kept));
    manifest.files.push_back({file, written.size_bytes, written.crc32c});
  }
  DING_ASSIGN_OR_RETURN(const std::string text, internal_data::EncodeManifest(manifest));
  return WriteFileAtomically(JoinPath(folder, kManifestName), text);
}

// ---------------------------------------------------------------------------- reading a manifest

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("malformed: ", what));
}

absl::StatusOr<const Json*> Member(const Json& object, const char* name) {
  if (object.is_object()) {
    const auto found = object.find(name);
    if (found != object.end()) return &*found;
  }
  return Malformed(absl::StrCat("'", name, "' is missing"));
}

absl::StatusOr<std::string> StringMember(const Json& object, const char* name) {
  DING_ASSIGN_OR_RETURN(const Json* const member, Member(object, name));
  if (member->is_string()) return member->get_ref<const std::string&>();
  return Malformed(absl::StrCat("'", name, "' is not a string"));
}

absl::StatusOr<int64_t> CountMember(const Json& object, const char* name) {
  DING_ASSIGN_OR_RETURN(const Json* const member, Member(object, name));
  if (member->is_number_integer()) {
    const auto value = member->get<int64_t>();
    if (value >= 0) return value;
  }
  return Malformed(absl::StrCat("'", name, "' is not a count"));
}

absl::StatusOr<ManifestFile> FileOf(const Json& object) {
  ManifestFile file;
  DING_ASSIGN_OR_RETURN(file.name, StringMember(object, "name"));
  if (!IsFileName(file.name) || !absl::EndsWith(file.name, kSuffix)) {
    return Malformed(absl::StrCat("'", file.name, "' is not a file name"));
  }
  DING_ASSIGN_OR_RETURN(file.size_bytes, CountMember(object, "size_bytes"));
  DING_ASSIGN_OR_RETURN(const std::string crc, StringMember(object, "crc32c"));
  if (crc.size() != 8 || !absl::SimpleHexAtoi(crc, &file.crc32c)) {
    return Malformed(absl::StrCat("'", crc, "' is not a checksum"));
  }
  return file;
}

absl::Status CheckFormatAndVersion(const Json& root) {
  DING_ASSIGN_OR_RETURN(const std::string format, StringMember(root, "format"));
  if (format != kFormat) return Malformed(absl::StrCat("format is '", format, "'"));
  DING_ASSIGN_OR_RETURN(const int64_t major, CountMember(root, "major_version"));
  DING_ASSIGN_OR_RETURN(const int64_t minor, CountMember(root, "minor_version"));
  if (major == kMajorVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "has version ", major, ".", minor, ", this program reads versions ", kMajorVersion, ".x"));
}

absl::StatusOr<CheckpointInfo> InfoOf(const Json& root) {
  CheckpointInfo info;
  DING_ASSIGN_OR_RETURN(info.kind, StringMember(root, "kind"));
  DING_ASSIGN_OR_RETURN(const Json* const fields, Member(root, "fields"));
  if (!fields->is_object()) return Malformed("'fields' is not an object");
  for (const auto& field : fields->items()) {
    if (!field.value().is_string()) return Malformed("a field is not a string");
    info.fields[field.key()] = field.value().get<std::string>();
  }
  return info;
}

// Values nested deeper than any of ours are dropped as they come, so that they take no memory.
Json ParseBounded(absl::string_view text) {
  const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
    return depth <= kMaxManifestDepth;
  };
  return Json::parse(text.begin(), text.end(), shallow, /*allow_exceptions=*/false);
}

// ---------------------------------------------------------------------------- checking the files

absl::StatusOr<std::string> ReadManifest(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, RandomAccessFile::Open(path));
  if (file->size_bytes() > kMaxManifestBytes) {
    return Malformed(absl::StrCat(file->size_bytes(), " bytes"));
  }
  std::string text(static_cast<size_t>(file->size_bytes()), '\0');
  DING_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(text)));
  return text;
}

absl::Status CheckFile(const std::string& path, const ManifestFile& expected) {
  const auto file = RandomAccessFile::Open(path);
  if (!file.ok()) return absl::DataLossError(file.status().message());
  if ((*file)->size_bytes() != expected.size_bytes) {
    return absl::DataLossError(absl::StrCat("'", path, "' has ", (*file)->size_bytes(),
                                            " bytes, the manifest says ", expected.size_bytes));
  }
  return SafetensorsReader::Open(path, expected.crc32c).status();
}

absl::StatusOr<Manifest> ManifestOf(const std::string& path) {
  const std::string manifest_path = JoinPath(path, kManifestName);
  const absl::StatusOr<std::string> text = ReadManifest(manifest_path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("there is no checkpoint at '", path, "': ", text.status().message()));
  }
  const std::string here = absl::StrCat("'", manifest_path, "'");
  if (!text.ok()) return Annotate(text.status(), here);
  absl::StatusOr<Manifest> manifest = internal_data::DecodeManifest(*text);
  if (!manifest.ok()) return Annotate(manifest.status(), here);
  return manifest;
}

}  // namespace

namespace internal_data {

std::string ManifestEnd(absl::string_view body) {
  return absl::StrCat(",\n  \"crc32c\": \"", HexCrc(Crc32c(body)), "\"\n}\n");
}

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  nlohmann::ordered_json root;  // For a reader's eyes: members in this order.
  root["format"] = std::string(kFormat);
  root["major_version"] = kMajorVersion;
  root["minor_version"] = kMinorVersion;
  root["kind"] = manifest.info.kind;
  root["fields"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : manifest.info.fields) root["fields"][name] = value;
  root["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    nlohmann::ordered_json entry;
    entry["name"] = file.name;
    entry["size_bytes"] = file.size_bytes;
    entry["crc32c"] = HexCrc(file.crc32c);
    root["files"].push_back(std::move(entry));
  }
  std::string text;
  try {
    text = root.dump(2);
  } catch (const Json::exception&) {  // The library has no other way to say so.
    return absl::InvalidArgumentError("the kind or a field is not UTF-8");
  }
  const absl::string_view body = absl::StripSuffix(text, "\n}");
  return absl::StrCat(body, ManifestEnd(body));
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text) {
  const Json root = ParseBounded(text);
  if (root.is_discarded()) return Malformed("not JSON");
  // Before the checksum, whose place another major version may have changed.
  DING_RETURN_IF_ERROR(CheckFormatAndVersion(root));
  const size_t end_size = ManifestEnd("").size();
  const absl::string_view body = text.substr(0, text.size() - std::min(text.size(), end_size));
  if (text.substr(body.size()) != ManifestEnd(body)) {
    return absl::DataLossError("its checksum does not fit: it was corrupted or edited");
  }
  Manifest manifest;
  DING_ASSIGN_OR_RETURN(manifest.info, InfoOf(root));
  DING_ASSIGN_OR_RETURN(const Json* const files, Member(root, "files"));
  if (!files->is_array()) return Malformed("'files' is not an array");
  for (const Json& object : *files) {
    DING_ASSIGN_OR_RETURN(ManifestFile file, FileOf(object));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace internal_data

absl::Status WriteCheckpoint(const std::string& path, const CheckpointInfo& info,
                             absl::Span<const CheckpointComponent> components) {
  DING_RETURN_IF_ERROR(CheckNames(components));
  DING_RETURN_IF_ERROR(CheckReplaceable(path));
  DING_ASSIGN_OR_RETURN(const std::string temporary, CreateTemporaryDirectory(path));
  // After success there is nothing left to remove.
  const auto cleanup = absl::MakeCleanup([&temporary] { (void)RemoveRecursively(temporary); });
  std::vector<std::function<void()>> when_kept;
  DING_RETURN_IF_ERROR(WriteInto(temporary, info, components, &when_kept));
  DING_RETURN_IF_ERROR(ReplaceDirectory(temporary, path));
  for (const auto& kept : when_kept) kept();
  return absl::OkStatus();
}

std::string CheckpointFolder(const std::string& path) {
  for (const absl::string_view inside : {"", "ckpt/ckpt_best", "ckpt_best"}) {
    const std::string folder = inside.empty() ? path : JoinPath(path, inside);
    if (PathExists(JoinPath(folder, kManifestName))) return folder;
  }
  return path;
}

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& path) {
  DING_ASSIGN_OR_RETURN(Manifest manifest, ManifestOf(path));
  CheckpointReader reader;
  reader.path_ = path;
  reader.info_ = std::move(manifest.info);
  for (ManifestFile& file : manifest.files) {
    DING_RETURN_IF_ERROR(
        Annotate(CheckFile(JoinPath(path, file.name), file), "the checkpoint is damaged"));
    reader.files_.push_back(std::move(file.name));
  }
  return reader;
}

absl::StatusOr<CheckpointInfo> CheckpointReader::ReadInfo(const std::string& path) {
  DING_ASSIGN_OR_RETURN(Manifest manifest, ManifestOf(path));
  return std::move(manifest.info);
}

std::vector<std::string> CheckpointReader::Components() const {
  std::vector<std::string> names;
  for (const std::string& file : files_) names.emplace_back(absl::StripSuffix(file, kSuffix));
  return names;
}

absl::StatusOr<std::unique_ptr<StateReader>> CheckpointReader::Component(
    absl::string_view name) const {
  const std::vector<std::string> names = Components();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return absl::NotFoundError(absl::StrCat("checkpoint '", path_, "' has no component '", name,
                                            "'; it has: ", absl::StrJoin(names, ", ")));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsReader> reader,
                        SafetensorsReader::Open(JoinPath(path_, absl::StrCat(name, kSuffix))));
  return reader;
}

CheckpointWriter::CheckpointWriter() {
  absl::StatusOr<std::thread> thread = StartThread("writing checkpoints", [this] { Run(); });
  if (thread.ok()) thread_ = *std::move(thread);
}

CheckpointWriter::~CheckpointWriter() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Write(std::string path, CheckpointInfo info,
                             std::vector<CheckpointComponent> components,
                             std::function<void(const absl::Status&)> done) {
  if (!thread_.joinable()) return done(WriteCheckpoint(path, info, components));
  MutexLock lock(&mutex_);
  while (waiting_.size() >= kMaxWaiting) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  waiting_.push_back({std::move(path), std::move(info), std::move(components), std::move(done)});
  changed_.SignalAll();
}

bool CheckpointWriter::idle() const {
  MutexLock lock(&mutex_);
  return waiting_.empty() && !writing_;
}

void CheckpointWriter::Flush() {
  MutexLock lock(&mutex_);
  while (writing_ || !waiting_.empty()) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
}

void CheckpointWriter::Run() {
  while (true) {
    Job job;
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      changed_.SignalAll();
      while (waiting_.empty() && !closing_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      writing_ = true;
      changed_.SignalAll();
    }
    job.done(WriteCheckpoint(job.path, job.info, job.components));
  }
}

}  // namespace ding
