#include "ding_worker/interaction/all_reduce/in_process_all_reduce.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

// The state that the ranks share. The ranks meet in each call: the last rank to arrive does the
// work for all of them, while the others wait.
class InProcessAllReduceHub::Group {
 public:
  enum class Kind { kFloats, kDoubles, kBytes };
  // One rank's part of a call: where its values are.
  struct Call {
    Kind kind = Kind::kFloats;
    void* values = nullptr;
    size_t size = 0;
  };
  using Work = std::function<absl::Status(const std::vector<Call>& calls)>;

  Group(std::string name, int world_size)
      : name_(std::move(name)), calls_(static_cast<size_t>(world_size)) {}

  int world_size() const { return static_cast<int>(calls_.size()); }

  absl::Status Enter(int rank) {
    MutexLock lock(&mutex_);
    if (!ranks_.emplace(rank, true).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("all-reduce group '", name_, "' already has a rank ", rank));
    }
    return absl::OkStatus();
  }

  absl::Status Run(int rank, absl::Duration timeout, const Call& call, const Work& work) {
    const Deadline deadline = Deadline::After(timeout);
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(dead_);
    calls_[static_cast<size_t>(rank)] = call;
    const int64_t round = round_;
    if (++arrived_ == world_size()) {
      arrived_ = 0;
      ++round_;
      result_ = SameKind() ? work(calls_)
                           : absl::InvalidArgumentError(absl::StrCat(
                                 "all-reduce group '", name_,
                                 "': the ranks made calls of different kinds, expected "
                                 "the same call with the same type of values"));
      dead_ = result_;
      changed_.SignalAll();
      return result_;
    }
    while (dead_.ok() && round_ == round && changed_.WaitUntil(&mutex_, deadline)) {
    }
    if (dead_.ok() && round_ == round) {
      EndGroup(absl::DeadlineExceededError(absl::StrCat(
          "all-reduce group '", name_, "': ", world_size() - arrived_, " of ", world_size(),
          " ranks did not make the call within ", absl::FormatDuration(timeout))));
    }
    // The round is over; a rank that has left since ended only the later ones.
    return round_ == round ? dead_ : result_;
  }

  void Leave(int rank) {
    MutexLock lock(&mutex_);
    EndGroup(absl::UnavailableError(
        absl::StrCat("all-reduce group '", name_, "': rank ", rank, " is gone")));
  }

 private:
  bool SameKind() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(calls_.begin(), calls_.end(),
                       [this](const Call& call) { return call.kind == calls_.front().kind; });
  }
  void EndGroup(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (dead_.ok()) dead_ = why;
    changed_.SignalAll();
  }

  const std::string name_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, bool> ranks_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_;  // the size is constant; mutex_ guards the contents
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);  // of the last round
  absl::Status dead_ ABSL_GUARDED_BY(mutex_);
};

namespace {

template <typename T, typename Call>
absl::Status SumAll(const std::vector<Call>& calls) {
  std::vector<T> sum(calls.front().size, T{0});
  for (const Call& call : calls) {
    if (call.size != sum.size()) {
      return absl::InvalidArgumentError(absl::StrCat("all-reduce: one rank has ", call.size,
                                                     " values, rank 0 has ", sum.size(),
                                                     ", expected the same number in all ranks"));
    }
    const T* const values = static_cast<const T*>(call.values);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  for (const Call& call : calls) std::copy(sum.begin(), sum.end(), static_cast<T*>(call.values));
  return absl::OkStatus();
}

}  // namespace

class InProcessAllReduceHub::Rank : public AllReduce {
 public:
  Rank(const AllReduceOptions& options, std::shared_ptr<Group> group)
      : options_(options), group_(std::move(group)) {}
  ~Rank() override { group_->Leave(options_.rank); }

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }

  absl::Status Sum(absl::Span<float> values) override {
    return group_->Run(options_.rank, options_.timeout,
                       {Group::Kind::kFloats, values.data(), values.size()},
                       SumAll<float, Group::Call>);
  }
  absl::Status Sum(absl::Span<double> values) override {
    return group_->Run(options_.rank, options_.timeout,
                       {Group::Kind::kDoubles, values.data(), values.size()},
                       SumAll<double, Group::Call>);
  }
  absl::Status Broadcast(std::string* bytes) override {
    return group_->Run(options_.rank, options_.timeout, {Group::Kind::kBytes, bytes, 0},
                       [](const std::vector<Group::Call>& calls) {
                         const auto* const from = static_cast<const std::string*>(calls[0].values);
                         for (size_t i = 1; i < calls.size(); ++i) {
                           *static_cast<std::string*>(calls[i].values) = *from;
                         }
                         return absl::OkStatus();
                       });
  }
  void Abort() override { group_->Leave(options_.rank); }

 private:
  const AllReduceOptions options_;
  const std::shared_ptr<Group> group_;
};

InProcessAllReduceHub::InProcessAllReduceHub() = default;
InProcessAllReduceHub::~InProcessAllReduceHub() = default;

absl::StatusOr<std::unique_ptr<AllReduce>> InProcessAllReduceHub::Connect(
    const AllReduceOptions& options) {
  DING_RETURN_IF_ERROR(CheckAllReduceOptions(options));
  std::shared_ptr<Group> group;
  {
    MutexLock lock(&mutex_);
    std::shared_ptr<Group>& found = groups_[options.group];
    if (found == nullptr) found = std::make_shared<Group>(options.group, options.world_size);
    group = found;
  }
  if (group->world_size() != options.world_size) {
    return absl::AlreadyExistsError(absl::StrCat("all-reduce group '", options.group, "' has ",
                                                 group->world_size(), " ranks, not ",
                                                 options.world_size));
  }
  DING_RETURN_IF_ERROR(group->Enter(options.rank));
  auto rank = std::make_unique<Rank>(options, group);
  // The broadcast returns when all ranks are connected.
  std::string nothing;
  DING_RETURN_IF_ERROR(rank->Broadcast(&nothing));
  return rank;
}

}  // namespace ding
