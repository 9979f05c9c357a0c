// Episodes to learn from, made up for tests.
#ifndef DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_
#define DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_

#include <cstdint>
#include <string>

#include "ding_worker/data/episodes.h"
#include "ding_worker/data/spec.h"

namespace ding {

inline constexpr int64_t kDemonstrationRows = 20;  // of each episode

// `obs` is float32 [4], `action` has 2 or more categories or is a float32 scalar. Observations are
// random, but for the first element, which is the number of the episode; actions are a function of
// the others: category 1 where the sum of the last two is positive, else 0, or the third element.
EpisodeSet MakeDemonstrations(int64_t episodes, const std::string& env = "CartPole-v0",
                              const FieldSpec& obs = Box("obs", {4}),
                              const FieldSpec& action = Discrete("action", 2));

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_
