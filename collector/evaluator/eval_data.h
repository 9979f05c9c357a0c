// Labelled data to evaluate a policy on. Batches are requested by number, so that they can be read from
// files when needed.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_EVAL_DATA_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_EVAL_DATA_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/data/batch.h"

namespace ding {

struct LabelledBatch {
  Batch input;  // the observations
  Batch label;  // the labels, with as many rows
};

class IEvalData {
 public:
  virtual ~IEvalData() = default;

  // The number of batches.
  virtual int64_t size() const = 0;
  // Returns batch `index`; it is the same each time. kOutOfRange unless it is 0 to size() - 1.
  virtual absl::StatusOr<LabelledBatch> Get(int64_t index) = 0;
};

// Batches in memory.
class EvalDataInMemory : public IEvalData {
 public:
  explicit EvalDataInMemory(std::vector<LabelledBatch> batches) : batches_(std::move(batches)) {}

  int64_t size() const override { return static_cast<int64_t>(batches_.size()); }
  absl::StatusOr<LabelledBatch> Get(int64_t index) override {
    if (index >= 0 && index < size()) return batches_[static_cast<size_t>(index)];
    return absl::OutOfRangeError(absl::StrCat("there is no batch ", index, ", only ", size()));
  }

 private:
  const std::vector<LabelledBatch> batches_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_EVAL_DATA_H_
