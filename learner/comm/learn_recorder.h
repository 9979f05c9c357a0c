// Gets all that the parameters of a learner depend on, in the order in which the learner uses it. The implementation
// (worker/parallel_run/recording.h) reports its errors itself: a recording never disturbs the learner.
//
// Threads: any thread may call AddChunk(); the learner's thread calls the others.
#ifndef DING_WORKER_LEARNER_COMM_LEARN_RECORDER_H_
#define DING_WORKER_LEARNER_COMM_LEARN_RECORDER_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/train_data.h"

namespace ding {

class LearnRecorder {
 public:
  virtual ~LearnRecorder() = default;

  // The bytes of a chunk that items may name. A chunk may be added more than once.
  virtual void AddChunk(int64_t chunk, absl::string_view bytes) = 0;
  // The batch that the learner uses next, with its items; their chunks were added before.
  virtual void AddBatch(const ILearner& learner, const TrainData& data) = 0;
  // What hooks are shown before the next batch.
  virtual void AddEvaluation(const EvaluationResult& result) = 0;
  // A version with the parameters that the learner has now. The first call, before the first batch, shows the learner as it
  // begins.
  virtual void AddVersion(const PolicyVersion& version, const ILearner& learner) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_LEARN_RECORDER_H_
