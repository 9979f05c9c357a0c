#include "ding_worker/data/episodes.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

constexpr char kType[] = "episodes";
constexpr int64_t kVersion = 1;
// Far beyond any file, far from overflow.
constexpr int64_t kMaxRows = int64_t{1} << 40;

absl::StatusOr<Batch> LoadRows(const SpecPtr& spec, int64_t rows, absl::string_view prefix,
                               StateReader* reader) {
  // Before memory is taken: sizes come from a file.
  for (const FieldSpec& field : spec->fields()) {
    DING_RETURN_IF_ERROR(CheckSavedColumn(*reader, prefix, field, ColumnShape(rows, field.shape)));
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, rows));
  DING_RETURN_IF_ERROR(LoadColumns(prefix, builder.view(), reader));
  return std::move(builder).Seal(rows);
}

absl::Status Save(const EpisodeSet& set, StateWriter* writer) {
  const SegmentBatch& episodes = set.episodes;
  std::vector<int64_t> length;
  std::vector<uint8_t> end;
  for (const Segment& segment : episodes.segments) {
    length.push_back(segment.length);
    end.push_back(static_cast<uint8_t>(segment.end));
  }
  DING_RETURN_IF_ERROR(writer->WriteString("type", kType));
  DING_RETURN_IF_ERROR(writer->WriteInt("version", kVersion));
  DING_RETURN_IF_ERROR(writer->WriteString("env", set.env));
  DING_RETURN_IF_ERROR(SaveSpec(episodes.rows.spec_ptr(), "rows_spec", writer));
  DING_RETURN_IF_ERROR(SaveSpec(episodes.final_obs.spec_ptr(), "final_obs_spec", writer));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("length", length));
  DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>("end", end));
  DING_RETURN_IF_ERROR(SaveColumns(episodes.rows.view(), "rows/", writer));
  return SaveColumns(episodes.final_obs.view(), "final_obs/", writer);
}

template <typename T>
absl::StatusOr<std::vector<T>> ReadVector(absl::string_view name, StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(name));
  std::vector<T> values(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<T>(name, absl::MakeSpan(values)));
  return values;
}

absl::StatusOr<std::vector<Segment>> LoadSegments(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::vector<int64_t> length, ReadVector<int64_t>("length", reader));
  DING_ASSIGN_OR_RETURN(const std::vector<uint8_t> end, ReadVector<uint8_t>("end", reader));
  if (length.size() != end.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'length' is of ", length.size(), " episodes, 'end' of ", end.size()));
  }
  std::vector<Segment> segments;
  int64_t begin = 0;
  for (size_t i = 0; i < length.size(); ++i) {
    const auto segment_end = static_cast<SegmentEnd>(end[i]);
    if (length[i] < 1 || length[i] > kMaxRows - begin ||
        (segment_end != SegmentEnd::kTerminated && segment_end != SegmentEnd::kTruncated)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "episode ", i, " has ", length[i], " rows and end ", end[i],
          ", expected at least 1 row, at most ", kMaxRows, " in all, and an end of 1 or 2"));
    }
    segments.push_back({static_cast<int64_t>(i), 0, begin, length[i], segment_end});
    begin += length[i];
  }
  return segments;
}

absl::StatusOr<EpisodeIndex> LoadIndex(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string type, reader->ReadString("type"));
  if (type != kType) {
    return absl::InvalidArgumentError(
        absl::StrCat("it holds '", type, "', expected '", kType, "'"));
  }
  DING_ASSIGN_OR_RETURN(const int64_t version, reader->ReadInt("version"));
  if (version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has version ", version, ", this program reads version ", kVersion));
  }
  EpisodeIndex index;
  DING_ASSIGN_OR_RETURN(index.env, reader->ReadString("env"));
  DING_ASSIGN_OR_RETURN(index.rows, LoadSpec("rows_spec", reader));
  DING_ASSIGN_OR_RETURN(index.final_obs, LoadSpec("final_obs_spec", reader));
  DING_ASSIGN_OR_RETURN(index.segments, LoadSegments(reader));
  if (index.segments.empty()) {
    return absl::InvalidArgumentError("there are no episodes, expected at least one");
  }
  DING_RETURN_IF_ERROR(reader->Read(
      kSafetensorsChecksum,
      {absl::Span<char>(reinterpret_cast<char*>(&index.checksum), sizeof(index.checksum))}));
  return index;
}

