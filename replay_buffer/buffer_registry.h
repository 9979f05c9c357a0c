// The registries of buffers, selectors and removers, which configs name, and helpers that all
// factories of buffers share.
//
// Example:
//   BufferConfig config;
//   config.set_type("naive");
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> buffer, create_buffer(config, deps));
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/items.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/row_files.h"

namespace ding {

// What a buffer needs besides its config. Converts implicitly from ComponentDeps.
struct BufferDeps : ComponentDeps {
  BufferDeps() = default;
  BufferDeps(ComponentDeps component) : ComponentDeps(std::move(component)) {}  // NOLINT: see above

  OnRemoved on_removed;  // for buffers of items
};

// In a parallel run the coordinator holds no rows. It replaces a buffer of sequences by this buffer
// of items (data/items.h). Each item stands for a sequence of rows; collectors announce items, and
// learners read the rows of an item as a whole.
//
//     config    "sequence" { unroll_len: 20 overlap: 10 priority {} }, replay_buffer_size 100000
//     config    "advanced", replay_buffer_size 10000       of the buffer of items
//     items     {chunk 7, row 0, length 20}, {chunk 7, row 10, length 20}, ...
struct ItemBuffer {
  BufferConfig config;      // a type with tells_removed_items
  ItemSequences sequences;  // how collectors cut their rows into items
};

// A type of buffer (base/module.h).
struct BufferDescriptor : Module<std::unique_ptr<IBuffer>, BufferConfig, const BufferDeps&> {
  bool tells_removed_items = false;  // whether `create` uses BufferDeps::on_removed
  bool takes_remover = false;        // whether `create` uses the config's remover
  // For types that draw sequences or whole episodes: returns the buffer of items that replaces the
  // buffer in a parallel run. Returns kInvalidArgument, with a sentence, for a setting that a
  // buffer of items does not support. It is called after `create` has accepted the config. Empty:
  // each row is an item.
  std::function<absl::StatusOr<ItemBuffer>(const BufferConfig&)> items = nullptr;
};
inline ModuleRegistry<BufferDescriptor>& BufferRegistry() {
  static auto* const registry = new ModuleRegistry<BufferDescriptor>("buffer");
  return *registry;
}

// Create a buffer, and find its type. Return the errors of ModuleRegistry::Create(), and
//   kInvalidArgument  the config has problems (the message lists all of them), or this type of
//                     buffer does not support a given on_removed or remover
absl::StatusOr<std::unique_ptr<IBuffer>> create_buffer(const BufferConfig& config,
                                                       const BufferDeps& deps);
inline absl::StatusOr<BufferDescriptor> get_buffer_cls(const BufferConfig& config) {
  return BufferRegistry().Find(config.type());
}

// Helpers for factories of buffers. They append a sentence to `problems` for each problem.

// Makes the selector that the config names. Null if it names none, or after a problem.
std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems);

// Makes the remover that the config names. Null if it names none, or after a problem. For types of
// buffer with BufferDescriptor::takes_remover.
std::shared_ptr<IRemover> ReadRemover(const BufferConfig& config,
                                      std::vector<std::string>* problems);

// Opens the folder of a buffer whose rows lie on disk. Null if the config has no such folder, or
// after a problem.
std::shared_ptr<RowFiles> ReadStorage(const BufferConfig& config, const ComponentDeps& deps,
                                      absl::string_view name, std::vector<std::string>* problems);

// Reads the settings that all types of buffer have under the same names. If the config sets no
// capacity, the capacity in `*options` stays.
template <typename Options>
void ReadCommonOptions(const BufferConfig& config, const ComponentDeps& deps, Options* options,
                       std::vector<std::string>* problems) {
  if (config.has_replay_buffer_size()) options->capacity_rows = config.replay_buffer_size();
  if (config.has_replay_buffer_bytes()) options->capacity_bytes = config.replay_buffer_bytes();
  options->nstep = config.nstep();
  options->gamma = config.discount_factor();
  options->metrics = deps.metrics;
  options->periodic_thruput_seconds = config.periodic_thruput_seconds();
  options->clock = deps.clock;
  options->seed = deps.seed;
  if (!deps.name.empty()) options->name = deps.name;
  options->selector = ReadSelector(config, problems);
  options->files = ReadStorage(config, deps, options->name, problems);
}

// Reads the settings of prioritized draws from a message that has them.
template <typename Config>
void ReadPriorityOptions(const Config& config, PriorityOptions* options) {
  options->alpha = config.alpha();
  options->beta = config.beta();
  options->anneal_step = config.anneal_step();
}

// Selectors. //replay_buffer:selector_factory registers "uniform".
//
// Example:
//   DING_REGISTER(
//       SelectorRegistry(), "newest_first",
//       [](const SelectorConfig&, const NoParams&) { return std::make_unique<NewestFirst>(); },
//       "the newest rows, in the order of their age");
//
//   replay_buffer { type: "sequence" selector { type: "newest_first" } }
using SelectorFactory = Module<std::unique_ptr<ISelector>, SelectorConfig>;
inline ModuleRegistry<SelectorFactory>& SelectorRegistry() {
  static auto* const registry = new ModuleRegistry<SelectorFactory>("selector");
  return *registry;
}

// Removers. This repository registers none, because buffers themselves remove rows that are too
// stale or used too often. An "advanced" buffer takes one:
//
//   replay_buffer { type: "advanced" remover { type: "odd" } }
using RemoverFactory = Module<std::unique_ptr<IRemover>, RemoverConfig>;
inline ModuleRegistry<RemoverFactory>& RemoverRegistry() {
  static auto* const registry = new ModuleRegistry<RemoverFactory>("remover");
  return *registry;
}

// Make what `config` names, with the errors of ModuleRegistry::Create(). Null if `config` names
// nothing: the buffer then uses its own selector, or has no remover. kInvalidArgument if `params`
// is set without a type.
absl::StatusOr<std::unique_ptr<ISelector>> create_selector(const SelectorConfig& config);
absl::StatusOr<std::unique_ptr<IRemover>> create_remover(const RemoverConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_
