#include "ding_worker/policy/recurrent_states.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

constexpr char kSize[] = "size";
constexpr char kStates[] = "states";

}  // namespace

absl::Status RecurrentStates::CheckIds(absl::Span<const int> env_ids, int64_t rows) {
  if (static_cast<int64_t>(env_ids.size()) != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(env_ids.size(), " env ids for ", rows,
                     " observations, expected one id for each, because each env has a state"));
  }
  for (const int env_id : env_ids) {
    if (env_id >= 0 && env_id < kMaxIds) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the env id is ", env_id, ", expected 0 to ", kMaxIds - 1));
  }
  return absl::OkStatus();
}

absl::Span<float> RecurrentStates::Gather(absl::Span<const int> env_ids) {
  const auto size = static_cast<size_t>(size_);
  gathered_.resize(env_ids.size() * size);
  for (size_t i = 0; i < env_ids.size(); ++i) {
    const size_t begin = static_cast<size_t>(env_ids[i]) * size;
    float* const row = gathered_.data() + i * size;
    if (begin >= states_.size()) {
      std::fill_n(row, size, 0.0f);
    } else {
      std::copy_n(states_.data() + begin, size, row);
    }
  }
  return absl::MakeSpan(gathered_);
}

void RecurrentStates::Scatter(absl::Span<const int> env_ids) {
  const auto size = static_cast<size_t>(size_);
  DING_CHECK(gathered_.size() == env_ids.size() * size)
      << env_ids.size() << " envs, but states of " << gathered_.size() / size;
  for (size_t i = 0; i < env_ids.size(); ++i) {
    DING_CHECK(env_ids[i] >= 0 && env_ids[i] < kMaxIds) << "env id " << env_ids[i];
    const size_t begin = static_cast<size_t>(env_ids[i]) * size;
    if (begin >= states_.size()) states_.resize(begin + size);
    std::copy_n(gathered_.data() + i * size, size, states_.data() + begin);
  }
}

void RecurrentStates::Reset(absl::Span<const int> env_ids) {
  if (env_ids.empty()) states_.clear();
  const auto size = static_cast<size_t>(size_);
  for (const int env_id : env_ids) {
    const size_t begin = static_cast<size_t>(env_id) * size;
    if (begin < states_.size()) std::fill_n(states_.data() + begin, size, 0.0f);
  }
}

absl::Status RecurrentStates::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt(kSize, size_));
  return writer->WriteSpan<float>(kStates, states_);
}

absl::Status RecurrentStates::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t size, reader->ReadInt(kSize));
  if (size != size_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "recurrent states of ", size, " floats, expected ", size_, ": another network saved them"));
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(kStates));
  const int64_t count = NumElements(info.shape);
  if (count % size_ != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "recurrent states have ", count, " floats in all, expected a multiple of ", size_));
  }
  std::vector<float> states(static_cast<size_t>(count));
  DING_RETURN_IF_ERROR(reader->ReadSpan<float>(kStates, absl::MakeSpan(states)));
  const int64_t bad = FindNonFinite(states);
  if (bad >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the recurrent state of env ", bad / size_,
                                                   " holds ", states[static_cast<size_t>(bad)]));
  }
  states_ = std::move(states);
  return absl::OkStatus();
}

}  // namespace ding
