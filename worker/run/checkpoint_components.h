// Saves and loads objects with a state as components of a checkpoint.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RUN_CHECKPOINT_COMPONENTS_H_
#define DING_WORKER_WORKER_RUN_CHECKPOINT_COMPONENTS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/state.h"

namespace ding {

// The component that `component` saves; `component` must live until it is copied.
template <typename T>
CheckpointComponent ComponentOf(absl::string_view name, const T* component) {
  return {std::string(name),
          [component](StateWriter* writer) { return component->SaveState(writer); }};
}

// Passes the component named `name` to `load`.
template <typename F>
absl::Status LoadComponent(const CheckpointReader& checkpoint, absl::string_view name, F load) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> reader, checkpoint.Component(name));
  return Annotate(load(reader.get()), absl::StrCat("resume point, ", name));
}
// The same for an object that has LoadState(StateReader*).
template <typename T>
absl::Status LoadComponent(const CheckpointReader& checkpoint, absl::string_view name,
                           T* component) {
  return LoadComponent(checkpoint, name,
                       [component](StateReader* reader) { return component->LoadState(reader); });
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_CHECKPOINT_COMPONENTS_H_
