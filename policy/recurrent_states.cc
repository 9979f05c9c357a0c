#include "ding_worker/policy/recurrent_states.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
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
constexpr int kNoRow = -1;

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

float* RecurrentStates::Find(int env_id) {
  if (env_id < 0 || static_cast<size_t>(env_id) >= rows_.size()) return nullptr;
  const int row = rows_[static_cast<size_t>(env_id)];
  return row == kNoRow ? nullptr : states_.data() + row * size_;
}

absl::Span<float> RecurrentStates::Gather(absl::Span<const int> env_ids) {
  const auto size = static_cast<size_t>(size_);
  gathered_.resize(env_ids.size() * size);
  for (size_t i = 0; i < env_ids.size(); ++i) {
    float* const row = gathered_.data() + i * size;
    if (const float* const state = Find(env_ids[i]); state != nullptr) {
      std::copy_n(state, size, row);
    } else {
      std::fill_n(row, size, 0.0f);
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
    const auto id = static_cast<size_t>(env_ids[i]);
    if (id >= rows_.size()) rows_.resize(id + 1, kNoRow);
    if (rows_[id] == kNoRow) {
      rows_[id] = static_cast<int>(states_.size() / size);
      states_.resize(states_.size() + size);
    }
    std::copy_n(gathered_.data() + i * size, size, Find(env_ids[i]));
  }
}

void RecurrentStates::Reset(absl::Span<const int> env_ids) {
  if (env_ids.empty()) {
    rows_.clear();
    states_.clear();
  }
  for (const int env_id : env_ids) {
    if (float* const state = Find(env_id); state != nullptr) std::fill_n(state, size_, 0.0f);
  }
}

absl::Status RecurrentStates::SaveState(StateWriter* writer) const {
  const auto size = static_cast<size_t>(size_);
  std::vector<float> states(rows_.size() * size);
  for (size_t id = 0; id < rows_.size(); ++id) {
    if (rows_[id] == kNoRow) continue;
    std::copy_n(states_.data() + rows_[id] * size_, size, states.data() + id * size);
  }
  DING_RETURN_IF_ERROR(writer->WriteInt(kSize, size_));
  return writer->WriteSpan<float>(kStates, states);
}

absl::Status RecurrentStates::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t size, reader->ReadInt(kSize));
  if (size != size_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "recurrent states of ", size, " floats, expected ", size_, ": another network saved them"));
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(kStates));
  const int64_t count = NumElements(info.shape);
  if (count % size_ != 0 || count / size_ > kMaxIds) {
    return absl::InvalidArgumentError(absl::StrCat("recurrent states have ", count,
                                                   " floats in all, expected a multiple of ", size_,
                                                   " for at most ", kMaxIds, " envs"));
  }
  std::vector<float> states(static_cast<size_t>(count));
  DING_RETURN_IF_ERROR(reader->ReadSpan<float>(kStates, absl::MakeSpan(states)));
  const int64_t bad = FindNonFinite(states);
  if (bad >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the recurrent state of env ", bad / size_,
                                                   " holds ", states[static_cast<size_t>(bad)]));
  }
  rows_.resize(static_cast<size_t>(count / size_));
  std::iota(rows_.begin(), rows_.end(), 0);
  states_ = std::move(states);
  return absl::OkStatus();
}

}  // namespace ding
