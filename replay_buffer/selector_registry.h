// Finds selectors by the name in a buffer's config. "uniform" is registered by //replay_buffer:uniform_selector_factory.
//
// Example:
//   DING_REGISTER(SelectorRegistry(), "newest_first",
//                 [](const SelectorConfig&) { return std::make_unique<NewestFirst>(); });
//
//   replay_buffer { type: "sequence" selector { type: "newest_first" } }
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTOR_REGISTRY_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTOR_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selector.h"

namespace ding {

// Makes a selector, or reports every problem of the config's `params` at once.
using SelectorFactory =
    std::function<absl::StatusOr<std::unique_ptr<ISelector>>(const SelectorConfig&)>;
Registry<SelectorFactory>& SelectorRegistry();

// Null if `config` names no type: the buffer then has its own.
//   kNotFound         the name is not linked; the message lists those that are
//   kInvalidArgument  `params` without a type, and what the factory reports
absl::StatusOr<std::unique_ptr<ISelector>> create_selector(const SelectorConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTOR_REGISTRY_H_
