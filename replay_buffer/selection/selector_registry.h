// Finds selectors by the name in a buffer's config. //replay_buffer:uniform_selector_factory registers
// "uniform".
//
// Example:
//   DING_REGISTER(
//       SelectorRegistry(), "newest_first",
//       [](const SelectorConfig&) { return std::make_unique<NewestFirst>(); },
//       "the newest rows, in the order of their age");
//
//   replay_buffer { type: "sequence" selector { type: "newest_first" } }
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_REGISTRY_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {

// Makes a selector from `params` of the config. An error lists all problems of `params`.
using SelectorFactory =
    std::function<absl::StatusOr<std::unique_ptr<ISelector>>(const SelectorConfig&)>;
Registry<SelectorFactory>& SelectorRegistry();

// Creates the selector that `config` names. Returns null if it names none: the buffer then uses its own.
//   kNotFound         no linked selector has this name; the message lists the names that are linked
//   kInvalidArgument  `params` is set without a type, or the factory reports problems
absl::StatusOr<std::unique_ptr<ISelector>> create_selector(const SelectorConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTOR_REGISTRY_H_
