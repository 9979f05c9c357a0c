// The registry of replay buffers, which finds a type of buffer by the name in its config.
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

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/items.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/items/removed_items.h"

namespace ding {

// The dependencies of a buffer, beside its config. Converts implicitly from ComponentDeps.
struct BufferDeps : ComponentDeps {
  BufferDeps() = default;
  BufferDeps(ComponentDeps component) : ComponentDeps(std::move(component)) {}  // NOLINT: see above

  OnRemoved on_removed;  // for buffers of items
};

// What the coordinator of a parallel run, which holds no rows, has in the place of a buffer of sequences: a buffer of items
// (data/items.h). Each item is a sequence of rows, which collectors announce and learners read as a whole.
//
//     config    "sequence" { unroll_len: 20 overlap: 10 priority {} }, replay_buffer_size 100000
//     config    "advanced", replay_buffer_size 10000       of the buffer of items
//     items     {chunk 7, row 0, length 20}, {chunk 7, row 10, length 20}, ...
struct ItemBuffer {
  BufferConfig config;      // its type tells removed items
  ItemSequences sequences;  // how collectors cut their rows into items
};

// A type of buffer: its name, its default config, and how to create one.
struct BufferDescriptor {
  std::string name;
  BufferConfig default_config;
  std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(const BufferConfig&, const BufferDeps&)>
      create;
  bool tells_removed_items = false;  // whether `create` makes use of BufferDeps::on_removed
  bool takes_remover = false;        // whether `create` makes use of the config's remover
  // For types that draw sequences or whole episodes: returns what takes their place in a parallel run, or
  // kInvalidArgument with a sentence for a setting that has none. `create` has taken the config. Empty: each row is an item.
  std::function<absl::StatusOr<ItemBuffer>(const BufferConfig&)> items;
};
Registry<BufferDescriptor>& BufferRegistry();

// Creates a buffer, or finds its type.
//   kNotFound         no linked type has this name; the message lists the names that are linked
//   kInvalidArgument  the config has problems, all of which the message lists; or on_removed is set,
//                     but this type cannot report removed items, or a remover, but it takes none
//   kInternal         the factory threw or returned null; the message names the type
absl::StatusOr<std::unique_ptr<IBuffer>> create_buffer(const BufferConfig& config,
                                                       const BufferDeps& deps);
absl::StatusOr<BufferDescriptor> get_buffer_cls(const BufferConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_
