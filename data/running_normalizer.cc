#include "ding_worker/data/running_normalizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kCount[] = "count";
constexpr char kMean[] = "mean";
constexpr char kSquares[] = "sum_of_squares";
constexpr char kStreams[] = "streams";
constexpr char kReturns[] = "returns";
constexpr double kEpsilon = 1e-8;
constexpr int64_t kMaxCount = int64_t{1} << 53;  // up to here float64 has every number of rows
// A RewardScaler only keeps statistics, so the clip of its normalizer is not used.
constexpr double kNoClip = 1e30;

size_t CheckedWidth(int64_t width, double clip) {
  DING_CHECK(width >= 1 && clip > 0) << "width " << width << ", clip " << clip;
  return static_cast<size_t>(width);
}

void ScaleAll(const RunningNormalizer& statistics, absl::Span<float> reward) {
  const double scale = 1 / std::sqrt(statistics.Variance(0) + kEpsilon);
  for (float& value : reward) value = static_cast<float>(value * scale);
}

}  // namespace

RunningNormalizer::RunningNormalizer(int64_t width, double clip)
    : clip_(clip),
      mean_(CheckedWidth(width, clip), 0),
      squares_(mean_.size(), 0),
      scale_(mean_.size(), 1),
      block_mean_(mean_.size(), 0),
      block_squares_(mean_.size(), 0) {}

void RunningNormalizer::Update(absl::Span<const float> values) {
  const absl::Status alone = Update(values, [](absl::Span<double>) { return absl::OkStatus(); });
  DING_CHECK(alone.ok()) << alone.ToString();
}

absl::Status RunningNormalizer::Update(absl::Span<const float> values, GroupSum sum) {
  const size_t width = mean_.size();
  DING_CHECK(values.size() % width == 0) << values.size() << " values for rows of " << width;
  auto rows = static_cast<double>(values.size() / width);
  DING_RETURN_IF_ERROR(sum(absl::MakeSpan(&rows, 1)));
  if (rows == 0) return absl::OkStatus();
  std::fill(block_mean_.begin(), block_mean_.end(), 0);
  std::fill(block_squares_.begin(), block_squares_.end(), 0);
  for (size_t i = 0; i < values.size(); ++i) block_mean_[i % width] += values[i] / rows;
  DING_RETURN_IF_ERROR(sum(absl::MakeSpan(block_mean_)));
  for (size_t i = 0; i < values.size(); ++i) {
    const double deviation = values[i] - block_mean_[i % width];
    block_squares_[i % width] += deviation * deviation;
  }
  DING_RETURN_IF_ERROR(sum(absl::MakeSpan(block_squares_)));
  const auto before = static_cast<double>(count_);
  const double total = before + rows;
  for (size_t i = 0; i < width; ++i) {
    const double difference = block_mean_[i] - mean_[i];
    mean_[i] += difference * rows / total;
    squares_[i] += block_squares_[i] + difference * difference * before * rows / total;
  }
  count_ += static_cast<int64_t>(rows);
  ComputeScale();
  return absl::OkStatus();
}

void RunningNormalizer::Normalize(absl::Span<const float> values, absl::Span<float> out) const {
  const size_t width = mean_.size();
  DING_CHECK(values.size() % width == 0 && values.size() == out.size())
      << values.size() << " values to " << out.size() << " for rows of " << width;
  for (size_t begin = 0; begin < values.size(); begin += width) {
    for (size_t i = 0; i < width; ++i) {
      const double value = (values[begin + i] - mean_[i]) * scale_[i];
      out[begin + i] = static_cast<float>(std::clamp(value, -clip_, clip_));
    }
  }
}

double RunningNormalizer::Variance(int64_t column) const {
  DING_CHECK(column >= 0 && column < width()) << "column " << column << " of " << width();
  return count_ == 0 ? 1 : squares_[static_cast<size_t>(column)] / static_cast<double>(count_);
}

