// Draws random legal actions, for random policies, random opponents and the conformance suite of
// envs.
//
// A mask has one element per category, 0 for an illegal one; the categories of a field with several
// elements follow one another:
//
//     field  MultiDiscrete {2, 3}
//     mask   [1 1 | 0 1 1]          category 0 of element 1 is illegal
//
// Threads: thread-safe.
#ifndef DING_WORKER_DATA_DRAW_CATEGORIES_H_
#define DING_WORKER_DATA_DRAW_CATEGORIES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Draws every element of one row of the discrete `field` uniformly from its legal categories; an empty
// mask allows all. kInvalidArgument if an element has no legal category.
absl::Status DrawCategories(const FieldSpec& field, absl::Span<const uint8_t> mask, Rng* rng,
                            absl::Span<int64_t> row);

}  // namespace ding

#endif  // DING_WORKER_DATA_DRAW_CATEGORIES_H_
