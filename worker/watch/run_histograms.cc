#include "ding_worker/worker/watch/run_histograms.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/tensorboard.pb.h"

namespace ding {
namespace {

constexpr absl::string_view kEventFile = "events.out.tfevents.";
// The size and its checksum, and the checksum behind the data.
constexpr int64_t kHeadBytes = 12;
constexpr int64_t kFootBytes = 4;
// A larger record, such as a picture, is passed over.
constexpr int64_t kMaxRecordBytes = 1 << 20;
constexpr int64_t kImpossibleBytes = int64_t{1} << 40;

// The event files of each process, whose folder's name begins its tags: learners write the same.
std::map<std::string, std::string> EventFilesBelow(const std::string& folder) {
  std::map<std::string, std::string> prefixes;  // by path
  for (const std::string& name : ListDirectory(folder).value_or(std::vector<std::string>())) {
    const std::string path = JoinPath(folder, name);
    if (absl::StartsWith(name, kEventFile)) prefixes[path] = "";
    if (!IsDirectory(path)) continue;
    for (const std::string& inner : ListDirectory(path).value_or(std::vector<std::string>())) {
      if (absl::StartsWith(inner, kEventFile)) prefixes[JoinPath(path, inner)] = name + ": ";
    }
  }
  return prefixes;
}

RunHistogram ToHistogram(int64_t step, const tensorboard::HistogramProto& histo) {
  RunHistogram histogram;
  const int size = std::min(histo.bucket_size(), histo.bucket_limit_size());
  if (size == 0) return histogram;
  histogram.step = step;
  histogram.edges.push_back(histo.min());
  histogram.edges.insert(histogram.edges.end(), histo.bucket_limit().begin(),
                         histo.bucket_limit().begin() + size);
  histogram.counts.assign(histo.bucket().begin(), histo.bucket().begin() + size);
  return histogram;
}

}  // namespace

absl::StatusOr<bool> RunHistograms::ReadMore(const std::string& folder, int64_t max_bytes) {
  absl::Status damage;
  for (const auto& [path, prefix] : EventFilesBelow(folder)) {
    File* const file = &files_[path];
    const int64_t begin = file->read_bytes;
    const absl::StatusOr<bool> more = ReadFile(path, prefix, file, max_bytes);
    damage.Update(more.status());
    max_bytes -= std::max<int64_t>(0, file->read_bytes - begin);
    if (more.ok() && *more) return true;
  }
  DING_RETURN_IF_ERROR(damage);
  return false;
}

absl::StatusOr<bool> RunHistograms::ReadFile(const std::string& path, const std::string& prefix,
                                             File* file, int64_t max_bytes) {
  DING_ASSIGN_OR_RETURN(const auto opened, RandomAccessFile::Open(path));
  const int64_t size = opened->size_bytes();
  if (size < file->read_bytes) *file = File();
  const auto damaged = [&] {
    file->damaged = true;
    return absl::DataLossError(absl::StrCat("'", path, "' is damaged at byte ", file->read_bytes,
                                            ", so histograms behind it are left out"));
  };
  if (file->damaged) return damaged();
  std::string bytes;
  while (size - file->read_bytes >= kHeadBytes) {
    if (max_bytes <= 0) return true;
    char head[kHeadBytes];
    DING_RETURN_IF_ERROR(opened->ReadAt(file->read_bytes, absl::MakeSpan(head)));
    uint64_t record = 0;  // little endian
    for (int i = 7; i >= 0; --i) record = record << 8 | static_cast<uint8_t>(head[i]);
    if (record > kImpossibleBytes) return damaged();
    const int64_t whole = kHeadBytes + static_cast<int64_t>(record) + kFootBytes;
    if (size - file->read_bytes < whole) break;  // It is being written.
    if (whole <= kMaxRecordBytes) {
      bytes.resize(record);
      DING_RETURN_IF_ERROR(opened->ReadAt(file->read_bytes + kHeadBytes, absl::MakeSpan(bytes)));
      tensorboard::Event event;
      if (!ParseProto(bytes, &event).ok()) return damaged();
      for (const tensorboard::Summary::Value& value : event.summary().value()) {
        if (value.has_histo()) Add(prefix + value.tag(), ToHistogram(event.step(), value.histo()));
      }
    }
    file->read_bytes += whole;
    max_bytes -= whole;
  }
  return false;
}

void RunHistograms::Add(const std::string& tag, RunHistogram histogram) {
  if (histogram.counts.empty()) return;
  std::vector<RunHistogram>& kept = by_tag_[tag];
  // A resumed run repeats steps.
  while (!kept.empty() && kept.back().step >= histogram.step) kept.pop_back();
  int64_t& every = every_.emplace(tag, 1).first->second;
  if (added_[tag]++ % every != 0) return;
  kept.push_back(std::move(histogram));
  if (kept.size() <= kMaxHistograms) return;
  for (size_t i = 1; 2 * i < kept.size(); ++i) kept[i] = std::move(kept[2 * i]);
  kept.resize((kept.size() + 1) / 2);
  every *= 2;
}

}  // namespace ding