void RunningNormalizer::ComputeScale() {
  for (size_t i = 0; i < scale_.size(); ++i) {
    scale_[i] = count_ == 0 ? 1 : 1 / std::sqrt(Variance(static_cast<int64_t>(i)) + kEpsilon);
  }
}

absl::Status RunningNormalizer::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt(kCount, count_));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>(kMean, mean_));
  return writer->WriteSpan<double>(kSquares, squares_);
}

absl::Status RunningNormalizer::LoadState(StateReader* reader) {
  std::vector<double> mean(mean_.size());
  std::vector<double> squares(squares_.size());
  DING_ASSIGN_OR_RETURN(const int64_t count, reader->ReadInt(kCount));
  DING_RETURN_IF_ERROR(reader->ReadSpan(kMean, absl::MakeSpan(mean)));
  DING_RETURN_IF_ERROR(reader->ReadSpan(kSquares, absl::MakeSpan(squares)));
  const auto sane = [](double value) { return std::isfinite(value); };
  const auto square = [](double value) { return std::isfinite(value) && value >= 0; };
  if (count < 0 || count > kMaxCount || !std::all_of(mean.begin(), mean.end(), sane) ||
      !std::all_of(squares.begin(), squares.end(), square)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the saved statistics of ", count, " rows: expected a count of 0 to ",
                     kMaxCount, ", finite means and finite squares of at least 0"));
  }
  count_ = count;
  mean_ = std::move(mean);
  squares_ = std::move(squares);
  ComputeScale();
  return absl::OkStatus();
}

RewardScaler::RewardScaler(double gamma) : gamma_(gamma), statistics_(1, kNoClip) {}

void RewardScaler::ComputeReturns(absl::Span<const Segment> segments,
                                  absl::Span<const float> reward) {
  returns_.clear();
  for (const Segment& segment : segments) {
    DING_CHECK(IsRange(segment.begin, segment.length, static_cast<int64_t>(reward.size())))
        << "a segment of " << segment.length << " rows from row " << segment.begin << " of "
        << reward.size() << " rewards";
    double& running = running_[segment.stream];
    for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
      running = reward[static_cast<size_t>(row)] + gamma_ * running;
      returns_.push_back(static_cast<float>(running));
    }
    if (segment.end != SegmentEnd::kCut) running = 0;
  }
  DING_CHECK(returns_.size() == reward.size())
      << returns_.size() << " rows in segments, " << reward.size() << " rewards";
}

void RewardScaler::Scale(absl::Span<const Segment> segments, absl::Span<float> reward) {
  ComputeReturns(segments, reward);
  statistics_.Update(returns_);
  ScaleAll(statistics_, reward);
}

void RewardScaler::ScaleBy(const RunningNormalizer& statistics, absl::Span<const Segment> segments,
                           absl::Span<float> reward, absl::Span<float> returns) {
  ComputeReturns(segments, reward);
  std::copy(returns_.begin(), returns_.end(), returns.begin());
  ScaleAll(statistics, reward);
}

absl::Status RewardScaler::SaveState(StateWriter* writer) const {
  std::vector<int64_t> streams;
  std::vector<double> returns;
  for (const auto& [stream, running] : running_) {
    streams.push_back(stream);
    returns.push_back(running);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>(kStreams, streams));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>(kReturns, returns));
  return statistics_.SaveState(writer);
}

absl::Status RewardScaler::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(kStreams));
  std::vector<int64_t> streams(static_cast<size_t>(NumElements(info.shape)));
  std::vector<double> returns(streams.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan(kStreams, absl::MakeSpan(streams)));
  DING_RETURN_IF_ERROR(reader->ReadSpan(kReturns, absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(statistics_.LoadState(reader));
  running_.clear();
  for (size_t i = 0; i < streams.size(); ++i) running_[streams[i]] = returns[i];
  return absl::OkStatus();
}

}  // namespace ding
