// An all-reduce of a parallel run: "counting" adds as "tcp" does, and logs now and then how many
// numbers its learner has added. All learners of a run must have the same one.
//   policy { learn { all_reduce: "counting" } }
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/all_reduce/all_reduce_registry.h"
#include "ding_worker/interaction/all_reduce/tcp_all_reduce.h"

namespace own {
namespace {

class CountingAllReduce : public ding::AllReduce {
 public:
  explicit CountingAllReduce(std::unique_ptr<ding::AllReduce> base) : base_(std::move(base)) {}

  int rank() const override { return base_->rank(); }
  int world_size() const override { return base_->world_size(); }
  absl::Status Sum(absl::Span<float> values) override {
    Count(values.size());
    return base_->Sum(values);
  }
  absl::Status Sum(absl::Span<double> values) override {
    Count(values.size());
    return base_->Sum(values);
  }
  absl::Status Broadcast(std::string* bytes) override { return base_->Broadcast(bytes); }
  // Any thread may call it.
  void Abort() override { base_->Abort(); }

 private:
  void Count(size_t numbers) {
    numbers_ += static_cast<int64_t>(numbers);
    DING_LOG_IF(INFO, ++sums_ % 100 == 1)
        << "counting: sum " << sums_ << " of rank " << rank() << " of " << world_size() << ", "
        << numbers_ << " numbers so far";
  }

  const std::unique_ptr<ding::AllReduce> base_;
  int64_t sums_ = 0;
  int64_t numbers_ = 0;
};

DING_REGISTER(
    ding::AllReduceRegistry(), "counting",
    [](const ding::AllReduceOptions& options,
       ding::Rendezvous* rendezvous) -> absl::StatusOr<std::unique_ptr<ding::AllReduce>> {
      DING_ASSIGN_OR_RETURN(auto base, ding::ConnectTcp(options, rendezvous));
      return std::make_unique<CountingAllReduce>(std::move(base));
    },
    "adds as \"tcp\", and counts the numbers");

}  // namespace
}  // namespace own
