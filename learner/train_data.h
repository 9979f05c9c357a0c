// The next batch for a learner, and the env steps collected when it was drawn.
#ifndef DING_WORKER_LEARNER_TRAIN_DATA_H_
#define DING_WORKER_LEARNER_TRAIN_DATA_H_

#include <cstdint>
#include <string>
#include <utility>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"

namespace ding {

struct TrainData {
  TrainData() = default;
  TrainData(Batch data, int64_t collected = -1)  // NOLINT: converts a batch without settings.
      : batch(std::move(data)), envstep(collected) {}

  Batch batch;
  int64_t envstep = -1;  // env steps collected so far; -1: unknown
  NamedValues settings;  // settings of the learn mode, such as the learning rate
  std::string items;     // the items (data/items.h) of which it was made, encoded; empty: none
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_TRAIN_DATA_H_
