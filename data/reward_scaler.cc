#include "ding_worker/data/reward_scaler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kStreams[] = "streams";
constexpr char kReturns[] = "returns";
constexpr double kEpsilon = 1e-8;
// The normalizer only keeps statistics, so its clip is not used.
constexpr double kNoClip = 1e30;

void ScaleAll(const RunningNormalizer& statistics, absl::Span<float> reward) {
  const double scale = 1 / std::sqrt(statistics.Variance(0) + kEpsilon);
  for (float& value : reward) value = static_cast<float>(value * scale);
}

}  // namespace

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
