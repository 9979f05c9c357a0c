#include "ding_worker/worker/watch/watched_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

constexpr int64_t kMaxConfigBytes = 4 << 20;
constexpr int64_t kMaxTailBytes = 1 << 20;
constexpr int64_t kMaxVideoBytes = int64_t{256} << 20;
// A run writes its metrics at least every few seconds, but an evaluation or a save may take longer.
constexpr absl::Duration kSilence = absl::Minutes(1);

absl::Time WrittenAt(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? absl::TimeFromTimespec(info.st_mtim)
                                        : absl::InfinitePast();
}

// The names in a folder; none if it cannot be read.
std::vector<std::string> NamesIn(const std::string& folder) {
  auto names = ListDirectory(folder);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

bool IsRun(const std::string& folder) {
  return IsDirectory(JoinPath(folder, "log")) ||
         PathExists(JoinPath(folder, "total_config.textproto"));
}

bool IsVideo(absl::string_view name) {
  return absl::EndsWith(name, ".gif") || absl::EndsWith(name, ".mp4");
}

bool IsTextLog(absl::string_view name) {
  return absl::EndsWith(name, ".txt") || absl::EndsWith(name, ".jsonl");
}

// Whether runs that differ in this field only are seeds of one experiment.
bool IsOfSeed(absl::string_view path) { return path == "seed" || path == "exp_name"; }

}  // namespace

