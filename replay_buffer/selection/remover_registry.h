// Finds removers by the name in a buffer's config. This repository registers none: the buffer removes what is
// too stale or used up by itself.
//
// Example:
//   DING_REGISTER(
//       RemoverRegistry(), "odd", [](const RemoverConfig&) { return std::make_unique<RemoveOdd>(); },
//       "removes every second row");
//
//   replay_buffer { type: "advanced" remover { type: "odd" } }
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_REGISTRY_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/remover.h"

namespace ding {

// Makes a remover from `params` of the config. An error lists all problems of `params`.
using RemoverFactory =
    std::function<absl::StatusOr<std::unique_ptr<IRemover>>(const RemoverConfig&)>;
Registry<RemoverFactory>& RemoverRegistry();

// Creates the remover that `config` names. Returns null if it names none.
//   kNotFound         no linked remover has this name; the message lists the names that are linked
//   kInvalidArgument  `params` is set without a type, or the factory reports problems
//   kInternal         the factory threw or returned null; the message names the type
absl::StatusOr<std::unique_ptr<IRemover>> create_remover(const RemoverConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_REMOVER_REGISTRY_H_
