#include "ding_worker/worker/testing/demonstrations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

}  // namespace

EpisodeSet MakeDemonstrations(int64_t episodes, const std::string& env, const FieldSpec& obs,
                              const FieldSpec& action) {
  const int64_t width = obs.num_elements();
  DING_CHECK(width >= 3 && action.num_elements() == 1)
      << obs.DebugString() << " and " << action.DebugString();
  const int64_t rows = episodes * kDemonstrationRows;
  BatchBuilder builder =
      *BatchBuilder::Create(*MakeSpec({obs, action, Scalar(kColumnReward, DType::kFloat32)}), rows);
  Rng rng(3, "demonstrations");
  for (int64_t row = 0; row < rows; ++row) {
    float* const x = &builder.column<float>(0)[static_cast<size_t>(width * row)];
    x[0] = static_cast<float>(row / kDemonstrationRows);
    for (int64_t i = 1; i < width; ++i) x[i] = static_cast<float>(rng.Uniform(-1, 1));
    const auto at = static_cast<size_t>(row);
    if (action.is_discrete()) {
      builder.column<int64_t>(1)[at] = x[width - 2] + x[width - 1] > 0 ? 1 : 0;
    } else {
      builder.column<float>(1)[at] = x[2];
    }
    builder.column<float>(2)[at] = 1;
  }
  EpisodeSet set;
  set.env = env;
  set.episodes.rows = std::move(builder).Seal(rows);
  BatchBuilder last = *BatchBuilder::Create(*MakeSpec({obs}), episodes);
  for (float& value : last.column<float>(0)) value = 0;
  set.episodes.final_obs = std::move(last).Seal(episodes);
  for (int64_t i = 0; i < episodes; ++i) {
    set.episodes.segments.push_back(
        {i, 0, i * kDemonstrationRows, kDemonstrationRows, SegmentEnd::kTerminated});
  }
  return set;
}

void WriteInFiles(const EpisodeSet& set, int64_t in_file, const std::string& folder) {
  Check(CreateDirectories(folder));
  const std::vector<Segment>& segments = set.episodes.segments;
  const auto episodes = static_cast<int64_t>(segments.size());
  for (int64_t begin = 0; begin < episodes; begin += in_file) {
    const int64_t count = std::min(in_file, episodes - begin);
    EpisodeSet file;
    file.env = set.env;
    file.episodes.final_obs = set.episodes.final_obs.Slice(begin, count);
    int64_t rows = 0;
    for (int64_t i = 0; i < count; ++i) {
      Segment segment = segments[static_cast<size_t>(begin + i)];
      segment.stream = i;
      segment.begin = rows;
      rows += segment.length;
      file.episodes.segments.push_back(segment);
    }
    file.episodes.rows = set.episodes.rows.Slice(segments[static_cast<size_t>(begin)].begin, rows);
    Check(WriteEpisodes(
        JoinPath(folder, absl::StrCat(absl::Dec(begin, absl::kZeroPad4), ".episodes")), file));
  }
}

}  // namespace ding
