// What a learner trains on next: a batch, and how far collecting had come when it was drawn.
#ifndef DING_WORKER_LEARNER_TRAIN_DATA_H_
#define DING_WORKER_LEARNER_TRAIN_DATA_H_

#include <cstdint>
#include <utility>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"

namespace ding {

struct TrainData {
  TrainData() = default;
  TrainData(Batch data, int64_t collected = -1)  // NOLINT: a batch of which no more is known.
      : batch(std::move(data)), envstep(collected) {}

  Batch batch;
  int64_t envstep = -1;  // env steps collected so far; -1: not known
  NamedValues settings;  // how to learn from it: the learning rate, say
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_TRAIN_DATA_H_
