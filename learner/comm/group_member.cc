#include "ding_worker/learner/comm/group_member.h"

#include <algorithm>
#include <utility>

#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Behind the values: the rows of the ranks, and how many of these failed.
constexpr size_t kTail = 2;

absl::Status AnotherFailed() {
  return absl::AbortedError("another learner of the group could not take this step");
}

}  // namespace

void GroupMember::Enter(std::unique_ptr<AllReduce> generation) {
  rank_ = generation->rank();
  world_size_ = generation->world_size();
  MutexLock lock(&mutex_);
  generation_ = std::move(generation);
  broken_ = false;
}

int64_t GroupMember::ShareOfBatch(int64_t batch_size) const {
  const int64_t share = batch_size / world_size_ + (rank_ < batch_size % world_size_ ? 1 : 0);
  return std::max<int64_t>(share, 1);
}

void GroupMember::Leave() {
  std::shared_ptr<AllReduce> left;
  MutexLock lock(&mutex_);
  left.swap(generation_);
  if (left != nullptr) left->Abort();
}

void GroupMember::Abort() {
  MutexLock lock(&mutex_);
  broken_ = true;
  if (generation_ != nullptr) generation_->Abort();
}

bool GroupMember::broken() const {
  MutexLock lock(&mutex_);
  return broken_;
}

template <typename Call>
absl::Status GroupMember::Run(const Call& call) {
  std::shared_ptr<AllReduce> generation;
  {
    MutexLock lock(&mutex_);
    generation = generation_;
  }
  if (generation == nullptr) {
    return absl::UnavailableError("this learner is in no group at the moment");
  }
  absl::Status status = call(generation.get());
  if (status.ok()) return status;
  MutexLock lock(&mutex_);
  broken_ = true;
  return Annotate(status, "learning together");
}

absl::Status GroupMember::AllReduceMean(absl::Span<double> values) {
  DING_RETURN_IF_ERROR(Run([values](AllReduce* generation) { return generation->Sum(values); }));
  for (double& value : values) value /= world_size_;
  return absl::OkStatus();
}

absl::Status GroupMember::Broadcast(std::string* bytes) {
  return Run([bytes](AllReduce* generation) { return generation->Broadcast(bytes); });
}

absl::Status GroupMember::Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                                  const absl::Status& status) {
  size_t size = 0;
  for (const absl::Span<float> piece : values) size += piece.size();
  flat_.resize(size + kTail);
  const auto weight = static_cast<float>(rows);
  float* to = flat_.data();
  for (const absl::Span<float> piece : values) {
    for (size_t i = 0; i < piece.size(); ++i) to[i] = piece[i] * weight;
    to += piece.size();
  }
  flat_[size] = weight;
  flat_[size + 1] = 0;
  if (!status.ok()) {
    // The values of a step that failed may be anything: they count for nothing.
    std::fill(flat_.begin(), flat_.end(), 0.0f);
    flat_[size + 1] = 1;
  }
  const absl::Status summed =
      Run([this](AllReduce* generation) { return generation->Sum(absl::MakeSpan(flat_)); });
  if (!status.ok()) return status;
  DING_RETURN_IF_ERROR(summed);
  if (flat_[size + 1] > 0) return AnotherFailed();
  const float share = 1 / flat_[size];
  const float* from = flat_.data();
  for (const absl::Span<float> piece : values) {
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = from[i] * share;
    from += piece.size();
  }
  return absl::OkStatus();
}

absl::Status GroupMember::Sum(absl::Span<double> values, const absl::Status& status) {
  std::vector<double> sums(values.begin(), values.end());
  sums.push_back(status.ok() ? 0 : 1);  // how many have failed
  const absl::Status summed =
      Run([&sums](AllReduce* generation) { return generation->Sum(absl::MakeSpan(sums)); });
  if (!status.ok()) return status;
  DING_RETURN_IF_ERROR(summed);
  if (sums.back() > 0) return AnotherFailed();
  std::copy(sums.begin(), sums.end() - 1, values.begin());
  return absl::OkStatus();
}

}  // namespace ding