std::map<std::string, std::string> FlattenConfig(absl::string_view text) {
  std::map<std::string, std::string> fields;
  std::vector<std::string> blocks;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line == "}") {
      if (!blocks.empty()) blocks.pop_back();
    } else if (absl::ConsumeSuffix(&line, "{")) {
      line = absl::StripTrailingAsciiWhitespace(line);
      // The message in an Any, "[type.googleapis.com/ding.DqnConfig]", is called by its last word.
      absl::ConsumeSuffix(&line, "]");
      blocks.emplace_back(line.substr(line.find_last_of("./[") + 1));
    } else if (const size_t colon = line.find(':'); colon != absl::string_view::npos) {
      std::vector<std::string> path = blocks;
      path.emplace_back(line.substr(0, colon));
      std::string& value = fields[absl::StrJoin(path, ".")];
      absl::StrAppend(&value, value.empty() ? "" : ", ",
                      absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return fields;
}

WatchedRun::WatchedRun(std::string folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {}

bool WatchedRun::Refresh(int64_t max_bytes) {
  const std::string log = JoinPath(folder_, "log");
  for (const std::string& name : NamesIn(log)) {
    // Those of collectors are means of a part of the episodes.
    if (name != "metrics.csv" &&
        !(absl::StartsWith(name, "learner-") && absl::EndsWith(name, ".csv"))) {
      continue;
    }
    const std::string path = JoinPath(log, name);
    const auto is_it = [&path](const MetricsFile& file) { return file.path() == path; };
    if (std::any_of(files_.begin(), files_.end(), is_it)) continue;
    // The coordinator's comes first.
    files_.emplace(name == "metrics.csv" ? files_.begin() : files_.end(), path);
  }
  std::string damage;
  if (files_.empty()) {
    damage = absl::StrCat("'", log, "' has no metrics.csv (metrics { files: false }?)");
  }
  bool changed = false;
  for (MetricsFile& file : files_) {
    const absl::Time written = WrittenAt(file.path());
    const absl::StatusOr<bool> read = file.ReadMore(max_bytes);
    if (read.ok()) {
      changed |= *read;
    } else {
      damage = std::string(read.status().message());
    }
    written_ = std::max(written_, written);
  }
  ReadConfig();
  const std::string end = end_;
  ReadResult(&damage);
  if (!IsDirectory(folder_)) damage = absl::StrCat("'", folder_, "' is no folder any more");
  changed |= damage != damage_ || end != end_;
  damage_ = damage;
  return changed;
}

void WatchedRun::ReadConfig() {
  if (!config_.empty()) return;  // It never changes.
  const auto text = ReadFile(JoinPath(folder_, "total_config.textproto"), kMaxConfigBytes);
  if (!text.ok()) return;
  config_ = FlattenConfig(*text);
  for (const auto& [path, value] : config_) {
    if (!IsOfSeed(path)) absl::StrAppend(&experiment_, path, ": ", value, "\n");
  }
}

void WatchedRun::ReadResult(std::string* damage) {
  end_.clear();  // A resumed run removes its result.
  const auto text = ReadFile(JoinPath(folder_, "result.json"), kMaxConfigBytes);
  if (!text.ok()) return;
  const auto result = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  end_ = "ended";
  if (!result.is_object()) {
    *damage = absl::StrCat("'", folder_, "/result.json' is no JSON object");
    return;
  }
  const auto why = result.find("why");
  if (why != result.end() && why->is_string() && !why->get<std::string>().empty()) {
    end_ = absl::StrCat("ended: ", why->get<std::string>());
  }
}

std::string WatchedRun::State(absl::Time now) const {
  if (ended()) return end_;
  if (written_ == absl::InfinitePast()) return "has not written yet";
  const absl::Duration silent = now - written_;
  if (silent < kSilence) return "running";
  return absl::StrCat("silent for ", absl::FormatDuration(absl::Floor(silent, absl::Minutes(1))));
}

CurveOfRun WatchedRun::FindCurve(absl::string_view tag) const {
  for (const MetricsFile& file : files_) {
    const auto found = file.curves().find(tag);
    if (found == file.curves().end()) continue;
    return {&found->second, files_.front().first_time().value_or(0)};
  }
  return {};
}

absl::StatusOr<bool> WatchedRun::ReadHistograms(int64_t max_bytes) {
  return histograms_.ReadMore(JoinPath(folder_, "log"), max_bytes);
}

std::vector<std::string> WatchedRun::ListLogs() const {
  std::vector<std::string> logs = NamesIn(JoinPath(folder_, "log"));
  logs.erase(std::remove_if(logs.begin(), logs.end(),
                            [](const std::string& name) { return !IsTextLog(name); }),
             logs.end());
  return logs;
}

absl::StatusOr<std::string> WatchedRun::TailLog(const std::string& log, absl::string_view filter,
                                                int max_lines) const {
  const std::vector<std::string> logs = ListLogs();
  if (std::find(logs.begin(), logs.end(), log) == logs.end()) {
    return absl::NotFoundError(absl::StrCat("'", folder_, "' has no log '", log, "'"));
  }
  DING_ASSIGN_OR_RETURN(const auto file,
                        RandomAccessFile::Open(JoinPath(JoinPath(folder_, "log"), log)));
  const int64_t size = std::min(file->size_bytes(), kMaxTailBytes);
  std::string text(static_cast<size_t>(size), '\0');
  DING_RETURN_IF_ERROR(file->ReadAt(file->size_bytes() - size, absl::MakeSpan(text)));
  absl::string_view rest = text;
  // The first line may have begun before the tail.
  if (size < file->size_bytes()) rest.remove_prefix(std::min(rest.find('\n') + 1, rest.size()));
  const std::string lower = absl::AsciiStrToLower(filter);
  const std::vector<std::string> words = absl::StrSplit(lower, ' ', absl::SkipEmpty());
  std::vector<absl::string_view> lines = absl::StrSplit(absl::StripSuffix(rest, "\n"), '\n');
  std::vector<absl::string_view> kept;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (static_cast<int>(kept.size()) == max_lines) break;
    const std::string in = absl::AsciiStrToLower(*line);
    const auto has = [&in](const std::string& word) { return absl::StrContains(in, word); };
    if (std::all_of(words.begin(), words.end(), has)) kept.push_back(*line);
  }
  std::reverse(kept.begin(), kept.end());
  return absl::StrJoin(kept, "\n");
}

std::vector<std::string> WatchedRun::ListVideos() const {
  const std::string folder = JoinPath(folder_, "videos");
  std::vector<std::pair<absl::Time, std::string>> found;
  for (std::string& name : NamesIn(folder)) {
    if (IsVideo(name)) found.emplace_back(WrittenAt(JoinPath(folder, name)), std::move(name));
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> videos;
  for (auto& [time, name] : found) videos.push_back(std::move(name));
  return videos;
}

absl::StatusOr<std::string> WatchedRun::ReadVideo(const std::string& video) const {
  const std::vector<std::string> videos = ListVideos();
  if (std::find(videos.begin(), videos.end(), video) == videos.end()) {
    return absl::NotFoundError(absl::StrCat("'", folder_, "' has no video '", video, "'"));
  }
  return ReadFile(JoinPath(JoinPath(folder_, "videos"), video), kMaxVideoBytes);
}

absl::StatusOr<std::vector<std::string>> FindRuns(const std::string& path) {
  if (IsRun(path)) return std::vector<std::string>{path};
  std::vector<std::string> runs;
  for (const std::string& name : NamesIn(path)) {
    std::string folder = JoinPath(path, name);
    if (IsRun(folder)) runs.push_back(std::move(folder));
  }
  if (!runs.empty()) return runs;
  return absl::NotFoundError(
      absl::StrCat("'", path, "' is no run and has none in it: expected a folder with log/ or ",
                   "total_config.textproto"));
}

std::vector<std::string> NameRuns(const std::vector<std::string>& folders) {
  std::vector<std::vector<std::string>> paths;
  size_t longest = 1;
  for (const std::string& folder : folders) {
    paths.push_back(absl::StrSplit(folder, '/', absl::SkipEmpty()));
    longest = std::max(longest, paths.back().size());
  }
  std::vector<std::string> names;
  for (size_t length = 1; length <= longest; ++length) {
    names.clear();
    for (const std::vector<std::string>& path : paths) {
      names.push_back(absl::StrJoin(path.end() - std::min(length, path.size()), path.end(), "/"));
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

}  // namespace ding
