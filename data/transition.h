// Transitions: as values that a user pushes to a buffer (Transition), and the order of their
// columns in a batch (TransitionLayout).
//
// Ownership: values.   Threads: thread-compatible; the functions are pure.
//
// Example:
//   std::vector<Transition> steps(2);
//   steps[0].Set("obs", {0.1f, 0.2f}).Set("action", 1).Set("reward", 1.0);
//   steps[1].Set("obs", {0.3f, 0.4f}).Set("action", 0).Set("reward", 1.0);
//   steps[1].Set("next_obs", {0.5f, 0.6f});
//   steps[1].end = SegmentEnd::kTerminated;
//   DING_RETURN_IF_ERROR(buffer->Push(steps, /*cur_collector_envstep=*/2));
#ifndef DING_WORKER_DATA_TRANSITION_H_
#define DING_WORKER_DATA_TRANSITION_H_

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {

// One step of an env as named values, for programs that get their steps one by one. Collectors
// write columns instead, which is faster.
//
// A value is a field of the rows: "obs" or several "obs/...", "action", "reward", and further
// stored fields. "next_obs" ("next_obs/...") is the observation after the step.
struct Transition {
  TensorMap values;
  SegmentEnd end = SegmentEnd::kCut;  // kCut: the episode goes on after this step

  // Sets a value, and returns this transition. Numbers are stored as DI-engine's to_tensor does:
  // floating-point ones as float32, bool as bool, other integers as int64. A tensor keeps its type.
  Transition& Set(absl::string_view name, Tensor value) {
    values.Set(name, std::move(value));
    return *this;
  }
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Transition& Set(absl::string_view name, T number) {
    return SetNumbers(name, {}, absl::MakeConstSpan(&number, 1));
  }
  template <typename T>
  Transition& Set(absl::string_view name, const std::vector<T>& numbers) {
    return SetNumbers(name, {static_cast<int64_t>(numbers.size())}, absl::MakeConstSpan(numbers));
  }
  template <typename T>
  Transition& Set(absl::string_view name, std::initializer_list<T> numbers) {
    return Set(name, std::vector<T>(numbers));
  }

 private:
  template <typename T>
  Transition& SetNumbers(absl::string_view name, Shape shape, absl::Span<const T> numbers) {
    using Stored =
        std::conditional_t<std::is_floating_point_v<T>, float,
                           std::conditional_t<std::is_same_v<T, bool>, uint8_t, int64_t>>;
    Tensor value =
        Tensor::Zeros(std::is_same_v<T, bool> ? DType::kBool : kDTypeOf<Stored>, std::move(shape));
    for (size_t i = 0; i < numbers.size(); ++i) {
      value.mutable_data<Stored>()[i] = static_cast<Stored>(numbers[i]);
    }
    return Set(name, std::move(value));
  }
};

// The default stream of MakeSegments(). Collectors use streams from 0 on, so the two do not mix.
inline constexpr int64_t kTransitionStream = -1;

// Returns the steps, in their order, as segments of a stream that begins with step `first_step`. A
// segment continues with the next transition, unless a transition ends its episode or its
// "next_obs" is not the "obs" of the next transition. The last step of a segment must have
// "next_obs". Where an episode is cut within a call, one step number is left out, so that buffers
// do not link across the cut. To continue an earlier call, pass its stream and the step after its
// last segment (first_step + length).
//
// The rows have the fields of `rows`. If it is null, they have the fields of the first transition:
// the observation, then the other values in their order. Pass the spec of a collector's rows to mix
// both kinds of rows in a buffer.
//   kInvalidArgument  a transition has other values than the first one or `rows`, or lacks
//                     "next_obs"; the message has its number and the name of the value
absl::StatusOr<SegmentBatch> MakeSegments(absl::Span<const Transition> transitions,
                                          int64_t stream = kTransitionStream,
                                          int64_t first_step = 0, SpecPtr rows = nullptr);

// The order of the columns of a batch of transitions (data/sample_columns.h):
//
//   the fields of the rows | "next_" + each observation field | discount | n_step |
//   replay_unique_id | added columns
//
// An added column that the rows also have, with the same dtype and shape, replaces the column of
// the rows in its position. Batches of items (data/items.h) have no next_, discount and n_step.
struct TransitionLayout {
  SpecPtr spec;             // the spec of the batches
  std::vector<int> stored;  // fields of the rows that no added column replaces
  int reward = -1;          // -1 for items; float32 [], or [R] for rewards of R components
  int first_next_obs = 0;
  int discount = 0;
  int n_step = 0;
  int replay_unique_id = 0;
};

// Makes the layout of batches from `rows`, whose first `obs_fields` fields are the observation, and
// the columns `added`.
//   kInvalidArgument  the rows have no "reward" of float32[] or float32[R], an observation field is
//                     not named "obs" or "obs/...", or a field has the name of a column that is
//                     added here; items: a field is missing or wrong
absl::StatusOr<TransitionLayout> MakeTransitionLayout(const Spec& rows, int obs_fields,
                                                      absl::Span<const FieldSpec> added);

}  // namespace ding

#endif  // DING_WORKER_DATA_TRANSITION_H_
