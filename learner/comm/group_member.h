// A learner's membership in a group of learners. BaseLearner uses it as its ProcessGroup, and the
// policy as its GradientReducer. The learner enters and leaves one generation of the group after
// another; in between it is alone.
//
//     Average(gradients) ──► [gradients * rows | rows | failed] ──Sum──► mean, or an error in all
//
// Threads: thread-compatible, except for Abort() and broken(), which any thread may call.
// Errors:  as AllReduce; they break the generation. A failed step of another learner (kAborted)
//          does not break it.
#ifndef DING_WORKER_LEARNER_COMM_GROUP_MEMBER_H_
#define DING_WORKER_LEARNER_COMM_GROUP_MEMBER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class GroupMember : public ProcessGroup, public GradientReducer {
 public:
  // Enters a new generation, which replaces the previous one.
  void Enter(std::unique_ptr<AllReduce> generation) ABSL_LOCKS_EXCLUDED(mutex_);
  // Leaves the generation. Calls of the other ranks that wait for this one then return an error.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);
  // Breaks the generation: calls that wait for other ranks return an error.
  void Abort() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there was an error, or Abort(), since Enter().
  bool broken() const ABSL_LOCKS_EXCLUDED(mutex_);

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  // This rank's share of the group's batch, at least 1; the first ranks have one row more if it
  // cannot be divided.
  int64_t ShareOfBatch(int64_t batch_size) const;
  absl::Status AllReduceMean(absl::Span<double> values) override;
  absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                       const absl::Status& status) override;
  absl::Status Sum(absl::Span<double> values, const absl::Status& status) override;
  // Replaces `bytes` with the bytes of rank 0.
  absl::Status Broadcast(std::string* bytes);

 private:
  template <typename Call>
  absl::Status Run(const Call& call) ABSL_LOCKS_EXCLUDED(mutex_);

  int rank_ = 0;
  int world_size_ = 1;
  std::vector<float> flat_;  // working memory, kept between calls
  mutable Mutex mutex_;
  std::shared_ptr<AllReduce> generation_ ABSL_GUARDED_BY(mutex_);
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_GROUP_MEMBER_H_
