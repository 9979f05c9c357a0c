// Synthetic episodes to learn from, for tests.
#ifndef DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_
#define DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_

#include <cstdint>
#include <string>

#include "ding_worker/data/episodes.h"
#include "ding_worker/data/spec.h"

namespace ding {

inline constexpr int64_t kDemonstrationRows = 20;  // in each episode

// Makes `episodes` episodes. `obs` is float32 with 3 or more elements; `action` has 2 or more
// categories or is a float32 with one element. Observations are random, except for their first
// element, which is the number of the episode. Actions are a function of the other elements:
// category 1 if the sum of the last two is positive, else category 0; another action is the third
// element.
EpisodeSet MakeDemonstrations(int64_t episodes, const std::string& env = "CartPole-v0",
                              const FieldSpec& obs = Box("obs", {4}),
                              const FieldSpec& action = Discrete("action", 2));

// Writes the episodes as a folder of files, each with `in_file` of them.
void WriteInFiles(const EpisodeSet& set, int64_t in_file, const std::string& folder);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_DEMONSTRATIONS_H_