absl::StatusOr<EpisodeSet> Load(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(EpisodeIndex index, LoadIndex(reader));
  EpisodeSet set;
  set.env = std::move(index.env);
  set.checksum = index.checksum;
  set.episodes.segments = std::move(index.segments);
  const Segment& last = set.episodes.segments.back();
  DING_ASSIGN_OR_RETURN(set.episodes.rows,
                        LoadRows(index.rows, last.begin + last.length, "rows/", reader));
  DING_ASSIGN_OR_RETURN(set.episodes.final_obs,
                        LoadRows(index.final_obs, last.stream + 1, "final_obs/", reader));
  DING_RETURN_IF_ERROR(ValidateEpisodes(set.episodes));
  return set;
}

// `read` is what was read of the file at `path`, or the reason why it cannot be read.
template <typename T>
absl::StatusOr<T> OfEpisodes(const std::string& path, absl::StatusOr<T> read) {
  if (read.ok()) return read;
  // The file is there; what it lacks makes it the file of something else.
  const absl::Status status = absl::IsNotFound(read.status())
                                  ? absl::InvalidArgumentError(read.status().message())
                                  : read.status();
  return Annotate(status, absl::StrCat("'", path, "' is not a file of episodes"));
}

}  // namespace

absl::Status ValidateEpisodes(const SegmentBatch& episodes) {
  DING_RETURN_IF_ERROR(ValidateSegments(episodes));
  if (episodes.segments.empty()) {
    return absl::InvalidArgumentError("there are no episodes, expected at least one");
  }
  for (size_t i = 0; i < episodes.segments.size(); ++i) {
    if (episodes.segments[i].end != SegmentEnd::kCut) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("segment ", i, " is cut, expected the end of an episode"));
  }
  return absl::OkStatus();
}

absl::Status WriteEpisodes(const std::string& path, const EpisodeSet& set) {
  DING_RETURN_IF_ERROR(ValidateEpisodes(set.episodes));
  return WriteSafetensors(
             path, [&set](StateWriter* writer) { return Save(set, writer); }, /*metadata=*/{},
             /*self_checked=*/true)
      .status();
}

absl::StatusOr<EpisodeSet> ReadEpisodes(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader,
                        SafetensorsReader::OpenSelfChecked(path));
  return OfEpisodes(path, Load(reader.get()));
}

absl::StatusOr<EpisodeIndex> ReadEpisodeIndex(const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader,
                        SafetensorsReader::Open(path));
  return OfEpisodes(path, LoadIndex(reader.get()));
}

absl::StatusOr<std::vector<double>> EpisodeReturns(const SegmentBatch& episodes) {
  DING_ASSIGN_OR_RETURN(const int reward, episodes.rows.spec().IndexOf(kColumnReward, "episodes"));
  const FieldSpec& field = episodes.rows.spec().field(reward);
  if (field.dtype != DType::kFloat32 || field.shape.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("column '", kColumnReward, "' is ",
                                                   field.DebugString(),
                                                   ", expected float32[], or float32[R]"));
  }
  const auto components = static_cast<size_t>(field.num_elements());
  const absl::Span<const float> rewards = episodes.rows.column<float>(reward);
  std::vector<double> returns;
  for (const Segment& segment : episodes.segments) {
    double sum = 0;
    for (int64_t i = 0; i < segment.length; ++i) {
      const auto row = static_cast<size_t>(segment.begin + i);
      double of_step = 0;
      for (size_t c = 0; c < components; ++c) of_step += rewards[row * components + c];
      sum += of_step;
    }
    returns.push_back(sum);
  }
  return returns;
}

}  // namespace ding
